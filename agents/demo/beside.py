"""An engine beside the worker: how often it split and merged, and what it must have published.

It takes the messages one by one, in the order in which they are sent; the worker takes them in batches. A shard's
state depends on the sequence of its messages and on its secret alone, so both split and merge alike and come to one
published table. That they did is checked: the digest of what is published must be the one that Redis holds. A shard's
secret is known from its first commit on; what it is sent before waits here. So does everything while the core is being
compiled: as long as all run uncompiled, the processors are left to the worker and the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from streamer.cli.routing import RowMessage
from streamer.errors import EventRefused, LawViolated
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.groups.engine import Engine
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import DIGEST_MASK
from streamer.table.schema import Table


class EnginesBeside:
    """One engine per shard, in this process. digests: of what each shard must have published by now.

    compiling: whether the core is being compiled.
    """

    def __init__(self, table: Table, shards: int, compiling: Callable[[], bool] = lambda: False) -> None:
        self.splits = self.merges = 0
        self.digests = dict.fromkeys(range(shards), 0)
        self._table = table
        self._shards = shards
        self._decoder = Decoder(table)
        self._engines: dict[int, Engine] = {}
        self._waiting: dict[int, list[RowMessage]] = {shard: [] for shard in range(shards)}
        self._compiling = compiling
        self.waits = compiling()
        self._changelogs = [Changelog(table, shard) for shard in range(shards)]

    @property
    def unknown(self) -> list[int]:
        """The shards whose secrets are not known yet."""
        return [shard for shard in range(self._shards) if shard not in self._engines]

    def learn(self, secrets: Mapping[int, bytes]) -> None:
        """Takes the secrets of shards, and whatever was sent and need not wait any longer."""
        for shard, secret in secrets.items():
            self._engines[shard] = Engine(self._table, shard, self._shards, secret)
        self.waits = self.waits and self._compiling()
        if not self.waits:
            for shard in self._engines:
                for message in self._waiting.pop(shard, ()):
                    self._apply(shard, message)

    def apply(self, message: RowMessage) -> None:
        """Takes what is being sent."""
        routed_by = message.value if message.message_key is None else message.message_key
        shard = shard_of(routed_by or b"", self._shards)
        if shard in self._waiting:
            self._waiting[shard].append(message)
        else:
            self._apply(shard, message)

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
