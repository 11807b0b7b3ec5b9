"""Which QI groups take the numbers of others: the very same, then the alike, then those of most rows in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.incremental.groups.successors import Groups, successors


def groups(of_row: Sequence[int], boxes: Sequence[tuple[int, int]], values: Sequence[int]) -> Groups:
    """Groups in one attribute; values: of each row."""
    by, value = np.array(of_row), np.array(values)
    sizes = np.bincount(by)
    lo, hi = (np.array([box[side] for box in boxes]).reshape(-1, 1) for side in (0, 1))
    members = np.argsort(by, kind="stable")
    return Groups(by, sizes, lo, hi, np.ones(len(sizes)), members, value[np.lexsort((value, by))], np.cumsum(sizes))


def test_the_same_rows_in_the_same_box_stay_untouched() -> None:
    old = groups([0, 0, 1, 1, 2, 2], [(0, 1), (5, 6), (8, 9)], [1, 2, 1, 2, 1, 2])
    new = groups([2, 2, 1, 1, 0, 0], [(8, 9), (5, 7), (0, 1)], [1, 2, 1, 2, 1, 2])
    assert successors(old, new) == ({0: 2, 1: 1, 2: 0}, {0, 2})


def test_a_box_with_equal_values_comes_before_the_rows_that_are_shared() -> None:
    old = groups([0, 0, 0, 1, 1, 1], [(0, 1), (5, 6)], [1, 1, 1, 2, 2, 2])
    new = groups([0, 0, 1, 1, 1, 0], [(5, 6), (0, 1)], [2, 2, 1, 1, 1, 2])
    assert successors(old, new) == ({1: 0, 0: 1}, set())


def test_where_nothing_is_alike_most_shared_rows_decide_and_then_the_order() -> None:
    old = groups([0, 0, 0, 1, 1, 1], [(0, 1), (5, 6)], [1] * 6)
    new = groups([1, 1, 0, 0, 0, 1], [(0, 9), (1, 8)], [1] * 6)
    assert successors(old, new)[0] == {0: 1, 1: 0}
    apart = groups([0, 0, 1, 1], [(0, 1), (5, 6)], [1] * 4)
    across = groups([0, 1, 0, 1], [(0, 9), (1, 8)], [1] * 4)
    assert successors(apart, across)[0] == {0: 0, 1: 1}


def test_what_is_over_has_no_successor() -> None:
    two = groups([0, 0, 1, 1], [(0, 1), (5, 6)], [1] * 4)
    one = groups([0, 0, 0, 0], [(0, 6)], [1] * 4)
    assert successors(two, one)[0] == {0: 0}
    assert successors(one, two)[0] == {0: 0}
