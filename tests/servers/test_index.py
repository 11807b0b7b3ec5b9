"""`streamer index` on a live table of four shards, and what it is for: `verify --source --index`, end to end."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from click.testing import CliRunner, Result

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.errors import Conflict
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups
from worlds.checkout import PATIENTS, ROOT
from worlds.kafka_and_redis import fresh_name, make_topics

SHARDS = 4
SECONDS_MAX = 240.0


class LiveTable:
    """Forty patients in four shards of real servers, kept by one worker."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.folder = folder
        self._kafka = ["--kafka", servers.kafka_bootstrap]
        self._redis = ["--redis", servers.redis_url]
        shutil.copytree(PATIENTS, folder)
        self.name = fresh_name()
        text = (folder / "table.yaml").read_text()
        (folder / "table.yaml").write_text(text.replace("table: patients", f"table: {self.name}"))
        make_topics(servers.kafka_bootstrap, self.name, SHARDS)

    @property
    def rows(self) -> Path:
        return self.folder / "rows.csv"

    def run(self, command: str, *arguments: object) -> Result:
        servers = {
            "status": [*self._kafka, *self._redis], "index": self._redis, "verify": [],
        }.get(command, self._kafka)  # fmt: skip
        return CliRunner().invoke(main, [command, "--table", str(self.folder), *servers, *map(str, arguments)])

    def report(self, command: str, *arguments: object) -> dict[str, Any]:
        result = self.run(command, *arguments, "--json")
        assert result.exit_code == 0, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    def worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamer.cli.main", "worker", "--table", str(self.folder)]
        return subprocess.Popen(
            [*command, *self._kafka, *self._redis], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
        )


def until(reached: Callable[[], bool]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not reached():
        assert monotonic() < deadline
        sleep(0.2)


@pytest.fixture(scope="module")
def live(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTable]:
    table = LiveTable(servers, tmp_path_factory.mktemp("live") / "table")
    assert table.run("produce", table.rows).exit_code == 0
    worker = table.worker()
    try:
        until(lambda: json.loads(table.run("status", "--json").stdout)["total"]["messages"] == 40)
        yield table
    finally:
        worker.terminate()
        worker.wait(SECONDS_MAX)


@pytest.mark.gate("verify")
def test_a_live_table_of_four_shards_is_verified_against_its_source(live: LiveTable, tmp_path: Path) -> None:
    changelog, index = tmp_path / "live.jsonl", tmp_path / "index.csv"
    assert live.run("subscribe", "--live", changelog).exit_code == 0
    report = live.report("index", "--out", index)
    assert (report["rows"], report["pending"], len(report["shards"])) == (40, 0, SHARDS)
    verified = live.report("verify", changelog, "--source", live.rows, "--index", index)
    assert (verified["rows"], verified["laws"]) == (40, 14)


def test_the_index_names_every_source_key_once_with_a_qi_group_that_is_published(
    live: LiveTable, tmp_path: Path
) -> None:
    assert live.run("index", "--out", tmp_path / "index.csv").exit_code == 0
    with open(tmp_path / "index.csv") as file:
        index = {row["key"]: row["qi_group"] for row in csv.DictReader(file)}
    with open(live.rows) as file:
        assert sorted(index) == sorted(row["id"] for row in csv.DictReader(file))
    shown = live.run("subscribe", "--json")
    assert set(index.values()) == {row["qi_group"] for row in json.loads(shown.stdout)["table"]}


def test_an_index_that_moved_a_person_is_found_out(live: LiveTable, tmp_path: Path) -> None:
    changelog, index = tmp_path / "live.jsonl", tmp_path / "index.csv"
    live.run("subscribe", "--live", changelog)
    live.run("index", "--out", index)
    header, first, *others = index.read_text().splitlines()
    key, name = first.split(",")
    other = next(line.split(",")[1] for line in others if line.split(",")[1] != name)
    index.write_text("\n".join([header, f"{key},{other}", *others]))
    result = live.run("verify", changelog, "--source", live.rows, "--index", index)
    assert result.exit_code == 1
    assert "law 'values' is broken" in result.stderr


def test_a_table_that_changes_without_a_pause_is_refused_after_some_readings(
    live: LiveTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    def moved(store: RedisLookups) -> tuple[Meta, list[tuple[str, int]]]:
        readings.append(store.shard)
        raise Conflict("somebody committed")

    monkeypatch.setattr(RedisLookups, "index_table", moved)
    monkeypatch.setattr("streamer.cli.operate.index.AGAIN_SECONDS", 0)
    result = live.run("index", "--out", tmp_path / "index.csv")
    assert result.exit_code == 2
    assert len(readings) == 10
    assert "stop its worker meanwhile" in result.stderr
    assert not (tmp_path / "index.csv").exists()


def test_a_table_that_redis_does_not_know_is_said(servers: Servers, tmp_path: Path) -> None:
    arguments = ["index", "--table", str(PATIENTS), "--redis", servers.redis_url, "--out", str(tmp_path / "i.csv")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Redis holds no shard of patients" in result.stderr
