"""Tables for people: printed as the terminal allows, and in full width into a file or a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160


def print_table(table: Table) -> None:
    """Prints a table; its cells are texts, and brackets in them are no markup."""
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, markup=False, highlight=False).print(table)


def figure(value: float | None) -> str:
    """A measure in a narrow column.

    >>> figure(3), figure(0.123456), figure(1234567.0), figure(None)
    ('3', '0.1235', '1.235e+06', '-')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
