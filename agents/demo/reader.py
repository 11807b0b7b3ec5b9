"""A reader of the changelog, and what Redis says of the shards: what the demo shows while it runs.

The reader knows what every consumer of `live` knows: it uses `streamer.incremental.reader` and nothing else. Redis
is asked for counts, and at the end for the index table, which is private: the demo owns both sides.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamer.incremental.groups.kept import PENDING
from streamer.incremental.reader import Subscription
from streamer.incremental.release.fold import Release
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.table.published import parse_key, qi_group_name
from streamer.table.schema import Table

PublishedGroup = Mapping[int, Mapping[str, object]]
"""Published rows by slot."""


class Reader:
    """The published table as a consumer folds it: rows by QI group and slot, and how it came about."""

    def __init__(self, table: Table, kafka: str, stack: ExitStack) -> None:
        self._subscription = stack.enter_context(Subscription(table, kafka))
        self.qi_groups: dict[str, dict[int, dict[str, object]]] = {}
        self.last_release: dict[int, int] = {}
        self.releases = self.records = 0

    def poll(self, timeout_s: float) -> list[Release]:
        """Takes in the releases that are complete now, and returns them."""
        releases = self._subscription.poll(timeout_s)
        for release in releases:
            self._apply(release)
        return releases

    def _apply(self, release: Release) -> None:
        for message_key, value in release.records:
            key = parse_key(message_key)
            rows = self.qi_groups.setdefault(qi_group_name(key.shard, key.qi_group), {})
            if value is None:
                rows.pop(key.slot, None)
            else:
                rows[key.slot] = msgspec.json.decode(value)
        for name in touched_by([release]):
            if not self.qi_groups[name]:
                del self.qi_groups[name]
        self.last_release[release.shard] = release.number
        self.releases += 1
        self.records += len(release.records)

    def rows_of(self, names: set[str]) -> dict[str, PublishedGroup]:
        """The published rows of some QI groups, as they are now."""
        return {name: dict(self.qi_groups.get(name, {})) for name in names}


def touched_by(releases: list[Release]) -> set[str]:
    """The QI groups that some releases wrote to."""
    keys = [parse_key(message_key) for release in releases for message_key, _ in release.records]
    return {qi_group_name(key.shard, key.qi_group) for key in keys}


class Look(NamedTuple):
    """What Redis says: messages processed, records not published yet, rows, rows that no QI group can take yet; and of
    every shard the last release, and the digest of what is published."""

    processed: int
    outbox: int
    rows: int
    pending: int
    releases: dict[int, int]
    digests: dict[int, int]


class Shards:
    """All shards of a table, as Redis holds them."""

    def __init__(self, table: Table, redis: str, shards: int) -> None:
        client = connect(redis)
        self._stores = [RedisLookups(client, table.name, number) for number in range(shards)]

    def look(self) -> Look:
        """Where all shards stand now."""
        looks = [(store.meta() or Meta(), store.sizes()) for store in self._stores]
        metas = [meta for meta, _ in looks]
        return Look(
            sum(meta.counts.messages for meta in metas),
            sum(sizes.outbox for _, sizes in looks),
            sum(sizes.records for _, sizes in looks),
            sum(sizes.records for _, sizes in looks if not sizes.qi_groups),  # these have no QI group to join
            {number: meta.release for number, meta in enumerate(metas) if meta.release},
            {number: meta.digest for number, meta in enumerate(metas)},
        )

    def secrets(self, shards: Iterable[int]) -> dict[int, bytes]:
        """The secrets of those among some shards that have committed."""
        metas = ((number, self._stores[number].meta()) for number in shards)
        return {number: meta.secret for number, meta in metas if meta is not None}

    def write_index(self, path: Path) -> None:
        """Writes the index table: source key and QI group, empty while pending."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["key", "qi_group"])
            for store in self._stores:
                state = store.load()
                for source_key, record in state.kept.records if state else ():
                    name = "" if record.qi_group == PENDING else qi_group_name(store.shard, record.qi_group)
                    writer.writerow([source_key, name])
