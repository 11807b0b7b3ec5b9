"""The text of a statement as syntax: names, exact constants, operators; and no part of it in a refusal."""

from __future__ import annotations

import operator
from fractions import Fraction

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.statement_syntax import (
    NUMBER_CHARS_MAX,
    STATEMENT_CHARS_MAX,
    TESTS,
    ColumnReference,
    Comparison,
    Constant,
    Postfix,
    Scalar,
    divide,
    read_condition,
    read_expression,
)


@pytest.mark.parametrize(
    ("text", "comparison"),
    [
        ("age = 25", Comparison("age", "=", None, 25)),
        ("age >= -2.50", Comparison("age", ">=", None, Fraction(-5, 2))),
        ("bmi < 21.0", Comparison("bmi", "<", None, 21)),
        ("city = 'it''s'", Comparison("city", "=", None, "it's")),
        ("\"marital-status\" = 'never'", Comparison("marital-status", "=", None, "never")),
        ('"a""b" = TRUE', Comparison('a"b', "=", None, True)),
        ("x <= y", Comparison("x", "<=", "y", 0)),
        ("x > y + 3", Comparison("x", ">", "y", 3, has_offset=True)),
        ("x > y - 0.5", Comparison("x", ">", "y", Fraction(-1, 2), has_offset=True)),
        ("x = y - 0", Comparison("x", "=", "y", 0, has_offset=True)),
        ("android = 1", Comparison("android", "=", None, 1)),
    ],
)
def test_a_comparison_is_read(text: str, comparison: Comparison) -> None:
    assert read_condition(text) == (comparison,)


def test_a_condition_is_a_conjunction_in_its_order_and_and_is_written_in_either_case() -> None:
    assert [comparison.left for comparison in read_condition("a = 1 and b = 2 AND\n c = 3")] == ["a", "b", "c"]


def test_a_bool_is_no_number() -> None:
    (comparison,) = read_condition("smoker = true")
    assert comparison.constant is True


@pytest.mark.parametrize(
    ("text", "postfix"),
    [
        ("7", (Constant(7),)),
        ("'flu'", (Constant("flu"),)),
        ("null", (Constant(None),)),
        ("false", (Constant(False),)),
        ("age + 10", (ColumnReference("age"), Constant(10), operator.add)),
        ("a - b - c", (ColumnReference("a"), ColumnReference("b"), operator.sub, ColumnReference("c"), operator.sub)),
        ("a + b * 2", (ColumnReference("a"), ColumnReference("b"), Constant(2), operator.mul, operator.add)),
        ("(a + b) / 2", (ColumnReference("a"), ColumnReference("b"), operator.add, Constant(2), divide)),
        ("-a", (Constant(0), ColumnReference("a"), operator.sub)),
    ],
)
def test_an_expression_comes_out_in_postfix(text: str, postfix: Postfix) -> None:
    assert read_expression(text) == postfix


@pytest.mark.parametrize(
    "text",
    [
        "", "canary", "age == 5", "age = canary = 5", "age = 5 or age = 6", "not age = 5", "age = 'canary", "5 = age",
        "age in (5)", "age = 5;", "age = 5 and", "age = 1e5", "x = y + 'canary'",
    ],
)  # fmt: skip
def test_a_text_that_is_no_condition_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(EventRefused, match=r"cannot be read at (character \d+|its end); expected x = c") as refused:
        read_condition(text)
    assert refused.value.reason == "bad-statement"
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "'canary' + 1", "age +", "age ** 2", "now()", "'a' 'b'", "null + 1"])
def test_a_text_that_is_no_expression_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(EventRefused, match="expected arithmetic") as refused:
        read_expression(text)
    assert "canary" not in str(refused.value)


def test_the_place_of_the_fault_is_counted_from_one() -> None:
    with pytest.raises(EventRefused, match="at character 5;"):
        read_condition("age ! 5")


@pytest.mark.parametrize("text", ["age = " + "1" * (NUMBER_CHARS_MAX + 1), "x = 1" + " " * STATEMENT_CHARS_MAX])
def test_neither_numbers_nor_statements_grow_without_end(text: str) -> None:
    with pytest.raises(EventRefused, match="longer than"):
        read_condition(text)


@pytest.mark.parametrize(("test", "answers"), [
    ("=", [False, True, False]), ("<", [True, False, False]), ("<=", [True, True, False]),
    (">", [False, False, True]), (">=", [False, True, True]),
])  # fmt: skip
def test_the_tests_are_those_of_arithmetic(test: str, answers: list[bool]) -> None:
    left: list[Scalar] = [1, 2, 3]
    assert [TESTS[test](value, 2) for value in left] == answers


def test_a_quotient_is_exact() -> None:
    assert divide(1, 3) == Fraction(1, 3)
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
