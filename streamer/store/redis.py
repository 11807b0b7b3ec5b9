"""The store of one shard in Redis: what a worker needs to go on after a crash.

The rules of this file
----------------------
* All keys of a shard stand under one hash tag, so that one script may change them all, on a cluster too:
  `{table:shard}:meta` (hash: fence, commit, state ...), `:records` (hash: source key -> row), `:groups` (hash: QI group
  -> box, members, slots), `:similarity` (hash: QI group -> floor) with `:similarity:<QI group>` (sorted set: neighbour,
  QGSSD), `:outbox` (list), `:statements` (list). Raw values live here: access control and TLS are part of a deployment.
* What changes something is one Lua call, repeatable without harm, because the client repeats a call whose answer was
  lost, and an answer is lost after the work as often as before it.
* Redis' own error texts may quote arguments, and those are people's values: only the error's code is passed on.
* Redis must not lose what it confirmed: `require_durable` says no before anything is published.
* No other file of this project imports `redis`.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from streamer.errors import ConfigError, Conflict, Fenced, NotDurable, ServerUnreachable, ShardRefused, StreamerError
from streamer.store import codec, commit_script
from streamer.store.base import Commit, Entry, Meta, QIGroupState, Record, SimilarityList, State

TIMEOUT_S = 5.0
RETRIES_MAX = 3
FIELDS_PER_SCAN = 5_000
ENTRIES_PER_READ = 1_000
LISTS_PER_READ = 1_000

KEYS = ("meta", "records", "groups", "similarity", "outbox", "statements")

DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}

REFUSALS: dict[str, tuple[type[StreamerError], str]] = {
    "LOADING": (ServerUnreachable, "is still loading its data"),
    "READONLY": (ServerUnreachable, "is a replica and takes no writes"),
    "MASTERDOWN": (ServerUnreachable, "is a replica without its master"),
    "NOREPLICAS": (ServerUnreachable, "has too few replicas to take a write"),
    "CLUSTERDOWN": (ServerUnreachable, "is a cluster that is down"),
    "TRYAGAIN": (ServerUnreachable, "is a cluster that is moving the shard"),
    "BUSY": (ServerUnreachable, "is busy with a long script"),
    "MISCONF": (ServerUnreachable, "cannot write its file: look at its log and its disk"),
    "OOM": (ServerUnreachable, "is full: raise maxmemory"),
    "NOAUTH": (ConfigError, "wants a user and a password: put them into the URL"),
    "WRONGPASS": (ConfigError, "refuses the user or the password of the URL"),
    "NOPERM": (ConfigError, "forbids this user a command or a key: allow scripts, hashes, lists, sorted sets, DEL"),
    "MOVED": (ConfigError, "is one node of a cluster and not this shard's: name that node"),
    "CROSSSLOT": (ConfigError, "does not keep the shard's keys together: a proxy must leave the hash tag {} alone"),
    "WRONGTYPE": (ShardRefused, "holds something else under a key of the shard: who else writes there?"),
}
_CODE = re.compile(rf"\b({'|'.join(REFUSALS)})\b")


def connect(url: str, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """A client for `redis://`, `rediss://` or `unix://`; connects at its first command, shared by all shards.

    timeout_s bounds every wait for Redis; a call without an answer is repeated `RETRIES_MAX` times. Raises ConfigError.
    """
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES_MAX),
            health_check_interval=30,
        )
    except ValueError:
        raise ConfigError("the Redis URL cannot be read: redis://[user:password@]host:port/0, or rediss://") from None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a shard holds, counted without reading it."""

    records: int
    qi_groups: int
    similarity_lists: int
    outbox: int


