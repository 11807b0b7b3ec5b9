"""A shard whose table asks for more than k, through crashes and lost answers: every release keeps the whole model."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from functools import cache

import pytest

from simulation.simulator import Fault, World
from simulation.story import PEOPLE, events, held_to_laws, published_table
from streamer.incremental.topics import OUTPUTS
from streamer.table.codes import EQUAL, DistributionDemands, Diversity, KeptColumn, reference_of
from streamer.table.codes.same_text import without_capitals
from streamer.table.schema import REPAIR, ROWS, Table
from worlds.published_groups import FORMS

STRICT = tuple(replace(column, diversity=Diversity(beta=Decimal("0.6"))) for column in PEOPLE.kept if column.sensitive)
ASKING = replace(PEOPLE, kept=STRICT, diversity=Diversity(l=2), repair=REPAIR)
MESSAGES = events(120, seed=3)


def distributed(column: KeptColumn) -> KeptColumn:
    """The column, which asks for entropy and for closeness to the shares with which the story draws its values."""
    rows: dict[str | None, int] = {"flu": 1, "cough": 1, None: 1}
    reference = reference_of(column.name, EQUAL, rows, None, without_capitals)
    return replace(column, distribution=DistributionDemands(Decimal("1.6"), None, Decimal("0.5"), EQUAL, reference))


DISTRIBUTED = replace(PEOPLE, kept=tuple(map(distributed, PEOPLE.kept)), repair=REPAIR)


@cache
def quiet_table_and_releases(small: Table) -> tuple[dict[bytes, bytes], int]:
    return table_and_releases(small, {})


def table_and_releases(small: Table, plan: dict[int, Fault]) -> tuple[dict[bytes, bytes], int]:
    """The published table at the end, every release of which was lawful, and how many there were."""
    world = World(small, MESSAGES, plan)
    world.run(batch=7)
    laws, folded, releases = held_to_laws(world), published_table(world), len(world.topic.in_topic(*OUTPUTS))
    assert laws.n_rows == len(folded) or small.form != ROWS
    assert world.meta().counts.messages == len(MESSAGES)
    return folded, releases


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asked", [ASKING, DISTRIBUTED], ids=["l and shares", "entropy and t"])
@pytest.mark.parametrize("seed", range(6))
def test_faults_leave_the_table_of_a_quiet_run_and_the_model_at_every_release(
    seed: int, asked: Table, form: str
) -> None:
    asking = replace(asked, form=form)
    chance = random.Random(seed)
    plan = {step: chance.choice(list(Fault)) for step in chance.sample(range(90), 8)}
    quiet, releases = quiet_table_and_releases(asking)
    assert releases > 10
    assert quiet != quiet_table_and_releases(replace(PEOPLE, form=form))[0]
    assert table_and_releases(asking, plan)[0] == quiet
