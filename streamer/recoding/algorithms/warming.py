"""Compiling the default algorithm ahead, as a table that says no more than k needs it.

Its loops are typed by the model, not by the table: a small table with a number and a hierarchy calls all of them. What
counts sensitive values or individuals is compiled when a table first asks for it.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.initial import initial_groups
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import CategoricalAttribute, NumericAttribute, Table

K, ROWS, CELLS = 2, 40, 10
RARE = 7
"""Every so many rows one has a leaf of its own: rare leaves have an order of their own."""


def compile_default() -> None:
    """Runs it once."""
    one = Decimal(1)
    leaves = [(f"leaf {leaf}", f"node {leaf % 3}", "*") for leaf in range(ROWS)]
    attributes = (
        NumericAttribute("number", (Decimal(0), Decimal(CELLS - 1)), one, one, one),
        CategoricalAttribute("category", Hierarchy.from_rows(sorted(leaves)), one),
    )
    rows = np.arange(ROWS)
    codes = np.column_stack([rows % CELLS, np.where(rows % RARE, rows % K, rows)])
    table = Table("warming", ("id",), attributes, (), K)
    initial_groups(Microdata(table, codes, None, np.empty((ROWS, 0), dtype=np.int64), ()), k_anonymity(K), 0)
