"""Counting values in QI groups, whatever the size of the values."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics.tally import tally
from streamer.table.microdata import Microdata
from worlds.measured_tables import (
    recoded,
)


@given(given=recoded(), stride=st.sampled_from([1, 2**20, 2**60]))
def test_tallies_count_values_of_any_size(given: tuple[Microdata, Recoding], stride: int) -> None:
    data, recoding = given
    values = data.values[:, 0] * stride
    pairs = zip(recoding.qi_group.tolist(), values.tolist(), strict=True)
    expected = sorted(Counter(pair for pair in pairs if pair[0] >= 0).items())
    found = tally(recoding, values)
    assert [((g, v), c) for g, v, c in zip(*(part.tolist() for part in found), strict=True)] == expected
