"""The thread of one shard: its work one call at a time, a limit of time for each, and what of its errors gets out.

The rules of this file
----------------------
* A time limit counts the time in which the shard computes or waits for Redis and Kafka, not that in which it waits for
  its turn while other shards of this worker compute.
* A call that hangs beyond its limit cannot be cancelled, and nobody knows what it still does: the process ends, and a
  supervisor starts it again.
* Errors that are not ours may quote people's values: only their class and place in the code get out of here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

from streamer.errors import StreamerError
from streamer.incremental.shard.steps import told

log = logging.getLogger(__name__)

EXIT_LOST, EXIT_HUNG = 3, 4

Result = TypeVar("Result")


class Unexpected(StreamerError):
    """An error nobody foresaw, told without its text."""

    exit_code = 1


class ComputeLock(AbstractContextManager[None]):
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


class Cpu:
    """How much the thread that made this has computed since; 0 where the system does not tell it of other threads."""

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._clock: int | None = clock_of(get_ident()) if clock_of else None
        self._begun = self._now()

    @property
    def seconds(self) -> float:
        """Asked from any thread, as long as that one lives."""
        return self._now() - self._begun

    def _now(self) -> float:
        if self._clock is None:
            return 0.0
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # the thread has ended since somebody began to ask
            return 0.0


class ShardThread:
    """Runs one shard's calls, in order; used from the worker's event loop. number: the shard's; name: in messages."""

    def __init__(self, number: int, name: str, turn: ComputeLock) -> None:
        self._name = name
        self._turn = turn
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"shard-{number}")
        self._call: Future[Any] | None = None
        self._began = self._waited = self._computed = 0.0
        self._cpu: Cpu | None = None

    @property
    def busy(self) -> bool:
        """Whether a call is running, even one its caller has abandoned."""
        return self._call is not None and not self._call.done()

    @property
    def busy_seconds(self) -> float:
        """How long the call that it is in has computed, or waited for Redis or Kafka; 0 if it is in none."""
        return self._seconds_spent() if self.busy else 0.0

    @property
    def computing_seconds(self) -> float:
        """How long, in that call, it has computed or waited for its turn to, and not for Redis or Kafka.

        What is compiled, and what becomes bytes for the servers, is computed outside of the turn.
        """
        if not self.busy:
            return 0.0
        in_turn, cpu = self._turn.seconds_computed - self._computed, self._cpu
        return max(in_turn, cpu.seconds if cpu else 0.0) + self._turn.seconds_waited - self._waited

    def _seconds_spent(self) -> float:
        return monotonic() - self._began - (self._turn.seconds_waited - self._waited)

    async def run(self, work: Callable[[], Result], seconds_max: float) -> Result:
        """What `work` returns. Raises StreamerError only."""
        self._began, self._waited = monotonic(), self._turn.seconds_waited
        self._computed = self._turn.seconds_computed
        self._cpu = None  # that of the call before
        self._call = call = self._executor.submit(self._counted, work)
        done = asyncio.wrap_future(call)
        try:
            if not await self._ends_within(done, seconds_max):
                end_process(EXIT_HUNG, f"{self._name}: a call did not end within {seconds_max:.0f} s")
                raise TimeoutError
            return done.result()
        except StreamerError:
            raise
        except Exception as error:
            raise unexpected(self._name, error) from None
        finally:
            done.cancel()  # or its error, text and all, would be logged when nobody asks for it any more

    def _counted(self, work: Callable[[], Result]) -> Result:
        """The call, in the shard's thread."""
        self._cpu = Cpu()
        return work()

    async def _ends_within(self, done: asyncio.Future[Any], seconds_max: float) -> bool:
        while not done.done():
            left = seconds_max - self._seconds_spent()
            if left <= 0:
                return False
            await asyncio.wait([done], timeout=left)
        return True

    def close(self, last: Callable[[], object]) -> None:
        """Takes no more calls; one that it is in is let end, then `last` is called."""
        self._executor.submit(last)
        self._executor.shutdown(wait=False)

    def join(self) -> None:
        """Waits until everything has ended."""
        self._executor.shutdown(wait=True)


def unexpected(where: str, error: BaseException) -> Unexpected:
    """An error of ours that says where another one came from, without its text."""
    return Unexpected(f"{where}: unexpected {told(error)}")


def end_process(code: int, why: str) -> None:
    """Ends the process at once: for what cannot be mended while it runs."""
    log.critical("%s: the process ends, to be started again", why)
    logging.shutdown()
    os._exit(code)
