"""Ctrl-C between two pieces of work instead of within one.

The first Ctrl-C ends the work behind the piece that is in hand, so that what was done can be said. It ends a wait for
the next piece at once. The second one ends everything, as ever.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class StopSign:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._asked, self._waiting = Event(), False

    @property
    def is_up(self) -> bool:
        return self._asked.is_set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Takes Ctrl-C for the time of the block."""
        if current_thread() is not main_thread():  # nobody presses it there
            yield
            return
        former = signal.signal(signal.SIGINT, self.press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, former)

    def press(self, _signal: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
        """What a Ctrl-C does. Raises KeyboardInterrupt where nothing is in hand, and the second time."""
        again = self._asked.is_set()
        self._asked.set()
        if again or self._waiting:
            raise KeyboardInterrupt

    def until_up(self, pieces: Iterable[T]) -> Iterator[T]:
        """The pieces, up to the one that is in hand at Ctrl-C."""
        remaining, end = iter(pieces), object()
        while not self.is_up:
            self._waiting = True
            try:
                piece = next(remaining, end)
            except KeyboardInterrupt:
                return
            finally:
                self._waiting = False
            if piece is end:
                return
            yield piece  # type: ignore[misc]

    def sleep(self, seconds: float) -> None:
        """Waits, at most until Ctrl-C."""
        self._asked.wait(seconds)
