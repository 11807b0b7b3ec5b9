"""What the demo shows: headlines, a line of counts that moves, and the rows of a few QI groups before and after.

On a terminal the counts are one line with a bar; anywhere else a line now and then, without control characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as Grid
from rich.text import Text

from agents.demo.reader import PublishedGroup
from streamer.cli.tables import interval
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.schema import Table

WIDTH = "140"  # of a file or a pipe
LINE_SECONDS = 2.0

Show = Callable[[int, str], None]
"""Told how many messages are done, and the counts in words."""


class _CountedProgress(Progress):
    """A bar with a line of counts below."""

    counts = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(self.counts, style="dim")


class Screen:
    """Standard output, for people."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        if not self._live:
            os.environ.setdefault("COLUMNS", WIDTH)  # for the commands that are run here, too
        self._console = Console(highlight=False, markup=False)

    def headline(self, text: str) -> None:
        self._console.print()
        self._console.print(text, style="bold")

    def say(self, text: str) -> None:
        self._console.print(text)

    def command(self, words: str) -> None:
        """A command of `streamer` whose output follows."""
        self._console.print(f"$ streamer {words}", style="cyan", soft_wrap=True)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Show]:
        """A bar, or a line every two seconds, and a last line in any case."""
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn())
        with _CountedProgress(*columns, console=self._console, transient=True, disable=not self._live) as bar:
            task = bar.add_task(what, total=total)
            shown_at, last = monotonic(), (0, "")

            def show(done: int, counts: str) -> None:
                nonlocal shown_at, last
                last = done, counts
                bar.counts = counts
                bar.update(task, completed=done)
                if not self._live and monotonic() - shown_at > LINE_SECONDS:
                    shown_at = monotonic()
                    self.say(f"{what} {done:,}/{total:,}  {counts}")

            yield show
        self.say(f"{what} {last[0]:,}/{total:,}  {last[1]}")

    def change(
        self, table: Table, before: Mapping[str, PublishedGroup], after: Mapping[str, PublishedGroup], limit: int
    ) -> None:
        """The published rows of some QI groups, as a difference: gone -, new +, the others as they stay."""
        names = [attribute.name for attribute in table.attributes] + [column.name for column in table.kept]
        grid = Grid("", "QI group", "slot", *(name.replace("_", " ") for name in names))
        lines = list(difference(before, after))
        for mark, qi_group, slot, row in lines[:limit]:
            style = {"-": "red", "+": "green"}.get(mark, "")
            cells = [mark, qi_group, str(slot), *_cells(table, row)]
            grid.add_row(*(Text(cell, style=style) for cell in cells))
        if len(lines) > limit:
            grid.caption = f"{len(lines) - limit} more rows of these QI groups changed with them"
        self._console.print(grid)


def difference(
    before: Mapping[str, PublishedGroup], after: Mapping[str, PublishedGroup]
) -> Iterator[tuple[str, str, int, Mapping[str, object]]]:
    """Mark, QI group, slot and row of all rows: " " stays, "-" went, "+" came."""
    for name in sorted({*before, *after}):
        was, now = before.get(name, {}), after.get(name, {})
        for slot in sorted({*was, *now}):
            if was.get(slot) == now.get(slot):
                yield " ", name, slot, now[slot]
                continue
            if slot in was:
                yield "-", name, slot, was[slot]
            if slot in now:
                yield "+", name, slot, now[slot]


def _cells(table: Table, row: Mapping[str, object]) -> Iterator[str]:
    for attribute in table.attributes:
        if isinstance(attribute, CategoricalAttribute):
            yield str(row[attribute.name])
        else:
            lo, hi = row[f"{attribute.name}_lo"], row[f"{attribute.name}_hi"]
            yield interval(str(lo), str(hi), isinstance(attribute, NumericAttribute))
    for column in table.kept:
        yield str(row[column.name])
