"""A shard between its take-over and its loss: how it becomes ours, what is loaded of it, what its last commit said.

Taking a shard over, at the start and after any error, is one way: look whether table.yaml, topics, store and output fit
together, before anybody is shut out; fence the former owner in the store and at the outlet, read the published position
and the stored one, check the fence again, ask where the input ends, publish what the outbox still holds, then load the
state. Who takes a shard over again does so only where nobody else did meanwhile.

A shard that never committed gets a secret, by which its lots are drawn (`groups.lots`); its first commit keeps it in
`meta`, and there alone it stays. Where Redis lost everything, the secret is lost too, and another is drawn: reading the
input again then gives the published table only where lots decided nothing, and is refused where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from secrets import token_bytes

from streamer.errors import Conflict, StreamerError
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.lots import SECRET_BYTES
from streamer.incremental.release.records import Entry, outgoing
from streamer.incremental.shard import holding_back, republish
from streamer.incremental.shard.digested import Digested
from streamer.incremental.shard.input import InputState, ShardInput
from streamer.incremental.shard.look import first_meta, look
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.passed_over import PassedOver
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.standing import Standing, compare, to_say_again, with_topics
from streamer.incremental.shard.truncations import to_repeat
from streamer.incremental.store.base import Meta, State, Store
from streamer.table.schema import Table


class Holding(Enum):
    """What a shard holds back: only gathers rows and publishes none; the snapshot it begins with; or nothing."""

    ALL = "all"
    SNAPSHOT = "snapshot"
    NOTHING = "nothing"


class OwnedShard:
    """A shard of one table with its store and its outlet; synchronous, to be used from one thread at a time.

    turn: held while the shard computes in Python, free while it runs what is compiled or waits for the store or the
    outlet. Shards of one process that share a lock compute one after the other, which Python makes them do anyway,
    without fighting for it; compiled code runs side by side. secret: that of a shard that never committed, None: drawn.
    holding: SNAPSHOT where the caller releases what is held back, as soon as it is over.
    """

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        turn: AbstractContextManager[object] | None = None,
        secret: bytes | None = None,
        holding: Holding = Holding.NOTHING,
    ) -> None:
        self.table = table
        self.shard = shard
        self._name = f"shard {shard} of {table.name}"
        self._store = store
        self._outlet = outlet
        self._turn = turn or nullcontext()
        self._secret = secret or token_bytes(SECRET_BYTES)
        self._holding = holding
        self._fence = ""
        self._meta = Meta()
        self._engine: Engine | None = None
        self._usable = False
        self._replay_to: Position | None = None
        self._to_repeat: list[Placed] = []
        self._new_control = ""
        """The id of a control topic in which the last truncation has to be said once more."""
        self._passed_over = PassedOver("", self._meta)
        self.published_anew = False
        """Whether the last take-over gave an output that was made anew the whole table."""

    # -- taking over ----------------------------------------------------------------------------------------------

    def take_over(
        self,
        shard_input: ShardInput,
        skips: Iterable[int] = (),
        placed: Callable[[], Iterable[Placed]] = lambda: (),
    ) -> int:
        """Makes this the only writer of the shard; returns the offset to read from.

        skips: offsets that an operator wants to be passed over. placed: reads which truncations the shard has placed.
        Raises ShardRefused where store, outlet and input do not fit together; Fenced where another worker was faster.
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
        self._replay_to, self._to_repeat = None, []
        if standing is Standing.BEHIND and position is not None:
            self._replay_to = position
            self._to_repeat = to_repeat(self._name, self.table.name, self._meta, position, placed())
        if standing is Standing.AHEAD:
            self._publish_rest()
        if standing is Standing.EMPTIED:
            self._publish_anew(position, input_state)
        self._store.trim(self._fence, self._meta.commit)
        self._new_control = to_say_again(self._meta, input_state)
        self._meta = with_topics(self._meta, input_state)
        self._passed_over = PassedOver(self._name, self._meta, skips, self._replay_to)
        self._load()
        return self._meta.next

    def _load(self) -> None:
        """Loads the table as of the last commit; none where nothing may come before a release that is due.

        Raises ShardRefused where it is not the table that was published.
        """
        self._engine = None  # first: two tables need not fit into memory
        if self.awaits_release:
            return
        state = self._stored()
        gathers = self._holding is Holding.ALL or self.holds_back
        shards, secret = self._meta.shards, self._meta.secret
        if state is None:
            self._engine = Engine(self.table, self.shard, shards, secret, gathers)
        else:
            qi_groups = Digested(state.kept.qi_groups)
            kept = replace(state.kept, qi_groups=qi_groups)
            self._engine = Engine.load(self.table, self.shard, shards, kept, secret, gathers)
            qi_groups.check(self.table.name, self.shard, self._meta)
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
        self._publish(self._waiting())

    def _waiting(self) -> list[Entry]:
        """What the outbox holds of the last commit.

        A store that fell back to before that commit, as a failover makes it, holds nothing of it, nor our fence.
        """
        waiting = [entry for commit, entry in self._store.outbox() if commit == self._meta.commit]
        self._store.check_fence(self._fence)
        return waiting

    def _publish_anew(self, position: Position | None, input_state: InputState) -> None:
        """Gives an output that was made anew the whole table: see `republish`."""
        state = self._stored()
        groups, records = (dict(state.kept.qi_groups), state.kept.records) if state else ({}, ())
        waiting = self._waiting()
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

    # -- how it stands ----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Meta:
        """Where the shard stands."""
        return self._meta

    @property
    def replays_to(self) -> int | None:
        """The offset up to which the input is read again without publishing, because the store lost commits."""
        return None if self._replay_to is None else self._replay_to.next

    @property
    def truncation_due(self) -> Placed | None:
        """The truncation that has to be repeated before the next message is applied (`place_truncation`)."""
        return self._to_repeat[0] if self._to_repeat and self._meta.next >= self._to_repeat[0].next else None

    @property
    def engine(self) -> Engine:
        """The shard's table in memory; raises StreamerError before `take_over` and after an error."""
        if self._engine is None or not self._usable:
            raise StreamerError(f"{self._name} is not taken over: call take_over first")
        return self._engine

    @property
    def holds_back(self) -> bool:
        """Whether the shard holds back the rows of a snapshot."""
        return self._holding is Holding.SNAPSHOT and holding_back.holds_back(self._meta)

    @property
    def awaits_release(self) -> bool:
        """Whether `release` has to be called before anything else is done."""
        return self.holds_back and self._meta.snapshot is not None and self._meta.snapshot.is_over
