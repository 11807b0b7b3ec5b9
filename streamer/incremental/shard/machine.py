"""One shard as a state machine: an event goes in, and what is to be done next comes out.

The rules of this file
----------------------
* Pure: no clock, no store, no Kafka, no thread. What is to be read or written is asked for in `Ready`, and the answer
  comes back as an event. The same events give the same answers, however they are cut into batches.
* `TABLE`, at the end, says what handles an event in a state, and where that may lead. Any other event is an error, and
  so is any event while a commit is under way.
* After every error the shard is taken over again (`Assigned`): there is no other way back.
* Each message of a batch is decoded and applied by itself, and a faulty one becomes a dead letter. After an unforeseen
  error the table is loaded again, and the batch is applied again without that message.
* Take-overs, a store that is behind its output, a secret that is lost: docs/explanation/recovery.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from streamer.errors import Conflict, EventRefused, LawViolated, ShardRefused, StreamerError
from streamer.incremental import remedies
from streamer.incremental.engine.engine import NOTHING_PUBLISHED, Engine
from streamer.incremental.events import changes
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import KeyContract
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.sealed.publisher import Sealed
from streamer.incremental.shard import first_commits, preflight, ready, sealing, steps
from streamer.incremental.shard import snapshot as snapshots
from streamer.incremental.shard.activities import Activities
from streamer.incremental.shard.input import KeptSecret, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.ready import Publication, Ready
from streamer.incremental.shard.retrial import Judged, failed_by
from streamer.incremental.shard.states import (
    AFTER_COMMIT,
    BETWEEN,
    LISTENING,
    SERVED,
    Doing,
    Holding,
    Loaded,
    Phase,
    Release,
    TakeOver,
    UnderWay,
)
from streamer.incremental.shard.steps import Repetition, Skipped, StepReport, StepTally, Unforeseen, unforeseen
from streamer.incremental.store.base import Adopted, Meta, Snapshot, State, remembered
from streamer.incremental.topics import CHANGES, SEALED
from streamer.table.schema import Table, version_of

NCP_SECONDS = 5.0
"""How often the loss of the whole table is summed up: one look at every QI group."""


class Machine:
    """One shard of one table; to be used from one thread at a time."""

    def __init__(
        self,
        table: Table,
        shard: int,
        secret: bytes,  # of a shard that has none yet
        holding: Holding = Holding.NOTHING,
        schemas: Known | None = None,  # of a registry; those that a batch needs are among them
        turn: AbstractContextManager[object] | None = None,  # held while this shard computes in Python
        form: Formation | None = None,  # of sealed cohorts; None: this machine publishes none
    ) -> None:
        self.table, self.shard, self.holding = table, shard, holding
        self.name = f"shard {shard} of {table.name}"
        self._secret = secret
        self._schemas = schemas
        self._turn = turn or nullcontext()
        self._form = form
        self._decoder = Decoder(table, schemas)
        self._contract = KeyContract(table, shard, schemas)
        self._changelog = Changelog(table, shard)

        self.phase = Phase.IDLE
        self.meta = Meta()  # where the shard stands, as of its last commit: while another is under way, too
        self.activities = Activities(table, shard, schemas)
        self.fence = ""  # of the last take-over; "" before the first one
        self._taken = TakeOver(ready.Assigned())
        self._work = UnderWay()
        self._loaded: Loaded | None = None
        self._summed_up = -NCP_SECONDS, NOTHING_PUBLISHED  # when, and what was published then

    # -- one event ------------------------------------------------------------------------------------------------

    def handle(self, event: ready.Event) -> Ready:
        """Returns what is to be done now. Raises StreamerError for an event that means nothing in this state.

        `Ready.stop` has an error that no repetition changes, or a law that does not hold.
        """
        transition, before = TABLE.get((self.phase, type(event))), self.phase
        ends_commit = isinstance(event, ready.Performed | ready.Unwritable | ready.Failed | ready.Revoked)
        if transition is None or (self._work.doing is not None and not ends_commit):
            raise StreamerError(
                f"{self.name} is {before.value}, and nothing leads on from there by {type(event).__name__}; take "
                "the shard over first"
            )
        try:
            asked = transition.how(self, event)
        except StreamerError as error:
            self._let_go(Phase.REFUSED if isinstance(error, ShardRefused) else Phase.IDLE)
            return Ready(stop=error)
        except BaseException:
            self._let_go(Phase.IDLE)
            raise
        if self.phase not in transition.leads:
            raise LawViolated(f"{self.name}: {type(event).__name__} led from {before.value} to {self.phase.value}")
        return asked

    def _let_go(self, phase: Phase) -> None:
        """Drops the table: a shard that is not served must not fill memory."""
        self.phase, self._loaded, self._work = phase, None, UnderWay()
        self.activities.drop_region()
        if phase is Phase.REFUSED:
            self.fence = ""  # the remedy may be a copy of the store, whose fence is an older one

    def _drop(self, event: ready.Failed | ready.Revoked) -> Ready:
        self._let_go(Phase.IDLE)
        return Ready()

    def _done(self) -> Ready:
        """Ends what the last event from outside has begun."""
        report, self._work.report = self._work.report, StepReport()
        return Ready(report=report)

    # -- how it stands --------------------------------------------------------------------------------------------

    @property
    def facts(self) -> ready.Facts:
        if self._loaded is None:
            return ready.Facts(self.phase.value, self.meta)
        (engine, s), (_, withheld, ncp), drift = self._loaded, self._summed_up[1], self.activities.drift
        pending = min(engine.n_rows, engine.n_pending + withheld)
        sizes = {"rows": engine.n_rows, "pending": pending, "qi_groups": engine.n_qi_groups}
        fresh = ncp / drift if ncp is not None and drift else None
        sealed = None if s is None else ready.SealedFigures(s.epoch, s.n_cohorts, s.n_waiting)
        return ready.Facts(self.phase.value, self.meta, sizes, ncp, fresh, sealed, withheld)

    @property
    def hurries(self) -> bool:
        """True if a `Tick` is wanted at once."""
        return self.phase in LISTENING and self.activities.hurries(self.meta)

    @property
    def engine(self) -> Engine:
        """The shard's table in memory. Raises StreamerError if there is none."""
        if self._loaded is None:
            raise StreamerError(f"{self.name} is {self.phase.value}, without a table: take the shard over first")
        return self._loaded.engine

    @property
    def _sealed(self) -> Sealed | None:
        return None if self._loaded is None else self._loaded.sealed

    @property
    def standing(self) -> Consistency | None:
        """The store against the output, as the last take-over found them."""
        return self._taken.standing

    @property
    def replays_to(self) -> int | None:
        """The offset up to which the input is read again without publishing, because the store lost commits."""
        return None if self._replay is None else self._replay.to.next

    @property
    def _replay(self) -> Repetition | None:
        """The repetition that is not over yet."""
        repetition = self._taken.repetition
        return None if repetition is None or repetition.is_over(self.meta) else repetition

    @property
    def holds_back(self) -> bool:
        """True if the shard holds back the rows of a snapshot."""
        return self.holding is Holding.SNAPSHOT and snapshots.holds_back(self._before_next)

    @property
    def _before_next(self) -> Meta:
        """The last commit, with the snapshot that has turned since: the next commit changes that."""
        meta, turned = self.meta, self._work.turned
        return meta if turned is None else replace(meta, snapshot=turned)

    @property
    def wants_region(self) -> str:
        """Why the process that anonymizes is wanted once it is free; "" if it is not."""
        if self.phase is not Phase.SERVING or self._loaded is None:
            return ""
        return self.activities.wants(self.meta, self._loaded.engine.n_rows)

    # -- the take-over --------------------------------------------------------------------------------------------

    def _assign(self, event: ready.Assigned) -> Ready:
        self._let_go(Phase.INSPECTING)
        self._taken = TakeOver(event)
        return Ready(read=ready.Preflight())

    def _inspect(self, event: ready.Inspected) -> Ready:
        """Refuses what does not fit together; if the present owner is at work, without what its work changes."""
        position, meta = event.position, event.meta
        found = replace(event.input, live_begun=False)  # the present owner may have begun it just now
        if meta is not None and meta != event.before:
            position, found = Position.of(meta), replace(found, again=())
        preflight.check_secret(self.table, self.shard, event.meta, event.secret)
        meta = meta or preflight.first_meta(self.table, found)
        preflight.compare(self.table, self.shard, meta, position, found)
        self.phase = Phase.FENCING
        return Ready(read=ready.TakeFence(again=bool(self.fence)))

    def _take(self, event: ready.Taken) -> Ready:
        self.fence = event.fence
        return Ready(read=ready.ReadOwned(event.fence))

    def _own(self, event: ready.Owned) -> Ready:
        """Compares again, now that nothing moves, and goes the way that store, output and input ask for."""
        preflight.check_secret(self.table, self.shard, event.meta, event.secret)
        secret = (event.secret.secret if event.secret is not None else b"") or self._secret
        self.meta = event.meta or replace(preflight.first_meta(self.table, event.input), secret=secret)
        standing = preflight.compare(self.table, self.shard, self.meta, event.position, event.input)
        assigned, replay = self._taken.assigned, None
        if standing is Consistency.BEHIND and event.position is not None:
            epochs = sealing.to_repeat(self.table, self.name, self.meta, event.position, event.epochs)
            replay = Repetition(event.position, epochs)
        skipped = Skipped(self.name, self.meta, assigned.skips, replay.to if replay is not None else None)
        self._taken = TakeOver(assigned, event, standing, replay, skipped)
        if standing is Consistency.AHEAD:
            self.phase = Phase.FINISHING
            sealed_end = event.position.ends.get(SEALED, 0) if event.position is not None else 0
            return Ready(read=ready.ReadOutbox(self.fence, self.meta.commit, sealed_end))
        return self._publish_again() if standing is Consistency.INCOMPLETE else self._restore()

    def _finish(self, event: ready.Outboxed) -> Ready:
        if len(event.entries) < self.meta.entries:  # it was published and trimmed: the output has lost it
            taken = self._taken
            self._taken = TakeOver(taken.assigned, taken.owned, Consistency.INCOMPLETE, skipped=taken.skipped)
            return self._publish_again()
        entries = [entry for entry in event.entries if entry.topic != SEALED] if event.sealed_is_out else event.entries
        return Ready(publish=Publication.of(entries, self.meta))

    def _publish_again(self) -> Ready:
        self.phase = Phase.REPUBLISHING
        return Ready(read=ready.ReadOutput(self.fence, self.meta.commit))

    def _republish_from(self, event: ready.Output) -> Ready:
        self._work.release = Release(output=event)
        return Ready(read=ready.ReadTable())

    def _republish(self, event: ready.Stored) -> Ready:
        """Gives an output that lacks records the whole table: see `first_commits.whole_table`."""
        state, output, owned = self._at_last_commit(event.state), self._work.release.output, self._taken.owned
        groups, records = (dict(state.kept.qi_groups), state.kept.records) if state else ({}, ())
        is_out = owned.position is not None and owned.position.is_of(self.meta)
        waiting = () if is_out else output.waiting
        waiting = sealing.not_out_yet(self.table, self.name, self.meta, output.found.sealed, waiting)
        whole = (self.table, self.shard, self.meta, owned.input, groups, waiting, output.found, records)
        self._work.release = Release(commits=iter([first_commits.whole_table(*whole)]))
        return self._next_of_release() or self._restore()

    def _restore(self, event: ready.Performed | None = None) -> Ready:
        """Has the outbox trimmed of what is published; then the table is loaded."""
        taken, trim = self._taken, self.meta.commit
        self.phase, self.meta = Phase.RESTORING, preflight.with_topics(self.meta, taken.owned.input)
        self.activities.taken_over(self.meta, taken.assigned.clock)
        return Ready(self.fence, trim=trim)

    def _load(self, _event: ready.Performed | None = None, fence: str = "") -> Ready:
        """Has the table loaded as of the last commit; but a release that is due comes before everything else."""
        self._loaded = None  # first: two tables need not fit into memory
        snapshot = self._before_next.snapshot
        if not (self.holds_back and snapshot is not None and snapshot.is_over):
            self.phase = Phase.RESTORING
            return Ready(read=ready.ReadTable(fence))
        self.phase = Phase.RELEASING
        return Ready(read=ready.ReadTable()) if self._work.batch.messages else self._done()

    def _into_memory(self, event: ready.Stored) -> Ready:
        """Takes the table into memory. Raises ShardRefused if it is not the one that was published."""
        state = self._at_last_commit(event.state)
        gathers = self.holding is Holding.ALL or self.holds_back
        shards, secret = self.meta.shards, self.meta.secret
        if state is None:
            engine = Engine(self.table, self.shard, shards, secret, gathers)
        else:
            qi_groups = preflight.Digested(state.kept.qi_groups)
            kept = replace(state.kept, qi_groups=qi_groups)
            with self._adoptable():
                engine = Engine.load(self.table, self.shard, shards, kept, secret, gathers)
                qi_groups.check(self.table, self.shard, self.meta)
        sealed = sealing.taken_over(self.table, self.shard, self._form, self.meta, state, engine)
        self._loaded = Loaded(engine, sealed)
        return self._go_on()

    @contextmanager
    def _adoptable(self) -> Iterator[None]:
        """Names both versions of the engine where a state that an older one kept is refused. Raises ShardRefused."""
        kept = preflight.former_version(self.table, self.meta)
        try:
            yield
        except (ShardRefused, LawViolated) as error:
            if not kept:
                raise
            mend = "" if isinstance(error, ShardRefused) else f"; {remedies.reload(self.table.name)}"
            raise ShardRefused(
                f"{self.name}: the state was kept by engine version {kept}, and this streamer's, "
                f"{version_of(self.table.fingerprint)}, cannot adopt it; run the version that kept it, or do as "
                f"follows: {error}{mend}"
            ) from None

    def _adopt(self) -> Ready:
        """Commits the QI groups that an older version of the engine kept, as this one publishes them."""
        before, kept = self.meta, preflight.former_version(self.table, self.meta)
        with self._adoptable():
            with self._turn:
                n = self.engine.renew()
            number, fingerprint = before.commit + 1, self.table.fingerprint
            adopted = (*before.adopted, Adopted(kept, n, number))
            meta = replace(before, fingerprint=fingerprint, outside=number, adopted=adopted)
            return self._commit_without_messages("its QI groups cannot be published", meta)

    def _at_last_commit(self, state: State | None) -> State | None:
        """Raises Conflict if what the store holds is not the last commit: somebody wrote meanwhile."""
        if (state.meta.commit if state else 0) != self.meta.commit:
            raise Conflict(f"{self.name}: the store is not at commit {self.meta.commit}; take the shard over again")
        return state

    # -- a batch of messages --------------------------------------------------------------------------------------

    def _go_on(self, batch: ready.Messages | None = None) -> Ready:
        """Does what is next with the table in memory: of a new batch, of the rest of the last one, or of a replay."""
        if batch is not None:
            self._work.batch = batch
        late, replay = self._work.late, self._replay
        self.phase = Phase.REPLAYING if replay else Phase.BUFFERING if self.holds_back else Phase.SERVING
        if self.meta.fingerprint != self.table.fingerprint:
            return self._adopt()
        if late is not None:
            self._work.late = None
            return self._apply_late(late)
        if replay is not None and (over := replay.epoch_due(self.meta)) is not None:
            return self._end_epoch(over.seconds)
        due = replay.retry_due(self.meta) if replay is not None else None
        if due is not None and due[0] == self.meta.next:
            return Ready(read=ready.ReadMessage(due[1]))
        while self._work.batch.messages or self.meta.next < self._work.batch.through:
            snapshot = self._turns_before_the_next()
            if snapshot is not None:
                self._work.turned = snapshot
                return self._load()
            tally = StepTally.after(self.meta)
            try:
                reached = self._apply_some(tally)
                if tally.next > self.meta.next:
                    return self._commit(tally, first=reached)
            except Unforeseen as fault:
                return self._begin_again(fault, tally)
            self._cut_batch(reached)
        return self._keep_secret() or self._done()

    def _cut_batch(self, first: int) -> None:
        """Drops the batch's messages before number `first`."""
        batch = self._work.batch
        self._work.batch = ready.Messages(batch.messages[first:], batch.through)

    def _begin_again(self, fault: Unforeseen, tally: StepTally) -> Ready:
        """Loads the table again, without what was applied in vain, and has the message at fault skipped."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        last = tally.read.offset if tally.read is not None else -1
        said = self._taken.skipped.failed(fault, last, tally.counts.messages, self.meta)
        self._work.report += StepReport(faults=[said])
        return self._load(fence=self.fence)

    def _apply_some(self, tally: StepTally) -> int:
        """Applies messages up to where a commit is due; returns the first one not applied.

        The core runs what was queued outside the turn: while it does, other shards compute in Python.
        """
        batch, replay = self._work.batch, self._replay
        stop = None if replay is None else replay.stops_at(self.meta)
        reached, is_due = 0, False
        while reached < len(batch.messages):
            with self._turn:
                reached, is_due = self._apply_queued(tally, reached, stop)
            if is_due or self._is_full(self.engine):
                return reached
        tally.next = max(tally.next, batch.through if stop is None else min(batch.through, stop))
        return reached

    def _apply_queued(self, tally: StepTally, first: int, stop: int | None) -> tuple[int, bool]:
        """Applies messages from number `first` on until much is queued; also says whether a commit is due by then."""
        messages, engine, skipped = self._work.batch.messages, self.engine, self._taken.skipped
        for i in range(first, len(messages)):
            message = messages[i]
            if message.offset < tally.next:
                continue
            if stop is not None and message.offset >= stop:  # the offsets in between hold no messages
                tally.next = stop
                return i, True
            mark = self._mark(message)
            if self._turned(mark, message.offset) is not None:
                return i, True
            ends_failures = self._apply(engine, message, tally)
            tally.marks[mark] += 1
            is_due = ends_failures or tally.next == stop or skipped.goes_alone(message.offset)
            if is_due or engine.is_nearly_full:
                return i + 1, is_due
        return len(messages), False

    def _is_full(self, engine: Engine) -> bool:
        if not engine.is_nearly_full:
            return False
        with unforeseen():  # to tell, the engine applies what waits in it
            return engine.rows_published_max >= self.table.limits.transaction_rows_max

    def _apply(self, engine: Engine, message: Message, tally: StepTally) -> bool:
        """Applies one message, or writes the letter that says why not. Returns True if it ends a row of failures."""
        ends_failures = False
        try:
            self._taken.skipped.check(message.offset, tally)
            with unforeseen(message.offset):
                change = self._decode(message)
                key_form = self._contract.form_after(tally.key_form, message.key, change, self.meta.shards)
            if isinstance(change, changes.Statement):  # it runs what is queued, whose faults are not its own
                with unforeseen():
                    engine.run()
            with unforeseen(message.offset):
                engine.at = message.timestamp
                outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.counts += changes.DEAD
            tally.reasons[refusal.reason] += 1
            tally.letters.append(steps.refused(self._coordinates(message.offset), refusal))
        else:
            tally.counts += steps.counts_of(outcome)
            if outcome.left_unchanged:
                tally.letters.append(steps.partial(self._coordinates(message.offset), outcome.left_unchanged))
            if outcome.applied:
                tally.key_form = key_form
                ends_failures = self._taken.skipped.applied(message.offset)
                self._count_unlisted(tally)
        tally.read, tally.next = message, message.offset + 1
        return ends_failures

    def _decode(self, message: Message) -> changes.Change:
        try:
            return self._decoder.decode(message.key, message.value)
        except EventRefused:
            raise
        except Exception as error:  # a bug; but one message must not stop the stream, and decoding changes nothing
            raise EventRefused("internal-error", f"decoding failed with {type(error).__name__}") from None

    def _count_unlisted(self, tally: StepTally) -> None:
        if self._decoder.unlisted:
            tally.counts += changes.Counts(unlisted=dict(self._decoder.unlisted))

    def _coordinates(self, offset: int) -> steps.Coordinates:
        return steps.Coordinates(f"{self.table.name}.{CHANGES}", self.shard, offset)

    # -- between two batches --------------------------------------------------------------------------------------

    def _between(self, event: ready.Event) -> Ready:
        """Asks what is to be done between two batches, and does it."""
        if isinstance(event, ready.Tick) and event.clock - self._summed_up[0] >= NCP_SECONDS:
            self._summed_up = event.clock, self.engine.published
        if isinstance(event, ready.Tick) and self._sealed is not None and self.phase is Phase.SERVING:
            over = self._sealed.due(event.now)
            if over is not None:
                return self._end_epoch(over)
        with self._turn:
            what = self.activities.next(event, self._before_next, self.engine)
        if what is None:
            return self._done()
        if isinstance(what, Ready):
            return what
        try:
            return TABLE[self.phase, type(what)].how(self, what)
        except LawViolated as error:
            if not isinstance(what, ready.Replace):
                raise
            self.activities.failed(str(error))
            raise Conflict(f"{self.name}: a rebuild has failed: {error}") from None

    def _heard(self, event: ready.Request) -> Ready:
        """Has a request wait until the release is done."""
        self.activities.hear(event)
        return self._done()

    def _tick_in_replay(self, _event: ready.Tick) -> Ready:
        return self._done()

    def _tick_in_release(self, event: ready.Tick) -> Ready:
        return self._done() if self._work.release.rows is not None else self._begin_release(ready.SnapshotEnded())

    # -- commits --------------------------------------------------------------------------------------------------

    def _commit(
        self,
        tally: StepTally,
        first: int = 0,
        late: ready.ApplyLate | None = None,
        due: tuple[int, int] | None = None,
        complaint: str = "",
        over: int | None = None,
        meta: Meta | None = None,
    ) -> Ready:
        """Checks what was applied, and has it stored and published; a replay only stores it. Raises Unforeseen.

        over: the time of the epoch that ends with it, if one does. meta: what the commit changes beside that is in it.
        """
        engine, replay = self.engine, self._replay
        with unforeseen():
            engine.compute()
            with self._turn:
                drained = engine.drain()
                self._work.report += StepReport(merges=drained.merges, splits=drained.splits)
                part = sealing.committed(self._sealed, drained.row_changes, self.holds_back, over)
                commit = steps.next_commit(meta or self._before_next, drained, tally, self._changelog, part)
                if replay is not None:
                    commit = replace(commit, meta=replay.numbered(self.table, self.shard, commit.meta), outbox=[])
        records = max(0, len(commit.outbox) - len(tally.letters))
        self._work.doing = Doing(commit.meta, tally, records, first, late, due, complaint)
        if replay is not None:
            return Ready(self.fence, self.meta.commit, commit)
        publication = Publication.of(commit.outbox, commit.meta)
        return Ready(self.fence, self.meta.commit, commit, publication, trim=commit.meta.commit)

    def _committed(self) -> Doing | None:
        """The store has performed the commit that was under way; returns it. None: the secret is kept."""
        doing = self._work.doing
        if doing is not None:
            self.meta, self._work.doing, self._work.turned = doing.meta, None, None
        return doing

    def _performed(self, event: ready.Performed) -> Ready:
        """A commit is stored and published, or the secret is kept."""
        doing = self._committed()
        if doing is None:
            return self._go_on()
        for one in self.meta.adopted[-1:]:
            if one.commit == self.meta.commit:
                said = f"adopted {one.qi_groups} QI groups that engine version {one.version} kept"
                self.activities.said.append(("info", said))
        if doing.due is None:  # else it was counted when it was applied late first
            seconds = event.commit_seconds, event.publish_seconds
            self._work.report += StepReport.of_commit(doing.tally, doing.records, *seconds)
        if doing.due is not None and (self.meta.retried or [None])[-1] != doing.due:
            why = "it is not there, or is refused now"
            raise steps.cannot_repeat(self.table, self.shard, doing.due[1], why)
        self._cut_batch(doing.first)
        return self._go_on()

    def _unwritable(self, event: ready.Unwritable) -> Ready:
        doing, self._work.doing = self._work.doing, None
        fault = Unforeseen(event.what, None)
        if doing is None or doing.complaint:
            raise LawViolated(f"{self.name}: {doing.complaint if doing else 'a commit'} ({event.what})")
        if doing.late is not None:
            return self._late_failed(doing.late, doing.due, fault)
        return self._begin_again(fault, doing.tally)

    def _end_epoch(self, seconds: int) -> Ready:
        said = sealing.said_of_end(self.meta, self.shard, seconds)
        return self._commit_without_messages("an epoch of the sealed changelog cannot end", None, [said], seconds)

    def _commit_without_messages(
        self, complaint: str, meta: Meta | None, said: Sequence[OutboxEntry] = (), over: int | None = None
    ) -> Ready:
        """Commits and publishes what no message has brought about; said: beside rows; meta, over: of `_commit`."""
        tally = StepTally.after(self.meta)
        tally.letters += said
        try:
            return self._commit(tally, complaint=complaint, over=over, meta=meta)
        except Unforeseen as fault:
            raise LawViolated(f"{self.name}: {complaint} ({fault.what})") from None

    def _first_rows(self, event: ready.FirstRows) -> Ready:
        """Publishes rows and QI groups as release 0; the input does not hold them."""
        rows, meta = event.rows, self.meta
        if meta.commit:
            raise ShardRefused(f"{self.name} holds a table already")
        self.engine.load_initial(rows.source_keys, rows.rows(), rows.codes, event.groups)
        first = replace(meta, release=-1 if self.engine.published.rows else 0, outside=1)
        return self._commit_without_messages("the initial table cannot be published", first)

    def _replace(self, event: ready.Replace) -> Ready:
        """Gives a region other QI groups in one commit. Does nothing if the region has changed since it was read.

        Raises LawViolated if the groups are not all of the region's rows, once each, or do not hold the model.
        """
        try:
            with self._turn:
                replaced = self.engine.replace(event.region, event.groups)
        except (StreamerError, MemoryError, OSError):
            raise
        except Exception as error:
            raise LawViolated(f"{self.name}: a region cannot be replaced ({steps.told(error)})") from None
        if replaced is None:
            return self._done()
        meta = self.meta
        rebuild = meta.rebuild if event.progress is None else event.progress.after(replaced)
        following = replace(meta, outside=meta.commit + 1, rebuild=rebuild)
        return self._commit_without_messages("a region cannot be replaced", following)

    def _remember(self, event: ready.Remember) -> Ready:
        before = self._before_next
        rebuilds, answered = remembered(before.rebuilds, event.ended), max(before.control_next, event.heard)
        meta = replace(before, rebuild=event.running, rebuilds=rebuilds, control_next=answered)
        return self._commit_without_messages("what is said of rebuilds cannot be kept", meta)

    # -- what the control topic keeps -----------------------------------------------------------------------------

    def _keep_secret(self) -> Ready | None:
        """Has the control topic keep the secret: before the first commit, or once the store is as the output."""
        owned = self._taken.owned
        if owned.secret is None or owned.secret.is_current or self._replay is not None:
            return None
        kept = KeptSecret(self.meta.secret, is_current=True)
        self._taken = replace(self._taken, owned=owned._replace(secret=kept))
        return Ready(keep=kept)

    # -- refused messages that are applied late -------------------------------------------------------------------

    def _repeat_retry(self, event: ready.Fetched) -> Ready:
        """In a replay, applies late what was applied late here before."""
        due = None if self._replay is None else self._replay.retry_due(self.meta)
        if due is None:
            raise LawViolated(f"{self.name}: no message is due to be applied late")
        return self._apply_late(ready.ApplyLate([Judged(due[1], event.message, None)], 0), due)

    def _apply_late(self, late: ready.ApplyLate, due: tuple[int, int] | None = None) -> Ready:
        """Applies refused messages late, in one commit, with letters that say what became of each."""
        before, tally = self._before_next, StepTally.after(self.meta)
        try:
            with self._turn:
                for one in late.judged:
                    self._apply_one_late(self.engine, one, tally)
            meta = replace(before, control_next=max(before.control_next, late.heard))
            return self._commit(tally, late=late, due=due, meta=meta)
        except Unforeseen as fault:
            return self._late_failed(late, due, fault)

    def _apply_one_late(self, engine: Engine, one: Judged, tally: StepTally) -> None:
        where = self._coordinates(one.offset)
        try:
            if one.message is None or one.refusal is not None:
                raise one.refusal or EventRefused("message-gone", "the input does not hold it any more")
            with unforeseen(one.offset):
                change = self._decode(one.message)
                key_form = self._contract.form_after(tally.key_form, one.message.key, change, self.meta.shards)
                engine.at = one.message.timestamp
                outcome = engine.apply(change)
            if outcome.old_read:
                raise EventRefused(steps.SUPERSEDED, "a snapshot read this row before it was changed or deleted")
        except EventRefused as refusal:
            tally.letters.append(steps.not_retried(where, refusal))
        else:
            tally.counts += changes.APPLIED_LATE if outcome.applied else changes.IGNORED_LATE
            if outcome.applied:
                tally.key_form = key_form
                self._count_unlisted(tally)
            tally.retried.append((tally.next, one.offset))
            tally.letters.append(steps.retried(where))

    def _late_failed(self, late: ready.ApplyLate, due: tuple[int, int] | None, fault: Unforeseen) -> Ready:
        """Has the table loaded again, and the message at fault stay refused."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        if due is not None:
            raise steps.cannot_repeat(self.table, self.shard, due[1], fault.what)
        again = ready.ApplyLate([failed_by(one, fault) for one in late.judged], late.heard)
        self._work.late = again
        return self._load()

    # -- a snapshot that is held back -----------------------------------------------------------------------------

    def _mark(self, message: Message) -> Mark:
        if self.holding is Holding.SNAPSHOT and snapshots.looks_for_marks(self._before_next):
            return mark_of(message.value, self._schemas)
        return Mark.NOTHING

    def _turned(self, mark: Mark, offset: int) -> Snapshot | None:
        """The snapshot that begins or ends before a message, as far as the last commit tells."""
        snapshot = None if mark is Mark.NOTHING else snapshots.turned(self._before_next, mark, offset)
        if snapshot is not None and snapshot.ended and self._replay is not None:
            return None  # no message that is published already has ended it
        return snapshot

    def _turns_before_the_next(self) -> Snapshot | None:
        """The snapshot that begins or ends with the next message: everything before is committed."""
        following = next((one for one in self._work.batch.messages if one.offset >= self.meta.next), None)
        if following is None or (self.replays_to is not None and following.offset >= self.replays_to):
            return None  # a table must not turn after the end of a replay before that is reached
        return self._turned(self._mark(following), following.offset)

    def _begin_release(self, event: ready.SnapshotEnded | ready.Messages) -> Ready:
        """Reads the rows that are held back from the store; drops the table, to make room for them."""
        if isinstance(event, ready.Messages):
            self._work.batch = event
        else:
            self._work.release = Release(event.why)
        self.phase, self._loaded = Phase.RELEASING, None
        return Ready(read=ready.ReadTable())

    def _release_from(self, event: ready.Stored) -> Ready:
        """Has the rows put into QI groups; once they are, makes commits of them, after those that are done."""
        state, release = self._at_last_commit(event.state), self._work.release
        if release.rows is None or release.groups is None:
            rows = first_commits.rows_in(self.table, state)
            sealing.check_snapshot(self.table, self.name, rows)
            release.rows = rows
            return Ready(job=ready.GroupSnapshot(rows, self.meta.secret))
        stored = {} if state is None else dict(state.kept.qi_groups)
        before = self._before_next
        ended = (before.snapshot.ended if before.snapshot else "") or release.why
        of = (self.table, self.shard, before, release.rows, release.groups.groups, ended, stored)
        release.commits = first_commits.release_commits(*of, release.groups.records_max)
        return self._next_of_release() or self._load()

    def _grouped(self, event: ready.SnapshotGrouped) -> Ready:
        self._work.release.groups = event
        return Ready(read=ready.ReadTable())

    def _released(self, event: ready.Performed) -> Ready:
        self._committed()
        is_over = self._restore if self.phase is Phase.REPUBLISHING else self._load
        return self._next_of_release() or is_over()

    def _next_of_release(self) -> Ready | None:
        """The next commit of a whole table; None if all are done."""
        with self._turn:
            commit = next(self._work.release.commits, None)
        if commit is None:
            self._work.release = Release()
            return None
        self._work.doing, trim = Doing(commit.meta, StepTally.after(commit.meta)), None
        if self.phase is Phase.RELEASING:
            trim = commit.meta.commit
            self._work.report += StepReport(commits=1, published=len(commit.outbox))
        return Ready(self.fence, self.meta.commit, commit, Publication.of(commit.outbox, commit.meta), trim)


