"""How long every test took the last time it ran: written beside the checkout's other leftovers, read to run well.

The file holds seconds: {"gate": {test: seconds}, "night": {test: seconds}}. A run renews what it ran. Processes
that share a run begin with what took longest, so that none ends long before the others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from worlds.checkout import ROOT

DURATIONS = ROOT / ".durations.json"
SERVERS = "tests/servers/"
ALONE = SERVERS + "pipeline/"
"""A folder whose tests share servers that are too large to be there twice: it runs in one process, as a file does."""


def shared_by(test: str) -> str:
    """What runs in one process, of which a test is a part: its file, or its folder."""
    return ALONE if test.startswith(ALONE) else test.partition("::")[0]


def recorded(path: Path = DURATIONS) -> dict[str, dict[str, float]]:
    """The seconds of former runs, of the gate's tests and of the night's."""
    former: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {"gate": former.get("gate", {}), "night": former.get("night", {})}


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
        self._taken = {when: defaultdict[str, float](float) for when in ("gate", "night")}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._taken["night" if "night" in report.keywords else "gate"][report.nodeid] += report.duration

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
