"""`streamer index` on a live table of four shards, and what it is for: `verify --source --index`, end to end."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from streamer.cli.operate import index as module
from streamer.errors import Conflict
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups
from worlds.workers import SHARDS, WorkedTable, wait_until


@pytest.fixture(scope="module")
def live(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkedTable]:
    """Forty patients in four shards of real servers, kept by one worker."""
    table = WorkedTable(servers, tmp_path_factory.mktemp("live"))
    table.must("produce", table.folder / "rows.csv")
    table.start()
    try:
        wait_until(lambda: table.status()["total"]["messages"] == 40, 30, table.logs)
        yield table
    finally:
        table.kill()


@pytest.mark.gate("verify")
def test_a_live_table_of_four_shards_is_verified_against_its_source(live: WorkedTable, tmp_path: Path) -> None:
    changelog, index = tmp_path / "live.jsonl", tmp_path / "index.csv"
    live.must("subscribe", "--live", changelog)
    report = live.report("index", "--out", index)
    assert (report["rows"], report["pending"], len(report["shards"])) == (40, 0, SHARDS)
    verified = live.report("verify", changelog, "--source", live.folder / "rows.csv", "--index", index)
    assert (verified["rows"], verified["laws"]) == (40, 15)


def test_the_index_names_every_source_key_once_with_a_qi_group_that_is_published(
    live: WorkedTable, tmp_path: Path
) -> None:
    live.must("index", "--out", tmp_path / "index.csv")
    with open(tmp_path / "index.csv") as file:
        index = {row["key"]: row["qi_group"] for row in csv.DictReader(file)}
    with open(live.folder / "rows.csv") as file:
        assert sorted(index) == sorted(row["id"] for row in csv.DictReader(file))
    assert set(index.values()) == {row["qi_group"] for row in live.report("subscribe")["table"]}


def test_an_index_that_moved_a_person_is_found_out(live: WorkedTable, tmp_path: Path) -> None:
    changelog, index = tmp_path / "live.jsonl", tmp_path / "index.csv"
    live.must("subscribe", "--live", changelog)
    live.must("index", "--out", index)
    header, first, *others = index.read_text().splitlines()
    key, name = first.split(",")
    other = next(line.split(",")[1] for line in others if line.split(",")[1] != name)
    index.write_text("\n".join([header, f"{key},{other}", *others]))
    result = live.call("verify", changelog, "--source", live.folder / "rows.csv", "--index", index)
    assert (result.exit_code, "law 'values' is broken" in result.stderr) == (1, True)


def test_a_table_that_changes_without_a_pause_is_refused_after_some_readings(
    live: WorkedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    def moved(store: RedisLookups) -> tuple[Meta, list[tuple[str, int]]]:
        readings.append(store.shard)
        raise Conflict("somebody committed")

    monkeypatch.setattr(RedisLookups, "index_table", moved)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0)
    assert "stop its worker first" in live.refused("index", "--out", tmp_path / "index.csv")
    assert len(readings) == 10
    assert not (tmp_path / "index.csv").exists()


def test_a_table_that_redis_does_not_know_is_said(servers: Servers, tmp_path: Path) -> None:
    table = WorkedTable(servers, tmp_path)
    assert f"Redis holds no shard of {table.name}" in table.refused("index", "--out", tmp_path / "i.csv")