class RedisStore:
    """The `Store` of one shard in Redis.

    writes: what the commits of this object wrote: "calls", "commands" (Redis commands inside the calls), and the
    fields and entries of "records", "groups", "similarity" (those that differed), "floors", "outbox", "statements",
    "meta".
    """

    def __init__(self, client: redis.Redis, table_name: str, shard: int) -> None:
        self.shard = shard
        self.writes: Counter[str] = Counter()
        self._client: Any = client  # redis-py types every answer as "or an awaitable"
        self._address = _address(client)
        self._keys = tuple(f"{{{table_name}:{shard}}}:{name}" for name in KEYS)
        self._meta, self._records, self._groups, self._similarity, self._outbox, self._statements = self._keys
        self._commit_script, self._trim_script, self._take_over_script = (
            self._client.register_script(files("streamer.store").joinpath(f"{name}.lua").read_text("utf-8"))
            for name in ("commit", "trim", "take_over")
        )

    # -- who may write --------------------------------------------------------------------------------------------

    def take_over(self) -> str:
        """Shuts out whoever wrote this shard before; returns the new fence (a counter and a random token)."""
        with self._answers():
            fence: bytes = self._take_over_script(keys=[self._meta], args=[secrets.token_hex(8)])
        return fence.decode()

    def check_fence(self, fence: str) -> None:
        """Raises Fenced when `fence` is not the newest any more."""
        with self._answers():
            newest = self._client.hget(self._meta, "fence")
        if newest != fence.encode():
            raise self._fenced()

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        """Applies `commit` on top of commit number `commit_before`, whole or not at all.

        Raises Fenced when `fence` is not the newest, Conflict when the store is neither at `commit_before` nor already
        at this very commit, ValueError where the commit has the number of the one before it.
        """
        number = commit.meta.commit
        if number == commit_before:
            raise ValueError(f"commit {number} on top of itself: a repeated call could not be told from a new one")
        with self._answers():
            commands, *similarity = self._commit_script(
                keys=commit_script.keys(self._keys, self._similarity, commit),
                args=commit_script.arguments(fence, commit_before, commit),
            )
        if commands == commit_script.FENCED:
            raise self._fenced()
        if commands == commit_script.CONFLICT:
            raise Conflict(f"shard {self.shard}: the store is not at commit {commit_before}; load it again")
        if commands:
            self.writes.update(commit_script.entries(commit), similarity=sum(similarity), calls=1, commands=commands)

    def trim(self, fence: str, commit: int) -> None:
        """Drops the outbox entries of commits <= `commit`. Raises Fenced."""
        with self._answers():
            dropped = self._trim_script(keys=[self._meta, self._outbox], args=[fence, commit])
        if dropped == commit_script.FENCED:
            raise self._fenced()

    # -- reading --------------------------------------------------------------------------------------------------

    def meta(self) -> Meta | None:
        """Where the shard stands, or None for a shard that never committed."""
        with self._answers():
            data = self._client.hget(self._meta, "state")
        return None if data is None else codec.decode_meta(data)

    def load(self) -> State | None:
        """Everything the shard holds, or None for a shard that never committed.

        The records are read while they are iterated. Raises Conflict where somebody committed meanwhile.
        """
        meta = self.meta()
        if meta is None:
            return None
        return State(
            meta=meta,
            records=self._read_records(meta.commit),
            qi_groups={int(number): codec.decode_qi_group(data) for number, data in self._scan(self._groups)},
            similarity=self._read_lists(),
            statement_ids=self._read_statement_ids(),
        )

    def outbox(self) -> Iterator[tuple[int, Entry]]:
        """Entries not trimmed yet with their commit numbers, oldest first."""
        with self._answers():
            left = self._client.llen(self._outbox)
        while left > 0:  # counted from the end, which a trim does not move
            last = max(1, left - ENTRIES_PER_READ + 1)
            with self._answers():
                entries = self._client.lrange(self._outbox, -left, -last)
            yield from map(codec.decode_entry, entries)
            left = last - 1

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

    @staticmethod
    def shards_of(client: redis.Redis, table_name: str) -> list[int]:
        """The numbers of the table's shards that Redis knows, ascending. Reads the names of all keys once."""
        own = re.compile(rf"\{{{re.escape(table_name)}:(\d+)\}}:meta")
        with _answers(_address(client)):
            names = [name.decode() for name in client.scan_iter(match=f"{{{table_name}:*}}:meta", count=10_000)]
        return sorted({int(found[1]) for found in map(own.fullmatch, names) if found})

    def _read_records(self, commit: int) -> Iterator[tuple[str, Record]]:
        decode = codec.decode_record
        for source_key, data in self._scan(self._records):
            yield source_key.decode(), decode(data)
        meta = self.meta()
        if meta is None or meta.commit != commit:
            raise Conflict(f"shard {self.shard}: somebody committed while it was being read; load it again")

    def _read_lists(self) -> dict[int, SimilarityList]:
        return self._similarity_lists({int(number): floor for number, floor in self._scan(self._similarity)})

    def _similarity_lists(self, floors: Mapping[int, bytes]) -> dict[int, SimilarityList]:
        numbers, lists = list(floors), {}
        for at in range(0, len(numbers), LISTS_PER_READ):
            some = numbers[at : at + LISTS_PER_READ]
            with self._answers():
                pipeline = self._client.pipeline(transaction=False)
                for number in some:
                    pipeline.zrange(f"{self._similarity}:{number}", 0, -1, withscores=True)
                answers = pipeline.execute()
            for number, answer in zip(some, answers, strict=True):
                neighbours = tuple((int(neighbour), float(degree)) for neighbour, degree in answer)
                lists[number] = codec.in_order(SimilarityList(neighbours, float(floors[number])))
        return lists

    def _read_statement_ids(self) -> tuple[str, ...]:
        with self._answers():
            return tuple(data.decode() for data in self._client.lrange(self._statements, 0, -1))

    def _scan(self, hash_name: str) -> Iterator[tuple[bytes, bytes]]:
        """Fields and values of a hash, a slice at a time. Each comes once as long as nobody writes to the hash."""
        cursor = None
        while cursor != 0:
            with self._answers():
                cursor, fields = self._client.hscan(hash_name, cursor or 0, count=FIELDS_PER_SCAN)
            yield from fields.items()

    # -- the server -----------------------------------------------------------------------------------------------

    def require_durable(self, stated: bool) -> None:
        """Raises NotDurable where Redis could lose what it confirmed; `stated`: the operator vouches for it."""
        if stated:
            return
        state_it = "or say `durability: stated` in table.yaml if it keeps what it confirms by other means"
        for setting, wanted in DURABLE.items():
            with self._answers():
                try:
                    found = self._client.config_get(setting).get(setting)
                except redis.ResponseError:
                    raise NotDurable(
                        f"{self._address} does not show its settings: allow CONFIG GET, {state_it}"
                    ) from None
            if found != wanted:
                raise NotDurable(f"{self._address}: {setting} is {found}: set it to {wanted}, {state_it}")

    def _answers(self) -> AbstractContextManager[None]:
        return _answers(self._address)

    def _fenced(self) -> Fenced:
        return Fenced(f"shard {self.shard}: another worker has taken over, or Redis lost the shard's keys")


def _address(client: redis.Redis) -> str:
    """Redis as messages name it: never the URL, which may hold a password."""
    where = client.connection_pool.connection_kwargs
    return f"Redis {where['path']}" if "path" in where else f"Redis {where.get('host')}:{where.get('port')}"


@contextmanager
def _answers(address: str) -> Iterator[None]:
    """Turns what redis-py raises into this project's errors, without the text, which may quote people's values."""
    try:
        yield
    except redis.RedisError as error:
        code = next(iter(_CODE.findall(f"{error.status_code} {error}")), None)
        if code is not None:
            kind, text = REFUSALS[code]
            raise kind(f"{address} {text} ({code})") from None
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            raise ServerUnreachable(f"{address} does not answer") from None
        raise StreamerError(f"{address} refuses a command of this store ({type(error).__name__})") from None
