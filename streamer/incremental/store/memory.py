"""A store in this process's memory: for replays, demonstrations and tests.

The rules of this file
----------------------
* Server and clients are two things, as with Redis: a `MemoryServer` outlives every `MemoryStore` that speaks to it, so
  that a test can let a worker crash and hand its shard to the next one.
* It holds bytes, written and read by the same codec as in Redis: no object is shared with the store by accident, and
  what cannot be stored fails here too. Outbox entries, most of a whole table, are bytes already and stay as they are.
* A commit is encoded as a whole before any of it is written, so it is there whole or not at all.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from streamer.errors import Conflict, Fenced, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import STATEMENT_IDS_MAX, Origin, StoredTable
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import StoredSealed
from streamer.incremental.store import codec
from streamer.incremental.store.base import Commit, Meta, State, being_loaded, claimed_since

Key = TypeVar("Key")
Value = TypeVar("Value")
Encoded = TypeVar("Encoded")
Field = TypeVar("Field")


@dataclass
class ShardBytes:
    """Everything one shard holds."""

    fence: str | None = None
    committed_by: str | None = None
    claim: str = ""  # of the newest command that loads the table
    claimed_by: str = ""
    claimed_until: float = 0.0
    mark: str = ""  # the claim of the command that has left its mark
    commit: int = 0
    meta: bytes | None = field(default=None, repr=False)
    records: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    qi_groups: dict[int, bytes] = field(default_factory=dict, repr=False)
    similarity: dict[int, bytes] = field(default_factory=dict, repr=False)
    origins: dict[int, bytes] = field(default_factory=dict, repr=False)
    sealed: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    cohorts: dict[int, bytes] = field(default_factory=dict, repr=False)
    statement_ids: deque[bytes] = field(default_factory=lambda: deque(maxlen=STATEMENT_IDS_MAX), repr=False)
    last_changes: dict[int, bytes] = field(default_factory=dict, repr=False)
    outbox: deque[tuple[int, OutboxEntry]] = field(default_factory=deque, repr=False)


class MemoryServer:
    """The bytes of every shard, by table name and shard number, which stay when clients crash."""

    def __init__(self) -> None:
        self.shards: dict[tuple[str, int], ShardBytes] = {}
        self.seconds = 0.0
        """The server's clock, by which claims end: it stands still unless it is moved."""
        self._fences = count(1)

    def shard(self, table_name: str, shard: int) -> ShardBytes:
        """The bytes of one shard, empty at first."""
        return self.shards.setdefault((table_name, shard), ShardBytes())

    def new_fence(self) -> str:
        """A counter and a random token, so that no fence comes back after a shard, or this whole server, is lost."""
        return f"{next(self._fences)}-{secrets.token_hex(8)}"


