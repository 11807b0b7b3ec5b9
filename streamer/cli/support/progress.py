"""How far a long command is: one bar on stderr, stage after stage, and how long each stage took.

A stage shows its name and its seconds, and the share that is done if the work reports it. The clock moves in any case:
the bar is drawn by a thread of its own, and machine code releases the GIL. If machine code is compiled first, a line
says so. A bar is drawn on a terminal only, and never with --json.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from streamer.cli.support.tables import fitted
from streamer.progress import OnProgress

COMPILING = "compiling machine code, once for this machine"


class Seconds(ProgressColumn):
    """How long a stage has been at work, in tenths."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0.0:.1f} s")


class Stages:
    """The stages of a command; `seconds` by name, rounded, once a stage is over."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._has_compiled = False
        self.seconds: dict[str, float] = {}

    def say(self, text: str) -> None:
        """A line on stderr, above the bar where there is one."""
        for line in fitted(text, sys.stderr):
            self._progress.console.print(line, soft_wrap=True, highlight=False, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[OnProgress]:
        """A stage of the work; yields a callback for the fraction done, for work that takes minutes."""
        started = perf_counter()
        with _compiler_watched(self._say_compiling):
            yield self.next(name)
        self.seconds[name] = round(perf_counter() - started, 3)

    def next(self, name: str) -> OnProgress:
        """Begins with a part of the work that ends where the next begins, and is not timed."""
        self._progress.remove_task(self._task)  # of one that is reset, the share would stay
        self._task = task = self._progress.add_task(name, total=None)
        return lambda share: self._show(task, share)

    def _show(self, task: TaskID, share: float) -> None:
        if task == self._task:  # else the next part of the work has begun
            self._progress.update(task, total=1.0, completed=share)

    def _say_compiling(self) -> None:
        if not self._progress.disable and not self._has_compiled:
            self.say(COMPILING)
        self._has_compiled = True


@contextmanager
def stages(as_json: bool) -> Iterator[Stages]:
    """A bar for as long as the block runs."""
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), Seconds())
    hidden = is_hidden(as_json)
    console = Console(stderr=True)
    # stdout stays what it is: it may be a file while stderr is a terminal
    with Progress(*columns, console=console, transient=True, disable=hidden, redirect_stdout=False) as progress:
        yield Stages(progress)


@contextmanager
def _compiler_watched(begins: Callable[[], None]) -> Iterator[None]:
    """Calls `begins` whenever numba begins to compile a function; numba that is not loaded yet is left so."""
    if "numba" not in sys.modules:
        yield
        return
    from numba.core.event import Event, Listener, install_listener

    class Begins(Listener):  # type: ignore[misc]
        def on_start(self, event: Event) -> None:
            begins()

        def on_end(self, event: Any) -> None: ...

    with install_listener("numba:compile", Begins()):
        yield


def is_hidden(as_json: bool) -> bool:
    """Whether no bar can be drawn: beside JSON, in a pipe, or where the cursor cannot be moved (TERM=dumb)."""
    return as_json or not Console(stderr=True).is_terminal or Console(stderr=True).is_dumb_terminal
