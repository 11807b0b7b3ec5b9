"""A shard's world in one process: a model of Kafka, a store that outlives its clients, and faults at numbered steps.

Every call that the loop makes to the input, the store or the outlet is one numbered step of a run. At each, one of
these can happen, by plan:

* `DIE_BEFORE`, `DIE_AFTER`: the process ends, the call undone or done;
* `LOST_BEFORE`, `LOST_AFTER`: no answer comes, the call undone or done (`ServerUnreachable`);
* `ZOMBIE`: another worker takes the shard over while this one sleeps; then the call goes on as if nothing had happened;
* `MOVED`: the same, but the other worker keeps the shard; this one must find out by itself and never take it back;
* `REFUSED`: Kafka or Redis refuses the call for good (`ShardRefused`): the process ends, an operator mends it.

The shard's secret is known beforehand, so that a run can be held against another. Once the control topic has one, a
worker that begins draws another, which must not be used.

Topics can be deleted and made again at any numbered step, and `live` also between two records of a transaction
(`happens`, `happens_in_live`). A worker asks for the ids of topics when it has read a batch; the answer is of that very
moment, or, where `answers_late`, of the moment when it is waited for.

A full re-anonymization goes on between the batches, where a world says so (`rebuilds`): at random moments a region gets
other QI groups, at once or after another batch, in which it may have changed. Whoever takes a shard over closes the
rebuild that he finds.

Where there are several shards, each is a world of its own, and they share the control topic.

The input's end moves while all this goes on, where a world says so (`arrivals`). A message can break the engine: by an
error in the middle of a change, or by a law that only shows when the batch is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from simulation.model_kafka import ModelInput, ModelOutlet, ModelTopic
from streamer.errors import Conflict, Fenced, LawViolated, ServerUnreachable, ShardRefused
from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.replacing import Region
from streamer.incremental.events.changes import Change, Insert
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.shard.answers import answer
from streamer.incremental.shard.input import InputState, KeptSecret, Message
from streamer.incremental.shard.ready import Assigned, Free, JobDone, JobFailed, Messages, Request, Tick
from streamer.incremental.shard.rebuild import Rebuilding, next_rebuild
from streamer.incremental.shard.requests import (
    EpochOver,
    Retry,
    epochs_in,
    read_request,
    secrets_in,
)
from streamer.incremental.shard.retrial import Retrial
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.store.base import CANCELLED, STOPPED, Meta, Progress
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, POSITIONS, published_kinds
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from worlds.engine_tables import drawn_groups
from worlds.shards import Driven


class Fault(Enum):
    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    LOST_BEFORE = "lost before"
    LOST_AFTER = "lost after"
    ZOMBIE = "zombie"
    MOVED = "moved"
    REFUSED = "refused"


MENDED = "the broker refuses it for good"


NOON = 1_795_694_400

SECRET, ANOTHER_SECRET = b"of every first run", b"of a later worker"


class Died(BaseException):
    """The process of a worker ended."""


class WorkerInput:
    """The input as a shard's machine asks for it. said_by: who knows its state."""

    def __init__(self, world: World, model: Any, said_by: Any) -> None:
        self._world, self._model, self._said_by = world, model, said_by
        self.ask = model.ask

    def state(self, last: int | None = None) -> InputState:
        state: InputState = self._said_by.state(last)
        return state

    def check(self, meta: Meta) -> None:
        self._model.check(CHANGES, CONTROL, *published_kinds(self._world.table))

    def epochs_over(self) -> list[EpochOver]:
        return epochs_in(self._world.control, self._world.shard)

    def secret(self) -> KeptSecret:
        return self._world.kept_secret()

    def holds_sealed(self, since: int) -> bool:
        return False  # a position is never lost alone here

    def piece(self, start: int, end: int) -> tuple[list[Message], int]:
        there = (one for one in self._world.messages if one.offset not in self._world.expired)
        return [one for one in there if start <= one.offset < end], end


