"""Domain, step and grid, guessed from the numbers of a column."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.attributes import NumericAttribute
from streamer.table.draft.numbers import scale_of, with_null_cell


@given(st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=9))
def test_a_domain_holds_every_number_and_its_ends_are_nobodys(numbers: list[Decimal]) -> None:
    scale = scale_of(numbers)
    assert scale is not None
    lo, hi = scale.domain
    assert lo <= min(numbers)
    assert max(numbers) <= hi
    without_gap = len(set(numbers)) == (hi - lo) / scale.grid + 1 > 1
    assert without_gap or (max(numbers) < hi and (lo != min(numbers) or lo == 0))
    attribute = NumericAttribute("x", scale.domain, scale.grid, scale.step, Decimal(1), scale.integer)
    assert attribute.n_cells <= 28


@given(st.integers(-50, 50), st.integers(2, 26))
def test_codes_without_a_gap_end_where_they_end(first: int, n: int) -> None:
    """A wider domain would count the loss of everything as less than everything."""
    numbers = [Decimal(number) for number in range(first, first + n)]
    scale = scale_of(numbers)
    assert scale is not None
    assert scale.domain == (numbers[0], numbers[-1])


@given(st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=9))
def test_the_cell_of_the_nulls_is_one_and_lies_below_all_numbers(numbers: list[Decimal]) -> None:
    scale = scale_of(numbers)
    assert scale is not None
    wider = with_null_cell(scale)
    attribute = NumericAttribute("x", wider.domain, wider.grid, wider.step, Decimal(1), wider.integer)
    _, end = attribute.interval(0, 0)
    assert end < min(numbers) or (scale.step is None and end == min(numbers))
    assert (wider.domain[0] - scale.domain[0]) % scale.grid == 0


@pytest.mark.parametrize(
    ("texts", "domain", "step", "grid"),
    [
        (["17", "39", "90"], (15, 94), 1, 5),
        (["0", "1"], (0, 1), 1, 1),
        (["1", "2"], (1, 2), 1, 1),
        (["4", "1", "3", "2"], (1, 4), 1, 1),
        (["-1", "0", "1"], (-1, 1), 1, 1),
        (["0.2", "0.1"], ("0.1", "0.2"), "0.1", "0.1"),
        (["0"], (0, 1), 1, 1),
        (["7"], (6, 8), 1, 1),
        (["-7"], (-8, -6), 1, 1),
        (["1", "2", "4"], (0, 5), 1, 1),
        (["1949", "1950", "2019"], (1945, 2024), 1, 5),
        (["900000001", "900000002"], (900000001, 900000002), 1, 1),
        (["900000001", "900000002", "900100002"], (900000000, 900104999), 1, 5000),
        (["18", "22"], (17, 23), 1, 1),
        (["-5", "5"], (-6, 6), 1, 1),
        (["16.5", "42.9"], (16, "43.9"), "0.1", "2"),
        (["1200", "98000"], (0, 99999), 1, 5000),
        (["0.12345", "0.98765"], ("0.1", "1"), None, "0.05"),
    ],
)
def test_scales_are_what_people_count_in(
    texts: list[str], domain: tuple[object, ...], step: object, grid: object
) -> None:
    scale = scale_of([Decimal(text) for text in texts])
    assert scale is not None
    assert (scale.domain, scale.step, scale.grid) == (
        tuple(Decimal(str(end)) for end in domain),
        None if step is None else Decimal(str(step)),
        Decimal(str(grid)),
    )
