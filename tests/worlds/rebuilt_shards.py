"""A held shard without servers, whose rebuilds are stepped by hand: control topic and algorithm are the test's."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import pytest
from agents.pace import Pace
from agents.rebuilds import ShardRebuilds

from agents.anonymizer import NotAnonymized, Regrouped, answered, regrouped
from agents.control import Asked, News
from agents.shard import HeldShard
from streamer.errors import StreamerError
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Placed, Request
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Limits, Rebuilding, Table
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS

NEVER = Rebuilding(every=None, drift=None)


NOW = 1_764_000_000


class Clock:
    """Stands still until the test sets it."""

    def __init__(self) -> None:
        self.seconds = float(NOW)

    def __call__(self) -> float:
        return self.seconds

    @classmethod
    def in_place_of(cls, monkeypatch: pytest.MonkeyPatch, *names: str) -> Clock:
        """One for all the clocks of these names."""
        clock = cls()
        for name in names:
            monkeypatch.setattr(name, clock)
        return clock


class Kafka:
    """An empty input, an outlet that takes everything, and a control topic that the test writes."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.written_at = 0.0
        self.failure: StreamerError | None = None
        self.read: list[Message] = []
        """What the input holds for who reads it once more."""
        self.lost = ""
        self._position: Position | None = None

    def state(self) -> InputState:
        return InputState({}, 1, 0, 1 << 40)

    def ask(self) -> None: ...

    def check(self, *kinds: str) -> None: ...

    def begins(self) -> int:
        return 0

    def messages_at(self, offsets: Sequence[int]) -> list[Message]:
        return [message for message in self.read if message.offset in offsets]

    def messages(self, start: int, end: int) -> Iterator[list[Message]]:
        yield [message for message in self.read if start <= message.offset < end]

    def placed(self) -> list[Placed]:
        return []

    def skips(self, topic_id: str) -> frozenset[int]:
        return frozenset()

    def fence(self) -> None: ...

    def position(self) -> Position | None:
        return self._position

    def publish(self, records: object, position: Position) -> None:
        self._position = position

    def since(self, shard: int, offset: int) -> Future[News]:
        answer: Future[News] = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
        else:
            asked = [Asked(i, self.written_at, value) for i, value in enumerate(self.asked) if i >= offset]
            answer.set_result(News(tuple(asked), len(self.asked)))
        return answer


class Job:
    """A region; the test says when it is done, and how."""

    def __init__(self, table: Table, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None) -> None:
        self.table, self.rows, self.algorithm, self.seed, self.standing = table, rows, algorithm, seed, standing
        self.result: Future[Regrouped] = Future()
        self.abandoned = False

    def abandon(self) -> None:
        self.abandoned = True

    def done(self) -> None:
        groups = answered(self.table, self.rows, self.algorithm, self.seed, self.standing)
        self.result.set_result(regrouped(groups))

    def gives(self, groups: list[Ints]) -> None:
        self.result.set_result(Regrouped(groups, 0.5))

    def fails(self, why: str) -> None:
        self.result.set_exception(NotAnonymized(why))


class Algorithms:
    """In place of the other process. at_once: every region is done as soon as it is asked for."""

    def __init__(self, table: Table) -> None:
        self.jobs: list[Job] = []
        self.at_once = True
        self.ready = True
        self.pace = Pace(lambda: 0.0)
        self._table = table

    def is_ready(self) -> bool:
        return self.ready

    def submit(self, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Job:
        self.jobs.append(Job(self._table, rows, algorithm, seed, standing))
        if self.at_once:
            self.jobs[-1].done()
        return self.jobs[-1]


class RebuiltShard:
    """Patients in one shard, in regions of forty rows."""

    def __init__(self, rebuilding: Rebuilding = NEVER, limits: Limits | None = None) -> None:
        table = load_table(PATIENTS)
        self.table = replace(table, rebuilding=rebuilding, limits=limits or Limits(transaction_rows_max=40))
        self.kafka, self.algorithms = Kafka(), Algorithms(self.table)
        self.store = MemoryStore(MemoryServer(), self.table.name, 0)
        outside = cast(Any, self.kafka)
        self.shard = HeldShard(self.table, 0, self.store, outside, outside, threading.Lock())
        self.rebuilds = ShardRebuilds(self.table, self.shard, outside, cast(Any, self.algorithms))
        self._rng = random.Random(5)
        self._sent = 0

    async def take_over(self) -> None:
        await self.shard.take_over()
        self.rebuilds.taken_over()

    async def come(self, count: int) -> None:
        """So many people come, each between others."""
        await self.shard.step([self._one() for _ in range(count)])

    def asks(self, request: Request | bytes, written_at: float) -> None:
        self.kafka.asked.append(request if isinstance(request, bytes) else request.to_json())
        self.kafka.written_at = written_at

    async def go_on(self, times: int = 200) -> None:
        for _ in range(times):
            self.rebuilds._asked_at = 0.0
            await self.rebuilds.go_on()

    def rows(self) -> list[str]:
        return sorted(source_key for source_key, _ in self.shard._work.machine.engine.index_table())

    def states(self) -> list[tuple[str, str]]:
        """Id and state of what is remembered."""
        return [(one.rebuild.id, one.state) for one in self.shard.meta.rebuilds]

    def _one(self) -> Message:
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
