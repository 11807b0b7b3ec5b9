"""The process that anonymizes regions: what it answers, and that it neither hangs nor outlives its worker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from itertools import chain

import numpy as np
import pytest

from agents.anonymizer import Anonymizer, Job, NotAnonymized, RebuildThrottle, answered
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from worlds.small_tables import TABLES

# One region of a worker at a time, and a rest after each.


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_one_region_of_a_worker_is_in_work_at_a_time() -> None:
    pace = RebuildThrottle(Clock())
    assert pace.begins("one")
    assert not pace.begins("other")
    assert not pace.begins("one")
    pace.ends("other")  # it has none
    assert not pace.begins("other")
    pace.ends("one")
    assert pace.begins("other")


def test_after_a_region_changes_have_as_long_to_themselves_as_it_was_in_work() -> None:
    clock = Clock()
    pace = RebuildThrottle(clock)
    assert pace.begins("one")
    clock.seconds = 10.0
    pace.ends("one")
    clock.seconds = 19.0
    assert not pace.begins("one")
    assert not pace.begins("other")
    clock.seconds = 20.0
    assert pace.begins("other")
    pace.ends("other")  # it took no time
    assert pace.begins("one")


TABLE = TABLES["one number"]
CANARY = b'"Canary-77"'


def rows(n: int) -> EncodedRows:
    codes = np.arange(n, dtype=np.int64).reshape(-1, 1) % 10
    return EncodedRows([f"key {i}" for i in range(n)], codes, [(CANARY,)] * n, [()] * n, [None] * n)


@pytest.fixture
def anonymizer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Anonymizer]:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # of the other process: tiny tables need no compiler
    one = Anonymizer(TABLE)
    yield one
    one.close()


def process_of(anonymizer: Anonymizer) -> subprocess.Popen[bytes]:
    process = anonymizer._process
    assert process is not None
    return process


def grouped(job: Job) -> list[list[int]]:
    return sorted(sorted(group.tolist()) for group in job.result.result(60).groups)


def test_every_row_is_in_a_group_and_another_region_takes_the_same_process(anonymizer: Anonymizer) -> None:
    first = grouped(anonymizer.submit(rows(20), "mondrian", 1))
    pid = process_of(anonymizer).pid
    assert sorted(chain.from_iterable(first)) == list(range(20))
    assert min(map(len, first)) >= 2
    assert grouped(anonymizer.submit(rows(20), "mondrian", 1)) == first
    assert grouped(anonymizer.submit(rows(0), "mondrian", 1)) == []
    assert process_of(anonymizer).pid == pid


def test_it_is_ready_as_soon_as_its_process_runs_and_not_while_that_is_at_work(anonymizer: Anonymizer) -> None:
    assert not anonymizer.is_ready()
    deadline = time.monotonic() + 60
    while not anonymizer.is_ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = process_of(anonymizer).pid
    job = anonymizer.submit(rows(5_000), "mondrian", 1)
    while anonymizer._at_work is None and not job.result.done():
        time.sleep(0.001)
    assert not anonymizer.is_ready() or job.result.done()
    job.result.result(60)
    assert process_of(anonymizer).pid == pid


def test_where_no_process_comes_to_be_whoever_has_a_region_is_told_so(
    anonymizer: Anonymizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    deadline = time.monotonic() + 60
    while not anonymizer.is_ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(NotAnonymized, match="ended in the middle of its work"):
        anonymizer.submit(rows(2), "mondrian", 1).result.result(60)


def test_of_a_region_that_is_rebuilt_groups_stay_that_are_not_worth_their_change(anonymizer: Anonymizer) -> None:
    alike = EncodedRows([], np.zeros((4, 1), dtype=np.int64), [(CANARY,)] * 4, [], [None] * 4)
    job = anonymizer.submit(alike, "mondrian", 1, np.array([0, 1, 0, 1]))
    assert grouped(job) == [[0, 2], [1, 3]]


def test_what_cannot_be_anonymized_is_told_and_the_next_region_is(anonymizer: Anonymizer) -> None:
    with pytest.raises(NotAnonymized, match="the privacy model cannot hold"):
        anonymizer.submit(rows(1), "mondrian", 1).result.result(60)
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]


def test_an_error_that_nobody_foresaw_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(table: Table, given: EncodedRows, algorithm: str, seed: int) -> None:
        raise KeyError(given.values[0])

    monkeypatch.setattr("agents.anonymizer.groups_by", fails)
    said = answered(TABLE, rows(2), "mondrian", 1)
    assert isinstance(said, str)
    assert said.startswith("an error that nobody foresaw: KeyError in test_anonymizer.py")
    assert "Canary" not in said


def test_a_process_that_ended_is_started_again(anonymizer: Anonymizer) -> None:
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]
    process_of(anonymizer).kill()
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]


def test_what_nobody_waits_for_any_more_is_killed_and_what_follows_is_done(anonymizer: Anonymizer) -> None:
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]
    process = process_of(anonymizer)
    process.send_signal(signal.SIGSTOP)
    stuck, waiting, wanted = (anonymizer.submit(rows(2), "mondrian", seed) for seed in (1, 2, 3))
    while anonymizer._at_work is not stuck:
        time.sleep(0.01)
    waiting.abandon()
    stuck.abandon()
    with pytest.raises(CancelledError):
        stuck.result.result(60)
    assert waiting.result.cancelled()
    assert grouped(wanted) == [[0, 1]]
    assert process_of(anonymizer).pid != process.pid


def test_the_process_ends_with_its_worker(anonymizer: Anonymizer) -> None:
    """However the worker ended: the pipe between them is closed by the kernel."""
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]
    process = process_of(anonymizer)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0


def test_it_ends_where_its_worker_was_killed_whatever_it_waits_for() -> None:
    """Its pipes are ours and stay open: only that the parent is another one than the worker tells it."""
    nobody = subprocess.Popen([sys.executable, "-c", ""])
    nobody.wait(60)
    command = [sys.executable, "-m", "agents.anonymizer", str(nobody.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as orphan:
        assert orphan.wait(120) == 1
