"""Whose turn it is to compute, among the shards of one worker, and how long a shard has waited for it."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType


class Turn(AbstractContextManager[None]):
    """One shard's view of the lock that it shares with the others, which keeps count of how long it waits for it.

    Entered in the shard's thread, asked from any.
    """

    def __init__(self, shared: threading.Lock) -> None:
        self._shared = shared
        self._waited = 0.0
        self._waiting_since: float | None = None

    @property
    def seconds_waited(self) -> float:
        """All the time that the shard has waited for its turn."""
        since = self._waiting_since
        return self._waited if since is None else self._waited + monotonic() - since

    def __enter__(self) -> None:
        self._waiting_since = since = monotonic()
        self._shared.acquire()
        self._waiting_since = None
        self._waited += monotonic() - since

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.release()
