"""Numbers that are codes for no answer are told from measured ones, and from long tails."""

from __future__ import annotations

from decimal import Decimal

import pytest

from streamer.table.draft.columns import drafted
from streamer.table.draft.far_numbers import far_numbers

RATINGS = ["1", "2", "3", "4", "5"] * 20


@pytest.mark.parametrize(
    ("numbers", "far"),
    [
        ([1, 2, 3, 4, 5, 99], [99]),
        ([1, 2, 3, 4, 5, 97, 98, 99], [97, 98, 99]),
        ([1, 2, 9], [9]),
        ([18, 35, 90, 999], [999]),
        ([*range(1, 10), 99], [99]),
        ([18, 35, 90, -1], [-1]),
        ([18, 35, 90, -1, 999], [-1, 999]),
        ([1, 2, 3, 4, 5, -99], [-99]),
        ([21_000, 48_000, 90_000, 999_999], [999_999]),
        ([Decimal("21.5"), Decimal("30.1"), Decimal("999.0")], [999]),
    ],
)
def test_few_codes_behind_a_gap_of_several_times_what_the_others_span_are_far(
    numbers: list[int], far: list[int]
) -> None:
    assert far_numbers([Decimal(number) for number in numbers]) == set(map(Decimal, far))


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [99],
        [5, 99],
        [1, 99],
        [18, 35, 90, 99],
        [*range(100)],
        [*range(1, 10)],
        [20_000, 35_000, 90_000, 1_200_000],
        [20_000, 35_000, 90_000, 99_999],
        [0, 2_174, 41_310, 99_999],
        [-1, 0, 1],
        [-1, 1],
        [-1, 0, 18, 35],
        [-2, -1, 1, 3, 5],
        [-1, 1, 2],
        [1, 2, 3, 1_000],
    ],
)
def test_tails_scales_around_zero_and_plain_numbers_are_not(numbers: list[int]) -> None:
    assert far_numbers([Decimal(number) for number in numbers]) == set()


def test_a_draft_says_how_many_rows_hold_codes_for_no_answer_and_none_of_the_codes() -> None:
    why = drafted("rating", [*RATINGS, "99", "99", "98"]).why
    assert "3 rows hold numbers apart from all others" in why and "`na`" in why and "`null_as`" in why
    assert "99" not in why and "98" not in why
    assert "1 row holds a number apart" in drafted("rating", [*RATINGS, "999.0"]).why


def test_a_draft_says_nothing_of_codes_that_are_names_of_places_or_published_as_they_are() -> None:
    assert "apart from" not in drafted("zip", ["10115", "10117", "99999"] * 9).why
    assert "apart from" not in drafted("income", [*RATINGS, "99"]).why
    assert "apart from" not in drafted("rating", RATINGS).why
