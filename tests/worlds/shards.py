"""A shard's machine driven call by call, with any servers or with all of them in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Protocol

import msgspec

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.replacing import Region
from streamer.incremental.engine.tie_break import SECRET_BYTES
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.release.records import Outgoing
from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.shard.bootstrap import RECORDS_MAX
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import InputState, KeptSecret, Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import DeafOutlet, Outlet, Position
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.ready import (
    ApplyLate,
    Assigned,
    Event,
    FirstRows,
    Messages,
    Ready,
    Remember,
    Replace,
    SnapshotEnded,
    SnapshotGrouped,
)
from streamer.incremental.shard.retrial import Judged
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta, Progress, Store
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from worlds.small_tables import CITY, YEARS, table


class SaysState(Protocol):
    """What knows the state of an input."""

    def state(self, last: int | None = None) -> InputState: ...

    def secret(self) -> KeptSecret | None: ...


class StateOf(InputState):
    """An input of which nothing is known but its state and the shard's secret."""

    def __init__(self, said_by: SaysState) -> None:
        super().__init__({}, 1, 0, 0)
        object.__setattr__(self, "said_by", said_by)

    def state(self, last: int | None = None) -> InputState:
        said_by: SaysState = self.__dict__["said_by"]
        return said_by.state(last)

    def secret(self) -> KeptSecret | None:
        said_by: SaysState = self.__dict__["said_by"]
        return said_by.secret()


class Driven:
    """One shard of one table."""

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        secret: bytes | None = None,
        holding: Holding = Holding.NOTHING,
        schemas: Schemas | None = None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self.table, self.shard = table, shard
        self.schemas = schemas or NoSchemas()
        secret = secret or token_bytes(SECRET_BYTES)
        form = None if table.sealed is None else median_cuts(table.space, table.k)
        self.machine = Machine(table, shard, secret, holding, self.schemas.known, turn, form=form)
        self.servers = Servers(store, outlet, InputState({}, 1, 0, 0), self.schemas)

    def drive(self, event: Event) -> Ready:
        return drive(self.machine, event, self.servers)

    def _reported(self, event: Event) -> StepReport:
        report = self.drive(event).report
        assert report is not None
        return report

    def take_over(self, shard_input: SaysState, skips: Iterable[int] = ()) -> int:
        """Makes this the only writer of the shard; returns the offset to read from."""
        self.servers = self.servers._replace(input=StateOf(shard_input))
        self.drive(Assigned(frozenset(skips)))
        return self.machine.meta.next

    def step(self, messages: Sequence[Message], through: int = 0) -> StepReport:
        """Applies and publishes a batch."""
        ready = self.drive(Messages(messages, through))
        return ready.report or StepReport()

    def load_initial(self, initial: Callable[[bytes], tuple[EncodedRows, Sequence[Ints]]]) -> StepReport:
        return self._reported(FirstRows(*initial(self.meta.secret)))

    def replace_region(
        self, region: Region, groups: Sequence[Ints], progress: Progress | None = None
    ) -> StepReport | None:
        report = self._reported(Replace(region, groups, progress))
        return report if report.commits else None

    def end_rebuild(self, progress: Progress) -> StepReport:
        return self._reported(Remember(None, [progress]))

    def remember_rebuilds(self, running: Progress | None, ended: Iterable[Progress] = (), heard: int = 0) -> StepReport:
        return self._reported(Remember(running, ended, heard))

    def retry(self, judged: Sequence[Judged], heard: int) -> StepReport:
        return self._reported(ApplyLate(judged, heard))

    def held_rows(self, why: str = "") -> EncodedRows:
        """The rows that are held back, now that the snapshot is over."""
        ready = self.drive(SnapshotEnded(why))
        assert ready.job is not None
        return ready.job.rows

    def release(self, groups: Sequence[Ints], records_max: int = RECORDS_MAX) -> StepReport:
        return self._reported(SnapshotGrouped(groups, records_max))

    @property
    def meta(self) -> Meta:
        return self.machine.meta

    @property
    def engine(self) -> Engine:
        return self.machine.engine

    @property
    def replays_to(self) -> int | None:
        return self.machine.replays_to

    @property
    def holds_back(self) -> bool:
        return self.machine.holds_back

    @property
    def awaits_release(self) -> bool:
        return self.machine.phase is Phase.RELEASING

    @property
    def published_anew(self) -> bool:
        """Whether the last take-over published the whole table into an output that lacked records."""
        return self.machine.standing is Consistency.INCOMPLETE


PEOPLE = table(YEARS, CITY, k=2)


@dataclass
class Shard(DeafOutlet):
    """One shard in memory: what its store, its output and its input hold, and who was shut out."""

    table: Table = PEOPLE
    server: MemoryServer = field(default_factory=MemoryServer)
    sent: list[Outgoing] = field(default_factory=list)
    last: Position | None = None
    end: int = 1000
    earliest: int = 0
    fences: int = 0
    asked: list[str] = field(default_factory=list)
    number: int = 0
    shards: int = 1

    def publisher(self, holding: Holding = Holding.NOTHING, secret: bytes | None = None) -> Driven:
        store = MemoryStore(self.server, self.table.name, self.number)
        return Driven(self.table, self.number, store, self, secret, holding)

    def state(self, last: int | None = None) -> InputState:
        self.asked.append("input")
        return InputState({"changes": "id"}, self.shards, self.earliest, self.end)

    def secret(self) -> None: ...

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
    def letters(self) -> list[dict[str, str]]:
        return [json.loads(r.value) for r in self.sent if r.topic == "dead-letters" and r.value]

    @property
    def reasons(self) -> list[str]:
        return [letter["reason"] for letter in self.letters]


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
