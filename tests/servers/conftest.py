"""What tests on real servers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from worlds.workers import WorkedTable


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[WorkedTable]:
    world = WorkedTable(servers, tmp_path)
    yield world
    for worker in world.workers:
        worker.kill()
