"""The work of a shard between its batches: requests, rebuilds, late messages, looks for drift, the end of a snapshot.

The rules of this file
----------------------
* `next` is asked after every event and names at most one thing to do: a commit of the machine's, something to be read,
  or a job for the process that anonymizes. Nothing here waits.
* Requests are answered in the order of the control topic, each once. The answer, even a refusal, is a commit that says
  up to which offset the answers go. Nothing after a retry counts as answered before the retry does.
* A shard has one rebuild at a time, region by region. What changes while an algorithm is at a region is fitted in
  (`shard.rebuild`); only if too much has changed, the region is done again. A region stays as it is if it would lose
  more than it does, unless the algorithm recodes the whole shard alike.
* A failing rebuild never takes the shard with it: the table is loaded again, as after any error, and the rebuild is
  remembered as failed, with the reason. A rebuild whose worker went away is closed as stopped. It is started again if
  an operator asked for it, RESTARTS_MAX times.
* Drift is looked for in a few regions, each anonymized afresh and never replaced (`shard.rebuild`).
* Messages are applied late once the input was read from the first of them up to `next`, piece by piece, while batches
  go on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from streamer.errors import ShardRefused, UsageError
from streamer.incremental import remedies
from streamer.incremental.engine.replacing import Region
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.shard import ready, rebuild, requests
from streamer.incremental.shard.answers import Refused, answer
from streamer.incremental.shard.ready import Event, Ready, Remember
from streamer.incremental.shard.rebuild import OPERATOR, RESTARTS_MAX, Looked, Rebuilding
from streamer.incremental.shard.retrial import Retrial
from streamer.incremental.shard.snapshot import SETTLED_SECONDS, ended_by, holds_back
from streamer.incremental.store.base import ANSWERED, CANCELLED, FAILED, REFUSED, STOPPED, Meta, Progress
from streamer.incremental.store.base import OPERATOR as SNAPSHOT_OPERATOR
from streamer.table.schema import Table

if TYPE_CHECKING:
    from streamer.incremental.engine.engine import Engine

FRESH = "ordered"
"""The algorithm that a fresh table is made by."""

TELL_SECONDS = 60
"""The time between two commits of the progress of a rebuild that leaves region after region as it was."""

ASK_SECONDS = 1.0
"""The time between two questions to the other shards whether a snapshot is over."""

REBUILD, SAMPLE, REPLACING = "rebuild", "sample", "replacing"
"""Why a region is in work: it is anonymized for a rebuild or to look for drift, or its new QI groups are committed."""


class Held(NamedTuple):
    """A snapshot that is held back, as it was seen last; times by the clock."""

    reads: int = -1  # its rows so far
    read_at: float = 0.0  # when that number was seen to change last
    asked_at: float = 0.0  # when other shards were asked


class Look(NamedTuple):
    """A look for drift: regions are sampled one after the other."""

    turn: int = 0
    regions: tuple[tuple[int, ...], ...] = ()  # still to be sampled
    now: float = 0.0  # losses of those that were sampled, as they are and anonymized afresh
    fresh: float = 0.0
    seconds: float = 0.0  # that it took
    last: Looked | None = None  # the look before
    drift: float | None = None  # the loss of the table over that of a fresh one, as of that look

    def ended(self, last: Looked | None, drift: float | None) -> Look:
        return Look(self.turn, last=last, drift=drift)

    def sampled(self, now: float, fresh: float, seconds: float) -> Look:
        """With the losses of one more region, as it is and anonymized afresh."""
        return self._replace(now=self.now + now, fresh=self.fresh + fresh, seconds=self.seconds + seconds)


class At(NamedTuple):
    """A region in work, and why."""

    region: Region
    why: str


class Interrupted(NamedTuple):
    """A rebuild that ended before it was done."""

    failed: str = ""  # the error that ended it, until that is remembered
    restart: tuple[str, str] | None = None  # id and algorithm, if it is to be started again


class Activities:
    """The activities of one shard between its batches, from its assignment to its loss."""

    def __init__(self, table: Table, shard: int, known: Known | None = None) -> None:
        self._table, self._shard, self._known = table, shard, known
        self.said: list[tuple[str, str]] = []  # to be logged: level and words
        self.at: At | None = None
        self._tick = ready.Tick(0.0, 0.0)
        self._requests: deque[ready.Request] = deque()
        self._answered = 0  # requests below this offset have their answers, or will by the next commit
        self._retrial: Retrial | None = None
        self._running: Rebuilding | None = None
        self._interrupted = Interrupted()
        self._look = Look()
        self._held = Held()

    @property
    def drift(self) -> float | None:
        """The loss of the table over that of a fresh one, as of the last look."""
        return self._look.drift

    def taken_over(self, meta: Meta, clock: float) -> None:
        """Begins again: requests come again from where the answers end; what was under way is of another table."""
        self._requests.clear()
        self._answered = meta.control_next
        self._retrial = self._running = self.at = None
        self._interrupted = Interrupted(self._interrupted.failed)
        look = self._look
        self._look, self._held = look.ended(look.last or Looked(clock, 0.0, 0), None), Held(read_at=clock)

    def drop_region(self) -> None:
        """Drops the region in work, with the shard's table."""
        self.at = None

    def failed(self, why: str) -> None:
        """A region could not be replaced; the table is about to be loaded again."""
        self._interrupted = Interrupted(why)

    def hear(self, request: ready.Request) -> None:
        """Takes a request up, to be answered in its turn."""
        self._requests.append(request)

    def hurries(self, meta: Meta) -> bool:
        """True if something can be done at once."""
        waits = bool(self._requests) and self._retrial is None
        return meta.commit > 0 and (waits or self._interrupted.restart is not None or self._why == REPLACING)

    def wants(self, meta: Meta, rows: int) -> str:
        """Why a region is wanted once the other process is free; "" if none is."""
        if self.at is not None or not meta.commit or holds_back(meta):
            return ""
        if self._running is not None:
            return REBUILD if self._running.task is not None else ""
        last = self._look.last or Looked(self._tick.clock, 0.0, 0)
        is_due = rebuild.look_is_due(self._table.rebuilding, self._tick.clock, last, meta.counts.messages, rows)
        return SAMPLE if self._look.regions or (meta.rebuild is None and is_due) else ""

    # -- one event ------------------------------------------------------------------------------------------------

    def next(self, event: Event, meta: Meta, engine: Engine) -> Event | Ready | None:
        """Names one thing to do now, if there is one."""
        match event:
            case ready.Tick():
                self._tick = event
            case ready.Request():
                self.hear(event)
            case ready.RereadPiece():
                if self._retrial is not None:
                    self._retrial.see(event.messages, event.through)
                    if self._retrial.next < meta.next:
                        return None  # batches come between two pieces
            case ready.SeenElsewhere():
                return self._what_is_next(meta, engine, event.seen)
            case ready.Free():
                return self._begin_region(meta, engine)
            case ready.JobFailed():
                return self._job_failed(event, meta)
            case ready.JobDone():
                if self._why != SAMPLE:
                    return self._regrouped(event, meta, engine)
                self._sampled(event, meta)
        return self._what_is_next(meta, engine)

    @property
    def _why(self) -> str:
        return self.at.why if self.at is not None else ""

    def _what_is_next(self, meta: Meta, engine: Engine, seen_elsewhere: bool = False) -> Event | Ready | None:
        """seen_elsewhere: another shard knows that the first snapshot is over."""
        ended = self._snapshot_ends(meta, seen_elsewhere)
        if ended is not None or not meta.commit:
            return ended
        if self._running is None and meta.rebuild is not None:
            return self._close_interrupted(meta.rebuild, meta)
        if self._interrupted.restart is not None:
            restart, self._interrupted = self._interrupted.restart, Interrupted()
            return self._begin(*restart, OPERATOR, meta, engine)
        if (answered := self._answer_next(meta, engine)) is not None:
            return answered
        if self._retrial is not None and (late := self._retry_on(self._retrial, meta)) is not None:
            return late
        if holds_back(meta):
            return None  # nothing is published that could be rebuilt
        return self._advance(self._running, meta) if self._running is not None else self._check(meta, engine)

    # -- requests -------------------------------------------------------------------------------------------------

    def _answer_next(self, meta: Meta, engine: Engine) -> Event | None:
        while self._requests and self._retrial is None:
            asked = self._requests.popleft()
            self._answered = asked.offset + 1
            found = answer(asked.value, asked.offset, asked.at, self._shard, meta, self._tick.now)
            match found:
                case requests.FullRebuild():
                    algorithm = found.algorithm or self._table.rebuilding.algorithm
                    return self._begin(found.id, algorithm, OPERATOR, meta, engine)
                case requests.CancelRebuild():
                    if (running := self._running) is not None:
                        far = f"{running.progress.done} of {running.progress.total} regions done"
                        answered = self._answer_to(found.id, meta, ANSWERED, f"the rebuild was stopped with {far}")
                        ended = running.ended(CANCELLED)
                        return self._end(ended, meta, f"cancelled by request {found.id}", answered)
                case requests.Retry():
                    self._answered = asked.offset  # its answer is a commit that is still to come
                    self._retrial = Retrial(self._table, found.offsets, meta, self._known)
                case requests.EndSnapshot():
                    return self._end_snapshot(SNAPSHOT_OPERATOR)
                case requests.CarriedTruncation():
                    raise ShardRefused(
                        f"shard {self._shard} of {self._table.name}: a former version carried a truncation here that "
                        f"has not taken effect yet (offset {asked.offset} of the control topic), and this version "
                        f"carries none: run the former one until it has, or "
                        f"{remedies.reload_from_file(self._table.name)}"
                    )
                case Refused():
                    self._say("warning", f"request {found.id} is refused: {found.why}")
                    return self._remember(meta.rebuild, self._answer_to(found.id, meta, REFUSED, found.why))
        return None

    def _say(self, level: str, words: str) -> None:
        self.said.append((level, words))

    def _answer_to(self, id_: str, meta: Meta, state: str, said: str, algorithm: str = "") -> Progress:
        """An answer to a request; it is remembered among the rebuilds."""
        answered = rebuild.next_rebuild(meta, id_, algorithm, 0)
        return Progress(answered, 0, state=state, at=int(self._tick.now), said=said)

    def _remember(self, running: Progress | None, *ended: Progress) -> Remember:
        return Remember(running, ended, self._answered)

    # -- messages that are applied late ---------------------------------------------------------------------------

    def _retry_on(self, retrial: Retrial, meta: Meta) -> Event | Ready:
        """Reads on from the first of them; once nothing is left to be read, they are applied."""
        if retrial.next < meta.next:
            return Ready(read=ready.ReadPiece(retrial.next, meta.next))
        self._retrial, self._answered = None, self._answered + 1
        return ready.ApplyLate(retrial.judged(), self._answered)

    # -- rebuilds: begin and end ----------------------------------------------------------------------------------

    def _check(self, meta: Meta, engine: Engine) -> Event | None:
        """Begins a rebuild by itself if one is due."""
        last = rebuild.last_rebuild(meta.rebuilds)
        since, best = (last.at, rebuild.reached(last)) if last else (self._tick.since, 1.0)
        now = rebuild.Situation(self._tick.now, since, self.drift, best)
        why = rebuild.due(self._table.rebuilding, self._shard, now)
        if why is None:
            return None
        return self._begin(f"{self._tick.chance >> 32:08x}", self._table.rebuilding.algorithm, why, meta, engine)

    def _begin(self, id_: str, algorithm: str, why: str, meta: Meta, engine: Engine) -> Event:
        now, drift = int(self._tick.now), self.drift or 0.0
        try:
            rows_max = rebuild.region_rows(self._table, algorithm, engine.n_rows)
        except UsageError as error:  # the clock and the drift ask again, and are not answered again and again
            self._say("warning", f"the rebuild by {algorithm} cannot be done: {error}")
            failed = self._answer_to(id_, meta, FAILED, str(error), algorithm)
            return self._remember(None, replace(failed, why=why, began=now, drift=drift))
        begun = rebuild.next_rebuild(meta, id_, algorithm, self._tick.chance & 0xFFFFFFFF)
        regions = engine.regions(begun.turn, rows_max)
        progress = Progress(begun, len(regions), why=why, began=now, at=now, drift=drift)
        self.at, self._running = None, Rebuilding(progress, tuple(regions), meta.secret)
        self._say("info", f"a rebuild by {algorithm} begins ({why}): {len(regions)} regions")
        return self._remember(progress)

    def _end(self, running: Rebuilding, meta: Meta, said: str = "", *more: Progress) -> Event:
        ended = replace(running.closed(), at=int(self._tick.now), said=said)
        self._running = self.at = None
        last = self._look.last
        self._look = self._look.ended(self._looked(meta.counts.messages, last.seconds if last else 0.0), None)
        self._say("info", f"the rebuild is over: {rebuild.told(ended)}")
        return self._remember(None, ended, *more)

    def _close_interrupted(self, left: Progress, meta: Meta) -> Event:
        """Closes a rebuild whose worker went away, or that an error ended; an operator's is started again."""
        failed, state = self._interrupted.failed, FAILED if self._interrupted.failed else STOPPED
        said = failed or "its worker ended, or the shard was taken over by another one"
        self._say("warning", f"a rebuild is {state}: {said}")
        tried = rebuild.attempts(meta, left.rebuild.id) + 1
        again = state == STOPPED and left.why == OPERATOR and tried <= RESTARTS_MAX
        self._interrupted = Interrupted(restart=(left.rebuild.id, left.rebuild.algorithm) if again else None)
        return self._remember(None, replace(left, state=state, at=int(self._tick.now), said=said))

    # -- region after region --------------------------------------------------------------------------------------

    def _begin_region(self, meta: Meta, engine: Engine) -> Ready | None:
        why = self.wants(meta, engine.n_rows)
        if why == SAMPLE:
            return self._begin_sample(engine)
        task = self._running.task if self._running is not None and why else None
        if task is None or self._running is None:
            return None
        region = engine.region(task.numbers)
        self.at = At(region, REBUILD)
        algorithm = self._running.progress.rebuild.algorithm
        return Ready(job=ready.GroupRegion(region.rows, algorithm, task.seed, region.standing))

    def _advance(self, running: Rebuilding, meta: Meta) -> Event | None:
        if self._why == REPLACING and meta.rebuild is not None:  # its commit is done
            running = running.replaced(meta.rebuild)
            self.at, self._running = None, running
        return self._end(running, meta) if running.task is None else None

    def _job_failed(self, event: ready.JobFailed, meta: Meta) -> Event | None:
        why, self.at = self._why, None
        if why == SAMPLE:
            self._say("warning", f"drift could not be looked for: {event.why}")
            self._look = self._look.ended(self._looked(meta.counts.messages), self.drift)
        elif self._running is not None:
            return self._end(self._running.ended(FAILED), meta, event.why)
        return None

    def _regrouped(self, event: ready.JobDone, meta: Meta, engine: Engine) -> Event | None:
        """Replaces the region by what the algorithm has made of it, if that is worth it."""
        at, running = self.at, self._running
        if at is None or at.why != REBUILD or running is None:
            return None
        self.at = None
        now = engine.region(at.region.numbers)
        same = now.stamp == at.region.stamp
        fitted = event.groups if same else rebuild.adapted(self._table, at.region, event.groups, now)
        progress = replace(running.progress, at=int(self._tick.now))
        if fitted is None:
            self._running = running.changed()
        elif rebuild.gains(self._table.space, now, fitted, progress.rebuild.algorithm):
            self.at = At(now, REPLACING)
            return ready.Replace(now, fitted, progress)
        else:
            progress = progress.left_alone(now)
            self._running = running.replaced(progress)
            if meta.rebuild is not None and progress.at - meta.rebuild.at >= TELL_SECONDS:
                return self._remember(progress)
        return None

    # -- looking for drift ----------------------------------------------------------------------------------------

    def _begin_sample(self, engine: Engine) -> Ready | None:
        look = self._look
        if not look.regions:
            turn, last = look.turn + 1, look.last
            regions = tuple(rebuild.drawn(engine.regions(turn, rebuild.SAMPLE_ROWS), turn))
            if not regions:
                self._look = Look(turn, last=self._looked(last.messages if last else 0), drift=self.drift)
                return None
            look = Look(turn, regions, last=last, drift=self.drift)
        region = engine.region(look.regions[-1])
        self._look, self.at = look._replace(regions=look.regions[:-1]), At(region, SAMPLE)
        return Ready(job=ready.GroupRegion(region.rows, FRESH, look.turn, None))

    def _sampled(self, event: ready.JobDone, meta: Meta) -> None:
        at, self.at = self.at, None
        if at is None:
            return
        space = self._table.space
        fresh = space.published_loss_of(space.cells(at.region.rows.codes), event.groups)
        look = self._look.sampled(at.region.published_ncp, fresh, event.seconds)
        if not look.regions:
            drift = rebuild.ratio(look.now, look.fresh)
            look = look.ended(self._looked(meta.counts.messages, look.seconds), drift)
            self._say("info", f"loses {drift:.2f} times what a fresh table would, by a sample")
        self._look = look

    def _looked(self, messages: int, seconds: float = 0.0) -> Looked:
        return Looked(self._tick.clock, seconds, messages)

    # -- a snapshot that is held back -----------------------------------------------------------------------------

    def _snapshot_ends(self, meta: Meta, seen_elsewhere: bool) -> Event | Ready | None:
        """Says that it is over, or asks the other shards."""
        snapshot, now, idle, held = meta.snapshot, self._tick.clock, self._tick.idle, self._held
        if snapshot is None or not holds_back(meta):
            return None
        if held.reads < 0:
            self._say("info", f"holds back a snapshot that began at offset {snapshot.since}")
        if snapshot.reads != held.reads:
            held = held._replace(reads=snapshot.reads, read_at=now)
        quiet = now - held.read_at
        why = ended_by(snapshot, quiet, idle, seen_elsewhere)
        asks = idle and quiet >= SETTLED_SECONDS and not snapshot.seen and now - held.asked_at > ASK_SECONDS
        self._held = held._replace(asked_at=now) if asks and not why else held
        if why:
            return self._end_snapshot(why)
        return Ready(read=ready.ReadOthers()) if asks else None

    def _end_snapshot(self, why: str) -> Event:
        self._say("info", f"the snapshot is over ({why})")
        return ready.SnapshotEnded(why)
