"""The store of one shard in Redis: what a worker needs to go on after a crash.

The rules of this file
----------------------
* All keys of a shard have one hash tag, so that one script may change them all, on a cluster too:
  `{table:shard}:meta` (hash: fence, commit, state ...), `:records` (hash: source key -> row), `:groups` (hash: QI group
  -> box, members, slots), `:similarity` (hash: QI group -> similarity degrees, and the commit that they are of),
  `:outbox` (list), `:statements` (list), `:origins` (hash: QI group -> how it was last formed, and in which commit),
  `:sealed` (hash: source key -> cohort, or since when it waits for one), `:cohorts` (hash: number -> id, rows, people
  left), `:changed` (hash: keyed hash of a source key -> position of its last change). Raw values are stored here:
  access control and TLS are part of a deployment.
  `{table:shard}:custody` (hash) is what people and commands read: who holds the shard, who loads the table.
* Every change is one Lua call that can be repeated without harm: the client repeats a call whose answer was lost.
"""

from __future__ import annotations

import secrets
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.resources import files
from itertools import chain
from typing import Any, TypeVar

from redis.exceptions import AskError

from streamer.errors import Conflict, Fenced, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import STATEMENT_IDS_MAX, Origin, Record, SimilarityList, StoredTable
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import StoredSealed
from streamer.incremental.store import codec
from streamer.incremental.store.base import Commit, Meta, State, being_loaded, claimed_since
from streamer.incremental.store.redis_server import RedisClient, address_of, answers, master_of

# The arguments of `commit.lua`: sixteen sections, each the arguments of one Redis command. Values are joined into
# slices: one argument says how long each value is, the next holds them all. A dozen values per event as arguments of
# their own would cost the client more than everything else in a commit.

FENCED, CONFLICT = -1, -2
"""The script's answers if it wrote nothing; 0: this very commit is stored already."""

NEW_MARK = 1
"""The answer to a command's mark if there was none."""

LOADING = -2
"""The answer to who wants to take over a shard that another command loads."""

REFUSED_FIELDS = ("refused_by", "reason", "refused_at")
"""The fields that a refusal leaves in the custody."""

MEASURED = "measured"
"""The field with the measurements of the worker that holds the shard, as JSON."""

SLICE = 5_000
"""Values per slice: an even number, so that a field and its value stay together; the script can take 8,000."""

Name = TypeVar("Name")
Value = TypeVar("Value")
Texts = list[bytes]


