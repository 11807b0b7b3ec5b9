"""What of a table may decide what is published, and nothing else: the table in canonical form.

The rules of this file
----------------------
* A row's *kind* is its cells and its published values. An individual is all its rows' kinds, and no name. So a table
  is its kinds and how they are spread over individuals, and the canonical form is a function of that alone: rows by
  kind, then by individual; individuals numbered by how many rows they have, then by these rows' kinds in order.
* Codes become the first code of their cell: nothing finer than a cell is left to be seen.
* Individuals who agree in all their kinds are interchangeable, and so are rows of one kind and individual: the
  canonical form is the same whichever stands first. Chance decides, never order, name or code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.vectors import row_numbers


@dataclass(frozen=True)
class Canonical:
    """A table in canonical form; rows: int64 (n,), the source's row that stands in each row's place."""

    microdata: Microdata
    rows: Ints = field(repr=False)


def canonical(microdata: Microdata, chance: np.random.Generator) -> Canonical:
    """The table in canonical form; chance decides who of the interchangeable stands where."""
    table = microdata.table
    rows = chance.permutation(len(microdata))
    cells, values = microdata.cells[rows], microdata.values[rows]
    kind = row_numbers(np.column_stack([cells, values]))
    if microdata.individuals is None:
        order, who = np.argsort(kind, kind="stable"), None
    else:
        by_name = np.unique(microdata.individuals[rows], return_index=True, return_inverse=True)
        number = _in_order_of(multiset_ranks(by_name[2], kind), by_name[1])[by_name[2]]
        order = np.lexsort((number, kind))
        who = number[order]
    codes = np.take(cells, order, axis=0) * table.space.codes_per_cell
    return Canonical(Microdata(table, codes, who, np.take(values, order, axis=0), microdata.texts), rows[order])


def _in_order_of(rank: Ints, first: Ints) -> Ints:
    """Numbers from 0 in the order of the ranks, of equals in that of their first rows; int64, as long as rank."""
    number = np.empty_like(rank)
    number[np.lexsort((first, rank))] = np.arange(len(rank))
    return number


def multiset_ranks(who: Ints, kind: Ints) -> Ints:
    """Ranks from 0 of individuals by the kinds of their rows; equal for those who have each kind equally often.

    who: int64 (n,), from 0 without gaps; kind: int64 (n,), from 0. Ranked by the number of rows, then by their kinds,
    sorted, the least first. Neighbouring kinds become one number, round after round, until everybody has one number:
    17 rounds for an individual of 100,000 rows, each half the work of the one before.

    >>> multiset_ranks(np.array([0, 0, 1, 2, 2]), np.array([7, 5, 9, 5, 7])).tolist()
    [1, 0, 1]
    """
    n_rows = np.bincount(who)
    left, length = kind[np.lexsort((kind, who))], n_rows.copy()
    number = np.zeros(len(n_rows), dtype=np.int64)
    going = np.arange(len(n_rows))
    while len(going):
        done = length == 1
        begins = np.cumsum(length) - length
        number[going[done]] = left[begins[done]]
        left, length = left[np.repeat(~done, length)], length[~done]
        going = going[~done]
        left, length = _paired(left, length)
    return _dense(np.column_stack([n_rows, number]))


def _paired(left: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Runs of numbers from 0 in which each two neighbours are one number, in their order; and the runs' lengths.

    left: int64 (n,), the runs one after the other; length: int64 (runs,). An odd last one stays, before all pairs that
    begin with it.
    """
    begins = np.cumsum(length) - length
    place = np.arange(len(left)) - np.repeat(begins, length)
    one = place % 2 == 0
    second = np.zeros(len(left), dtype=np.int64)
    second[:-1] = left[1:] + 1
    second[begins + length - 1] = 0
    return _dense(np.column_stack([left[one], second[one]])), (length + 1) // 2


def _dense(columns: Ints) -> Ints:
    """The rows' ranks from 0, without gaps, in the order of the first column, then the next; int64 (n,)."""
    return np.unique(row_numbers(columns), return_inverse=True)[1].astype(np.int64)
