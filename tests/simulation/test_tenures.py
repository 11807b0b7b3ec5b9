"""Several workers, rebalances and faults: a shard is served by one worker at a time, and each is served again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, MESSAGES, PEOPLE, assert_nothing_lost_or_doubled, events, sixth_of
from simulation.worker_group import WorkerGroup
from streamer.incremental.shard.states import Phase
from streamer.worker.tenure import TABLE, Due, ShardFailed, TakenOver, TenureState

SEEDS = range(80)
SOME_SEEDS = *range(12), 43, 47, 63, 78
"""Schedules that together meet every row of the table."""
FEW = events(10)
LASTS = (Fault.LOST_BEFORE, Fault.REFUSED)
"""A server that is silent, or that refuses for good, for several calls."""


def group_of(*worlds: World, processes: int = 2, seed: int = 0) -> WorkerGroup:
    group = WorkerGroup(worlds, processes, random.Random(seed))
    group.begin_rebalance()
    group.end_rebalance()
    return group


def rebalance(*stays: float, is_over: bool = False) -> Callable[[WorkerGroup], None]:
    """One after the other, in each of which the shards stay, or move; is_over: so is the last one."""

    def happens(group: WorkerGroup) -> None:
        for share in stays:
            group.end_rebalance()
            group.round()
            group.begin_rebalance(share)
        if is_over:
            group.end_rebalance()

    return happens


def begins_twice(group: WorkerGroup) -> None:
    group.begin_rebalance(stays=1.0)
    group.begin_rebalance(stays=1.0)


def ends_its_worker(group: WorkerGroup) -> None:
    group.at_work[0].owner.end()
    group.end_who_has_died()


REBALANCES: dict[str, Callable[[WorkerGroup], None]] = {
    "begins, and it stays": rebalance(1.0),
    "begins, and it moves": rebalance(0.0),
    "begins twice": begins_twice,
    "is over at once, and it stays": rebalance(1.0, is_over=True),
    "is over at once, and it moves": rebalance(0.0, is_over=True),
    "has it served elsewhere meanwhile": rebalance(0.0, 0.0),
    "goes on without its worker": lambda group: group.begin_rebalance(sleeps=group.at_work[0].owner),
    "is not said to begin": lambda group: group.say_again(group.at_work[0].owner),
    "ends its worker": ends_its_worker,
}


@IN_SIXTHS
@pytest.mark.parametrize("fault", [None, Fault.LOST_AFTER, Fault.MOVED], ids=str)
@pytest.mark.parametrize("what", REBALANCES)
def test_a_rebalance_at_every_numbered_step(what: str, fault: Fault | None, sixth: int) -> None:
    """With a fault at the same step, too."""
    for step in sixth_of(1_000, sixth, fault):
        world = World(PEOPLE, FEW, {} if fault is None else {step: fault})
        group = group_of(world)
        world.happens = {step: lambda group=group: REBALANCES[what](group)}  # type: ignore[misc]
        group.run_until_read()
        assert_nothing_lost_or_doubled(world, FEW)
        if step >= world.steps:
            break


def schedule(seed: int) -> WorkerGroup:
    """Some shards and workers, with moments and faults of every kind, and servers that are silent for a while."""
    chance = random.Random(seed)
    worlds = []
    for number in range(chance.choice([1, 2, 3])):
        world = World(PEOPLE, events(40, seed + number), {})
        world.plan = {step: chance.choice(list(Fault)) for step in range(300) if chance.random() < 0.04}
        silent = chance.randrange(200)
        world.plan |= dict.fromkeys(range(silent, silent + chance.randrange(20)), chance.choice(LASTS))
        world.written = 1
        worlds.append(world)
    group = group_of(*worlds, processes=chance.choice([2, 3]), seed=seed)
    for world in worlds:
        world.happens = {step: group.moment for step in range(600) if chance.random() < 0.15}
    for _ in range(40):
        for world in worlds:
            world.written = min(len(world.messages), (world.written or 0) + chance.randrange(4))
        if chance.random() < 0.2:
            group.begin_rebalance(sleeps=chance.choice([None, None, *group.processes]))
        if chance.random() < 0.2:
            group.say_again(chance.choice(group.processes))
        group.round()
    for world in worlds:
        world.plan, world.happens, world.written = {}, {}, None
    group.run_until_read()
    for world in worlds:
        assert_nothing_lost_or_doubled(world, world.messages)
    return group


@pytest.mark.parametrize("seeds", [SOME_SEEDS, pytest.param(SEEDS, marks=pytest.mark.night)], ids=["some", "all"])
def test_whatever_happens_nothing_is_lost_or_doubled_and_every_shard_is_served_again(seeds: Sequence[int]) -> None:
    groups = [schedule(seed) for seed in seeds]
    for figure in ("went_on", "was_elsewhere", "ended_by_watch"):
        assert sum(getattr(group, figure) for group in groups) > 0, figure
    told = {(state, kind) for group in groups for state, kind, _ in group.told}
    assert told == set(TABLE)  # no row is there in vain


def test_a_take_over_ends_though_a_rebalance_interrupts_it_between_any_two_calls_once_it_is_alone() -> None:
    """Before: it began anew, and a worker that came and went more often than one takes kept it from ending."""
    world = World(PEOPLE, MESSAGES, {})
    group = group_of(world)
    group.run_until_read()
    interrupted = list[int]()

    def disturb() -> None:
        at_work = group.at_work[-1]
        if at_work.worker.machine.phase is Phase.RESTORING:
            interrupted.append(world.steps)
            rebalance(1.0, is_over=True)(group)

    world.happens = dict.fromkeys(range(world.steps, world.steps + 1_000), disturb)
    begun = len(group.told)
    for process in list(group.processes):
        process.end()
    group.end_rebalance()
    group.run_until_read()
    take_overs = [kind for _, kind, _ in group.told[begun:] if kind in (Due, ShardFailed, TakenOver)]
    assert len(interrupted) > 1
    assert take_overs == [Due, TakenOver]


@IN_SIXTHS
@pytest.mark.parametrize("what", ["is over at once, and it stays", "begins twice", "has it served elsewhere meanwhile"])
def test_a_rebalance_at_every_numbered_step_of_a_replay(what: str, sixth: int) -> None:
    """The store has lost commits that were published, and the input is read again."""
    for step in sixth_of(1_000, sixth, None):
        world = World(PEOPLE, FEW, {})
        world.run_in_parts([4], lambda: 2)
        world.lose_commits(world.snapshots[0])
        group, began = group_of(world), world.steps
        world.happens = {began + step: lambda group=group: REBALANCES[what](group)}  # type: ignore[misc]
        group.run_until_read()
        assert_nothing_lost_or_doubled(world, FEW)
        if began + step >= world.steps:
            break


def test_a_shard_that_stays_lost_and_assigned_is_found_and_served_again() -> None:
    world = World(PEOPLE, MESSAGES, {})
    group = group_of(world)
    for _ in range(4):
        group.round()
    world.other_worker_takes_over()
    group.run_until_read()
    assert group.ended_by_watch == 1
    assert_nothing_lost_or_doubled(world, MESSAGES)


def test_a_shard_with_an_error_that_stays_is_refused_with_its_reason_and_served_once_it_is_gone() -> None:
    broken, well = World(PEOPLE, MESSAGES, dict.fromkeys(range(12, 2000), Fault.REFUSED)), World(PEOPLE, MESSAGES, {})
    group = group_of(broken, well, processes=1)
    for _ in range(100):
        group.round()
    refused, healthy = (group.processes[0].held[number] for number in (0, 1))
    assert (refused.tenure.state, healthy.has_read_all) == (TenureState.REFUSED, True)
    assert refused.tenure.refused
    broken.plan = {}
    group.run_until_read()
    assert group.processes[0].held[0] is refused
    assert_nothing_lost_or_doubled(broken, MESSAGES)
