"""One value of one column: raw value -> code or JSON text, and back.

Every column gets its own closure, made once. `scalars.py` reads what a raw value is by itself. A value that cannot be
encoded raises `EventRefused`, with reason and column and never with the value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TypeGuard, TypeVar

import msgspec

from streamer.errors import EventRefused
from streamer.table.codes.attributes import (
    Attribute,
    CategoricalAttribute,
    KeptColumn,
    NumericAttribute,
    TemporalAttribute,
)
from streamer.table.codes.same_text import leaf_finder, without_capitals
from streamer.table.codes.scalars import (
    CLOCKS,
    Clock,
    category_of,
    decimal_text,
    integer_of,
    key_text,
    moment_anywhere,
    moment_of,
    moment_text,
    number_of,
)
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS

N = TypeVar("N", int, Decimal)

ToCode = Callable[[object], int]
ToText = Callable[[object], bytes]
Note = Callable[[str], None]
"""Called with the name of a column whenever only its `other` takes a category."""

# Numbers of table.yaml have at most 27 digits, so every edge of a cell fits this precision: rounding a value down
# cannot move it across an edge.
_EXACT = Context(prec=100, rounding=ROUND_FLOOR)
_ROUNDING = Context(prec=100, rounding=ROUND_HALF_EVEN)

_to_json = msgspec.json.Encoder().encode


def decimal_exact(value: object, attribute: NumericAttribute) -> str:
    """The exact text of a value of a decimal without a step; of a null, that of what it counts as."""
    return null_exact(attribute) if value is None else decimal_text(number_of(value, attribute.name))


def null_exact(attribute: NumericAttribute) -> str:
    """The exact text of what a null counts as in a decimal without a step. Raises EventRefused if it has no null."""
    if attribute.null_code is None:
        raise _null_refused(attribute)
    return decimal_text(attribute.domain[0] + attribute.null_code // FINENESS * attribute.grid)


def is_stepless(attribute: Attribute) -> TypeGuard[NumericAttribute]:
    """True for a decimal without a step, whose values are in their exact texts."""
    return isinstance(attribute, NumericAttribute) and attribute.step is None


def _unnoted(name: str) -> None:
    pass


def to_code(attribute: Attribute, unlisted: Note = _unnoted, *, capitals_count: bool = False) -> ToCode:
    """The encoder of one quasi-identifier: raw value -> code."""
    if isinstance(attribute, CategoricalAttribute):
        return _category_to_code(attribute, unlisted, capitals_count)
    if isinstance(attribute, TemporalAttribute):
        return _moment_to_code(attribute)
    if attribute.integer:
        return _integer_to_code(attribute)
    return _stepless_to_code(attribute) if attribute.step is None else _stepped_to_code(attribute)


def _null_refused(attribute: Attribute) -> EventRefused:
    detail = "give a value, or set its null_as"
    if isinstance(attribute, CategoricalAttribute):
        detail = "give a value, or set `null: own-category`"
    return EventRefused("null-not-allowed", f"column {attribute.name!r} is null; {detail}", attribute.name)


def _nearer_end(attribute: NumericAttribute | TemporalAttribute, value: N, first: N, last: N) -> N:
    """The end of the domain that a value outside counts as. Raises EventRefused if it counts as nothing."""
    if not attribute.ends_take_all:
        name = attribute.name
        detail = "outside the domain of table.yaml; widen it, or let `outside: ends` count this as its nearer end"
        raise EventRefused("out-of-domain", f"column {name!r}: {detail}", name)
    return first if value < first else last


def _off_step(column: str) -> EventRefused:
    detail = "not a multiple of the step of table.yaml; round it in the source, or make the step smaller"
    return EventRefused("off-the-step", f"column {column!r}: {detail}", column)


def _unknown_category(column: str, tree: Hierarchy, text: str) -> EventRefused:
    detail = "not a leaf of its hierarchy; add it, or let `other` say which node takes such values"
    if tree.has_look_alike(text):
        detail = "a leaf of its hierarchy but for capitals, blanks, accents or hidden signs; write both in one way"
    return EventRefused("unknown-category", f"column {column!r}: {detail}", column)


def _null_to_code(attribute: Attribute) -> int:
    if attribute.null_code is None:
        raise _null_refused(attribute)
    return attribute.null_code


def _integer_to_code(attribute: NumericAttribute) -> ToCode:
    name, step = attribute.name, int(attribute.step or 1)
    first, last = map(int, attribute.domain)

    def code(value: object) -> int:
        if type(value) is not int:
            if value is None:
                return _null_to_code(attribute)
            value = integer_of(value, name)
        if not first <= value <= last:
            value = _nearer_end(attribute, value, first, last)
        steps, rest = divmod(value - first, step)
        if rest:
            raise _off_step(name)
        return steps

    return code


def _stepped_to_code(attribute: NumericAttribute) -> ToCode:
    name, (first, last), step = attribute.name, attribute.domain, attribute.step or Decimal(1)

    def code(value: object) -> int:
        if value is None:
            return _null_to_code(attribute)
        number = number_of(value, name)
        if not first <= number <= last:
            number = _nearer_end(attribute, number, first, last)
        steps = _EXACT.divide_int(_EXACT.subtract(number, first), step)
        if _EXACT.add(first, _EXACT.multiply(steps, step)) != number:
            raise _off_step(name)
        return int(steps)

    return code


def _stepless_to_code(attribute: NumericAttribute) -> ToCode:
    name, (first, last), grid = attribute.name, attribute.domain, attribute.grid
    cell_last = attribute.n_cells - 1

    def code(value: object) -> int:
        if value is None:
            return _null_to_code(attribute)
        number = number_of(value, name)
        if not first <= number <= last:
            number = _nearer_end(attribute, number, first, last)
        offset = _EXACT.subtract(number, first)
        cell = min(int(_EXACT.divide_int(offset, grid)), cell_last)  # the last cell is closed
        within = _EXACT.subtract(offset, _EXACT.multiply(cell, grid))
        fine = min(int(_EXACT.divide(_EXACT.multiply(within, FINENESS), grid)), FINENESS - 1)
        return cell * FINENESS + fine

    return code


def _moment_to_code(attribute: TemporalAttribute) -> ToCode:
    name, calendar = attribute.name, attribute.calendar
    clock, first, last = calendar.clock, calendar.first, calendar.last
    read = moment_anywhere if attribute.ends_take_all else moment_of

    def code(value: object) -> int:
        if value is None:
            return _null_to_code(attribute)
        moment = read(value, name, clock)
        if not first <= moment <= last:
            moment = _nearer_end(attribute, moment, first, last)
        return calendar.code_of(moment)

    return code


def _category_to_code(attribute: CategoricalAttribute, unlisted: Note, capitals_count: bool) -> ToCode:
    name, code_of = attribute.name, attribute.hierarchy.code_of
    otherwise = _otherwise(name, attribute.hierarchy, attribute.other_code, unlisted, capitals_count)

    def code(value: object) -> int:
        if type(value) is not str:
            if value is None:
                return _null_to_code(attribute)
            value = category_of(value, name)
        found = code_of.get(value)
        return otherwise(value) if found is None else found

    return code


def _otherwise(
    name: str, tree: Hierarchy, other: int | None, unlisted: Note, capitals_count: bool
) -> Callable[[str], int]:
    """The code of a category that no leaf is: of the leaf with the same text, or of `other`. Raises EventRefused."""
    leaf_of = leaf_finder(tree.leaves, capitals_count)

    def code(category: str) -> int:
        if (leaf := leaf_of(category)) is not None:
            return tree.code_of[leaf]
        if other is None:
            raise _unknown_category(name, tree, category)
        unlisted(name)
        return other

    return code


def from_code(attribute: Attribute, code: int, exact: str | None) -> int | Decimal | str:
    """The value that a code stands for: a number (without a step that of `exact`), a category's label, or an ISO
    text."""
    if isinstance(attribute, CategoricalAttribute):
        return attribute.hierarchy.leaves[code]
    if isinstance(attribute, TemporalAttribute):
        return moment_text(attribute.calendar.moment_of(code), attribute.calendar.clock)
    if attribute.step is not None:
        value = attribute.domain[0] + code * attribute.step
        return int(value) if attribute.integer else value
    if exact is None:
        raise ValueError(f"column {attribute.name!r} has no step: its value is in the exact text, not in the code")
    return Decimal(exact)


def to_json_text(column: KeptColumn, unlisted: Note = _unnoted, *, capitals_count: bool = False) -> ToText:
    """The encoder of one kept column: raw value -> canonical JSON text."""
    if column.hierarchy is not None:
        tree = column.hierarchy
        other = None if column.other is None else tree.code_of[column.other]
        return _category_to_json(column.name, tree, _otherwise(column.name, tree, other, unlisted, capitals_count))
    if column.type is None:
        return _scalar_to_json(column.name)
    if column.type in CLOCKS:
        return _moment_to_json(column.name, CLOCKS[column.type])
    if column.is_coarse:
        return _coarse_to_json(column)
    return _typed_to_json(column.name, column.type)


def _coarse_to_json(column: KeptColumn) -> ToText:
    """Of numbers that are capped at the ends of the domain, then rounded to a multiple of the grid, half to even."""
    name, grid, domain = column.name, column.grid, column.domain

    def json_text(value: object) -> bytes:
        if value is None:
            return b"null"
        number = Decimal(integer_of(value, name)) if column.type == "integer" else number_of(value, name)
        if domain is not None:
            number = min(max(number, domain[0]), domain[1])
        if grid is not None:
            number = _EXACT.multiply(_ROUNDING.to_integral_value(_ROUNDING.divide(number, grid)), grid)
        return decimal_text(number).encode()

    return json_text


def _category_to_json(name: str, tree: Hierarchy, otherwise: Callable[[str], int]) -> ToText:
    texts = {leaf: _to_json(leaf) for leaf in tree.leaves}

    def json_text(value: object) -> bytes:
        if value is None:
            return b"null"
        category = category_of(value, name)
        text = texts.get(category)
        return texts[tree.leaves[otherwise(category)]] if text is None else text

    return json_text


def _scalar_to_json(name: str) -> ToText:
    def json_text(value: object) -> bytes:
        if value is None or type(value) is str or type(value) is bool:
            return _to_json(value)
        if type(value) is int or isinstance(value, Decimal):
            return decimal_text(number_of(value, name)).encode()
        raise EventRefused("wrong-type", f"column {name!r}: neither text, number, boolean nor null", name)

    return json_text


def _moment_to_json(name: str, clock: Clock) -> ToText:
    def json_text(value: object) -> bytes:
        return b"null" if value is None else _to_json(moment_text(moment_of(value, name, clock), clock))

    return json_text


_TRUE = ("true", "t", "yes", "y", "on", "1", "wahr", "vrai", "verdadero", "verdadeiro", "vero", "waar")
_FALSE = ("false", "f", "no", "n", "off", "0", "falsch", "faux", "falso", "onwaar")
_BOOLEANS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
"""What databases, pandas, and Excel in several languages write for a boolean, as counted texts."""


def _boolean_of(value: object, name: str) -> bool:
    """A boolean in one of its spellings, also 1 and 0 as numbers. EventRefused: wrong-type."""
    if type(value) is bool:
        return value
    found = _BOOLEANS.get(without_capitals(key_text(value, name))) if isinstance(value, str | int | Decimal) else None
    if found is None:
        detail = "not of type boolean; expected true or false, or t and f, yes and no, 1 and 0"
        raise EventRefused("wrong-type", f"column {name!r}: {detail}", name)
    return found


def _typed_to_json(name: str, type_: str) -> ToText:
    def json_text(value: object) -> bytes:
        if value is None:
            return b"null"
        if type_ == "integer":
            return b"%d" % integer_of(value, name)
        if type_ == "decimal":
            return decimal_text(number_of(value, name)).encode()
        if type_ == "boolean":
            return _to_json(_boolean_of(value, name))
        if type(value) is not str:
            raise EventRefused("wrong-type", f"column {name!r}: not of type {type_}", name)
        return _to_json(value)

    return json_text
