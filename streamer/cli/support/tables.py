"""Sentences, facts and tables for people: fitted to the terminal, and in full width into a file or a pipe.

Sentences are broken between words on a terminal, what follows under their beginning, and are whole in a file or a pipe,
for `grep`. Nothing in them is markup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, TextIO

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

PIPE_WIDTH = 160
FIGURES = ("cells", "refused rows", "k", "QI groups", "NCP", "suppressed", "its NCP")
"""How the headings of columns of figures begin."""
COLUMNS = 80
"""Where a terminal does not say how wide it is."""


def say(text: str, indent: int = 2, err: bool = False) -> None:
    """Prints a sentence; its further lines begin `indent` columns farther right than it does."""
    for line in fitted(text, sys.stderr if err else sys.stdout, indent):
        click.echo(line, err=err)


def fitted(text: str, stream: TextIO, indent: int = 2) -> Iterable[str]:
    """The lines of a sentence there; the further ones begin `indent` columns farther right than it does."""
    return _broken(text, _columns(stream), indent) if stream.isatty() else [text]


def say_facts(facts: Mapping[str, object]) -> None:
    """Prints what there is to say under each name, one below the other."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        said = f"{value:,}" if isinstance(value, int) else str(value)
        say(f"{name:>{width}}  {said}", indent=len(name) + 2)  # beside the blanks that it begins with


def shards_named(numbers: Iterable[int]) -> str:
    """Shards by their numbers.

    >>> shards_named([3]), shards_named([0, 1])
    ('shard 3', 'shards 0, 1')
    """
    said = [str(number) for number in numbers]
    return f"shard{'s' * (len(said) > 1)} {', '.join(said)}"


def named(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts of a program's names by those that people read.

    >>> named({"qi_groups": 3})
    {'QI groups': 3}
    """
    return {name.replace("_", " ").replace("qi group", "QI group"): value for name, value in facts.items()}


def grid_of(*headings: str) -> Table:
    """A table with these columns, in which figures stand below one another."""
    return Table(*(Column(one, justify="right" if one.startswith(FIGURES) else "left") for one in headings))


def print_table(table: Table) -> None:
    """Prints a table as wide as the terminal allows."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(width=width, markup=False, highlight=False).print(table)


def figure(value: float | None) -> str:
    """A measure in a narrow column.

    >>> figure(3), figure(0.123456), figure(1234567.0), figure(None)
    ('3', '0.1235', '1.235e+06', '-')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def interval(lo: str, hi: str, are_figures: bool) -> str:
    """What is published of a cell or a box in one column, by its ends; dates have dashes of their own.

    >>> interval("20", "24", True), interval("2020-01-01", "2020-01-31", False), interval("7", "7", True)
    ('20-24', '2020-01-01 to 2020-01-31', '7')
    """
    return lo if lo == hi else f"{lo}{'-' if are_figures else ' to '}{hi}"


def so_many(count: int, what: str) -> str:
    """So many of something, by the name of one.

    >>> so_many(1, "row"), so_many(0, "QI group"), so_many(1234, "message")
    ('1 row', '0 QI groups', '1,234 messages')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def _broken(text: str, columns: int, indent: int) -> Iterator[str]:
    """The lines of a text on a terminal; what begins one of them with blanks goes on under its beginning."""
    for line in text.splitlines():
        begun = line[: len(line) - len(line.lstrip())]
        yield from wrap(
            line,
            columns,
            subsequent_indent=" " * (len(begun) + indent),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _columns(stream: TextIO) -> int:
    told = os.environ.get("COLUMNS", "")
    return int(told) if told.isdigit() else os.get_terminal_size(stream.fileno()).columns or COLUMNS


def shown_range(box: dict[str, Any], name: str) -> str:
    """What a box says of one attribute, in one column."""
    from streamer.table.published.rows import interval_columns  # numpy with it, for which `--help` does not wait

    if name in box:
        return msgspec.json.decode(box[name], type=str)
    texts = [bytes(box[column]).decode() for column in interval_columns(name)]
    lo, hi = (text.strip('"') for text in texts)
    return interval(lo, hi, are_figures=texts == [lo, hi])
