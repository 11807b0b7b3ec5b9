"""Keys that look alike are told by their number, and never by themselves."""

from __future__ import annotations

import pytest

from streamer.table.look_alike_keys import look_alikes, warning_of, warning_of_individuals


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        (["7", "7.0"], 2),
        (["7", " 7", "7 ", "007", "7.00"], 5),
        (["7", "8", "a", "a b"], 0),
        (["a", " a"], 2),
        (["A", "a"], 0),
        (["7", "7"], 0),
        (["1e999999", "1"], 0),
        ([], 0),
    ],
)
def test_keys_that_differ_in_blanks_zeros_or_a_point_look_alike(keys: list[str], count: int) -> None:
    assert look_alikes(keys) == count


def test_a_warning_counts_them_and_names_the_column_and_none_of_them() -> None:
    (warning,) = warning_of(["4711", "4711.0"], "id")
    assert "key column id: 2 keys look like another one" in warning
    assert "4711" not in warning
    assert warning_of(["4711", "4712"], "id") == []


def test_individuals_that_look_alike_are_said_to_be_counted_each() -> None:
    (warning,) = warning_of_individuals(["P4711", "P4711 ", "P4712"], "ssn")
    assert "individual column ssn: 2 individuals look like another one" in warning
    assert "fewer people than k" in warning and "4711" not in warning
    assert warning_of_individuals(["P4711", "P4711", "P4712"], "ssn") == []
