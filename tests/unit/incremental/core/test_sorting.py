"""Sorting places by lots and by cells: few and many rows, few and many cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.sorting import FEW, power_below, sort_by_cells, sort_by_lots
from streamer.table.arrays import Ints

ROWS = [1, 2, 3, FEW - 1, FEW, FEW + 1, 64, 500]


def scratch(n: int) -> tuple[Ints, Ints]:
    """Two arrays (n,) with whatever stood there before."""
    return np.full(n, 77, np.int32), np.full(n, -3, np.int32)


@pytest.mark.parametrize("n", ROWS)
def test_places_are_sorted_by_lots_and_the_lots_with_them(n: int) -> None:
    chance = np.random.default_rng(n)
    lots, places = chance.integers(0, 2**64, (2, n), dtype=np.uint64), chance.permutation(n).astype(np.int32)
    drawn, before = lots[0].copy(), places.copy()
    sort_by_lots(places, lots, *scratch(n), n)
    assert places.tolist() == before[np.argsort(drawn)].tolist()
    assert lots[0].tolist() == sorted(drawn.tolist())


@pytest.mark.parametrize("n", ROWS)
def test_lots_that_are_not_spread_at_all_are_sorted_too(n: int) -> None:
    lots, places = np.zeros((2, n), np.uint64), np.arange(n, dtype=np.int32)
    lots[0] = np.arange(n)[::-1]
    sort_by_lots(places, lots, *scratch(n), n)
    assert places.tolist() == list(range(n))[::-1]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (5, 9), (0, 300), (7, 2**31 - 1)])
def test_places_are_sorted_stably_by_their_cells(n: int, low: int, high: int) -> None:
    chance = np.random.default_rng(n)
    column, places = chance.integers(low, high, n, endpoint=True).astype(np.int32), chance.permutation(n)
    sorted_places = places.astype(np.int32)
    sort_by_cells(column, low, high, sorted_places, *scratch(n), n)
    assert sorted_places.tolist() == sorted(places.tolist(), key=lambda place: column[place])


@given(n=st.integers(1, 2**40))
def test_the_power_below(n: int) -> None:
    assert 2 ** power_below(n) <= n < 2 ** (power_below(n) + 1)