class Transition(NamedTuple):
    """The method that handles an event in a state, and the states to which that may lead."""

    how: Callable[[Machine, Any], Ready]
    leads: tuple[Phase, ...]


P = Phase

TABLE: Mapping[tuple[Phase, type[Any]], Transition] = {
    **{(state, ready.Assigned): Transition(Machine._assign, (P.INSPECTING,)) for state in Phase},
    **{
        (state, kind): Transition(Machine._drop, (P.IDLE,)) for state in Phase for kind in (ready.Failed, ready.Revoked)
    },
    (P.INSPECTING, ready.Inspected): Transition(Machine._inspect, (P.FENCING,)),
    (P.FENCING, ready.Taken): Transition(Machine._take, (P.FENCING,)),
    (P.FENCING, ready.Owned): Transition(Machine._own, (P.FINISHING, P.REPUBLISHING, P.RESTORING)),
    (P.FINISHING, ready.Outboxed): Transition(Machine._finish, (P.FINISHING, P.REPUBLISHING)),
    (P.FINISHING, ready.Performed): Transition(Machine._restore, (P.RESTORING,)),
    (P.REPUBLISHING, ready.Output): Transition(Machine._republish_from, (P.REPUBLISHING,)),
    (P.REPUBLISHING, ready.Stored): Transition(Machine._republish, (P.REPUBLISHING,)),
    (P.REPUBLISHING, ready.Performed): Transition(Machine._released, (P.RESTORING,)),
    (P.RESTORING, ready.Performed): Transition(Machine._load, (P.RESTORING, P.RELEASING)),
    (P.RESTORING, ready.Stored): Transition(Machine._into_memory, (*SERVED, P.RESTORING, P.RELEASING)),
    (P.REPLAYING, ready.Messages): Transition(Machine._go_on, (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, ready.Fetched): Transition(Machine._repeat_retry, (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, ready.Tick): Transition(Machine._tick_in_replay, (P.REPLAYING,)),
    **{(state, ready.Messages): Transition(Machine._go_on, AFTER_COMMIT[state]) for state in LISTENING},
    **{(state, ready.Performed): Transition(Machine._performed, AFTER_COMMIT[state]) for state in SERVED},
    **{(state, ready.Unwritable): Transition(Machine._unwritable, (P.RESTORING,)) for state in SERVED},
    **{(state, kind): Transition(Machine._between, AFTER_COMMIT[state]) for state in LISTENING for kind in BETWEEN},
    (P.SERVING, ready.FirstRows): Transition(Machine._first_rows, (P.SERVING,)),
    (P.SERVING, ready.Replace): Transition(Machine._replace, (P.SERVING,)),
    **{(state, ready.Remember): Transition(Machine._remember, (state,)) for state in LISTENING},
    **{(state, ready.ApplyLate): Transition(Machine._apply_late, (state, P.RESTORING)) for state in LISTENING},
    **{
        (state, ready.SnapshotEnded): Transition(Machine._begin_release, (P.RELEASING,))
        for state in (P.BUFFERING, P.RELEASING)
    },
    (P.RELEASING, ready.Messages): Transition(Machine._begin_release, (P.RELEASING,)),
    (P.RELEASING, ready.Stored): Transition(Machine._release_from, (P.RELEASING, P.RESTORING)),
    (P.RELEASING, ready.SnapshotGrouped): Transition(Machine._grouped, (P.RELEASING,)),
    (P.RELEASING, ready.Performed): Transition(Machine._released, (P.RELEASING, P.RESTORING)),
    (P.RELEASING, ready.Request): Transition(Machine._heard, (P.RELEASING,)),
    (P.RELEASING, ready.Tick): Transition(Machine._tick_in_release, (P.RELEASING,)),
}
"""The meaning of every event in every state; an event that is not here is an error. Any state also leads to Refused if
store, output and input do not fit together, and to Idle if a law does not hold."""
