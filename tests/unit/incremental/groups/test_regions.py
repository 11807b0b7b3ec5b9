"""Regions: every QI group in one, none above its size, the same for the same table, other borders at every turn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.regions import SLACK, STRIDE, cut_regions
from streamer.table.arrays import Ints

Boxes = tuple[Ints, Ints, Ints]


@st.composite
def tables(draw: st.DrawFn) -> Boxes:
    """Boxes among few cells, so that many centers are equal, and sizes."""
    n, d = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    cells = st.integers(0, draw(st.sampled_from([1, 4, 100])))
    ends = draw(st.lists(st.tuples(*[st.tuples(cells, cells)] * d), min_size=n, max_size=n))
    sizes = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
    boxes = np.sort(np.array(ends, dtype=np.int64).reshape(n, d, 2), axis=2)
    return boxes[:, :, 0], boxes[:, :, 1], np.array(sizes, dtype=np.int64)


@given(tables(), st.integers(1, 60), st.integers(0, 1000))
def test_every_group_is_in_one_region_and_no_region_is_too_large(table: Boxes, rows_max: int, turn: int) -> None:
    *_, sizes = table
    regions = cut_regions(*table, rows_max, turn)
    assert sorted(np.concatenate([np.zeros(0, int), *regions]).tolist()) == list(range(len(sizes)))
    for region in regions:
        assert region.tolist() == sorted(region.tolist())
        assert sizes[region].sum() <= rows_max or len(region) == 1
    if sizes.sum() <= rows_max:
        assert len(regions) == (len(sizes) > 0)


@given(tables(), st.integers(0, 1000))
def test_the_cut_is_the_one_over_which_the_boxes_of_fewest_rows_reach(table: Boxes, turn: int) -> None:
    """Every attribute and every position is tried here, one by one."""
    lo, hi, sizes = table
    if len(sizes) < 2:
        return
    n, wanted = int(sizes.sum()), (1 + turn * STRIDE % 1) / 3 * int(sizes.sum())
    best: tuple[int, set[int]] | None = None
    for j in range(lo.shape[1]):
        order = sorted(range(len(sizes)), key=lambda i: int(lo[i, j] + hi[i, j]))
        off = [abs(int(sizes[order[:below]].sum()) - wanted) for below in range(1, len(order))]
        for below in range(1, len(order)):
            if off[below - 1] > max(min(off), SLACK * n):
                continue
            border = sum(float(lo[i, j] + hi[i, j]) / 4 for i in order[below - 1 : below + 1])
            over = sum(int(sizes[i]) for i in order if lo[i, j] <= border <= hi[i, j])
            if best is None or over < best[0]:
                best = over, set(order[:below])
    assert best is not None
    regions = cut_regions(lo, hi, sizes, n - 1, turn)
    if sizes.max() < n:
        assert [set(region.tolist()) for region in regions] == [best[1], set(range(len(sizes))) - best[1]]


@given(tables(), st.integers(1, 60), st.integers(0, 1000))
def test_along_one_attribute_regions_are_runs(table: Boxes, rows_max: int, turn: int) -> None:
    lo, hi, sizes = (part[table[2] <= rows_max] for part in table)
    centres = lo[:, 0] + hi[:, 0]
    regions = cut_regions(lo[:, :1], hi[:, :1], sizes, rows_max, turn)
    ends = sorted((centres[region].min(), centres[region].max()) for region in regions)
    assert all(one[1] <= other[0] for one, other in pairwise(ends))


def test_a_group_that_is_too_large_alone_does_not_break_up_the_others() -> None:
    cells = np.arange(5)[:, None]
    regions = cut_regions(cells, cells, np.array([2, 2, 100, 2, 2]), 10, turn=3)
    assert [region.tolist() for region in regions] == [[0, 1, 3, 4], [2]]


@pytest.mark.parametrize("d", [1, 3])
def test_borders_do_not_stay_from_one_turn_to_the_next(d: int) -> None:
    """Most neighbours that a border parts are together in the next rebuild."""
    cells = np.random.default_rng(5).integers(0, 100_000, (3000, d))
    sizes = np.full(3000, 5)

    def parted(turn: int) -> set[int]:
        region_of = np.empty(3000, int)
        for number, region in enumerate(cut_regions(cells, cells, sizes, 2000, turn)):
            region_of[region] = number
        return set(np.flatnonzero(np.diff(region_of[np.argsort(cells[:, 0])])).tolist())

    for turn in range(20):
        assert len(parted(turn) & parted(turn + 1)) <= 0.6 * len(parted(turn))


@given(st.integers(2, 60), st.integers(0, 30), st.integers(61, 300))
def test_there_are_not_many_more_regions_than_needed(rows_max: int, turn: int, n: int) -> None:
    """Either side of a cut has a sixth of the rows, but for half a group."""
    cells = np.random.default_rng(n).integers(0, 9, (n, 2))
    regions = cut_regions(cells, cells, np.ones(n, dtype=np.int64), rows_max, turn)
    assert min(map(len, regions)) >= rows_max // 6 - 1
