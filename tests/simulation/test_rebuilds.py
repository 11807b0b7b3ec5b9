"""Regions are replaced at random moments between batches, with faults at every numbered step: before or after, whole.

A table that is rebuilt has other QI groups than one that is not, and the same people: whatever happens, readers see
lawful tables of exactly the rows that are there, and nothing is lost or doubled.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, PEOPLE, events, fold, held_to_laws, sixth_of, table_before, tables_by_count
from streamer.errors import ShardRefused
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.checks.source import SourceLaws, index_table
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import REMEMBERED, RUNNING, STOPPED
from streamer.incremental.store.memory import MemoryStore

SEEDS = range(20)

MESSAGES = events(80)
QUIET = tables_by_count(MESSAGES)


def rebuilt_world(messages: list[Message], plan: dict[int, Fault], seed: int, arrivals: float = 0.0) -> World:
    world = World(PEOPLE, messages, plan, arrivals)
    world.rebuilds = Random(seed)
    return world


def values(folded: dict[bytes, bytes]) -> Counter[str]:
    return Counter(str(json.loads(row)["problem"]) for row in folded.values())


def assert_nothing_lost_doubled_or_told_wrong(world: World, messages: list[Message]) -> None:
    assert_people_are_told_right(world, messages)
    assert all(one.state != RUNNING and one.done + one.left <= one.total for one in world.meta().rebuilds)
    assert len(world.meta().rebuilds) <= REMEMBERED


def assert_people_are_told_right(world: World, messages: list[Message]) -> None:
    tables = QUIET if messages is MESSAGES else tables_by_count(messages)
    folded = dict[bytes, bytes]()
    letters, commits = [], []
    for records, position in world.topic.transactions:
        fold(folded, records)
        assert values(folded) == values(table_before(tables, messages, position.next))
        letters += [record.key for record in records if record.topic == "dead-letters"]
        commits.append(position.commit)
    assert commits == sorted(set(commits))
    assert len(letters) == len(set(letters))
    meta = world.meta()
    assert position.next == messages[-1].offset + 2
    assert (meta.counts.messages, meta.counts.dead_letters) == (len(messages), len(letters))
    assert_the_store_holds_what_is_published(world, held_to_laws(world))


def assert_the_store_holds_what_is_published(world: World, laws: ChangelogLaws) -> None:
    state = MemoryStore(world.server, PEOPLE.name, 0).load()
    assert state is not None
    records = dict(state.kept.records)
    lines = [(key, (0, record.qi_group) if record.qi_group else None) for key, record in records.items()]
    index = index_table({key: record.row for key, record in records.items()}, lines)
    SourceLaws(PEOPLE, laws, index).check_all("the end")
    assert state.meta.digest == world.topic.transactions[-1][1].digest


def steps_of_a_quiet_run() -> int:
    world = rebuilt_world(MESSAGES, {}, seed=3)
    world.run(batch=10)
    assert world.replaced > 2
    assert world.changed_meanwhile > 0
    assert_nothing_lost_doubled_or_told_wrong(world, MESSAGES)
    return world.steps


@IN_SIXTHS
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step_of_a_rebuild(fault: Fault, sixth: int) -> None:
    for step in sixth_of(steps_of_a_quiet_run(), sixth, fault):
        world = rebuilt_world(MESSAGES, {step: fault}, seed=3)
        world.run(batch=10)
        assert_nothing_lost_doubled_or_told_wrong(world, MESSAGES)


@IN_SIXTHS
def test_a_rebuild_whose_worker_died_is_closed_as_stopped_and_the_next_one_takes_another_turn(sixth: int) -> None:
    ends = Counter[str]()
    for step in sixth_of(50, sixth, None):
        world = rebuilt_world(MESSAGES, {20 + step: Fault.DIE_BEFORE}, seed=3)
        world.run(batch=10)
        turns = [one.rebuild.turn for one in world.meta().rebuilds]
        assert turns == sorted(set(turns))
        ends.update(one.state for one in world.meta().rebuilds)
    assert ends[STOPPED] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_fell_behind_a_replaced_region_is_refused_and_behind_batches_alone_it_comes_back(
    seed: int,
) -> None:
    rng = Random(seed)
    messages = events(60, seed)
    world = rebuilt_world(messages, {}, seed)
    world.written = 20
    world.run(batch=3)
    world.snapshot()
    world.written = 40
    world.run(batch=3)
    world.snapshot()
    world.rebuilds, world.written = None, None
    world.run(batch=rng.choice([1, 4]))
    published, outside = len(world.topic.transactions), world.meta().outside
    before, between = world.snapshots
    commits = [next(iter(snapshot.shards.values())).commit for snapshot in (before, between)]
    world.lose_commits(before)
    if commits[0] < outside:
        with pytest.raises(ShardRefused, match=f"commit {outside} did not come from the input"):
            world.run(batch=5)
    world.lose_commits(between)
    assert outside <= commits[1]
    world.run(batch=rng.choice([1, 3, 50]))
    assert len(world.topic.transactions) <= published + 1  # a rebuild that ran in the copy is closed once more
    assert_nothing_lost_doubled_or_told_wrong(world, messages)
