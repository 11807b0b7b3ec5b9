"""Which way a comparison is answered: over whole columns of integers wherever the values are evenly spaced."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.statement_conditions import Answer, CodeTest, NullTest, ValueTest, answer_to
from streamer.incremental.events.statement_syntax import read_condition
from streamer.table.attributes import NumericAttribute
from streamer.table.schema import KeptColumn
from worlds.small_tables import BMI, CITY, YEARS, table

FAR = NumericAttribute("far", (Decimal(10**26), Decimal(10**26 + 9)), Decimal(1), Decimal(1), Decimal(1))
UNTOLD = replace(YEARS, name="untold", null_code=0)
VISITS = KeptColumn("visits", sensitive=False, type="integer")
PEOPLE = replace(table(YEARS, BMI, CITY, FAR, UNTOLD), kept=(VISITS,))


def answered_by(text: str) -> Answer:
    (comparison,) = read_condition(text)
    return answer_to(comparison, PEOPLE)


@pytest.mark.parametrize("text", ["years >= 4", "years < untold + 2", "city = 'b1'", "far > 0"])
def test_evenly_spaced_values_and_leaves_are_compared_as_whole_columns(text: str) -> None:
    assert isinstance(answered_by(text), CodeTest)


@pytest.mark.parametrize("text", ["bmi < 11.25", "visits = 3", "years = visits"])
def test_all_else_is_read_row_by_row(text: str) -> None:
    assert isinstance(answered_by(text), ValueTest)


def test_a_question_for_nulls_looks_at_no_value() -> None:
    assert answered_by("untold is null") != answered_by("untold is not null")
    assert isinstance(answered_by("untold is null"), NullTest)


def test_columns_that_may_be_null_are_known_beforehand_and_no_others() -> None:
    asked = answered_by("years < untold")
    assert isinstance(asked, CodeTest)
    assert [PEOPLE.attributes[j].name for j in asked.nullable] == ["untold"]


def test_sums_beyond_64_bits_are_noticed_before_any_row_is_read() -> None:
    near, far = answered_by("years < untold"), answered_by(f"years < untold + 0.{'0' * 25}1")
    assert isinstance(near, CodeTest) and isinstance(far, CodeTest)
    assert (near.fits, far.fits) == (True, False)


@pytest.mark.parametrize("text", ["city < 'b1'", "city = 3", "years = 'b1'", "city = 'nowhere'"])
def test_what_table_yaml_can_tell_is_refused_once(text: str) -> None:
    with pytest.raises(EventRefused) as refused:
        answered_by(text)
    assert refused.value.reason == "bad-statement"
    assert "nowhere" not in str(refused.value)
