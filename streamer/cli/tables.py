"""Tables and sentences for people: printed as the terminal allows, and in full width into a file or a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160


def console() -> Console:
    """The standard output. Sentences are broken between words on a terminal, and whole in a file or a pipe, for `grep`.

    Brackets in what is printed are no markup.
    """
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else PIPE_WIDTH, soft_wrap=not terminal, markup=False, highlight=False)


def print_table(table: Table) -> None:
    """Prints a table as wide as the terminal allows."""
    console().print(table)


def figure(value: float | None) -> str:
    """A measure in a narrow column.

    >>> figure(3), figure(0.123456), figure(1234567.0), figure(None)
    ('3', '0.1235', '1.235e+06', '-')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
