"""Tables for algorithms that cut a k-d tree: a few rows given by hand, and attributes of very many cells."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt

from streamer.recoding.algorithms.contract import Recoding
from streamer.table.attributes import NumericAttribute
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import TEXTS, people

CENTS = NumericAttribute("cents", (Decimal(0), Decimal(10**6)), Decimal(1), Decimal(1), Decimal(10**5))
NANOS = NumericAttribute("nanos", (Decimal(0), Decimal(10**11)), Decimal(1), Decimal(1), Decimal(10**10))
WIDE = people(CENTS, NANOS)
"""Cells far sparser than rows, and more of them than four bytes can number."""


def data_of(table: Table, codes: npt.ArrayLike) -> Microdata:
    """Rows by their codes; all have one sensitive value."""
    rows = np.array(codes, dtype=np.int64)
    return Microdata(table, rows, None, np.zeros((len(rows), 1), dtype=np.int64), TEXTS)


def groups_of(recoding: Recoding) -> list[list[int]]:
    """The rows of every QI group, each ascending, in the order of their first row."""
    numbers = recoding.qi_group.tolist()
    return sorted([i for i, number in enumerate(numbers) if number == group] for group in range(recoding.n_groups))


TENS = NumericAttribute("tens", (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal(2))


def numbers(cells: list[int], values: list[int] | None = None, who: list[int] | None = None) -> Microdata:
    """People with one number from 0 to 9."""
    n = len(cells)
    table = people(TENS, individual=who is not None)
    sensitive = np.array(values or [0] * n, dtype=np.int64)[:, None]
    named = None if who is None else np.array(who, dtype=np.int64)
    return Microdata(table, np.array(cells, dtype=np.int64)[:, None], named, sensitive, TEXTS)
