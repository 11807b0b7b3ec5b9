"""What is said of a run: sentences, facts, tables and pictures, for commands, for Python's prompt and for notebooks.

Commands print such lines by `streamer.cli.support.tables`. A typed result of a call from Python says the same lines: as
plain text at the prompt, as HTML in a notebook. Nothing in them is markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple, TypeAlias

FIGURES = ("cells", "refused rows", "k", "QI groups", "NCP", "suppressed", "rows left out", "its NCP")
"""Columns whose headings begin so are right-aligned."""


class Grid:
    """A table; bare: without lines, a column of names and columns of figures."""

    def __init__(self, *headings: str, rows: Iterable[Sequence[str]] = (), bare: bool = False) -> None:
        self.headings, self.rows, self.bare = headings, list(rows), bare

    def add_row(self, *cells: str) -> None:
        """Adds a row; cells that it lacks at its end are empty."""
        self.rows.append(cells)

    def are_figures(self, column: int) -> bool:
        """True for a column that is right-aligned."""
        return column > 0 if self.bare else self.headings[column].startswith(FIGURES)


class Picture(NamedTuple):
    """A drawing for notebooks; uri: its data."""

    title: str
    uri: str


Shape: TypeAlias = "str | Mapping[str, object] | Grid | Picture"
"""A sentence; facts; a table; or a picture."""


class Shown:
    """A result that says itself."""

    def lines(self) -> Iterable[Shape]:
        """What is said, line by line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(text for line in self.lines() for text in _texts(line))

    def _repr_html_(self) -> str:
        return "\n".join(map(_html, self.lines()))


def _texts(line: Shape) -> Iterator[str]:
    if isinstance(line, str):
        yield line
    elif isinstance(line, Mapping):
        yield from fact_texts(line)
    elif isinstance(line, Grid):
        rows = [line.headings, *([*row, *[""] * (len(line.headings) - len(row))] for row in line.rows)]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        for row in rows:
            padded = (
                cell.rjust(width) if line.are_figures(column) else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield "  ".join(padded).rstrip()


def _html(line: Shape) -> str:
    if isinstance(line, str):
        return f"<p>{escape(line)}</p>"
    if isinstance(line, Picture):
        return f'<p>{escape(line.title)}<br><img src="{escape(line.uri)}" alt="{escape(line.title)}"></p>'
    if isinstance(line, Mapping):
        facts = (f"<tr><th>{escape(name)}</th><td>{escape(text_of(value))}</td></tr>" for name, value in line.items())
        return f"<table>{''.join(facts)}</table>"
    head = "".join(f"<th>{escape(heading)}</th>" for heading in line.headings)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in line.rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def fact_texts(facts: Mapping[str, object]) -> Iterator[str]:
    """Names and values, one pair per line."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        yield f"{name:>{width}}  {text_of(value)}"


def text_of(value: object) -> str:
    """A value as people read it: whole numbers by thousands."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def named(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts under names for people instead of those for programs.

    >>> named({"qi_groups": 3})
    {'QI groups': 3}
    """
    return {name.replace("_", " ").replace("qi group", "QI group"): value for name, value in facts.items()}


def figure(value: float | None) -> str:
    """A measure as a text for a narrow column.

    >>> figure(3), figure(0.123456), figure(1234567.0), figure(None)
    ('3', '0.1235', '1.235e+06', '-')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def plural(count: int, what: str) -> str:
    """A number of things; what: the name of one.

    >>> plural(1, "row"), plural(0, "QI group"), plural(1234, "message")
    ('1 row', '0 QI groups', '1,234 messages')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"
