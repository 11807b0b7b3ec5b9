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

A batch is cut between messages where it would publish more than `transaction_rows_max` records; one message is never
split over two transactions.

Taking a shard over, at the start and after any error, is one way: fence the former owner in the store and at the
outlet, read the published position and the stored one, check the fence again, publish what the outbox still holds, then
load the state.

| dies                        | store        | outlet      | at the next take-over                                |
|-----------------------------|--------------|-------------|------------------------------------------------------|
| before 4                    | old          | old         | the messages come again and are applied once         |
| after 4, before 5           | new + outbox | old         | messages dropped by offset; the outbox is published  |
| inside 5                    | new + outbox | open        | aborted by the fence; published once                 |
| commit sent, answer lost    | new + outbox | unknown     | the position tells: skip or publish                  |
| after 5                     | done         | committed   | messages dropped by offset                           |
| paused until replaced       | fenced       | fenced      | drops the shard                                      |
| store lost commits          | old or none  | ahead       | replay from the stored `next`, publishing nothing,   |
|                             |              |             | up to the published `next`; the digests must agree   |
| output made anew            | any          | empty       | the whole table first, in one release: `republish`   |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import perf_counter

from streamer.errors import EventRefused, ShardRefused, StreamerError
from streamer.incremental import mends
from streamer.incremental.events.changes import Change
from streamer.incremental.events.counts import APPLIED, DEAD, IGNORED
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.groups.engine import Engine
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import Entry, outgoing
from streamer.incremental.shard import letters, republish
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.standing import Standing, compare
from streamer.incremental.shard.steps import StepReport, Tally
from streamer.incremental.store.base import Commit, Meta, State, Store
from streamer.table.arrays import Ints
from streamer.table.row import Row
from streamer.table.schema import Table

DIGEST_MASK = (1 << 64) - 1


