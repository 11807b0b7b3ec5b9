"""Progress of a long command: one bar on stderr, stage after stage, and how long each stage took.

A stage shows its name and its seconds, and the share that is done if the work reports it. A thread of its own draws the
bar, so the clock moves even while machine code runs, which releases the GIL.
A bar is drawn on a terminal only, and never with --json.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from streamer.cli.support.tables import as_json, fitted
from streamer.progress import OnProgress, Stopwatch


class Seconds(ProgressColumn):
    """The seconds that a stage has run, with one decimal."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0.0:.1f} s")


class Stages(Stopwatch):
    """The stages of a command, which a bar shows."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.get_time)
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def say(self, text: str) -> None:
        """Prints a line on stderr, above the bar if there is one."""
        for line in fitted(text, sys.stderr):
            self._progress.console.print(line, soft_wrap=True, highlight=False, markup=False)

    def next(self, name: str) -> OnProgress:
        self._progress.remove_task(self._task)  # a task that is only reset would keep its share
        self._task = task = self._progress.add_task(name, total=None)
        return lambda share: self._show(task, share)

    def _show(self, task: TaskID, share: float) -> None:
        if task == self._task:  # else the next part of the work has begun
            self._progress.update(task, total=1.0, completed=share)


@contextmanager
def stages() -> Iterator[Stages]:
    """Shows a bar while the block runs."""
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), Seconds())
    console = Console(stderr=True)
    # stdout is not redirected: it may be a file while stderr is a terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden(), redirect_stdout=False) as progress:
        yield Stages(progress)


def is_hidden() -> bool:
    """True if no bar is drawn: with --json, in a pipe, or if the cursor cannot be moved (TERM=dumb)."""
    console = Console(stderr=True)
    return as_json() or not console.is_terminal or console.is_dumb_terminal
