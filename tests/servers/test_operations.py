"""docs/operations.md on a real Kafka and Redis: its blocks as they stand, in the order of a table's life."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from streamer.incremental.store.redis_lookups import forget_shard
from streamer.incremental.topics import LIVE, POSITIONS, topics_of
from worlds.checkout import PATIENTS, ROOT, put_streamer
from worlds.kafka_and_redis import wait_until_deleted
from worlds.workers import SHARDS, WorkedTable, wait_until

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
    shutil.copy(PATIENTS / "rows.csv", tmp_path / "now.csv")
    put_streamer(tmp_path)
    world = WorkedTable(servers, tmp_path / "mine")
    yield world
    world.kill()


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
    world.wait_until_published(to=world.ends())


def people_kept(world: WorkedTable) -> set[str]:
    return set().union(*world.source_keys())


def delete_topics(world: WorkedTable, *kinds: str) -> None:
    world.delete_topics(*kinds)
    wait_until_deleted(world.bootstrap, world.name, *kinds)


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
    for line in block_under("Reload").splitlines():
        assert shell(world, tmp_path, line).count("the input is read on from") == SHARDS
        assert len(people_kept(world)) == PEOPLE

    delete_topics(world, LIVE, POSITIONS)
    shell(world, tmp_path, block_under("Publish again"))
    worker = world.start()
    wait_until(lambda: world.n_rows() == PEOPLE, 40, world.logs)

    worker.terminate()
    delete_topics(world, *(topic.kind for topic in topics_of(world.name, [LIVE])))
    for shard in range(SHARDS):
        forget_shard(world.redis, world.name, shard)
    shell(world, tmp_path, block_under("Send again"))
    shell(world, tmp_path, "streamer load now.csv --table mine && streamer topics check --table mine --shards 8")
