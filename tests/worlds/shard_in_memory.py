"""A shard whose store, output and input are in memory, and messages for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.schema import Table
from worlds.driven import Driven
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)


@dataclass
class Shard:
    """One shard in memory: what its store, its output and its input hold, and who was shut out."""

    table: Table = PEOPLE
    server: MemoryServer = field(default_factory=MemoryServer)
    sent: list[Outgoing] = field(default_factory=list)
    last: Position | None = None
    end: int = 1000
    earliest: int = 0
    fences: int = 0
    asked: list[str] = field(default_factory=list)

    def publisher(self) -> Driven:
        return Driven(self.table, 0, MemoryStore(self.server, "people", 0), self)

    def state(self) -> InputState:
        self.asked.append("input")
        return InputState({"changes": "id"}, 1, self.earliest, self.end)

    def fence(self) -> None:
        self.asked.append("fence")
        self.fences += 1

    def position(self) -> Position | None:
        return self.last

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        self.sent += records
        self.last = position

    @property
    def rows(self) -> int:
        """Rows that readers see."""
        live = [record for record in self.sent if record.topic == "live"]
        return len({r.key for r in live}) - sum(r.value is None for r in live)

    @property
    def reasons(self) -> list[str]:
        return [json.loads(r.value or b"")["reason"] for r in self.sent if r.topic == "dead-letters"]


def insert(offset: int, problem: str = "flu", city: str = "a1") -> Message:
    row = {"id": offset, "years": offset % 10, "city": city, "problem": problem}
    return Message(offset, None, msgspec.json.encode({"op": "insert", "row": row}))


def served_shard() -> Shard:
    """A shard with six rows, that a healthy worker serves."""
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    publisher.step([insert(offset) for offset in range(6)])
    return shard
