"""SIGTERM ends a command by way of all that is to be put in order, as Ctrl-C does, and then ends the process itself.

Left alone, it would end the process on the spot, and half of a file, a folder for the time being or a hidden cursor
would stay. Whoever waits for the process sees what it would have seen: ended by SIGTERM, to a shell 143. Compiled code
is not torn apart, so that it takes as long as the call in hand. The second SIGTERM ends the process on the spot. Where
it is ignored, or where a program that calls us listens to it, that stays as it is; a worker ends in a way of its own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, current_thread, main_thread
from types import FrameType


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
