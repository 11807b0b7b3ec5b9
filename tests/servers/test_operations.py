"""docs/operations.md on a real Kafka and Redis: its blocks as they stand, in the order of a table's life."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from servers.broker.servers import Servers
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import forget_shard
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import LIVE, POSITIONS, topic_name, topics_of
from streamer.table.schema import ROWS
from worlds.checkout import PATIENTS, ROOT
from worlds.kafka_and_redis import read
from worlds.workers import SHARDS, WorkedTable, rows_of, wait_until

OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
COMMAND_SECONDS_MAX = 300
PEOPLE = 40
WHO_GOES = '{"op": "insert", "row": {"id": 71, "age": 34, "zip": 12400, "bmi": 22.5, "sex": "Male", "problem": "flu"}}'


def block_under(heading: str) -> str:
    """The shell block of a section."""
    section = re.split(r"^#+ ", OPERATIONS.partition(f" {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)
    return block


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[WorkedTable]:
    (tmp_path / "mine").mkdir()
    shutil.copy(PATIENTS / "rows.csv", tmp_path / "now.csv")
    streamer = tmp_path / "streamer"
    streamer.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamer.cli.main "$@"\n', "utf-8")
    streamer.chmod(0o755)
    world = WorkedTable(servers, tmp_path / "mine")
    yield world
    for worker in world.workers:
        worker.kill()


def shell(world: WorkedTable, folder: Path, block: str) -> str:
    """What the commands print, which must all succeed."""
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**os.environ, **world.environment, **path},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def wait_until_read(world: WorkedTable) -> None:
    ends = [len(read(world.bootstrap, world.name, "changes", shard)) for shard in range(SHARDS)]
    wait_until(lambda: world.reached() == ends, 40, world.logs)


def people_kept(world: WorkedTable) -> set[str]:
    """Source keys that Redis has."""
    client = connect(world.environment["REDIS_URL"])
    states = [RedisStore(client, world.name, shard).load() for shard in range(SHARDS)]
    return {key for state in states if state is not None for key, _ in state.kept.records}


def delete_topics(world: WorkedTable, *kinds: str) -> None:
    names = [topic_name(world.name, kind) for kind in kinds]
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for answer in admin.delete_topics(names).values():
        answer.result(20)
    wait_until(lambda: not set(names) & set(admin.list_topics(timeout=20).topics), 20, lambda: "not deleted")


@pytest.mark.slow
@pytest.mark.timeout(4 * COMMAND_SECONDS_MAX)
def test_a_tables_life_goes_by_the_document(world: WorkedTable, tmp_path: Path) -> None:
    shell(world, tmp_path, "streamer produce now.csv --table mine")
    shell(world, tmp_path, f"echo '{WHO_GOES}' | streamer produce - --table mine")
    worker = world.start()
    wait_until_read(world)
    assert "fits together" in shell(world, tmp_path, block_under("Looking after a table"))
    assert "71" in people_kept(world)

    shell(world, tmp_path, block_under("Erasing a person"))
    wait_until_read(world)
    assert len(people_kept(world)) == PEOPLE
    assert "71" not in people_kept(world)

    worker.terminate()
    for line in block_under("Begin anew").splitlines():
        assert shell(world, tmp_path, line).count("the input goes on at") == SHARDS
        assert len(people_kept(world)) == PEOPLE

    delete_topics(world, LIVE, POSITIONS)
    shell(world, tmp_path, block_under("Publish again"))
    worker = world.start()
    wait_until(lambda: sum(rows_of(world, shard) for shard in range(SHARDS)) == PEOPLE, 40, world.logs)

    worker.terminate()
    delete_topics(world, *(topic.kind for topic in topics_of(world.name, ROWS)))
    for shard in range(SHARDS):
        forget_shard(connect(world.environment["REDIS_URL"]), world.name, shard)
    shell(world, tmp_path, block_under("Send again"))
    shell(world, tmp_path, "streamer load now.csv --table mine && streamer topics check --table mine --shards 8")
