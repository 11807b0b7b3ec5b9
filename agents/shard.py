"""One shard as this worker holds it, seen from the event loop: whether it is still ours, and what it is asked to do.

The rules of this file
----------------------
* All work on a shard that may wait (Redis, Kafka) or compute (`agents.shard_work`) runs in the shard's own thread, one
  call at a time: so its batches stay in order, the worker's heartbeats go on, and several shards overlap.
* Each of them has a limit of time, beyond which the process ends (`agents.shard_thread`).
* A shard that was lost is dropped, and its table with it. It is never taken over again in place: Kafka has to assign it
  anew. Whether it is lost is asked once more just before another worker would be shut out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

from agents.diary import Diary
from agents.outlet import KafkaOutlet
from agents.shard_input import KafkaInput
from agents.shard_thread import ShardThread
from agents.shard_work import ShardWork
from agents.turn import Turn
from agents.worker_log import tell_minute
from streamer.errors import Fenced
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import GroupSnapshot
from streamer.incremental.shard.retrying import Judged
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.store.rebuild import Progress
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table

log = logging.getLogger(__name__)

STEP_SECONDS_MAX = 300.0
"""Limit of one step: longer than the limits of the calls in it together, and than the largest statement. It counts the
shard's own work only."""

TAKE_OVER_SECONDS_MAX = 900.0
"""Limit of one take-over, which loads the whole shard."""

LOOK_SECONDS = 3.0
"""How long topics may change unnoticed where no messages come."""

Result = TypeVar("Result")