class Worker(Driven):
    """A shard that is driven with the input that it reads."""

    def __init__(self, world: World) -> None:
        store = Faulty(world, MemoryStore(world.server, world.table.name, world.shard))
        outlet = Faulty(world, ModelOutlet(world.topic, world.shard))
        of, drawn = Holding.SNAPSHOT, ANOTHER_SECRET if world.kept_secret().secret else world.secret
        super().__init__(world.table, world.shard, store, outlet, secret=drawn, holding=of, schemas=world.schemas())
        self.input: Any = Faulty(world, ModelInput(world))
        self._world = world
        self._rebuilding: Rebuilding | None = None
        self._prepared: tuple[Region, list[Ints]] | None = None
        self._job: object = None
        self._heard = 0

    def take_over(self, shard_input: Any, skips: Iterable[int] = ()) -> int:
        self._rebuilding = self._prepared = None
        self.servers = self.servers._replace(input=WorkerInput(self._world, self.input, shard_input))
        self.drive(Assigned(frozenset(skips)))
        next_ = self.meta.next
        self._job, self._heard = None, self.meta.control_next
        if self.meta.rebuild is not None and self.replays_to is None and self._world.between is None:
            self.end_rebuild(replace(self.meta.rebuild, state=STOPPED))
        return next_

    def read_on(self, after: int, batch: int) -> int:
        """One batch from an offset on; returns the offset behind it."""
        messages, through = self.input.read(after, batch)
        self.input.ask()
        job = self.drive(Messages(messages, through)).job
        if job is not None:
            self.release(alike(job.rows, self.table.k), self._world.records_max)
        self.hear()
        if self._world.clock is not None:
            self._world.now += self._world.clock.choice([0, 0, 20, 90])
            self.input.ask()
            self.drive(Tick(self._world.now, self._world.now))
        if self._world.between is not None:
            self.go_on_between(self._world.between)
        elif self._world.rebuilds is not None and self.replays_to is None:
            for _ in range(self._world.rebuilds.randrange(6)):
                self.rebuild_on(self._world.rebuilds)
        return through

    def hear(self) -> None:
        """Tries again what is read of what operators want."""
        if not self.meta.commit or self.replays_to is not None or self._world.between is not None:
            return
        for offset in range(self.meta.control_next, len(self._world.control)):
            asked = answer(self._world.control[offset], offset, 0.0, self.shard, self.meta, 0.0)
            if isinstance(asked, Retry):
                if max(asked.offsets) >= self.meta.next:
                    return
                self._retry_offsets(offset, asked.offsets)

    @property
    def has_to_retry(self) -> bool:
        """Whether an operator's request to try messages again has no answer, and they are all read."""
        if self.replays_to is not None:
            return False
        asked = map(read_request, self._world.control[self.meta.control_next :])
        return any(isinstance(one, Retry) and max(one.offsets) < self.meta.next for one in asked)

    def _retry_offsets(self, request: int, offsets: Sequence[int]) -> None:
        retrial = Retrial(self.table, offsets, self.meta)
        retrial.see(self._world.messages, self.meta.next)
        self.input.ask()
        self.retry(retrial.judged(), request + 1)

    def release_held(self, why: str) -> None:
        """Publishes what is held back of a snapshot; why: it is over, if no message said so."""
        self.release(alike(self.held_rows(why), self.table.k), self._world.records_max)

    def go_on_between(self, chance: Random) -> None:
        """What a worker does between two batches: it hears requests, says the time, and brings what a job came to."""
        if self._world.wanted and self.meta.next > 20 and chance.random() < 0.3:
            self._world.control.append(self._world.wanted.pop())
        for offset in range(self._heard, len(self._world.control)):
            if self.machine.phase not in (Phase.SERVING, Phase.BUFFERING) or not self.meta.commit:
                return
            self._heard = offset + 1
            self.drive(Request(offset, 0.0, self._world.control[offset]))
        for _ in range(chance.randrange(4)):
            self.input.ask()
            self.drive(Tick(0.0, float(self._world.steps), chance=chance.getrandbits(64)))
            if self._job is None and self.machine.wants_region:
                self._job = self.drive(Free()).job
            at = self.machine.activities.at
            if self._job is not None and at is not None and chance.random() < 0.7:
                self._job, groups = None, drawn_groups(self.table, at.region, chance)
                before = self.meta.release
                self.drive(JobFailed("by chance") if chance.random() < 0.1 else JobDone(groups, 0.0))
                self._world.replaced += self.meta.release - before

    def rebuild_on(self, chance: Random) -> None:
        """One move of a rebuild, which may begin by it."""
        running = self._rebuilding
        if running is None:
            if chance.random() < 0.5:
                rebuild = next_rebuild(self.meta, "a rebuild", "by chance", chance.randrange(100))
                regions = self.engine.regions(rebuild.turn, chance.choice([4, 8, 1000]))
                self._rebuilding = Rebuilding(Progress(rebuild, len(regions)), tuple(regions), self.meta.secret)
        elif running.task is None:
            self.input.ask()
            self.end_rebuild(running.closed())
            self._rebuilding = None
        elif self._prepared is None:
            region = self.engine.region(running.task.numbers)
            self._prepared = region, drawn_groups(self.table, region, Random(running.task.seed))
        else:
            self.input.ask()
            if self.replace_region(*self._prepared, running.progress) is None:
                self._rebuilding = running = running.changed()
                self._world.changed_meanwhile += 1
            elif self.meta.rebuild is not None:
                self._rebuilding = running = running.replaced(self.meta.rebuild)
                self._world.replaced += 1
            self._prepared = None
            if chance.random() < 0.1:
                self._rebuilding = running.ended(CANCELLED)


