"""A shard whose columns have a `coarsest`: what is wider is withheld, through crashes, until it is narrow enough."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest

from simulation.simulator import Fault, World
from simulation.story import (
    PEOPLE,
    assert_the_source_agrees,
    events,
    held_to_laws,
    published_table,
    records_of,
)
from streamer.incremental.checks.changelog import ChangelogLaws, in_releases
from streamer.incremental.store.memory import MemoryStore
from streamer.table.schema import GROUPS, REPAIR, ROWS, Table
from worlds.small_tables import CITY, YEARS

MESSAGES = events(120, seed=5)


def bounded(form: str) -> Table:
    """The story's people, published with two years and exact cities at most."""
    return replace(
        PEOPLE, attributes=(replace(YEARS, coarsest=Decimal(1)), replace(CITY, coarsest=0)), form=form, repair=REPAIR
    )


def published_counts(world: World) -> list[int]:
    """The rows that are published after each release, every one of which keeps the laws."""
    laws, counts = ChangelogLaws(world.table), list[int]()
    for release in in_releases(record for sent, _ in world.topic.transactions for record in records_of(sent)):
        laws.check(release)
        counts.append(laws.n_rows)
    assert_the_source_agrees(world, laws)
    return counts


def ran(table: Table, plan: dict[int, Fault]) -> World:
    world = World(table, MESSAGES, plan)
    world.run(batch=7)
    held_to_laws(world)
    return world


@pytest.mark.parametrize("form", [ROWS, GROUPS])
def test_groups_that_are_too_wide_are_withheld_and_come_when_they_are_narrow_enough(form: str) -> None:
    world = ran(bounded(form), {})
    state = MemoryStore(world.server, world.table.name, 0).load()
    assert state is not None
    groups = dict(state.kept.qi_groups).values()
    narrow = [group for group in groups if not world.table.space.forbids(group.lo, group.hi)]
    counts = published_counts(world)
    assert counts[-1] == sum(len(group.members) for group in narrow)
    assert 0 < counts[-1] < sum(len(group.members) for group in groups), "some rows wait, some do not"
    assert any(after < before - 1 for before, after in pairwise(counts)), "a group was withheld again"


@pytest.mark.parametrize("form", [ROWS, GROUPS])
@pytest.mark.parametrize("seed", range(6))
def test_faults_leave_the_table_of_a_quiet_run(seed: int, form: str) -> None:
    chance = random.Random(seed)
    plan = {step: chance.choice(list(Fault)) for step in chance.sample(range(90), 8)}
    table = bounded(form)
    quiet, faulty = ran(table, {}), ran(table, plan)
    assert published_table(faulty) == published_table(quiet)
    assert_the_source_agrees(faulty, held_to_laws(faulty))
