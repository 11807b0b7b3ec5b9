"""Signals and Ctrl-C end a command in order: no half-written file, temporary folder or hidden cursor is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TypeVar

from streamer.uninterrupted import Terminated, abandoned, cleaned_up, flush

T = TypeVar("T")

INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended


def interruptible(work: Callable[[], T]) -> T:
    """Calls `work` in another thread, so that a signal and Ctrl-C wait for no call of compiled code or of a server.

    The signal's exception is raised here at once, and cleans up. `work` is not told: it goes on until the process ends,
    which does not wait for it. So it must leave nothing half done wherever it is cut off, as if by SIGKILL.
    """
    from concurrent.futures import ThreadPoolExecutor  # for which `--help` does not wait

    thread = ThreadPoolExecutor(1, thread_name_prefix="work")
    called = thread.submit(copy_context().run, work)
    try:
        return called.result()
    except BaseException:
        if not called.done():
            abandoned.set()
        raise
    finally:
        thread.shutdown(wait=False)


def stop_in(error: BaseException) -> BaseException | None:
    """The Ctrl-C or signal of which code in C has made another error, such as a SystemError; None if there is none."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Terminated | KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """As `cleaned_up`; a call of compiled code ends first, if it is not `interruptible`."""
    try:
        with cleaned_up():
            yield
    except SystemExit as ended:
        if abandoned.is_set():  # the interpreter would wait for its threads
            flush()
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        raise


class StopSign:
    """Ctrl-C between two pieces of work instead of within one.

    The first Ctrl-C lets the present piece finish; it ends a wait for the next piece at once. The second one raises.
    """

    def __init__(self) -> None:
        self._asked, self._waiting = Event(), False

    @property
    def is_up(self) -> bool:
        return self._asked.is_set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Handles Ctrl-C in the block."""
        if current_thread() is not main_thread():  # only the main thread gets signals
            yield
            return
        former = signal.signal(signal.SIGINT, self.press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, former)

    def press(self, _signal: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
        """Handles one Ctrl-C. Raises KeyboardInterrupt while waiting for a piece, and the second time."""
        again = self._asked.is_set()
        self._asked.set()
        if again or self._waiting:
            raise KeyboardInterrupt

    def until_up(self, pieces: Iterable[T]) -> Iterator[T]:
        """The pieces, up to the one that is being worked on at Ctrl-C."""
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
        """Sleeps, at most until Ctrl-C."""
        self._asked.wait(seconds)
