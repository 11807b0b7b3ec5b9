"""Redis Cluster and sentinels under load: slots move, masters die, and nothing is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from drills.conftest import FIGURES
from drills.drill import SHARDS, Drill
from servers.broker.processes import Process
from servers.broker.servers import NamedServer, Servers
from servers.redis_servers import Cluster, Fleet, Sentinels, running

pytestmark = [pytest.mark.drill, pytest.mark.timeout(900)]

KEYS_AT_A_TIME = 10
"""How many keys of a slot are moved by one command; redis-cli does so."""

NewDrill = Callable[[Fleet], Drill]


@pytest.fixture
def drill_on(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[NewDrill]:
    """Begins a drill in another Redis than that of all drills. Its test says at the end: `drill.finish()`."""
    drills: list[Drill] = []

    def begin(fleet: Fleet) -> Drill:
        beside = Servers("a Redis of this drill", servers.kafka_bootstrap, fleet.url, NamedServer(), NamedServer())
        drills.append(Drill(request.node.name.removeprefix("test_"), beside, tmp_path))
        drills[0].start()
        return drills[0]

    yield begin
    for drill in drills:
        drill.abandon()
        FIGURES.extend(filter(None, [drill.figures]))


def meta_of(drill: Drill, shard: int) -> str:
    return f"{{{drill.table_name}:{shard}}}:meta"


def test_cluster_slots_moved(drill_on: NewDrill, tmp_path: Path) -> None:
    """Of every shard, which has a thousand keys and more, so that it stands in two nodes for seconds."""
    with running(Cluster(tmp_path)) as cluster:
        drill = drill_on(cluster)
        for shard in range(SHARDS):
            drill.go_on(2, 5)
            drill.strike(partial(cluster.move_slot, meta_of(drill, shard), lambda: time.sleep(0.01), KEYS_AT_A_TIME))
            drill.until_all_publish()
        drill.finish()


def test_cluster_masters_killed(drill_on: NewDrill, tmp_path: Path) -> None:
    """One master after the other; the first comes back as a replica of its replica before the next one dies."""
    with running(Cluster(tmp_path)) as cluster:
        drill = drill_on(cluster)
        for shard in (0, 1, 0):
            drill.go_on(3, 6)
            drill.strike(partial(cluster.fail_over, meta_of(drill, shard), Process.kill))
            drill.until_all_publish()
            cluster.bring_back()
        drill.finish()


def test_sentinel_masters_killed(drill_on: NewDrill, tmp_path: Path) -> None:
    with running(Sentinels(tmp_path)) as sentinels:
        drill = drill_on(sentinels)
        for _ in range(3):
            drill.go_on(3, 6)
            drill.strike(lambda: sentinels.fail_over(Process.kill))
            drill.until_all_publish()
            sentinels.bring_back()
        drill.finish()
