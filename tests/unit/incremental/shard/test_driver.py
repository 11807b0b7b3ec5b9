"""A shard driven: what it needs of a registry, and its input read again, without its QI groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from simulation.simulator import World
from simulation.story import MESSAGES, PEOPLE, events
from streamer.errors import EventRefused
from streamer.incremental.core import step
from streamer.incremental.core.layout import Shard
from streamer.incremental.events.registered_schemas import NoSchemas
from streamer.incremental.shard.driver import read_again
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import RowsRead
from streamer.incremental.shard.retrial import Judged
from streamer.incremental.store.memory import MemoryStore
from streamer.table.arrays import Records
from streamer.table.published.schemas import values_bytes_max
from streamer.table.schema import Limits, Table
from worlds.published_groups import FORMS
from worlds.shards import Driven, insert
from worlds.shards import Shard as OneShard


def test_the_schemas_of_messages_are_fetched_before_they_are_applied_or_applied_late() -> None:
    fetched: list[list[int]] = []

    class Registry(NoSchemas):
        def learn(self, ids: Iterable[int]) -> None:
            fetched.append(sorted(ids))

    shard = OneShard()
    owner = Driven(PEOPLE, 0, MemoryStore(shard.server, "people", 0), shard, schemas=Registry())
    owner.take_over(shard)
    framed = [Message(offset, b"\0\0\0\0\x05", b"\0\0\0\0%ctext" % id_) for offset, id_ in ((0, 7), (1, 9))]
    owner.step([*framed, insert(2)])
    gone = Judged(1, None, EventRefused("message-gone", ""))
    owner.retry([Judged(0, framed[0], None), gone], heard=1)
    assert fetched == [[5, 7, 9], [5, 7]]


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
    runs, advance = [], step.advance

    def counted(s: Shard, operations: Records, cells: Any, first: int, drains: bool) -> int:
        runs.append(len(operations) - first)
        return advance(s, operations, cells, first, drains)

    monkeypatch.setattr(step, "advance", counted)
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
