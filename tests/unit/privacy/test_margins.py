"""What a QI group can spare before its model breaks, against the model itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.margins import margins
from streamer.privacy.models import AtLeastDistinct, AtLeastRows, AtMostShare, Constraint, Model
from streamer.table.microdata import Subject
from worlds.small_tables import YEARS, table

PROBLEM = Subject(0, null_counts=False)


@pytest.mark.parametrize(
    "constraint", [AtLeastRows(2), AtLeastDistinct(PROBLEM, 2), AtMostShare(Subject(0), Fraction(2, 3))], ids=str
)
@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_so_many_rows_can_leave_whichever_they_are(constraint: Constraint, values: list[int]) -> None:
    model = Model([constraint])
    codes = np.array(values)[:, None]
    subjects = codes if model.subjects else codes[:, :0]
    spare = min(margin.spare for margin in margins(table(YEARS, k=2), model, subjects))
    for leaving in range(spare + 1):
        for stay in combinations(range(len(values)), len(values) - leaving):
            assert model.holds(subjects[list(stay)])


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_nothing_is_spare_where_the_model_does_not_hold(values: list[int]) -> None:
    model = Model([AtLeastRows(3), AtMostShare(Subject(0), Fraction(1, 2))])
    found = list(margins(table(YEARS, k=2), model, np.array(values)[:, None]))
    assert model.holds(np.array(values)[:, None]) == all(margin.spare >= 0 for margin in found)
