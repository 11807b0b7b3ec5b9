"""The input read again: the very rows, letters and counts that the shard came to, without its QI groups."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from simulation.simulator import World
from simulation.story import MESSAGES, PEOPLE, events
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.read_again import RowsRead, read_again
from streamer.incremental.store.memory import MemoryStore
from streamer.table.schema import GROUPS


def read(messages: list[Message], skips: tuple[int, ...] = ()) -> RowsRead:
    batches = [messages[i : i + 7] for i in range(0, len(messages), 7)]
    return read_again(PEOPLE, 0, 1, batches, messages[-1].offset + 2, skips)


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_and_letters_are_those_of_the_shard(seed: int) -> None:
    messages = events(80, seed)
    world = World(PEOPLE, messages, {})
    world.run(batch=5)
    found = read(messages)
    state = MemoryStore(world.server, "people", 0).load()
    assert state is not None
    rows = {key: record.row for key, record in state.kept.records}
    assert dict(zip(found.rows.source_keys, found.rows.rows(), strict=True)) == rows
    letters = [r.key for records, _ in world.topic.transactions for r in records if r.topic == "dead-letters"]
    assert [letter.key for letter in found.letters] == letters
    assert (found.counts, found.next) == (state.meta.counts, state.meta.next)


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


def test_the_form_of_what_is_published_decides_nothing_about_the_rows() -> None:
    """A form that limits a row by k was once held to the k of a table that never forms a QI group."""
    groups = replace(PEOPLE, form=GROUPS)
    found = read_again(groups, 0, 1, [MESSAGES], MESSAGES[-1].offset + 2)
    assert found.rows.source_keys == read(MESSAGES).rows.source_keys != []


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
