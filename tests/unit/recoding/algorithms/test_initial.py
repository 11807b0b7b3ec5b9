"""The QI groups a shard begins with: those of the default algorithm, or none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT, run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.initial import initial_groups
from streamer.table.schema import Table
from worlds.microdata import TABLES, microdata


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), k=st.integers(2, 5), seed=st.integers(0, 99))
def test_they_are_the_default_algorithms_in_the_order_that_the_seed_gives_and_none_where_k_cannot_hold(
    data: st.DataObject, small: Table, k: int, seed: int
) -> None:
    people = data.draw(microdata(small))
    groups = initial_groups(people, k_anonymity(k), seed)
    if len(people) < k:
        assert groups == []
        return
    expected = run(ALGORITHMS[DEFAULT], people, k_anonymity(k), Options(chance=seed)).qi_group
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(people)))
    assert [set(expected[members].tolist()) for members in groups] == [{number} for number in range(len(groups))]
