"""One shard as this worker holds it: its thread, its publisher, and whether it is still ours.

The rules of this file
----------------------
* All work on a shard that may wait (Redis, Kafka) or compute runs in the shard's own thread, one call at a time: so its
  batches stay in order, the worker's heartbeats go on, and several shards overlap.
* Each of them has a limit of time, beyond which the process ends (`agents.shard_thread`).
* A shard that was lost is dropped, and its table with it. It is never taken over again in place: Kafka has to assign it
  anew. Whether it is lost is asked once more just before another worker would be shut out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

from agents.control import KafkaControl
from agents.diary import Diary
from agents.outlet import KafkaOutlet
from agents.shard_input import KafkaInput
from agents.shard_thread import ShardThread
from agents.turn import Turn
from agents.worker_log import tell_minute
from streamer.errors import Fenced
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.adapting import adapted
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.publisher import Publisher
from streamer.incremental.shard.read_again import place_truncation
from streamer.incremental.shard.rebuild_regions import gains
from streamer.incremental.shard.retrying import Judged
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.shard.taking_over import Holding
from streamer.incremental.shard.truncations import is_news
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.store.rebuild import Progress
from streamer.incremental.topics import CHANGES, CONTROL, POSITIONS, outputs_of
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

NCP_SECONDS = 5.0
"""How often the loss of the whole table is summed up: one look at every QI group."""

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
        control: KafkaControl,
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
        self._control = control
        self._turn = Turn(turn)
        of = Holding.SNAPSHOT
        self._publisher = Publisher(table, number, store, outlet, self._turn, holding=of, schemas=schemas)
        self.done = StepReport()
        """What its steps did since it was last told."""
        self.sizes: dict[str, int] = {}
        """Rows, pending rows and QI groups behind the last step; none before the shard is taken over."""
        self.ncp: float | None = None
        """The mean NCP of the published rows, some seconds old at most; None where there are none."""
        self.ncp_fresh: float | None = None
        """The same of a fresh table, as of the last look for drift; None before the first."""
        self.diary = diary or Diary()
        self._ncp_at = -NCP_SECONDS
        self.schemas = schemas
        self.left: Sequence[Message] = ()
        """Messages that were read and not begun: they come after the release of what is held back."""
        self._outputs = outputs_of(table.form)
        self._publisher.messages_at = lambda offsets: shard_input.messages_at(offsets)
        self._publisher.check_input = partial(shard_input.check, CHANGES, CONTROL, *self._outputs)
        self._thread = ShardThread(number, self.name, self._turn)

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
        return self._publisher.meta.next

    def lose(self, why: str) -> None:
        """Marks the shard as lost; nothing new is begun on it."""
        if not self.lost:
            self.lost, self.lost_at = why, monotonic()

    async def take_over(self) -> int:
        """Makes this worker the only writer of the shard; returns the offset to read from."""
        offset = await self._in_thread(self._take_over, TAKE_OVER_SECONDS_MAX)
        self.diary.took_over(first=not self.told)
        return offset

    def _take_over(self) -> int:
        began = monotonic()
        skips = self._control.skips(self._input.state().topic_ids.get(CHANGES, ""))
        self.left = ()
        offset = self._publisher.take_over(self, skips, self._control.placed)
        self._measure()
        self._log_taken_over(offset, monotonic() - began)
        if self._publisher.published_anew:
            log.warning("%s: the output was made anew; the whole table was published into it as release 1", self.name)
        if self._publisher.replays_to is not None:
            log.warning(
                "%s: the store has lost commits; the input is read again from %d to %d, publishing nothing",
                self.name,
                offset,
                self._publisher.replays_to,
            )
        self._tell_skips(skips, offset)
        return offset

    def _log_taken_over(self, offset: int, seconds: float) -> None:
        commit, holds = self._publisher.meta.commit, "a release that is under way"
        if not self._publisher.awaits_release:
            engine = self._publisher.engine
            holds = f"{engine.n_rows} rows, {engine.n_qi_groups} QI groups"
        log.info("%s taken over: next %d, commit %d, %s, %.2f s", self.name, offset, commit, holds, seconds)

    def _tell_skips(self, skips: Collection[int], offset: int) -> None:
        late = sorted(skip for skip in skips if skip < offset and skip not in self._publisher.meta.skipped)
        if late:
            log.warning("%s: had been read when an operator wanted them passed over: %s", self.name, late)
        still_to_come = sorted(skip for skip in skips if skip >= offset)
        if still_to_come:
            log.warning("%s: an operator has these offsets passed over: %s", self.name, still_to_come)

    def state(self) -> InputState:
        """What the broker says of the shard's input, as long as the shard is ours; else raises Fenced."""
        state = self._input.state()
        if self.lost:
            raise Fenced(f"{self.name}: {self.lost}")
        return state

    async def look_around(self) -> None:
        """Asks now and then, while no messages come, whether the topics are what they were. Raises Conflict."""
        if monotonic() - self._input.looked_at > LOOK_SECONDS:
            await self._in_thread(self._look_around, STEP_SECONDS_MAX)

    def _look_around(self) -> None:
        self._input.ask()
        self._input.check(CHANGES, CONTROL, *self._outputs, POSITIONS)
        self._measure()

    async def step(self, messages: Sequence[Message], through: int = 0) -> StepReport:
        """Applies and publishes a batch; through: the offset below which the input holds no other messages."""
        report = await self._in_thread(partial(self._step, messages, through), STEP_SECONDS_MAX)
        self.left, meta = report.left, self._publisher.meta
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

    def _step(self, messages: Sequence[Message], through: int) -> StepReport:
        self._input.ask()  # now that the messages are here; the answer comes while they are applied
        report = self._publisher.step(messages, through)
        self._measure()
        return report

    def _measure(self) -> None:
        if not self._publisher.awaits_release:
            engine = self._publisher.engine
            self.sizes = {"rows": engine.n_rows, "pending": engine.n_pending, "qi_groups": engine.n_qi_groups}
            if self.ncp is None or monotonic() - self._ncp_at >= NCP_SECONDS:
                published = engine.n_rows - engine.n_pending
                self.ncp, self._ncp_at = engine.loss / published if published else None, monotonic()

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
    def truncation_due(self) -> bool:
        """Whether a truncation has to be repeated before messages are read on."""
        return self._publisher.truncation_due is not None

    async def repeat_truncation(self) -> None:
        """Places the one that is due where it was placed before the store lost it."""
        due = self._publisher.truncation_due
        if due is not None:
            await self._in_thread(partial(self._place_truncation, due.request, due.source), TAKE_OVER_SECONDS_MAX)

    async def place_truncation(self, request: int, source: SourcePosition) -> None:
        """Has a truncation that another shard read take effect here; request: its record's offset."""
        if is_news(self.name, self._publisher.table.name, self._publisher.meta, source):
            await self._in_thread(partial(self._place_truncation, request, source), TAKE_OVER_SECONDS_MAX)

    def _place_truncation(self, request: int, source: SourcePosition) -> None:
        began = monotonic()
        self._input.ask()
        report = place_truncation(self._publisher, request, source, self._input.earliest(), self._input.messages)
        log.warning(
            "%s: the source has truncated the table: what came before is removed; %d rows came later, %d records "
            "published, %.2f s",
            self.name,
            self._publisher.engine.n_rows,
            report.published,
            monotonic() - began,
        )

    # -- a first snapshot -----------------------------------------------------------------------------------------

    async def held_rows(self) -> EncodedRows:
        """The rows that are held back of a snapshot; the next call has to be `release`, or `take_over`."""
        return await self._in_thread(self._publisher.held_rows, TAKE_OVER_SECONDS_MAX)

    async def release(self, rows: EncodedRows, groups: Sequence[Ints], ended: str) -> StepReport:
        """Publishes them in given QI groups (arrays of numbers of rows); ended: why the snapshot is over."""
        report = await self._in_thread(partial(self._release, rows, groups, ended), TAKE_OVER_SECONDS_MAX)
        self.diary.step(report)
        return report

    def _release(self, rows: EncodedRows, groups: Sequence[Ints], ended: str) -> StepReport:
        self._input.ask()
        return self._publisher.release(rows, groups, ended)

    # -- rebuilds -------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Meta:
        """Where the shard stands after its last commit."""
        return self._publisher.meta

    @property
    def catches_up(self) -> bool:
        """Whether the shard reads its input again, and publishes nothing."""
        return self._publisher.replays_to is not None

    @property
    def n_rows(self) -> int:
        return self._publisher.engine.n_rows

    async def regions(self, turn: int, rows_max: int) -> list[tuple[int, ...]]:
        """The shard's QI groups, cut into regions."""
        return await self._in_thread(partial(self._regions, turn, rows_max), STEP_SECONDS_MAX)

    async def region(self, numbers: Sequence[int]) -> Region:
        """Some QI groups with their rows, as they are now."""
        return await self._in_thread(partial(self._region, numbers), STEP_SECONDS_MAX)

    async def rebuild_region(self, region: Region, groups: Sequence[Ints], progress: Progress) -> Progress | None:
        """Gives a region other QI groups where it gains by them; how far the rebuild is then.

        groups: of the region as it was handed out; what changed since is fitted in. None where that is too much.
        """
        work = partial(self._rebuild_region, region, groups, progress)
        now, report = await self._in_thread(work, STEP_SECONDS_MAX)
        self.diary.step(report)
        return now

    async def remember(self, running: Progress | None, ended: Iterable[Progress], control_next: int) -> None:
        """Commits which rebuild is running, what is to be remembered of others, and which requests have answers."""
        ended = tuple(ended)
        await self._in_thread(partial(self._remember, running, ended, control_next), STEP_SECONDS_MAX)
        for one in ended:
            self.diary.rebuilt(one, self.sizes.get("rows", 0) - self.sizes.get("pending", 0))

    def _regions(self, turn: int, rows_max: int) -> list[tuple[int, ...]]:
        with self._turn:
            return self._publisher.engine.regions(turn, rows_max)

    def _region(self, numbers: Sequence[int]) -> Region:
        with self._turn:
            return self._publisher.engine.region(numbers)

    def _rebuild_region(
        self, region: Region, groups: Sequence[Ints], progress: Progress
    ) -> tuple[Progress | None, StepReport]:
        table, publisher = self._publisher.table, self._publisher
        with self._turn:
            now = publisher.engine.region(region.numbers)
            fitted = groups if now.stamp == region.stamp else adapted(table, region, groups, now)
            if fitted is None:
                return None, StepReport()
            if not gains(table.space, now, fitted, progress.rebuild.algorithm):
                return progress.left_alone(now.ncp), StepReport()
        self._input.ask()
        report = publisher.replace_region(now, fitted, progress)
        return publisher.meta.rebuild, report or StepReport()

    def _remember(self, running: Progress | None, ended: Sequence[Progress], control_next: int) -> None:
        self._input.ask()
        self._publisher.remember_rebuilds(running, ended, control_next)

    # -- what was refused, and is tried again -----------------------------------------------------------------------

    def read_once_more(self, start: int, end: int) -> tuple[list[Message], int]:
        """Messages that were read before, up to an offset that is returned; from any thread."""
        return self._input.read_once_more(start, end)

    async def retry(self, judged: Sequence[Judged], control_next: int) -> StepReport:
        """Applies refused messages late, in a commit of its own, by which the request has its answer."""
        return await self._in_thread(partial(self._retry, judged, control_next), STEP_SECONDS_MAX)

    def _retry(self, judged: Sequence[Judged], control_next: int) -> StepReport:
        self._input.ask()
        return self._publisher.retry(judged, control_next)

    # -- its thread -----------------------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], Result], seconds_max: float) -> Result:
        """Runs `work` in the shard's thread. Raises StreamerError only; Fenced where the shard is lost."""
        if self.lost:
            raise Fenced(f"{self.name}: {self.lost}")
        return await self._thread.run(work, seconds_max)

    def close(self) -> None:
        """Stops what serves the shard; a call that its thread is in is let end, then the table is dropped."""
        if self.task is not None and not self.busy:
            self.task.cancel()
        self._thread.close(self._publisher.drop)
