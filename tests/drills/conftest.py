"""The fixture `drill`, and the table of figures at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drills.drill import COLUMNS, LINE, Drill
from servers.broker.servers import Servers

FIGURES: list[str] = []


@pytest.fixture
def drill(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Drill]:
    """A drill in full swing. Its test says at the end: `drill.finish()`."""
    servers.require_own()
    drill = Drill(request.node.name.removeprefix("test_"), servers, tmp_path)
    try:
        drill.start()
        yield drill
    finally:
        drill.abandon()
        if drill.figures:
            FIGURES.append(drill.figures)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in [LINE.format(*COLUMNS.split()), *FIGURES] if FIGURES else []:
        terminalreporter.write_line(line)
