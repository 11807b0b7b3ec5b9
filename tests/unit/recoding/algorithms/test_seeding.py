"""Groups that are merged: what holds stays as it is, what does not finds others until it does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.compiled import add, rules_of, scratch_for
from streamer.privacy.models import AtMostShare, Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.local_recoding import lack
from streamer.recoding.algorithms.seeding import agglomerated, founded, lack_of, placed
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, VALUES, microdata, numbers

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


@every_model
@given(data=st.data(), small=some_table, seats=st.integers(1, 12))
def test_every_group_is_a_union_of_those_given_and_holds(
    model: Model, data: st.DataObject, small: Table, seats: int
) -> None:
    people = data.draw(microdata(small, max_rows=25))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(people, model)
    m = len(task.bundles.begin)
    given_groups = np.arange(m) % min(seats, m)
    by_row = np.repeat(np.arange(m), task.bundles.end - task.bundles.begin)
    for strict in (True, False):
        found = agglomerated(task, given_groups, min(seats, m), np.zeros(m), strict)
        for number in np.unique(given_groups):
            assert len(np.unique(found[given_groups == number])) == 1
        assert strict or all(model.holds(subjects[rows[found[by_row] == number]]) for number in np.unique(found))
        assert not task.scratch.counts.any()


def test_the_nearest_is_joined() -> None:
    data = numbers([0, 1, 5, 6, 9])
    _, task = task_of(data, k_anonymity(2))
    found = agglomerated(task, np.arange(5), 5, np.zeros(5), False)
    assert sorted(np.flatnonzero(found == number).tolist() for number in np.unique(found)) == [[0, 1], [2, 3, 4]]


@every_model
@given(data=st.data(), small=some_table)
def test_what_a_group_lacks_is_told_from_its_counts_alone(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small, max_rows=12))
    rules = rules_of(model, people.subjects(model.subjects))
    scratch = scratch_for(rules)
    for row in range(len(people)):
        add(rules, scratch, row)
    assert lack_of(rules, len(people), scratch.top, scratch.n_distinct) == lack(rules, scratch)


# Bundles of groups that do not hold go one by one to groups that take them.


@every_model
@given(data=st.data(), small=some_table, seats=st.integers(1, 8))
def test_groups_that_hold_still_do_and_who_is_left_stands_alone(
    model: Model, data: st.DataObject, small: Table, seats: int
) -> None:
    people = data.draw(microdata(small, max_rows=25))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(people, model)
    m = len(task.bundles.begin)
    before = np.arange(m) % min(seats, m)
    by_row = np.repeat(np.arange(m), task.bundles.end - task.bundles.begin)

    def holding(qi_group: np.ndarray, number: int) -> bool:
        return bool(model.holds(subjects[rows[qi_group[by_row] == number]]))

    left, after = placed(task, before, min(seats, m), np.arange(m))
    stood = [number for number in np.unique(before).tolist() if holding(before, number)]
    alone = [number for number in np.unique(after).tolist() if not holding(after, number)]
    assert len(alone) == left
    assert all((after == number).sum() == 1 for number in alone)
    for number in stood:
        assert len(np.unique(after[before == number])) == 1


def test_a_bundle_goes_where_the_loss_grows_least_of_those_that_take_it() -> None:
    model = k_anonymity(3) & Model([AtMostShare(VALUES, Fraction(1, 2))])
    data = numbers([1, 1, 1, 8, 8, 8, 8, 9], values=[1, 2, 3, 0, 0, 1, 1, 0])
    rows, task = task_of(data, model)
    before = np.array([0, 0, 0, 1, 1, 1, 1, 2])
    left, after = placed(task, before[rows], 3, np.arange(8))
    assert left == 0
    assert after[rows.tolist().index(7)] == after[rows.tolist().index(0)]


# Groups founded on rare values: all hold, whatever the model; and who has what is rare has others of his kind.


def grouped(data: Microdata, model: Model) -> np.ndarray:
    """Each row's group, int64 (n,)."""
    rows, task = task_of(data, model)
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(founded(task), task.bundles.end - task.bundles.begin)
    assert not task.scratch.counts.any()
    return by_row


def assert_all_hold(data: Microdata, model: Model, group: np.ndarray) -> None:
    subjects = data.subjects(model.subjects)
    assert all(model.holds(subjects[group == number]) for number in np.unique(group))


@every_model
@given(data=st.data(), small=some_table)
def test_every_group_holds(model: Model, data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    assume(model.holds(rows.subjects(model.subjects)))
    assert_all_hold(rows, model, grouped(rows, model))


def test_every_rare_value_founds_a_group() -> None:
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
