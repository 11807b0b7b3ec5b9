"""The store of a worker's shard: it does not wait until an outbox is trimmed.

A trim says how far its commit is published, so it may arrive late, or never: a later commit's entries stay, and
whoever takes the shard over trims first. To wait for it would cost every batch one more wait for Redis' disk.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from streamer.errors import StreamerError
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import RedisClient


class Trims:
    """The thread that trims, for all shards of a worker; may be used from any thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "trims")
        self._last: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether an outbox is being trimmed, or waits for it."""
        return self._last is not None and not self._last.done()

    def submit(self, trim: Callable[[], None]) -> None:
        """Has an outbox trimmed; if that fails, the next commit of the shard shows why."""
        with suppress(RuntimeError):  # the worker ends
            self._last = self._thread.submit(_tried, trim)

    def close(self) -> None:
        """Takes no more."""
        self._thread.shutdown(wait=False)


def _tried(trim: Callable[[], None]) -> None:
    with suppress(StreamerError):
        trim()


class WorkerStore(RedisStore):
    """One shard's store in Redis, trimmed by another thread."""

    def __init__(self, client: RedisClient, table_name: str, shard: int, trims: Trims) -> None:
        super().__init__(client, table_name, shard)
        self._trims = trims

    def trim(self, fence: str, commit: int) -> None:
        """As in `Store`, but not at once, and no error is raised."""
        trim = super().trim
        self._trims.submit(lambda: trim(fence, commit))
