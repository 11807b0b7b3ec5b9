"""The loop of one shard, over two protocols: `Store` (what is kept) and `Outlet` (what leaves).

The rules of this file
----------------------
The same code runs over files, in a simulator that crashes, on the embedded broker and on real Kafka and Redis. One step
takes a batch of messages:

1. drop what is below the stored `next`;
2. decode and apply every message by itself; what is wrong becomes a dead letter, an outgoing record like any other;
3. check every touched QI group against the model (`Engine.drain` raises);
4. commit to the store in one atomic call: changed records, groups, similarity lists, outbox, new `next`;
5. publish the outbox in one transaction together with the position, then trim it;
6. only then return, so that the caller reads on.

A batch is cut between messages where it would publish more than `transaction_rows_max` records, and never within one.

A message that cannot be applied in a way nobody foresaw is passed over (`passed_over`): the table is loaded again, and
the batch applied again without it.

Taking a shard over, at the start and after any error, is one way: look whether table.yaml, topics, store and output fit
together, before anybody is shut out; fence the former owner in the store and at the outlet, read the published position
and the stored one, check the fence again, ask where the input ends, publish what the outbox still holds, then load the
state. Who takes a shard over again does so only where nobody else did meanwhile.

A shard that never committed gets a secret, by which its lots are drawn (`groups.lots`); its first commit keeps it in
`meta`, and there alone it stays. Where Redis lost everything, the secret is lost too, and another is drawn: reading the
input again then gives the published table only where lots decided nothing, and is refused where it does not.

What a crash at each of these steps leaves behind, and what the next take-over makes of it: ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from secrets import token_bytes
from time import perf_counter

from streamer.errors import Conflict, EventRefused, LawViolated, ShardRefused, StreamerError
from streamer.incremental.events.changes import Change, Statement
from streamer.incremental.events.counts import APPLIED, DEAD, IGNORED, UNKNOWN_KEY
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import KeyContract
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.lots import SECRET_BYTES
from streamer.incremental.groups.replacing import Region
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import Entry, outgoing
from streamer.incremental.shard import letters, republish
from streamer.incremental.shard.input import InputState, Message, ShardInput
from streamer.incremental.shard.look import first_meta, look
from streamer.incremental.shard.next_commit import next_commit
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.passed_over import UNWRITABLE, PassedOver, Unforeseen, unforeseen
from streamer.incremental.shard.repeated import replayed
from streamer.incremental.shard.standing import Standing, compare, with_topics
from streamer.incremental.shard.steps import StepReport, Tally
from streamer.incremental.store.base import Commit, Meta, State, Store
from streamer.incremental.store.rebuild import Progress, remembered
from streamer.table.arrays import Ints
from streamer.table.row import Row
from streamer.table.schema import Table


class Publisher:
    """One shard of one table; synchronous, to be used from one thread at a time.

    turn: held while the shard computes in Python, free while it runs what is compiled or waits for the store or the
    outlet. Shards of one process that share a lock compute one after the other, which Python makes them do anyway,
    without fighting for it; compiled code runs side by side. secret: that of a shard that never committed, None: drawn.
    """

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        turn: AbstractContextManager[object] | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.table = table
        self.shard = shard
        self._name = f"shard {shard} of {table.name}"
        self._store = store
        self._outlet = outlet
        self._turn = turn or nullcontext()
        self._secret = secret or token_bytes(SECRET_BYTES)
        self._decoder = Decoder(table)
        self._contract = KeyContract(table, shard)
        self._changelog = Changelog(table, shard)
        self._fence = ""
        self._meta = Meta()
        self._engine: Engine | None = None
        self._usable = False
        self._replay_to: Position | None = None
        self._passed_over = PassedOver("", self._meta)
        self.published_anew = False
        """Whether the last take-over gave an output that was made anew the whole table."""
        self.check_input: Callable[[], None] = lambda: None
        """Called before a batch is committed; raises Conflict where it was not read from what was taken over."""

    # -- taking over ----------------------------------------------------------------------------------------------

    def take_over(self, shard_input: ShardInput, skips: Iterable[int] = ()) -> int:
        """Makes this the only writer of the shard; returns the offset to read from.

        skips: offsets that an operator wants to be passed over. Raises ShardRefused where store, outlet and input do
        not fit together; Fenced where another worker was faster.
        """
        self._engine, self._usable, self.published_anew = None, False, False
        look(self.table, self.shard, self._store, self._outlet, shard_input)
        self._fence = self._store.take_over(again=bool(self._fence))
        self._outlet.fence()
        position = self._outlet.position()
        stored = self._store.meta()
        self._store.check_fence(self._fence)  # nobody wrote between the two readings: they belong together
        input_state = shard_input.state()
        self._meta = stored or replace(first_meta(self.table, input_state), secret=self._secret)
        standing = compare(self.table, self.shard, self._meta, position, input_state)
        self._replay_to = position if standing is Standing.BEHIND else None
        if standing is Standing.AHEAD:
            self._publish_rest()
        if standing is Standing.EMPTIED:
            self._publish_anew(position, input_state)
        self._store.trim(self._fence, self._meta.commit)
        self._meta = with_topics(self._meta, input_state)
        self._passed_over = PassedOver(self._name, self._meta, skips, self._replay_to)
        self._load()
        return self._meta.next

    def _load(self) -> None:
        """Loads the table as of the last commit."""
        self._engine = None  # first: two tables need not fit into memory
        state, shards, secret = self._stored(), self._meta.shards, self._meta.secret
        if state is None:
            self._engine = Engine(self.table, self.shard, shards, secret)
        else:
            self._engine = Engine.load(self.table, self.shard, shards, state.kept, secret)
        self._usable = True

    def _stored(self) -> State | None:
        """What the store holds. Raises Conflict where that is not the last commit: somebody wrote meanwhile."""
        state = self._store.load()
        if (state.meta.commit if state else 0) != self._meta.commit:
            raise Conflict(f"{self._name}: the store is not at commit {self._meta.commit}; take the shard over again")
        return state

    def drop(self) -> None:
        """Lets go of the table: a shard that was given back must not fill memory until somebody forgets it."""
        self._engine, self._usable = None, False

    def _publish_rest(self) -> None:
        """Publishes the commit that the store holds and the outlet does not."""
        self._publish([entry for commit, entry in self._store.outbox() if commit == self._meta.commit])

    def _publish_anew(self, position: Position | None, input_state: InputState) -> None:
        """Gives an output that was made anew the whole table: see `republish`."""
        state = self._stored()
        groups, records = (dict(state.kept.qi_groups), state.kept.records) if state else ({}, ())
        waiting = [entry for commit, entry in self._store.outbox() if commit == self._meta.commit]
        if position != Position.of(self._meta):
            self._publish(republish.beside_rows(waiting))
        commit = republish.whole_table(self.table, self.shard, self._meta, input_state, groups, waiting, records)
        self._store.commit(self._fence, self._meta.commit, commit)
        self._meta = commit.meta
        self._publish(commit.outbox)
        self.published_anew = True

    def _publish(self, entries: Sequence[Entry]) -> None:
        """Publishes the last commit."""
        records = outgoing(entries, self._meta.release, self._meta.next, self._meta.outside == self._meta.commit)
        self._outlet.publish(records, Position.of(self._meta))

    # -- one step -------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Meta:
        """Where the shard stands."""
        return self._meta

    @property
    def replays_to(self) -> int | None:
        """The offset up to which the input is read again without publishing, because the store lost commits."""
        return None if self._replay_to is None else self._replay_to.next

    @property
    def engine(self) -> Engine:
        """The shard's table in memory; raises StreamerError before `take_over` and after an error."""
        if self._engine is None or not self._usable:
            raise StreamerError(f"{self._name} is not taken over: call take_over first")
        return self._engine

    def step(self, messages: Sequence[Message], through: int = 0) -> StepReport:
        """Steps 1 to 6 for a batch of messages in offset order; any error makes `take_over` necessary.

        through: an offset below which the input holds no other messages than those read up to now: it ends with
        markers of transactions.
        """
        report, first = StepReport(), 0
        while first < len(messages) or self._meta.next < through:
            engine = self.engine
            self._usable = False  # an error below leaves the shard to be taken over
            tally, fault = Tally(self._meta.next, self._meta.key_form), None
            try:
                reached = self._apply_some(engine, messages, first, through, tally, report)
                commit = self._commit(engine, tally, report) if tally.next > self._meta.next else None
            except Unforeseen as error:
                fault = error
            if fault is None:
                if commit is not None:
                    self._send(commit, tally, report)
                first, self._usable = reached, True
            else:
                del engine
                self._begin_again(fault, tally, report)
        return report

    def _begin_again(self, fault: Unforeseen, tally: Tally, report: StepReport) -> None:
        """Loads the table again, without what was applied in vain, and has the message at fault passed over."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        told = self._passed_over.failed(fault, tally.last, tally.counts.messages, self._meta)
        report.faults.append(told)
        self._store.check_fence(self._fence)
        self._load()

    def load_initial(
        self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Iterable[Ints]
    ) -> StepReport:
        """Publishes a whole table, in given QI groups, as release 0 of a shard that has read nothing yet."""
        engine, self._usable = self.engine, False
        if self._meta.commit:
            raise ShardRefused(f"{self._name} holds a table already")
        groups = list(qi_groups)
        engine.load_initial(source_keys, rows, codes, groups)
        del rows, codes, source_keys  # the engine has them
        self._meta = replace(self._meta, release=-1 if groups else 0, outside=1)
        return self._commit_from_outside(engine, "the initial table cannot be published")

    def replace_region(
        self, region: Region, groups: Sequence[Ints], progress: Progress | None = None
    ) -> StepReport | None:
        """Replaces a region's QI groups by others in one commit; None where it changed meanwhile: nothing was done.

        progress: of the rebuild before; what it is with this region stands in `meta` then. Any error makes `take_over`
        necessary; LawViolated: the groups are not all of the region's rows, once each, or do not hold the model.
        """
        engine = self._able_to_rebuild()
        with self._turn:
            replaced = engine.replace(region, groups)
        if replaced is None:
            self._usable = True
            return None
        rebuild = self._meta.rebuild if progress is None else progress.after(replaced)
        self._meta = replace(self._meta, outside=self._meta.commit + 1, rebuild=rebuild)
        return self._commit_from_outside(engine, "a region cannot be replaced")

    def end_rebuild(self, progress: Progress) -> StepReport:
        """Commits that a rebuild is over, and how it ended; publishes no row."""
        return self.remember_rebuilds(None, [progress])

    def remember_rebuilds(self, running: Progress | None, ended: Iterable[Progress] = (), heard: int = 0) -> StepReport:
        """Commits which rebuild is running, what is remembered of others, that requests below `heard` have answers."""
        engine = self._able_to_rebuild()
        rebuilds, answered = remembered(self._meta.rebuilds, ended), max(self._meta.control_next, heard)
        self._meta = replace(self._meta, rebuild=running, rebuilds=rebuilds, control_next=answered)
        return self._commit_from_outside(engine, "what is said of rebuilds cannot be kept")

    def _able_to_rebuild(self) -> Engine:
        engine = self.engine
        if self._replay_to is not None:
            raise StreamerError(f"{self._name} reads its input again: nothing is rebuilt before it has caught up")
        self._usable = False
        return engine

    def _commit_from_outside(self, engine: Engine, complaint: str) -> StepReport:
        """Commits and publishes what no message has brought about."""
        report, tally = StepReport(), Tally(self._meta.next, self._meta.key_form)
        try:
            commit = self._commit(engine, tally, report)
        except Unforeseen as fault:
            raise LawViolated(f"{self._name}: {complaint} ({fault.what})") from None
        commit = Commit(commit.meta, outbox=commit.outbox)  # the store has the rest, which a large table need not keep
        self._send(commit, tally, report)
        self._usable = True
        return report

    def _apply_some(
        self,
        engine: Engine,
        messages: Sequence[Message],
        first: int,
        through: int,
        tally: Tally,
        report: StepReport,
    ) -> int:
        """Steps 1 and 2 from messages[first] on, up to where a commit is due; returns the first message not applied."""
        stop = None if self._replay_to is None else self._replay_to.next
        with self._turn:
            for i in range(first, len(messages)):
                message = messages[i]
                if message.offset < tally.next:
                    continue
                if stop is not None and message.offset >= stop:  # the offsets in between hold no messages
                    tally.next = stop
                    return i
                self._apply(engine, message, tally, report.seconds)
                if tally.next == stop or self._is_full(engine) or self._passed_over.commit_is_due(message.offset):
                    return i + 1
        tally.next = max(tally.next, through if stop is None else min(through, stop))
        return len(messages)

    def _is_full(self, engine: Engine) -> bool:
        if not engine.is_nearly_full:
            return False
        with unforeseen():
            return engine.rows_published_max >= self.table.limits.transaction_rows_max

    def _apply(self, engine: Engine, message: Message, tally: Tally, seconds: dict[str, float]) -> None:
        started = decoded = perf_counter()
        try:
            self._passed_over.check(message.offset, tally)
            with unforeseen(message.offset):
                change = self._decode(message)
                key_form = self._contract.form_after(tally.key_form, message.key, change, self._meta.shards)
                decoded = perf_counter()
            if isinstance(change, Statement):  # it runs what is queued, whose faults are not its own
                with unforeseen():
                    engine.run()
            with unforeseen(message.offset):
                outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.counts += DEAD
            tally.letters.append(letters.refused(self._coordinates(message), refusal))
        else:
            tally.counts += APPLIED if outcome.applied else IGNORED
            if outcome.unknown_key:
                tally.counts += UNKNOWN_KEY
            tally.key_form = key_form if outcome.applied else tally.key_form
            if outcome.left_unchanged:
                tally.letters.append(letters.partial(self._coordinates(message), outcome.left_unchanged))
            if outcome.applied:
                self._passed_over.applied(message.offset)
        tally.last, tally.next = message.offset, message.offset + 1
        seconds["decode"] += decoded - started
        seconds["apply"] += perf_counter() - decoded

    def _decode(self, message: Message) -> Change:
        try:
            return self._decoder.decode(message.key, message.value)
        except EventRefused:
            raise
        except Exception as error:  # a bug; but one message must not stop the stream, and decoding changes nothing
            raise EventRefused("internal-error", f"decoding failed with {type(error).__name__}") from None

    def _coordinates(self, message: Message) -> letters.Coordinates:
        return letters.Coordinates(f"{self.table.name}.changes", self.shard, message.offset)

    # -- commit and publish ---------------------------------------------------------------------------------------

    def _commit(self, engine: Engine, tally: Tally, report: StepReport) -> Commit:
        """Steps 3 and 4, in which a message may still show to be at fault."""
        started = perf_counter()
        with unforeseen():
            engine.run()
        run_at = perf_counter()
        with unforeseen():
            engine.compute()
            with self._turn:
                commit = self._net_effect(engine, tally, report)
        drained_at = perf_counter()
        self.check_input()
        with unforeseen(faults=UNWRITABLE):
            self._store.commit(self._fence, self._meta.commit, commit)
        report.seconds["apply"] += run_at - started
        report.seconds["drain"] += drained_at - run_at
        report.seconds["commit"] += perf_counter() - drained_at
        return commit

    def _send(self, commit: Commit, tally: Tally, report: StepReport) -> None:
        """Step 5."""
        started = perf_counter()
        self._meta = commit.meta
        if self._replay_to is None:
            self._publish(commit.outbox)
            self._store.trim(self._fence, commit.meta.commit)
        elif commit.meta.next == self._replay_to.next:
            self._replay_to = None
        report.committed(tally, published=max(0, len(commit.outbox) - len(tally.letters)))
        report.seconds["publish"] += perf_counter() - started

    def _net_effect(self, engine: Engine, tally: Tally, report: StepReport) -> Commit:
        drained = engine.drain()
        report.merges += drained.merges
        report.splits += drained.splits
        commit = next_commit(self._meta, drained, tally, self._changelog)
        if self._replay_to is None:
            return commit
        return replace(commit, meta=replayed(self.table, self.shard, commit.meta, self._replay_to), outbox=[])
