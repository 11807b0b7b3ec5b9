"""SIGTERM and Ctrl-C end a command in order: nothing half written is left."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TypeVar

# SIGTERM ends a command by way of all that is to be put in order, as Ctrl-C does, and then ends the process itself.
#
# Left alone, it would end the process on the spot, and half of a file, a folder for the time being or a hidden cursor
# would stay. Whoever waits for the process sees what it would have seen: ended by SIGTERM, to a shell 143. Compiled
# code is not torn apart, so that it takes as long as the call in hand. The second SIGTERM ends the process on the spot.
# Where it is ignored, or where a program that calls us listens to it, that stays as it is; a worker ends in a way of
# its own.


class Terminated(BaseException):
    """SIGTERM has come. No error: what catches errors lets it pass."""


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """Has SIGTERM raise Terminated in the block, and end the process behind it."""
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    came = Event()

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        came.set()
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came.is_set():  # whatever was made of it on its way here
            _flush()
            signal.raise_signal(signal.SIGTERM)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe that nobody reads, or a stream that is closed
            stream.flush()


# Ctrl-C between two pieces of work instead of within one.
#
# The first Ctrl-C ends the work behind the piece that is in hand, so that what was done can be said. It ends a wait for
# the next piece at once. The second one ends everything, as ever.

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
