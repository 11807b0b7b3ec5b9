"""The laws of every algorithm under every model: nobody lost or doubled, groups that hold, rows inside their boxes.

The gate has some pairs of both, the night all; whatever the pair, two laws draw a model for every example.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.recoding.algorithms.contract import PLAIN, Options
from streamer.table.schema import Table
from worlds.covering import pairs_of_the_gate
from worlds.microdata import MODELS, TABLES, assert_laws, holding, microdata, with_k

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
some_table = st.sampled_from(list(TABLES.values()))


@pairs_of_the_gate("name", "asked", list(ALGORITHMS), list(MODELS))
@given(data=st.data(), small=some_table)
def test_rows_are_in_one_group_that_holds_and_in_its_box(
    name: str, asked: str, data: st.DataObject, small: Table
) -> None:
    assert_laws(ALGORITHMS[name], data.draw(microdata(small)), MODELS[asked])


@every_algorithm
@given(data=st.data(), small=some_table, suppression=st.sampled_from([0.05, 0.3]), refine=st.integers(0, 2))
def test_the_laws_hold_with_suppressed_rows_and_refined_groups(
    name: str, data: st.DataObject, small: Table, suppression: float, refine: int
) -> None:
    algorithm = ALGORITHMS[name]
    options = Options(suppression=suppression * algorithm.suppresses, refine=refine * algorithm.refines)
    if options != PLAIN:
        model = data.draw(st.sampled_from(list(MODELS.values())))
        assert_laws(algorithm, data.draw(microdata(small)), model, options)


@every_algorithm
@given(data=st.data(), small=some_table, k=st.integers(2, 9))
def test_a_larger_k_never_gives_smaller_groups_than_k(name: str, data: st.DataObject, small: Table, k: int) -> None:
    model = data.draw(st.sampled_from(list(MODELS.values())))
    recoding = holding(ALGORITHMS[name], data.draw(microdata(small)), with_k(model, k))
    assert recoding.sizes.min(initial=k) >= k
