"""How far a long command is: one bar on stderr, stage after stage, and how long each stage took.

A bar is drawn on a terminal only, and never beside JSON: a program reads its lines, and needs no bar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from streamer.recoding.algorithms.contract import Tick


class Stages:
    """The stages of a command; `seconds` by name, rounded, once a stage is over."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self.seconds: dict[str, float] = {}

    def say(self, text: str) -> None:
        """A line on stderr, above the bar where there is one."""
        self._progress.console.print(text, soft_wrap=True, highlight=False, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[Tick]:
        """A stage of the work; what it yields takes the share that is done."""
        self._progress.reset(self._task, total=None, description=name)
        started = perf_counter()
        yield lambda share: self._progress.update(self._task, total=1.0, completed=share)
        self.seconds[name] = round(perf_counter() - started, 3)


@contextmanager
def stages(as_json: bool) -> Iterator[Stages]:
    """A bar for as long as the block runs."""
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    hidden = as_json or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
        yield Stages(progress)
