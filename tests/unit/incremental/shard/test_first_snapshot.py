"""A shard's first snapshot between its batches: held back, ended by what is known, released by the other process."""

from __future__ import annotations

import json

import pytest

from agents.anonymizer import FIRST, NotAnonymized
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import Messages
from streamer.incremental.shard.requests import EndSnapshot, FullRebuild
from streamer.incremental.shard.snapshot import SETTLED_SECONDS
from streamer.incremental.store.base import CHANGE, ELSEWHERE, LAST, OPERATOR, TABLES, Meta, Snapshot
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from worlds.rebuilt_shards import CLOCK, NOW, Clock, RebuiltShard


@pytest.fixture(autouse=True)
def clock() -> Clock:
    CLOCK.seconds = NOW
    return CLOCK


class Other(MemoryStore):
    """Of another shard, which may have seen the end."""

    has_seen = False
    times_asked = 0

    def meta(self) -> Meta | None:
        self.times_asked += 1
        return Meta(snapshot=Snapshot(0, TABLES, seen=LAST if self.has_seen else ""))


class SnapshotShard(RebuiltShard):
    """A shard that reads a snapshot, and what its worker does between batches."""

    def __init__(self) -> None:
        super().__init__()
        self.other, knows_nothing = (Other(MemoryServer(), "patients", number) for number in (1, 2))
        self.shard.servers = self.shard.servers._replace(others=lambda _shards: [knows_nothing, self.other])

    def reads(self, count: int, last: str = "true", op: str = "r") -> None:
        messages = [self._captured(op, last if i == count - 1 else "true") for i in range(count)]
        self.drive(Messages(messages))

    def pause(self, idle: bool = True) -> None:
        self.go_on(1, idle)

    @property
    def ended(self) -> str | None:
        snapshot = self.shard.meta.snapshot
        return None if snapshot is None or snapshot.holds else snapshot.ended

    def _captured(self, op: str, snapshot: str) -> Message:
        born = self.one_more()
        row = json.loads(born.value or b"")["row"]
        message = {"op": op, "after": row, "source": {"snapshot": "false" if op != "r" else snapshot}}
        return Message(born.offset, born.key, json.dumps(message).encode())


def held(count: int = 60, last: str = "true") -> SnapshotShard:
    shard = SnapshotShard()
    shard.take_over()
    shard.reads(count, last)
    shard.pause(idle=False)
    return shard


def test_a_snapshot_whose_last_row_has_come_is_released_once_it_is_quiet(clock: Clock) -> None:
    shard = held(last="last")
    clock.seconds += SETTLED_SECONDS - 1
    shard.pause()
    assert shard.ended is None
    shard.reads(1)  # another chunk was late
    shard.pause()
    clock.seconds += SETTLED_SECONDS - 1
    shard.pause()
    assert shard.ended is None
    clock.seconds += 1
    shard.pause()
    assert (shard.ended, shard.shard.meta.release) == (LAST, 0)
    assert [job.algorithm for job in shard.algorithms.jobs] == [FIRST]
    assert len(shard.rows()) == 61
    assert not shard.shard.engine.n_pending


def test_a_change_ends_it_and_what_was_read_with_it_follows() -> None:
    shard = held()
    shard.reads(3, op="c")
    assert shard.ended is None
    shard.pause(idle=False)
    assert (shard.ended, len(shard.rows())) == (CHANGE, 63)
    assert shard.shard.meta.release > 0


def test_another_shard_that_has_seen_the_end_is_believed_when_it_is_quiet(clock: Clock) -> None:
    shard = held()
    shard.other.has_seen = True
    shard.pause()
    assert shard.ended is None
    clock.seconds += SETTLED_SECONDS
    shard.pause(idle=False)
    assert shard.ended is None
    shard.pause()
    assert shard.ended == ELSEWHERE


def test_other_shards_are_asked_when_it_is_quiet_and_not_more_than_once_a_second(clock: Clock) -> None:
    shard, times = held(), []
    assert [words for _, words in shard.shard.machine.activities.said] == [
        "holds back a snapshot that began at offset 0"
    ]
    for seconds, idle in ((4.9, True), (0.1, False), (0.0, True), (0.0, True), (1.0, True), (0.5, True), (1.5, True)):
        clock.seconds += seconds
        shard.pause(idle)
        times.append(shard.other.times_asked)
    assert times == [0, 0, 1, 1, 1, 2, 3]
    assert len(shard.shard.machine.activities.said) == 1


def test_nobody_is_asked_by_a_shard_that_has_seen_the_last_row_itself(clock: Clock) -> None:
    shard = held(last="last")
    clock.seconds += 100.0
    shard.pause()
    assert (shard.ended, shard.other.times_asked) == (LAST, 0)


def test_it_waits_for_ever_where_nobody_knows_and_an_operator_ends_it(clock: Clock) -> None:
    shard = held()
    clock.seconds += 100_000
    shard.pause()
    assert shard.ended is None
    shard.asks(EndSnapshot(0, since=99), written_at=clock.seconds)
    for _ in range(3):
        shard.pause()
    assert shard.ended is None
    assert shard.shard.meta.snapshot is not None
    shard.asks(EndSnapshot(0, shard.shard.meta.snapshot.since), written_at=clock.seconds)
    for _ in range(5):
        shard.pause()
    assert shard.ended == OPERATOR


def test_a_take_over_begins_to_count_anew(clock: Clock) -> None:
    shard = held(last="last")
    clock.seconds += SETTLED_SECONDS
    shard.take_over()
    shard.pause()
    assert shard.ended is None
    clock.seconds += SETTLED_SECONDS
    shard.pause()
    assert shard.ended == LAST


def test_a_rebuild_is_refused_while_rows_are_held_back() -> None:
    shard = held()
    shard.asks(FullRebuild(0, "a", NOW), written_at=NOW)
    for _ in range(3):
        shard.pause()
    assert shard.states() == [("a", "refused")]
    assert shard.ended is None


def test_rows_that_cannot_be_anonymized_end_the_worker_with_the_reason_and_are_tried_again(clock: Clock) -> None:
    shard = held(last="last")
    shard.algorithms.at_once = False
    clock.seconds += SETTLED_SECONDS
    shard.pause()
    shard.algorithms.jobs[0].fails("the process ended")
    with pytest.raises(NotAnonymized):
        shard.pause()
    shard.algorithms.at_once = True
    shard.take_over()
    shard.pause()
    clock.seconds += SETTLED_SECONDS
    shard.pause()
    assert shard.ended == LAST
