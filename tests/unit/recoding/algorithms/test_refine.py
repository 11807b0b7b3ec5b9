"""Groups that change: their boxes kept current, the nearest of them, and what one sweep gains."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.group_index import Groups, groups_of, growth, members_of, nearest, put
from streamer.recoding.algorithms.refine import loss_of, sweep
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, microdata, people
from worlds.small_tables import YEARS

some_table = st.sampled_from(list(TABLES.values()))


@dataclass
class World:
    data: Microdata
    rows: np.ndarray
    task: Task
    groups: Groups

    def seats(self) -> dict[int, list[int]]:
        """The bundles of every seat that is not empty."""
        found = {seat: members_of(self.groups, seat).tolist() for seat in range(len(self.groups.rows))}
        return {seat: members for seat, members in found.items() if members}

    def loss(self, members: list[int]) -> float:
        cells = self.task.bundles.cells[members]
        weight = sum(int(self.task.bundles.end[i] - self.task.bundles.begin[i]) for i in members)
        return weight * float(self.data.space.ncp(*self.data.space.box_of_cells(cells)))


@st.composite
def worlds(draw: st.DrawFn, small: Table, model: Model, max_rows: int = 30) -> World:
    """Groups that hold: every few bundles in any order, and the last ones with those before them."""
    data = draw(microdata(small, max_rows))
    subjects = data.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(data, model)
    bundles = task.bundles
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(len(bundles.begin))
    qi_group, number = np.zeros(len(order), dtype=np.int64), 0
    open_rows: list[int] = []
    for bundle in order:
        qi_group[bundle] = number
        open_rows.extend(rows[bundles.begin[bundle] : bundles.end[bundle]])
        if model.holds(subjects[open_rows]):
            number, open_rows = number + 1, []
    if open_rows:
        qi_group[:] = 0
    return World(data, rows, task, groups_of(task, qi_group, len(rows) // task.rows_min))


@given(data=st.data(), small=some_table, model=st.sampled_from([k_anonymity(2), MODELS["(k, l)"]]))
def test_the_nearest_group_is_the_one_of_least_growth(data: st.DataObject, small: Table, model: Model) -> None:
    world = data.draw(worlds(small, model))
    seats = world.seats()
    own = data.draw(st.sampled_from(list(seats)))
    bundle = seats[own][0]
    cells, weight = (
        world.task.bundles.cells[bundle],
        int(world.task.bundles.end[bundle] - world.task.bundles.begin[bundle]),
    )
    grown = {seat: world.loss([*seats[seat], bundle]) - world.loss(seats[seat]) for seat in seats if seat != own}
    found, least = nearest(world.task, world.groups, own, cells, weight, np.inf)
    if not grown:
        assert found == -1
        return
    assert least == pytest.approx(min(grown.values()))
    assert grown[found] == pytest.approx(least)
    assert growth(world.task, world.groups, found, cells, weight) == least
    assert nearest(world.task, world.groups, own, cells, weight, least) == (-1, least)


@given(data=st.data(), small=some_table)
def test_boxes_and_losses_follow_the_members(data: st.DataObject, small: Table) -> None:
    world = data.draw(worlds(small, k_anonymity(2)))
    seats = world.seats()
    one, other = (data.draw(st.sampled_from(list(seats))) for _ in range(2))
    if one != other:
        put(world.task, world.groups, one, np.array(seats[one] + seats[other]))
        put(world.task, world.groups, other, np.empty(0, dtype=np.int64))
    w = len(world.groups.lo) // 2
    for seat, members in world.seats().items():
        cells = world.task.bundles.cells[members]
        assert world.groups.lo[w + seat].tolist() == cells.min(axis=0).tolist()
        assert world.groups.hi[w + seat].tolist() == cells.max(axis=0).tolist()
        assert world.groups.rows[seat] * world.groups.ncp[seat] == pytest.approx(world.loss(members))
        assert loss_of(world.task, np.array(members)) == pytest.approx(world.loss(members))
    assert world.groups.lo[1].tolist() == world.task.bundles.cells.min(axis=0).tolist()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@given(data=st.data(), small=some_table)
def test_a_sweep_keeps_every_bundle_and_every_group_holding_and_lowers_the_loss_where_it_moves(
    model: Model, data: st.DataObject, small: Table
) -> None:
    world = data.draw(worlds(small, model))
    subjects, bundles = world.data.subjects(model.subjects), world.task.bundles
    before = sum(world.loss(members) for members in world.seats().values())
    moved = sweep(world.task, world.groups)
    seats = world.seats()
    after = sum(world.loss(members) for members in seats.values())
    assert after < before if moved else after == before
    assert sorted(chain.from_iterable(seats.values())) == list(range(len(bundles.begin)))
    for members in seats.values():
        rows = np.concatenate([world.rows[bundles.begin[i] : bundles.end[i]] for i in members])
        assert model.holds(subjects[rows])


@pytest.mark.parametrize(
    ("values", "grouped", "expected"),
    [
        (
            [0, 0, 0, 1, 9, 9, 9],
            [0, 0, 0, 1, 1, 1, 1],
            [[0, 0], [0, 1], [9, 9, 9]],
        ),  # evicted, then cut
        ([0, 0, 1, 9, 9], [0, 0, 1, 1, 1], [[0, 0, 1], [9, 9]]),  # evicted
        (
            [0, 1, 9, 9, 1, 0, 9, 9],
            [0, 0, 1, 1, 0, 1, 0, 1],
            [[0, 0], [1, 1], [9, 9, 9, 9]],
        ),  # cut anew
    ],
)
def test_sweeps_end_with_neighbours_in_one_group(
    values: list[int], grouped: list[int], expected: list[list[int]]
) -> None:
    codes = np.array(values)[:, None]
    data = Microdata(people(YEARS), codes, None, np.zeros_like(codes), ((b"null",),))
    rows, task = task_of(data, k_anonymity(2))
    groups = groups_of(task, np.array(grouped)[rows], len(values) // 2)
    while sweep(task, groups):
        pass
    found = [
        sorted(task.bundles.cells[np.array(members_of(groups, seat)), 0].tolist())
        for seat in np.flatnonzero(groups.rows).tolist()
    ]
    assert sorted(found) == expected
