"""Compiling the default algorithm before it is first needed.

Its loops are typed by the model, not by the table: a small table with one number and one hierarchy calls all of them.
The loops that count sensitive values are compiled separately: for a table whose `privacy` names such values, and for
every report of a table that has them, because a report says what more privacy would cost.
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
"""Every so many rows, one has a leaf of its own: rare leaves have an order of their own."""


def compile_default() -> None:
    """Runs the default algorithm once, under k alone."""
    _run(_table())


def compile_counting() -> None:
    """Runs the default algorithm once under a model that counts sensitive values."""
    diversity = Diversity(l=K, beta=Decimal("0.5"))
    _run(replace(_table(), kept=(KeptColumn("value", sensitive=True),), diversity=diversity))


def _table() -> Table:
    one = Decimal(1)
    leaves = sorted((f"leaf {leaf}", f"node {leaf % 3}", "*") for leaf in range(WARMING_ROWS))
    number = NumericAttribute("number", (Decimal(0), Decimal(WARMING_CELLS - 1)), one, one, one)
    category = CategoricalAttribute("category", Hierarchy.from_rows(leaves), one)
    return Table("warming", ("id",), (number, category), (), K)


def _run(table: Table) -> None:
    rows, n_kept = np.arange(WARMING_ROWS), len(table.kept)
    codes = np.column_stack([rows % WARMING_CELLS, np.where(rows % WARMING_RARE, rows % K, rows)])
    values = np.repeat(rows[:, None] % WARMING_VALUES, n_kept, axis=1)
    texts = (tuple(b"%d" % value for value in range(WARMING_VALUES)),) * n_kept
    initial_groups(Microdata(table, codes, None, values, texts), model_of(table), 0)
