"""Workers of one consumer group in one process, each with the shards that Kafka assigns to it.

`ShardAtWorker` carries out a tenure as the worker's `Ingest` does, but one turn at a time: its step is a call on the
stack. Whatever happens meanwhile (a rebalance, a turn of another worker, the end of this one) happens inside one of the
step's numbered calls, and the step then goes on to its end, as the thread of a real shard does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random

from simulation.simulator import Died, World, alike
from streamer.errors import Conflict, Fenced, StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.ready import Failed, Messages, Revoked, Tick
from streamer.incremental.shard.states import Phase
from streamer.incremental.store.base import Meta
from streamer.incremental.store.memory import MemoryStore
from streamer.worker.tenure import (
    WAITING,
    Due,
    Event,
    Failure,
    GivenAway,
    Served,
    ShardAssigned,
    ShardFailed,
    TakenOver,
    Tenure,
    TenureState,
    Withdrawn,
    after,
    meaning_of,
)

BATCH = 4
LOST_SECONDS_MAX = 8.0
"""How long a worker bears that a shard is lost and stays assigned to it."""


class ShardAtWorker:
    """One shard from its assignment to its loss."""

    def __init__(self, owner: WorkerProcess, number: int) -> None:
        self.owner, self.group, self.number = owner, owner.group, number
        self.world = self.group.worlds[number]
        self.worker = self.world.worker()
        self.tenure, self.since = Tenure(), self.group.now
        self.reads_from: int | None = None
        self.busy = False

    def tell(self, event: Event) -> Tenure:
        before, self.tenure = self.tenure, after(self.tenure, event)
        self.group.told.append((before.state, type(event), self.tenure.state))
        if before.state is not self.tenure.state:
            self.since = self.group.now
        return self.tenure

    @property
    def has_read_all(self) -> bool:
        return self.tenure.state is TenureState.SERVING and self.worker.meta.next == self.world.end

    def state(self, last: int | None = None) -> InputState:
        """Of the input, for a take-over: a shard that is lost, or rests, shuts nobody out."""
        found: InputState = self.worker.input.state(last)
        if self.tenure.lost:
            raise Fenced(self.tenure.lost)
        if self.tenure.state is TenureState.RESTING:
            raise Conflict("a rebalance began before it was taken over")
        return found

    def turn(self) -> None:
        """Does what its tenure asks for, unless it is still doing so."""
        if self.busy or self.tenure.lost:
            return
        self.busy = True
        self.group.at_work.append(self)
        try:
            self._carry_out(self.tenure)
        except StreamerError as error:
            self._failed(error)
        except Died:
            self.owner.end()
        finally:
            self.group.at_work.pop()
            self.busy = False
            self.drop_if_lost()

    def drop_if_lost(self) -> None:
        if self.tenure.lost and not self.busy:
            self.worker.machine.handle(Revoked())

    def _carry_out(self, tenure: Tenure) -> None:
        if tenure.state is TenureState.TAKING_OVER:
            self._go_on_after_rest() if tenure.kept else self.worker.take_over(self)
            if self.tenure is tenure:
                self.tell(TakenOver(self.group.now, self.group.now))
                self.reads_from = self.worker.meta.next
        elif tenure.state is TenureState.SERVING:
            self._read_on(tenure)
        elif tenure.state in WAITING and self.group.now - self.since >= tenure.wait:
            self.tell(Due())

    def _go_on_after_rest(self) -> None:
        if self.worker.machine.phase in (Phase.IDLE, Phase.REFUSED):
            raise Conflict("its table was dropped while it rested")
        try:
            self.worker.servers.store.check_fence(self.worker.machine.fence)
        except StreamerError:
            self.worker.machine.handle(Failed())
            raise
        store, own = MemoryStore(self.world.server, self.world.table.name, self.world.shard), self.worker.meta
        stored = store.meta() or Meta()
        assert (own.commit, own.next, own.release) == (stored.commit, stored.next, stored.release)
        self.group.went_on += 1

    def _read_on(self, tenure: Tenure) -> None:
        messages, through = self.worker.input.read(self.reads_from, BATCH) if self.reads_from is not None else ([], 0)
        if self.tenure is not tenure:
            return
        if messages or through > self.worker.meta.next:
            self.reads_from = through
            self.worker.input.ask()
            job = self.worker.drive(Messages(messages, through)).job
            if job is not None:
                self.worker.release(alike(job.rows, self.world.table.k), self.world.records_max)
        if self.tenure is tenure:
            self.tell(Served(self.group.now, not messages))
            self.worker.drive(Tick(0.0, self.group.now))

    def _failed(self, error: StreamerError) -> None:
        before, failure = self.tenure, meaning_of(error)
        now = self.tell(ShardFailed(failure, str(error), self.worker.meta.next, self.group.now))
        if before.lost:
            return
        if failure is Failure.FENCED and before.kept and before.state is TenureState.TAKING_OVER:
            self.owner.give_up([self.number])
            self.owner.begin(self.number)
            self.group.was_elsewhere += 1
        elif now.state is TenureState.REFUSED:
            self.reads_from = None
            if self.worker.machine.phase not in (Phase.IDLE, Phase.REFUSED):
                self.worker.machine.handle(Failed())
            if all(one.tenure.refused for one in self.owner.held.values()):
                self.owner.end()


class WorkerProcess:
    """One worker: it hears what Kafka says, in the order of `Ingest`."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group
        self.held: dict[int, ShardAtWorker] = {}
        self.assignment: frozenset[int] = frozenset()
        self.joined = self.has_ended = False

    def revoked(self) -> None:
        self.joined = False
        for shard in self.held.values():
            shard.tell(Withdrawn(self.group.now))
            shard.reads_from = None
        self.give_up([number for number, one in self.held.items() if one.tenure.state is not TenureState.RESTING])

    def assigned(self, numbers: frozenset[int]) -> None:
        self.joined, self.assignment = True, numbers
        self.give_up([number for number, one in self.held.items() if number not in numbers or one.tenure.lost])
        for number in sorted(numbers):
            if number in self.held:
                self.held[number].reads_from = None
                self.held[number].tell(ShardAssigned())
            else:
                self.begin(number)

    def begin(self, number: int) -> None:
        self.held[number] = ShardAtWorker(self, number)

    def give_up(self, numbers: Collection[int]) -> None:
        for number in numbers:
            shard = self.held.pop(number)
            shard.tell(GivenAway("given back", self.group.now))
            shard.drop_if_lost()

    def watch(self) -> None:
        """Ends if a shard stays lost although it is assigned here."""
        lost = [one for one in self.held.values() if one.tenure.lost and one.number in self.assignment]
        if self.joined and any(self.group.now - one.tenure.at > LOST_SECONDS_MAX for one in lost):
            self.group.ended_by_watch += 1
            self.end()

    def end(self) -> None:
        """The process ends, and another one begins in its place."""
        if not self.has_ended:
            self.has_ended = True
            self.give_up(list(self.held))
            self.group.replace(self)


