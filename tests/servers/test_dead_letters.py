"""Dead letters on real servers: listed, exported, tried again once and in order; a replay reads the input once more."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.cli.main import main
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from worlds.kafka_and_redis import write
from worlds.workers import WorkedTable, inserts, rows_of, wait_until


def run(world: WorkedTable, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What `streamer dead-letters` says as JSON."""
    options = ["--table", str(world.table), "--kafka", world.bootstrap, "--json"]
    result = CliRunner().invoke(main, ["dead-letters", *arguments, *options])
    assert result.exit_code == code, result.output
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def meta_of(world: WorkedTable) -> Meta:
    meta = RedisStore(connect(world.environment["REDIS_URL"]), world.name, 0).meta()
    assert meta is not None
    return meta


@pytest.mark.gate("refused messages")
def test_what_an_error_passed_over_is_tried_again_in_order_and_repeated_by_a_replay(
    world: WorkedTable, tmp_path: Path
) -> None:
    """Offsets: 3 and 4 break the first worker; the second one applies 3, and 6 after which 4 comes too late."""
    poisons = inserts(["poison-a", "poison-b"])
    write(world.bootstrap, f"{world.name}.changes", [*inserts(["a", "b", "c"]), *poisons, *inserts("d")])
    fragile = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 6, 40, world.logs)
    fragile.terminate()

    copy = world.copy_redis()
    listed = run(world, "--export", str(tmp_path / "letters.csv"))
    (reason,) = listed["reasons"]
    assert (reason["reason"], reason["letters"], reason["shards"]) == ("internal-error", 2, [0])
    assert reason["first"] <= reason["last"]
    assert reason["example"]["offset"] in (3, 4)
    with (tmp_path / "letters.csv").open() as file:
        assert [(line["partition"], line["offset"]) for line in csv.DictReader(file)] == [("0", "3"), ("0", "4")]

    worker = world.start()
    write(world.bootstrap, f"{world.name}.changes", poisons[1:])  # the source says it once more
    wait_until(lambda: world.reached()[0] == 7, 40, world.logs)
    forecast = run(world, "retry", "--dry-run")
    assert [(one["offset"], one["kind"]) for one in forecast["messages"]] == [(3, "retried"), (4, "superseded")]
    assert meta_of(world).retried == ()
    assert run(world, "retry")["asked"] == 2
    wait_until(lambda: meta_of(world).retried == ((7, 3),), 40, world.logs)
    assert (meta_of(world).counts.dead_letters, rows_of(world)) == (1, 6)
    assert run(world, "retry")["asked"] == 0
    assert run(world, "retry", "--shard", "0", "--offset", "3", code=2)["kind"] == "UsageError"

    digest = meta_of(world).digest
    worker.terminate()
    copy.restore()
    assert meta_of(world).retried == ()
    world.start()
    wait_until(lambda: meta_of(world).retried == ((7, 3),), 40, world.logs)
    assert meta_of(world).digest == digest
    write(world.bootstrap, f"{world.name}.changes", inserts("e"))
    wait_until(lambda: world.reached()[0] == 8, 40, world.logs)
    assert rows_of(world) == 7
    assert "poison" not in world.logs()
