"""The process that anonymizes regions of a worker's shards, while the shards go on with their batches.

The rules of this file
----------------------
* A process, not a thread: an algorithm holds Python's lock between its compiled loops. It runs at nice 10, so
  that batches go first.
* One process per worker, one region after the other. It starts when `is_ready` is first called, or with the first
  region, and ends after IDLE_SECONDS without a region, or with its worker: then its input ends.
* A worker has one region in work at a time, from reading it until it is replaced. So no two shards are kept from their
  changes at once. After a region the worker rests as long as the region took (`RebuildThrottle`): changes keep half of
  their usual speed during a rebuild of any size.
* Its two pipes carry pickles, as both ends are this program. Source keys and exact texts are not sent: no algorithm
  needs them.
* Of an error that is not ours only class and place come back: its text may quote values.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter, sleep
from typing import BinaryIO, cast

import numpy as np

from streamer.errors import StreamerError, lacks_memory, out_of_memory
from streamer.grouping import first_groups, groups_by, regrouped_region
from streamer.incremental.shard.ready import JobDone
from streamer.incremental.shard.steps import told
from streamer.native.library import PACKAGE
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table

NICENESS, IDLE_SECONDS = 10, 60.0
PARENT_SECONDS = 1.0
"""How often the process checks that its worker lives."""

STARTS_MAX = 2
"""How often a process that ended by itself (it was idle, or ran out of memory) is started for one job."""

FIRST = ""
"""Instead of an algorithm's name: the rows are a shard's first, and may form no QI group."""

Answer = tuple[Ints, Ints, float] | str


class NotAnonymized(StreamerError):
    """A region could not be anonymized. The message says why, without a value."""


@dataclass(eq=False)
class Job:
    """One region to anonymize. result: its new QI groups."""

    rows: EncodedRows = field(repr=False)
    algorithm: str
    seed: int
    standing: Ints | None = field(repr=False)
    abandoned: bool = False
    result: Future[JobDone] = field(init=False, repr=False)


class RebuildThrottle:
    """Lets one region of a worker begin at a time, with a rest after each; for the event loop. now: a clock."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._turn: tuple[object, float] = None, 0.0
        """Whose region is in work, and since when; without one, when the rest is over."""

    def begins(self, holder: object) -> bool:
        """True if `holder` may begin a region now; then no other may until it `ends`."""
        (present, rests_until), now = self._turn, self._now()
        if present is not None or now < rests_until:
            return False
        self._turn = holder, now
        return True

    def ends(self, holder: object) -> None:
        """The region of `holder` is replaced or given up; nothing if another one's is in work."""
        (present, began), now = self._turn, self._now()
        if present is holder:
            self._turn = None, now + (now - began)


