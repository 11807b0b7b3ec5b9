"""The sampled loss against a fresh table's."""

from __future__ import annotations

from math import fsum, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.shard.drift import SAMPLE_REGIONS, drawn, loss, ratio
from worlds.small_tables import TABLES

PEOPLE = TABLES["decimal, number, category"]


@given(data=st.data(), n=st.integers(1, 40), seed=st.integers(0, 1000))
def test_the_loss_is_that_of_the_smallest_boxes_row_by_row(data: st.DataObject, n: int, seed: int) -> None:
    space = PEOPLE.space
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, space.n_cells * space.codes_per_cell, size=(n, space.d))
    group_of = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    groups = [np.flatnonzero(group_of == g) for g in np.unique(group_of)]
    boxes = [space.box_of_cells(space.cells(codes[group])) for group in groups]
    expected = fsum(float(space.ncp(lo, hi)) * len(g) for (lo, hi), g in zip(boxes, groups, strict=True))
    assert loss(space, codes, groups) == pytest.approx(expected, rel=1e-12)


def test_nobody_loses_nothing() -> None:
    assert loss(PEOPLE.space, np.empty((0, PEOPLE.space.d), dtype=np.int64), []) == 0.0


def test_a_table_that_need_not_lose_anything_has_drifted_without_bound_once_it_does() -> None:
    assert (ratio(3.0, 2.0), ratio(0.0, 0.0), ratio(1.0, 0.0)) == (1.5, 1.0, inf)


@given(n=st.integers(0, 50), seed=st.integers(0, 2**63))
def test_regions_are_drawn_once_each_and_all_where_they_are_few(n: int, seed: int) -> None:
    chosen = drawn(range(n), seed)
    assert len(set(chosen)) == len(chosen) == min(n, SAMPLE_REGIONS)
    assert chosen == drawn(range(n), seed) == sorted(chosen)
