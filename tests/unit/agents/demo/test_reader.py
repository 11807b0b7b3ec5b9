"""What the demo shows of a table while it runs: rows as any consumer folds them, and counts out of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from agents.demo import reader as module
from agents.demo.reader import Reader, Shards, touched_by
from streamer.incremental.groups.kept import PENDING
from streamer.incremental.release.fold import Release
from streamer.incremental.store.redis import RedisStore
from streamer.table.published import RowKey, row_key
from worlds.small_tables import YEARS, table
from worlds.store_contract import A_GROUP, commit_number, live, record

PEOPLE = table(YEARS, k=2)


def release(number: int, rows: dict[tuple[int, int], bytes | None]) -> Release:
    """Rows by QI group and slot."""
    records = [(row_key(RowKey(0, *place)), value) for place, value in rows.items()]
    return Release(0, number, 10 * number, records)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Reader, list[Release]]]:
    """A reader, and what its subscription gives it next."""
    coming: list[Release] = []

    class Subscription:
        def poll(self, timeout_s: float) -> list[Release]:
            given, coming[:] = list(coming), []
            return given

    @contextmanager
    def subscribed(*_: object) -> Iterator[Subscription]:
        yield Subscription()

    monkeypatch.setattr(module, "Subscription", subscribed)
    with ExitStack() as stack:
        yield Reader(PEOPLE, "broker:9092", stack), coming


def test_the_rows_of_a_group_come_move_and_go_with_the_releases(read: tuple[Reader, list[Release]]) -> None:
    reader, coming = read
    coming.append(release(1, {(1, 0): b'{"a":1}', (1, 1): b'{"a":2}', (2, 0): b'{"a":3}'}))
    reader.poll(0)
    assert reader.rows_of({"0-1", "0-9"}) == {"0-1": {0: {"a": 1}, 1: {"a": 2}}, "0-9": {}}
    coming.append(release(2, {(1, 1): None, (2, 0): None}))
    (second,) = reader.poll(0)
    assert touched_by([second]) == {"0-1", "0-2"}
    assert reader.qi_groups == {"0-1": {0: {"a": 1}}}, "a QI group without rows is gone"
    assert (reader.releases, reader.records, reader.last_release) == (2, 5, {0: 2})


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Any:
    client = fakeredis.FakeRedis()
    monkeypatch.setattr(module, "connect", lambda url: client)
    return client


def test_shards_that_never_committed_hold_nothing(redis: Any) -> None:
    look = Shards(PEOPLE, "redis://nowhere/0", 2).look()
    assert (look.processed, look.outbox, look.rows, look.pending) == (0, 0, 0, 0)
    assert (look.releases, look.digests) == ({}, {0: 0, 1: 0})


def test_rows_are_counted_as_pending_where_there_is_no_group_to_join(redis: Any, tmp_path: Path) -> None:
    grouped: dict[str, Any] = {
        "records": {"a": record(1), "b": record(1)},
        "qi_groups": {1: A_GROUP},
        "outbox": live("x"),
    }
    waiting: dict[str, Any] = {"records": {"c": record(PENDING)}}
    for shard, changes in enumerate((grouped, waiting)):
        store = RedisStore(redis, "people", shard)
        store.commit(store.take_over(), 0, commit_number(1, **changes))
    shards = Shards(PEOPLE, "redis://nowhere/0", 2)
    look = shards.look()
    assert (look.outbox, look.rows, look.pending) == (1, 3, 1)
    shards.write_index(tmp_path / "index.csv")
    assert sorted((tmp_path / "index.csv").read_text().splitlines()) == ["a,0-1", "b,0-1", "c,", "key,qi_group"]
