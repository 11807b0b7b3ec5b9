"""Questions of an operator to Redis that load no shard, and facts that workers leave there to be read.

Workers leave it in `{table:shard}:custody` (hash: owner, process, taken_at, first_taken_at, what the owner measured,
and why the shard was refused). The fence alone says who holds a shard. If a shard was never rebuilt, the time to its
first rebuild by the clock counts from first_taken_at. Commands that load shards have their claims and marks in it, too,
as `store.base` says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import redis

from streamer.errors import ConfigError, ServerUnreachable, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.sealed.stored_state import SealedPlace
from streamer.incremental.store import codec
from streamer.incremental.store.base import Meta, State
from streamer.incremental.store.redis import MEASURED, REFUSED_FIELDS, RedisStore
from streamer.incremental.store.redis_server import (
    REFUSALS,
    REPLICA,
    RedisClient,
    address_of,
    answers,
    master_of,
    masters,
    name_of_master,
)
from streamer.table.codes import CountedText

YEAR_9999 = 253_402_300_799
"""The last second that can be written as a time."""

BEGINNING = "beginning"
"""The mark of a command that gives shards all their rows, from before it writes until all have them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a shard, counted without reading it."""

    records: int
    qi_groups: int
    similarity_lists: int
    outbox: int  # values, of many records each

    @property
    def pending(self) -> int:
        """Rows are pending only if there is no QI group to join."""
        return 0 if self.qi_groups else self.records


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a shard by a worker; at: in seconds since 1970 by Redis' clock."""

    reason: str
    by: str
    at: int


class Measured(msgspec.Struct, frozen=True):
    """The measurements of a shard by its worker. Counts are over the worker's life; None: not measured yet."""

    ncp: float | None = None  # mean loss of the published rows (`Space.mean_loss`)
    ncp_fresh: float | None = None  # the same of a table anonymized afresh, by the last look for drift
    messages: int = 0
    records: int = 0  # published
    at: Annotated[int, msgspec.Meta(ge=0, le=YEAR_9999)] = 0  # seconds since 1970 by Redis' clock
    withheld: int = 0  # rows of QI groups that are wider than `coarsest` allows

    @property
    def over_fresh(self) -> float | None:
        """The loss over that of a fresh table, as a ratio.

        >>> Measured(0.22, 0.2).over_fresh, Measured(0.0, 0.0).over_fresh, Measured(0.22).over_fresh
        (1.1, 1.0, None)
        """
        if self.ncp is not None and self.ncp_fresh:
            return round(self.ncp / self.ncp_fresh, 6)
        return 1.0 if self.ncp == self.ncp_fresh == 0 else None  # neither loses anything

    @property
    def records_per_event(self) -> float | None:
        """Published records over messages.

        >>> Measured(messages=4, records=6).records_per_event, Measured().records_per_event
        (1.5, None)
        """
        return round(self.records / self.messages, 6) if self.messages else None


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who took a shard over last, and what became of it; times in seconds since 1970 by Redis' clock, None: never."""

    owner: str = ""
    taken_at: int | None = None
    committed_at: int | None = None
    refusal: Refusal | None = None
    beginning: bool = False  # the table may have its rows in some shards, and not in all
    measured: Measured = field(default_factory=Measured)  # by the owner
    process: str = ""  # which run of the owner it was


@dataclass(frozen=True, slots=True)
class RedisNow:
    """The servers themselves: their latest clock, and whether they take writes."""

    time: float
    full: bool = False  # or so nearly that a commit may be refused
    refuses: str = ""  # why one of them takes no writes; "" if all do, as far as that may be asked


