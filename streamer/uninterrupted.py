"""The end of a process by a signal: held back during a short block, or after the block has cleaned up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, current_thread, main_thread
from types import FrameType

ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end a process, and that it can handle: of an operator, a terminal, a limit, a scheduler of jobs."""


abandoned = Event()
"""Set if a thread runs that may do so for long: a command then ends without it. It leaves nothing half done."""


told_to_end = Event()
"""Set once one of ENDS has come: a library in C may have lost the exception that it raised."""


class Terminated(BaseException):
    """A signal has arrived; no Exception, so that handlers of errors let it pass."""


@contextmanager
def cleaned_up() -> Iterator[None]:
    """The signals of ENDS raise Terminated in the block, so that it cleans up; then the process ends by the signal.

    A second one ends the process at once. A handler that is installed already, or an ignored signal, stays as it is.
    """
    handled = [one for one in ENDS if signal.getsignal(one) is signal.SIG_DFL]
    if current_thread() is not main_thread() or not handled:
        yield
        return
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        for one in handled:
            signal.signal(one, signal.SIG_DFL)
        came.append(number)
        told_to_end.set()
        raise Terminated

    for one in handled:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in handled:
            signal.signal(one, signal.SIG_DFL)
        if came:  # even if the block caught Terminated
            flush()
            signal.raise_signal(came[0])


def flush() -> None:
    """Writes what waits for stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe without a reader, or a closed stream
            stream.flush()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and the signals of ENDS take effect at the end of the block.

    For steps that belong together, and for calls of a library in C that runs Python code and drops its exceptions: a
    KeyboardInterrupt there would be lost.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []

    def wait(number: int, _frame: FrameType | None) -> None:
        if number in came and number in ENDS:  # the second one ends the process at once
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        came.append(number)

    former = {one: signal.signal(one, wait) or signal.SIG_DFL for one in (signal.SIGINT, *ENDS)}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
        for number in came:
            signal.raise_signal(number)
