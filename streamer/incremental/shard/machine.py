"""One shard as a state machine: an event goes in, and what is to be done next comes out.

The rules of this file
----------------------
* Pure: no clock, no store, no Kafka, no thread. What is to be read or written is asked for in `Ready`, and comes back
  as an event. The same events give the same answers, however they are cut into batches.
* `TABLE` says which event is lawful in which state, what handles it, and where it may lead; any other is an error.
* Every way back after an error is the take-over (`Assigned`). Nothing is handled while a commit is under way.
* Each message of a batch is decoded and applied by itself; a faulty one becomes a dead letter. After an error that
  nobody foresaw the table is loaded again, and the batch applied again without that message.
* A take-over, a store that is behind its output, and a secret that is lost: docs/explanation/recovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from streamer.errors import Conflict, EventRefused, LawViolated, ShardRefused, StreamerError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import (
    APPLIED,
    APPLIED_LATE,
    DEAD,
    IGNORED,
    IGNORED_LATE,
    UNKNOWN_KEY,
    Change,
    Counts,
    Statement,
    Truncate,
    Upsert,
)
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import KeyContract
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.incremental.events.source_position import position_of
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard import preflight, steps
from streamer.incremental.shard import snapshot as holding_back
from streamer.incremental.shard.activities import Activities
from streamer.incremental.shard.answers import Judged, failed_by
from streamer.incremental.shard.first_commits import release_commits, rows_in
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import Consistency, Digested, compare, first_meta, to_say_again, with_topics
from streamer.incremental.shard.ready import (
    ApplyLate,
    Assigned,
    Event,
    Facts,
    Failed,
    Fetched,
    FirstRows,
    GroupSnapshot,
    Inspected,
    Messages,
    Outboxed,
    Owned,
    Performed,
    Preflight,
    Publication,
    ReadBehind,
    ReadMessage,
    ReadOutbox,
    ReadOwned,
    ReadTable,
    Ready,
    Remember,
    Replace,
    Request,
    Revoked,
    RowsAfter,
    SnapshotEnded,
    SnapshotGrouped,
    Stored,
    TakeFence,
    Taken,
    Tick,
    Truncated,
    Unwritable,
)
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.states import TABLE, Doing, Holding, Phase, Release
from streamer.incremental.shard.steps import (
    Skipped,
    StepReport,
    StepTally,
    Unforeseen,
    cannot_repeat,
    due_again,
    is_repeated,
    next_commit,
    replayed,
    told,
    unforeseen,
)
from streamer.incremental.shard.truncations import (
    in_source_order,
    is_news,
    passed_over_in,
    said_of_placing,
    said_to_others,
    to_repeat,
)
from streamer.incremental.store.base import Commit, Meta, Snapshot, State, remembered
from streamer.incremental.topics import CHANGES, CONTROL
from streamer.table.schema import Table

NCP_SECONDS = 5.0
"""How often the loss of the whole table is summed up: one look at every QI group."""


class Machine:
    """The state of one shard of one table; to be used from one thread at a time.

    secret: of a shard that never committed. schemas: of a registry, those that a batch needs among them. turn: held
    while the shard computes in Python, free while compiled code runs: shards that share it do not fight for the GIL.
    """

    def __init__(
        self,
        table: Table,
        shard: int,
        secret: bytes,
        holding: Holding = Holding.NOTHING,
        schemas: Known | None = None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self.table, self.shard, self.holding = table, shard, holding
        self.name = f"shard {shard} of {table.name}"
        self._secret = secret
        self._schemas = schemas
        self._turn = turn or nullcontext()
        self._decoder = Decoder(table, schemas)
        self._contract = KeyContract(table, shard, schemas)
        self._changelog = Changelog(table, shard)
        self._place_of = partial(position_of, schemas=schemas)
        self.phase = Phase.IDLE
        self.meta = Meta()
        """Where the shard stands, as of its last commit."""
        self.standing: Consistency | None = None
        """How the store stood against the output at the last take-over."""
        self._fence = ""
        self._assigned = Assigned()
        self._owned = Owned(None, None, InputState({}, 1, 0, 0))
        """What the last take-over read."""
        self._engine: Engine | None = None
        self._replay_to: Position | None = None
        self._to_repeat: list[Placed] = []
        self._new_control = ""
        """The id of a control topic in which the last truncation has to be said once more."""
        self._passed_over = Skipped("", self.meta)
        self._batch = Messages(())
        """What is still to be applied of the last one."""
        self._doing: Doing | None = None
        self._late: ApplyLate | None = None
        """Messages to be applied late once the table is loaded again, because applying them has failed."""
        self.activities = Activities(table, shard, schemas)
        self._figures: tuple[float, float | None] = -NCP_SECONDS, None
        """When the loss of the whole table was summed up last, and what it was on average."""
        self._release = Release()
        self._portions: Iterator[Commit] = iter(())
        """Commits of whole QI groups that are still to be made."""
        self._report = StepReport()

    # -- one event ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> Ready:
        """What is to be done now. Raises StreamerError for an event that means nothing in this state.

        What no repetition changes, or a law that does not hold, is in `Ready.stop`.
        """
        transition = TABLE.get((self.phase, type(event)))
        if transition is None or (self._doing and not isinstance(event, Performed | Unwritable | Failed | Revoked)):
            raise StreamerError(
                f"{self.name} is {self.phase.value}, and nothing leads on from there by {type(event).__name__}; take "
                "the shard over first"
            )
        before = self.phase
        try:
            ready: Ready = getattr(self, transition.how)(event)
        except StreamerError as error:
            self._let_go(Phase.REFUSED if isinstance(error, ShardRefused) else Phase.IDLE)
            return Ready(stop=error)
        except BaseException:
            self._let_go(Phase.IDLE)
            raise
        if self.phase not in transition.leads:
            raise LawViolated(f"{self.name}: {type(event).__name__} led from {before.value} to {self.phase.value}")
        return ready

    def _let_go(self, phase: Phase) -> None:
        """Lets go of the table: a shard that is not served must not fill memory."""
        self.phase, self._engine, self._doing, self._late = phase, None, None, None
        self._batch, self._release, self._portions, self._report = Messages(()), Release(), iter(()), StepReport()
        self.activities.at = None

    def _drop(self, event: Failed | Revoked) -> Ready:
        self._let_go(Phase.IDLE)
        return Ready()

    def _done(self) -> Ready:
        """Nothing is left to be done for the last event from outside."""
        report, self._report = self._report, StepReport()
        hurries = self.phase in (Phase.SERVING, Phase.BUFFERING) and self.activities.hurries(self.meta)
        return Ready(facts=self._facts(), wake=0.0 if hurries else None, report=report)

    def _facts(self) -> Facts:
        if self._engine is None:
            return Facts(self.phase.value, self.meta)
        engine, ncp, drift = self._engine, self._figures[1], self.activities.drift
        sizes = {"rows": engine.n_rows, "pending": engine.n_pending, "qi_groups": engine.n_qi_groups}
        fresh = ncp / drift if ncp is not None and drift else None
        return Facts(self.phase.value, self.meta, sizes, ncp, fresh)

    # -- how it stands --------------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The shard's table in memory. Raises StreamerError if there is none."""
        if self._engine is None:
            raise StreamerError(f"{self.name} is {self.phase.value}, without a table: take the shard over first")
        return self._engine

    @property
    def replays_to(self) -> int | None:
        """The offset up to which the input is read again without publishing, because the store lost commits."""
        return None if self._replay_to is None else self._replay_to.next

    @property
    def holds_back(self) -> bool:
        """Whether the shard holds back the rows of a snapshot."""
        return self.holding is Holding.SNAPSHOT and holding_back.holds_back(self.meta)

    @property
    def awaits_release(self) -> bool:
        """Whether what is held back has to be released before anything else is done."""
        return self.holds_back and self.meta.snapshot is not None and self.meta.snapshot.is_over

    @property
    def truncation_due(self) -> bool:
        """Whether a truncation has to be repeated before the next message is applied."""
        return bool(self._to_repeat) and self.meta.next >= self._to_repeat[0].next

    # -- the take-over --------------------------------------------------------------------------------------------

    def _assign(self, event: Assigned) -> Ready:
        self._let_go(Phase.INSPECTING)
        self._assigned, self.standing = event, None
        return Ready(read=Preflight())

    def _inspect(self, event: Inspected) -> Ready:
        """Refuses what does not fit together; of a present owner at work, only what its work does not change."""
        position = event.position
        if event.meta is not None and event.meta != event.before:
            position = Position.of(event.meta)
        compare(self.table, self.shard, event.meta or first_meta(self.table, event.input), position, event.input)
        self.phase = Phase.FENCING
        return Ready(read=TakeFence(again=bool(self._fence)))

    def _take(self, event: Taken) -> Ready:
        self._fence = event.fence
        return Ready(read=ReadOwned(event.fence))

    def _own(self, event: Owned) -> Ready:
        """Compares what stands still now, and goes the way that store, output and input ask for."""
        self._owned, known = event, self._assigned.truncated
        self.meta = event.meta or replace(first_meta(self.table, event.input), secret=self._secret)
        self.standing = compare(self.table, self.shard, self.meta, event.position, event.input)
        if known is not None:
            self.meta = replace(self.meta, truncated=known, log_seen=self._assigned.log_seen)
        self._replay_to, self._to_repeat = None, []
        if self.standing is Consistency.AHEAD:
            self.phase = Phase.FINISHING
            return Ready(read=ReadOutbox(self._fence, self.meta.commit))
        if self.standing is Consistency.EMPTIED:
            self.phase = Phase.REPUBLISHING
            return Ready(read=ReadTable())
        if self.standing is Consistency.BEHIND and event.position is not None:
            self._replay_to = event.position
            self._to_repeat = to_repeat(self.name, self.table.name, self.meta, event.position, event.placed)
        return self._restore()

    def _finish(self, event: Outboxed) -> Ready:
        return Ready(publish=Publication.of(event.entries, self.meta))

    def _republish_from(self, event: Stored) -> Ready:
        self._release = Release(state=self._at_last_commit(event.state))
        return Ready(read=ReadOutbox(self._fence, self.meta.commit))

    def _republish(self, event: Outboxed) -> Ready:
        """Gives an output that was made anew the whole table: see `republish`."""
        state, self._release = self._release.state, Release()
        groups, records = (dict(state.kept.qi_groups), state.kept.records) if state else ({}, ())
        whole = (self.table, self.shard, self.meta, self._owned.input, groups, event.entries, records)
        self._portions = iter([preflight.whole_table(*whole)])
        if self._owned.position != Position.of(self.meta):
            return Ready(publish=Publication.of(preflight.beside_rows(event.entries), self.meta))
        return self._portion() or self._restore()

    def _republished(self, event: Performed) -> Ready:
        return self._portion() or self._restore()

    def _portion(self) -> Ready | None:
        """The next commit of whole QI groups; None if there is no more."""
        with self._turn:
            commit = next(self._portions, None)
        if commit is None:
            return None
        before, self.meta = self.meta.commit, commit.meta
        trim = commit.meta.commit if self.phase is Phase.RELEASING else None
        self._release = self._release._replace(records=len(commit.outbox))
        return Ready(self._fence, before, commit, Publication.of(commit.outbox, commit.meta), trim)

    def _restore(self, event: Performed | None = None) -> Ready:
        """What was published leaves the outbox; then the table is loaded."""
        self.phase, trim = Phase.RESTORING, self.meta.commit
        self._new_control = to_say_again(self.meta, self._owned.input)
        self.meta = with_topics(self.meta, self._owned.input)
        self._passed_over = Skipped(self.name, self.meta, self._assigned.skips, self._replay_to)
        self.activities.taken_over(self.meta, self._assigned.clock)
        return Ready(self._fence, trim=trim)

    def _restored(self, event: Performed) -> Ready:
        return self._load()

    def _load(self, fence: str = "") -> Ready:
        """Has the table loaded as of the last commit; not if a release is due, before which nothing may come."""
        self._engine = None  # first: two tables need not fit into memory
        if not self.awaits_release:
            self.phase = Phase.RESTORING
            return Ready(read=ReadTable(fence))
        self.phase = Phase.RELEASING
        return Ready(read=ReadTable()) if self._batch.messages else self._done()

    def _loaded(self, event: Stored) -> Ready:
        """Takes the table into memory. Raises ShardRefused if it is not the one that was published."""
        state = self._at_last_commit(event.state)
        gathers = self.holding is Holding.ALL or self.holds_back
        shards, secret = self.meta.shards, self.meta.secret
        if state is None:
            self._engine = Engine(self.table, self.shard, shards, secret, gathers)
        else:
            qi_groups = Digested(state.kept.qi_groups)
            kept = replace(state.kept, qi_groups=qi_groups)
            self._engine = Engine.load(self.table, self.shard, shards, kept, secret, gathers)
            qi_groups.check(self.table.name, self.shard, self.meta)
        return self._go_on()

    def _at_last_commit(self, state: State | None) -> State | None:
        """Raises Conflict if what the store holds is not the last commit: somebody wrote meanwhile."""
        if (state.meta.commit if state else 0) != self.meta.commit:
            raise Conflict(f"{self.name}: the store is not at commit {self.meta.commit}; take the shard over again")
        return state

    # -- what is next ---------------------------------------------------------------------------------------------

    def _go_on(self) -> Ready:
        """Does what is next, with the table in memory and nothing under way."""
        self.phase = self._serving_phase()
        if self._late is not None:
            late, self._late = self._late, None
            return self._apply_late(late)
        due = None if self._replay_to is None else due_again(self.meta, self._replay_to)
        if due is not None and due[0] == self.meta.next:
            return Ready(read=ReadMessage(due[1]))
        return self._apply_batch() or self._say_again() or self._done()

    def _serving_phase(self) -> Phase:
        if self._replay_to is not None:
            return Phase.REPLAYING
        return Phase.BUFFERING if self.holds_back else Phase.SERVING

    def _say_again(self) -> Ready | None:
        """Says the last truncation in a new control topic; not before the table stands if it is published."""
        if not self._new_control or self._replay_to is not None:
            return None
        self.meta = replace(self.meta, topic_ids={**self.meta.topic_ids, CONTROL: self._new_control})
        self._new_control, known = "", self.meta.truncated
        if known is None:
            return None
        said = said_to_others(self.meta, self.name, self.shard, self.meta.next, known)
        return self._commit_from_outside("a truncation cannot be said again", said)

    # -- between two batches --------------------------------------------------------------------------------------

    @property
    def wants_region(self) -> str:
        """What the process that anonymizes is wanted for, once it is free; "" if it is not."""
        if self.phase is not Phase.SERVING or self._engine is None:
            return ""
        return self.activities.wants(self.meta, self._engine.n_rows)

    def _between(self, event: Event) -> Ready:
        """Asks what is to be done between two batches, and does it."""
        if isinstance(event, Tick):
            self._sum_up(event.clock)
        with self._turn:
            what = self.activities.next(event, self.meta, self.engine)
        if what is None:
            return self._done()
        if isinstance(what, Ready):
            return what
        try:
            ready: Ready = getattr(self, TABLE[self.phase, type(what)].how)(what)
            return ready
        except LawViolated as error:
            if not isinstance(what, Replace):
                raise
            self.activities.failed(str(error))
            raise Conflict(f"{self.name}: a rebuild has failed: {error}") from None

    def _sum_up(self, clock: float) -> None:
        engine = self.engine
        if clock - self._figures[0] >= NCP_SECONDS:
            published = engine.n_rows - engine.n_pending
            self._figures = clock, engine.loss / published if published else None

    def _heard(self, event: Request) -> Ready:
        """A request that waits until what is under way is done."""
        self.activities.hear(event)
        return self._done()

    def _tick_in_replay(self, event: Tick) -> Ready:
        """Nothing but what lies between two messages."""
        return self._repeat_truncation() if self.truncation_due else self._done()

    def _tick_in_release(self, event: Tick) -> Ready:
        """Begins a release that was found when the shard was taken over."""
        return self._done() if self._release.rows is not None else self._begin_release(SnapshotEnded())

    # -- a batch of messages --------------------------------------------------------------------------------------

    def _messages(self, event: Messages) -> Ready:
        self._batch = event
        return self._go_on()

    def _apply_batch(self) -> Ready | None:
        """The next commit of the batch, or what has to be read before; None if all of it is applied."""
        while self._batch.messages or self.meta.next < self._batch.through:
            snapshot = self._turns_before_the_next()
            if snapshot is not None:
                self.meta = replace(self.meta, snapshot=snapshot)
                return self._load()
            if self.truncation_due:
                break
            tally = StepTally.after(self.meta)
            try:
                reached = self._apply_some(tally)
                ready = self._commit(tally, first=reached) if tally.next > self.meta.next else None
            except Unforeseen as fault:
                return self._begin_again(fault, tally)
            if ready is not None:
                return ready
            self._applied(reached)
        return self._repeat_truncation() if self.truncation_due else None

    def _applied(self, first: int) -> None:
        """Of the batch's messages, those from `first` on are left."""
        self._batch = Messages(self._batch.messages[first:], self._batch.through)

    def _begin_again(self, fault: Unforeseen, tally: StepTally) -> Ready:
        """Loads the table again, without what was applied in vain, and has the message at fault skipped."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        said = self._passed_over.failed(fault, tally.last, tally.counts.messages, self.meta)
        self._report.faults.append(said)
        return self._load(self._fence)

    def _apply_some(self, tally: StepTally) -> int:
        """Applies messages up to where a commit is due; returns the first one not applied."""
        messages, through, engine, stop = self._batch.messages, self._batch.through, self.engine, self._stops_at()
        with self._turn:
            for i, message in enumerate(messages):
                if message.offset < tally.next:
                    continue
                if stop is not None and message.offset >= stop:  # the offsets in between hold no messages
                    tally.next = stop
                    return i
                mark = self._mark(message)
                if self._turned(mark, message.offset) is not None:
                    return i
                self._apply(engine, message, tally)
                tally.marks[mark] += 1
                is_due = tally.next == stop or self._passed_over.commit_is_due(message.offset)
                if is_due or self._is_full(engine):
                    return i + 1
        tally.next = max(tally.next, through if stop is None else min(through, stop))
        return len(messages)

    def _stops_at(self) -> int | None:
        """Where a replay has to stop next, for what lies between two messages or because it ends; None: nowhere.

        What was applied late before the message at which a truncation was placed comes before the truncation: after
        it, nothing that lies below may be tried again (`Meta.letters_from`).
        """
        if self._replay_to is None:
            return None
        due = due_again(self.meta, self._replay_to)
        stops = [self._replay_to.next, *(one.next for one in self._to_repeat[:1])]
        return min(stops if due is None else [due[0], *stops])

    def _is_full(self, engine: Engine) -> bool:
        if not engine.is_nearly_full:
            return False
        with unforeseen():  # to tell, the engine applies what waits in it
            return engine.rows_published_max >= self.table.limits.transaction_rows_max

    def _apply(self, engine: Engine, message: Message, tally: StepTally) -> None:
        """Applies one message, or writes the letter that says why not."""
        try:
            self._passed_over.check(message.offset, tally)
            with unforeseen(message.offset):
                change = self._decode(message)
                change = in_source_order(self.table, self.shard, self.meta, change, message, tally, self._place_of)
                key_form = self._contract.form_after(tally.key_form, message.key, change, self.meta.shards)
            if isinstance(change, Statement):  # it runs what is queued, whose faults are not its own
                with unforeseen():
                    engine.run()
            with unforeseen(message.offset):
                outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.counts += DEAD
            tally.reasons[refusal.reason] += 1
            tally.letters.append(steps.refused(self._coordinates(message.offset), refusal))
        else:
            tally.counts += APPLIED if outcome.applied else IGNORED
            if outcome.unknown_key:
                tally.counts += UNKNOWN_KEY
            if outcome.left_unchanged:
                tally.letters.append(steps.partial(self._coordinates(message.offset), outcome.left_unchanged))
            if outcome.applied:
                tally.key_form = key_form
                self._passed_over.applied(message.offset)
                self._count_unlisted(tally)
        tally.last, tally.next = message.offset, message.offset + 1

    def _decode(self, message: Message) -> Change:
        try:
            return self._decoder.decode(message.key, message.value)
        except EventRefused:
            raise
        except Exception as error:  # a bug; but one message must not stop the stream, and decoding changes nothing
            raise EventRefused("internal-error", f"decoding failed with {type(error).__name__}") from None

    def _count_unlisted(self, tally: StepTally) -> None:
        """Counts what the message that was decoded last has of categories that only `other` takes."""
        if self._decoder.unlisted:
            tally.counts += Counts(unlisted=dict(self._decoder.unlisted))

    def _coordinates(self, offset: int) -> steps.Coordinates:
        return steps.Coordinates(f"{self.table.name}.{CHANGES}", self.shard, offset)

    # -- commits --------------------------------------------------------------------------------------------------

    def _commit(
        self,
        tally: StepTally,
        first: int = 0,
        late: ApplyLate | None = None,
        due: tuple[int, int] | None = None,
        complaint: str = "",
    ) -> Ready:
        """Checks what was applied, and has it stored and published; a replay only stores it. Raises Unforeseen."""
        engine = self.engine
        with unforeseen():
            engine.run()
        with unforeseen():
            engine.compute()
            with self._turn:
                drained = engine.drain()
                self._report.merges += drained.merges
                self._report.splits += drained.splits
                commit = next_commit(self.meta, drained, tally, self._changelog)
                if self._replay_to is not None:
                    meta = replayed(self.table, self.shard, commit.meta, self._replay_to)
                    commit = replace(commit, meta=meta, outbox=[])
        records = max(0, len(commit.outbox) - len(tally.letters))
        self._doing = Doing(commit.meta, tally, records, first, late, due, complaint)
        ready = Ready(self._fence, self.meta.commit, commit)
        if self._replay_to is not None:
            return ready
        return ready._replace(publish=Publication.of(commit.outbox, commit.meta), trim=commit.meta.commit)

    def _performed(self, event: Performed) -> Ready:
        """A commit is stored and published."""
        doing, self._doing = self._doing, None
        if doing is None:
            raise LawViolated(f"{self.name}: no commit was under way")
        self.meta = doing.meta
        if doing.due is None:  # else it was counted when it was applied late first
            self._report.committed(doing.tally, doing.records, event.commit_seconds, event.publish_seconds)
        if self._replay_to is not None and is_repeated(self.meta, self._replay_to):
            self._replay_to = None
        if doing.due is not None and (self.meta.retried or [None])[-1] != doing.due:
            raise ShardRefused(
                cannot_repeat(self.table, self.shard, doing.due[1], "it is not there, or is refused now")
            )
        self._applied(doing.first)
        return self._go_on()

    def _unwritable(self, event: Unwritable) -> Ready:
        """Nothing was stored: a value of the commit cannot be written."""
        doing, self._doing = self._doing, None
        fault = Unforeseen(event.what, None)
        if doing is None or doing.complaint:
            raise LawViolated(f"{self.name}: {doing.complaint if doing else 'a commit'} ({event.what})")
        if doing.late is not None:
            return self._late_failed(doing.late, doing.due, fault)
        return self._begin_again(fault, doing.tally)

    def _commit_from_outside(self, complaint: str, said: Sequence[OutboxEntry] = ()) -> Ready:
        """Commits and publishes what no message has brought about; said: of it, beside rows."""
        tally = StepTally.after(self.meta)
        tally.letters += said
        try:
            return self._commit(tally, complaint=complaint)
        except Unforeseen as fault:
            raise LawViolated(f"{self.name}: {complaint} ({fault.what})") from None

    def _first_rows(self, event: FirstRows) -> Ready:
        """Publishes rows and QI groups as release 0; nobody else holds them."""
        if self.meta.commit:
            raise ShardRefused(f"{self.name} holds a table already")
        rows = event.rows
        self.engine.load_initial(rows.source_keys, rows.rows(), rows.codes, event.groups)
        self.meta = replace(self.meta, release=-1 if event.groups else 0, outside=1)
        return self._commit_from_outside("the initial table cannot be published")

    def _replace(self, event: Replace) -> Ready:
        """Replaces a region's QI groups by others in one commit; none if it changed meanwhile: nothing was done.

        Raises LawViolated if the groups are not all of the region's rows, once each, or do not hold the model.
        """
        try:
            with self._turn:
                replaced = self.engine.replace(event.region, event.groups)
        except (StreamerError, MemoryError, OSError):
            raise
        except Exception as error:
            raise LawViolated(f"{self.name}: a region cannot be replaced ({told(error)})") from None
        if replaced is None:
            return self._done()
        rebuild = self.meta.rebuild if event.progress is None else event.progress.after(replaced)
        self.meta = replace(self.meta, outside=self.meta.commit + 1, rebuild=rebuild)
        return self._commit_from_outside("a region cannot be replaced")

    def _remember(self, event: Remember) -> Ready:
        """Commits what is to be kept of rebuilds and requests; publishes no row."""
        rebuilds, answered = remembered(self.meta.rebuilds, event.ended), max(self.meta.control_next, event.heard)
        self.meta = replace(self.meta, rebuild=event.running, rebuilds=rebuilds, control_next=answered)
        return self._commit_from_outside("what is said of rebuilds cannot be kept")

    # -- truncations that another shard read ----------------------------------------------------------------------

    def _truncated(self, event: Truncated) -> Ready:
        """Has a truncation that another shard read take effect, unless a later one is known."""
        if not is_news(self.name, self.table.name, self.meta, event.source):
            return self._done()
        return self._read_after(event)

    def _repeat_truncation(self) -> Ready:
        """Places the one that is due if it was placed before the store lost it."""
        return self._read_after(Truncated(self._to_repeat[0].request, self._to_repeat[0].source))

    def _read_after(self, event: Truncated) -> Ready:
        skips, whole = frozenset(passed_over_in(self.meta)), self.engine.n_rows > 0
        return Ready(read=ReadBehind(event.request, event.source, self.meta.next, self.meta.shards, whole, skips))

    def _truncate(self, event: RowsAfter) -> Ready:
        """Gives the shard the rows that came after a truncation, in one commit; see `shard.truncations`."""
        later, rows = event.rows, event.rows.rows
        with self._turn:
            self.engine.apply(Truncate(spared=frozenset(rows.source_keys)))
            for source_key, row in zip(rows.source_keys, rows.rows(), strict=True):
                self.engine.apply(Upsert(source_key, row))
        self._to_repeat = self._to_repeat[1:]
        self.meta = replace(
            self.meta,
            key_form=later.key_form,
            control_next=max(self.meta.control_next, event.request + 1),
            truncated=event.source,
            truncations=self.meta.truncations + 1,
            log_seen=self.meta.log_seen or later.log_seen,
            letters_from=max(self.meta.letters_from, self.meta.next),  # nothing brings back a row that is gone
        )
        placed = said_of_placing(self.meta, self.shard, event.request, event.source)
        return self._commit_from_outside("a truncation cannot be placed", [placed])

    # -- refused messages that are applied late -------------------------------------------------------------------

    def _retry(self, event: ApplyLate) -> Ready:
        """Applies refused messages late, in one commit, with letters that say what became of each."""
        self.meta = replace(self.meta, control_next=max(self.meta.control_next, event.heard))
        return self._apply_late(event)

    def _repeat_retry(self, event: Fetched) -> Ready:
        """In a replay, applies late what was applied late here before."""
        due = None if self._replay_to is None else due_again(self.meta, self._replay_to)
        if due is None:
            raise LawViolated(f"{self.name}: no message is due to be applied late")
        return self._apply_late(ApplyLate([Judged(due[1], event.message, None)], 0), due)

    def _apply_late(self, late: ApplyLate, due: tuple[int, int] | None = None) -> Ready:
        tally = StepTally.after(self.meta)
        try:
            with self._turn:
                for one in late.judged:
                    self._apply_one_late(one, tally)
            return self._commit(tally, late=late, due=due)
        except Unforeseen as fault:
            return self._late_failed(late, due, fault)

    def _apply_one_late(self, one: Judged, tally: StepTally) -> None:
        where = self._coordinates(one.offset)
        try:
            if one.message is None or one.refusal is not None:
                raise one.refusal or EventRefused("message-gone", "the input does not hold it any more")
            with unforeseen(one.offset):
                change = self._decode(one.message)
                key_form = self._contract.form_after(tally.key_form, one.message.key, change, self.meta.shards)
                outcome = self.engine.apply(change)
        except EventRefused as refusal:
            tally.letters.append(steps.not_retried(where, refusal))
        else:
            tally.counts += APPLIED_LATE if outcome.applied else IGNORED_LATE
            if outcome.applied:
                tally.key_form = key_form
                self._count_unlisted(tally)
            tally.retried.append((tally.next, one.offset))
            tally.letters.append(steps.retried(where))

    def _late_failed(self, late: ApplyLate, due: tuple[int, int] | None, fault: Unforeseen) -> Ready:
        """Has the table loaded again, and the message at fault stay refused."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        if due is not None:
            raise ShardRefused(cannot_repeat(self.table, self.shard, due[1], fault.what))
        self._late = ApplyLate([failed_by(one, fault) for one in late.judged], late.heard)
        return self._load()

    # -- a snapshot that is held back -----------------------------------------------------------------------------

    def _mark(self, message: Message) -> Mark:
        """What a message says of a snapshot, if that matters."""
        if self.holding is Holding.SNAPSHOT and holding_back.looks_for_marks(self.meta):
            return mark_of(message.value, self._schemas)
        return Mark.NOTHING

    def _turned(self, mark: Mark, offset: int) -> Snapshot | None:
        """The snapshot that begins or ends before a message, as far as the last commit tells."""
        snapshot = None if mark is Mark.NOTHING else holding_back.turned(self.meta, mark, offset)
        if snapshot is not None and snapshot.ended and self._replay_to is not None:
            return None  # no message that is published already has ended it
        return snapshot

    def _turns_before_the_next(self) -> Snapshot | None:
        """The snapshot that begins or ends with the next message: everything before is committed."""
        following = next((one for one in self._batch.messages if one.offset >= self.meta.next), None)
        if following is None or (self._replay_to is not None and following.offset >= self._replay_to.next):
            return None  # a table must not turn after the end of a replay before that is reached
        return self._turned(self._mark(following), following.offset)

    def _begin_release(self, event: SnapshotEnded | Messages) -> Ready:
        """The rows that are held back are read from the store; the table is let go of, to make room for them."""
        if isinstance(event, Messages):
            self._batch = event
        else:
            self._release = Release(why=event.why)
        self.phase, self._engine = Phase.RELEASING, None
        return Ready(read=ReadTable())

    def _release_from(self, event: Stored) -> Ready:
        """Has the rows put into QI groups; once they are, makes commits of them, after those that are done."""
        state, release = self._at_last_commit(event.state), self._release
        if release.rows is None or release.groups is None:
            rows = rows_in(self.table, state)
            self._release = release._replace(rows=rows)
            return Ready(job=GroupSnapshot(rows, self.meta.secret))
        stored = {} if state is None else dict(state.kept.qi_groups)
        ended = (self.meta.snapshot.ended if self.meta.snapshot else "") or release.why
        of = (self.table, self.shard, self.meta, release.rows, release.groups.groups, ended, stored)
        self._portions = release_commits(*of, release.groups.records_max)
        return self._portion() or self._load()

    def _grouped(self, event: SnapshotGrouped) -> Ready:
        self._release = self._release._replace(groups=event)
        return Ready(read=ReadTable())

    def _released(self, event: Performed) -> Ready:
        self._report.commits += 1
        self._report.published += self._release.records
        ready = self._portion()
        if ready is None:
            self._release = Release()
        return ready or self._load()
