"""Holds Ctrl-C and SIGTERM back during a short block."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM take effect at the end of the block.

    For steps that belong together, and for calls of a library in C that runs Python code and drops its exceptions: a
    KeyboardInterrupt there would be lost.
    """
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []

    def wait(number: int, _frame: FrameType | None) -> None:
        if came.count(signal.SIGTERM) and number == signal.SIGTERM:  # the second one ends the process at once
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        came.append(number)

    former = {one: signal.signal(one, wait) or signal.SIG_DFL for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
        for number in came:
            signal.raise_signal(number)
