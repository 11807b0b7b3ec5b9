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
from streamer.incremental.core.layout import INSERT
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.engine import OperationQueue
from streamer.incremental.engine.rows import Rows
from streamer.incremental.events.statement_syntax import Scalar, read_condition
from streamer.incremental.events.statements import (
    RESULT_BITS_MAX,
    CodeTest,
    Column,
    Comparator,
    JsonColumn,
    NullTest,
    RowsOnce,
    Type,
    Value,
    ValueTest,
    columns_of,
    comparator_of,
    find,
    known,
    meant,
    moment_in_statement,
    parse_assignments,
    parse_condition,
    scalar,
    type_of,
)
from streamer.incremental.events.statements import is_number as statements_is_number
from streamer.table.codes import CLOCKS, CategoricalAttribute, KeptColumn, NumericAttribute, SourceText
from streamer.table.encode import Encoder
from streamer.table.row import Patch, Row, RowsView
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, YEARS, RowsAsColumns, table

# The values of statements: exact numbers, and of which type each is.


def test_a_decoded_scalar_is_exact_and_anything_else_is_a_fault_of_ours() -> None:
    assert [scalar(value) for value in (Decimal("1.50"), Decimal("2.0"), True, None, "x")] == [
        Fraction(3, 2), 2, True, None, "x",
    ]  # fmt: skip
    with pytest.raises(TypeError):
        scalar([1])


def test_types_are_those_of_the_values() -> None:
    assert [type_of(value) for value in (1, Fraction(1, 2), "x", False, None)] == [
        Type.NUMBER, Type.NUMBER, Type.TEXT, Type.BOOLEAN, Type.NULL,
    ]  # fmt: skip
    assert statements_is_number(0) and statements_is_number(Fraction(1, 2))
    assert not statements_is_number(True)


# A table's columns as statements see them: exact values out of stored rows, each distinct one read once, and back.

PEOPLE = replace(
    table(AGE, BMI, CITY, individual="ssn"),
    kept=(PROBLEM, KeptColumn("cost", False, "decimal"), KeptColumn("smokes", False, "boolean")),
)
FIELDS: dict[str, object] = {
    "id": 7, "ssn": "s-1", "age": 21, "bmi": Decimal("11.5"), "city": "b1", "problem": "flu", "cost": Decimal("2.50"),
    "smokes": True,
}  # fmt: skip
ROW = Encoder(PEOPLE).row(FIELDS)


def view_of(*rows: Row) -> RowsView:
    held = CoreArrays(PEOPLE)
    stored = Rows(PEOPLE, held)
    queue = OperationQueue(stored, held, b"")
    for i, row in enumerate(rows):
        queue.add(INSERT, stored.add(str(i), row), row)
    queue.run()
    return stored.view()


@pytest.mark.parametrize(
    ("name", "value", "type_"),
    [
        ("age", 21, Type.NUMBER),
        ("bmi", Fraction(23, 2), Type.NUMBER),
        ("city", "b1", Type.TEXT),
        ("problem", "flu", Type.ANY),
        ("cost", Fraction(5, 2), Type.NUMBER),
        ("smokes", True, Type.BOOLEAN),
    ],
)
def test_a_column_reads_the_exact_value_of_a_row(name: str, value: Scalar, type_: Type) -> None:
    column = find(name, PEOPLE)
    assert (column.of_row(ROW), column.type) == (value, type_)
    assert column.of_rows(RowsOnce(view_of(ROW, ROW))) == [value, value]


def test_each_distinct_stored_value_is_read_once() -> None:
    read = list[bytes]()

    class Counting(JsonColumn):
        def read(self, stored: bytes) -> Value:
            read.append(stored)
            return super().read(stored)

    other = structs.replace(ROW, values=(b"null", *ROW.values[1:]))
    found = Counting(Encoder(PEOPLE), 0).of_rows(RowsOnce(view_of(ROW, other, ROW, other)))
    assert found == ["flu", None, "flu", None]
    assert read == [b'"flu"'], "a null is nothing to read"


