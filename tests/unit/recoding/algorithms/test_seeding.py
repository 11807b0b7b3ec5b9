"""Groups that are merged: what holds stays as it is, what does not finds others until it does."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import AtMostShare, Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.group_index import loss_of
from streamer.recoding.algorithms.seeding import agglomerated, assigned, exchanged, seeded
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import VALUES, every_model, microdata, numbers, some_table

Holds = Callable[[np.ndarray, int], bool]


def any_groups(data: st.DataObject, model: Model, small: Table, slots: int) -> tuple[Task, np.ndarray, Holds]:
    """People, each bundle's group in up to so many, and whether the group of a number holds."""
    people = data.draw(microdata(small, max_rows=25))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(people, model)
    m = len(task.bundles.begin)
    bundle = np.repeat(np.arange(m), task.bundles.end - task.bundles.begin)
    return task, np.arange(m) % slots, lambda found, number: model.holds(subjects[rows[found[bundle] == number]])


@every_model
@given(data=st.data(), small=some_table, slots=st.integers(1, 12))
def test_every_group_is_a_union_of_those_given_and_holds(
    model: Model, data: st.DataObject, small: Table, slots: int
) -> None:
    task, before, holds = any_groups(data, model, small, slots)
    for strict in (True, False):
        found = agglomerated(task, before, int(before.max()) + 1, np.zeros(len(before)), strict)
        for number in np.unique(before):
            assert len(np.unique(found[before == number])) == 1
        assert strict or all(holds(found, number) for number in np.unique(found))
        assert not task.scratch.counts.any()


def test_the_nearest_is_joined() -> None:
    data = numbers([0, 1, 5, 6, 9])
    _, task = task_of(data, k_anonymity(2))
    found = agglomerated(task, np.arange(5), 5, np.zeros(5), False)
    assert sorted(np.flatnonzero(found == number).tolist() for number in np.unique(found)) == [[0, 1], [2, 3, 4]]


# Bundles of groups that do not hold go one by one to groups that take them.


@every_model
@given(data=st.data(), small=some_table, slots=st.integers(1, 8))
def test_groups_that_hold_still_do_and_each_bundle_that_is_left_is_alone(
    model: Model, data: st.DataObject, small: Table, slots: int
) -> None:
    task, before, holds = any_groups(data, model, small, slots)
    left, after = assigned(task, before, int(before.max()) + 1)
    stood = [number for number in np.unique(before).tolist() if holds(before, number)]
    alone = [number for number in np.unique(after).tolist() if not holds(after, number)]
    single = [number for number in np.unique(after).tolist() if (after == number).sum() == 1]
    assert set(alone) <= set(single)
    assert len(alone) <= left <= len(single)  # a bundle that is left may hold by itself
    for number in stood:
        assert len(np.unique(after[before == number])) == 1


def test_a_bundle_goes_where_the_loss_grows_least_of_those_that_take_it() -> None:
    model = k_anonymity(3) & Model([AtMostShare(VALUES, Fraction(1, 2))])
    data = numbers([1, 1, 1, 8, 8, 8, 8, 9], values=[1, 2, 3, 0, 0, 1, 1, 0])
    rows, task = task_of(data, model)
    before = np.array([0, 0, 0, 1, 1, 1, 1, 2])
    left, after = assigned(task, before[rows], 3)
    assert left == 0
    assert after[rows.tolist().index(7)] == after[rows.tolist().index(0)]


# Groups seeded with rare values: all hold, under every model, and each has a rare value.


def grouped(data: Microdata, model: Model) -> np.ndarray:
    """Each row's group, int64 (n,)."""
    rows, task = task_of(data, model)
    found = of_rows(rows, task, seeded(task))
    assert not task.scratch.counts.any()
    return found


def of_rows(rows: np.ndarray, task: Task, qi_group: np.ndarray) -> np.ndarray:
    """Each row's group, int64 (n,), from each bundle's."""
    found = np.empty(len(rows), dtype=np.int64)
    found[rows] = np.repeat(qi_group, task.bundles.end - task.bundles.begin)
    return found


def assert_all_hold(data: Microdata, model: Model, group: np.ndarray) -> None:
    subjects = data.subjects(model.subjects)
    assert all(model.holds(subjects[group == number]) for number in np.unique(group))


def test_every_rare_value_seeds_a_group() -> None:
    data = numbers([0, 0, 0, 0, 5, 5, 5, 5, 5, 9, 9, 9], values=[0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0])
    group = grouped(data, k_anonymity(3) & distinct_l(VALUES, 2))
    assert [data.cells[group == number, 0].tolist() for number in np.unique(group)] == [[0] * 4, [5] * 5, [9] * 3]


def test_a_share_hardly_above_the_tables_own_leaves_no_row_behind() -> None:
    values = [0, 0, 0, 1] * 25
    data = numbers([i % 10 for i in range(100)], values)
    model = Model([AtMostShare(VALUES, Fraction(76, 100))])
    group = grouped(data, model)
    assert_all_hold(data, model, group)
    assert len(np.unique(group)) > 10


# Bundles that change groups: every group holds before and after, and the loss falls.


def total_loss(task: Task, qi_group: np.ndarray) -> float:
    return sum(loss_of(task, np.flatnonzero(qi_group == number)) for number in np.unique(qi_group))


@every_model
@given(data=st.data(), small=some_table)
def test_every_group_holds_and_the_loss_falls_to_what_is_said(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    assume(model.holds(people.subjects(model.subjects)))
    rows, task = task_of(people, model)
    before = seeded(task)
    loss, after = exchanged(task, before, int(before.max()) + 1, 3)
    assert loss == pytest.approx(total_loss(task, after))
    assert loss <= total_loss(task, before) + 1e-9
    assert_all_hold(people, model, of_rows(rows, task, after))
    assert not task.scratch.counts.any()
    assert not task.scratch.size.any()


def moved(cells: list[int], values: list[int], groups: list[int], model: Model) -> list[list[int]]:
    """The cells of every group after the moves."""
    rows, task = task_of(numbers(cells, values), model)
    _, found = exchanged(task, np.array(groups, dtype=np.int64)[rows], max(groups) + 1, 3)
    return sorted(sorted(task.bundles.cells[found == number, 0].tolist()) for number in np.unique(found))


def test_a_row_goes_where_it_costs_less() -> None:
    assert moved([0, 0, 9, 9, 9], [0] * 5, [0, 0, 0, 1, 1], k_anonymity(2)) == [[0, 0], [9, 9, 9]]


def test_rows_that_no_group_can_spare_are_exchanged() -> None:
    assert moved([0, 9, 0, 9], [0] * 4, [0, 0, 1, 1], k_anonymity(2)) == [[0, 0], [9, 9]]
    model = k_anonymity(2) & distinct_l(VALUES, 2)
    assert moved([0, 9, 0, 9], [0, 1, 1, 0], [0, 0, 1, 1], model) == [[0, 0], [9, 9]]
    assert moved([0, 9, 0, 9], [0, 1, 0, 1], [0, 0, 1, 1], model) == [[0, 9], [0, 9]]
