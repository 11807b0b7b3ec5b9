"""Statements about many rows: which rows (a condition), and what becomes of them (assignments).

The rules of statements, here and in the modules beside this one
----------------------------------------------------------------
* Statements are those of Song et al. 2009: conditions and assignments over the table's attributes. Their text is read
  by the grammar of `streamer.incremental.events.statement_syntax`; nothing is ever evaluated as Python.
* Usable are the quasi-identifiers and the kept columns: never the key, never the individual.
* All arithmetic is exact: integers and fractions. What is not exactly a value of its column is refused, for that row.
* Nulls are those of SQL, in quasi-identifiers, too, whatever they count as where they are published: a comparison with
  null is unknown, and a condition that is unknown matches no row; `is null` and `is not null` ask for it; arithmetic
  with null is null, and a column is set to null where table.yaml lets it be one.
* Numbers and times have an order, and numbers alone are computed with. A comparison of a text with a number is refused
  where table.yaml can tell, and false where only the row can.
* A text in quotes means what it means in a row (`na`, `written`); one that is a word for null is compared with nothing.
  A date or a timestamp stands in quotes: `born < '1980-01-01'`. A day alone stands for its first moment. Two columns
  are compared where both are of one type.
* Right-hand sides see the old values of the row.
* Codes that are evenly spaced are compared as whole columns of integers; every other comparison reads row by row.
* No message shows a part of a statement: an unquoted text literal looks like a column's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events.statement_assignments import Assigned, assigned_of
from streamer.incremental.events.statement_columns import Draft, RowsOnce, find
from streamer.incremental.events.statement_conditions import Answer, answer_to
from streamer.incremental.events.statement_syntax import Comparison, read_condition, read_expression
from streamer.table.arrays import Bools
from streamer.table.row import Row, RowsView
from streamer.table.schema import Table


@dataclass(frozen=True)
class Condition:
    """A conjunction of comparisons (Song et al. 2009, phi_D and phi_M); columns: alpha(phi), all that occur in it."""

    columns: frozenset[str]
    _tests: tuple[Answer, ...] = field(repr=False)

    def matches(self, rows: RowsView) -> Bools:
        """Which rows satisfy the condition; bool (n,)."""
        once = RowsOnce(rows)
        matching: Bools = np.logical_and.reduce([test.matches(once) for test in self._tests])
        return matching


@dataclass(frozen=True)
class Assignments:
    """What becomes of a row (Song et al. 2009, F_M); columns: all that occur, on the left or on the right."""

    columns: frozenset[str]
    targets: tuple[str, ...]
    _assigned: tuple[Assigned, ...] = field(repr=False)

    def applied_to(self, row: Row) -> Row:
        """The row with its new values; raises EventRefused where one of them is not a value of its column."""
        draft = Draft.of(row)
        for assigned in self._assigned:
            assigned.apply(row, draft)
        return draft.row(row.individual)


@lru_cache(maxsize=256)
def parse_condition(text: str, table: Table) -> Condition:
    """The condition that a text says about a table's rows; raises EventRefused("bad-statement").

    A quoted name, a constant, an offset: `"marital-status" = 'Divorced' and age >= 30 and age < years + 12.5`.
    """
    return condition_of(read_condition(text), table)


def condition_of(comparisons: Sequence[Comparison], table: Table) -> Condition:
    """The condition that some comparisons say about a table's rows; raises EventRefused("bad-statement")."""
    names = {name for each in comparisons for name in (each.left, each.right) if name is not None}
    return Condition(frozenset(names), tuple(answer_to(comparison, table) for comparison in comparisons))


def parse_assignments(texts: Mapping[str, str], table: Table) -> Assignments:
    """The assignments column -> expression for a table's rows; raises EventRefused("bad-statement").

    A computed number, a constant, a null: `{"age": "(age + years) / 2", "problem": "'flu'", "ward": "null"}`.
    """
    return _parse_assignments(tuple(texts.items()), table)


@lru_cache(maxsize=256)
def _parse_assignments(texts: tuple[tuple[str, str], ...], table: Table) -> Assignments:
    if not texts:
        raise EventRefused("bad-statement", "the statement sets no column")
    assigned = tuple(assigned_of(find(name, table), read_expression(text), table) for name, text in texts)
    operands = (name for each in assigned for name in each.operands)
    targets = tuple(name for name, _ in texts)
    return Assignments(frozenset((*targets, *operands)), targets, assigned)
