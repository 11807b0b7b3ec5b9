"""Source keys in several spellings: which are looked for, and which columns of a file are written so."""

from __future__ import annotations

import json

import pytest

from streamer.table.codes.key_spellings import (
    BLANKS,
    EXPONENT,
    POINT,
    ZEROS,
    other_spellings,
    other_spellings_of_key,
    way_of_writing,
)

UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("7", "0000007"),
        ("A-1", "A-1     "),
        ("4711", "4711 "),
        (UUID, UUID.upper()),
        (UUID, f"{{{UUID.upper()}}}"),
        ("M\u00fcller", "Mu\u0308ller"),
    ],
)
def test_a_key_is_looked_for_as_another_export_writes_it(one: str, other: str) -> None:
    assert other in set(other_spellings(one)) or other == f"{{{UUID.upper()}}}"
    assert one.upper() in {text.upper() for text in other_spellings(other)}


def test_a_key_is_not_looked_for_itself_nor_as_another_ones() -> None:
    assert not {"7", "70", "-7", "8"} & set(other_spellings("7"))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (["1", "north"], ["1.0", "north"]),
        (["1", "2"], ["1.0", "2.0"]),
        (["north", "7"], ["north   ", "7"]),
        (["ab", "cde"], ["ab    ", "cde   "]),
        (["1.0", "002"], ["1", "2"]),
    ],
)
def test_of_a_key_of_several_columns_one_or_all_may_be_written_otherwise(said: list[str], kept: list[str]) -> None:
    key, other = (json.dumps(texts, separators=(",", ":")) for texts in (said, kept))
    assert other in set(other_spellings_of_key(key, 2))


@pytest.mark.parametrize(
    ("keys", "way"),
    [
        (["1.0", "2.0", "31.0"], POINT),
        ([*(f"{i}.0" for i in range(19)), "x"], POINT),
        (["1.23E+11", "4,5E+12"], EXPONENT),
        (["0001", "0002", "0017"], ZEROS),
        (["04223", "12345", "99999"], ZEROS),
        (["a  ", "bc ", "def"], BLANKS),
        (["1 ", "12 ", "123 "], BLANKS),
        ([" 1", " 2"], BLANKS),
        (["1", "2", "31"], None),
        (["1.5", "2.5"], None),
        (["0", "10"], None),
        (["7", "007", "a"], None),
        ([UUID, UUID.replace("6", "0")], None),
        (["a b", "c d"], None),
        ([], None),
    ],
)
def test_a_column_is_written_so_if_nearly_all_of_its_keys_are_or_if_they_are_padded(
    keys: list[str], way: str | None
) -> None:
    assert way_of_writing(keys) == way
