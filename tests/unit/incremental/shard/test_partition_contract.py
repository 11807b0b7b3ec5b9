"""Several shards, and producers that write message keys differently: no row is doubled, or lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import pytest

from streamer.incremental.events.key_form import shard_of
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryServer
from worlds.shards import Driven, Shard
from worlds.small_tables import AGE, table

SHARDS, PEOPLE = 4, 200
TABLE = replace(table(AGE), kept=())
SCHEMA = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "name": "s.people.Key"}

Sent = tuple[bytes | None, bytes | None]
KeyOf = Callable[[int], bytes]


def plain(number: int) -> Sent:
    return str(number).encode(), msgspec.json.encode({"op": "insert", "row": {"id": number, "age": number % 20 + 1}})


def update(number: int, message_key: bytes | None) -> Sent:
    return message_key, msgspec.json.encode({"op": "u", "before": None, "after": {"id": number, "age": 3}})


def connect(number: int) -> bytes:
    return b'{"id":%d}' % number


def connect_with_schema(number: int) -> bytes:
    return msgspec.json.encode({"schema": SCHEMA, "payload": {"id": number}})


class Shards:
    """Every shard of a table over a memory store; each reads what murmur2 sends it."""

    def __init__(self) -> None:
        server = MemoryServer()
        self.outlets = [Shard(TABLE, server, number=number, shards=SHARDS) for number in range(SHARDS)]
        self.inputs: list[list[Message]] = [[] for _ in range(SHARDS)]
        self.publishers: list[Driven] = []

    def send(self, messages: Iterable[Sent]) -> None:
        for message_key, value in messages:
            shard = shard_of(message_key or value or b"", SHARDS)
            self.inputs[shard].append(Message(len(self.inputs[shard]), message_key, value))

    def work(self, batch: int = 1000) -> None:
        """New workers take every shard over and read to the end."""
        self.publishers = []
        for shard, messages in zip(self.outlets, self.inputs, strict=True):
            shard.end = len(messages)
            publisher = shard.publisher(secret=b"of every run")
            for first in range(publisher.take_over(shard), len(messages), batch):
                publisher.step(messages[first : first + batch])
            self.publishers.append(publisher)

    @property
    def rows(self) -> int:
        return sum(publisher.engine.n_rows for publisher in self.publishers)

    @property
    def key_forms(self) -> set[str]:
        return {publisher.meta.key_form for publisher in self.publishers}

    @property
    def refused(self) -> Counter[str]:
        return Counter(reason for outlet in self.outlets for reason in outlet.reasons)


@pytest.fixture
def shards() -> Shards:
    """All people, inserted under bare keys."""
    shards = Shards()
    shards.send(plain(number) for number in range(PEOPLE))
    shards.work()
    assert (shards.rows, shards.key_forms, shards.refused) == (PEOPLE, {"bare"}, Counter())
    return shards


@pytest.mark.parametrize("key_of", [connect, connect_with_schema])
def test_updates_under_another_form_of_key_become_no_second_copies(shards: Shards, key_of: KeyOf) -> None:
    shards.send(update(number, key_of(number)) for number in range(PEOPLE))
    shards.work()
    assert shards.rows == PEOPLE
    assert shards.refused == {"message-key-form": PEOPLE}
    assert "key.converter" in shards.outlets[0].letters[0]["detail"]


def test_deletions_that_come_to_other_shards_than_their_rows_are_told(shards: Shards) -> None:
    shards.send((connect(number), None) for number in range(PEOPLE))
    shards.work()
    assert shards.refused == {"message-key-form": PEOPLE}


def test_messages_without_key_and_in_wrong_partitions_are_refused(shards: Shards) -> None:
    shards.send(update(number, None) for number in range(PEOPLE))
    for number in range(PEOPLE):  # as a producer places them that knows no murmur2
        shard = number % SHARDS
        shards.inputs[shard].append(Message(len(shards.inputs[shard]), *update(number, str(number).encode())))
    shards.work()
    by_chance = sum(shard_of(str(number).encode(), SHARDS) == number % SHARDS for number in range(PEOPLE))
    assert shards.rows == PEOPLE
    assert shards.refused == {"message-key-missing": PEOPLE, "wrong-partition": PEOPLE - by_chance}


def test_the_first_row_change_that_is_applied_decides_and_a_refused_one_does_not() -> None:
    shards = Shards()
    shards.send((connect(number), b'{"op": "delete", "key": %d}' % number) for number in range(PEOPLE))
    shards.send(update(number, connect_with_schema(number)) for number in range(PEOPLE))
    shards.send((connect_with_schema(number), b"null") for number in range(50))
    shards.work()
    assert shards.refused == {"key-unknown": PEOPLE}
    assert shards.rows == PEOPLE - 50
    (form,) = shards.key_forms
    assert form.startswith("json-schema:")


@pytest.mark.parametrize("batch", [1, 7])
def test_the_same_messages_teach_the_same_form_however_they_are_cut_and_whoever_reads_on(batch: int) -> None:
    messages = [plain(number) for number in range(60)]
    messages += [update(number, connect(number)) for number in range(100)]
    messages += [(b"%d" % number, b"null") for number in range(10)]
    whole, pieces = Shards(), Shards()
    whole.send(messages)
    whole.work()
    for first in range(0, len(messages), 23):
        pieces.send(messages[first : first + 23])
        pieces.work(batch)
    assert [p.meta.key_form for p in whole.publishers] == [p.meta.key_form for p in pieces.publishers]
    assert whole.refused == pieces.refused
    assert [p.meta.digest for p in whole.publishers] == [p.meta.digest for p in pieces.publishers]
