"""The loop of one shard, over two protocols: `Store` (what is kept) and `Outlet` (what leaves).

The rules of this file
----------------------
The same code runs over files, in a simulator that crashes, on the embedded broker and on real Kafka and Redis. One step
takes a batch of messages:

1. drop what is below the stored `next`;
2. decode and apply every message by itself; what is wrong becomes a dead letter, an outgoing record like any other
   (the schemas that a registry keeps are fetched before, for the whole batch);
3. check every touched QI group against the model (`Engine.drain` raises);
4. commit to the store in one atomic call: changed records, groups, similarity lists, outbox, new `next`;
5. publish the outbox in one transaction together with the position, then trim it;
6. only then return, so that the caller reads on.

A batch is cut between messages where it would publish more than `transaction_rows_max` records, and never within one.

A message that cannot be applied in a way nobody foresaw is passed over (`passed_over`): the table is loaded again, and
the batch applied again without it.

Before anything else a shard is taken over (`streamer.incremental.shard.taking_over`). A step ends early where a
snapshot that is held back is over (`streamer.incremental.shard.holding_back`): its release comes first.

What a crash at each of these steps leaves behind, and what the next take-over makes of it: ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from time import perf_counter

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Statement
from streamer.incremental.events.counts import APPLIED, DEAD, IGNORED, UNKNOWN_KEY
from streamer.incremental.events.registered_schemas import Schemas, schema_ids
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.incremental.events.source_position import position_of
from streamer.incremental.groups.engine import Engine
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.shard import holding_back, letters
from streamer.incremental.shard.anew import RECORDS_MAX
from streamer.incremental.shard.first_release import release_commits, rows_in
from streamer.incremental.shard.from_outside import CommitsFromOutside
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.next_commit import next_commit
from streamer.incremental.shard.outlet import Outlet
from streamer.incremental.shard.passed_over import UNWRITABLE, Unforeseen, unforeseen
from streamer.incremental.shard.repeated import is_repeated, replayed
from streamer.incremental.shard.steps import StepReport, Tally
from streamer.incremental.shard.taking_over import Holding
from streamer.incremental.shard.truncations import in_source_order
from streamer.incremental.store.base import Commit, Store
from streamer.incremental.store.snapshot import Snapshot
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table


class Publisher(CommitsFromOutside):
    """One shard of one table; synchronous, to be used from one thread at a time."""

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        turn: AbstractContextManager[object] | None = None,
        secret: bytes | None = None,
        holding: Holding = Holding.NOTHING,
        schemas: Schemas | None = None,
    ) -> None:
        super().__init__(table, shard, store, outlet, turn, secret, holding, schemas)
        self._place_of = partial(position_of, schemas=self.schemas.known)
        self._changelog = Changelog(table, shard)
        self.check_input: Callable[[], None] = lambda: None
        """Called before a batch is committed; raises Conflict where it was not read from what was taken over."""

    # -- one step -------------------------------------------------------------------------------------------------

    def step(self, messages: Sequence[Message], through: int = 0) -> StepReport:
        """Steps 1 to 6 for a batch of messages in offset order; any error makes `take_over` necessary.

        through: an offset below which the input holds no other messages than those read up to now: it ends with
        markers of transactions. Ends early, with messages left, where a snapshot that is held back is over, or where a
        truncation has to be repeated.
        """
        report, first = StepReport(), 0
        self.schemas.learn(schema_ids((message.key, message.value) for message in messages))
        while first < len(messages) or self._meta.next < through:
            self._turn_before(messages, first)
            if self.awaits_release or self.truncation_due is not None:
                break
            engine = self.engine
            self._usable = False  # an error below leaves the shard to be taken over
            tally, fault = Tally.after(self._meta), None
            try:
                reached = self._apply_some(engine, messages, first, through, tally, report)
                commit = self._commit(engine, tally, report) if tally.next > self._meta.next else None
            except Unforeseen as error:
                fault = error
            if fault is None:
                if commit is not None:
                    self._send(commit, tally, report)
                first, self._usable = reached, True
                self._repeat_retries()
            else:
                del engine
                self._begin_again(fault, tally, report)
        report.left = messages[first:]
        self._say_again()
        return report

    def _begin_again(self, fault: Unforeseen, tally: Tally, report: StepReport) -> None:
        """Loads the table again, without what was applied in vain, and has the message at fault passed over."""
        fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
        told = self._passed_over.failed(fault, tally.last, tally.counts.messages, self._meta)
        report.faults.append(told)
        self._store.check_fence(self._fence)
        self._load()

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
        stop = self._repeats_to()
        with self._turn:
            for i in range(first, len(messages)):
                message = messages[i]
                if message.offset < tally.next:
                    continue
                if stop is not None and message.offset >= stop:  # the offsets in between hold no messages
                    tally.next = stop
                    return i
                mark = self._mark(message)
                if self._turned(mark, message.offset) is not None:
                    return i
                self._apply(engine, message, tally, report.seconds)
                tally.marks[mark] += 1
                is_due = tally.next == stop or self._passed_over.commit_is_due(message.offset)
                if is_due or self._is_full(engine, report.seconds):
                    return i + 1
        tally.next = max(tally.next, through if stop is None else min(through, stop))
        return len(messages)

    def _is_full(self, engine: Engine, seconds: dict[str, float]) -> bool:
        if not engine.is_nearly_full:
            return False
        started = perf_counter()
        with unforeseen():  # to tell, the engine applies what waits in it
            is_full = engine.rows_published_max >= self.table.limits.transaction_rows_max
        seconds["apply"] += perf_counter() - started
        return is_full

    def _apply(self, engine: Engine, message: Message, tally: Tally, seconds: dict[str, float]) -> None:
        started = decoded = perf_counter()
        try:
            self._passed_over.check(message.offset, tally)
            with unforeseen(message.offset):
                change = self._decode(message)
                change = in_source_order(self.table, self.shard, self._meta, change, message, tally, self._place_of)
                key_form = self._contract.form_after(tally.key_form, message.key, change, self._meta.shards)
                decoded = perf_counter()
            if isinstance(change, Statement):  # it runs what is queued, whose faults are not its own
                with unforeseen():
                    engine.run()
            with unforeseen(message.offset):
                outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.counts += DEAD
            tally.reasons[refusal.reason] += 1
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
                self._count_unlisted(tally)
        tally.last, tally.next = message.offset, message.offset + 1
        seconds["decode"] += decoded - started
        seconds["apply"] += perf_counter() - decoded

    def _coordinates(self, message: Message) -> letters.Coordinates:
        return letters.Coordinates(f"{self.table.name}.changes", self.shard, message.offset)

    # -- a snapshot that is held back -----------------------------------------------------------------------------

    def _mark(self, message: Message) -> Mark:
        """What a message says of a snapshot, where that matters."""
        if self._holding is Holding.SNAPSHOT and holding_back.looks_for_marks(self._meta):
            return mark_of(message.value, self.schemas.known)
        return Mark.NOTHING

    def _turned(self, mark: Mark, offset: int) -> Snapshot | None:
        """The snapshot that begins or ends before a message, as far as the last commit tells."""
        snapshot = None if mark is Mark.NOTHING else holding_back.turned(self._meta, mark, offset)
        if snapshot is not None and snapshot.ended and self._replay_to is not None:
            return None  # no message that is published already has ended it
        return snapshot

    def _turn_before(self, messages: Sequence[Message], first: int) -> None:
        """Where a snapshot begins or ends with the next message, takes note of it: everything before is committed."""
        rest = (message for message in messages[first:] if message.offset >= self._meta.next)
        following = next(rest, None)
        if following is None or self._is_published(following.offset):
            return
        snapshot = self._turned(self._mark(following), following.offset)
        if snapshot is not None:
            self._meta = replace(self._meta, snapshot=snapshot)
            self._load()

    def _is_published(self, offset: int) -> bool:
        """Whether a message lies behind where a replay ends, and the table must not turn before that is reached."""
        return self._replay_to is not None and offset >= self._replay_to.next

    def held_rows(self) -> EncodedRows:
        """The rows that are held back, read from the store; the table in memory is let go of, to make room for them."""
        self._engine, self._usable = None, False
        return rows_in(self.table, self._stored())

    def release(
        self, rows: EncodedRows, qi_groups: Sequence[Ints], ended: str, records_max: int = RECORDS_MAX
    ) -> StepReport:
        """Publishes what is held back in given QI groups; goes on where one that was begun was interrupted.

        rows: those of `held_rows`. ended: why the snapshot is over. Any error makes `take_over` necessary.
        """
        self._engine, self._usable, report = None, False, StepReport()
        state = self._stored()
        stored = {} if state is None else dict(state.kept.qi_groups)
        commits = release_commits(self.table, self.shard, self._meta, rows, qi_groups, ended, stored, records_max)
        while True:
            with self._turn:
                commit = next(commits, None)
            if commit is None:
                break
            self.check_input()
            self._store.commit(self._fence, self._meta.commit, commit)
            self._meta = commit.meta
            self._publish(commit.outbox)
            self._store.trim(self._fence, commit.meta.commit)
            report.commits += 1
            report.published += len(commit.outbox)
        self._load()
        self._say_again()
        return report

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
        elif is_repeated(commit.meta, self._replay_to):
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
