"""What one setting of table.yaml may say, whichever it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.table.calendar_cells import Span
from streamer.table.yaml_values import REBUILD_ALGORITHMS, Drift, Duration, Length, Names, Number, Price


def said(kind: Any, text: object) -> object:
    return TypeAdapter(kind).validate_python(text)


def test_what_is_said_is_exact_and_of_its_kind() -> None:
    assert (said(Number, "0.1"), said(Price, "1.50"), said(Drift, "1.2")) == tuple(map(Decimal, ("0.1", "1.5", "1.2")))
    assert said(Length, "3 months") == Span(3, "month")


def test_a_single_name_may_stand_without_a_list() -> None:
    assert said(Names, "id") == ("id",)
    assert said(Names, ["country", "id"]) == ("country", "id")


def test_a_word_stands_for_what_is_not_wanted() -> None:
    assert (said(Price, "off"), said(Drift, "never"), said(Duration, "never")) == (0, None, None)


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (Number, 0.1, "must be a number"),
        (Number, "0.0000000001", "9 after it"),
        (Price, "0", "must be `off`"),
        (Price, "101", "100 at most"),
        (Drift, "1", "must be 1.01 at least"),
        (Length, "5", "must be a length"),
        (Names, [], "at least 1"),
    ],
)
def test_what_is_none_of_its_kind_is_told_what_is_allowed(kind: Any, text: object, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        said(kind, text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800)])
def test_a_duration_is_a_number_and_a_letter(text: str, seconds: int) -> None:
    assert said(Duration, text) == seconds


def test_every_algorithm_of_the_catalog_can_be_named() -> None:
    assert set(REBUILD_ALGORITHMS) == set(ALGORITHMS)