def alike(rows: EncodedRows, k: int) -> list[Ints]:
    """Rows in QI groups of k, as they follow one another by their codes: in place of an algorithm, which takes long."""
    n_groups = len(rows.codes) // k
    order = np.array(sorted(range(len(rows.codes)), key=lambda i: tuple(rows.codes[i])), dtype=np.int64)
    return np.array_split(order, n_groups) if n_groups else []


class World:
    """One shard with its input, store and output, and the steps counted so far.

    arrivals: messages that come at each step, after the first one; 0: all are there from the start, or the first
    `written`. earliest: where the input begins. skips: offsets that an operator named.
    """

    def __init__(
        self, table: Table, messages: Sequence[Message], plan: Mapping[int, Fault], arrivals: float = 0.0
    ) -> None:
        self.table = table
        self.messages = list(messages)
        self.plan = dict(plan)
        self.shard, self.shards = 0, 1
        self.server = MemoryServer()
        self.topic = ModelTopic()
        beside = (POSITIONS, DEAD_LETTERS, CONTROL)
        self.topic_ids = {kind: f"first {kind}" for kind in (CHANGES, *published_kinds(table), *beside)}
        self.schemas: Callable[[], Schemas] = NoSchemas
        """Of a registry, as a worker that has just begun knows them."""
        self.expired: set[int] = set()
        """Offsets whose messages are not there any more for who reads them once more."""
        self.secret = SECRET
        self.steps = 0
        self.written: int | None = None
        self.earliest = 0
        self.skips: list[int] = []
        self.retries: list[tuple[int, ...]] = []
        """What operators have asked for: offsets to be tried again."""
        self.snapshots: list[MemoryServer] = []
        self.happens: dict[int, Callable[[], None]] = {}
        """What happens to the topics before a numbered step."""
        self.happens_in_live: dict[int, Callable[[], None]] = {}
        """The same before a numbered record, or marker, of `live`."""
        self.taken_in_live = 0
        self.answers_late = False
        self.records_max = 1000
        """Of a release of what was held back."""
        self.rebuilds: Random | None = None
        self.replaced = 0
        """Regions that were replaced and confirmed."""
        self.changed_meanwhile = 0
        """Regions that were not, because they had changed."""
        self.clock: Random | None = None
        """By what chance time goes on after a batch; None: nobody looks at a clock."""
        self.now = float(NOON)
        self.between: Random | None = None
        """What goes on between the batches is for the machine to say, by this chance."""
        self.wanted: list[bytes] = []
        """What operators will ask for during a run."""
        self.topic.meanwhile = self._meanwhile
        self.arrivals = arrivals
        self._idle = 0
        self._owner: Worker | None = None

    def worker(self) -> Worker:
        return Worker(self)

    def meta(self) -> Meta:
        """What the store holds."""
        meta = MemoryStore(self.server, self.table.name, self.shard).meta()
        assert meta is not None
        return meta

    def ask_to_retry(self, offsets: Iterable[int]) -> None:
        """An operator wants messages tried again, as soon as they are all read."""
        asked = tuple(sorted(offsets))
        request = Retry(self.shard, f"request {len(self.control)}", 0, asked, self.topic_ids[CHANGES])
        self.control.append(request.to_json())
        self.retries.append(asked)

    def make_anew(self, *kinds: str) -> None:
        """Topics are deleted and made again: empty, and with other ids."""
        for kind in kinds:
            self.topic_ids = {**self.topic_ids, kind: f"{self.topic_ids[kind]}, made anew"}
            self.topic.begins[kind] = len(self.topic.transactions)
            self.topic.ends[kind] = self.topic.firsts[kind] = 0

    def make_input_anew(self, messages: Sequence[Message]) -> None:
        """The input is deleted and made again, and holds other messages at offsets that may be the same."""
        self.make_anew(CHANGES)
        self.messages = list(messages)

    def _meanwhile(self) -> None:
        self.taken_in_live += 1
        self.happens_in_live.get(self.taken_in_live - 1, lambda: None)()

    # -- the input ------------------------------------------------------------------------------------------------

    @property
    def there(self) -> list[Message]:
        """The messages that have been written up to now."""
        if not self.arrivals:
            return self.messages[: self.written]
        return self.messages[: 1 + int((self.steps + self._idle) * self.arrivals)]

    @property
    def end(self) -> int:
        """Behind the last message of all stands the marker of its transaction."""
        written = len(self.there)
        return self.messages[written].offset if written < len(self.messages) else self.messages[-1].offset + 2

    def state(self, last: int | None = None) -> InputState:
        """What the broker says."""
        outputs = published_kinds(self.table)
        reach = {kind: (self.topic.firsts[kind], self.topic.ends[kind]) for kind in outputs}
        there = [one for one in self.there if one.offset == last and one.offset not in self.expired]
        again: tuple[Message | None, ...] = () if last is None or last < self.earliest else (*there, None)[:1]
        begun, ids = bool(self.topic.in_topic(*outputs)), self.topic_ids
        return InputState(ids, self.shards, self.earliest, self.end, begun, len(self.control), reach, again)

    @property
    def control(self) -> list[bytes]:
        """The shard's partition of the control topic."""
        return self.topic.control[self.shard]

    def kept_secret(self) -> KeptSecret:
        """The shard's secret in the control topic."""
        said = secrets_in(self.control, self.shard)
        return KeptSecret(said[0].plain, is_current=True) if said else KeptSecret()

    @property
    def input(self) -> Any:
        """The input as a worker asks for it."""
        return Faulty(self, self)

    def read(self, after: int, batch: int) -> tuple[list[Message], int]:
        """The next messages, and the offset below which there are no others."""
        rest = [message for message in self.there if message.offset >= after]
        through = rest[batch].offset if len(rest) > batch else self.end
        return rest[:batch], through

    # -- workers --------------------------------------------------------------------------------------------------

    def run(self, batch: int, tries_max: int = 80) -> Worker:
        """Lets workers follow one another until the input is read and published."""
        worker, dirty, after = self.worker(), True, 0
        for _ in range(tries_max):
            try:
                if dirty:
                    after = worker.take_over(worker.input, self.skips)
                    dirty = False
                while after < self.end or len(self.there) < len(self.messages[: self.written]) or worker.has_to_retry:
                    through = worker.read_on(after, batch)
                    self._idle += after == through
                    after = through
                worker.hear()
                return worker
            except Died:
                worker, dirty = self.worker(), True
            except Fenced:
                worker, dirty = self._owner or self.worker(), self._owner is None
                after, self._owner = worker.meta.next, None
            except (ServerUnreachable, Conflict):
                dirty = True
            except ShardRefused as error:
                if str(error) != MENDED:
                    raise
                worker, dirty = self.worker(), True
        raise AssertionError("the shard made no progress")

    def run_in_parts(self, parts: Iterable[int], batch: Callable[[], int]) -> None:
        """Runs until so many messages are read, keeps what the store holds then, and so on; at last runs to the end."""
        for self.written in parts:
            self.run(batch())
            self.snapshot()
        self.written = None
        self.run(batch())

    def other_worker_takes_over(self, batch: int = 1) -> Worker:
        """A second worker that runs undisturbed, and reads on by one batch."""
        plan, self.plan = self.plan, {}
        other = self.worker()
        other.read_on(other.take_over(other.input, self.skips), batch)
        self.plan = plan
        return other

    def meets(self, fault: Fault | None) -> None:
        """What happens before a call."""
        if fault is Fault.ZOMBIE:
            self.other_worker_takes_over()
            self._owner = None
        elif fault is Fault.MOVED:
            self._owner = self.other_worker_takes_over()
        elif fault is Fault.DIE_BEFORE:
            raise Died
        elif fault is Fault.LOST_BEFORE:
            raise ServerUnreachable("no answer")
        elif fault is Fault.REFUSED:
            raise ShardRefused(MENDED)

    # -- what is kept ---------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        self.snapshots.append(deepcopy(self.server))

    def lose_commits(self, to: MemoryServer | None) -> None:
        """The store falls back to an earlier state, or is emptied. Fences are tokens: none comes back."""
        self.server = MemoryServer() if to is None else deepcopy(to)