class MemoryStore:
    """The `Store` of one shard on a `MemoryServer`; its contract is in `store.base`."""

    def __init__(self, server: MemoryServer, table_name: str, shard: int) -> None:
        self._server = server
        self._table_name = table_name
        self._shard_number = shard
        self._fence = ""
        self._claim = ""  # of the command that uses this object, if it has left its mark

    @property
    def _shard(self) -> ShardBytes:
        return self._server.shard(self._table_name, self._shard_number)

    def claim(self, who: str, seconds: float) -> str:
        held, now = self._shard, self._server.seconds
        held.claimed_until = min(held.claimed_until, now + seconds)  # else the clock was set back
        if held.claimed_until > now:
            shard = f"shard {self._shard_number} of {self._table_name}"
            raise being_loaded(shard, held.claim, held.claimed_by, held.claimed_until - now)
        number = max(int(now * 1e6), _number(held.claim) + 1)
        held.claim, held.claimed_by, held.claimed_until = f"{number}-{secrets.token_hex(8)}", who, now + seconds
        return held.claim

    def renew(self, claim: str, seconds: float) -> None:
        if self._shard.claim != claim:
            raise claimed_since(self._table_name)
        self._shard.claimed_until = self._server.seconds + seconds

    def shut_out_older(self, claim: str) -> None:
        held = self._shard
        if held.claim != claim and held.claim and _number(held.claim) >= _number(claim):
            raise claimed_since(self._table_name)
        held.claim = claim
        if held.mark:
            self._leave_mark(held, claim)

    def tell_beginning(self, claim: str) -> bool:
        self.shut_out_older(claim)
        is_new, self._claim = not self._shard.mark, claim
        self._leave_mark(self._shard, claim)
        return is_new

    def tell_begun(self, claim: str) -> None:
        if self._shard.claim != claim:
            raise claimed_since(self._table_name)
        self._shard.mark = self._claim = ""

    def _leave_mark(self, held: ShardBytes, claim: str) -> None:
        if held.mark != claim:
            held.mark, held.fence = claim, self._server.new_fence()

    def take_over(self, again: bool = False) -> str:
        if self._shard.mark != self._claim:
            if self._claim:
                raise claimed_since(self._table_name)
            raise ShardRefused(f"shard {self._shard_number} of {self._table_name}: {remedies.PARTLY_LOADED}")
        if again:
            self.check_fence(self._fence)
        self._shard.fence = self._fence = self._server.new_fence()
        return self._fence

    def check_fence(self, fence: str) -> None:
        if self._shard.fence != fence:
            raise Fenced(f"shard {self._shard_number}: another worker has taken over")

    def meta(self) -> Meta | None:
        return None if self._shard.meta is None else codec.decode_meta(self._shard.meta)

    def load(self) -> State | None:
        shard, meta = self._shard, self.meta()
        if meta is None:
            return None
        kept = StoredTable(
            qi_group_next=meta.qi_group_next,
            records=[(source_key.decode(), codec.decode_record(data)) for source_key, data in shard.records.items()],
            qi_groups=[(number, codec.decode_qi_group(data)) for number, data in shard.qi_groups.items()],
            similarity=[(n, one) for n, data in shard.similarity.items() if (one := codec.decode_similarity(data))],
            statement_ids=self.statement_ids(),
            last_changes=[(row, codec.decode_remembered(data)) for row, data in shard.last_changes.items()],
        )
        sealed = StoredSealed(
            places=[(source_key.decode(), codec.decode_place(data)) for source_key, data in shard.sealed.items()],
            cohorts=[(number, codec.decode_cohort(data)) for number, data in shard.cohorts.items()],
        )
        return State(meta, kept, sealed)

    def statement_ids(self) -> tuple[str, ...]:
        return tuple(statement_id.decode() for statement_id in self._shard.statement_ids)

    def origin(self, qi_group: int) -> Origin | None:
        data = self._shard.origins.get(qi_group)
        return None if data is None else codec.decode_origin(data)

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        number = commit.meta.commit
        if number == commit_before:
            raise ValueError(f"commit {number} on top of itself: a repeated call could not be told from a new one")
        self.check_fence(fence)
        shard = self._shard
        if (shard.commit, shard.committed_by) == (number, fence):
            return
        if shard.commit != commit_before:
            raise Conflict(f"shard {self._shard_number}: the store is at commit {shard.commit}, not {commit_before}")
        self._write(shard, fence, commit)

    def _write(self, shard: ShardBytes, fence: str, commit: Commit) -> None:
        meta = codec.encode_meta(commit.meta)
        records = _each(codec.encode_record, commit.records, str.encode)
        qi_groups = _each(codec.encode_qi_group, commit.qi_groups, int)
        similarity = _each(codec.encode_similarity, commit.similarity, int)
        origins = _each(codec.encode_origin, commit.origins, int)
        statement_ids = [statement_id.encode() for statement_id in commit.statement_ids]
        last_changes = _each(codec.encode_remembered, commit.last_changes, int)
        places = _each(codec.encode_place, commit.sealed.places, str.encode) if commit.sealed else {}
        cohorts = _each(codec.encode_cohort, commit.sealed.cohorts, int) if commit.sealed else {}

        if commit.replaces:
            for kept in (shard.records, shard.qi_groups, shard.similarity, shard.origins, shard.outbox):
                kept.clear()
            if commit.meta.sealed is None:
                shard.sealed.clear()
                shard.cohorts.clear()
        _merge(shard.records, records)
        _merge(shard.qi_groups, qi_groups)
        _merge(shard.similarity, similarity)
        _merge(shard.origins, origins)
        _merge(shard.sealed, places)
        _merge(shard.cohorts, cohorts)
        _merge(shard.last_changes, last_changes)
        shard.statement_ids.extend(statement_ids)
        shard.outbox.extend((commit.meta.commit, entry) for entry in commit.outbox)
        shard.meta, shard.commit, shard.committed_by = meta, commit.meta.commit, fence

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        return iter(tuple(self._shard.outbox))

    def trim(self, fence: str, commit: int) -> None:
        self.check_fence(fence)
        outbox = self._shard.outbox
        while outbox and outbox[0][0] <= commit:
            outbox.popleft()


def _number(claim: str) -> int:
    return int(claim.partition("-")[0] or 0)


def _each(
    encode: Callable[[Value], Encoded], changes: Mapping[Key, Value | None], field: Callable[[Key], Field]
) -> dict[Field, Encoded | None]:
    """Names and values encoded; None, a removal, stays None."""
    return {field(name): None if value is None else encode(value) for name, value in changes.items()}


def _merge(kept: dict[Key, Encoded], changes: Mapping[Key, Encoded | None]) -> None:
    """Makes the changes; None removes."""
    for name, value in changes.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = value
