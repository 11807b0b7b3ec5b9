"""A source of several shards whose table is truncated by command now and then, and a world for every shard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from simulation.simulator import Fault, World
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryStore
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)
SHARDS = 3
NOON_MS = 1_764_000_000_000


@dataclass
class Source:
    """A table of people, what happened to it in order, and the partitions to which a connector has written that."""

    chance: Random
    happened: list[dict[str, object]] = field(default_factory=list)
    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    partitions: list[list[Message]] = field(default_factory=lambda: [[] for _ in range(SHARDS)])

    def happen(self, n: int, truncations: float = 0.04) -> None:
        """n events at random."""
        for _ in range(n):
            if self.chance.random() < truncations:
                self.truncate()
            else:
                self.change(self.chance.randrange(24))

    def change(self, key: int) -> None:
        """A row comes, changes or goes."""
        before = self.rows.get(key)
        if before is not None and self.chance.random() < 0.4:
            del self.rows[key]
            self._log("d", key, before, None)
            return
        city, problem = self.chance.choice(["a1", "a2", "b1", "c1", "d1"]), self.chance.choice(["flu", "cough"])
        self.rows[key] = {"id": key, "years": self.chance.randrange(10), "city": city, "problem": problem}
        self._log("c" if before is None else "u", key, before, self.rows[key])

    def truncate(self) -> None:
        """As `streamer produce --truncate` does it: in every partition."""
        self.rows.clear()
        self.happened.append({"key": None, "value": {"op": "truncate"}})

    def snapshot(self, n: int) -> None:
        """The connector finds n rows there and reads them first."""
        for key in range(100, 100 + n):
            self.rows[key] = {"id": key, "years": key % 10, "city": "a1", "problem": "flu"}
            self._log("r", key, None, self.rows[key], "true")

    def _log(self, op: str, key: int, before: object, after: object, snapshot: str = "false") -> None:
        lsn = 100 + 10 * len(self.happened)
        source = {"connector": "postgresql", "lsn": lsn, "ts_ms": NOON_MS + lsn, "snapshot": snapshot}
        self.happened.append({"key": key, "value": {"op": op, "before": before, "after": after, "source": source}})

    def captured(self, restarts: float = 0.03) -> Source:
        """Writes all that happened; a connector that is started again begins somewhat earlier."""
        i = 0
        while i < len(self.happened):
            self._write(self.happened[i])
            i = max(0, i - self.chance.randrange(1, 12)) if self.chance.random() < restarts else i + 1
        return self

    def _write(self, event: dict[str, object]) -> None:
        key, value = event["key"], event["value"]
        if key is None:
            for partition in self.partitions:
                partition.append(Message(len(partition), None, json.dumps(value).encode()))
            return
        message_key = str(key).encode()
        partition = self.partitions[shard_of(message_key, SHARDS)]
        partition.append(Message(len(partition), message_key, json.dumps(value).encode()))
        if isinstance(value, dict) and value["op"] == "d":  # a tombstone follows
            partition.append(Message(len(partition), message_key, None))


def worlds_of(
    partitions: Sequence[Sequence[Message]], plans: Sequence[dict[int, Fault]] = ({}, {}, {}), people: Table = PEOPLE
) -> list[World]:
    """A world for every shard, with one control topic."""
    worlds: list[World] = []
    for shard, (messages, plan) in enumerate(zip(partitions, plans, strict=True)):
        world = World(people, [*messages, Message(len(messages), None, b'{"ts_ms": 1}')], plan)
        world.shard, world.shards, world.written = shard, SHARDS, 0
        world.topic.control = worlds[0].topic.control if worlds else world.topic.control
        worlds.append(world)
    return worlds


def read_apart_and_lose(worlds: Sequence[World], chance: Random) -> None:
    """Shards read on one after the other, as chance has it, and lose commits now and then; at last all is read."""
    for _ in range(12):
        world = chance.choice(worlds)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(20))
        if world.written:
            world.run(batch=chance.choice([1, 3, 8]), tries_max=200)
            world.snapshot()
        if world.snapshots and chance.random() < 0.3:
            world.lose_commits(chance.choice(world.snapshots))
    read_to_the_end(worlds)


def read_to_the_end(worlds: Sequence[World], batch: int = 9) -> None:
    """All that is there is read."""
    for world in worlds:
        world.written = len(world.messages)
        world.run(batch, tries_max=200)


def rows_kept(world: World) -> dict[str, Row]:
    state = MemoryStore(world.server, PEOPLE.name, world.shard).load()
    return {} if state is None else {key: record.row for key, record in state.kept.records}
