"""A row as values: what a log line may hold of it, and what makes two rows the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from streamer.table.row import Row

ROW = Row((3, 1000), (b'"canary"',), ("canary",), "canary")


def test_the_repr_of_a_row_shows_nothing_of_a_person() -> None:
    assert repr(ROW) == "Row()"
    assert "canary" not in f"{[ROW]} {ROW!s}"


def test_a_row_is_a_value_and_cannot_be_changed() -> None:
    assert Row((3, 1000), (b'"canary"',), ("canary",), "canary") == ROW
    with pytest.raises(AttributeError):
        ROW.individual = "somebody else"  # type: ignore[misc]


@pytest.mark.parametrize(
    "other",
    [
        replace(ROW, codes=(3, 1001)),
        replace(ROW, values=(b"null",)),
        replace(ROW, exact=("1.5",)),
        replace(ROW, individual=None),
        replace(ROW, nulls=(0,)),
    ],
)
def test_any_part_of_it_makes_another_row(other: Row) -> None:
    assert other != ROW
