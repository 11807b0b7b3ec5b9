"""The memory store: the contract, and what sets it apart from its server."""

from __future__ import annotations

import pytest

from streamer.errors import Conflict
from streamer.incremental.store.base import Commit
from streamer.incremental.store.memory import MemoryServer, MemoryStore, ShardBytes
from worlds.store_contract import A_GROUP, OpenStore, StoreContract, commit_number, everything, record


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        server = MemoryServer()
        return lambda table_name, shard: MemoryStore(server, table_name, shard)


def test_a_store_shares_no_object_with_who_wrote_or_read_it() -> None:
    store = MemoryStore(MemoryServer(), "patients", 0)
    records = {"a": record()}
    store.commit(store.take_over(), 0, commit_number(1, records=records, qi_groups={1: A_GROUP}))
    held = everything(store)
    records["b"] = record()
    state = store.load()
    assert state is not None
    dict(state.kept.records).clear()
    state.kept.qi_groups.clear()  # type: ignore[attr-defined]
    assert everything(store) == held


def test_a_fence_is_not_given_again_when_a_server_is_lost() -> None:
    old, new = (MemoryStore(MemoryServer(), "patients", 0).take_over() for _ in range(2))
    assert old != new


def test_the_repr_of_what_is_held_shows_no_value() -> None:
    server = MemoryServer()
    store = MemoryStore(server, "patients", 0)
    commit: Commit = commit_number(1, records={"canary-key": record(problem=b'"canary"', individual="canary-ssn")})
    store.commit(store.take_over(), 0, commit)
    state = store.load()
    assert state is not None
    assert "canary" not in repr(server.shards) + repr([held for _, held in state.kept.records])


def test_a_repr_shows_who_may_write_and_nothing_that_is_kept() -> None:
    shard = ShardBytes()
    assert [name for name in vars(shard) if f"{name}=" in repr(shard)] == [
        "fence", "committed_by", "claim", "claimed_by", "claimed_until", "mark", "commit",
    ]  # fmt: skip


def test_a_claim_ends_and_says_since_when_it_is_by_the_clock_of_the_server() -> None:
    server = MemoryServer()
    ann, bob = MemoryStore(server, "patients", 0), MemoryStore(server, "patients", 0)
    server.seconds = 1_795_694_400.0
    claim = ann.claim("ann", 60)
    server.seconds += 59
    ann.renew(claim, 60)
    server.seconds += 59
    with pytest.raises(Conflict, match=r"being loaded by ann since 2026-11-26 12:00:00 UTC.* in 1 s"):
        bob.claim("bob", 60)
    server.seconds += 1
    bob.claim("bob", 60)
