"""Whose turn it is to compute, among the shards of one worker, and how long a shard has waited for it and had it."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType


class Turn(AbstractContextManager[None]):
    """One shard's view of the lock that it shares with the others, which keeps count of how long it waits and computes.

    Entered in the shard's thread, asked from any.
    """

    def __init__(self, shared: threading.Lock) -> None:
        self._shared = shared
        self._waited = 0.0
        self._computed = 0.0
        self._waiting_since: float | None = None
        self._computing_since: float | None = None

    @property
    def seconds_waited(self) -> float:
        """All the time that the shard has waited for its turn."""
        since = self._waiting_since
        return self._waited if since is None else self._waited + monotonic() - since

    @property
    def seconds_computed(self) -> float:
        """All the time that the shard has had its turn."""
        since = self._computing_since
        return self._computed if since is None else self._computed + monotonic() - since

    def __enter__(self) -> None:
        self._waiting_since = since = monotonic()
        self._shared.acquire()
        self._waiting_since, self._computing_since = None, monotonic()
        self._waited += monotonic() - since

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._computed = self.seconds_computed
        self._computing_since = None
        self._shared.release()
