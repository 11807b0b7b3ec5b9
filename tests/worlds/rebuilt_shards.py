"""A shard without servers, and what a worker does between its batches: control topic and algorithm are the test's."""

from __future__ import annotations

import json
import random
from concurrent.futures import Future
from dataclasses import replace

from agents.anonymizer import FIRST, NotAnonymized, RebuildThrottle, answered, regrouped
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.shard.bootstrap import RECORDS_MAX
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import DeafOutlet, Position
from streamer.incremental.shard.ready import (
    Assigned,
    Event,
    Facts,
    Free,
    GroupRegion,
    GroupSnapshot,
    JobDone,
    JobFailed,
    Messages,
    SnapshotGrouped,
    Tick,
)
from streamer.incremental.shard.ready import Request as Asked
from streamer.incremental.shard.requests import EpochOver, Request
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.store.base import Meta
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import NO_REPAIR, Limits, RebuildRules, Table
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.shards import Driven

NEVER = RebuildRules(every=None, drift=None)


NOW = 1_764_000_000


class Clock:
    """Stands still until the test sets it."""

    def __init__(self) -> None:
        self.seconds = float(NOW)


CLOCK = Clock()
"""Of all shards here; a test that moves it sets it back."""


class Kafka(DeafOutlet):
    """An empty input, an outlet that takes everything, and a control topic that the test writes."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.written_at = 0.0
        self.piece_max = 1000
        self.read: list[Message] = []
        """What the input holds for who reads it once more."""
        self._position: Position | None = None

    def state(self, last: int | None = None) -> InputState:
        return InputState({}, 1, 0, 1 << 40)

    def ask(self) -> None: ...

    def check(self, meta: Meta) -> None: ...

    def piece(self, start: int, end: int) -> tuple[list[Message], int]:
        through = min(end, start + self.piece_max)
        return [message for message in self.read if start <= message.offset < through], through

    def epochs_over(self) -> list[EpochOver]:
        return []

    def secret(self) -> None: ...

    def holds_sealed(self, since: int) -> bool:
        return False

    def position(self) -> Position | None:
        return self._position

    def publish(self, records: object, position: Position) -> None:
        self._position = position


class Job:
    """A region; the test says when it is done, and how."""

    def __init__(self, table: Table, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None) -> None:
        self.table, self.rows, self.algorithm, self.seed, self.standing = table, rows, algorithm, seed, standing
        self.result: Future[JobDone] = Future()
        self.abandoned = False

    def abandon(self) -> None:
        self.abandoned = True

    def done(self) -> None:
        groups = answered(self.table, self.rows, self.algorithm, self.seed, self.standing)
        self.result.set_result(regrouped(groups))

    def gives(self, groups: list[Ints]) -> None:
        self.result.set_result(JobDone(groups, 0.5))

    def fails(self, why: str) -> None:
        self.result.set_exception(NotAnonymized(why))


SECRET = bytes(range(SECRET_BYTES))
"""The same in every run: what changes in which region depends on it."""


class Algorithms:
    """In place of the other process. at_once: every region is done as soon as it is asked for."""

    def __init__(self, table: Table) -> None:
        self.jobs: list[Job] = []
        self.at_once = True
        self.ready = True
        self.pace = RebuildThrottle(lambda: 0.0)
        self.seconds = 0.0
        """That go by while a region is in work."""
        self._table = table

    def is_ready(self) -> bool:
        return self.ready

    def submit(self, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Job:
        CLOCK.seconds += self.seconds
        self.jobs.append(Job(self._table, rows, algorithm, seed, standing))
        if self.at_once:
            self.jobs[-1].done()
        return self.jobs[-1]


class RebuiltShard:
    """Patients in one shard, in regions of forty rows, and what a worker does between their batches."""

    def __init__(self, rebuilding: RebuildRules = NEVER, limits: Limits | None = None) -> None:
        table = replace(load_table(PATIENTS), repair=NO_REPAIR)  # with it the table would not drift
        self.table = replace(table, rebuilding=rebuilding, limits=limits or Limits(transaction_rows_max=40))
        self.kafka, self.algorithms = Kafka(), Algorithms(self.table)
        self.store = MemoryStore(MemoryServer(), self.table.name, 0)
        self.shard = Driven(self.table, 0, self.store, self.kafka, SECRET, holding=Holding.SNAPSHOT)
        self.shard.servers = self.shard.servers._replace(input=self.kafka)
        self.since = 0.0
        self.facts = Facts("", Meta())
        self._heard = 0
        self._job: Job | None = None
        self._rng = random.Random(5)
        self._sent = 0

    def take_over(self) -> None:
        self.drop_job()
        self.drive(Assigned(clock=CLOCK.seconds))
        self._heard = self.shard.meta.control_next

    def come(self, count: int) -> None:
        """So many people come, each between others."""
        self.drive(Messages([self.one_more() for _ in range(count)]))

    def asks(self, request: Request | bytes, written_at: float) -> None:
        self.kafka.asked.append(request if isinstance(request, bytes) else request.to_json())
        self.kafka.written_at = written_at

    def go_on(self, times: int = 200, idle: bool = True) -> None:
        for _ in range(times):
            self._hear()
            self.drive(Tick(CLOCK.seconds, CLOCK.seconds, idle, self.since, self._rng.getrandbits(64)))
            wanted = self.shard.machine.wants_region if self._job is None else ""
            if wanted and self.algorithms.is_ready() and self.algorithms.pace.begins(self):
                self.drive(Free())
            self._answer()

    def drive(self, event: Event) -> None:
        """Has an event handled, and a job begun that is asked for."""
        ready = self.shard.drive(event)
        self.facts = self.shard.machine.facts
        if isinstance(ready.job, GroupRegion):
            job = ready.job
            self._job = self.algorithms.submit(job.rows, job.algorithm, job.seed, job.standing)
        elif isinstance(ready.job, GroupSnapshot):
            self._job = self.algorithms.submit(ready.job.rows, FIRST, seed(ready.job.secret))
        elif self._job is not None and self.shard.machine.phase is Phase.SERVING and not self._is_wanted:
            self.drop_job()

    @property
    def _is_wanted(self) -> bool:
        return self.shard.machine.activities.at is not None

    def drop_job(self) -> None:
        if self._job is not None:
            self._job.abandon()
        self._job = None
        self.algorithms.pace.ends(self)

    def _answer(self) -> None:
        job = self._job
        if job is None or not job.result.done():
            return
        self._job = None
        event: Event
        if self.shard.machine.phase is Phase.RELEASING:
            event = SnapshotGrouped(job.result.result().groups, RECORDS_MAX)
        elif (error := job.result.exception()) is not None:
            event = JobFailed(str(error))
        else:
            event = JobDone(job.result.result().groups, job.result.result().seconds)
        try:
            self.drive(event)
        finally:
            self.algorithms.pace.ends(self)

    def _hear(self) -> None:
        if not self.shard.meta.commit or self.shard.machine.phase not in (Phase.SERVING, Phase.BUFFERING):
            return
        for offset in range(self._heard, len(self.kafka.asked)):
            self._heard = offset + 1
            self.drive(Asked(offset, self.kafka.written_at, self.kafka.asked[offset]))

    def rows(self) -> list[str]:
        return sorted(source_key for source_key, _ in self.shard.engine.index_table())

    def states(self) -> list[tuple[str, str]]:
        """Id and state of what is remembered."""
        return [(one.rebuild.id, one.state) for one in self.shard.meta.rebuilds]

    def one_more(self) -> Message:
        rng, self._sent = self._rng, self._sent + 1
        row = {
            "id": f"p{self._sent}",
            "age": rng.randrange(120),
            "zip": rng.randrange(10000, 20000),
            "bmi": rng.randrange(150, 450) / 10,
            "sex": rng.choice(["Female", "Male"]),
            "problem": "flu",
        }
        return Message(self._sent - 1, f"p{self._sent}".encode(), json.dumps({"op": "insert", "row": row}).encode())
