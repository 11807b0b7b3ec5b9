"""Someone who is new here brings three messy tables: each comes to a verified live topic without an edit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from streamer.table.sources import read_rows
from worlds.checkout import ROOT, put_streamer
from worlds.kafka_and_redis import fresh_name

MESSY = ROOT / "examples" / "messy"
SECONDS_MAX = 400
"""A hang ends here; on two idle cores one table takes less than half a minute."""


@pytest.fixture
def environment(servers: Servers, tmp_path: Path) -> dict[str, str]:
    """Where `streamer` is this one, and the servers are those of the tests."""
    path = {"PATH": f"{put_streamer(tmp_path / 'bin')}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **servers.environment(), **path}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.parametrize(("rows", "later"), [("hospital.csv", None), ("crm.csv", "crm-later.csv"), ("staff.tsv", None)])
def test_a_messy_table_comes_from_a_file_to_a_verified_topic(
    environment: dict[str, str], tmp_path: Path, rows: str, later: str | None
) -> None:
    data = tmp_path / f"{fresh_name()}{Path(rows).suffix}"  # the topics are named after the file
    shutil.copy(MESSY / rows, data)
    words = [str(MESSY / "ten-minutes.sh"), str(data), str(tmp_path / "table")]
    run = subprocess.run(
        words + ([str(MESSY / later)] if later else []),
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "every law holds" in run.stdout
    published = read_rows(tmp_path / "table" / "published.csv")
    assert len(published) == 300 + (20 if later else 0)
    if later:
        assert "(other)" in set(published["segment"]) or "*" in set(published["segment"])
    if rows == "staff.tsv":
        assert "keys look like another one" in run.stdout
