"""What a raw value says by itself: one shortest text for a number, one text for a category and a key, or a refusal."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.table.scalars import category_of, decimal_text, key_text, number_of, read_decimal

D = Decimal


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_the_text_of_a_decimal_is_its_shortest(value: Decimal) -> None:
    shortest = decimal_text(value)
    assert D(shortest) == value
    assert "E" not in shortest
    assert shortest == "0" or not ("." in shortest and shortest.endswith(("0", ".")))
    assert read_decimal(shortest) == value


@pytest.mark.parametrize("value", [10**400, D("1E+401"), D("1E-401"), "1e401"])
def test_a_number_that_no_table_of_people_has_is_refused(value: object) -> None:
    assert number_of(10**399, "x") == 10**399
    with pytest.raises(EventRefused, match="more than 400 digits") as refused:
        number_of(value, "x")
    assert (refused.value.reason, refused.value.column) == ("wrong-type", "x")


def test_one_and_quoted_one_are_the_same_category_and_the_same_key() -> None:
    written = (1, "1", D("1.0"))
    assert [category_of(value, "x") for value in written] == ["1", "1", "1"]
    assert [key_text(value, "x") for value in written] == ["1", "1", "1"]


def test_true_is_a_category_and_no_key() -> None:
    assert category_of(True, "x") == "true"
    with pytest.raises(EventRefused, match="neither text nor a number"):
        key_text(True, "x")
