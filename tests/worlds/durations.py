"""How long every test took the last time it ran: written beside the checkout's other leftovers, read to run well.

The file holds seconds: {"quick": {test: seconds}, "gate": ..., "night": ...}, each test where it runs first. A run
renews what it ran. Processes that share a run begin with what took longest, so that none ends long before the others.

`python -m worlds.durations`, a step of the night, writes tests/durations.json, which is kept with the tests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from worlds.checkout import ROOT

DURATIONS = ROOT / ".durations.json"
WRITTEN = ROOT / "tests/durations.json"
SLOW_SECONDS = 0.1
PARTS = ("quick", "gate", "night")
SERVERS = "tests/servers/"
ALONE = SERVERS + "pipeline/"
"""A folder whose tests share servers that are too large to be there twice: it runs in one process, as a file does."""
TOGETHER = (ALONE, "tests/house/")
"""Such folders; rules of the house share the source of the project, which takes seconds to read."""


def shared_by(test: str) -> str:
    """What runs in one process, of which a test is a part: its file, or its folder."""
    return next((folder for folder in TOGETHER if test.startswith(folder)), test.partition("::")[0])


def recorded(path: Path = DURATIONS) -> dict[str, dict[str, float]]:
    """The seconds of former runs, of the gate's tests and of the night's."""
    former: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {when: former.get(when, {}) for when in PARTS}


def written_down(seconds: dict[str, dict[str, float]]) -> Any:
    """What tests/durations.json holds: {"quick": seconds, "gate": seconds, "slow": {test: seconds}}.

    A test of the gate that takes SLOW_SECONDS is slow, and `make quick` leaves it out.
    """
    tests = seconds["quick"] | seconds["gate"]
    slow = {test: round(taken, 2) for test, taken in sorted(tests.items()) if taken >= SLOW_SECONDS}
    quick = sum(taken for test, taken in seconds["quick"].items() if test not in slow)
    return {"quick": round(quick), "gate": round(sum(tests.values())), "slow": slow}


@cache
def slow() -> frozenset[str]:
    """The tests that were slow when that was written down."""
    return frozenset(json.loads(WRITTEN.read_text(encoding="utf-8"))["slow"]) if WRITTEN.exists() else frozenset()


def longest_first(items: list[pytest.Item], path: Path = DURATIONS) -> None:
    """Sorts tests by how long their files take.

    Without a record those of servers come first: they wait much.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for tests in recorded(path).values():
        for test, taken in tests.items():
            seconds[shared_by(test)] += taken
    items.sort(key=lambda item: (-seconds[shared_by(item.nodeid)], not item.nodeid.startswith(SERVERS)))


class Durations:
    """A plugin of pytest that records how long setup, call and teardown of every test take together."""

    def __init__(self, path: Path = DURATIONS) -> None:
        self._path = path
        self._taken = {when: defaultdict[str, float](float) for when in PARTS}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        when = (
            "night" if "night" in report.keywords else "gate" if {"servers", "slow"} & {*report.keywords} else "quick"
        )
        self._taken[when][report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not any(self._taken.values()):
            return
        ran = {test for tests in self._taken.values() for test in tests}
        seconds = {
            when: {test: taken for test, taken in former.items() if test not in ran}
            | {test: round(taken, 3) for test, taken in self._taken[when].items()}
            for when, former in recorded(self._path).items()
        }
        self._path.write_text(json.dumps(seconds, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        sums = ", ".join(f"{when} {sum(tests.values()) / 60:.1f} min" for when, tests in seconds.items())
        terminalreporter.write_line(f"durations, one test after the other: {sums} ({self._path})")


if __name__ == "__main__":
    last = recorded()
    if last["quick"] and last["gate"]:
        WRITTEN.write_text(json.dumps(written_down(last), indent=0) + "\n", encoding="utf-8")
    else:
        print(f"{WRITTEN} stays as it is: `make test` has not run in this checkout")