class Anonymizer:
    """The worker's side of the process; may be used from any thread."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="anonymizer")
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._running: Job | None = None
        self._closed = False
        self._begun: tuple[int, Future[object] | None] = 0, None
        """How often in a row `is_ready` has begun to start the process, and the last of these attempts."""
        self.throttle = RebuildThrottle()

    def is_ready(self) -> bool:
        """True if a region would begin at once; if there is no process, it is started.

        Also true if it could not be started STARTS_MAX times: then `submit` raises.
        """
        starts, last = self._begun
        if last is not None and not last.done():
            return False
        with self._lock:
            if self._running is not None or self._closed:
                return False
            is_ready = starts == STARTS_MAX or (self._process is not None and self._process.poll() is None)
        self._begun = (0, None) if is_ready else (starts + 1, self._thread.submit(self._started))
        return is_ready

    def submit(self, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Job:
        """Has rows put into new QI groups. The job's result raises NotAnonymized.

        standing: for a rebuild, the present groups of the region, which stay if new ones gain too little.
        """
        job = Job(EncodedRows([], rows.codes, rows.values, [], rows.individuals), algorithm, seed, standing)
        job.result = self._thread.submit(self._run, job)
        return job

    @property
    def busy(self) -> bool:
        """True if a job is running."""
        return self._running is not None

    def abandon(self, job: Job) -> None:
        """Cancels a job; if it is running, its process is killed."""
        job.result.cancel()
        with self._lock:
            if self._running is job and self._process is not None:
                job.abandoned = True
                self._process.kill()

    def close(self) -> None:
        """Kills the process."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._thread.submit(self._let_go)
        self._thread.shutdown(wait=False)

    def _run(self, job: Job) -> JobDone:
        for _ in range(STARTS_MAX):
            try:
                process = self._started(job)
                _put(_pipe(process.stdin), (job.rows, job.algorithm, job.seed, job.standing))
                answer: Answer = pickle.load(_pipe(process.stdout))
            except (OSError, EOFError, pickle.UnpicklingError):
                with self._lock:
                    self._let_go()
                if job.abandoned:
                    raise CancelledError from None
            else:
                return regrouped(answer)
            finally:
                with self._lock:
                    self._running = None
        raise NotAnonymized("the process that anonymizes ended in the middle of its work: has it run out of memory?")

    def _started(self, job: Job | None = None) -> subprocess.Popen[bytes]:
        """The process, started if there is none; it works on `job` from now on."""
        with self._lock:
            if self._closed:
                raise CancelledError
            is_new = self._process is None or self._process.poll() is not None
            if is_new:
                self._let_go()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "agents.anonymizer", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=PACKAGE.parent,
                )
            self._running, process = job, cast(subprocess.Popen[bytes], self._process)
        if is_new:
            with suppress(OSError, EOFError):  # if it could not start, the first question shows it
                _put(_pipe(process.stdin), self._table)
                pickle.load(_pipe(process.stdout))
        return process

    def _let_go(self) -> None:
        """Drops a process that has ended or does not answer."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        process.wait()


def regrouped(answer: Answer) -> JobDone:
    """The process' answer. Raises NotAnonymized."""
    if isinstance(answer, str):
        raise NotAnonymized(answer)
    members, sizes, seconds = answer
    return JobDone(np.split(members, np.cumsum(sizes)[:-1]) if len(sizes) else [], seconds)


def _pipe(pipe: object) -> BinaryIO:
    return pipe  # type: ignore[return-value]  # both were asked for


def _put(pipe: BinaryIO, what: object) -> None:
    pickle.dump(what, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


# -- in the process ---------------------------------------------------------------------------------------------------


def serve(worker: int) -> None:
    """Reads a table, then regions until its input ends; answers on its standard output.

    worker: the id of the worker's process, which this one does not outlive.
    """
    threading.Thread(target=_end_with, args=(worker,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the worker ends this process by its pipe
    os.nice(NICENESS)
    with os.fdopen(os.dup(1), "wb") as answers, os.fdopen(0, "rb") as questions:
        os.dup2(2, 1)  # so that a library's print does not get between the answers
        with suppress(EOFError, BrokenPipeError):
            table = pickle.load(questions)
            _put(answers, None)  # the worker waits for it: a question read ahead by the buffer would not wake `select`
            while select.select([questions], [], [], IDLE_SECONDS)[0]:
                _put(answers, answered(table, *pickle.load(questions)))


def _end_with(worker: int) -> None:
    while os.getppid() == worker:
        sleep(PARENT_SECONDS)
    os._exit(1)


def answered(table: Table, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Answer:
    """The members of all QI groups, one group after the other, the groups' sizes, and seconds; or the error's text."""
    began = perf_counter()
    try:
        if algorithm == FIRST:
            groups = first_groups(table, rows, seed)
        elif standing is None:
            groups = groups_by(table, rows, algorithm, seed)
        else:
            groups = regrouped_region(table, rows, standing, algorithm, seed)
    except StreamerError as error:
        return str(error)
    except Exception as error:
        if lacks_memory(error):
            return str(out_of_memory("the process that anonymizes"))
        return f"an unforeseen error: {told(error)}"
    members = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
    return members, np.array([len(group) for group in groups], dtype=np.int64), perf_counter() - began


if __name__ == "__main__":
    serve(int(sys.argv[1]))
