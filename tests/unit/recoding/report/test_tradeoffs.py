"""What more privacy would cost: one constraint at a time, only what the data can hold, of a large table a part."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.recoding.algorithms.contract import PLAIN
from streamer.recoding.report.tradeoffs import KS_BY_LEVELS, sampled, tradeoffs
from worlds.microdata import SEVEN

MONDRIAN = ALGORITHMS["mondrian"]


def test_every_demand_has_its_curve_and_a_stricter_one_never_loses_less_than_the_loosest() -> None:
    curves = {curve.constraint: curve for curve in tradeoffs(SEVEN, MONDRIAN, PLAIN)}
    assert set(curves) == {"k", "l", "beta", "alpha"}
    for constraint, curve in curves.items():
        strict, loose = (curve.losses[0], curve.losses[-1])[:: 1 if constraint in ("beta", "alpha") else -1]
        assert strict >= loose


def test_what_the_data_cannot_hold_is_no_point_of_a_curve() -> None:
    """Six individuals, and six of seven rows with a value."""
    curves = {curve.constraint: curve for curve in tradeoffs(SEVEN, MONDRIAN, PLAIN)}
    assert max(curves["k"].strengths) <= 6
    assert max(curves["l"].strengths) <= 5
    assert curves["k"].now == SEVEN.table.k
    assert curves["k"].now in curves["k"].strengths
    assert curves["l"].now is None


def test_of_a_large_table_the_same_rows_are_drawn_every_time() -> None:
    large = SEVEN.rows(np.arange(70) % 7)
    assert sampled(large, 70) is large
    drawn = sampled(large, 20)
    assert len(drawn) == 20
    assert (drawn.codes == sampled(large, 20).codes).all()


@pytest.mark.parametrize("name", ["ola", "degree-first", "bottom-up"])
def test_of_an_algorithm_that_takes_as_long_for_few_rows_only_a_few_ks_are_tried(name: str) -> None:
    (curve,) = tradeoffs(SEVEN, ALGORITHMS[name], PLAIN)
    assert curve.constraint == "k"
    assert set(curve.strengths) <= {*KS_BY_LEVELS, SEVEN.table.k}
