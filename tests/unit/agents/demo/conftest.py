"""What tests of the demo share."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.demo.survey import write_table
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return load_table(write_table(tmp_path, "fair", embedded=True))
