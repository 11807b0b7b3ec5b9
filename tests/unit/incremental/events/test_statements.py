"""Statements read like the paper's, compute exactly, and agree with a plain reading of every row."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamer.errors import EventRefused
from streamer.incremental.events.statement_assignments import RESULT_BITS_MAX
from streamer.incremental.events.statement_syntax import STATEMENT_CHARS_MAX
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.encode import Encoder
from streamer.table.row import Row
from streamer.table.schema import KeptColumn
from worlds.rows_as_columns import RowsAsColumns
from worlds.small_tables import BMI, CITIES, CITY, YEARS, table

DOSE = NumericAttribute(
    "dose", (Decimal("0.25"), Decimal("3.25")), Decimal("0.5"), Decimal("0.25"), Decimal("0.5"), integer=False
)
AWAY = NumericAttribute("away", (Decimal(10**26), Decimal(10**26 + 9)), Decimal(1), Decimal(1), Decimal(1))
TEMP = NumericAttribute("temp", (Decimal(35), Decimal(42)), Decimal("0.5"), None, Decimal(1), integer=False)
MARITAL = CategoricalAttribute("marital-status", CITIES, Decimal("1.2"))
KEPT = (
    KeptColumn("problem", sensitive=True),
    KeptColumn("town", sensitive=False, hierarchy=CITIES),
    KeptColumn("note", sensitive=False, type="text"),
    KeptColumn("visits", sensitive=False, type="integer"),
    KeptColumn("cost", sensitive=False, type="decimal"),
    KeptColumn("acute", sensitive=False, type="boolean"),
)
PEOPLE = replace(table(YEARS, DOSE, BMI, CITY, MARITAL, AWAY, TEMP, individual="ssn"), kept=KEPT)
ENCODER = Encoder(PEOPLE)

ANN = {
    "id": 7,
    "ssn": "s",
    "years": 4,
    "dose": Decimal("1.5"),
    "bmi": Decimal("11.25"),
    "city": "b1",
    "marital-status": "a1",
    "away": 10**26 + 4,
    "temp": Decimal("38.05"),
    "problem": "it's",
    "town": "b1",
    "note": "AND",
    "visits": 3,
    "cost": Decimal("0.1"),
    "acute": True,
}


def row(**changed: object) -> Row:
    return ENCODER.row({**ANN, **changed})


def holds(text: str, **changed: object) -> bool:
    answer = parse_condition(text, PEOPLE).matches(RowsAsColumns(PEOPLE, [row(**changed)]))
    assert answer.dtype == np.bool_ and answer.shape == (1,)
    return bool(answer[0])


def assigned(texts: dict[str, str], **changed: object) -> Row:
    return parse_assignments(texts, PEOPLE).applied_to(row(**changed))


def refusal(attempt: Callable[..., object], *arguments: object, **keywords: object) -> tuple[str, str | None]:
    with pytest.raises(EventRefused) as caught:
        attempt(*arguments, **keywords)
    return caught.value.reason, caught.value.column


# -- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "years = 4",
        "years<=4 and years>=4 AND years<5 And years>3",
        "years > -1",
        "years = 4.0",
        "dose = 1.5",
        "dose < years - 2.4",
        "dose > 1.4999999999999999999999999",
        "dose = years - 2.5",
        "years < years + 1",
        "bmi > 11.2499999999999999999999999999999999",
        "bmi = years + 7.25",
        "away > years + 99999999999999999999999999",
        "years = dose + 2.5",
        "temp = 38.05 and temp = bmi + 26.8",
        "away = 100000000000000000000000004",
        "city = 'b1'",
        "city = town",
        "\"marital-status\" = 'a1'",
        '"years" = 4',
        "problem = 'it''s'",
        "note = 'AND' and visits = 3",
        "cost = 0.1 and cost < visits",
        "acute = true",
        "visits = years - 1",
    ],
)
def test_a_condition_that_is_true_of_the_row(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "years = 4.5",
        "years > 4 and city = 'b1'",
        "dose = 1.4999999999999999999999999",
        'city = "marital-status"',
        "city = 'a1'",
        "problem < 5",
        "problem = 5",
        "problem = problem + 0",
        "acute = false",
        "years > 9999999999999999999999999999999999999999",
        "away = years",
    ],
)
def test_a_condition_that_is_not_true_of_the_row(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text", ["problem = 'x'", "problem = problem", "visits < 5", "visits = visits", "cost >= visits"]
)
def test_a_comparison_with_null_is_false(text: str) -> None:
    assert not holds(text, problem=None, visits=None)


def test_true_and_one_are_not_equal_where_only_the_row_tells_the_type() -> None:
    assert holds("problem = true", problem=True) and not holds("problem = 1", problem=True)
    assert holds("problem = 1", problem=1) and not holds("problem = true", problem=1)


def test_a_condition_knows_its_columns() -> None:
    assert parse_condition("years < dose + 1 and \"marital-status\" = 'a1'", PEOPLE).columns == {
        "years",
        "dose",
        "marital-status",
    }


def test_a_condition_over_no_rows_holds_for_none() -> None:
    assert parse_condition("years < 5 and note = 'x'", PEOPLE).matches(RowsAsColumns(PEOPLE, [])).shape == (0,)


def test_the_same_text_is_parsed_once() -> None:
    assert parse_condition("years < 5", PEOPLE) is parse_condition("years < 5", PEOPLE)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", None),
        ("years", None),
        ("years == 4", None),
        ("years <> 4", None),
        ("years = 4 or years = 5", None),
        ("not years = 4", None),
        ("4 = years", None),
        ("years + 1 = 5", None),
        ("years = 4 and", None),
        ("years = 4; years = 4", None),
        ("years = __import__('os')", None),
        ("years = 'four", None),
        ("years = 1e3", None),
        ("years = " + "1" * 101, None),
        ("years = 4 " + " " * STATEMENT_CHARS_MAX, None),
        ("problem = null", None),
        ("problem = flu", None),
        ("nobody = 4", None),
        ("id = 7", "id"),
        ("ssn = 's'", "ssn"),
        ("years = 'four'", "years"),
        ("city = 4", "city"),
        ("city = years", "city"),
        ("city < 'b1'", "city"),
        ("city = 'west'", "city"),
        ("town = 'nowhere'", "town"),
        ("note < 'x'", "note"),
        ("acute >= true", "acute"),
        ("city = town + 1", "city"),
        ("problem < 'x'", "problem"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(text: str, column: str | None) -> None:
    assert refusal(parse_condition, text, PEOPLE) == ("bad-statement", column)


# -- assignments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "changed"),
    [
        ({"years": "years + 1"}, {"years": 5}),
        ({"years": "-(years - 10)"}, {"years": 6}),
        ({"years": "years * 2 - 3 * (1 + 1)"}, {"years": 2}),
        ({"years": "years / 2 / 2"}, {"years": 1}),
        ({"years": "years / 3 * 3"}, {"years": 4}),
        ({"dose": "(years + visits) / 4"}, {"dose": Decimal("1.75")}),
        ({"bmi": "bmi + 1/8"}, {"bmi": Decimal("11.375")}),
        ({"temp": "bmi + 25", "bmi": "temp - 26"}, {"temp": Decimal("36.25"), "bmi": Decimal("12.05")}),
        ({"away": "away - years"}, {"away": 10**26}),
        ({"cost": "cost + 0.2"}, {"cost": Decimal("0.3")}),
        ({"problem": "years / 8"}, {"problem": Decimal("0.5")}),
        ({"problem": "'it''s' "}, {"problem": "it's"}),
        ({"problem": "NULL", "visits": "null"}, {"problem": None, "visits": None}),
        ({"acute": "False"}, {"acute": False}),
        ({"city": '"marital-status"', "town": "'a2'"}, {"city": "a1", "town": "a2"}),
        ({"note": "city"}, {"note": "b1"}),
        ({"years": "visits", "visits": "years"}, {"years": 3, "visits": 4}),
    ],
)
def test_an_assignment_gives_the_row_its_new_values(texts: dict[str, str], changed: dict[str, object]) -> None:
    assert assigned(texts) == row(**changed)


def test_arithmetic_with_null_is_null() -> None:
    assert assigned({"visits": "visits * 0", "cost": "1 / visits"}, visits=None) == row(visits=None, cost=None)


def test_assignments_know_their_targets_and_all_their_columns() -> None:
    assignments = parse_assignments({"years": "visits + 1", "cost": "2"}, PEOPLE)
    assert assignments.targets == ("years", "cost")
    assert assignments.columns == {"years", "cost", "visits"}


@pytest.mark.parametrize(
    ("texts", "reason", "column"),
    [
        ({"years": "years / 3"}, "bad-result", "years"),
        ({"years": "years / 8"}, "wrong-type", "years"),
        ({"years": "years + 6"}, "out-of-domain", "years"),
        ({"dose": "dose + 0.1"}, "off-the-step", "dose"),
        ({"bmi": "bmi / 3 * 2.7"}, None, None),
        ({"cost": "cost / 3"}, "bad-result", "cost"),
        ({"cost": "1 / (years - 4)"}, "bad-result", "cost"),
        ({"visits": "problem + 1"}, "bad-result", "visits"),
        ({"city": "problem"}, "unknown-category", "city"),
        ({"years": "problem"}, "wrong-type", "years"),
        ({"cost": "*".join(["away"] * 60)}, "bad-result", "cost"),
    ],
)
def test_a_result_that_is_no_value_of_its_column_is_refused_for_the_row(
    texts: dict[str, str], reason: str | None, column: str | None
) -> None:
    if reason is None:
        assert assigned(texts) == row(bmi=Decimal("10.125"))
    else:
        assert refusal(assigned, texts) == (reason, column)


def test_a_null_is_refused_where_the_column_takes_none() -> None:
    assert refusal(assigned, {"years": "visits"}, visits=None) == ("null-not-allowed", "years")


@pytest.mark.parametrize(
    ("texts", "column"),
    [
        ({}, None),
        ({"years": ""}, None),
        ({"years": "years +"}, None),
        ({"years": "years ** 2"}, None),
        ({"years": "abs(years)"}, None),
        ({"years": "'a' + 'b'"}, None),
        ({"problem": "flu"}, None),
        ({"nobody": "1"}, None),
        ({"id": "8"}, "id"),
        ({"ssn": "'t'"}, "ssn"),
        ({"years": "id"}, "id"),
        ({"years": "city"}, "years"),
        ({"years": "city + 1"}, "city"),
        ({"years": "'4'"}, "years"),
        ({"city": "4"}, "city"),
        ({"city": "'west'"}, "city"),
        ({"city": "null"}, "city"),
        ({"years": "10"}, "years"),
        ({"years": "1/0"}, "years"),
        ({"acute": "1"}, "acute"),
    ],
)
def test_an_assignment_that_no_row_can_take_is_refused_at_once(texts: dict[str, str], column: str | None) -> None:
    assert refusal(parse_assignments, texts, PEOPLE) == ("bad-statement", column)


# -- size -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 4990 + "years" + ")" * 4990,
        "-" * 9990 + "years",
        "years" + "+0" * 4990,
        "(0+" * 2400 + "years" + ")" * 2400,
    ],
)
def test_the_deepest_expression_is_computed_without_a_deep_stack(expression: str) -> None:
    assert assigned({"years": expression}) == row()


def test_the_longest_condition_is_answered() -> None:
    assert holds(" and ".join(["years=4"] * 800))


def test_numbers_cannot_grow_without_end() -> None:
    huge = "*".join(["9" * 99] * (RESULT_BITS_MAX // 300 + 1))
    assert refusal(assigned, {"cost": f"cost + {huge}"}) == ("bad-result", "cost")


# -- the twin: the same statements, read row by row in plain Python ----------------------------------------------------

NUMBERS = {
    "years": st.integers(0, 9),
    "dose": st.integers(1, 13).map(lambda quarters: Decimal(quarters) / 4),
    "bmi": st.integers(100, 125).map(lambda tenths: Decimal(tenths) / 10),
    "temp": st.integers(3500, 4200).map(lambda hundredths: Decimal(hundredths) / 100),
    "away": st.integers(10**26, 10**26 + 9),
    "visits": st.none() | st.integers(-3, 12),
    "cost": st.none() | st.integers(-300, 1300).map(lambda hundredths: Decimal(hundredths) / 100),
    "problem": st.none() | st.sampled_from(["a1", "it's", True, False, 1, 0, Decimal("2.5")]),
}
TEXTS = {
    "city": st.sampled_from(CITIES.leaves),
    "marital-status": st.sampled_from(CITIES.leaves),
    "town": st.none() | st.sampled_from(CITIES.leaves),
    "note": st.none() | st.sampled_from(["a1", "b1", ""]),
}
FIELDS = st.fixed_dictionaries({**NUMBERS, **TEXTS}).map(lambda fields: {**ANN, **fields})
TESTS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
CONSTANTS = st.decimals(-5, 15, places=2) | st.integers(-2, 14).map(Decimal) | st.just(Decimal(10**26 + 4))


def is_number(value: object) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def quoted(name: str) -> str:
    return f'"{name}"' if "-" in name else name


Fields = dict[str, Any]
"""The values of a row by column."""

Comparison = tuple[str, Callable[[Fields], bool]]
"""A comparison as text, and as a plain question about a row."""


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    """A comparison as text, and as a plain question about a row's fields."""
    left, test = draw(st.sampled_from(sorted(NUMBERS))), draw(st.sampled_from(sorted(TESTS)))
    match draw(st.sampled_from(["constant", "column", "text", "texts"])):
        case "constant":
            number = draw(CONSTANTS)
            return f"{left} {test} {number:f}", lambda row: is_number(row[left]) and TESTS[test](row[left], number)
        case "column":
            right, offset = draw(st.sampled_from(sorted(NUMBERS))), draw(CONSTANTS)
            sign = "-" if offset < 0 else "+"

            def answer(row: Fields) -> bool:
                if not (is_number(row[left]) and is_number(row[right])):
                    return False
                return TESTS[test](Fraction(row[left]), Fraction(row[right]) + Fraction(offset))

            return f"{left} {test} {right} {sign} {abs(offset):f}", answer
        case "text":
            left, text = draw(st.sampled_from([*TEXTS, "problem"])), draw(st.sampled_from(["a1", "b1"]))
            return f"{quoted(left)} = '{text}'", lambda row: row[left] == text
        case _:
            left, right = draw(st.sampled_from([*TEXTS, "problem"])), draw(st.sampled_from(sorted(TEXTS)))
            return f"{quoted(left)} = {quoted(right)}", lambda row: row[left] is not None and row[left] == row[right]


