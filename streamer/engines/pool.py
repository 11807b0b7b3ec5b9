"""A pool of processes over a private folder, in which every step leaves its result, so that a job can go on.

The folder holds raw rows: it is its owner's alone (mode 700), and is removed at the end and after every error. It stays
only if the job was killed at once (SIGKILL, a power cut). Then the same command goes on with the first step that left
no result. A lock keeps a second job out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.progress import OnProgress, unheard

T = TypeVar("T")

WATCHED_S = 1.0
"""How often a process looks whether the one that started it is still there."""


class NotFinished(StreamerError):
    """A process of the pool failed, and not because of the data or the command line."""

    hint = "call the command again; if it fails in the same way, report the place that the message names"


@contextmanager
def private_folder(path: Path, job: bytes) -> Iterator[bool]:
    """A folder for one job, which no other job may use; yields whether a process that was killed has begun the job.

    job: says which job it is; results of another one are removed. Raises UsageError if the folder holds anything else,
    belongs to somebody else, or is in use.
    """
    lock = _locked(path)
    try:
        name = path / "job"
        begun = name.exists() and name.read_bytes() == job
        if not begun:
            _emptied(path)
            name.write_bytes(job)
        yield begun
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _locked(path: Path) -> int:
    """The lock of a folder, which is made if it is not there."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        entries = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be used: {error.strerror}; name another folder by --spill") from None
    if path.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(f"{path}: is no folder that its owner alone can read (mode 700); name another one by --spill")
    if entries and not {"lock", "job"} & entries:
        raise UsageError(f"{path}: holds other files; name a folder that is empty or not there by --spill")
    lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise UsageError(f"{path}: another process works in it; wait for that one, or name another --spill") from None
    return lock


def _emptied(path: Path) -> None:
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


class ProcessPool:
    """Calls functions in processes of their own; `folder`: where results are kept, by stage and number."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._processes = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
        )

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        for process in list((self._processes._processes or {}).values()):
            process.kill()  # what it does is of no use any more; a finished one has nothing to lose
        self._processes.shutdown(wait=True, cancel_futures=True)

    def map(
        self, stage: str, call: Callable[..., T], calls: Sequence[tuple[Any, ...]], on_progress: OnProgress = unheard
    ) -> list[T]:
        """The results of `call(*arguments)`, in the order of the calls; what is there from an earlier process stays.

        Raises what a call raises; NotFinished for an error that is none of ours, without its words: they may hold a
        value of a row.
        """
        paths = [self._folder / f"{stage}-{number:06}" for number in range(len(calls))]
        missing = [number for number, path in enumerate(paths) if not path.exists()]
        try:
            waiting: set[Future[None]] = {
                self._processes.submit(_call, call, calls[number], paths[number]) for number in missing
            }
            while waiting:
                on_progress(1 - len(waiting) / len(calls))
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
        except BrokenProcessPool:
            raise NotFinished(
                "a process of the pool was killed: if by lack of memory, call with fewer --workers or --fragment-rows"
            ) from None
        return [pickle.loads(path.read_bytes()) for path in paths]


def _call(call: Callable[..., object], arguments: tuple[Any, ...], path: Path) -> None:
    """Calls, and keeps the result."""
    try:
        draft = path.with_name(f".{path.name}")
        draft.write_bytes(pickle.dumps(call(*arguments), protocol=pickle.HIGHEST_PROTOCOL))
        os.replace(draft, path)
    except StreamerError:
        raise
    except OSError as error:
        full = "; make room, or name a folder on another disk by --spill" if error.errno == errno.ENOSPC else ""
        raise ConfigError(f"{path.parent.parent}: cannot be written: {error.strerror}{full}") from None
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise NotFinished(f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}") from None


def _begin(parent: int) -> None:
    """Begins a process: it leaves Ctrl-C to the one that started it, and ends with that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCHED_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