def test_a_view_is_asked_for_each_property_once() -> None:
    asked: list[str] = []

    class View:
        def __getattr__(self, name: str) -> list[str]:
            asked.append(name)
            return []

    rows = RowsOnce(View())  # type: ignore[arg-type]
    for _ in range(2):
        assert (rows.exact, rows.values) == ([], [])
    assert asked == ["exact", "values"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("age", 3), ("bmi", Decimal("10.25")), ("city", "a1"), ("problem", None), ("cost", 7), ("smokes", False)],
)
def test_what_is_assigned_is_read_back_and_nothing_else_changes(name: str, value: object) -> None:
    patch = Patch()
    column = find(name, PEOPLE)
    column.assign(patch, column.cell(value))
    changed = patch.on(ROW)
    read = {other: column.of_row(changed) for other, column in columns_of(PEOPLE).items()}
    before = {other: column.of_row(ROW) for other, column in columns_of(PEOPLE).items()}
    assert read == before | {name: scalar(value)}
    assert changed.individual == ROW.individual


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("age", 24, "out-of-domain"),
        ("bmi", "canary", "wrong-type"),
        ("city", "canary", "unknown-category"),
        ("smokes", "canary", "wrong-type"),
    ],
)
def test_a_value_that_is_not_of_the_column_is_refused_without_its_text(name: str, value: object, reason: str) -> None:
    with pytest.raises(EventRefused) as refused:
        find(name, PEOPLE).cell(value)
    assert (refused.value.reason, refused.value.column) == (reason, name)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["id", "ssn"])
def test_a_statement_may_not_say_whose_row_it_is(name: str) -> None:
    with pytest.raises(EventRefused, match="says whose row it is") as refused:
        find(name, PEOPLE)
    assert refused.value.column == name


def test_a_name_that_table_yaml_does_not_have_is_not_repeated_for_it_may_be_a_value() -> None:
    with pytest.raises(EventRefused) as refused:
        find("canary", PEOPLE)
    assert "canary" not in f"{refused.value} {refused.value.column}"


def test_the_columns_of_a_table_are_made_once() -> None:
    assert columns_of(PEOPLE) is columns_of(PEOPLE)
    assert all(isinstance(column, Column) for column in columns_of(PEOPLE).values())


def test_only_a_category_has_a_hierarchy_and_only_even_codes_have_a_scale() -> None:
    columns = columns_of(PEOPLE)
    assert [name for name, column in columns.items() if column.hierarchy is not None] == ["city"]
    assert [name for name, column in columns.items() if column.scale is not None] == ["age", "city"]


# A constant of a statement means in a column what the same text means in a row.

STATEMENT_CONSTANTS_PEOPLE = replace(table(replace(YEARS, null_code=0)), source_texts=(SourceText("years", ("n/a",)),))
COLUMN = columns_of(STATEMENT_CONSTANTS_PEOPLE)["years"]


def test_a_number_is_itself() -> None:
    assert meant(COLUMN, 4) == 4


def test_a_word_for_null_is_null_which_nothing_is_compared_with() -> None:
    assert meant(COLUMN, "n/a") is None
    with pytest.raises(EventRefused, match="write `is null`") as refused:
        known(meant(COLUMN, "n/a"), COLUMN)
    assert refused.value.reason == "bad-statement"
    assert known(4, COLUMN) == 4


def test_a_day_alone_is_its_first_moment_and_other_texts_are_refused_without_their_text() -> None:
    clock = CLOCKS["timestamp"]
    day, midnight = (moment_in_statement(text, "seen", clock) for text in ("2024-01-31", "2024-01-31T00:00:00Z"))
    assert day == midnight
    with pytest.raises(EventRefused) as refused:
        moment_in_statement("thirteenth of May", "seen", clock)
    assert refused.value.reason == "bad-statement"
    assert "May" not in str(refused.value)


# Which way a comparison is answered: over whole columns of integers wherever the values are evenly spaced.

