"""Reports of commands: an object for programs (--json), or sentences, facts and tables for people.

Sentences are wrapped on a terminal, and whole in a file or a pipe, for `grep`. $COLUMNS sets the width of a terminal,
and of a table in a pipe. Nothing in them is markup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import click

from streamer.shown import Grid, Picture, Shape, fact_texts
from streamer.shown import figure as figure
from streamer.shown import named as named
from streamer.shown import plural as plural

if TYPE_CHECKING:
    import msgspec
    from rich.table import Table

    from streamer.table.schema import Table as TableSchema

AS_JSON = "streamer.as_json"  # the key in click's context that says whether --json was given
PIPE_WIDTH = 160
FOLDED = 8  # columns that a text needs which may be cut into lines anywhere
COLUMNS = 80  # of a terminal that does not say how wide it is

Line: TypeAlias = "Shape | tuple[str, int] | Table"
"""A sentence, alone or with the indent of its further lines; facts; a table; or a picture, which is not printed."""


def as_json() -> bool:
    """True if the command was called with --json."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(AS_JSON))


def show(values: object, lines: Iterable[Line]) -> None:
    """Prints a report: its values as one JSON object with --json, else its lines, one by one.

    values: a function if they are costly.
    """
    if as_json():
        import msgspec  # for which `--help` does not wait

        click.echo(msgspec.json.Encoder(decimal_format="number").encode(values() if callable(values) else values))
        return
    for line in lines:
        if isinstance(line, str):
            say(line)
        elif isinstance(line, tuple):
            say(*line)
        elif isinstance(line, Mapping):
            say_facts(line)
        elif not isinstance(line, Picture):
            print_table(_table_of(line) if isinstance(line, Grid) else line)


def say(text: str, indent: int = 2, err: bool = False) -> None:
    """Prints a sentence; its further lines are indented by `indent` more columns."""
    stream = sys.stderr if err else sys.stdout
    for line in fitted(text, stream, indent):
        click.echo(line, file=stream)  # by itself click would write UTF-8 where only ASCII is known


def fitted(text: str, stream: TextIO, indent: int = 2) -> Iterable[str]:
    """The lines of a sentence on that stream; further ones are indented by `indent` more columns."""
    return _broken(text, columns_of(stream), indent) if stream.isatty() else [text]


def say_facts(facts: Mapping[str, object]) -> None:
    """Prints names and values, one pair per line."""
    for name, text in zip(facts, fact_texts(facts), strict=True):
        say(text, indent=len(name) + 2)  # `fact_texts` adds the blanks before the name


def shards_named(numbers: Iterable[int]) -> str:
    """Shards by their numbers.

    >>> shards_named([3]), shards_named([0, 1])
    ('shard 3', 'shards 0, 1')
    """
    names = [str(number) for number in numbers]
    return f"shard{'s' * (len(names) > 1)} {', '.join(names)}"


def _table_of(grid: Grid) -> Table:
    from rich.table import Column, Table  # 50 ms, for which `--help` does not wait

    columns = (
        Column(heading, justify="right" if grid.are_figures(number) else "left")
        for number, heading in enumerate(grid.headings)
    )
    bare: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "pad_edge": False} if grid.bare else {}
    return filled(Table(*columns, **bare), grid.rows)


def filled(table: Table, rows: Iterable[Iterable[str]]) -> Table:
    """The table, with these rows."""
    for row in rows:
        table.add_row(*row)
    return table


def print_table(table: Table) -> None:
    """Prints a table as wide as the terminal allows, or $COLUMNS; if words would be cut, with rows as columns."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or _wanted_columns() else PIPE_WIDTH
    console = Console(width=width, markup=False, highlight=False)
    fits = not table.row_count or _least_width(table) <= console.width
    for i, part in enumerate([table] if fits else _transposed(table, console.width)):
        console.print(*[""] * bool(i), part, sep="\n")


def _texts(table: Table) -> list[list[str]]:
    """The heading and the cells of each column."""
    return [[str(column.header).replace("\n", " "), *map(str, column.cells)] for column in table.columns]


def _least_width(table: Table) -> int:
    """The width at which no word is cut; a column that may be folded needs next to none."""
    words = zip(table.columns, _texts(table), strict=True)
    longest = [
        FOLDED if column.overflow == "fold" else max(len(word) for text in texts for word in (text.split() or [""]))
        for column, texts in words
    ]
    return sum(longest) + len(longest) * (3 if table.box else 1) + bool(table.box)


def _transposed(table: Table, width: int) -> Iterator[Table]:
    """Tables with a column for each row of this one, as many side by side as fit."""
    (first, *names), *others = _texts(table)
    room = width - max(len(texts[0]) for texts in [[first], *others])
    widths = [max(map(len, cells)) + 1 for cells in zip(names, *(texts[1:] for texts in others), strict=True)]
    done = 0
    while done < len(names):
        fits = sum(so_far <= room for so_far in accumulate(widths[done:]))
        part = slice(done, done + max(1, fits))
        grid = type(table)(first, *names[part], box=None, padding=(0, 1, 0, 0), pad_edge=False)
        yield filled(grid, ([texts[0], *texts[1:][part]] for texts in others))
        done = part.stop


def interval(lo: str, hi: str, are_figures: bool) -> str:
    """An interval by its ends; are_figures: joined by a dash, which dates have in themselves.

    >>> interval("20", "24", True), interval("2020-01-01", "2020-01-31", False), interval("7", "7", True)
    ('20-24', '2020-01-01 to 2020-01-31', '7')
    """
    return lo if lo == hi else f"{lo}{'-' if are_figures else ' to '}{hi}"


def _broken(text: str, columns: int, indent: int) -> Iterator[str]:
    """The lines of a text on a terminal; those that continue a line keep its indent and get `indent` more columns."""
    for line in text.splitlines():
        further = " " * (len(line) - len(line.lstrip()) + indent)
        yield from wrap(line, columns, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)


def columns_of(stream: TextIO) -> int:
    """The width of a terminal: $COLUMNS, or as it says itself."""
    return _wanted_columns() or os.get_terminal_size(stream.fileno()).columns or COLUMNS


def _wanted_columns() -> int:
    """$COLUMNS as rich and click read it; 0 if it names no width."""
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdigit() else 0


def published_box(table: TableSchema, lo: Sequence[int], hi: Sequence[int]) -> dict[str, msgspec.Raw]:
    """A box as the changelog publishes it: `<column>_lo` and `_hi`, or the label of the node."""
    import msgspec

    from streamer.table.published.rows import box_columns, json_texts

    box: dict[str, msgspec.Raw] = {}
    for attribute, first, last in zip(table.attributes, lo, hi, strict=True):
        box |= {name: msgspec.Raw(text) for name, text in json_texts(box_columns(attribute, first, last)).items()}
    return box


def shown_range(box: dict[str, Any], name: str) -> str:
    """One attribute of a published box, as a text for one column."""
    import msgspec

    from streamer.table.published.rows import interval_columns  # imports numpy, for which `--help` does not wait

    if name in box:
        return msgspec.json.decode(box[name], type=str)
    texts = [bytes(box[column]).decode() for column in interval_columns(name)]
    lo, hi = (text.strip('"') for text in texts)
    return interval(lo, hi, are_figures=texts == [lo, hi])