class HeldShard:
    """One shard between its assignment and its loss; store, input and outlet are used in its thread only.

    turn: a lock that the shards of a worker share, held by the one that computes. schemas: of a registry. diary: what
    became of the shard in this process before.
    """

    def __init__(
        self,
        table: Table,
        number: int,
        store: Store,
        shard_input: KafkaInput,
        outlet: KafkaOutlet,
        turn: threading.Lock,
        schemas: Schemas | None = None,
        diary: Diary | None = None,
    ) -> None:
        self.number = number
        self.name = f"shard {number} of {table.name}"
        self.lost = ""
        """Why the shard is not ours any more; empty while it is."""
        self.lost_at = 0.0
        self.told = False
        """Whether Redis was told that we hold the shard."""
        self.stalled = False
        """Whether Redis was told that we cannot go on with it for now."""
        self.task: asyncio.Future[None] | None = None
        """What serves the shard: takes it over, reads on, and begins anew after an error."""
        self._input = shard_input
        own_turn = Turn(turn)
        self._work = ShardWork(table, number, self.name, store, shard_input, outlet, own_turn, schemas)
        self.done = StepReport()
        """What its steps did since it was last told."""
        self.ncp_fresh: float | None = None
        """The mean NCP of a fresh table, as of the last look for drift; None before the first."""
        self.diary = diary or Diary()
        self.schemas = schemas
        self.job: GroupSnapshot | None = None
        """The rows of a first snapshot that are to be put into QI groups before anything else is done."""
        self._thread = ShardThread(number, self.name, own_turn)

    @property
    def busy(self) -> bool:
        """Whether the shard's thread is at work, be it that nobody waits for it any more."""
        return self._thread.busy

    @property
    def busy_seconds(self) -> float:
        """How long its thread has been in the call that it is in; waiting for its turn does not count."""
        return self._thread.busy_seconds

    @property
    def computing_seconds(self) -> float:
        """How long, in that call, it has computed or waited for its turn to."""
        return self._thread.computing_seconds

    @property
    def next(self) -> int:
        """The first source offset not applied, as of the last commit."""
        return self._work.machine.meta.next

    @property
    def sizes(self) -> dict[str, int]:
        """Rows, pending rows and QI groups behind the last step; none before the shard is taken over."""
        return self._work.sizes

    @property
    def ncp(self) -> float | None:
        """The mean NCP of the published rows, some seconds old at most; None where there are none."""
        return self._work.ncp

    def lose(self, why: str) -> None:
        """Marks the shard as lost; nothing new is begun on it."""
        if not self.lost:
            self.lost, self.lost_at = why, monotonic()
            self._input.lost = why

    async def take_over(self) -> int:
        """Makes this worker the only writer of the shard; returns the offset to read from."""
        self.job = None
        offset = await self._in_thread(self._work.take_over, TAKE_OVER_SECONDS_MAX)
        self.diary.took_over(first=not self.told)
        return offset

    def _require_ours(self) -> None:
        if self.lost:
            raise Fenced(f"{self.name}: {self.lost}")

    async def look_around(self) -> None:
        """Asks now and then, while no messages come, whether the topics are what they were. Raises Conflict."""
        if monotonic() - self._input.looked_at > LOOK_SECONDS:
            await self._in_thread(self._work.look_around, STEP_SECONDS_MAX)

    async def step(self, messages: Sequence[Message], through: int = 0) -> StepReport:
        """Applies and publishes a batch; through: the offset below which the input holds no other messages."""
        seconds = TAKE_OVER_SECONDS_MAX if self._work.machine.truncation_due else STEP_SECONDS_MAX
        ready = await self._in_thread(partial(self._work.step, messages, through), seconds)
        report = ready.report or StepReport()
        self.job, meta = ready.job, self._work.machine.meta
        self.done.add(report)
        self.diary.step(report)
        for fault in report.faults:
            log.error("%s: %s", self.name, fault)
        log.debug(
            "%s: release %d, next %d, %d events, %d records published",
            self.name,
            meta.release,
            meta.next,
            report.counts.messages,
            report.published,
        )
        return report

    def drifted(self, drift: float) -> None:
        """The table loses `drift` times what a fresh one would."""
        self.ncp_fresh = self.ncp / drift if self.ncp is not None and drift > 0 else None

    def tell_minute(self, end: int) -> None:
        """Logs what was done since it was last told; end: of the input, as far as it is known."""
        if self.sizes:
            tell_minute(self.name, self.done, {**self.sizes, "lag": max(0, end - self.next)})
            self.done = StepReport()

    # -- truncations ----------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether a truncation, or the release of what is held back, comes before the next message."""
        return self._work.machine.truncation_due or (self._work.machine.awaits_release and self.job is None)

    async def place_truncation(self, request: int, source: SourcePosition) -> None:
        """Has a truncation that another shard read take effect here; request: its record's offset."""
        await self._in_thread(partial(self._work.place_truncation, request, source), TAKE_OVER_SECONDS_MAX)

    # -- a first snapshot -----------------------------------------------------------------------------------------

    async def held_rows(self, ended: str) -> EncodedRows:
        """The rows that are held back of a snapshot; ended: why it is over."""
        if self.job is not None:
            return self.job.rows
        return await self._in_thread(partial(self._work.held_rows, ended), TAKE_OVER_SECONDS_MAX)

    async def release(self, groups: Sequence[Ints]) -> StepReport:
        """Publishes them in given QI groups (arrays of numbers of rows)."""
        self.job = None
        report = await self._in_thread(partial(self._work.release, groups), TAKE_OVER_SECONDS_MAX)
        self.diary.step(report)
        return report

    # -- rebuilds -------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Meta:
        """Where the shard stands after its last commit."""
        return self._work.machine.meta

    @property
    def catches_up(self) -> bool:
        """Whether the shard reads its input again, and publishes nothing."""
        return self._work.machine.replays_to is not None

    @property
    def n_rows(self) -> int:
        return self._work.machine.engine.n_rows

    async def regions(self, turn: int, rows_max: int) -> list[tuple[int, ...]]:
        """The shard's QI groups, cut into regions."""
        return await self._in_thread(partial(self._work.regions, turn, rows_max), STEP_SECONDS_MAX)

    async def region(self, numbers: Sequence[int]) -> Region:
        """Some QI groups with their rows, as they are now."""
        return await self._in_thread(partial(self._work.region, numbers), STEP_SECONDS_MAX)

    async def rebuild_region(self, region: Region, groups: Sequence[Ints], progress: Progress) -> Progress | None:
        """Gives a region other QI groups where it gains by them; how far the rebuild is then.

        groups: of the region as it was handed out; what changed since is fitted in. None where that is too much.
        """
        work = partial(self._work.rebuild_region, region, groups, progress)
        now, report = await self._in_thread(work, STEP_SECONDS_MAX)
        self.diary.step(report)
        return now

    async def remember(self, running: Progress | None, ended: Iterable[Progress], control_next: int) -> None:
        """Commits which rebuild is running, what is to be remembered of others, and which requests have answers."""
        ended = tuple(ended)
        await self._in_thread(partial(self._work.remember, running, ended, control_next), STEP_SECONDS_MAX)
        for one in ended:
            self.diary.rebuilt(one, self.sizes.get("rows", 0) - self.sizes.get("pending", 0))

    # -- what was refused, and is tried again -----------------------------------------------------------------------

    def read_once_more(self, start: int, end: int) -> tuple[list[Message], int]:
        """Messages that were read before, up to an offset that is returned; from any thread."""
        return self._input.read_once_more(start, end)

    async def retry(self, judged: Sequence[Judged], control_next: int) -> StepReport:
        """Applies refused messages late, in a commit of its own, by which the request has its answer."""
        return await self._in_thread(partial(self._work.retry, judged, control_next), STEP_SECONDS_MAX)

    # -- its thread -----------------------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], Result], seconds_max: float) -> Result:
        """Runs `work` in the shard's thread. Raises StreamerError only; Fenced where the shard is lost."""
        self._require_ours()
        return await self._thread.run(work, seconds_max)

    def close(self) -> None:
        """Stops what serves the shard; a call that its thread is in is let end, then the table is dropped."""
        if self.task is not None and not self.busy:
            self.task.cancel()
        self._thread.close(self._work.drop)