class RedisLookups(RedisStore):
    """A shard's store with questions that cost little."""

    def sizes(self) -> Sizes:
        with self._answers():
            pipeline = self._client.pipeline(transaction=False)  # a full Redis refuses even reads in a transaction
            pipeline.hlen(self._records).hlen(self._groups).hlen(self._similarity).llen(self._outbox)
            return Sizes(*pipeline.execute())

    def report_owner(self, owner: str, process: str = "") -> int:
        """Notes who has taken the shard over just now; removes a refusal, and what the former owner measured.

        process: this run of the owner, whose name may be another's, too. Returns when the shard was first taken over,
        in seconds since 1970.
        """
        with self._answers():
            taken_at = self._seconds_now()
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hdel(self._custody, *REFUSED_FIELDS, MEASURED)
            pipeline.hset(self._custody, mapping={"owner": owner, "process": process, "taken_at": taken_at})
            pipeline.hsetnx(self._custody, "first_taken_at", taken_at).hget(self._custody, "first_taken_at")
            return int(pipeline.execute()[-1])

    def report_measured(self, measured: Measured) -> None:
        """Notes the measurements of the worker that holds the shard; `at` is set here."""
        with self._answers():
            told = msgspec.json.encode(msgspec.structs.replace(measured, at=self._seconds_now()))
            self._client.hset(self._custody, MEASURED, told)

    def refusal_is_over(self) -> None:
        """Removes a refusal whose cause is remedied."""
        with self._answers():
            self._client.hdel(self._custody, *REFUSED_FIELDS)

    def report_refusal(self, owner: str, reason: str) -> None:
        """Notes why a worker refuses the shard, until one takes it over."""
        with self._answers():
            told = {"refused_by": owner, "reason": reason, "refused_at": self._seconds_now()}
            self._client.hset(self._custody, mapping=told)

    @property
    def master(self) -> str:
        """The server of a cluster that has the shard; "" if it is no cluster."""
        return name_of_master(self._client, self._meta)

    def check_begun(self, name: str) -> None:
        """Raises ShardRefused if the table may have its rows in some shards, and not in all."""
        with self._answers():
            if self._client.hexists(self._custody, BEGINNING):
                raise ShardRefused(f"{name}: {remedies.PARTLY_LOADED}")

    def custody(self) -> Ownership:
        """Who took the shard over last, when it committed last, what it measured, and why it was refused since."""
        with self._answers():
            told = {name.decode(): text.decode() for name, text in self._client.hgetall(self._custody).items()}
            committed_at = self._client.hget(self._meta, "committed_at")
        refusal = Refusal(told["reason"], told["refused_by"], int(told["refused_at"])) if "reason" in told else None
        taken_at, beginning = _seconds(told.get("taken_at")), BEGINNING in told
        owner, measured = told.get("owner", ""), _measured(told.get(MEASURED, "{}"))
        process = told.get("process", "")
        return Ownership(owner, taken_at, _seconds(committed_at), refusal, beginning, measured, process)

    def _seconds_now(self) -> int:
        clock: Any = master_of(self._client, self._meta)  # redis-py types every answer as "or an awaitable"
        return int(clock.time()[0])

    def index_table(self) -> tuple[Meta, list[tuple[str, int]]]:
        """Source key and QI group of every row, as of one commit, and where the shard stands after it.

        Raises Conflict if somebody committed meanwhile.
        """
        meta = self.meta()
        if meta is None:
            return Meta(), []
        return meta, [(source_key, record.qi_group) for source_key, record in self._read_records(meta.commit)]

    def snapshot(self) -> State | None:
        """Rows and QI groups as of one commit, without similarity lists; None for a shard that never committed.

        Redis answers no one else until then, with a million rows for about half a second. A slower reading would never
        see one commit of a busy shard.
        """
        with self._answers():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hget(self._meta, "state").hgetall(self._records).hgetall(self._groups)
            state, records, groups = pipeline.execute()
        if state is None:
            return None
        meta = codec.decode_meta(state)
        kept = StoredTable(
            qi_group_next=meta.qi_group_next,
            records=((source_key.decode(), codec.decode_record(data)) for source_key, data in records.items()),
            qi_groups=((codec.decode_number(number), codec.decode_qi_group(data)) for number, data in groups.items()),
            similarity=(),
            statement_ids=(),
        )
        return State(meta, kept)

    def read_records(self, source_keys: Sequence[str]) -> dict[str, Record]:
        """Some rows of the index table, without loading the shard; those that are not there are left out."""
        if not source_keys:
            return {}
        with self._answers():
            found = self._client.hmget(self._records, list(source_keys))
        pairs = zip(source_keys, found, strict=True)
        return {key: codec.decode_record(data) for key, data in pairs if data is not None}

    def keys_of(self, individual: str, counted: CountedText) -> set[str]:
        """The source keys of an individual's rows; reads every row of the shard, whatever is committed meanwhile.

        individual: the counted text; counted: makes that of a stored one, which an older engine wrote as the source.
        """
        rows = ((key, codec.decode_record(data).row.individual) for key, data in self._scan(self._records))
        return {key.decode() for key, who in rows if who is not None and counted(who) == individual}

    def sealed_place(self, source_key: str) -> SealedPlace | None:
        """The place of a row's person in the sealed changelog; None if there is none."""
        with self._answers():
            data = self._client.hget(self._sealed, source_key)
        return None if data is None else codec.decode_place(data)

    def qi_group_numbers(self) -> list[int]:
        """The numbers of the shard's QI groups, ascending; nothing of what they hold is read."""
        with self._answers():
            return sorted(map(codec.decode_number, self._client.hkeys(self._groups)))

    def read_group(self, qi_group: int) -> QIGroupState | None:
        """One QI group, without loading the shard."""
        with self._answers():
            data = self._client.hget(self._groups, qi_group)
        return None if data is None else codec.decode_qi_group(data)

    def read_similarity(self, qi_group: int) -> SimilarityList | None:
        """One similarity list, without loading the shard; None for a QI group that has none."""
        with self._answers():
            data = self._client.hget(self._similarity, qi_group)
        return None if data is None else codec.decode_similarity(data)


