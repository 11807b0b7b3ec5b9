"""The process in which a worker has regions of its shards anonymized anew, apart from the batches that go on meanwhile.

The rules of this file
----------------------
* A process, not a thread: an algorithm holds Python's lock between its compiled loops, and so would the compiler on a
  machine that has no machine code yet. It is the kindest of processes (nice 10): batches go first.
* One per worker, one region after the other, whichever shards they are of. It starts when it is first asked whether it
  is ready, or with the first region, and ends when nobody has asked for IDLE_SECONDS, or its worker is gone: then its
  input ends.
* One region of a worker at a time, from when it is read until it is replaced: so no two shards are kept from their
  changes at once, and little changes between the two. After a region none is begun for as long as it was in work
  (`Pace`): so changes keep half of their usual speed over a rebuild, however many regions it has.
* What goes over its two pipes is pickled: both ends are this very program. Source keys and exact texts stay behind,
  since no algorithm sees them.
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
from typing import BinaryIO

import numpy as np

from streamer.errors import StreamerError
from streamer.grouping import first_groups, groups_anew, groups_by
from streamer.incremental.shard.steps import told
from streamer.numba_support.cache import PACKAGE
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table

NICENESS, IDLE_SECONDS = 10, 60.0
PARENT_SECONDS = 1.0
"""How often the process looks whether its worker is still there."""

STARTS_MAX = 2
"""A process that ended by itself, for want of work or of memory, is started once more."""


FIRST = ""
"""In place of an algorithm's name: the rows are a shard's first, and may have no QI group at all."""

Answer = tuple[Ints, Ints, float] | str


class NotAnonymized(StreamerError):
    """A region could not be anonymized; the message says why, and holds no value."""


@dataclass(frozen=True)
class Regrouped:
    """The new QI groups of a region, as arrays of row numbers, and the seconds that the algorithm took."""

    groups: list[Ints] = field(repr=False)
    seconds: float


class RebuildThrottle:
    """Of all regions of one worker; used in its event loop only. now: seconds, of a clock that never goes back."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._holder: object = None
        self._began = self._rests_until = 0.0

    def begins(self, holder: object) -> bool:
        """Whether `holder` may begin a region now; from then on nobody else may, until it `ends`."""
        now = self._now()
        if self._holder is not None or now < self._rests_until:
            return False
        self._holder, self._began = holder, now
        return True

    def ends(self, holder: object) -> None:
        """The region is replaced, or given up; nothing if another one is in work."""
        if self._holder is holder:
            now = self._now()
            self._holder, self._rests_until = None, now + (now - self._began)


