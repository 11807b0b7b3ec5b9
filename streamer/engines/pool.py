"""A pool of processes, or of Spark's executors, over a private folder, in which every step leaves its result.

The folder holds raw rows: it is its owner's alone (mode 700), and is removed at the end and after every error. It stays
only if the job was killed at once (SIGKILL, a power cut). Then the same command goes on with the first step that has
left no result. A lock keeps a second job out. So does one of the folder of the table that is being written, which lies
next to OUT until all its files are there and checked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import re
import secrets
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from streamer.errors import ConfigError, StreamerError, UsageError, lacks_memory
from streamer.progress import OnProgress, unheard

T = TypeVar("T")

LOCAL, SPARK = "local", "spark"
"""The engines."""

LEFT_BYTES = 8
"""Of chance in the name that a folder has while it is removed."""

OURS = re.compile(
    r"lock|job|\.?chance|results|source|pieces|counts|alike|leaves|fragments|prepared|(routed|regions)-\d|index"
)
"""The files that a private folder may hold: any other is somebody's, and is not removed."""


LOCK = ".lock"
OURS_IN_DRAFT = re.compile(r"(\.[0-9a-f]+-)?part-\d+\.parquet|\.lock")
"""The files that a folder that is being written may hold."""

FEWER = "call with fewer --workers or --fragment-rows"


class NotFinished(StreamerError):
    """A process of the pool failed, and not because of the data or the command line."""

    hint = "call the command again; if it fails in the same way, report the place that the message names"


@contextmanager
def private_folder(path: Path, job: bytes) -> Iterator[bool]:
    """A folder for one job, which no other job may use; yields whether a process that was killed has begun the job.

    job: says which job it is; results of another one are removed. Raises UsageError if the folder holds anything else,
    belongs to somebody else, or is in use.
    """
    for left in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 2 * LEFT_BYTES}"):  # of a process that was killed here
        shutil.rmtree(left, ignore_errors=True)
    lock = _locked(path)
    try:
        name = path / "job"
        begun = name.exists() and name.read_bytes() == job
        if not begun:
            _emptied(path)
            name.write_bytes(job)
        yield begun
    finally:
        _removed(path)
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
    if not all(map(OURS.fullmatch, entries)) or ("job" not in entries and entries - {"lock"}):
        raise UsageError(f"{path}: holds other files; name a folder that is empty or not there by --spill")
    if (lock := _lock_on(path / "lock")) is None:
        raise UsageError(f"{path}: another process works in it; wait for that one, or name another --spill") from None
    return lock


def _removed(path: Path) -> None:
    """Removes a folder, under another name: executors that a signal has left behind may still write into it."""
    path = path.absolute()
    with suppress(OSError):  # in a folder of somebody else, or a mounted disk
        path = path.rename(path.parent / f".{path.name}.{secrets.token_hex(LEFT_BYTES)}")
    shutil.rmtree(path, ignore_errors=True)


def _emptied(path: Path) -> None:
    """Removes all that a folder holds but its lock."""
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name.lstrip(".") != "lock":
            entry.unlink()


def _lock_on(path: Path) -> int | None:
    """The open lock of a file, which is made if it is not there; None if another process has it."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


@contextmanager
def draft_of(out: Path, begun: bool) -> Iterator[Path]:
    """A folder next to OUT that gets its name at the end. Raises UsageError if another job writes one.

    What a killed process has left of it stays if this is the same job (begun), else it is removed.
    """
    draft = out.with_name(f".{out.name}.draft")
    try:
        draft.mkdir(exist_ok=True)
        if draft.is_symlink() or not all(map(OURS_IN_DRAFT.fullmatch, (entry.name for entry in draft.iterdir()))):
            raise UsageError(f"{draft}: is needed to write {out}, and holds other files; name another OUT")
        if (lock := _lock_on(draft / LOCK)) is None:
            raise UsageError(f"{draft}: another job writes {out}; wait for that one, or name another OUT")
        if not begun:
            _emptied(draft)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from None
    try:
        yield draft
    finally:
        with suppress(OSError):  # it has got its name, and what is there now is another job's
            if os.path.samestat(os.fstat(lock), (draft / LOCK).stat()):
                shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def appear(draft: Path, out: Path) -> None:
    """Gives the folder its name. Raises ConfigError if the disk has no room for what waits to be written."""
    old = out.with_name(f".{out.name}.old")
    try:
        for path in filter(lambda path: not path.name.startswith("."), draft.iterdir()):
            _on_disk(path)
        for path in draft.glob(".*"):  # the lock, and what a process that was killed has not finished
            path.unlink()
        _on_disk(draft)
        shutil.rmtree(old, ignore_errors=True)
        if out.exists():
            os.replace(out, old)
        os.replace(draft, out)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise not_written(out, error, ", or name another OUT") from None


def _on_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class CallPool(AbstractContextManager["CallPool"], Protocol):
    """Calls functions elsewhere; keeps results by stage and number."""

    def map(
        self, stage: str, call: Callable[..., T], calls: Sequence[tuple[Any, ...]], on_progress: OnProgress = unheard
    ) -> list[T]:
        """The results of `call(*arguments)`, in the order of the calls; what is there from an earlier process stays.

        Raises what a call raises; NotFinished for an error that is none of ours, without its words: they may hold a
        value of a row.
        """


class ProcessPool(CallPool):
    """Calls functions in processes of this machine."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._kept = _Kept(folder)
        self._processes = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
        )

    def __exit__(self, *_: object) -> None:
        for process in list((self._processes._processes or {}).values()):
            process.kill()  # what it does is of no use any more; a finished one has nothing to lose
        self._processes.shutdown(wait=True, cancel_futures=True)

    def map(
        self, stage: str, call: Callable[..., T], calls: Sequence[tuple[Any, ...]], on_progress: OnProgress = unheard
    ) -> list[T]:
        """As in `CallPool`."""
        missing = self._kept.missing(stage, len(calls))
        try:
            waiting: set[Future[None]] = {
                self._processes.submit(_call, call, calls[number], self._kept.path(stage, number)) for number in missing
            }
            while waiting:
                on_progress(1 - len(waiting) / len(calls))
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
        except BrokenProcessPool:
            raise NotFinished(f"a process of the pool was killed: if by lack of memory, {FEWER}") from None
        return self._kept.results(stage, len(calls))


