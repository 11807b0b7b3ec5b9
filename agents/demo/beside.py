"""An engine beside the worker: how often it split and merged, and what it must have published.

It takes the messages one by one, in the order in which they are sent; the worker takes them in batches. A shard's
state depends on the sequence of its messages and on its secret alone, so both split and merge alike and come to one
published table. That they did is checked: the digest of what is published must be the one that Redis holds. A shard's
secret is known from its first commit on; what it is sent before waits here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from streamer.cli.routing import RowMessage
from streamer.errors import EventRefused, LawViolated
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.groups.engine import Engine
from streamer.incremental.release.changelog import DIGEST_MASK, Changelog
from streamer.table.schema import Table


class EnginesBeside:
    """One engine per shard, in this process. digests: of what each shard must have published by now."""

    def __init__(self, table: Table, shards: int) -> None:
        self.splits = self.merges = 0
        self.digests = dict.fromkeys(range(shards), 0)
        self._table = table
        self._shards = shards
        self._decoder = Decoder(table)
        self._engines: dict[int, Engine] = {}
        self._waiting: dict[int, list[RowMessage]] = {shard: [] for shard in range(shards)}
        self._changelogs = [Changelog(table, shard) for shard in range(shards)]

    @property
    def unknown(self) -> list[int]:
        """The shards whose secrets are not known yet."""
        return [shard for shard in range(self._shards) if shard not in self._engines]

    def learn(self, secrets: Mapping[int, bytes]) -> None:
        """Takes the secrets of shards, and what was sent to these meanwhile."""
        for shard, secret in secrets.items():
            self._engines[shard] = Engine(self._table, shard, self._shards, secret)
            for message in self._waiting.pop(shard):
                self._apply(shard, message)

    def apply(self, message: RowMessage) -> None:
        """Takes what is being sent."""
        routed_by = message.value if message.message_key is None else message.message_key
        shard = shard_of(routed_by or b"", self._shards)
        if shard in self._engines:
            self._apply(shard, message)
        else:
            self._waiting[shard].append(message)

    def _apply(self, shard: int, message: RowMessage) -> None:
        with suppress(EventRefused):
            self._engines[shard].apply(self._decoder.decode(message.message_key, message.value))
        drained = self._engines[shard].drain()
        self.splits += drained.splits
        self.merges += drained.merges
        for qi_group, before, after in drained.published:
            _, change = self._changelogs[shard].diff(qi_group, before, after)
            self.digests[shard] = (self.digests[shard] + change) & DIGEST_MASK

    def check(self, digests: Mapping[int, int]) -> None:
        """Raises LawViolated where a shard has published something else."""
        for shard, digest in self.digests.items():
            if digests.get(shard) != digest:
                raise LawViolated(f"shard {shard} has not published what its messages, one by one, come to")
