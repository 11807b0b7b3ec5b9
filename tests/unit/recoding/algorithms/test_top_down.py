"""Top-down specialization: nothing could be specialized further, and a remainder takes back what it lacks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import (
    Model,
    k_anonymity,
)
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.schema import Table
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, boxes, holding, microdata

some_table = st.sampled_from(list(TABLES.values()))


some_model = st.sampled_from(list(MODELS.values()))


@given(data=st.data(), small=some_table, model=some_model)
def test_no_group_could_be_specialized_further_with_all_of_its_children_holding(
    data: st.DataObject, small: Table, model: Model
) -> None:
    rows = data.draw(microdata(small))
    recoding = holding(TOP_DOWN, rows, model)
    subjects = rows.subjects(model.subjects)
    for group in range(recoding.n_groups):
        members = np.flatnonzero(recoding.qi_group == group)
        for j, attribute in enumerate(small.attributes):
            values = [attribute.levels.recode(v, rows.cells[members, j]) for v in range(attribute.levels.n_levels)]
            agreed = [v for v, (lo, _) in enumerate(values) if (lo == lo[0]).all()]
            lo, hi = values[agreed[0]]
            assert (recoding.lo[group, j], recoding.hi[group, j]) == (lo[0], hi[0])
            if agreed[0]:
                children = np.unique(values[agreed[0] - 1][0], return_inverse=True)[1]
                assert not model.holds_by_group(children, int(children.max()) + 1, subjects[members]).all()


def test_a_remainder_that_does_not_hold_takes_back_what_it_lacks_from_the_largest_child() -> None:
    recoding = run(TOP_DOWN, numbers([0] * 4 + [4] * 5 + [9]), k_anonymity(3))
    assert boxes(recoding) == [((0,), (7,), 3), ((0,), (9,), 3), ((4,), (4,), 4)]


def test_children_come_back_whole_where_none_can_spare_what_the_remainder_lacks() -> None:
    recoding = run(TOP_DOWN, numbers([0] * 3 + [9] * 2), k_anonymity(3))
    assert boxes(recoding) == [((0,), (9,), 5)]
