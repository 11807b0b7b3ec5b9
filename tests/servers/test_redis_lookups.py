"""What workers leave in Redis for an operator, and what he reads there of a shard without holding it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from servers.broker.servers import Servers
from streamer.errors import Conflict, ShardRefused
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import Measured, Ownership, RedisLookups, server_now, shards_of
from streamer.incremental.store.redis_server import connect
from worlds.store_contract import A_GROUP, commit_number, record

TABLE = f"test-{secrets.token_hex(4)}"


@pytest.fixture
def store(servers: Servers) -> Iterator[RedisLookups]:
    """Shard 7 of a table of its own."""
    with connect(servers.redis_url) as client:
        yield RedisLookups(client, TABLE, 7)
        for name in client.scan_iter(match=f"{{{TABLE}:*"):
            client.delete(name)


def test_who_took_a_shard_over_when_it_committed_and_who_refused_it_stands_there_for_people(
    store: RedisLookups,
) -> None:
    assert store.custody() == Ownership()
    before, fence = int(time.time()) - 1, store.take_over()
    store.report_owner("alice:1")
    held = store.custody()
    assert (held.owner, held.committed_at, held.refusal) == ("alice:1", None, None)
    store.commit(fence, 0, commit_number(1))
    committed_at = store.custody().committed_at
    assert held.taken_at is not None
    assert committed_at is not None
    assert before <= held.taken_at <= committed_at <= time.time() + 1
    store.report_refusal("bob:2", "table.yaml has changed")
    refusal = store.custody().refusal
    assert refusal is not None
    assert (refusal.reason, refusal.by, store.custody().owner) == ("table.yaml has changed", "bob:2", "alice:1")
    store.commit(fence, 1, commit_number(2))  # a refusal shuts no one out
    store.report_owner("bob:2", "its second run")
    assert store.custody() == Ownership("bob:2", store.custody().taken_at, committed_at, process="its second run")


def test_what_the_owner_measured_stands_there_until_another_worker_takes_the_shard_over(store: RedisLookups) -> None:
    before = int(time.time()) - 1
    store.report_owner("alice:1")
    store.report_measured(Measured(0.25, None, messages=10, records=12))
    measured = store.custody().measured
    assert (measured.ncp, measured.over_fresh, measured.records_per_event) == (0.25, None, 1.2)
    assert before <= measured.at <= time.time() + 1
    store.report_owner("bob:2")
    assert store.custody().measured == Measured()


@pytest.mark.parametrize("other", ["", "null", "[0.25]", '{"ncp": "0.25"}', '{"at": 1000000000000000000}'])
def test_figures_that_another_version_wrote_otherwise_hide_nothing_else(
    servers: Servers, store: RedisLookups, other: str
) -> None:
    """Before: `status` ended with an error of a library, and so did a worker that waits with a refused shard."""
    store.report_owner("alice:1")
    with connect(servers.redis_url) as client:
        client.hset(f"{{{TABLE}:7}}:custody", "measured", other)
    assert (store.custody().owner, store.custody().measured) == ("alice:1", Measured())


def test_no_worker_serves_a_shard_of_a_table_that_has_not_begun_in_all_its_shards(store: RedisLookups) -> None:
    store.check_begun("shard 0")
    store.report_refusal("bob:2", "there are too many partitions")
    claim = store.claim("ann", 60)
    store.check_begun("shard 0")
    store.tell_beginning(claim)
    assert store.custody().beginning
    with pytest.raises(ShardRefused, match="shard 0: the table is not loaded in all its shards yet: wait for"):
        store.check_begun("shard 0")
    store.tell_begun(claim)
    store.check_begun("shard 0")
    assert store.custody() == Ownership()


def test_the_mark_of_a_command_of_a_former_version_keeps_workers_out_until_the_next_command(
    servers: Servers, store: RedisLookups
) -> None:
    with connect(servers.redis_url) as client:
        client.hset(f"{{{TABLE}:7}}:custody", "beginning", "1")
    with pytest.raises(ShardRefused):
        store.take_over()
    claim = store.claim("ann", 60)
    store.shut_out_older(claim)
    store.tell_beginning(claim)
    store.tell_begun(claim)
    store.take_over()


def test_a_shard_that_was_only_refused_is_no_shard_of_the_table(servers: Servers, store: RedisLookups) -> None:
    store.report_refusal("bob:2", "there are too many partitions")
    with connect(servers.redis_url) as client:
        assert shards_of(client, TABLE) == []


class CommittedMeanwhile(redis.Redis):
    """A client while which reads the meta of a shard, its owner commits."""

    commits: Callable[[], None] | None = None

    def hget(self, name: Any, key: Any) -> Any:
        found, commits, self.commits = super().hget(name, key), self.commits, None
        if commits is not None:
            commits()
        return found


def test_the_index_of_a_shard_is_that_of_one_commit(servers: Servers, store: RedisLookups) -> None:
    assert store.index_table() == (Meta(), [])
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record(1), "b": record(2)}))
    meta, index = store.index_table()
    assert (meta.commit, sorted(index)) == (1, [("a", 1), ("b", 2)])
    with CommittedMeanwhile.from_url(servers.redis_url) as client:
        client.commits = lambda: store.commit(fence, 1, commit_number(2, records={"a": None}))
        with pytest.raises(Conflict):
            RedisLookups(client, TABLE, 7).index_table()
        assert RedisLookups(client, TABLE, 7).index_table()[1] == [("b", 2)]


def test_a_redis_that_is_full_is_known_by_its_memory(servers: Servers) -> None:
    with connect(servers.redis_url) as client:
        assert not server_now(client).full
        client.config_set("maxmemory", 1)
        try:
            assert server_now(client).full
        finally:
            client.config_set("maxmemory", 0)


def test_the_numbers_of_qi_groups_are_told_in_their_order(store: RedisLookups) -> None:
    assert store.qi_group_numbers() == []
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record(17)}, qi_groups={17: A_GROUP, 2: A_GROUP}))
    assert store.qi_group_numbers() == [2, 17]
