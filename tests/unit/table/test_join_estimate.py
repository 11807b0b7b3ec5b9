"""The estimate of a COUNT query from vectors and sensitive rows that nobody can join, and how far off it can be."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.join_estimate import bounds, estimated


def test_tongs_formula() -> None:
    """Group 1 of the paper's example: two of four sensitive rows, two of three zips; group 2: none of its zips."""
    assert estimated(np.array([2, 1]), np.array([2, 0]), np.array([3, 2])) == 2 * 2 / 3


def truths(st_hit: int, rows: int, matches: list[bool]) -> set[int]:
    """How many rows can match, over every way in which rows can have the vectors and the sensitive values."""
    found = set()
    for of_row in product(range(len(matches)), repeat=rows):
        if len(set(of_row)) == len(matches):  # every vector is some row's
            # whichever rows are the st_hit ones: from as few as possible of those that match to as many as possible
            n = sum(matches[vector] for vector in of_row)
            found |= set(range(max(0, st_hit + n - rows), min(st_hit, n) + 1))
    return found


@given(rows=st.integers(1, 5), data=st.data())
def test_the_bounds_are_the_least_and_the_most_that_can_be_true(rows: int, data: st.DataObject) -> None:
    matches = data.draw(st.lists(st.booleans(), min_size=1, max_size=rows))
    st_hit = data.draw(st.integers(0, rows))
    hits = np.array([sum(matches)])
    found = bounds(np.array([st_hit]), np.array([rows]), hits, hits, np.array([len(matches)]))
    possible = truths(st_hit, rows, matches)
    assert found == (min(possible), max(possible))
    assert found[0] <= estimated(np.array([st_hit]), hits, np.array([len(matches)])) <= found[1] or not matches


def test_the_bounds_of_all_groups_are_the_sums_of_each() -> None:
    one, other = np.array([2]), np.array([1])
    of_each = [bounds(one, np.array([3]), other, other, one), bounds(other, one, other, other, other)]
    together = bounds(*(np.array(pair) for pair in zip([2, 3, 1, 1, 2], [1, 2, 1, 1, 1], strict=True)))
    assert together == tuple(map(sum, zip(*of_each, strict=True)))