def _measured(text: str) -> Measured:
    """Reads measurements; nothing if another version wrote them otherwise: no work depends on them."""
    try:
        return msgspec.json.decode(text, type=Measured)
    except msgspec.DecodeError:
        return Measured()


def _seconds(text: str | bytes | None) -> int | None:
    return None if text is None else int(text)


def server_now(client: RedisClient, table_name: str = "", shards: int = 0) -> RedisNow:
    """The latest clock of the servers, and whether one of them is full or takes no writes.

    shards: a write that leaves nothing is tried for each of so many, as a server may refuse writes for many reasons.
    """
    told = [_now(master) for master in masters(client)]
    refuses = next((now.refuses for now in told if now.refuses), "") or refusal_of_writes(client, table_name, shards)
    return RedisNow(max(now.time for now in told), any(now.full for now in told), refuses)


def refusal_of_writes(client: RedisClient, table_name: str, shards: int) -> str:
    """Why Redis refuses a write under a shard's keys; "" if it takes one, or this user may not write."""
    probe, tried = client.register_script(PROBE), dict[str, str]()
    for shard in range(shards):
        key = f"{{{table_name}:{shard}}}:probe"
        tried.setdefault(name_of_master(client, key), key)
    try:
        for key in tried.values():
            with answers(address_of(client)):
                probe(keys=[key])
    except ServerUnreachable as refused:
        return str(refused)
    except ConfigError:  # an operator's user need not write
        return ""
    return ""


PROBE = "redis.call('HSET', KEYS[1], 'probe', '') return redis.call('UNLINK', KEYS[1])"
"""A write that leaves nothing, and that a server refuses as it refuses a commit."""

ROOM_BYTES, ROOM_SHARE = 1 << 20, 0.01
"""A Redis with less room below its maxmemory counts as full: a commit's own bytes count while it is sent."""


def _now(master: redis.Redis) -> RedisNow:
    """The clock of one server, and whether it is full or a replica; neither if it does not show that."""
    asked: Any = master  # redis-py types every answer as "or an awaitable"
    with answers(address_of(master)):
        seconds, microseconds = asked.time()
        try:
            memory, role = asked.info("memory"), asked.info("replication").get("role")
        except redis.ResponseError:
            memory, role = {}, "master"
    used, limit = memory.get("used_memory", 0) - memory.get("mem_not_counted_for_evict", 0), memory.get("maxmemory", 0)
    is_full = 0 < limit <= used + ROOM_BYTES + ROOM_SHARE * limit
    refuses = f"{address_of(master)} {REFUSALS[REPLICA][1]} ({REPLICA})" if role == "slave" else ""
    return RedisNow(seconds + microseconds / 1e6, is_full, refuses)


def shards_of(client: RedisClient, table_name: str) -> list[int]:
    """The numbers of the table's shards that Redis knows, ascending. Reads the names of all keys once."""
    own = re.compile(rf"\{{{re.escape(table_name)}:(\d+)\}}:meta")
    with answers(address_of(client)):
        names = [name.decode() for name in client.scan_iter(match=f"{{{table_name}:*}}:meta", count=10_000)]
    return sorted({int(found[1]) for found in map(own.fullmatch, names) if found})


def forget_shard(client: RedisClient, table_name: str, shard: int) -> None:
    """Removes everything of a shard that the input no longer has, its fence first."""
    asked: Any = client  # redis-py types every answer as "or an awaitable"
    with answers(address_of(client)):
        asked.unlink(f"{{{table_name}:{shard}}}:meta")
        for name in asked.scan_iter(match=f"{{{table_name}:{shard}}}:*", count=10_000):
            asked.unlink(name)
