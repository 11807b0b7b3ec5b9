"""Boxes: cells, covers, containment and loss, against definitions written out one attribute at a time."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes import Attribute, CategoricalAttribute, NumericAttribute
from streamer.table.space import Space, in_order
from worlds.small_tables import AGE, BMI, CITY, YEARS

ATTRIBUTES: tuple[Attribute, ...] = (AGE, CITY, BMI, YEARS)
SPACE = Space([attribute.axis for attribute in ATTRIBUTES])


def codes_max(attribute: Attribute) -> int:
    if isinstance(attribute, CategoricalAttribute):
        return attribute.hierarchy.n_leaves - 1
    return min(int(attribute.width_codes), attribute.n_cells * attribute.codes_per_cell - 1)


ROWS = st.lists(st.tuples(*(st.integers(0, codes_max(a)) for a in ATTRIBUTES)), min_size=1, max_size=8)


def loss(attribute: Attribute, lo: int, hi: int) -> Fraction:
    """The share of one attribute in the normalized certainty penalty, from its published interval."""
    if isinstance(attribute, CategoricalAttribute):
        leaves = hi - lo + 1
        return Fraction(0 if leaves == 1 else leaves, attribute.hierarchy.n_leaves)
    assert isinstance(attribute, NumericAttribute)
    first, last = attribute.interval(lo, hi)
    width = attribute.domain[1] - attribute.domain[0]
    return Fraction(last - first) / Fraction(width)


@given(ROWS)
def test_a_box_is_the_smallest_publishable_one_around_its_rows(rows: list[tuple[int, ...]]) -> None:
    lo, hi = SPACE.box_of_cells(SPACE.cells(np.array(rows, dtype=np.int64)))
    for j, attribute in enumerate(ATTRIBUTES):
        cells = [row[j] // attribute.axis.codes_per_cell for row in rows]
        expected = (min(cells), max(cells))
        if isinstance(attribute, CategoricalAttribute):
            expected = attribute.hierarchy.cover(*expected)
        assert (lo[j], hi[j]) == expected


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_many_boxes_are_generalized_as_one_is(groups: list[list[tuple[int, ...]]]) -> None:
    cells = [SPACE.cells(np.array(rows, dtype=np.int64)) for rows in groups]
    lo, hi = SPACE.generalize(np.array([c.min(axis=0) for c in cells]), np.array([c.max(axis=0) for c in cells]))
    for i, rows in enumerate(cells):
        one_lo, one_hi = SPACE.box_of_cells(rows)
        assert np.array_equal(lo[i], one_lo)
        assert np.array_equal(hi[i], one_hi)


@given(ROWS, st.tuples(*(st.integers(0, codes_max(a)) for a in ATTRIBUTES)))
def test_containment_is_a_matter_of_cells_in_every_attribute(rows: list[tuple[int, ...]], row: tuple[int, ...]) -> None:
    lo, hi = SPACE.box_of_cells(SPACE.cells(np.array(rows, dtype=np.int64)))
    cells = SPACE.cells(np.array(row, dtype=np.int64))
    expected = all(first <= cell <= last for first, cell, last in zip(lo, cells, hi, strict=True))
    assert bool(SPACE.contains(lo, hi, cells)) is expected


@given(ROWS)
def test_ncp_is_the_published_width_over_the_domain(rows: list[tuple[int, ...]]) -> None:
    lo, hi = SPACE.box_of_cells(SPACE.cells(np.array(rows, dtype=np.int64)))
    exact = sum(loss(a, int(lo[j]), int(hi[j])) for j, a in enumerate(ATTRIBUTES))
    assert float(SPACE.ncp(lo, hi)) == pytest.approx(float(exact), abs=1e-12)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_ncp_is_the_same_to_the_last_bit_whatever_the_shape(groups: list[list[tuple[int, ...]]]) -> None:
    boxes = [SPACE.box_of_cells(SPACE.cells(np.array(rows, dtype=np.int64))) for rows in groups]
    together = SPACE.ncp(np.array([lo for lo, _ in boxes]), np.array([hi for _, hi in boxes]))
    assert together.tolist() == [float(SPACE.ncp(lo, hi)) for lo, hi in boxes]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_sums_run_from_the_first_term_to_the_last(terms: list[float]) -> None:
    total = terms[0]
    for term in terms[1:]:
        total += term
    assert float(in_order(np.array(terms))) == total


def test_a_domain_of_one_value_loses_nothing() -> None:
    one = NumericAttribute("one", (Decimal(7), Decimal(7)), Decimal(1), Decimal(1), Decimal(1))
    space = Space([one.axis])
    assert one.n_cells == 1
    assert float(space.ncp(np.zeros(1, np.int64), np.zeros(1, np.int64))) == 0.0


def test_a_box_over_the_whole_space_loses_one_per_attribute() -> None:
    lo = np.zeros(SPACE.d, dtype=np.int64)
    assert float(SPACE.ncp(lo, SPACE.n_cells - 1)) == SPACE.d
