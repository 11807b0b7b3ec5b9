"""`streamer load --engine spark`: executors read, route and group the rows; this process alone writes to the servers.

Needs Java and pyspark (`pip install 'streamer[spark]'`), else it is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from worlds.checkout import ROOT
from worlds.served_patients import as_csv, rows
from worlds.workers import WorkedTable

pytest.importorskip("pyspark", reason="pyspark is not installed: Spark is untested")
pytestmark = [
    pytest.mark.night,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java: Spark is untested"),
]
SECONDS_MAX = 400

SCRIPT = "import sys; from streamer.cli.main import main; main(sys.argv[1:])"


def by_spark(world: WorkedTable, *words: object) -> subprocess.CompletedProcess[str]:
    """A command as `spark-submit --master local[2]` calls it; no server's address reaches an executor."""
    submit = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    spark = {"PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    environment = {**os.environ, **world.environment, **spark}
    call = [sys.executable, "-c", SCRIPT, *map(str, words)]
    return subprocess.run(call, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)


def test_executors_prepare_a_table_and_the_command_writes_it(world: WorkedTable, tmp_path: Path) -> None:
    people, file = rows(600), tmp_path / "rows.parquet"
    frame = pd.read_csv(as_csv(tmp_path / "rows.csv", people), dtype={"id": str})
    frame.to_parquet(file, row_group_size=100)
    done = by_spark(world, "load", file, "--engine", "spark", "--spill", tmp_path / "spill")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "spill").exists()
    assert set().union(*world.source_keys()) == set(people)
    assert world.laws().n_rows == len(people)
    pd.concat([frame, frame.tail(1)]).to_parquet(file, row_group_size=100)
    refused = by_spark(world, "reload", "--from-source", file, "--engine", "spark", "--spill", tmp_path / "spill")
    assert refused.returncode == 2
    assert "data row 601: an earlier row has the same key (id)" in refused.stderr
    assert world.laws().n_rows == len(people)


def test_executors_need_a_folder_and_files_that_they_can_read_in_parts(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(50))
    assert "belong together" in world.refused("load", file, "--engine", "spark")
    assert "belong together" in world.refused("load", file, "--spill", tmp_path / "spill")
    spark = ("--engine", "spark", "--spill", tmp_path / "spill")
    assert "give Parquet" in by_spark(world, "load", file, *spark).stderr
    assert "give Parquet" in by_spark(world, "reload", "--from-source", "topic", *spark).stderr
    assert world.source_keys() == [set()] * len(world.source_keys())