class WorkerGroup:
    """The group, and Kafka's part in it. chance: who gets which shard, and what happens at a moment."""

    def __init__(self, worlds: Sequence[World], processes: int, chance: Random) -> None:
        self.worlds, self.chance, self.now = worlds, chance, 0.0
        self.processes = [WorkerProcess(self) for _ in range(processes)]
        self.sleeps: WorkerProcess | None = None
        """Whose session is over while it does not know."""
        self.unsaid: list[Callable[[], None]] = []
        """Assignments that their workers have not heard of yet."""
        self.at_work: list[ShardAtWorker] = []
        """Whose turns are under way, each inside a call of the one before."""
        self.told: list[tuple[TenureState, type[Event], TenureState]] = []
        self.went_on = self.was_elsewhere = self.ended_by_watch = 0

    def replace(self, ended: WorkerProcess) -> None:
        self.processes[self.processes.index(ended)] = WorkerProcess(self)
        self.begin_rebalance()

    def begin_rebalance(self, stays: float = 0.7, sleeps: WorkerProcess | None = None) -> None:
        """Takes all shards from all who are awake, and says to each one later whose they are."""
        self.sleeps, awake = sleeps, [one for one in self.processes if one is not sleeps]
        for process in [one for one in awake if one.joined]:
            process.revoked()
        shares: dict[WorkerProcess, set[int]] = {process: set() for process in awake}
        for number in range(len(self.worlds)):
            before = next((one for one in awake if number in one.assignment), None)
            others = [one for one in awake if one is not before] or awake
            stayed = before is not None and self.chance.random() < stays
            shares[before if before is not None and stayed else self.chance.choice(others)].add(number)
        self.unsaid = [partial(process.assigned, frozenset(share)) for process, share in shares.items()]
        self.chance.shuffle(self.unsaid)

    def end_rebalance(self) -> None:
        while self.unsaid:
            self.unsaid.pop()()

    def moment(self) -> None:
        """What happens while a call is under way."""
        what = self.chance.random()
        if what < 0.1:
            self.begin_rebalance(sleeps=self.chance.choice([None, *self.processes]))
        elif what < 0.2:
            self.say_again(self.chance.choice(self.processes))
        elif what < 0.5 and self.unsaid:
            self.unsaid.pop()()
        else:
            for shard in list(self.chance.choice(self.processes).held.values()):
                shard.turn()
        self.end_who_has_died()

    def say_again(self, process: WorkerProcess) -> None:
        """Calls back once more than Kafka's client promises to."""
        if process is not self.sleeps:
            process.assigned(process.assignment) if process.joined else process.revoked()

    def end_who_has_died(self) -> None:
        """A process that has ended meanwhile does not go on with its call."""
        if self.at_work and self.at_work[-1].owner.has_ended:
            raise Died

    def round(self) -> None:
        """A second, in which every shard has a turn."""
        self.now += 1.0
        if self.unsaid and self.chance.random() < 0.7:
            self.unsaid.pop()()
        for process in list(self.processes):
            for shard in list(process.held.values()):
                shard.turn()
            process.watch()

    def run_until_read(self, rounds_max: int = 300) -> None:
        """Nothing disturbs them any more: every shard is served again, and its input read to the end."""
        if self.sleeps is not None:
            self.begin_rebalance()
        for _ in range(rounds_max):
            if not self.unsaid and all(map(self._has_read_all, range(len(self.worlds)))):
                return
            self.round()
        raise AssertionError("a shard is not served again")

    def _has_read_all(self, number: int) -> bool:
        return any(number in process.held and process.held[number].has_read_all for process in self.processes)
