"""Spark's executors publish the same bytes as processes of one machine, also if one of them is killed in the middle.

Needs Java and pyspark (`pip install 'streamer[spark]'`, or in a folder that PYTHONPATH names), else it is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from worlds.calls import answer
from worlds.checkout import PATIENTS, ROOT, put_streamer
from worlds.documents import block_for

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: Spark is untested")
ROWS, SECONDS_MAX = 4_000, 540
PAGE = "docs/how-to/big-tables.md"
pytestmark = [
    pytest.mark.night,
    pytest.mark.timeout(SECONDS_MAX + 60),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java: Spark is untested"),
]
PATH = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

SCRIPT = """
import sys
from streamer.cli.main import main
main(["anonymize", *sys.argv[1:]])
"""
FRAME = """
import sys
from pyspark.sql import SparkSession
from streamer.spark import anonymize
table, rows, out, index = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
found = anonymize(spark.read.parquet(rows), table, out, index=index, fragment_rows=1000, seed=3)
assert found.published.count() == found.index.count() == found.measures["rows"]
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Patients in several files; some people say what must be in no log."""
    folder, rng = tmp_path_factory.mktemp("patients") / "rows", np.random.default_rng(1)
    folder.mkdir()
    frame = pd.DataFrame(
        {
            "id": [f"canary-{i}" for i in range(ROWS)],
            "age": rng.integers(0, 120, ROWS),
            "zip": rng.integers(10_000, 20_000, ROWS),
            "bmi": rng.integers(100, 600, ROWS) / 10,
            "sex": rng.choice(["Female", "Male"], ROWS),
            "problem": rng.choice(["flu", "bronchitis", "asthma"], ROWS),
        }
    )
    for i, part in enumerate(np.array_split(np.arange(ROWS), 3)):
        frame.iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def expected(rows: Path) -> dict[str, bytes]:
    out = rows.parent / "local"
    answer("anonymize", "--table", PATIENTS, rows, "-o", out, "--fragment-rows", 1000, "--seed", 3)
    return contents(out)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def submitted(folder: Path, script: str, master: str, *words: object) -> subprocess.Popen[str]:
    """A program in Spark; its words and its events go to files."""
    (folder / "script.py").write_text(script)
    events = folder / "events"
    events.mkdir(exist_ok=True)
    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.executorEnv.PYTHONPATH": PATH,
        "spark.executor.memory": "600m",
    }
    submit = [sys.executable, "-m", "pyspark.find_spark_home"]
    home = Path(subprocess.run(submit, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(folder / "script.py"), *map(str, words)]
    with (folder / "spark.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, text=True, env=variables(home))


def variables(home: Path) -> dict[str, str]:
    return {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": PATH}


def finished(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.wait(SECONDS_MAX) == 0, (folder / "spark.log").read_text()[-3000:]
    said = "".join(path.read_text(errors="replace") for path in [folder / "spark.log", *(folder / "events").rglob("*")]
                   if path.is_file())  # fmt: skip
    assert "canary-" not in said
    assert "bronchitis" not in said


def words_for(rows: Path, out: Path) -> list[object]:
    return ["--table", PATIENTS, rows, "-o", out, "--fragment-rows", 1000, "--seed", 3, "--engine", "spark"]


def test_the_command_under_local_spark_publishes_the_same_bytes(
    rows: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    finished(submitted(tmp_path, SCRIPT, "local[2]", *words_for(rows, out)), tmp_path)
    assert contents(out) == expected
    assert not list(tmp_path.glob(".*"))


def test_rows_that_are_recoded_alike_are_the_same_under_spark(rows: Path, tmp_path: Path) -> None:
    how = ["--algorithm", "ola", "--suppression", 0.05]
    local, out = tmp_path / "local", tmp_path / "out"
    answer("anonymize", "--table", PATIENTS, rows, "-o", local, "--fragment-rows", 1000, "--seed", 3, *how)
    finished(submitted(tmp_path, SCRIPT, "local[2]", *words_for(rows, out), *how), tmp_path)
    assert contents(out) == contents(local)


def test_a_data_frame_is_published_as_its_files_are(rows: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    finished(submitted(tmp_path, FRAME, "local[2]", PATIENTS, rows, out, tmp_path / "index.csv"), tmp_path)
    assert contents(out) == expected
    assert not list(tmp_path.glob(".*"))


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone master, and worker processes of one core each."""
    found = [sys.executable, "-m", "pyspark.find_spark_home"]
    home = Path(subprocess.run(found, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, what: str, *words: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", "--webui-port", "0", *words]
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=variables(home), start_new_session=True)
            )

    try:
        start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        address = until(lambda: address_in(folder / "master.log"))
        for i in range(workers):
            work = str(folder / "work")
            start(f"worker-{i}", "worker.Worker", "--cores", "1", "--memory", "700m", "--work-dir", work, address)
        yield address, processes[1:]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def address_in(log: Path) -> str:
    """The address at which the master says that it has started."""
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in lines if "Starting Spark master at" in line), "").rpartition(" ")[2]


