"""The types of arrays, and vectors of numbers as single numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]

Records = Any
"""A record array: `numpy.recarray`, whose fields type checkers do not know."""


def records(n: int | tuple[int, ...], dtype: np.dtype[Any]) -> Records:
    """n records of zeros, with fields as attributes."""
    return np.zeros(n, dtype).view(np.recarray)


NUMBERS_MAX = 1 << 62


def row_numbers(columns: Ints) -> Ints:
    """A number for every row of non-negative columns (n, c): equal for equal rows only, and in their order; int64 (n,).

    A row is read as digits in mixed radix, the first column the highest. If the numbers would outgrow int64, their gaps
    are closed, and the column's.

    >>> row_numbers(np.array([[3, 1], [0, 2], [3, 1]])).tolist()
    [10, 2, 10]
    """
    return numbers_of(columns.T, len(columns))


def numbers_of(columns: Iterable[Ints], n: int) -> Ints:
    """The same of columns (n,) one by one."""
    numbers, width = np.zeros(n, dtype=np.int64), 1
    for column in columns:
        column_width = int(column.max(initial=0)) + 1
        if width * column_width > NUMBERS_MAX:  # close the gaps: then neither has more values than there are rows
            numbers, width = _without_gaps(numbers)
            column, column_width = _without_gaps(column)
        numbers *= column_width
        numbers += column
        width *= column_width
    return numbers


def _without_gaps(column: Ints) -> tuple[Ints, int]:
    distinct, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)


def ranks(columns: Ints) -> Ints:
    """Ranks of the rows of non-negative columns (n, c), from 0 without gaps; int64 (n,)."""
    return np.unique(row_numbers(columns), return_inverse=True)[1].astype(np.int64)


def inverse_of(order: Ints) -> Ints:
    """The place of each of the numbers 0..n-1 in an order of them; int64 (n,)."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


class Counted(NamedTuple):
    """Rows of numbers, and the count of each."""

    numbers: Ints  # (m, c), each row once, in order
    rows: Ints  # (m,)


def counted(numbers: Ints, rows: Ints | None = None) -> Counted:
    """Equal rows of numbers (n, c) together; rows: how many each stands for, one if None.

    >>> counted(np.array([[1], [0], [1]]))
    Counted(numbers=array([[0],
           [1]]), rows=array([1, 2]))
    """
    _, first, which = np.unique(row_numbers(numbers), return_index=True, return_inverse=True)
    return Counted(numbers[first], np.bincount(which, rows, len(first)).astype(np.int64))
