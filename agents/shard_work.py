"""What the thread of a held shard does: each call of its publisher, with what is asked before and measured behind it.

The rules of this file
----------------------
* All of it waits (for Redis, for Kafka) or computes, so it is called in the shard's thread, one call at a time, and
  knows of no event loop. What it measures, and the publisher's meta, are values that any thread may read.
* Whatever commits something asks for the topics first; the publisher has the answer compared before it commits.
* What is computed here, and not by a call of the publisher, is computed in the shard's turn.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Sequence
from time import monotonic

from agents.outlet import KafkaOutlet
from agents.shard_input import KafkaInput
from agents.shard_thread import Unexpected
from agents.turn import Turn
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.groups.lots import SECRET_BYTES
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.adapting import adapted
from streamer.incremental.shard.anew import RECORDS_MAX
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.machine import Holding, Machine
from streamer.incremental.shard.ready import (
    Assigned,
    EndSnapshot,
    Event,
    Messages,
    Ready,
    Remember,
    Replace,
    Retry,
    Revoked,
    SnapshotGrouped,
    Truncated,
)
from streamer.incremental.shard.rebuild_regions import gains
from streamer.incremental.shard.retrying import Judged
from streamer.incremental.shard.standing import Standing
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Store
from streamer.incremental.store.rebuild import Progress
from streamer.incremental.topics import CHANGES, POSITIONS
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table

log = logging.getLogger(__name__)

NCP_SECONDS = 5.0
"""How often the loss of the whole table is summed up: one look at every QI group."""


class ShardWork:
    """One shard's, from its assignment to its loss. name: in messages; turn: its own view of the worker's lock."""

    def __init__(
        self,
        table: Table,
        number: int,
        name: str,
        store: Store,
        shard_input: KafkaInput,
        outlet: KafkaOutlet,
        turn: Turn,
        schemas: Schemas | None,
    ) -> None:
        self.sizes: dict[str, int] = {}
        """Rows, pending rows and QI groups behind the last step; none before the shard is taken over."""
        self.ncp: float | None = None
        """The mean NCP of the published rows, some seconds old at most; None where there are none."""
        self._ncp_at = -NCP_SECONDS
        self._name = name
        self._input = shard_input
        self._turn = turn
        self.table = table
        known = schemas or NoSchemas()
        secret = secrets.token_bytes(SECRET_BYTES)
        self.machine = Machine(table, number, secret, Holding.SNAPSHOT, known.known, turn)
        self._servers = Servers(store, outlet, shard_input, known)

    def _drive(self, event: Event) -> Ready:
        return drive(self.machine, event, self._servers)

    def _reported(self, event: Event) -> StepReport:
        return self._drive(event).report or StepReport()

    def take_over(self) -> int:
        """Makes this worker the only writer."""
        began = monotonic()
        skips = self._input.skips(self._input.state().topic_ids.get(CHANGES, ""))
        self._drive(Assigned(skips))
        self._measure()
        offset = self.machine.meta.next
        self._log_taken_over(offset, monotonic() - began)
        if self.machine.standing is Standing.EMPTIED:
            log.warning("%s: the output was made anew; the whole table was published into it as release 1", self._name)
        if self.machine.replays_to is not None:
            log.warning(
                "%s: the store has lost commits; the input is read again from %d to %d, publishing nothing",
                self._name,
                offset,
                self.machine.replays_to,
            )
        self._tell_skips(skips, offset)
        return offset

    def _log_taken_over(self, offset: int, seconds: float) -> None:
        commit, holds = self.machine.meta.commit, "a release that is under way"
        if self.machine.has_table:
            engine = self.machine.engine
            holds = f"{engine.n_rows} rows, {engine.n_qi_groups} QI groups"
        log.info("%s taken over: next %d, commit %d, %s, %.2f s", self._name, offset, commit, holds, seconds)

    def _tell_skips(self, skips: Collection[int], offset: int) -> None:
        late = sorted(skip for skip in skips if skip < offset and skip not in self.machine.meta.skipped)
        if late:
            log.warning("%s: had been read when an operator wanted them passed over: %s", self._name, late)
        still_to_come = sorted(skip for skip in skips if skip >= offset)
        if still_to_come:
            log.warning("%s: an operator has these offsets passed over: %s", self._name, still_to_come)

    def look_around(self) -> None:
        self._input.ask()
        self._input.check(POSITIONS)
        self._measure()

    def step(self, messages: Sequence[Message], through: int) -> Ready:
        self._input.ask()  # now that the messages are here; the answer comes while they are applied
        ready = self._drive(Messages(messages, through))
        self._measure()
        return ready

    def _measure(self) -> None:
        if self.machine.has_table:
            engine = self.machine.engine
            self.sizes = {"rows": engine.n_rows, "pending": engine.n_pending, "qi_groups": engine.n_qi_groups}
            if self.ncp is None or monotonic() - self._ncp_at >= NCP_SECONDS:
                published = engine.n_rows - engine.n_pending
                self.ncp, self._ncp_at = engine.loss / published if published else None, monotonic()

    def place_truncation(self, request: int, source: SourcePosition) -> None:
        began = monotonic()
        report = self._reported(Truncated(request, source))
        if report.commits:
            log.warning(
                "%s: the source has truncated the table: what came before is removed; %d rows came later, %d records "
                "published, %.2f s",
                self._name,
                self.machine.engine.n_rows,
                report.published,
                monotonic() - began,
            )

    def held_rows(self, ended: str) -> EncodedRows:
        ready = self._drive(EndSnapshot(ended))
        if ready.job is None:
            raise Unexpected(f"{self._name}: no rows are held back")
        return ready.job.rows

    def release(self, groups: Sequence[Ints]) -> StepReport:
        self._input.ask()
        return self._reported(SnapshotGrouped(groups, RECORDS_MAX))

    def regions(self, turn: int, rows_max: int) -> list[tuple[int, ...]]:
        with self._turn:
            return self.machine.engine.regions(turn, rows_max)

    def region(self, numbers: Sequence[int]) -> Region:
        with self._turn:
            return self.machine.engine.region(numbers)

    def rebuild_region(
        self, region: Region, groups: Sequence[Ints], progress: Progress
    ) -> tuple[Progress | None, StepReport]:
        table, engine = self.table, self.machine.engine
        with self._turn:
            now = engine.region(region.numbers)
            fitted = groups if now.stamp == region.stamp else adapted(table, region, groups, now)
            if fitted is None:
                return None, StepReport()
            if not gains(table.space, now, fitted, progress.rebuild.algorithm):
                return progress.left_alone(now.ncp), StepReport()
        self._input.ask()
        report = self._reported(Replace(now, fitted, progress))
        return self.machine.meta.rebuild, report

    def remember(self, running: Progress | None, ended: Sequence[Progress], control_next: int) -> None:
        self._input.ask()
        self._reported(Remember(running, ended, control_next))

    def retry(self, judged: Sequence[Judged], control_next: int) -> StepReport:
        self._input.ask()
        return self._reported(Retry(judged, control_next))

    def drop(self) -> None:
        self.machine.handle(Revoked())
