"""A pool of processes keeps results in a private folder, goes on after it was killed, and repeats nobody's values."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamer.engines.pool import NotFinished, ProcessPool, SparkPool, private_folder
from streamer.errors import ConfigError, UsageError


def noted(folder: Path, number: int) -> int:
    """A call that leaves a mark, so that a second one can be seen."""
    with open(folder / f"mark-{number}", "a") as file:
        file.write("x")
    return number * number


def quoting() -> None:
    raise ValueError("Alice has the flu")


def refusing() -> None:
    raise ConfigError("column 'age': not a number")


def without_room() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def dying() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_who_still_writes_while_a_folder_is_removed_leaves_nothing_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir, late = os.rmdir, tmp_path / "spill" / "pieces" / "late"

    def beaten(path: Any, **more: Any) -> None:
        """Somebody is faster than the removal of an empty folder."""
        with suppress(FileNotFoundError):
            late.write_bytes(b"a row")
        rmdir(path, **more)

    monkeypatch.setattr(os, "rmdir", beaten)
    with private_folder(tmp_path / "spill", b"job"):
        late.parent.mkdir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_results_come_in_the_order_of_the_calls_and_no_call_is_made_twice(tmp_path: Path) -> None:
    calls = [(tmp_path, number) for number in range(5)]
    for _ in range(2):
        with ProcessPool(tmp_path, 2) as pool:
            assert pool.map("squares", noted, calls) == [0, 1, 4, 9, 16]
    assert {path.read_text() for path in tmp_path.glob("mark-*")} == {"x"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (quoting, NotFinished, r"^ValueError in test_pool.py, line \d+$"),
        (refusing, ConfigError, "^column 'age': not a number$"),
        (without_room, ConfigError, "No space left on device; make room, or name a folder on another disk by --spill$"),
        (dying, NotFinished, "killed: if by lack of memory, call with fewer --workers or --fragment-rows$"),
    ],
)
def test_an_error_is_one_sentence_without_a_value(tmp_path: Path, call: object, error: type, words: str) -> None:
    with ProcessPool(tmp_path, 1) as pool, pytest.raises(error, match=words):
        pool.map("failing", call, [()])  # type: ignore[arg-type]


def test_the_folder_is_its_owners_alone_and_is_removed_after_an_error_too(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    for error in (None, ValueError):
        try:
            with private_folder(spill, b"job") as begun:
                assert not begun
                assert spill.stat().st_mode & 0o777 == 0o700
                if error:
                    raise error
        except ValueError:
            pass
        assert not spill.exists()


def left_by_a_killed_job(spill: Path, job: bytes) -> None:
    spill.mkdir(mode=0o700)
    (spill / "lock").touch()
    (spill / "job").write_bytes(job)
    (spill / "results").mkdir()
    (spill / "results" / "read-000000").write_bytes(b"")


def test_the_same_job_goes_on_and_another_one_begins_anew(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    left_by_a_killed_job(spill, b"this")
    with private_folder(spill, b"this") as begun:
        assert begun
        assert (spill / "results" / "read-000000").exists()
    left_by_a_killed_job(spill, b"another")
    with private_folder(spill, b"this") as begun:
        assert not begun
        assert sorted(path.name for path in spill.iterdir()) == ["job", "lock"]


def test_a_folder_that_holds_anything_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    full, link, open_to_all, busy = (tmp_path / name for name in ("full", "link", "open", "busy"))
    full.mkdir(mode=0o700)
    (full / "job").touch()
    (full / "thesis.txt").write_text("years of work")
    open_to_all.mkdir(mode=0o755)
    left_by_a_killed_job(busy, b"job")
    link.symlink_to(busy)
    lock = os.open(busy / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for path, words in ((full, "other files"), (open_to_all, "mode 700"), (link, "mode 700"), (busy, "works in it")):
        with pytest.raises(UsageError, match=f"{words}.*--spill"), private_folder(path, b"job"):
            pass
    assert (full / "thesis.txt").read_text() == "years of work"
    assert (busy / "results").exists()
    os.close(lock)


ORPHANS = """
import os, sys, time
from pathlib import Path
from streamer.engines.pool import ProcessPool
from tests_pool_calls import wait
if __name__ == "__main__":
    with ProcessPool(Path(sys.argv[1]), 1) as pool:
        pool.map("waits", wait, [(Path(sys.argv[1]),)])
"""
WAITS = """
import os, time
def wait(folder):
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.slow
def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "tests_pool_calls.py").write_text(WAITS)
    (tmp_path / "run.py").write_text(ORPHANS)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
    assert within(60, (tmp_path / "pid").exists)
    process.kill()
    process.wait()
    child = Path(f"/proc/{(tmp_path / 'pid').read_text()}")
    assert within(30, lambda: not child.exists())


def within(seconds: float, happens: object) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happens():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_the_next_call_removes_what_a_call_that_was_killed_while_it_tidied_up_has_left(tmp_path: Path) -> None:
    left, others = tmp_path / f".spill.{'0a' * 8}", tmp_path / ".spill.notes"
    for folder in (left, others):
        (folder / "pieces").mkdir(parents=True)
        (folder / "pieces" / "0.arrow").write_bytes(b"a row")
    with private_folder(tmp_path / "spill", b"job"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [others.name]


def test_a_file_that_somebody_has_removed_is_named(tmp_path: Path) -> None:
    with (
        private_folder(tmp_path / "spill", b"job"),
        ProcessPool(tmp_path / "spill", 1) as pool,
        pytest.raises(NotFinished, match=r"gone\.arrow: was there, and is gone"),
    ):
        pool.map("read", Path.read_bytes, [(tmp_path / "gone.arrow",)])


class OneExecutor:
    """A session of Spark whose executor is this process."""

    def range(self, _begin: int, end: int, _step: int, _parts: int) -> OneExecutor:
        self.numbers = pa.record_batch({"id": pa.array(range(end), pa.int64())})
        return self

    def mapInArrow(self, work: Any, _schema: str) -> OneExecutor:
        self.done = pa.Table.from_batches(work(iter([self.numbers])))
        return self

    def toArrow(self) -> pa.Table:
        return self.done


@pytest.mark.parametrize("missing", ["rows.parquet", ".out.draft/.lock", None])
def test_a_path_that_an_executor_does_not_see_is_named(tmp_path: Path, missing: str | None) -> None:
    (tmp_path / "there.csv").touch()
    shared = [tmp_path / "there.csv", *([tmp_path / missing] if missing else [])]
    with private_folder(tmp_path / "spill", b"job"):
        pool = SparkPool(tmp_path / "spill", OneExecutor(), shared)
        if missing is None:
            assert pool.map("square", abs, [(-1,), (-2,)]) == [1, 2]
        else:
            with pytest.raises(UsageError, match=f"{missing}: an executor of Spark does not see this"):
                pool.map("square", abs, [(-1,), (-2,)])
            assert not list((tmp_path / "spill" / "results").glob("square-000000"))