def arguments(fence: str, commit_before: int, commit: Commit) -> list[str | int | bytes]:
    """All arguments of the script: the comparisons, meta, the counts, the slices."""
    sections = [_slices(section) for section in _sections(commit)]
    state = codec.encode_meta(commit.meta)
    replaced = (1 if commit.meta.sealed else 2) if commit.replaces else 0
    head = (fence, commit_before, commit.meta.commit, state, STATEMENT_IDS_MAX, replaced)
    counts = [len(slices) // 2 for slices in sections]
    return [*head, *counts, *chain(*sections)]


def _slices(values: Texts) -> Texts:
    """Per slice the lengths of its values, and the values, joined."""
    found: Texts = []
    for first in range(0, len(values), SLICE):
        some = values[first : first + SLICE]
        found += (_packed(list(map(len, some))), b"".join(some))
    return found


def _packed(numbers: Sequence[int]) -> bytes:
    """Numbers of four bytes each, the highest first."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def entries(commit: Commit) -> dict[str, int]:
    """The number of fields and list entries that a commit writes, by kind."""
    return {
        "records": len(commit.records),
        "groups": len(commit.qi_groups),
        "similarity": len(commit.similarity),
        "outbox": len(commit.outbox),
        "statements": len(commit.statement_ids),
        "origins": len(commit.origins),
        "sealed": len(commit.sealed.places) if commit.sealed else 0,
        "cohorts": len(commit.sealed.cohorts) if commit.sealed else 0,
        "changed": len(commit.last_changes),
        "meta": 1,
    }


def _sections(commit: Commit) -> list[Texts]:
    """The values of the script's sixteen sections, each as the arguments of its command."""
    number, sealed = commit.meta.commit, commit.sealed
    return [
        *_put_and_gone(commit.records, str.encode, codec.encode_record),
        *_put_and_gone(commit.qi_groups, _number, codec.encode_qi_group),
        *_put_and_gone(commit.similarity, _number, codec.encode_similarity),
        codec.encode_outbox(number, commit.outbox),
        [statement_id.encode() for statement_id in commit.statement_ids],
        *_put_and_gone(commit.origins, _number, codec.encode_origin),
        *_put_and_gone(sealed.places if sealed else {}, str.encode, codec.encode_place),
        *_put_and_gone(sealed.cohorts if sealed else {}, _number, codec.encode_cohort),
        *_put_and_gone(commit.last_changes, _number, codec.encode_remembered),
    ]


def _put_and_gone(
    changes: Mapping[Name, Value | None], field: Callable[[Name], bytes], encode: Callable[[Value], bytes]
) -> tuple[Texts, Texts]:
    """Fields and values that are put, one after the other; fields that are removed."""
    put: Texts = []
    gone: Texts = []
    for name, value in changes.items():
        if value is None:
            gone.append(field(name))
        else:
            put += (field(name), encode(value))
    return put, gone


def _number(number: int) -> bytes:
    return b"%d" % number


FIELDS_PER_SCAN = 5_000
VALUES_PER_READ = 10
"""Of the outbox: each has codec.ENTRIES_AT_ONCE entries."""

TOKENS_KEPT = 100
"""Fences that this process asked for without an answer, and remembers: far more than an outage leaves."""

KEYS = ("meta", "records", "groups", "similarity", "outbox", "statements", "origins", "sealed", "cohorts", "changed")


class RedisStore:
    """The `Store` of one shard in Redis; its contract is in `store.base`."""

    def __init__(self, client: RedisClient, table_name: str, shard: int) -> None:
        self.shard = shard
        self._table_name = table_name
        self.writes: Counter[str] = Counter()
        """Counts of what commits wrote: "calls", "commands" inside the calls, and entries of each kind (`entries`)."""
        self._tokens: list[str] = []
        self._claim = ""  # of the command that uses this object, if it has left its mark
        self._has_former = False  # an older streamer's similarity lists were read
        self._client: Any = client  # redis-py types every answer as "or an awaitable"
        self._address = address_of(client)
        self._keys = tuple(f"{{{table_name}:{shard}}}:{name}" for name in KEYS)
        self._meta, self._records, self._groups, self._similarity, self._outbox, self._statements = self._keys[:6]
        self._origins, self._sealed, self._cohorts, self._changed = self._keys[6:]
        self._custody = f"{{{table_name}:{shard}}}:custody"
        self._commit_script, self._trim_script, self._take_over_script, self._claim_script, self._loading_script = (
            self._client.register_script(files("streamer.incremental.store").joinpath(f"{name}.lua").read_text("utf-8"))
            for name in ("commit", "trim", "take_over", "claim", "loading")
        )

    # -- who may load the shard ---------------------------------------------------------------------------------------

    def claim(self, who: str, seconds: float) -> str:
        with self._answers():
            claim, *held = self._claim_script(keys=[self._custody], args=[secrets.token_hex(8), seconds, who])
        if held:
            by, left = held
            raise being_loaded(f"shard {self.shard} of {self._table_name}", claim.decode(), by.decode(), float(left))
        return str(claim.decode())

    def renew(self, claim: str, seconds: float) -> None:
        with self._answers():
            _, *held = self._claim_script(keys=[self._custody], args=[claim.partition("-")[2], seconds])
        if held:
            raise claimed_since(self._table_name)

    def shut_out_older(self, claim: str) -> None:
        self._tell("claimed", claim)

    def tell_beginning(self, claim: str) -> bool:
        is_new = self._tell("loading", claim) == NEW_MARK
        self._claim = claim
        return is_new

    def tell_begun(self, claim: str) -> None:
        self._tell("loaded", claim, *REFUSED_FIELDS)
        self._claim = ""

    def _tell(self, what: str, claim: str, *fields: str) -> int:
        with self._answers():
            done: int = self._loading_script(keys=[self._meta, self._custody], args=[claim, what, *fields])
        if done == FENCED:
            raise claimed_since(self._table_name)
        return done

    # -- who may write --------------------------------------------------------------------------------------------

    def take_over(self, again: bool = False) -> str:
        """As in `Store`. A call without an answer may have been done, so all tokens of this object count as its own."""
        own = self._tokens if again else []
        self._tokens = [*self._tokens[-TOKENS_KEPT:], secrets.token_hex(8)]
        with self._answers():
            fence: bytes | int = self._take_over_script(
                keys=[self._meta, self._custody], args=[self._tokens[-1], self._claim, *own]
            )
        if fence == LOADING:
            if self._claim:
                raise claimed_since(self._table_name)
            raise ShardRefused(f"shard {self.shard} of {self._table_name}: {remedies.PARTLY_LOADED}")
        if isinstance(fence, int):
            raise self._fenced()
        return fence.decode()

    def check_fence(self, fence: str) -> None:
        with self._answers():
            newest = self._client.hget(self._meta, "fence")
        if newest != fence.encode():
            raise self._fenced()

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        """As in `Store`; raises ValueError if the commit has the number of the one before it."""
        number = commit.meta.commit
        if number == commit_before:
            raise ValueError(f"commit {number} on top of itself: a repeated call could not be told from a new one")
        former = self._former_lists() if commit.replaces or self._has_former else []
        if former:
            commit = replace(commit, similarity={**dict.fromkeys(former), **commit.similarity})
        with self._answers():
            commands = self._commit_script(
                keys=[*self._keys, *(f"{self._similarity}:{qi_group}" for qi_group in former)],
                args=arguments(fence, commit_before, commit),
            )
        if commands == FENCED:
            raise self._fenced()
        if commands == CONFLICT:
            raise Conflict(f"shard {self.shard}: the store is not at commit {commit_before}; load it again")
        if commands:
            self._has_former = False
            self.writes.update(entries(commit), calls=1, commands=commands)

    def trim(self, fence: str, commit: int) -> None:
        with self._answers():
            dropped = self._trim_script(keys=[self._meta, self._outbox], args=[fence, commit])
        if dropped == FENCED:
            raise self._fenced()

    # -- reading --------------------------------------------------------------------------------------------------

    def meta(self) -> Meta | None:
        with self._answers():
            data = self._client.hget(self._meta, "state")
        return None if data is None else codec.decode_meta(data)

    def load(self) -> State | None:
        """As in `Store`; rows, QI groups and similarity lists are read while they are iterated.

        The end of the rows, and of the lists, raises Conflict if somebody committed meanwhile. The end of the QI groups
        does not: to look at them alone is allowed while the shard works. Bytes that no store writes raise ShardRefused.
        """
        meta = self.meta()
        if meta is None:
            return None
        groups, cohorts, people = self._scan(self._groups), self._scan(self._cohorts), self._scan_people
        kept = StoredTable(
            qi_group_next=meta.qi_group_next,
            records=self._read_records(meta.commit),
            qi_groups=((codec.decode_number(number), codec.decode_qi_group(data)) for number, data in groups),
            similarity=self._read_lists(meta.commit),
            statement_ids=self.statement_ids(),
            last_changes=((int(row), codec.decode_remembered(data)) for row, data in self._scan(self._changed)),
        )
        places = ((source_key, codec.decode_place(data)) for source_key, data in people(self._sealed, meta.commit))
        numbered = ((codec.decode_number(number), codec.decode_cohort(data)) for number, data in cohorts)
        return State(meta, kept, StoredSealed(places, numbered))

    def statement_ids(self) -> tuple[str, ...]:
        with self._answers():
            return tuple(data.decode() for data in self._client.lrange(self._statements, 0, -1))

    def origin(self, qi_group: int) -> Origin | None:
        with self._answers():
            data = self._client.hget(self._origins, qi_group)
        return None if data is None else codec.decode_origin(data)

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        with self._answers():
            left = self._client.llen(self._outbox)
        while left > 0:  # counted from the end, which a trim does not move
            last = max(1, left - VALUES_PER_READ + 1)
            with self._answers():
                found = self._client.lrange(self._outbox, -left, -last)
            yield from chain.from_iterable(map(codec.decode_outbox, found))
            left = last - 1

    def _read_records(self, commit: int) -> Iterator[tuple[str, Record]]:
        decode = codec.decode_record
        for source_key, data in self._scan_people(self._records, commit):
            yield source_key, decode(data)

    def _scan_people(self, hash_name: str, commit: int) -> Iterator[tuple[str, bytes]]:
        try:
            for source_key, data in self._scan(hash_name):
                yield source_key.decode(), data
        except UnicodeDecodeError:
            raise ShardRefused(f"store: a source key is damaged; {remedies.reload()}") from None
        self._check_still_at(commit)

    def _read_lists(self, commit: int) -> Iterator[tuple[int, SimilarityList]]:
        for number, data in self._scan(self._similarity):
            similar = codec.decode_similarity(data)
            if similar is None:
                self._has_former = True
            else:
                yield codec.decode_number(number), similar
        self._check_still_at(commit)

    def _former_lists(self) -> list[int]:
        """The QI groups whose degrees an older streamer kept, each in a sorted set."""
        kept = self._scan(self._similarity)
        return [codec.decode_number(number) for number, data in kept if codec.decode_similarity(data) is None]

    def _check_still_at(self, commit: int) -> None:
        meta = self.meta()
        if meta is None or meta.commit != commit:
            raise Conflict(f"shard {self.shard}: somebody committed while it was being read; load it again")

    def _scan(self, hash_name: str) -> Iterator[tuple[bytes, bytes]]:
        """Fields and values of a hash, a slice at a time. Each comes once as long as the hash is not written to.

        All by one connection, and no question is repeated by another one: another server, or the same one restarted,
        would take the cursor for another place, and fields would be missing in silence.
        """
        with self._answers():
            connections: Any = master_of(self._client, hash_name).connection_pool
            connection = connections.get_connection()
        cursor = None
        try:
            while cursor != b"0":
                cursor, found = self._scan_on(connection, hash_name, cursor or b"0")
                yield from zip(found[::2], found[1::2], strict=True)
        finally:
            connections.release(connection)

    def _scan_on(self, connection: Any, hash_name: str, cursor: bytes) -> tuple[bytes, list[bytes]]:
        with self._answers():
            try:
                connection.send_command("HSCAN", hash_name, cursor, "COUNT", FIELDS_PER_SCAN, check_health=False)
                next_cursor, found = connection.read_response()
            except AskError:  # and MovedError with it
                raise Conflict(f"shard {self.shard}: it moves to another node of the cluster; load it again") from None
            return next_cursor, found

    def _answers(self) -> AbstractContextManager[None]:
        return answers(self._address)

    def _fenced(self) -> Fenced:
        """The reason why a fence is not the newest any more."""
        with self._answers():
            newest = self._client.hget(self._meta, "fence")
        if newest is None:
            return Fenced(f"shard {self.shard}: Redis has lost the shard's keys; a new start reads the input again")
        return Fenced(f"shard {self.shard}: another worker has taken over")
