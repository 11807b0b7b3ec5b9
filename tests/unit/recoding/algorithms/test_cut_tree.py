"""The tree of best cuts: the order of its leaves, and the tiles that make it up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.cut_tree import EVEN_FROM, EVEN_PART, FINE, best_cut, order_of, scan_for
from streamer.table.codes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import data_of, every_model, microdata, people, some_table, with_k
from worlds.small_tables import YEARS

# One cut of one node, against all of them by the definition.


def weights(data: Microdata, cells: np.ndarray, at: int, power: int) -> float:
    """What a cut before position `at` of rows at cells (n, d) weighs, by the definition."""
    parts = [(part, data.space.generalize(part.min(axis=0), part.max(axis=0))) for part in (cells[:at], cells[at:])]
    return sum(len(part) * float((data.space.ncp_terms(*box) ** power).sum()) for part, box in parts)


@every_model
@given(data=st.data(), small=some_table, sharpness=st.integers(0, 3))
def test_the_cut_is_the_one_of_least_weight_and_one_whose_parts_hold_if_any_do(
    model: Model, data: st.DataObject, small: Table, sharpness: int
) -> None:
    people = data.draw(microdata(small, max_rows=12))
    rows, task = task_of(people, model)
    cells, subjects, (m, d) = people.cells[rows], people.subjects(model.subjects)[rows], task.bundles.cells.shape
    lo, hi = cells.min(axis=0), cells.max(axis=0)
    assume(m == len(people) and (lo < hi).any())
    along, strict = np.argsort(cells, axis=0, kind="stable").T.copy(), bool(model.subjects)
    j, at, both = best_cut(task, along, lo, hi, sharpness, strict, scan_for(m, d))
    found = j, at
    weight = {
        (j, at): weights(people, cells[along[j]], at, 2**sharpness)
        for j in range(d)
        for at in range(1, m)
        if lo[j] < hi[j]
    }
    if strict:
        ranked = {
            (j, at): model.holds(subjects[along[j, :at]]) and model.holds(subjects[along[j, at:]]) for j, at in weight
        }
        assert both == ranked[found] == any(ranked.values())
        weight = {cut: weight[cut] for cut in weight if ranked[cut] == ranked[found]}
    assert weight[found] == pytest.approx(min(weight.values()))


def test_a_large_node_is_never_cut_at_its_rim() -> None:
    """999 equal values and a stranger: the stranger alone would weigh least, and a chain of strangers n steps."""
    codes = np.array([0] * 999 + [9])[:, None]
    rows = data_of(people(YEARS), codes)
    _, task = task_of(rows, k_anonymity(3))
    m = len(codes)
    assert m >= EVEN_FROM
    found = best_cut(task, np.arange(m)[None, :], codes[0], codes[-1], 0, False, scan_for(m, 1))
    assert found == (0, m - m // EVEN_PART, False)


def test_a_node_that_no_cut_makes_cheaper_is_cut_between_two_categories() -> None:
    """49 categories right under the root with 7 rows each: no part that is large enough has one category alone."""
    flat = CategoricalAttribute("code", Hierarchy.from_rows([f"{i}", "*"] for i in range(49)), YEARS.unit)
    leaves = np.repeat(np.arange(49), 7)[:, None]
    rows = data_of(people(flat), leaves)
    _, task = task_of(rows, k_anonymity(3))
    m = len(leaves)
    assert m // EVEN_PART > 7
    assert m // 2 % 7 != 0
    found = best_cut(task, np.arange(m)[None, :], leaves[0], leaves[-1], 0, False, scan_for(m, 1))
    assert found == (0, 24 * 7, False)


@every_model
@given(data=st.data(), small=some_table, sharpness=st.sampled_from([0, 7]))
def test_the_tiles_hold_and_make_up_the_order_of_all_bundles(
    model: Model, data: st.DataObject, small: Table, sharpness: int
) -> None:
    rows = data.draw(microdata(small))
    subjects = rows.subjects(model.subjects)
    assume(model.holds(subjects))
    number, task = task_of(rows, model)
    order, tile, _ = order_of(task, sharpness)
    assert sorted(order.tolist()) == list(range(len(task.bundles.begin)))
    position = 0
    while position < len(order):
        members = [
            number[task.bundles.begin[bundle] : task.bundles.end[bundle]] for bundle in order[position : tile[position]]
        ]
        assert model.holds(subjects[np.concatenate(members)])
        position = tile[position]
    assert np.count_nonzero(tile) == len(set(tile[tile > 0].tolist()))


@every_model
@given(data=st.data(), small=some_table, k=st.integers(1, 70), sharpness=st.sampled_from([0, 7]))
def test_blocks_are_small_or_lie_where_no_group_can_end_and_tiles_are_made_of_them(
    model: Model, data: st.DataObject, small: Table, k: int, sharpness: int
) -> None:
    rows, model = data.draw(microdata(small, max_rows=250)), with_k(model, k)
    assume(model.holds(rows.subjects(model.subjects)))
    _, task = task_of(rows, model)
    order, n, end = order_of(task, sharpness), len(rows), 0
    m, size = len(order.bundles), (task.bundles.end - task.bundles.begin)[order.bundles]
    edges = [*order.blocks.tolist(), m]
    assert edges[0] == 0
    for begin, until in pairwise(edges):
        assert begin < until
        before, end = end, end + int(size[begin:until].sum())
        small_enough = until - begin == 1 or FINE * (end - before) <= task.rows_min
        assert small_enough or end <= task.rows_min or n - before <= task.rows_min
    tiles = np.flatnonzero(order.tile)
    assert {*tiles.tolist(), *order.tile[tiles].tolist()} <= set(edges)


def test_along_one_number_the_order_is_that_of_the_numbers() -> None:
    codes = np.random.default_rng(3).integers(0, 10, (200, 1))
    rows = data_of(people(YEARS), codes)
    _, task = task_of(rows, k_anonymity(3))
    for sharpness in (0, 7):
        order = order_of(task, sharpness).bundles
        assert (np.diff(task.bundles.cells[order, 0]) >= 0).all()
