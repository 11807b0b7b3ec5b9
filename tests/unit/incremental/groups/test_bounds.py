"""What a block could reach at most: never below what a member reaches, and tight again after a rebuild."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.groups.bounds import Bounds, sum_terms
from streamer.table.arrays import Floats

UNIT = np.array([[2.0]])


def bounds_of(centers: list[float], halves: list[float]) -> Bounds:
    """One block of one numeric attribute."""
    bounds = Bounds(UNIT, [], [0])
    bounds.grow(1)
    rebuild(bounds, centers, halves)
    return bounds


def rebuild(bounds: Bounds, centers: list[float], halves: list[float]) -> None:
    none = np.empty((0, len(centers)), dtype=np.int64)
    bounds.rebuild(0, np.array([centers]), np.array([halves]), none, np.full(len(centers), 0.5))


def t_qgssd(center: float, half: float, value: float) -> float:
    return min(1.0, half / abs(value - center)) if value != center else 1.0


def qgssd(center: float, other: float) -> float:
    return 1 / max(abs(center - other) / UNIT[0, 0], 0.5)


@pytest.mark.parametrize("value", [-3.0, 0.0, 2.5, 4.0, 7.3, 100.0])
def test_no_member_scores_above_its_block(value: float) -> None:
    centers, halves = [1.0, 4.0, 6.5], [0.5, 2.0, 1.0]
    bounds = bounds_of(centers, halves)
    at = np.array([[value]])
    assert bounds.t_qgssd(at, [])[0] >= max(t_qgssd(c, h, value) for c, h in zip(centers, halves, strict=True))
    assert bounds.qgssd(at, [])[0] >= max(qgssd(c, value) for c in centers)


def test_an_empty_block_is_bounded_by_nothing() -> None:
    bounds = Bounds(UNIT, [], [0])
    bounds.grow(2)
    assert bounds.t_qgssd(np.array([[3.0]]), []).tolist() == [0.0, 0.0]
    assert bounds.qgssd(np.array([[3.0]]), []).tolist() == [0.0, 0.0]
    assert bounds.least_ncp.tolist() == [np.inf, np.inf]


def test_a_block_of_one_is_bounded_by_its_very_score() -> None:
    bounds = bounds_of([4.0], [1.0])
    assert bounds.qgssd(np.array([[9.0]]), [])[0] == qgssd(4.0, 9.0)
    assert bounds.t_qgssd(np.array([[9.0]]), [])[0] == pytest.approx(t_qgssd(4.0, 1.0, 9.0), rel=1e-9)


def test_a_member_that_comes_raises_the_bounds_and_a_rebuild_without_it_lowers_them_again() -> None:
    bounds, far = bounds_of([1.0], [0.5]), np.array([[50.0]])
    alone = bounds.qgssd(far, [])[0], bounds.t_qgssd(far, [])[0]
    bounds.raise_number(0, 0, 40.0, 3.0)
    bounds.raise_ncp(0, 0.25)
    assert bounds.qgssd(far, [])[0] >= qgssd(40.0, 50.0)
    assert bounds.t_qgssd(far, [])[0] >= t_qgssd(40.0, 3.0, 50.0)
    assert bounds.least_ncp[0] == 0.25
    assert bounds.spans(0, 0, 20.0)
    rebuild(bounds, [1.0], [0.5])
    assert (bounds.qgssd(far, [])[0], bounds.t_qgssd(far, [])[0]) == alone
    assert not bounds.spans(0, 0, 20.0)


def test_terms_are_summed_in_the_order_of_the_table() -> None:
    """In floating point 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1."""
    terms: list[Floats] = [np.array([value]) for value in (0.3, 0.1, 0.2)]
    assert sum_terms(terms, [1, 2, 0])[0] == 0.1 + 0.2 + 0.3
    assert sum_terms(terms, [0, 2, 1])[0] == 0.3 + 0.2 + 0.1
    assert terms[1][0] == 0.1
