"""A shard's world in one process: a model of Kafka, a store that outlives its clients, and faults at numbered steps.

Every call that the loop makes to the store or to the outlet is one numbered step of a run. At each, one of these can
happen, by plan:

* `DIE_BEFORE`, `DIE_AFTER`: the process ends, the call undone or done;
* `LOST_BEFORE`, `LOST_AFTER`: no answer comes, the call undone or done (`ServerUnreachable`);
* `ZOMBIE`: another worker takes the shard over while this one sleeps; then the call goes on as if nothing had happened.

Kafka's model keeps only what consumers that read committed records see: a transaction is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from streamer.errors import Conflict, Fenced, ServerUnreachable
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.publisher import Publisher
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table.schema import Table


class Fault(Enum):
    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    LOST_BEFORE = "lost before"
    LOST_AFTER = "lost after"
    ZOMBIE = "zombie"


class Died(Exception):
    """The process of a worker ended."""


@dataclass
class ModelTopic:
    """The committed output of a shard: transactions in order, and the newest producer's epoch."""

    transactions: list[tuple[list[Outgoing], Position]] = field(default_factory=list)
    epoch: int = 0
    begins: dict[str, int] = field(default_factory=dict)
    """By kind of topic, the first transaction that it holds, where it was deleted and made again."""


class ModelOutlet:
    """An outlet by the rules of Kafka's transactions."""

    def __init__(self, topic: ModelTopic) -> None:
        self._topic = topic
        self._epoch = -1

    def fence(self) -> None:
        self._topic.epoch += 1
        self._epoch = self._topic.epoch

    def position(self) -> Position | None:
        kept = self._topic.transactions[self._topic.begins.get(POSITIONS, 0) :]
        return kept[-1][1] if kept else None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        if self._epoch != self._topic.epoch:
            raise Fenced("the producer was fenced")
        self._topic.transactions.append((list(records), Position.from_json(position.to_json())))


class World:
    """One shard with its input, store and output, and the steps counted so far."""

    def __init__(self, table: Table, messages: Sequence[Message], plan: Mapping[int, Fault]) -> None:
        self.table = table
        self.messages = list(messages)
        self.plan = dict(plan)
        self.server = MemoryServer()
        self.topic = ModelTopic()
        self.topic_ids = {kind: f"first {kind}" for kind in (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)}
        self.steps = 0
        self.snapshots: list[MemoryServer] = []

    def worker(self) -> Publisher:
        store = Faulty(self, MemoryStore(self.server, self.table.name, 0))
        return Publisher(self.table, 0, store, Faulty(self, ModelOutlet(self.topic)))

    def input_state(self) -> InputState:
        kept = self.topic.transactions[self.topic.begins.get(LIVE, 0) :]
        live_begun = any(record.topic == LIVE for records, _ in kept for record in records)
        return InputState(self.topic_ids, 1, 0, self.messages[-1].offset + 1, live_begun)

    def make_anew(self, *kinds: str) -> None:
        """Topics are deleted and made again: empty, and with other ids."""
        for kind in kinds:
            self.topic_ids = {**self.topic_ids, kind: f"{self.topic_ids[kind]}, made anew"}
            self.topic.begins[kind] = len(self.topic.transactions)

    def run(self, batch: int, tries_max: int = 60) -> Publisher:
        """Lets workers follow one another until the input is read and published."""
        worker, dirty, after = self.worker(), True, 0
        for _ in range(tries_max):
            try:
                if dirty:
                    after = worker.take_over(self.input_state())
                    dirty = False
                while rest := [m for m in self.messages if m.offset >= after][:batch]:
                    worker.step(rest)
                    after = rest[-1].offset + 1
                return worker
            except Died:
                worker, dirty = self.worker(), True
            except Fenced:
                worker, dirty = self.worker(), True
            except (ServerUnreachable, Conflict):
                dirty = True
        raise AssertionError("the shard made no progress")

    def other_worker_takes_over(self, batch: int = 1) -> None:
        """A second worker that runs undisturbed, and reads on by one batch."""
        plan, self.plan = self.plan, {}
        other = self.worker()
        after = other.take_over(self.input_state())
        other.step([m for m in self.messages if m.offset >= after][:batch])
        self.plan = plan

    def snapshot(self) -> None:
        self.snapshots.append(deepcopy(self.server))

    def lose_commits(self, to: MemoryServer | None) -> None:
        """The store falls back to an earlier state, or is emptied. Fences are tokens: none comes back."""
        lost = self.server
        self.server = MemoryServer() if to is None else deepcopy(to)
        self.server._fences = lost._fences


class Faulty:
    """Counts the calls to a store or an outlet as steps, and lets the plan's faults happen there."""

    def __init__(self, world: World, target: Any) -> None:
        self._world = world
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._call(getattr(self._target, name), arguments)

    def _call(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        step, self._world.steps = self._world.steps, self._world.steps + 1
        fault = self._world.plan.get(step)
        if fault is Fault.ZOMBIE:
            self._world.other_worker_takes_over()
        elif fault is Fault.DIE_BEFORE:
            raise Died
        elif fault is Fault.LOST_BEFORE:
            raise ServerUnreachable("no answer")
        answer = call(*arguments)
        if fault is Fault.DIE_AFTER:
            raise Died
        if fault is Fault.LOST_AFTER:
            raise ServerUnreachable("no answer")
        return answer
