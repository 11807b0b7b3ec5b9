"""Which key form `produce` finds in a topic: the one that its shards have learned, and never a guess.

A wrong guess sends rows that every shard refuses; the shards' own rule is `events/key_form.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from streamer.errors import Conflict, UsageError
from streamer.incremental.events.key_form import BARE, shard_of
from streamer.incremental.events.registered_schemas import NoSchemas
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.loading.key_form import OFFSETS_LOOKED_AT, assumed_form, check_one_form, key_form_seen
from worlds.kafka_in_memory import TopicsInMemory
from worlds.small_tables import YEARS, table

PEOPLE, TOPIC = table(YEARS, k=2), "people.changes"
TRUNCATE = (None, b'{"op":"truncate"}')
JSON = 'json:{"id":number}'

Record = tuple[bytes | None, bytes | None]


def bare(number: int) -> bytes:
    return b"%d" % number


def in_json(number: int) -> bytes:
    return b'{"id":%d}' % number


def insertion(key: bytes | None, number: int) -> Record:
    return key, msgspec.json.encode({"op": "insert", "row": {"id": number, "years": 3, "problem": "flu"}})


def bare_rows(count: int) -> list[Record]:
    return [insertion(bare(number), number) for number in range(count)]


def json_rows(count: int) -> list[Record]:
    return [insertion(in_json(number), number) for number in range(count)]


def seen_in(*records: Record | None, begins: int = 0) -> str | None:
    topics = TopicsInMemory({TOPIC: 1})
    topics.write(TOPIC, 0, *records)
    topics.expire(TOPIC, 0, begins)
    form = key_form_seen(topics, TOPIC, PEOPLE, NoSchemas())
    return None if form is None else form.name


def test_an_input_without_messages_tells_no_form() -> None:
    assert seen_in() is None


@pytest.mark.parametrize(("rows", "form"), [(bare_rows(3), "bare"), (json_rows(3), JSON)])
def test_the_first_insertion_tells_the_form(rows: list[Record], form: str) -> None:
    assert seen_in(*rows) == form


def test_rows_that_the_shard_refused_for_their_form_do_not_change_it() -> None:
    assert seen_in(*bare_rows(1), *json_rows(20)) == "bare"


def test_after_a_truncation_the_next_insertion_shows_the_form() -> None:
    assert seen_in(*bare_rows(5), TRUNCATE) is None
    assert seen_in(*bare_rows(5), TRUNCATE, *json_rows(1)) == JSON


def test_what_no_shard_could_take_as_its_first_row_tells_nothing() -> None:
    deletion = bare(7), b'{"op":"delete","key":7}'
    unreadable = in_json(7), b"not JSON"
    without_key = insertion(None, 7)
    of_another_row = insertion(in_json(8), 7)
    markers = None
    assert seen_in(deletion, unreadable, without_key, of_another_row, markers) is None
    assert seen_in(deletion, unreadable, without_key, of_another_row, markers, *json_rows(1)) == JSON


def test_a_row_that_lies_in_another_shard_than_its_key_gives_tells_nothing() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    misplaced = next(number for number in range(99) if shard_of(bare(number), 2) == 1)
    topics.write(TOPIC, 0, insertion(bare(misplaced), misplaced))
    assert key_form_seen(topics, TOPIC, PEOPLE, NoSchemas()) is None


def test_shards_that_have_learned_different_forms_are_named_and_nothing_is_guessed() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    for shard, key_of in ((0, bare), (1, in_json)):
        number = next(number for number in range(99) if shard_of(key_of(number), 2) == shard)
        topics.write(TOPIC, shard, insertion(key_of(number), number))
    with pytest.raises(UsageError) as refused:
        key_form_seen(topics, TOPIC, PEOPLE, NoSchemas())
    assert f"shard 0: bare; shard 1: {JSON}" in str(refused.value)
    assert "streamer produce --truncate" in str(refused.value), "the remedy"


def test_only_both_ends_of_a_long_input_are_read() -> None:
    topics = TopicsInMemory({TOPIC: 1})
    topics.write(TOPIC, 0, *bare_rows(5 * OFFSETS_LOOKED_AT))
    form = key_form_seen(topics, TOPIC, PEOPLE, NoSchemas())
    assert form is not None
    assert form.name == "bare"
    offsets = {record.offset() for record in topics.read}
    assert 0 in offsets
    assert 5 * OFFSETS_LOOKED_AT - 1 in offsets
    assert 2 * OFFSETS_LOOKED_AT not in offsets


def test_a_form_that_may_have_changed_between_the_ends_is_in_doubt() -> None:
    with pytest.raises(UsageError, match="several forms"):
        seen_in(*bare_rows(2 * OFFSETS_LOOKED_AT), TRUNCATE, *json_rows(2 * OFFSETS_LOOKED_AT))


def test_a_truncation_at_the_end_settles_what_was_in_doubt() -> None:
    assert seen_in(*bare_rows(2 * OFFSETS_LOOKED_AT), TRUNCATE, *json_rows(2)) == JSON


def test_where_the_beginning_has_expired_what_is_left_must_agree() -> None:
    assert seen_in(*bare_rows(9), *json_rows(9), begins=9) == JSON
    with pytest.raises(UsageError, match="several forms"):
        seen_in(*bare_rows(9), *json_rows(9), begins=5)


def test_a_form_that_only_the_shards_remember_is_not_replaced_by_a_guess() -> None:
    with pytest.raises(UsageError, match="keys are written as json-schema:ab"):
        assumed_form(PEOPLE, ["", "json-schema:ab"])
    assert assumed_form(PEOPLE, ["", "bare"]) == BARE


@pytest.mark.parametrize(
    ("chosen", "topic", "fits"),
    [([0], "now", False), ([0, 1], "now", True), ([0, 1, 2, 3], "now", True), ([0], "recreated", True)],
)
def test_some_shards_are_not_loaded_by_another_form_of_keys_than_the_rest_was(
    chosen: list[int], topic: str, fits: bool
) -> None:
    forms, said = [None, "bare", "json:text", ""], "shard 1 has its rows by message keys written as bare"
    metas = [None if form is None else Meta(key_form=form, topic_ids={CHANGES: "now"}) for form in forms]
    stores = [SimpleNamespace(meta=lambda meta=meta: meta) for meta in metas]
    states = [SimpleNamespace(topic_ids={CHANGES: topic})] * 4
    shards: Any = SimpleNamespace(chosen=chosen, stores=stores, states=states)
    with nullcontext() if fits else pytest.raises(Conflict, match=said):
        check_one_form(shards, "json:text")