class Anonymizer:
    """The other process, from its worker's side; to be asked from any thread."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="anonymizer")
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._at_work: object = None
        """The job that is under way."""
        self._closed = False
        self._starting: Future[object] | None = None
        self._starts = 0
        self.pace = RebuildThrottle()

    def is_ready(self) -> bool:
        """Whether a region would be begun at once. Where there is no process, one is started.

        Also if none has come to be after STARTS_MAX times: whoever has a region done is told so.
        """
        if self._starting is not None and not self._starting.done():
            return False
        with self._lock:
            if self._at_work is not None or self._closed:
                return False
            if self._starts == STARTS_MAX or (self._process is not None and self._process.poll() is None):
                self._starts = 0
                return True
        self._starts += 1
        self._starting = self._thread.submit(self._started)
        return False

    def submit(self, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Job:
        """New QI groups for all rows. The job's result raises NotAnonymized.

        standing: of a region that is rebuilt; groups stay as they are where the answer is not worth it.
        """
        job = Job(self, EncodedRows([], rows.codes, rows.values, [], rows.individuals), algorithm, seed, standing)
        job.result = self._thread.submit(self._run, job)
        return job

    @property
    def busy(self) -> bool:
        """Whether a job is under way."""
        return self._at_work is not None

    def abandon(self, job: Job) -> None:
        """Nobody waits for this job any more: if it is under way, its process is killed."""
        job.result.cancel()
        with self._lock:
            if self._at_work is job and self._process is not None:
                job.abandoned = True
                self._process.kill()

    def close(self) -> None:
        """Ends the process, and whatever it is at."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._thread.submit(self._let_go)
        self._thread.shutdown(wait=False)

    def _run(self, job: Job) -> Regrouped:
        for _ in range(STARTS_MAX):
            try:
                answer = self._asked(self._started(job), job)
            except (OSError, EOFError, pickle.UnpicklingError):
                with self._lock:
                    self._let_go()
                if job.abandoned:
                    raise CancelledError from None
            else:
                return regrouped(answer)
            finally:
                with self._lock:
                    self._at_work = None
        raise NotAnonymized("the process that anonymizes ended in the middle of its work: has it run out of memory?")

    def _started(self, job: Job | None = None) -> subprocess.Popen[bytes]:
        """The process, which is started where there is none; it is at work on `job` from here on."""
        with self._lock:
            if self._closed:
                raise CancelledError
            if self._process is None or self._process.poll() is not None:
                self._let_go()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "agents.anonymizer", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=PACKAGE.parent,
                )
                fresh = True
            else:
                fresh = False
            self._at_work = job
            process = self._process
        if fresh:
            with suppress(OSError, EOFError):  # one that does not even begin shows when it is asked
                _put(_pipe(process.stdin), self._table)
                pickle.load(_pipe(process.stdout))
        return process

    def _asked(self, process: subprocess.Popen[bytes], job: Job) -> Answer:
        _put(_pipe(process.stdin), (job.rows, job.algorithm, job.seed, job.standing))
        answer: Answer = pickle.load(_pipe(process.stdout))
        return answer

    def _let_go(self) -> None:
        """Lets go of a process that has ended, or does not speak any more."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        process.wait()


class Job:
    """One region that is to be anonymized; result: its new QI groups, as soon as they are there."""

    def __init__(
        self, of: Anonymizer, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None
    ) -> None:
        self.rows, self.algorithm, self.seed, self.standing = rows, algorithm, seed, standing
        self.abandoned = False
        self.result: Future[Regrouped]
        self._of = of

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._of.abandon(self)


def regrouped(answer: Answer) -> Regrouped:
    """What the other process has answered. Raises NotAnonymized."""
    if isinstance(answer, str):
        raise NotAnonymized(answer)
    members, sizes, seconds = answer
    return Regrouped(np.split(members, np.cumsum(sizes)[:-1]) if len(sizes) else [], seconds)


def _pipe(pipe: object) -> BinaryIO:
    return pipe  # type: ignore[return-value]  # both were asked for


def _put(pipe: BinaryIO, what: object) -> None:
    pickle.dump(what, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


# -- the other side ---------------------------------------------------------------------------------------------------


def serve(worker: int) -> None:
    """The process itself: a table, then regions until there are none; answers on what was its standard output.

    worker: the process that asks, which this one does not outlive.
    """
    threading.Thread(target=_end_with, args=(worker,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the worker ends this by its pipe
    os.nice(NICENESS)
    with os.fdopen(os.dup(1), "wb") as answers, os.fdopen(0, "rb") as questions:
        os.dup2(2, 1)  # nothing that a library prints gets between the answers
        with suppress(EOFError, BrokenPipeError):
            table = pickle.load(questions)
            _put(answers, None)  # nothing is asked before: what is read ahead of a question would not wake `select`
            while select.select([questions], [], [], IDLE_SECONDS)[0]:
                _put(answers, answered(table, *pickle.load(questions)))


def _end_with(worker: int) -> None:
    """Ends this process, whatever it is at, once its parent is another one than the worker."""
    while os.getppid() == worker:
        sleep(PARENT_SECONDS)
    os._exit(1)


def answered(table: Table, rows: EncodedRows, algorithm: str, seed: int, standing: Ints | None = None) -> Answer:
    """Members of all QI groups, one group after the other, the groups' sizes, and seconds; or what went wrong."""
    began = perf_counter()
    try:
        if algorithm == FIRST:
            groups = first_groups(table, rows, seed)
        elif standing is None:
            groups = groups_by(table, rows, algorithm, seed)
        else:
            groups = groups_anew(table, rows, standing, algorithm, seed)
    except StreamerError as error:
        return str(error)
    except Exception as error:
        return f"an error that nobody foresaw: {told(error)}"
    members = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
    return members, np.array([len(group) for group in groups], dtype=np.int64), perf_counter() - began


if __name__ == "__main__":
    serve(int(sys.argv[1]))
