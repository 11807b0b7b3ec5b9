"""A table of which no QI group is ever made: its k is larger than any table, so all rows are pending.

Where rows are only gathered, the very engine gathers them, with all its rules, and does none of the work on QI groups.
"""

from __future__ import annotations

from dataclasses import replace

from streamer.table.schema import Table

NEVER = 1 << 40
"""More rows than any shard has."""

ENDLESS = NEVER * NEVER
"""More records than a batch may publish where k is NEVER: else every message would be run by itself."""


def all_pending(table: Table) -> Table:
    """The same table as its core has to know it."""
    return replace(table, k=NEVER, limits=replace(table.limits, transaction_rows_max=ENDLESS))