def until(happens: object) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := happens():  # type: ignore[operator]
            return str(found)
        time.sleep(0.1)
    raise AssertionError("it was waited for a minute")


def test_a_killed_worker_of_a_cluster_changes_no_byte(rows: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    out, spill = tmp_path / "out", tmp_path / "spill"
    with cluster(tmp_path, 2) as (address, workers):
        process = submitted(tmp_path, SCRIPT, address, *words_for(rows, out), "--spill", spill)
        until(lambda: process.poll() is not None or list(spill.glob("results/fragments-000000")))
        os.killpg(workers[0].pid, signal.SIGKILL)
        finished(process, tmp_path)
    assert contents(out) == expected


def test_the_command_runs_as_the_page_prints_it_on_executors_of_their_own(rows: Path, tmp_path: Path) -> None:
    """Word for word, with its relative paths; what Spark is, its configuration says."""
    printed = block_for(__file__, PAGE, "--engine spark")
    shutil.copytree(PATIENTS, tmp_path / "mine")
    pd.concat(map(pd.read_parquet, sorted(rows.iterdir()))).to_csv(tmp_path / "rows.csv", index=False)
    settings = {"master": "local-cluster[2,1,1024]", "ui.enabled": "false", "executorEnv.PYTHONPATH": PATH}
    (tmp_path / "conf").mkdir()
    text = "".join(f"spark.{name} {value}\n" for name, value in settings.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    places = {"SPARK_CONF_DIR": str(tmp_path / "conf"), "PYTHONPATH": PATH}
    places["PATH"] = f"{put_streamer(tmp_path / 'bin')}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euc", printed], cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True,
        timeout=SECONDS_MAX,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    local = ["--table", tmp_path / "mine", tmp_path / "rows.csv", "-o", tmp_path / "local", "--fragment-rows", 250_000]
    answer("anonymize", *local)
    there, here = (boxes(tmp_path / name) for name in ("anonymous", "local"))
    pd.testing.assert_frame_equal(there, here)


def test_a_data_frame_is_published_as_the_page_prints_it(rows: Path, tmp_path: Path) -> None:
    printed = block_for(__file__, PAGE, "from streamer.spark").replace("/shared", str(tmp_path))
    shutil.copytree(PATIENTS, tmp_path / "mine")
    shutil.copytree(rows, tmp_path / "people")
    script = "from streamer.spark import session\nspark = session('local[2]')\n"
    script += "spark.read.parquet('people').createTempView('people')\n"
    (tmp_path / "printed.py").write_text(f"{script}{printed}print(found.measures['rows'])\n", "utf-8")
    environment = os.environ | {"PYTHONPATH": PATH}
    run = subprocess.run(
        [sys.executable, "printed.py"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=SECONDS_MAX,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines()[-1] == str(ROWS)


def boxes(folder: Path) -> pd.DataFrame:
    """What is published, without the numbers of QI groups, which are drawn anew without a seed."""
    found = pd.read_parquet(folder).drop(columns="qi_group")
    return found.sort_values(found.columns.tolist(), ignore_index=True)