FAR = NumericAttribute("far", (Decimal(10**26), Decimal(10**26 + 9)), Decimal(1), Decimal(1), Decimal(1))
UNTOLD = replace(YEARS, name="untold", null_code=0)
VISITS = KeptColumn("visits", sensitive=False, type="integer")
STATEMENT_CONDITIONS_PEOPLE = replace(table(YEARS, BMI, CITY, FAR, UNTOLD), kept=(VISITS,))


def answered_by(text: str) -> Comparator:
    (comparison,) = read_condition(text)
    return comparator_of(comparison, STATEMENT_CONDITIONS_PEOPLE)


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
    assert [STATEMENT_CONDITIONS_PEOPLE.attributes[j].name for j in asked.nullable] == ["untold"]


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
STATEMENTS_PEOPLE = replace(table(YEARS, DOSE, BMI, CITY, MARITAL, AWAY, TEMP, individual="ssn"), kept=KEPT)
ENCODER = Encoder(STATEMENTS_PEOPLE)

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
    answer = parse_condition(text, STATEMENTS_PEOPLE).matches(RowsAsColumns(STATEMENTS_PEOPLE, [row(**changed)]))
    assert answer.dtype == np.bool_ and answer.shape == (1,)
    return bool(answer[0])


def assigned(texts: dict[str, str], **changed: object) -> Row:
    return parse_assignments(texts, STATEMENTS_PEOPLE).applied_to(row(**changed))


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
    assert parse_condition("years < dose + 1 and \"marital-status\" = 'a1'", STATEMENTS_PEOPLE).columns == {
        "years",
        "dose",
        "marital-status",
    }


def test_a_condition_over_no_rows_holds_for_none() -> None:
    assert parse_condition("years < 5 and note = 'x'", STATEMENTS_PEOPLE).matches(
        RowsAsColumns(STATEMENTS_PEOPLE, [])
    ).shape == (0,)


def test_the_same_text_is_parsed_once() -> None:
    assert parse_condition("years < 5", STATEMENTS_PEOPLE) is parse_condition("years < 5", STATEMENTS_PEOPLE)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("years ==", None),  # what is no condition at all: test_statement_syntax.py
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
    assert refusal(parse_condition, text, STATEMENTS_PEOPLE) == ("bad-statement", column)


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
    assignments = parse_assignments({"years": "visits + 1", "cost": "2"}, STATEMENTS_PEOPLE)
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
        ({"years": "years +"}, None),
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
    assert refusal(parse_assignments, texts, STATEMENTS_PEOPLE) == ("bad-statement", column)


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


# -- the twin: the same statements, read row by row in plain Python ---------------------------------------------------

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
STATEMENTS_FIELDS = st.fixed_dictionaries({**NUMBERS, **TEXTS}).map(lambda fields: {**ANN, **fields})
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


@given(st.lists(comparisons(), min_size=1, max_size=3), st.lists(STATEMENTS_FIELDS, max_size=12))
def test_a_condition_holds_where_a_plain_reading_of_the_row_says_so(
    conjunction: list[Comparison], people: list[Fields]
) -> None:
    condition = parse_condition(" and ".join(text for text, _ in conjunction), STATEMENTS_PEOPLE)
    answers = condition.matches(RowsAsColumns(STATEMENTS_PEOPLE, [ENCODER.row(fields) for fields in people]))
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


@given(expressions(), STATEMENTS_FIELDS)
def test_a_computed_number_is_the_exact_one_or_refused(expression: str, fields: Fields) -> None:
    before, expected = ENCODER.row(fields), read_plainly(expression, fields)
    try:
        after = parse_assignments({"cost": expression}, STATEMENTS_PEOPLE).applied_to(before)
    except EventRefused as refused:
        endless = expected is not None and (10**200 * expected).denominator != 1
        assert refused.reason in ("bad-result", "bad-statement") and (expected is None or endless)
    else:
        assert Fraction(after.values[4].decode()) == expected
        assert after == structs.replace(before, values=(*before.values[:4], after.values[4], *before.values[5:]))