class Faulty:
    """Counts the calls to an input, a store or an outlet as steps, and lets the plan's faults happen there."""

    def __init__(self, world: World, target: Any) -> None:
        self._world = world
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._call(getattr(self._target, name), arguments, named)

    def _call(self, call: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        step, self._world.steps = self._world.steps, self._world.steps + 1
        fault = self._world.plan.get(step)
        self._world.happens.get(step, lambda: None)()
        self._world.meets(fault)
        answer = call(*arguments, **named)
        if fault is Fault.DIE_AFTER:
            raise Died
        if fault is Fault.LOST_AFTER:
            raise ServerUnreachable("no answer")
        return answer


class FragileEngine(Engine):
    """An engine with faults of its own: rows with one of these problems break it, half-way or when it is drained."""

    BREAKS, BREAKS_A_LAW, BREAKS_BY_CHANCE = b'"breaks"', b'"breaks a law"', b'"breaks by chance"'
    chances = 0
    """How many more of the rows that break it by chance will."""

    def apply(self, change: Change) -> Outcome:
        outcome = super().apply(change)
        problem = change.row.values[0] if isinstance(change, Insert) else b""
        if problem == self.BREAKS:
            raise KeyError(problem)
        if problem == self.BREAKS_BY_CHANCE and FragileEngine.chances > 0:
            FragileEngine.chances -= 1
            raise RecursionError
        self._cursed = getattr(self, "_cursed", False) or problem == self.BREAKS_A_LAW
        return outcome

    def drain(self) -> Drained:
        drained = super().drain()
        if getattr(self, "_cursed", False):
            raise LawViolated("QI group 1 holds 1 of the k = 2 it needs")
        return drained
