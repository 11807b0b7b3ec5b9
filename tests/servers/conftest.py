"""What tests on real servers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from servers.broker.servers import NoServers, Servers
from servers.browser import Browser, provide
from worlds.workers import WorkedTable


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[WorkedTable]:
    world = WorkedTable(servers, tmp_path)
    yield world
    for worker in world.workers:
        worker.kill()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a screen; skips where it cannot be had."""
    try:
        with FileLock(tmp_path_factory.getbasetemp().parent / "servers.lock"):  # one process at a time installs
            provide()
    except NoServers as sentence:
        pytest.skip(str(sentence))
    browser = Browser()
    yield browser
    browser.quit()
