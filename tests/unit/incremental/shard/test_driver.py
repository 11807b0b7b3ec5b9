"""The input read again: the very rows, letters and counts that the shard came to, without its QI groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from simulation.simulator import World
from simulation.story import MESSAGES, PEOPLE, events
from streamer.errors import ShardRefused
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.shard.driver import Between, read_after_truncation, read_again
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.ready import RowsRead, Truncated
from streamer.incremental.shard.requests import Placed
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import CONTROL
from streamer.table.arrays import Records
from streamer.table.published.schemas import values_bytes_max
from streamer.table.schema import Limits, Table
from worlds.patients import Collected
from worlds.published_groups import FORMS
from worlds.shards import Driven


def read(messages: list[Message], skips: tuple[int, ...] = (), table: Table = PEOPLE) -> RowsRead:
    batches = [messages[i : i + 7] for i in range(0, len(messages), 7)]
    return read_again(table, 0, 1, batches, messages[-1].offset + 2, skips)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_the_rows_and_letters_are_those_of_the_shard(seed: int, form: str) -> None:
    messages, people = events(80, seed), replace(PEOPLE, form=form)
    world = World(people, messages, {})
    world.run(batch=5)
    found = read(messages, table=people)
    state = MemoryStore(world.server, "people", 0).load()
    assert state is not None
    rows = {key: record.row for key, record in state.kept.records}
    assert dict(zip(found.rows.source_keys, found.rows.rows(), strict=True)) == rows
    letters = [r.key for records, _ in world.topic.transactions for r in records if r.topic == "dead-letters"]
    assert [letter.key for letter in found.letters] == letters
    assert (found.counts, found.next) == (state.meta.counts, state.meta.next)


def test_a_batch_runs_at_once_though_no_group_is_ever_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, advance = [], CoreArrays._advance

    def counted(held: CoreArrays, operations: Records, cells: Any, drains: bool) -> None:
        runs.append(len(operations))
        advance(held, operations, cells, drains)

    monkeypatch.setattr(CoreArrays, "_advance", counted)
    rows = [{"id": i, "years": i % 10, "city": "a1", "problem": "flu"} for i in range(20)]
    batch = [Message(i, None, msgspec.json.encode({"op": "insert", "row": row})) for i, row in enumerate(rows)]
    read_again(PEOPLE, 0, 1, [batch], 20)
    assert [n for n in runs if n] == [20]


def test_statement_ids_are_told_and_known_again() -> None:
    body = b'{"op": "delete", "where": "years = 3", "statement_id": "s-1"}'
    found = read([*MESSAGES, Message(900, None, body), Message(901, None, body)])
    assert list(found.statement_ids) == ["s-1"]


def test_what_an_operator_passed_over_is_passed_over_again() -> None:
    skipped = MESSAGES[3].offset
    found = read(MESSAGES, (skipped,))
    assert found.skipped == (skipped,)
    assert found.counts.messages == len(MESSAGES)
    assert any(b'"skipped"' in (letter.value or b"") for letter in found.letters)


def test_an_input_without_messages_has_no_rows() -> None:
    found = read_again(PEOPLE, 0, 1, [], 40)
    assert (found.rows.source_keys, found.next, found.counts.messages) == ([], 40, 0)


def test_a_snapshot_and_the_changes_after_it_are_rows_like_any_other() -> None:
    def captured(offset: int, op: str, key: int, years: int) -> Message:
        row = {"id": key, "years": years, "city": "a1", "problem": "flu"}
        return Message(offset, None, msgspec.json.encode({"op": op, "after": row, "source": {"snapshot": "true"}}))

    found = read([*(captured(i, "r", i, i % 10) for i in range(20)), captured(20, "u", 3, 9), captured(21, "r", 4, 4)])
    years = dict(zip(found.rows.source_keys, found.rows.codes[:, 0].tolist(), strict=True))
    assert years == {**{str(i): i % 10 for i in range(20)}, "3": 9}
    assert found.counts.dead_letters == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_was_too_large_for_its_form_is_refused_in_the_same_words(form: str) -> None:
    small = replace(PEOPLE, form=form, limits=Limits(row_bytes_max=1_000))
    rows = ["x" * (values_bytes_max(small) - 2 + more) for more in (0, 1)]
    messages = [
        Message(
            i, None, msgspec.json.encode({"op": "insert", "row": {"id": i, "years": 3, "city": "a1", "problem": said}})
        )
        for i, said in enumerate(rows)
    ]
    world = World(small, messages, {})
    world.run(batch=5)
    found = read(messages, table=small)
    letters = [r.value for records, _ in world.topic.transactions for r in records if r.topic == "dead-letters"]
    assert found.rows.source_keys == ["0"]
    assert [letter.value for letter in found.letters] == letters != []


# -- what stands behind a truncation ----------------------------------------------------------------------------------


def captured(offset: int, key: int, place: int, op: str = "c") -> Message:
    row = None if op == "t" else {"id": key, "years": place % 10, "city": "a1", "problem": "flu"}
    source = {"connector": "postgresql", "lsn": place, "ts_ms": 9}
    return Message(offset, b"%d" % key, msgspec.json.encode({"op": op, "after": row, "source": source}))


STATED = replace(PEOPLE, partitioner_stated=True)
TOLD = [captured(0, 1, 10), captured(1, 2, 20), captured(2, 3, 35), captured(3, 2, 36, "u"), captured(4, 4, 37)]


class Input(InputState):
    """An input that holds these messages."""

    def __init__(self, shards: int, messages: list[Message]) -> None:
        super().__init__({}, shards, 0, len(messages))
        object.__setattr__(self, "read", reading(messages))

    def messages(self, start: int, end: int) -> Iterator[Sequence[Message]]:
        read: Between = self.__dict__["read"]
        return read(start, end)


def reading(messages: list[Message]) -> Between:
    return lambda start, end: iter([[message for message in messages if start <= message.offset < end]])


def test_rows_behind_a_truncation_are_what_later_messages_come_to() -> None:
    found = read_after_truncation(SourcePosition("postgresql", (30,)), STATED, 0, 2, 0, 5, reading(TOLD), skips=())
    assert dict(zip(found.rows.source_keys, found.rows.codes[:, 0].tolist(), strict=True)) == {"2": 6, "3": 5, "4": 7}
    until = read_after_truncation(SourcePosition("postgresql", (30,)), STATED, 0, 2, 0, 3, reading(TOLD), skips=())
    assert until.rows.source_keys == ["3"]
    over = read_after_truncation(SourcePosition("postgresql", (30,)), STATED, 0, 2, 0, 5, reading(TOLD), skips=(2,))
    assert sorted(over.rows.source_keys) == ["2", "4"]


def test_a_source_whose_log_began_anew_is_refused() -> None:
    dated = [Message(0, b"1", b'{"op":"c","source":{"connector":"postgresql","lsn":10,"ts_ms":9000000}}')]
    with pytest.raises(ShardRefused, match="the log has restarted"):
        read_after_truncation(SourcePosition("postgresql", (30,), 1), STATED, 0, 2, 0, 1, reading(dated), skips=())


def test_an_input_that_is_read_again_tells_its_last_truncation_and_letters_alone() -> None:
    messages = [captured(0, 1, 10), captured(1, 0, 30, "t"), captured(2, 3, 35)]
    found = read_again(STATED, 0, 2, [messages], 3)
    assert found.truncated == SourcePosition("postgresql", (30,), at=9)
    assert (found.rows.source_keys, list(found.letters)) == (["3"], [])


@pytest.mark.parametrize(("knows", "keeps"), [(5, ["2", "3", "4"]), (2, [])], ids=["late", "early"])
def test_a_truncation_that_another_shard_read_is_placed_between_two_messages(knows: int, keeps: list[str]) -> None:
    outlet = Collected()
    publisher = Driven(STATED, 1, MemoryStore(MemoryServer(), "people", 1), outlet)
    publisher.take_over(InputState({}, 2, 0, 5))
    publisher.step(TOLD[:knows])
    before = publisher.meta
    publisher.servers = publisher.servers._replace(input=Input(2, TOLD))
    publisher.drive(Truncated(6, SourcePosition("postgresql", (30,))))
    assert sorted(key for key, _ in publisher.engine.index_table()) == keeps
    meta = publisher.meta
    assert (meta.next, meta.counts, meta.outside) == (before.next, before.counts, 0)
    assert (meta.commit, meta.control_next, meta.truncations) == (before.commit + 1, 7, 1)
    placed = Placed(1, SourcePosition("postgresql", (30,)), request=6, next=knows, number=1)
    assert [(record.key, record.value) for record in outlet.sent if record.topic == CONTROL] == [
        (b"1", placed.to_json())
    ]
    publisher.step(TOLD[knows:])
    assert sorted(key for key, _ in publisher.engine.index_table()) == ["2", "3", "4"]


def test_a_key_form_that_changed_with_the_truncation_is_the_shards_when_it_is_placed() -> None:
    """Rows in the new form were refused before the shard heard of it; they are read again, and their letters stay."""

    def keyed(message: Message) -> Message:
        return Message(message.offset, msgspec.json.encode({"id": int(message.key or b"")}), message.value)

    publisher = Driven(STATED, 1, MemoryStore(MemoryServer(), "people", 1), outlet := Collected())
    publisher.take_over(InputState({}, 2, 0, 6))
    messages = [*TOLD[:2], *map(keyed, TOLD[2:])]
    publisher.step(messages)
    assert (publisher.meta.key_form, publisher.meta.counts.dead_letters) == ("bare", 3)
    publisher.servers = publisher.servers._replace(input=Input(2, messages))
    publisher.drive(Truncated(6, SourcePosition("postgresql", (30,), at=9)))
    assert sorted(key for key, _ in publisher.engine.index_table()) == ["2", "3", "4"]
    assert publisher.meta.key_form == 'json:{"id":number}'
    publisher.step([keyed(captured(5, 9, 40))])
    assert sorted(key for key, _ in publisher.engine.index_table()) == ["2", "3", "4", "9"]
    assert sum(record.topic == "dead-letters" for record in outlet.sent) == 3