@given(st.lists(comparisons(), min_size=1, max_size=3), st.lists(FIELDS, max_size=12))
def test_a_condition_holds_where_a_plain_reading_of_the_row_says_so(
    conjunction: list[Comparison], people: list[Fields]
) -> None:
    condition = parse_condition(" and ".join(text for text, _ in conjunction), PEOPLE)
    answers = condition.matches(RowsAsColumns(PEOPLE, [ENCODER.row(fields) for fields in people]))
    assert answers.tolist() == [all(answer(fields) for _, answer in conjunction) for fields in people]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Arithmetic over numeric columns that are never null, with every operator, nested."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["years", "dose", "bmi", "2", "0.25", "10", "3"]))
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    form = draw(st.sampled_from(["({} + {})", "({} - {})", "({} * {})", "({} / {})", "-{}", "({} - -{})"]))
    return form.format(left, right)


def read_plainly(expression: str, fields: Fields) -> Fraction | None:
    """Python's own reading of the same text, every number a Fraction; None for a division by zero."""
    words = expression.replace("(", " ( ").replace(")", " ) ").replace("-", " - ").split()
    python = " ".join(word if word in "()+-*/" else f"n['{word}']" for word in words)
    numbers = {word: Fraction(fields.get(word, word)) for word in words if word not in "()+-*/"}
    try:
        return eval(python, {"n": numbers})
    except ZeroDivisionError:
        return None


@given(expressions(), FIELDS)
def test_a_computed_number_is_the_exact_one_or_refused(expression: str, fields: Fields) -> None:
    before, expected = ENCODER.row(fields), read_plainly(expression, fields)
    try:
        after = parse_assignments({"cost": expression}, PEOPLE).applied_to(before)
    except EventRefused as refused:
        endless = expected is not None and (10**200 * expected).denominator != 1
        assert refused.reason in ("bad-result", "bad-statement") and (expected is None or endless)
    else:
        assert Fraction(after.values[4].decode()) == expected
        assert after == structs.replace(before, values=(*before.values[:4], after.values[4], *before.values[5:]))
