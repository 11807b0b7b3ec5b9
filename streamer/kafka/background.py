"""A thread beside the others, for calls that nobody waits for at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Background:
    """Runs calls one after the other in a thread of its own; may be used from any thread."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._last: Future[Any] | None = None

    def submit(self, call: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        """Has a call made. Raises RuntimeError after `close`."""
        self._last = result = self._thread.submit(call, *args, **kwargs)
        return result

    @property
    def busy(self) -> bool:
        """True if a call is running or waits: its thread would keep the process from ending."""
        return self._last is not None and not self._last.done()

    def close(self) -> None:
        """Takes no more calls."""
        self._thread.shutdown(wait=False)
