"""Progress callbacks: called with the fraction done.

Only work that takes minutes reports a fraction (the `ordered` algorithm, and several runs of it); of other work the
name of its stage and a clock are shown. No result depends on the callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic

OnProgress = Callable[[float], None]  # called with the fraction of the work that is done, from 0 to 1

Stage = Callable[[str], AbstractContextManager[OnProgress]]
"""Shows a stage of the work by its name; what it yields is told the share that is done."""


def unheard(done: float) -> None:
    """No progress reporting."""


class Stopwatch:
    """The stages of a work that nobody watches; `seconds`: how long each took, by name, rounded."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock

    @contextmanager
    def stage(self, name: str) -> Iterator[OnProgress]:
        """A stage of the work; yields a callback for the fraction done, for work that takes minutes."""
        started = self._clock()
        yield self.next(name)
        self.seconds[name] = round(self._clock() - started, 3)

    def next(self, name: str) -> OnProgress:
        """Begins a part of the work that lasts until the next one, and is not timed."""
        return unheard


def part_of(on_progress: OnProgress, begin: float, end: float) -> OnProgress:
    """The callback for a part of the work that lies between two fractions of the whole.

    >>> part_of(print, 0.5, 1.0)(0.5)
    0.75
    """
    return lambda done: on_progress(begin + (end - begin) * done)


def pieces(n: int, some: int, on_progress: OnProgress) -> Iterator[slice]:
    """Slices of n things, `some` at a time; reports the fraction done after each.

    >>> for piece in pieces(5, 2, print):
    ...     print(piece.start, piece.stop)
    0 2
    0.4
    2 4
    0.8
    4 5
    1.0
    """
    for begin in range(0, n, some):
        end = min(n, begin + some)
        yield slice(begin, end)
        on_progress(end / n)
