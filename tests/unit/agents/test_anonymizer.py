"""The process that anonymizes regions: what it answers, and that it neither hangs nor outlives its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from itertools import chain
from typing import NoReturn

import numpy as np
import pytest

from agents.anonymizer import Anonymizer, Job, NotAnonymized, RebuildThrottle, answered
from streamer.table.encode import EncodedRows
from worlds.checkout import ROOT
from worlds.small_tables import TABLES
from worlds.workers import wait_until

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
    one = Anonymizer(TABLE)
    yield one
    one.close()


def process() -> int:
    """The id of the one process that anonymizes for this one."""
    fields = ("ps", "--no-headers", "-o", "pid,stat,args", "--ppid", str(os.getpid()))
    lines = [line.split(None, 2) for line in subprocess.run(fields, capture_output=True, text=True).stdout.splitlines()]
    (found,) = (int(pid) for pid, state, args in lines if "agents.anonymizer" in args and state[0] != "Z")
    return found


def grouped(job: Job) -> list[list[int]]:
    return sorted(sorted(group.tolist()) for group in job.result.result(60).groups)


def test_every_row_is_in_a_group_and_another_region_takes_the_same_process(anonymizer: Anonymizer) -> None:
    first = grouped(anonymizer.submit(rows(20), "mondrian", 1))
    pid = process()
    assert sorted(chain.from_iterable(first)) == list(range(20))
    assert min(map(len, first)) >= 2
    assert grouped(anonymizer.submit(rows(20), "mondrian", 1)) == first
    assert grouped(anonymizer.submit(rows(0), "mondrian", 1)) == []
    assert process() == pid


def test_it_is_ready_as_soon_as_its_process_runs_and_not_while_that_is_at_work(anonymizer: Anonymizer) -> None:
    assert not anonymizer.is_ready()
    wait_until(anonymizer.is_ready, 60, lambda: "no process has started")
    pid = process()
    os.kill(pid, signal.SIGSTOP)
    job = anonymizer.submit(rows(20), "mondrian", 1)
    wait_until(lambda: anonymizer.busy, 60, lambda: "the job has not begun")
    assert not anonymizer.is_ready()
    os.kill(pid, signal.SIGCONT)
    job.result.result(60)
    assert process() == pid


def test_where_no_process_comes_to_be_whoever_has_a_region_is_told_so(
    anonymizer: Anonymizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    wait_until(anonymizer.is_ready, 60, lambda: "no start has failed")
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


def test_an_error_that_nobody_foresaw_is_told_without_its_text() -> None:
    class Failing(EncodedRows):
        @property
        def codes(self) -> NoReturn:
            raise KeyError(CANARY)

    said = answered(TABLE, Failing.__new__(Failing), "mondrian", 1)
    assert isinstance(said, str)
    assert said.startswith("an unforeseen error: KeyError in test_anonymizer.py")
    assert "Canary" not in said


def test_a_process_that_ended_is_started_again(anonymizer: Anonymizer) -> None:
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]
    os.kill(process(), signal.SIGKILL)
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]


def test_what_nobody_waits_for_any_more_is_killed_and_what_follows_is_done(anonymizer: Anonymizer) -> None:
    assert grouped(anonymizer.submit(rows(2), "mondrian", 1)) == [[0, 1]]
    os.kill(former := process(), signal.SIGSTOP)
    stuck, waiting, wanted = (anonymizer.submit(rows(2), "mondrian", seed) for seed in (1, 2, 3))
    wait_until(lambda: anonymizer.busy, 60, lambda: "the first job has not begun")
    anonymizer.abandon(waiting)
    anonymizer.abandon(stuck)
    with pytest.raises(CancelledError):
        stuck.result.result(60)
    assert waiting.result.cancelled()
    assert grouped(wanted) == [[0, 1]]
    assert process() != former


def started_for(worker: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "agents.anonymizer", str(worker)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)


def test_the_process_ends_with_its_worker() -> None:
    """However the worker ended: the kernel closes the pipe between them."""
    with started_for(os.getpid()) as its:
        assert its.stdin is not None
        its.stdin.close()
        assert its.wait(120) == 0


def test_it_ends_where_its_worker_was_killed_whatever_it_waits_for() -> None:
    """Its pipes are ours and stay open: only its parent shows that the worker has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    with started_for(ended.pid) as orphan:
        assert orphan.wait(120) == 1
