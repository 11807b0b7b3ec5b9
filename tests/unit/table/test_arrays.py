"""Vectors as single numbers: one number for equal rows, in the order of the rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.arrays import row_numbers


@given(
    rows=st.lists(st.tuples(*[st.one_of(st.integers(0, 2), st.integers(0, 2**61))] * 3), min_size=1, max_size=20),
    many=st.booleans(),
)
def test_rows_get_one_number_each_however_wide_their_columns(rows: list[tuple[int, ...]], many: bool) -> None:
    numbers = row_numbers(np.array(rows, dtype=np.int64)).tolist()
    assert min(numbers) >= 0
    assert len(set(zip(numbers, rows, strict=True))) == len(set(numbers)) == len(set(rows))
