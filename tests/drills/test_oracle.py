"""The judge of the drills, judged: a run that nothing happened to passes, and every kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields

from drills.oracle import Found, Oracle, reference
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import State
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.patients import Changes, write_table

N_MESSAGES, BATCH = 600, 50


class Remains:
    """What a quiet run of one shard leaves behind, in memory."""

    def __init__(self, table: Table) -> None:
        changes = Changes(1)
        changes.more(N_MESSAGES)
        messages = [replace_fields(m, timestamp=1_000 * m.offset) for m in changes.messages[0]]
        cuts = [Position(0, end, 0, 0, 0, 0) for end in range(BATCH, N_MESSAGES + 1, BATCH)]
        self.kept: State | None = None
        self.outbox: list[tuple[int, OutboxEntry]] = []
        transcript, self.memory = reference(
            table, 0, InputState({"live": "made once"}, 1, 0, len(messages)), messages, cuts, b"of a quiet run"
        )
        self.topics = {
            kind: [_found(i, *sent) for i, sent in enumerate(transcript.sent[kind])] for kind in (LIVE, DEAD_LETTERS)
        }
        self.topics[CHANGES] = [_found(m.offset, m.key, m.value, {}) for m in messages]
        self.topics[POSITIONS] = [_found(i, b"0", p.to_json(), {}) for i, p in enumerate(transcript.positions)]

    def records(self, kind: str, shard: int) -> list[Found]:
        return self.topics[kind]

    def store(self, shard: int) -> Any:
        return SimpleNamespace(
            meta=self.memory.meta,
            load=lambda: self.kept or self.memory.load(),
            outbox=lambda: self.outbox or self.memory.outbox(),
        )


def _found(offset: int, key: bytes | None, value: bytes | None, headers: dict[str, bytes]) -> Found:
    return Found(offset, key, value, headers, float(offset))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return load_table(write_table(tmp_path_factory.mktemp("table"), "judged"))


@pytest.fixture
def remains(table: Table) -> Remains:
    return Remains(table)


def test_what_a_quiet_run_leaves_passes(table: Table, remains: Remains) -> None:
    verdict = Oracle(table, 1, remains).judge()
    assert verdict.events == N_MESSAGES
    assert verdict.releases == len(remains.topics[POSITIONS]) == N_MESSAGES // BATCH
    assert verdict.records == len(remains.topics[LIVE])
    assert verdict.stall_seconds == 1


def lose(kind: str) -> Callable[[Remains], None]:
    return lambda remains: remains.topics[kind].pop(len(remains.topics[kind]) // 2) and None


def double(kind: str) -> Callable[[Remains], None]:
    return lambda remains: remains.topics[kind].append(remains.topics[kind][-1])


def disorder(remains: Remains) -> None:
    records = remains.topics[LIVE]
    records[10], records[11] = records[11], records[10]


def falsify_a_row(remains: Remains) -> None:
    last = max(i for i, found in enumerate(remains.topics[LIVE]) if found.value is not None)
    found = remains.topics[LIVE][last]
    remains.topics[LIVE][last] = found._replace(value=(found.value or b"").replace(b'"problem"', b'"Problem"'))


def falsify_a_header(remains: Remains) -> None:
    found = remains.topics[LIVE][-1]
    remains.topics[LIVE][-1] = found._replace(headers={**found.headers, "part": b"1/2"})


def leave_a_message_unread(remains: Remains) -> None:
    remains.topics[CHANGES].append(_found(N_MESSAGES, b"new", b"{}", {}))


def forget_a_row(remains: Remains) -> None:
    state = remains.memory.load()
    assert state is not None
    remains.kept = replace(state, kept=replace(state.kept, records=list(state.kept.records)[1:]))


def keep_something_unpublished(remains: Remains) -> None:
    remains.outbox = [(1, OutboxEntry(LIVE, b"key", b"value"))]


DAMAGES: dict[str, Callable[[Remains], None]] = {
    "a published record lost": lose(LIVE),
    "a dead letter lost": lose(DEAD_LETTERS),
    "a position lost": lose(POSITIONS),
    "a published record doubled": double(LIVE),
    "a dead letter doubled": double(DEAD_LETTERS),
    "a position doubled": double(POSITIONS),
    "two records out of order": disorder,
    "a row falsified": falsify_a_row,
    "a header falsified": falsify_a_header,
    "a message unread": leave_a_message_unread,
    "a row forgotten by the store": forget_a_row,
    "an outbox that is not empty": keep_something_unpublished,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found(table: Table, remains: Remains, damage: Callable[[Remains], None]) -> None:
    damage(remains)
    with pytest.raises(AssertionError):
        Oracle(table, 1, remains).judge()
