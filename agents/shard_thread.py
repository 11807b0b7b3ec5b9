"""The thread of one shard: its calls run one after the other, each within a time limit.

The rules of this file
----------------------
* A limit counts computing and waiting for Redis and Kafka, not waiting for the compute lock while other shards compute.
* A call that exceeds its limit cannot be cancelled, and what it still does is unknown: the process ends, and a
  supervisor starts it again.
* Errors that are not ours may quote people's values: only their class and their place in the code leave this file.
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
from typing import Any, NamedTuple, TypeVar

from streamer.errors import StreamerError, lacks_memory, out_of_memory
from streamer.incremental.shard.steps import told

log = logging.getLogger(__name__)

EXIT_LOST, EXIT_HUNG = 3, 4

Result = TypeVar("Result")


class Unexpected(StreamerError):
    """An unforeseen error, without its text."""

    exit_code = 1


class _TimesSpent(NamedTuple):
    """Seconds spent on each side of a lock, up to `until`; and on which side time runs now."""

    waited: float = 0.0
    computed: float = 0.0
    waits: bool = False
    computes: bool = False
    until: float = 0.0

    def now(self, waits: bool = False, computes: bool = False) -> _TimesSpent:
        """The same up to now; waits, computes: what begins now."""
        until = monotonic()
        passed = until - self.until
        return _TimesSpent(
            self.waited + passed * self.waits, self.computed + passed * self.computes, waits, computes, until
        )


class ComputeLock(AbstractContextManager[None]):
    """One shard's view of the lock that a worker's shards share, with the seconds that it waited for it and had it.

    Entered in the shard's thread; its figures may be read from any.
    """

    def __init__(self, shared: threading.Lock) -> None:
        self._shared = shared
        self._seconds = _TimesSpent()

    @property
    def seconds_waited(self) -> float:
        return self._seconds.now().waited

    @property
    def seconds_computed(self) -> float:
        return self._seconds.now().computed

    def __enter__(self) -> None:
        self._seconds = self._seconds.now(waits=True)
        self._shared.acquire()
        self._seconds = self._seconds.now(computes=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seconds = self._seconds.now()
        self._shared.release()


class Cpu:
    """CPU time of the thread that made this; 0 if the system does not report it to other threads."""

    def __init__(self) -> None:
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._clock: int | None = clock_of(get_ident()) if clock_of else None

    @property
    def seconds(self) -> float:
        """May be read from any thread."""
        if self._clock is None:
            return 0.0
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # the thread has ended
            return 0.0


class _Call(NamedTuple):
    """A call, and what the thread's figures were when it began."""

    began: float
    waited: float
    computed: float
    cpu: float
    result: Future[Any]


class ShardThread:
    """Runs one shard's calls in order; used from the worker's event loop. number: the shard's; name: for messages."""

    def __init__(self, number: int, name: str, compute_lock: ComputeLock) -> None:
        self._name, self._lock = name, compute_lock
        self._executor = ThreadPoolExecutor(1, f"shard-{number}")
        self._cpu = self._executor.submit(Cpu).result()
        self._call: _Call | None = None

    @property
    def busy(self) -> bool:
        """True if a call is running, even one its caller has abandoned."""
        return self._running is not None

    @property
    def _running(self) -> _Call | None:
        return None if self._call is None or self._call.result.done() else self._call

    @property
    def busy_seconds(self) -> float:
        """Seconds that the call that is running has computed, or waited for Redis or Kafka."""
        return 0.0 if self._running is None else self._seconds_spent()

    @property
    def computing_seconds(self) -> float:
        """Seconds that it has computed, with the compute lock or without it (making bytes), or waited for the lock."""
        call = self._running
        if call is None:
            return 0.0
        with_lock = self._lock.seconds_computed - call.computed
        return max(with_lock, self._cpu.seconds - call.cpu) + self._lock.seconds_waited - call.waited

    def _seconds_spent(self) -> float:
        """Seconds of the last call that count against its limit."""
        if self._call is None:
            return 0.0
        return monotonic() - self._call.began - (self._lock.seconds_waited - self._call.waited)

    async def run(self, work: Callable[[], Result], seconds_max: float) -> Result:
        """Returns what `work` does. Raises StreamerError only."""
        lock = self._lock
        before = monotonic(), lock.seconds_waited, lock.seconds_computed, self._cpu.seconds
        self._call = call = _Call(*before, self._executor.submit(work))
        done: asyncio.Future[Result] = asyncio.wrap_future(call.result)
        try:
            while not done.done():
                left = seconds_max - self._seconds_spent()
                if left <= 0:
                    end_process(EXIT_HUNG, f"{self._name}: a call did not end within {seconds_max:.0f} s")
                    raise TimeoutError
                await asyncio.wait([done], timeout=left)
            return done.result()
        except StreamerError:
            raise
        except Exception as error:
            raise unexpected(self._name, error) from None
        finally:
            done.cancel()  # else asyncio logs an error, with its text, if no one asks for it any more

    def close(self, last: Callable[[], object]) -> None:
        """Takes no more calls. After the one that is running, `last` is called."""
        self._executor.submit(last)
        self._executor.shutdown(wait=False)

    def join(self) -> None:
        """Waits until all calls have ended."""
        self._executor.shutdown(wait=True)


def unexpected(where: str, error: BaseException) -> StreamerError:
    """An error of ours with the class and place of another one, without its text; OutOfMemory if it says that."""
    return out_of_memory(where) if lacks_memory(error) else Unexpected(f"{where}: unexpected {told(error)}")


def end_process(code: int, why: str) -> None:
    """Ends the process at once: for faults that only a new process can repair."""
    log.critical("%s: the process ends, to be started again", why)
    logging.shutdown()
    os._exit(code)
