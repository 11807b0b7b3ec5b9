"""A stable sort and a heap in compiled loops, against Python's own."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.kernels.sorting import heap_for, pop, push, sort_stably

few = st.integers(0, 4)


@given(keys=st.lists(few, max_size=40) | st.lists(st.sampled_from([0.5, -1.0, np.inf]), max_size=40))
def test_keys_are_sorted_and_equal_ones_stay_as_they_come(keys: list[float]) -> None:
    out = np.empty(len(keys), dtype=np.int64)
    sort_stably(np.array(keys), out, np.empty(len(keys) + 3, dtype=np.int64))
    assert out.tolist() == sorted(range(len(keys)), key=lambda i: keys[i])


@given(steps=st.lists(st.none() | st.tuples(few.map(float), few, few), max_size=60))
def test_groups_leave_a_heap_by_rank_then_by_rows_then_by_number(steps: list[tuple[float, int, int] | None]) -> None:
    heap, expected = heap_for(len(steps)), list[tuple[float, int, int]]()
    for step in steps:
        if step is not None:
            push(heap, *step)
            heappush(expected, step)
        elif expected:
            assert pop(heap) == heappop(expected)[1:]
        assert heap.n[0] == len(expected)
