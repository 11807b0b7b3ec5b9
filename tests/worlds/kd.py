"""Tables for algorithms that cut a k-d tree: a few rows given by hand, and attributes of very many cells."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.microdata import Microdata
from streamer.table.schema import NumericAttribute, Table
from worlds.microdata import TEXTS, people

CENTS = NumericAttribute("cents", (Decimal(0), Decimal(10**6)), Decimal(1), Decimal(1), Decimal(10**5))
NANOS = NumericAttribute("nanos", (Decimal(0), Decimal(10**11)), Decimal(1), Decimal(1), Decimal(10**10))
WIDE = people(CENTS, NANOS)
"""Cells far sparser than rows, and more of them than four bytes can number."""


def data_of(table: Table, codes: Sequence[tuple[int, ...]]) -> Microdata:
    """Rows by their codes; all have one sensitive value."""
    return Microdata(table, np.array(codes, dtype=np.int64), None, np.zeros((len(codes), 1), dtype=np.int64), TEXTS)


def groups_of(recoding: Recoding) -> list[list[int]]:
    """The rows of every QI group, each ascending, in the order of their first row."""
    numbers = recoding.qi_group.tolist()
    return sorted([i for i, number in enumerate(numbers) if number == group] for group in range(recoding.n_groups))
