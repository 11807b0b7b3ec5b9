"""The Redis store and its workers on Redis Cluster and under sentinels: slots that move, masters that die."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.broker.processes import Process
from servers.broker.servers import NamedServer, Servers
from servers.redis_servers import Cluster, Fleet, Sentinels, order, running
from servers.secured_redis import granted
from streamer.errors import ConfigError, Conflict, NotDurable, ServerUnreachable
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups, forget_shard, server_now, shards_of
from streamer.incremental.store.redis_server import Kind, connect, durability_of, require_durable
from worlds.store_contract import OpenStore, StoreContract, commit_number, everything, live, record
from worlds.workers import WorkedTable

ROWS = 12_000
"""More than two slices of a scan."""


@pytest.fixture(scope="module")
def sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    with running(Sentinels(tmp_path_factory.mktemp("sentinels"))) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(Cluster(tmp_path_factory.mktemp("cluster"))) as fleet:
        yield fleet


class TestStoreInCluster(StoreContract):
    rows_of_a_large_commit = ROWS

    @pytest.fixture
    def open_store(self, cluster: Cluster) -> OpenStore:
        return _stores(cluster)


class TestStoreUnderSentinels(StoreContract):
    rows_of_a_large_commit = ROWS

    @pytest.fixture
    def open_store(self, sentinels: Sentinels) -> OpenStore:
        return _stores(sentinels)


def _stores(fleet: Fleet) -> OpenStore:
    client, prefix = connect(fleet.url), f"test-{secrets.token_hex(4)}-"
    return lambda table_name, shard: RedisStore(client, prefix + table_name, shard)


# -- what operators ask --------------------------------------------------------------------------------------------


def test_what_is_looked_up_is_asked_of_all_masters(cluster: Cluster) -> None:
    client, name = connect(cluster.url), f"test-{secrets.token_hex(4)}"
    shards = [RedisLookups(client, name, number) for number in range(6)]
    assert len({cluster.master_of(f"{{{name}:{number}}}:meta") for number in range(6)}) > 1  # else this says nothing
    for shard in shards:
        shard.commit(shard.take_over(), 0, commit_number(1, records={"a": record()}))
        assert shard.report_owner("alice") <= server_now(client).time
        assert (shard.sizes().records, shard.custody().owner) == (1, "alice")
    assert shards_of(client, name) == [0, 1, 2, 3, 4, 5]
    for number in range(1, 6):
        forget_shard(client, name, number)
    assert shards_of(client, name) == [0]


def test_each_shard_is_said_to_be_on_the_master_that_has_it(cluster: Cluster) -> None:
    client, name = connect(cluster.url), f"test-{secrets.token_hex(4)}"
    for number in range(6):
        port = cluster.master_of(f"{{{name}:{number}}}:meta")
        assert RedisLookups(client, name, number).master == f"127.0.0.1:{port}"


def test_every_master_of_a_cluster_must_keep_what_it_confirms(cluster: Cluster) -> None:
    client = connect(cluster.url)
    require_durable(client, stated=False)
    port = cluster.master_of("a key")
    forgetful: Any = connect(f"redis://127.0.0.1:{port}")
    forgetful.config_set("appendfsync", "everysec")
    try:
        with pytest.raises(NotDurable, match=f"Redis 127.0.0.1:{port}: appendfsync is everysec"):
            require_durable(client, stated=False)
        found = durability_of(client)
        assert (found.kind, found.masters) == (Kind.CLUSTER, 3)
        assert found.lax == (f"Redis 127.0.0.1:{port}: appendfsync is everysec",)
    finally:
        forgetful.config_set("appendfsync", "always")


def test_a_cluster_that_is_named_as_one_server_and_the_other_way_round_is_the_operators_fault(
    cluster: Cluster, sentinels: Sentinels
) -> None:
    names = [f"test-{number}" for number in range(20)]
    one = connect(f"redis://127.0.0.1:{cluster.master_of('a key')}")
    with pytest.raises(ConfigError, match=r"one node of a cluster: name it redis\+cluster://"):
        [RedisStore(one, name, 0).meta() for name in names]
    with pytest.raises(ConfigError, match="is no cluster: name it redis://host:port"):
        connect(f"redis+cluster://127.0.0.1:{sentinels.master()}")


def test_a_fleet_that_is_not_there_is_unreachable() -> None:
    for url in (
        "redis+cluster://someone:hunter2@127.0.0.1:1,127.0.0.1:2",
        "redis+sentinel://:hunter2@127.0.0.1:1/main",
    ):
        with pytest.raises(ServerUnreachable) as unreachable:
            RedisStore(connect(url, timeout_s=0.2), "test", 0).meta()
        assert "hunter2" not in str(unreachable.value)


def test_sentinels_that_know_no_such_master_are_told_so(sentinels: Sentinels) -> None:
    store = RedisStore(connect(sentinels.url + "-other", timeout_s=0.2), "test", 0)
    with pytest.raises(ServerUnreachable, match=r"streamer-other of the sentinels .* no sentinel knows a master"):
        store.meta()


def test_in_a_cluster_the_recipe_needs_three_commands_more(cluster: Cluster) -> None:
    name = f"test-{secrets.token_hex(4)}"
    rules = [f"+{command}" for command in [*granted("worker"), "cluster|slots", "command", "asking"]]
    for server in cluster.servers:
        order(server.port, "ACL", "SETUSER", name, "on", ">pw", f"~{{{name}:*}}:*", "-@all", *rules)
    client = connect(cluster.url.replace("://", f"://{name}:pw@"))
    store = RedisLookups(client, name, 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record()}, outbox=live("x")))
    store.report_owner("alice")
    cluster.move_slot(f"{{{name}:0}}:meta", lambda: store.check_fence(fence))
    assert (shards_of(client, name), set(everything(store)[1])) == ([0], {"a"})


def test_sentinels_have_users_of_their_own(sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch) -> None:
    for port in sentinels.sentinel_ports:
        order(port, "ACL", "SETUSER", "watcher", "on", ">canary-word", "-@all", "+sentinel|masters")
    monkeypatch.setenv("REDIS_SENTINEL_USERNAME", "watcher")
    monkeypatch.setenv("REDIS_SENTINEL_PASSWORD", "canary-word")
    assert RedisStore(connect(sentinels.url), "test-nobody", 0).meta() is None
    monkeypatch.setenv("REDIS_SENTINEL_PASSWORD", "canary-other")
    with pytest.raises(ConfigError, match="refuse the user or the password: REDIS_SENTINEL_USERNAME") as refused:
        RedisStore(connect(sentinels.url), "test-nobody", 0).meta()
    assert "canary" not in str(refused.value)


# -- slots that move and masters that die, step by step ---------------------------------------------------------------


def test_a_scan_does_not_go_on_at_another_server(cluster: Cluster) -> None:
    """A cursor means nothing to it: rows would be missing in silence."""
    name = f"test-{secrets.token_hex(4)}"
    store = RedisStore(connect(cluster.url), name, 0)
    store.commit(store.take_over(), 0, commit_number(1, records={str(i): record() for i in range(ROWS)}))
    state = store.load()
    assert state is not None
    rows = iter(state.kept.records)
    next(rows)
    cluster.move_slot(f"{{{name}:0}}:meta")
    with pytest.raises(Conflict, match="moves to another node"):
        list(rows)
    again = store.load()
    assert again is not None
    assert len(dict(again.kept.records)) == ROWS


def test_nothing_of_a_commit_is_done_while_a_slot_is_between_two_nodes(cluster: Cluster) -> None:
    name = f"test-{secrets.token_hex(4)}"
    store = RedisStore(connect(cluster.url), name, 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record()}, outbox=live("x")))
    refused = []

    def commit() -> None:
        try:
            store.commit(fence, 1, commit_number(2, records={"a": None, "b": record()}))
        except ServerUnreachable as error:
            refused.append(str(error))

    cluster.move_slot(f"{{{name}:0}}:meta", commit)
    assert refused
    assert all("is a cluster that is moving the shard" in text for text in refused)
    assert everything(store)[0] == commit_number(1).meta
    store.check_fence(fence)
    store.commit(fence, 1, commit_number(2, records={"a": None, "b": record()}))
    assert set(everything(store)[1]) == {"b"}


# -- workers under it -------------------------------------------------------------------------------------------------


@pytest.fixture
def world_on(servers: Servers, tmp_path: Path) -> Iterator[Callable[[Fleet], WorkedTable]]:
    """A table whose workers keep it in another Redis than the one of all tests."""
    worlds: list[WorkedTable] = []

    def new(fleet: Fleet) -> WorkedTable:
        beside = Servers("a Redis of this test", servers.kafka_bootstrap, fleet.url, NamedServer(), NamedServer())
        worlds.append(WorkedTable(beside, tmp_path))
        return worlds[0]

    yield new
    for world in worlds:
        for worker in world.workers:
            worker.kill()


def test_workers_publish_on_while_a_slot_moves_and_a_master_dies(
    world_on: Callable[[Fleet], WorkedTable], cluster: Cluster
) -> None:
    def move_and_kill() -> None:
        cluster.move_slot(f"{{{world.name}:0}}:meta")
        cluster.fail_over(f"{{{world.name}:1}}:meta", Process.kill)

    world = world_on(cluster)
    _write_while(world, move_and_kill)
    world.assert_published_as_expected()


def test_workers_publish_on_while_sentinels_promote_a_replica(
    world_on: Callable[[Fleet], WorkedTable], sentinels: Sentinels
) -> None:
    world = world_on(sentinels)
    _write_while(world, lambda: sentinels.fail_over(Process.kill))
    world.assert_published_as_expected()


def _write_while(world: WorkedTable, fault: Callable[[], object]) -> None:
    """Writes on and on while something happens to Redis, and waits until all of it is published."""
    world.start()
    world.write(400)
    world.wait_until_published(60)
    happening = threading.Thread(target=fault)
    happening.start()
    while happening.is_alive():
        world.write(100)
        happening.join(0.1)
    world.write(400)
    for worker in world.workers:
        if worker.process.poll() is not None:
            world.start()
    world.wait_until_published(60)
