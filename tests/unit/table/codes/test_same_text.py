"""Which texts count as the same individual or value, and which do not."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes.same_text import (
    counted_text,
    counted_value,
    leaf_finder,
    spellings,
    with_capitals,
    without_capitals,
)


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(["Anna M\u00fcller", "ANNA M\u00dcLLER", "anna mu\u0308ller"], id="capitals, NFD"),
        pytest.param(["Anna Smith", " Anna  Smith\t", "Anna\u00a0Smith", "Anna\u3000Smith"], id="blanks"),
        pytest.param(["Anna", "An\u200bna", "\ufeffAnna", "An\u00adna", "Anna\u200e", "Anna\x00"], id="unseen"),
        pytest.param(["O'Neill", "O\u2019Neill", "O`Neill", "O\u00b4Neill", "O\u02bcNeill"], id="apostrophes"),
        pytest.param(["Meyer-Wolf", "Meyer\u2013Wolf", "Meyer\u2011Wolf", "meyer\u2010wolf"], id="dashes"),
        pytest.param(["Stra\u00dfe", "STRASSE", "strasse"], id="sharp s"),
        pytest.param(["\u0130lhan", "ilhan", "ILHAN", "\u0131lhan"], id="Turkish i"),
        pytest.param(["\u039d\u03af\u03ba\u03bf\u03c2", "\u039d\u038a\u039a\u039f\u03a3"], id="final sigma"),
        pytest.param(["HIV", "\uff28\uff29\uff36", "hiv "], id="full width"),
        pytest.param(["\u30ab\u30bf\u30ab\u30ca", "\uff76\uff80\uff76\uff85"], id="half width"),
        pytest.param(["0", "-0", "0.0", "+0", " 0 ", "\u22120"], id="zero"),
        pytest.param(["7", "7.0", "007", "7.", "7e0", "\u0667", "\uff17"], id="a number"),
        pytest.param(["1.50", "1.5", "01.5"], id="a decimal"),
        pytest.param(["True", "TRUE", "true"], id="a boolean"),
    ],
)
def test_one_text_in_several_spellings_counts_once(same: list[str]) -> None:
    assert len(set(map(without_capitals, same))) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("Anna", "Anne"), ("Muller", "M\u00fcller"), ("ab", "a b"), ("7", "70"), ("7", "-7"), ("1.5", "15"), ("", "0")],
)
def test_other_texts_count_by_themselves(one: str, other: str) -> None:
    assert without_capitals(one) != without_capitals(other)


def test_capitals_count_if_table_yaml_says_so_and_blanks_do_not_even_then() -> None:
    assert counted_text(True)("aB3") != counted_text(True)("AB3")
    assert counted_text(True)(" aB\u200b3 ") == "aB3"
    assert counted_text(True)("u\u0308") == counted_text(True)("\u00fc")
    assert counted_text(False)("aB3") == counted_text(False)("AB3")


@given(st.text(max_size=8))
def test_a_counted_text_is_its_own_and_that_of_its_other_forms(text: str) -> None:
    for counted in (with_capitals, without_capitals):
        assert counted(counted(text)) == counted(text)
        assert counted(normalize("NFD", text)) == counted(normalize("NFC", text)) == counted(text)
    assert without_capitals(text.upper()) == without_capitals(text.lower()) == without_capitals(text)


@given(st.from_regex(r"[a-z0-9_.:@/-]{1,40}", fullmatch=True))
def test_a_plain_text_needs_no_work_and_gets_the_same_answer(text: str) -> None:
    assert without_capitals(text) == without_capitals(f"\u200b{text}") == with_capitals(f" {text}")


def test_a_value_counts_as_its_text_whatever_json_it_is_and_a_null_as_none() -> None:
    assert counted_value(b'"7.0"', without_capitals) == counted_value(b"7", without_capitals) == "7"
    assert counted_value(b'"True"', without_capitals) == counted_value(b"true", without_capitals)
    assert counted_value(b"null", without_capitals) is None
    assert counted_value(b'"null"', without_capitals) == "null"


@pytest.mark.parametrize("category", ["m", " M", "M\u200b", "\uff2d"])
def test_a_category_is_the_leaf_of_the_same_text(category: str) -> None:
    assert leaf_finder(["M", "F"], capitals_count=False)(category) == "M"


def test_a_category_that_could_be_two_leaves_is_none_and_a_code_is_never_rounded() -> None:
    find = leaf_finder(["u", "U", "250.10", "01234"], capitals_count=False)
    assert [find(category) for category in ("u ", "250.1", "1234", "250.10 ")] == [None, None, None, "250.10"]


def test_spellings_are_the_texts_that_count_as_another_one() -> None:
    assert spellings(["HIV", "hiv", "HIV ", "flu", "0", "-0", "0"], without_capitals) == (5, 2)
    assert spellings(["HIV", "flu"], without_capitals) == (0, 0)
