"""Groups founded on rare values: all hold, whatever the model; and who has what is rare has others of his kind."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import AtMostShare, Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.founding import founded
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, VALUES, microdata

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


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
