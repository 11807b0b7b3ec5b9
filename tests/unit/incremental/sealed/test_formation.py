"""Cohorts by cells alone: what both ways of forming them promise; the default loses no more than median cuts."""

from __future__ import annotations

import inspect
from random import Random

import numpy as np
import pytest

from streamer.grouping import cohort_formation
from streamer.incremental.sealed.formation import ALIKE_MAX, median_cuts
from streamer.table.arrays import Ints
from worlds.sealed_people import AGE, HOUSE, sealed_table
from worlds.small_tables import TABLES as SMALL_TABLES

TABLE = sealed_table(3, attributes=(AGE, HOUSE))


def cells_of(n: int, seed: int = 0) -> Ints:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 100, n), rng.integers(0, 10, n)])


def test_a_formation_is_handed_cells_and_a_seed_and_nothing_else() -> None:
    for form in (median_cuts(TABLE.space, TABLE.k), cohort_formation(TABLE)):
        assert [*inspect.signature(form).parameters] == ["cells", "seed"]


@pytest.mark.parametrize("n", [3, 5, 6, 40, 300])
def test_every_row_is_in_one_cohort_of_at_least_k(n: int) -> None:
    cells = cells_of(n, n)
    for form in (median_cuts(TABLE.space, TABLE.k), cohort_formation(TABLE)):
        cohorts = form(cells, 1)
        assert sorted(np.concatenate(cohorts).tolist()) == list(range(n))
        assert min(map(len, cohorts)) >= TABLE.k


def test_the_default_loses_no_more_than_median_cuts_and_much_less_on_many_rows() -> None:
    medians, default = median_cuts(TABLE.space, TABLE.k), cohort_formation(TABLE)
    for n in (3, 7, 20, 200):
        cells = cells_of(n, n)
        by_medians = TABLE.space.loss_of(cells, medians(cells, 0))
        assert TABLE.space.loss_of(cells, default(cells, 0)) <= by_medians
    assert TABLE.space.loss_of(cells, default(cells, 0)) < 0.8 * by_medians


def test_ages_that_lose_the_same_either_way_are_cut_at_the_median_which_goes_left() -> None:
    table = sealed_table(2)
    cells = np.array([[10], [20], [30], [40], [50]])
    assert [cohort.tolist() for cohort in cohort_formation(table)(cells, 3)] == [[0, 1, 2], [3, 4]]


def test_a_median_cut_depends_on_no_order_of_the_rows() -> None:
    form, rng = median_cuts(TABLE.space, TABLE.k), Random(1)
    cells = cells_of(60)
    expected = {frozenset(cohort.tolist()) for cohort in form(cells, 0)}
    for _ in range(5):
        order = np.array(rng.sample(range(60), 60))
        assert {frozenset(order[cohort].tolist()) for cohort in form(cells[order], 0)} == expected


def test_very_many_rows_that_are_alike_are_several_cohorts_by_chance() -> None:
    form, cells = median_cuts(TABLE.space, TABLE.k), np.zeros((3 * ALIKE_MAX + 5, 2), np.int64)
    cohorts = form(cells, 1)
    assert [len(cohort) for cohort in cohorts] == [1002, 1002, 1001]
    assert sorted(np.concatenate(cohorts).tolist()) == list(range(len(cells)))
    assert cohorts[0].tolist() != form(cells, 2)[0].tolist()


def test_boxes_are_the_smallest_publishable_ones() -> None:
    table = SMALL_TABLES["coarse number and category"]
    cells = np.array([[0, 0], [1, 2], [4, 5], [4, 5]])
    lo, hi = table.space.boxes_around(cells, [np.array([0, 1]), np.array([2, 3])])
    expected = [table.space.box_of_cells(cells[:2].copy()), table.space.box_of_cells(cells[2:].copy())]
    assert [(a.tolist(), b.tolist()) for a, b in zip(lo, hi, strict=True)] == [
        (a.tolist(), b.tolist()) for a, b in expected
    ]
