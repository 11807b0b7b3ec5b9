"""`streamer index` on a live table of four shards, and what it is for: `verify --source --index`, end to end."""

from __future__ import annotations

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
