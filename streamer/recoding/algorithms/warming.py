"""Compiling the default algorithm ahead: as a table that says no more than k needs it, and where values are counted.

Its loops are typed by the model, not by the table: a small table with a number and a hierarchy calls all of them. What
counts sensitive values is compiled apart from the rest: a table asks for it whose `privacy` names them, and so does
every report of a table that has them, which tells what more privacy would cost.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import initial_groups
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Diversity, KeptColumn, Table

K, WARMING_ROWS, WARMING_CELLS, WARMING_VALUES = 2, 40, 10, 5
WARMING_RARE = 7
"""Every so many rows one has a leaf of its own: rare leaves have an order of their own."""


def compile_default() -> None:
    """Runs it once, under k alone."""
    _run(_table())


def compile_counting() -> None:
    """Runs it once where it counts sensitive values."""
    demands = Diversity(l=K, beta=Decimal("0.5"))
    _run(replace(_table(), kept=(KeptColumn("value", sensitive=True),), diversity=demands))


def _table() -> Table:
    one = Decimal(1)
    leaves = [(f"leaf {leaf}", f"node {leaf % 3}", "*") for leaf in range(WARMING_ROWS)]
    attributes = (
        NumericAttribute("number", (Decimal(0), Decimal(WARMING_CELLS - 1)), one, one, one),
        CategoricalAttribute("category", Hierarchy.from_rows(sorted(leaves)), one),
    )
    return Table("warming", ("id",), attributes, (), K)


def _run(table: Table) -> None:
    rows = np.arange(WARMING_ROWS)
    codes = np.column_stack([rows % WARMING_CELLS, np.where(rows % WARMING_RARE, rows % K, rows)])
    values = (
        np.column_stack([rows % WARMING_VALUES for _ in table.kept])
        if table.kept
        else np.empty((WARMING_ROWS, 0), np.int64)
    )
    texts = tuple(tuple(b"%d" % value for value in range(WARMING_VALUES)) for _ in table.kept)
    initial_groups(Microdata(table, codes, None, values, texts), model_of(table), 0)
