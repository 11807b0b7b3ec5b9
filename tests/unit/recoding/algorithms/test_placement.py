"""Bundles of groups that do not hold go one by one to groups that take them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import AtMostShare, Model, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.placement import placed
from streamer.table.schema import Table
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, VALUES, microdata

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


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
