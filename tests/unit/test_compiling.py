"""Compiling in the background: begun where nothing is compiled, by one process, of the lowest priority."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.cli.batch import warm
from streamer.cli.main import main
from streamer.compiling import NICENESS, is_coming, wait_while_coming, warm_in_background
from streamer.numba_support.cache import folder, is_there, mark, only_maker
from worlds.small_tables import AGE, CITY, table

PEOPLE = table(AGE, CITY)
CORE = "core-float32"


@dataclass
class Started:
    """The commands that were started, and how; none of them is."""

    pid: int = field(default_factory=os.getpid)
    commands: list[list[str]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    niceness: list[int] = field(default_factory=list)

    def start(self, words: list[str], **options: Any) -> Started:
        self.commands.append(words)
        self.options = options
        return self

    def wait(self) -> int:
        return 0

    def set_priority(self, which: int, who: int, niceness: int) -> None:
        assert (which, who) == (os.PRIO_PROCESS, self.pid)
        self.niceness.append(niceness)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    folder.cache_clear()
    started = Started()
    monkeypatch.setattr(subprocess, "Popen", started.start)
    monkeypatch.setattr(os, "setpriority", started.set_priority)
    yield started
    folder.cache_clear()


def test_what_the_table_needs_is_compiled_by_a_silent_process_of_low_priority_that_outlives_its_parent(
    started: Started,
) -> None:
    assert warm_in_background(PEOPLE) == started.pid
    [words] = started.commands
    assert words[1:] == ["-m", "streamer.cli.main", "warm", "--core", "float32"]
    assert {started.options[stream] for stream in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
    assert started.options["start_new_session"] is True
    assert started.niceness == [NICENESS]


def test_who_cannot_do_without_it_says_how_kind_the_process_is(started: Started) -> None:
    warm_in_background(PEOPLE, niceness=0)
    assert started.niceness == [0]


def test_machine_code_is_coming_as_long_as_it_is_missing_and_somebody_is_at_it(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever waits for it would wait for ever."""
    assert not is_coming(PEOPLE, None)
    assert is_coming(PEOPLE, os.getpid())
    with only_maker(CORE):
        assert is_coming(PEOPLE, None)

    def nobody(process: int, signal: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", nobody)
    assert not is_coming(PEOPLE, os.getpid())


def test_machine_code_that_is_there_is_not_coming(started: Started) -> None:
    mark(CORE)
    assert not is_coming(PEOPLE, os.getpid())


def test_nothing_is_started_where_the_machine_code_is_there(started: Started) -> None:
    mark(CORE)
    assert warm_in_background(PEOPLE) is None
    assert started.commands == []


def test_nothing_is_started_while_another_process_is_at_it(started: Started) -> None:
    with only_maker(CORE):
        assert warm_in_background(PEOPLE) is None
    assert started.commands == []


def test_nothing_is_started_where_nothing_is_compiled(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert warm_in_background(PEOPLE) is None
    assert started.commands == []


def test_nothing_is_started_where_nothing_can_be_kept(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    folder.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"uncompiled.*kept nowhere; name a folder of your own by NUMBA_CACHE_DIR"):
        assert warm_in_background(PEOPLE) is None
    assert started.commands == []


def test_a_compiler_that_ends_without_machine_code_is_told_of(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was killed for want of memory, or found the disk full: else nobody would know why a worker is slow."""
    monkeypatch.setattr(started, "wait", lambda: -9)
    with pytest.warns(RuntimeWarning, match=r"uncompiled.*ended with code -9; `streamer warm`"):
        warm_in_background(PEOPLE)
        for thread in threading.enumerate():
            if thread.name == "warming":
                thread.join()


def test_who_waits_for_the_machine_code_goes_on_when_it_is_there_or_nobody_makes_it_any_more(started: Started) -> None:
    looks: list[float] = []

    def look_again(seconds: float) -> None:
        looks.append(seconds)
        mark(CORE)

    wait_while_coming(PEOPLE, None, look_again)
    assert looks == []
    wait_while_coming(PEOPLE, os.getpid(), look_again)
    assert len(looks) == 1


def test_the_words_that_are_started_make_the_set_that_was_missing(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "warming_calls", lambda figures: iter([]))
    warm_in_background(PEOPLE)
    [[_python, _m, module, *words]] = started.commands
    assert module == "streamer.cli.main"
    assert CliRunner().invoke(main, words).exit_code == 0
    assert is_there(CORE)
