"""What an operator looks up in Redis without loading a shard, and without holding it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import redis

from streamer.incremental.groups.kept import QIGroupState, Record, SimilarityList
from streamer.incremental.store import codec
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import address_of, answers


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a shard holds, counted without reading it."""

    records: int
    qi_groups: int
    similarity_lists: int
    outbox: int


class RedisLookups(RedisStore):
    """A shard's store with questions that cost little."""

    def sizes(self) -> Sizes:
        """How much the shard holds, in four counts that cost nothing."""
        with self._answers():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hlen(self._records).hlen(self._groups).hlen(self._similarity).llen(self._outbox)
            return Sizes(*pipeline.execute())

    def read_group(self, qi_group: int) -> QIGroupState | None:
        """One QI group, without loading the shard."""
        with self._answers():
            data = self._client.hget(self._groups, qi_group)
        return None if data is None else codec.decode_qi_group(data)

    def read_record(self, source_key: str) -> Record | None:
        """One line of the index table, without loading the shard."""
        with self._answers():
            data = self._client.hget(self._records, source_key)
        return None if data is None else codec.decode_record(data)

    def read_similarity(self, qi_group: int) -> SimilarityList | None:
        """One similarity list, without loading the shard; None for a QI group that has none."""
        with self._answers():
            floor = self._client.hget(self._similarity, qi_group)
        return None if floor is None else self._similarity_lists({qi_group: floor})[qi_group]


def shards_of(client: redis.Redis, table_name: str) -> list[int]:
    """The numbers of the table's shards that Redis knows, ascending. Reads the names of all keys once."""
    own = re.compile(rf"\{{{re.escape(table_name)}:(\d+)\}}:meta")
    with answers(address_of(client)):
        names = [name.decode() for name in client.scan_iter(match=f"{{{table_name}:*}}:meta", count=10_000)]
    return sorted({int(found[1]) for found in map(own.fullmatch, names) if found})
