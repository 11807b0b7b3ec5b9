"""The tree of best cuts: the order of its leaves, and the tiles that make it up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, microdata, people
from worlds.small_tables import YEARS

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


@every_model
@given(data=st.data(), small=some_table, sharpness=st.sampled_from([0, 7]))
def test_the_tiles_hold_and_make_up_the_order_of_all_bundles(
    model: Model, data: st.DataObject, small: Table, sharpness: int
) -> None:
    rows = data.draw(microdata(small))
    subjects = rows.subjects(model.subjects)
    assume(model.holds(subjects))
    number, task = task_of(rows, model)
    order, tile = order_of(task, sharpness)
    assert sorted(order.tolist()) == list(range(len(task.bundles.begin)))
    position = 0
    while position < len(order):
        members = [
            number[task.bundles.begin[bundle] : task.bundles.end[bundle]] for bundle in order[position : tile[position]]
        ]
        assert model.holds(subjects[np.concatenate(members)])
        position = tile[position]
    assert np.count_nonzero(tile) == len(set(tile[tile > 0].tolist()))


def test_along_one_number_the_order_is_that_of_the_numbers() -> None:
    codes = np.random.default_rng(3).integers(0, 10, (200, 1))
    rows = Microdata(people(YEARS), codes, None, np.zeros_like(codes), ((b"null",),))
    _, task = task_of(rows, k_anonymity(3))
    for sharpness in (0, 7):
        order, _ = order_of(task, sharpness)
        assert (np.diff(task.bundles.cells[order, 0]) >= 0).all()
