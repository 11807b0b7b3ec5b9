"""Operations do the same however they are cut into calls, and wherever they stop for lack of capacity."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core import layout
from streamer.incremental.core.layout import (
    FORM,
    GATHER,
    INSERT,
    NONE,
    REFORM,
    RETIRE,
    REWRITE,
    TAKE,
)
from streamer.incremental.core.step import advance, numbers_needed
from streamer.table.schema import Table
from worlds.core_arrays import CoreTable, Operation
from worlds.engine_tables import OF_PEOPLE, OF_TWO


def history(seed: int, n: int, people: bool) -> list[list[Operation]]:
    """Changes: rows come, go and change, alone or several in one change."""
    chance, there, changes = np.random.default_rng(seed), list[int](), list[list[Operation]]()
    indexes = 0
    for _ in range(n):
        cell, value, who = (int(one) for one in chance.integers((10, 3, 4)))
        what = chance.random()
        if what < 0.55 or len(there) < 3:
            changes.append([(INSERT, indexes, cell, "abc"[value], who if people else NONE)])
            there.append(indexes)
            indexes += 1
        elif what < 0.75:
            gone = chance.choice(there, int(chance.integers(1, 3)), replace=False).tolist()
            changes.append([(TAKE, index, 0, "a", NONE) for index in gone])
            there = [index for index in there if index not in gone]
        else:
            some = chance.choice(there, int(chance.integers(1, 3)), replace=False).tolist()
            changes.append([(REWRITE, index, (cell + i) % 10, "abc"[value], NONE) for i, index in enumerate(some)])
    return changes


@pytest.mark.parametrize("small", [OF_TWO, OF_PEOPLE], ids=["rows", "individuals"])
@pytest.mark.parametrize("seed", range(4))
def test_no_batch_exports_more_numbers_than_were_asked_for(seed: int, small: Table) -> None:
    world, changes = CoreTable(small), history(seed, 200, small.individual is not None)
    world.rows_used = sum(map(len, changes))
    for i, change in enumerate(changes):
        world.run(*change)
        if i % 7 == 0:
            world.core.drain()
            exported = max(world.core.field("n_numbers"), world.core.field("n_scores"))
            assert 0 < exported <= numbers_needed(world.s)
            world.core.mark_read()


def regrouped(world: CoreTable, chance: np.random.Generator) -> list[Operation]:
    """All rows in other groups of two or more; a group that is left over goes, one that is missing is new."""
    there = world.numbers()
    rows = [index for number in there for index in world.members(number)]
    chance.shuffle(rows)
    pairs = [rows[i : i + 2] for i in range(0, len(rows) - 1, 2)]
    pairs[-1] += rows[2 * len(pairs) :]
    some = int(chance.integers(0, 2)) if len(pairs) > 1 else 0
    pairs = [pairs[0] + pairs[1], *pairs[2:]] if some else pairs
    operations: list[Operation] = []
    for i, members in enumerate(pairs):
        operations += [(GATHER, index, 0, "a", NONE) for index in members]
        is_new = i >= len(there)
        operations.append((FORM if is_new else REFORM, NONE if is_new else world.group(there[i]), 0, "a", NONE))
    return operations + [(RETIRE, world.group(number), 0, "a", NONE) for number in there[len(pairs) :]]


@pytest.mark.parametrize("first_capacity", [1, 3, 8, 1024])
def test_groups_are_replaced_by_others_of_the_same_rows_wherever_capacity_runs_out(
    first_capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes are those of the members, slots follow the values, counts are right: the drain checks."""
    monkeypatch.setattr(layout, "FIRST_CAPACITY", first_capacity)
    world, chance = CoreTable(OF_TWO), np.random.default_rng(3)
    values = ["abc"[i % 3] for i in range(40)] + ["b"] * 12
    for i in range(40):
        world.insert(i * 7 % 10, values[i])
    for turn in range(12):
        world.run(*regrouped(world, chance))
        world.drain()
        assert sorted(index for number in world.numbers() for index in world.members(number)) == list(range(40 + turn))
        for number in world.numbers():
            assert world.box(number) == (world.cells(number)[0], world.cells(number)[-1])
            assert world.slots(number) == sorted(values[index] for index in world.members(number))
        world.insert(turn % 10, "b")
    assert world.core.field("n_pending") == 0


def test_a_whole_run_of_changes_is_one_call() -> None:
    world = CoreTable()
    operations, cells = world.gathered(*[(INSERT, index, index, "flu", NONE) for index in range(4)])
    operations.ends = 1
    assert advance(world.s, operations, cells, 0, False) == 4
    assert sorted(world.cells_by_number().values()) == [[0, 1], [2, 3]]