class SparkPool(CallPool):
    """Calls functions in the executors of a Spark session, which all see the private folder under the same path.

    Calls and arguments are in the folder, not in Spark: so no plan, log or page of Spark holds a value of a row, or
    chance. If an executor dies, Spark repeats its call, which writes the same files.
    """

    def __init__(self, folder: Path, session: Any, shared: Sequence[Path] = ()) -> None:
        """shared: other paths that the executors must see; all paths are absolute."""
        self._kept, self._session = _Kept(folder), session
        self._shared = [str(path) for path in (folder / "results", *shared)]

    def __exit__(self, *_: object) -> None: ...

    def map(
        self, stage: str, call: Callable[..., T], calls: Sequence[tuple[Any, ...]], on_progress: OnProgress = unheard
    ) -> list[T]:
        """As in `CallPool`."""
        missing = self._kept.missing(stage, len(calls))
        for number in missing:
            path = self._kept.path(stage, number)
            written(path.with_suffix(".call"), (call, calls[number], path))
        asked, shared = [str(self._kept.path(stage, i).with_suffix(".call")) for i in missing], self._shared

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            from streamer.engines.pool import called_from_file  # found by the executor's own installation

            unseen = [number for number, path in enumerate(shared) if not os.path.exists(path)]
            for batch in batches:
                for number in () if unseen else batch.column(0).to_pylist():
                    called_from_file(Path(asked[number]))
                yield type(batch).from_pydict({"id": unseen[:1]}, schema=batch.schema)

        if asked:
            rows = self._session.range(0, len(asked), 1, len(asked))
            try:
                unseen = rows.mapInArrow(work, "id long").toArrow().column(0).to_pylist()
            except Exception as error:  # an executor that dies again and again; it may quote our code, and no value
                raise NotFinished(f"Spark has given up a step: {type(error).__name__}; its log says why") from None
            if unseen:
                raise UsageError(
                    f"{shared[unseen[0]]}: an executor of Spark does not see this; all machines must have the source,"
                    " OUT and --spill under the same paths, such as on a network file system"
                )
        on_progress(1.0)
        for path in (self._kept.path(stage, number).with_suffix(".error") for number in missing):
            if path.exists():
                raise pickle.loads(path.read_bytes())
        return self._kept.results(stage, len(calls))


class _Kept:
    """Results by stage and number, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, stage: str, number: int) -> Path:
        return self._folder / f"{stage}-{number:06}"

    def missing(self, stage: str, calls: int) -> list[int]:
        return [number for number in range(calls) if not self.path(stage, number).exists()]

    def results(self, stage: str, calls: int) -> list[Any]:
        return [pickle.loads(self.path(stage, number).read_bytes()) for number in range(calls)]


def forget(folder: Path, stage: str, number: int) -> None:
    """Has a call be made again, as what it has written is not there any more."""
    _Kept(folder).path(stage, number).unlink(missing_ok=True)


def called_from_file(path: Path) -> None:
    """Makes a call that is described by a file, and leaves its result, or its error, beside it."""
    call, arguments, result = pickle.loads(path.read_bytes())
    try:
        _call(call, arguments, result)
    except StreamerError as error:
        written(result.with_suffix(".error"), error)


def _call(call: Callable[..., object], arguments: tuple[Any, ...], path: Path) -> None:
    """Calls, and keeps the result."""
    try:
        written(path, call(*arguments))
    except StreamerError:
        raise
    except FileNotFoundError as error:  # somebody has tidied up
        raise NotFinished(f"{error.filename or path.parent.parent}: was there, and is gone") from None
    except OSError as error:
        raise not_written(path.parent.parent, error) from None
    except Exception as error:
        if lacks_memory(error):
            raise NotFinished(f"a process of the pool got no more memory: {FEWER}") from None
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise NotFinished(f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}") from None


def not_written(
    path: Path, error: OSError, otherwise: str = ", or name a folder on another disk by --spill"
) -> ConfigError:
    """The error of a folder that cannot be written; otherwise: what helps a full disk, other than room."""
    full = f"; make room{otherwise}" if error.errno == errno.ENOSPC else ""
    why = os.strerror(error.errno) if error.errno else "an error of the disk"
    return ConfigError(f"{path}: cannot be written: {why}{full}")


def written(path: Path, value: object) -> None:
    """Writes a value, whole or not at all."""
    with whole_file(path) as draft:
        draft.write_bytes(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file that gets its name when the block ends without an error. Two may write one: Spark repeats calls."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f".{secrets.token_hex(8)}-{path.name}")
    yield draft
    os.replace(draft, path)


def _begin(parent: int) -> None:
    """Begins a process: it leaves Ctrl-C to the one that started it, and ends with that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
