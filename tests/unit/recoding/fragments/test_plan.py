"""Where a table is cut into fragments: exact, whole vectors, holding parts, the same for the same rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import distinct_l
from streamer.recoding.fragments import steps
from streamer.recoding.fragments.plan import (
    COARSE_BINS_MAX,
    DEALT,
    LEAF,
    SHARES_MIN,
    FragmentPlan,
    Planner,
    binned,
    bins_of,
    dealt,
    holding,
    united,
)
from streamer.table.arrays import Ints, counted
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.fragments import arrow_of, fragments_of, planned, recipe_for
from worlds.microdata import MODELS, TABLES, VALUES, microdata, permuted, renamed, some_model, some_table

numbers = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=60).map(
    lambda rows: np.array(rows, dtype=np.int64)
)


@given(numbers, st.integers(1, 4))
def test_counts_of_the_parts_of_a_table_are_counts_of_the_whole(rows: Ints, parts: int) -> None:
    whole = counted(rows)
    assert {tuple(v): n for v, n in zip(whole.numbers.tolist(), whole.rows.tolist(), strict=True)} == {
        tuple(v): rows.tolist().count(v) for v in rows.tolist()
    }
    found = united([counted(part) for part in np.array_split(rows, parts) if len(part)])
    assert (found.numbers.tolist(), found.rows.tolist()) == (whole.numbers.tolist(), whole.rows.tolist())


@given(st.lists(st.integers(0, 500), min_size=1, max_size=400))
def test_bins_are_few_runs_that_hold_every_cell_once(cells: list[int]) -> None:
    column = np.array(cells, dtype=np.int64)[:, None]
    bins = bins_of(counted(column))
    assert 1 <= len(bins.first) <= COARSE_BINS_MAX
    assert all(last < first for last, first in zip(bins.last[:-1], bins.first[1:], strict=True))
    bin_ = binned(column, [bins])[:, 0]
    assert (bins.first[bin_] <= column[:, 0]).all()
    assert (column[:, 0] <= bins.last[bin_]).all()
    if len(set(cells)) <= COARSE_BINS_MAX:
        assert bins.first.tolist() == bins.last.tolist() == sorted(set(cells))


def test_bins_of_many_cells_have_about_equally_many_rows() -> None:
    column = np.arange(10_000, dtype=np.int64)[:, None]
    bins = bins_of(counted(column))
    sizes = np.diff(np.append(bins.first, 10_000))
    assert len(sizes) == COARSE_BINS_MAX
    assert sizes.max() <= sizes.min() + 1


@given(st.data(), some_table, some_model, st.integers(3, 20))
def test_every_fragment_holds_and_rows_with_the_same_cells_are_together(
    data: st.DataObject, small: Table, model: object, rows_max: int
) -> None:
    rows = data.draw(microdata(small, 80))
    recipe = recipe_for(rows, model, rows_max)  # type: ignore[arg-type]
    assume(recipe.model.holds(rows.subjects(recipe.model.subjects)))
    plan, fragments = fragments_of(recipe, [arrow_of(rows)])
    assert sum(one.num_rows for one in fragments) == len(rows)
    assert all(steps.holds_of(recipe, one) for one in fragments)
    node = plan.route(rows.cells)
    assert len({(*cells, one) for cells, one in zip(rows.cells.tolist(), node.tolist(), strict=True)}) == len(
        {tuple(cells) for cells in rows.cells.tolist()}
    )
    large = [one for one in fragments if one.num_rows > rows_max]
    if recipe.model == MODELS["k"] and rows_max >= 6:  # every part of six rows or more can be dealt
        assert not large


@given(st.data(), some_table, some_model, st.integers(3, 20), st.integers(1, 5))
def test_a_plan_does_not_depend_on_order_names_or_parts(
    data: st.DataObject, small: Table, model: object, rows_max: int, parts: int
) -> None:
    rows = data.draw(microdata(small, 60))
    recipe = recipe_for(rows, model, rows_max)  # type: ignore[arg-type]
    plan, _ = planned(recipe, [arrow_of(rows)])
    others = renamed(permuted(rows, 1), 2)
    some = [others.rows(part) for part in np.array_split(np.arange(len(rows)), parts) if len(part)]
    found, _ = planned(recipe, [arrow_of(part) for part in some])
    for name in ("attribute", "border", "lower", "upper"):
        assert getattr(found, name).tolist() == getattr(plan, name).tolist()


def by_hand(data: Microdata, cells: Ints, rows_max: int) -> float | None:
    """The least rows times NCP of two parts; None if no cut is allowed or the rows fit."""
    n, space = len(cells), data.space
    if n <= rows_max or (cells == cells[0]).all():
        return None
    for share in SHARES_MIN:
        found = []
        for j in range(space.d):
            for _, border in pairwise(sorted(set(cells[:, j].tolist()))):
                parts = [cells[cells[:, j] < border], cells[cells[:, j] >= border]]
                if min(map(len, parts)) >= share * n:
                    boxes = (space.generalize(part.min(axis=0), part.max(axis=0)) for part in parts)
                    loss = (len(part) * float(space.ncp(*box)) for part, box in zip(parts, boxes, strict=True))
                    found.append(sum(loss))
        if found:
            return min(found)
    return None


@given(st.data(), some_table, st.integers(1, 30))
def test_the_first_cut_is_the_best_of_all_that_leave_large_parts(
    data: st.DataObject, small: Table, rows_max: int
) -> None:
    rows = data.draw(microdata(small, 60))
    cells = rows.cells
    bins = [bins_of(counted(cells[:, [j]])) for j in range(cells.shape[1])]
    plan, _ = Planner(small.space, None, rows_max).grown(FragmentPlan(), 0, counted(binned(cells, bins)), bins)
    best = by_hand(rows, cells, rows_max)
    if best is None:
        assert plan.attribute.tolist() == [LEAF]
        return
    upper = cells[:, plan.attribute[0]] >= plan.border[0]
    boxes = [small.space.generalize(part.min(axis=0), part.max(axis=0)) for part in (cells[~upper], cells[upper])]
    loss = sum(n * float(small.space.ncp(*box)) for n, box in zip(((~upper).sum(), upper.sum()), boxes, strict=True))
    assert loss == pytest.approx(best)


def test_regions_are_cut_where_the_last_plan_was_cut_least() -> None:
    space = TABLES["decimal, number, category"].space
    cells = np.stack([np.arange(400) % 8, np.arange(400) // 8 % 10, np.arange(400) % 3], axis=1)
    bins = [bins_of(counted(cells[:, [j]])) for j in range(3)]
    first, _ = Planner(space, None, 200).grown(FragmentPlan(), 0, counted(binned(cells, bins)), bins)
    again, _ = Planner(space, None, 200, elsewhere_than=first).grown(
        FragmentPlan(), 0, counted(binned(cells, bins)), bins
    )
    assert first.attribute[0] != again.attribute[0]


def test_a_fragment_that_one_vector_of_bins_fills_gets_finer_bins() -> None:
    small = TABLES["decimal, number, category"]
    rng = np.random.default_rng(0)
    crowd = np.stack([np.zeros(900), rng.integers(0, 2, 900), np.zeros(900)], axis=1)
    codes = np.concatenate([crowd, rng.integers(0, 3, (50, 3))]).astype(np.int64)
    rows = Microdata(small, codes * small.space.codes_per_cell, None, np.zeros((950, 1), np.int64), ((b'"flu"',),))
    plan, fragments = fragments_of(recipe_for(rows, MODELS["k"], 100), [arrow_of(rows)])
    assert max(one.num_rows for one in fragments) <= 100
    assert (plan.attribute < LEAF).any()  # rows that are all alike were dealt


def test_alike_rows_are_dealt_so_that_all_fragments_have_the_shares_of_the_whole() -> None:
    kind = np.repeat([0, 1, 2], [60, 30, 10])
    goes = dealt(kind, None, 10)
    assert np.bincount(goes).tolist() == [10] * 10
    for one in range(10):
        assert np.bincount(kind[goes == one], minlength=3).tolist() == [6, 3, 1]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 5), st.randoms(use_true_random=False))
def test_nobody_is_dealt_to_two_fragments(names: list[int], parts: int, random: object) -> None:
    who = np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)
    kind = np.arange(len(who), dtype=np.int64) % 3
    goes = dealt(kind, who, parts)
    assert all(len(set(goes[who == one].tolist())) == 1 for one in set(who.tolist()))
    if who.max() + 1 >= parts:
        assert set(goes.tolist()) == set(range(parts))


def test_a_part_that_does_not_hold_stays_with_its_neighbour() -> None:
    plan = FragmentPlan(*(np.array(column) for column in ([0, -1, 1, -1, -1], [5, 0, 2, 0, 0], [1, -1, 3, -1, -1],
                                                          [2, -1, 4, -1, -1])))  # fmt: skip
    assert holding(plan, lambda leaves: True) == [[1], [3], [4]]
    assert holding(plan, lambda leaves: leaves != [3]) == [[1], [3, 4]]
    assert holding(plan, lambda leaves: leaves != [1]) == [[1, 3, 4]]


def test_what_no_cut_leaves_holding_is_dealt() -> None:
    small = TABLES["one number"]
    codes = np.arange(40, dtype=np.int64)[:, None] % 10
    values = (codes >= 5).astype(np.int64)  # the lower half of the years has one value
    rows = Microdata(small, codes, None, values, ((b'"cough"', b'"flu"'),))
    model = MODELS["distinct l"] & distinct_l(VALUES, 2)
    plan, fragments = fragments_of(recipe_for(rows, model, 20), [arrow_of(rows)])
    assert plan.attribute.tolist() == [DEALT, LEAF, LEAF]
    assert [one.num_rows for one in fragments] == [20, 20]