class Publisher:
    """One shard of one table; synchronous, to be used from one thread at a time.

    turn: held while the shard computes, free while it waits for the store or the outlet. Shards of one process that
    share a lock compute one after the other, which Python makes them do anyway, without fighting for it.
    """

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self.table = table
        self.shard = shard
        self._store = store
        self._outlet = outlet
        self._turn = turn or nullcontext()
        self._decoder = Decoder(table)
        self._changelog = Changelog(table, shard)
        self._fence = ""
        self._meta = Meta()
        self._engine: Engine | None = None
        self._replay_to: Position | None = None
        self.published_anew = False
        """Whether the last take-over gave an output that was made anew the whole table."""
        self.check_input: Callable[[], None] = lambda: None
        """Called before a batch is committed; raises Conflict where it was not read from what was taken over."""

    # -- taking over ----------------------------------------------------------------------------------------------

    def take_over(self, input_state: InputState) -> int:
        """Makes this the only writer of the shard; returns the offset to read from.

        Raises ShardRefused where store, outlet and input do not fit together; Fenced where another worker was faster.
        """
        self._engine = None
        self.published_anew = False
        self._fence = self._store.take_over()
        self._outlet.fence()
        position = self._outlet.position()
        stored = self._store.meta()
        self._store.check_fence(self._fence)  # nobody wrote between the two readings: they belong together
        self._meta = stored or Meta(
            topic_ids=dict(input_state.topic_ids),
            shards=input_state.shards,
            fingerprint=self.table.fingerprint,
        )
        standing = compare(self.table, self.shard, self._meta, position, input_state)
        self._replay_to = position if standing is Standing.BEHIND else None
        if standing is Standing.AHEAD:
            self._publish_rest()
        if standing is not Standing.EMPTIED:
            self._store.trim(self._fence, self._meta.commit)
        state = self._store.load() if stored else None
        engine = self._start_engine(state)
        if standing is Standing.EMPTIED and state is not None:
            self._publish_anew(position, state, input_state)
        self._meta = replace(self._meta, topic_ids={**self._meta.topic_ids, **input_state.topic_ids})
        self._engine = engine
        return self._meta.next

    def _start_engine(self, state: State | None) -> Engine:
        if state is None:
            return Engine(self.table, self.shard, self._meta.shards)
        return Engine.load(self.table, self.shard, self._meta.shards, state.kept)

    def _publish_rest(self) -> None:
        """Publishes the commit that the store holds and the outlet does not."""
        entries = [entry for commit, entry in self._store.outbox() if commit == self._meta.commit]
        self._publish(entries)

    def _publish_anew(self, position: Position | None, state: State, input_state: InputState) -> None:
        """Gives an output that was made anew the whole table: see `republish`."""
        self.published_anew = True
        waiting = [entry for commit, entry in self._store.outbox() if commit == self._meta.commit]
        if position != Position.of(self._meta):
            self._publish(republish.beside_rows(waiting))
        groups = state.kept.qi_groups
        commit = republish.whole_table(self.table, self.shard, self._meta, input_state, groups, waiting)
        self._store.commit(self._fence, self._meta.commit, commit)
        self._meta = commit.meta
        self._publish(commit.outbox)
        self._store.trim(self._fence, commit.meta.commit)

    def _publish(self, entries: Sequence[Entry]) -> None:
        """Publishes the last commit."""
        records = outgoing(entries, self._meta.release, self._meta.next)
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
        if self._engine is None:
            raise StreamerError(f"shard {self.shard} of {self.table.name} is not taken over: call take_over first")
        return self._engine

    def step(self, messages: Sequence[Message]) -> StepReport:
        """Steps 1 to 6 for a batch of messages in offset order; any error makes `take_over` necessary."""
        engine, self._engine = (
            self.engine,
            None,
        )  # an error below leaves the shard to be taken over
        report = StepReport()
        first = 0
        while first < len(messages):
            tally = Tally(self._meta.next)
            with self._turn:
                first = self._apply_some(engine, messages, first, tally, report)
            if tally.next > self._meta.next:
                self._commit(engine, tally, report)
        self._engine = engine
        return report

    def load_initial(
        self,
        source_keys: Sequence[str],
        rows: Sequence[Row],
        codes: Ints,
        qi_groups: Iterable[Ints],
    ) -> StepReport:
        """Publishes a whole table, in given QI groups, as release 0 of a shard that has read nothing yet."""
        engine, self._engine = self.engine, None
        if self._meta.commit:
            raise ShardRefused(f"shard {self.shard} of {self.table.name} holds a table already")
        groups = list(qi_groups)
        engine.load_initial(source_keys, rows, codes, groups)
        self._meta = replace(self._meta, release=-1 if groups else 0, outside=1)
        report = StepReport()
        self._commit(engine, Tally(self._meta.next), report)
        self._engine = engine
        return report

    def _apply_some(
        self,
        engine: Engine,
        messages: Sequence[Message],
        first: int,
        tally: Tally,
        report: StepReport,
    ) -> int:
        """Steps 1 and 2 from messages[first] on, up to where a commit is due; returns the first message not applied."""
        stop = None if self._replay_to is None else self._replay_to.next
        for i in range(first, len(messages)):
            message = messages[i]
            if message.offset < tally.next:
                continue
            if stop is not None and message.offset >= stop:  # the offsets in between hold no messages
                tally.next = stop
                return i
            self._apply(engine, message, tally, report.seconds)
            if tally.next == stop or engine.rows_published_max >= self.table.limits.transaction_rows_max:
                return i + 1
        return len(messages)

    def _apply(self, engine: Engine, message: Message, tally: Tally, seconds: dict[str, float]) -> None:
        started = decoded = perf_counter()
        try:
            change = self._decode(message)
            decoded = perf_counter()
            outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.counts += DEAD
            tally.letters.append(letters.refused(self._coordinates(message), refusal))
        else:
            tally.counts += APPLIED if outcome.applied else IGNORED
            if outcome.left_unchanged:
                tally.letters.append(letters.partial(self._coordinates(message), outcome.left_unchanged))
        tally.next = message.offset + 1
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

    def _commit(self, engine: Engine, tally: Tally, report: StepReport) -> None:
        """Steps 3 to 5."""
        started = perf_counter()
        with self._turn:
            commit = self._net_effect(engine, tally, report)
        drained_at = perf_counter()
        self.check_input()
        self._store.commit(self._fence, self._meta.commit, commit)
        committed_at = perf_counter()
        self._meta = commit.meta
        if self._replay_to is None:
            self._outlet.publish(
                outgoing(commit.outbox, commit.meta.release, commit.meta.next), Position.of(commit.meta)
            )
            self._store.trim(self._fence, commit.meta.commit)
        elif commit.meta.next == self._replay_to.next:
            self._replay_to = None
        report.committed(tally, published=max(0, len(commit.outbox) - len(tally.letters)))
        report.seconds["drain"] += drained_at - started
        report.seconds["commit"] += committed_at - drained_at
        report.seconds["publish"] += perf_counter() - committed_at

    def _net_effect(self, engine: Engine, tally: Tally, report: StepReport) -> Commit:
        drained = engine.drain()
        outbox: list[Entry] = []
        digest = self._meta.digest
        for number, before, after in drained.published:
            records, change = self._changelog.diff(number, before, after)
            outbox += records
            digest += change
        meta = replace(
            self._meta,
            commit=self._meta.commit + 1,
            next=tally.next,
            release=self._meta.release + bool(drained.published),
            qi_group_next=drained.qi_group_next,
            digest=digest & DIGEST_MASK,
            counts=self._meta.counts + tally.counts,
        )
        report.merges += drained.merges
        report.splits += drained.splits
        outbox += tally.letters
        if self._replay_to is not None:
            meta, outbox = self._replayed(meta, self._replay_to), []
        return Commit(
            meta,
            drained.records,
            drained.qi_groups,
            drained.similarity,
            tuple(drained.statement_ids),
            outbox,
        )

    def _replayed(self, meta: Meta, target: Position) -> Meta:
        """Where a replay ends it takes over the published commit and release: what it rebuilt must be what is out.

        On the way it numbers its commits above the published one, so that none is taken for another.
        """
        if meta.next < target.next:
            return replace(meta, commit=max(meta.commit, target.commit + 1))
        if (meta.digest, meta.qi_group_next) != (target.digest, target.qi_group_next):
            raise ShardRefused(
                f"shard {self.shard} of {self.table.name}: reading the input again does not give the published table "
                f"of commit {target.commit}; {mends.publish_again(self.table.name)}"
            )
        return replace(meta, commit=target.commit, release=target.release, outside=target.outside)
