"""The text of a statement -> its syntax: names, constants and operators, not yet of any table.

A condition is a conjunction of `x θ c`, `x θ y` and `x θ y ± c`, with θ one of = < <= > >=, and of `x is null` and `x
is not null`. An assigned expression is arithmetic over columns and numbers, or one text, true, false or null alone
(Song et al. 2009, statements). A name is bare (`age`) or in double quotes (`"marital-status"`); a text literal is
always in single quotes (`'flu'`, `'it''s'`). Keywords (and, is, not, true, false, null) have any case. Numbers are
exact: integers and fractions, never binary floats.

Expressions are in postfix, so that neither their depth nor their length exhausts the stack of a later reader. No
message shows a part of a statement: it may hold somebody's values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from streamer.errors import EventRefused

Number: TypeAlias = int | Fraction
Scalar: TypeAlias = int | Fraction | str | bool | None

STATEMENT_CHARS_MAX = 10_000
NUMBER_CHARS_MAX = 100

GRAMMAR = r"""
    condition: comparison (_AND comparison)*
    ?comparison: column ORDER constant    -> with_constant
        | column ORDER column             -> with_column
        | column ORDER column "+" number  -> with_offset
        | column ORDER column "-" number  -> with_negative_offset
        | column _IS _NULL                -> is_null
        | column _IS _NOT _NULL           -> is_not_null
    ?constant: number | "-" number        -> minus_number
        | text | true | false

    ?assigned: sum | literal
    literal: text | true | false | null
    ?sum: product
        | sum "+" product                 -> add
        | sum "-" product                 -> subtract
    ?product: factor
        | product "*" factor              -> multiply
        | product "/" factor              -> divide
    ?factor: number                       -> literal
        | column                          -> reference
        | "-" factor                      -> minus
        | "(" sum ")"

    ?column: NAME                         -> bare_name
        | QUOTED_NAME                     -> quoted_name
    number: NUMBER
    text: TEXT
    true: _TRUE
    false: _FALSE
    null: _NULL

    ORDER: "<=" | ">=" | "<" | ">" | "="
    NUMBER: /[0-9]+(\.[0-9]+)?/
    TEXT: /'([^']|'')*'/
    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    QUOTED_NAME: /"([^"]|"")+"/
    _AND.2: /and\b/i
    _IS.2: /is\b/i
    _NOT.2: /not\b/i
    _TRUE.2: /true\b/i
    _FALSE.2: /false\b/i
    _NULL.2: /null\b/i
    %ignore /[ \t\r\n]+/
"""

TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

IS_NULL, IS_NOT_NULL = "is null", "is not null"
"""The tests that are true or false for a null, too; every other test is unknown for it."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in a statement."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column's name in a statement; the column may not exist."""

    name: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left test constant`, or `left test right + constant` with a column `right`; IS_NULL, IS_NOT_NULL: of `left`."""

    left: str
    test: str
    right: str | None
    constant: Scalar
    has_offset: bool = False


Operator: TypeAlias = Callable[[Number, Number], Number]
Step: TypeAlias = Constant | ColumnReference | Operator
Postfix: TypeAlias = tuple[Step, ...]
"""An expression: operands push themselves, operators take two and push one."""


def divide(left: Number, right: Number) -> Number:
    """Exact quotient; ZeroDivisionError for a zero on the right."""
    return Fraction(left) / right


class _TokenReader(Transformer[Token, Any]):
    """Builds the syntax during parsing; one method per rule of the grammar."""

    def condition(self, found: list[Comparison]) -> tuple[Comparison, ...]:
        return tuple(found)

    def with_constant(self, found: list[Any]) -> Comparison:
        return Comparison(found[0], str(found[1]), None, found[2])

    def with_column(self, found: list[Any]) -> Comparison:
        return Comparison(found[0], str(found[1]), found[2], 0)

    def with_offset(self, found: list[Any]) -> Comparison:
        return Comparison(found[0], str(found[1]), found[2], found[3], has_offset=True)

    def with_negative_offset(self, found: list[Any]) -> Comparison:
        return self.with_offset([*found[:3], -found[3]])

    def is_null(self, found: list[Any]) -> Comparison:
        return Comparison(found[0], IS_NULL, None, None)

    def is_not_null(self, found: list[Any]) -> Comparison:
        return Comparison(found[0], IS_NOT_NULL, None, None)

    def minus_number(self, found: list[Number]) -> Number:
        return -found[0]

    def literal(self, found: list[Scalar]) -> Postfix:
        return (Constant(found[0]),)

    def reference(self, found: list[str]) -> Postfix:
        return (ColumnReference(found[0]),)

    def add(self, found: list[Postfix]) -> Postfix:
        return (*found[0], *found[1], operator.add)

    def subtract(self, found: list[Postfix]) -> Postfix:
        return (*found[0], *found[1], operator.sub)

    def multiply(self, found: list[Postfix]) -> Postfix:
        return (*found[0], *found[1], operator.mul)

    def divide(self, found: list[Postfix]) -> Postfix:
        return (*found[0], *found[1], divide)

    def minus(self, found: list[Postfix]) -> Postfix:
        return (Constant(0), *found[0], operator.sub)

    def bare_name(self, found: list[Token]) -> str:
        return str(found[0])

    def quoted_name(self, found: list[Token]) -> str:
        token, quote = found[0], found[0][0]
        return str(token[1:-1]).replace(quote * 2, quote)

    def number(self, found: list[Token]) -> Number:
        if len(found[0]) > NUMBER_CHARS_MAX:
            raise EventRefused("bad-statement", f"a number is longer than {NUMBER_CHARS_MAX} characters")
        exact = Fraction(str(found[0]))
        return exact.numerator if exact.denominator == 1 else exact

    text = quoted_name

    def true(self, _: Sequence[Token]) -> bool:
        return True

    def false(self, _: Sequence[Token]) -> bool:
        return False

    def null(self, _: Sequence[Token]) -> None:
        return None


_PARSER = Lark(
    GRAMMAR, parser="lalr", start=["condition", "assigned"], transformer=_TokenReader(), maybe_placeholders=False
)


def read_condition(text: str) -> tuple[Comparison, ...]:
    """The comparisons of a condition, in order; raises EventRefused("bad-statement").

    >>> read_condition("age < 25 and zip > 15000")[0]
    Comparison(left='age', test='<', right=None, constant=25, has_offset=False)
    """
    comparisons: tuple[Comparison, ...] = _read(text, "condition")
    return comparisons


def read_expression(text: str) -> Postfix:
    """The right-hand side of an assignment in postfix; raises EventRefused("bad-statement").

    >>> [step.name if isinstance(step, ColumnReference) else step.value for step in read_expression("age + 10")[:2]]
    ['age', 10]
    """
    postfix: Postfix = _read(text, "assigned")
    return postfix


_EXPECTED = {
    "condition": "x = c, x < y + c, x is null, ... joined by `and`",
    "assigned": "arithmetic, or one 'text' or null",
}


def _read(text: str, what: str) -> Any:
    if len(text) > STATEMENT_CHARS_MAX:
        raise EventRefused("bad-statement", f"the statement is longer than {STATEMENT_CHARS_MAX} characters")
    try:
        return _PARSER.parse(text, start=what)
    except UnexpectedInput as error:
        at_end = getattr(getattr(error, "token", None), "type", "") == "$END"
        place = "its end" if at_end else f"character {(error.pos_in_stream or 0) + 1}"
        raise EventRefused("bad-statement", f"cannot be read at {place}; expected {_EXPECTED[what]}") from None
