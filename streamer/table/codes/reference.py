"""The distribution of a sensitive column with which t-closeness compares every QI group.

The rules of this file
----------------------
* The values of a reference have codes from 1, in the order of their counted texts, of numbers and dates in their own
  order; 0 is the null. A value that the reference does not have is of the last code, which no row of it has; in order
  it is the next higher value, or the highest.
* The distance of two values: EQUAL, all are 1 apart. HIERARCHICAL, the level of their lowest common node over that of
  the root. ORDERED, the steps between them over those from the lowest to the highest; a null stands before the lowest.
  A null is 1 apart from every value of a hierarchy.
* The distance of two distributions is the least sum of shares, each times how far it has to be moved (earth mover's
  distance). It is a sum over sets of values: `streamer.kernels.distributions`.

Source: Li, Li and Venkatasubramanian 2007, sections 3 and 4.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from streamer.errors import ConfigError
from streamer.table.codes.same_text import CountedText, counted_value
from streamer.table.codes.scalars import read_decimal
from streamer.table.hierarchy import Hierarchy

NO_REFERENCE = (
    "every QI group is compared with a distribution, and none is named: put what `streamer distribution` prints below"
    " the column; without one only a whole table, in one piece, can be compared with itself"
)

EQUAL, HIERARCHICAL, ORDERED = "equal", "hierarchical", "ordered"


@dataclass(frozen=True)
class Reference:
    """How many rows of a whole table have each value of a column."""

    distance: str
    values: tuple[str, ...] = field(repr=False)  # counted texts of the codes from 1
    rows: tuple[int, ...] = field(repr=False)  # by code from 0
    above: tuple[int, ...] = field(repr=False, default=())  # HIERARCHICAL: the next node above each node; -1: none

    @property
    def total(self) -> int:
        return sum(self.rows)

    @property
    def unknown(self) -> int:
        """The code of a value that the reference does not have."""
        return len(self.values) if self.distance == ORDERED else len(self.values) + 1

    @property
    def levels(self) -> int:
        """The levels below the root of a hierarchy."""
        node, n = 1, 0
        while node >= 0 and self.above:
            node, n = self.above[node], n + 1
        return n

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values, start=1)}

    @cached_property
    def _places(self) -> list[Decimal | str | None]:
        return [place_of(value) for value in self.values]

    def code_of(self, text: str | None) -> int:
        """The code of a counted text; None: of a null."""
        if text is None:
            return 0
        code = self._codes.get(text)
        if code is not None or self.distance != ORDERED:
            return self.unknown if code is None else code
        place = place_of(text)
        if self.values and place is not None and type(place) is type(self._places[0]):
            return min(bisect_left(self._places, place) + 1, self.unknown)  # type: ignore[type-var]
        return self.unknown


_is_moment = re.compile(r"\d{4}-\d\d-\d\d(t[0-9:.]+)?z?").fullmatch


def place_of(text: str) -> Decimal | str | None:
    """Where a counted text stands in the order of numbers, or of ISO dates and timestamps; None: in neither.

    >>> place_of("7.0"), place_of("2020-01-01t08:00:00.5z"), place_of("flu")
    (Decimal('7.0'), '2020-01-01t08:00:00.5', None)
    """
    number = read_decimal(text)
    if number is not None:
        return number
    return text.removesuffix("z") if _is_moment(text) else None  # `z` would stand after the fraction of a second


def reference_of(
    column: str, distance: str, rows: Mapping[str | None, int], tree: Hierarchy | None, counted: CountedText
) -> Reference:
    """The distribution of a column, given as its rows by counted text; None: of nulls.

    Raises ConfigError for values that have no order, or are not in the hierarchy.
    """
    nulls = rows.get(None, 0)
    if distance == ORDERED and not any(n for value, n in rows.items() if value is not None):
        distance = EQUAL  # nothing has an order
    if distance == HIERARCHICAL and tree is not None:
        return _in_forest(column, rows, nulls, tree, counted)
    values = [value for value in rows if value is not None]
    if distance == EQUAL:
        values.sort()
    elif {type(place_of(value)) for value in values} not in ({Decimal}, {str}):
        raise ConfigError(
            f"columns.{column}.distance: ordered: needs numbers, or dates, and no other value; say `distance: equal`,"
            " or give the column a hierarchy"
        )
    else:
        values.sort(key=place_of)  # type: ignore[arg-type]
    return Reference(distance, tuple(values), (nulls, *(rows[value] for value in values)))


def _in_forest(
    column: str, rows: Mapping[str | None, int], nulls: int, tree: Hierarchy, counted: CountedText
) -> Reference:
    paths = dict[str, tuple[str, ...]]()
    for leaf, label in enumerate(tree.leaves):
        path = tuple(counted(tree.labels[level[leaf]]) for level in tree.levels[: tree.n_levels - 1])
        paths.setdefault(counted(label), path or (counted(label),))
    missing = sum(value is not None and value not in paths for value in rows)
    if missing:
        raise ConfigError(
            f"columns.{column}.distribution: {missing} of its values are not in the hierarchy; add them there, or"
            " count them as `other`"
        )
    values = sorted(paths)
    number = {(0, value): code for code, value in enumerate(values, start=1)}
    above = [-1] * (len(values) + 2)
    for value in values:
        path, below = paths[value], number[0, value]
        for level in range(1, len(path)):
            node = number.setdefault((level, *path[level:]), len(above))  # type: ignore[arg-type]
            if node == len(above):
                above.append(-1)
            above[below], below = node, node
    return Reference(HIERARCHICAL, tuple(values), (nulls, *(rows.get(value, 0) for value in values)), tuple(above))


def counted_rows(texts: Mapping[bytes, int], counted: CountedText) -> dict[str | None, int]:
    """The rows of a column by counted text, of those by JSON text."""
    found = dict[str | None, int]()
    for text, n in texts.items():
        value = counted_value(text, counted)
        found[value] = found.get(value, 0) + n
    return found
