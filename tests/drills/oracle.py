"""Says whether anything was lost, doubled or below k, from what Kafka and Redis hold when all is quiet.

The reference is one publisher in one process that nothing ever happens to. It reads the shard's input, cut into the
same batches as the workers' positions say, and writes down what it publishes. Whatever befell the workers, what a
reader of committed records finds must be this transcript: the same records with the same headers in the same order,
the same dead letters, the same positions; and Redis must hold the reference's state. The reader's laws (every QI group
of every release has k rows, and the others) are then checked from the published records alone.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.checks.source import IndexTable, SourceLaws
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.release.fold import parse_part
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import DeafOutlet, Position
from streamer.incremental.store.base import Meta, State, Store
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table.schema import Table
from worlds.kafka_and_redis import read
from worlds.shards import Driven

Sent = tuple[bytes, bytes | None, dict[str, bytes]]
"""Key, value and headers of a record."""


class Found(NamedTuple):
    """One committed record of a topic; seconds: when it was written."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    seconds: float


class Remains(Protocol):
    """What is left of a table when all is quiet."""

    def records(self, kind: str, shard: int) -> list[Found]:
        """The committed records of one partition, in order."""

    def store(self, shard: int) -> Store:
        """What a shard keeps."""


class ServersRemains:
    """What Kafka and Redis hold."""

    def __init__(self, bootstrap: str, redis_url: str, table_name: str) -> None:
        self._bootstrap = bootstrap
        self._client = connect(redis_url)
        self._table_name = table_name

    def records(self, kind: str, shard: int) -> list[Found]:
        return [
            Found(m.offset(), m.key(), m.value(), dict(m.headers() or ()), m.timestamp()[1] / 1000)
            for m in read(self._bootstrap, self._table_name, kind, shard)
        ]

    def store(self, shard: int) -> Store:
        return RedisStore(self._client, self._table_name, shard)


@dataclass
class Verdict:
    """What a drill went through, in numbers."""

    events: int = 0
    releases: int = 0
    records: int = 0
    dead_letters: int = 0
    stall_seconds: float = 0.0


@dataclass
class Transcript(DeafOutlet):
    """An outlet that writes down what it is given, as Kafka would hold it."""

    sent: dict[str, list[Sent]] = field(default_factory=lambda: {LIVE: [], DEAD_LETTERS: []})
    positions: list[Position] = field(default_factory=list)

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        for record in records:
            self.sent[record.topic].append((record.key, record.value, dict(record.headers)))
        self.positions.append(position)


class Oracle:
    """The judge of one table, for one judgement."""

    def __init__(self, table: Table, shards: int, remains: Remains) -> None:
        self._table = table
        self._shards = shards
        self._remains = remains
        self._laws = ChangelogLaws(table)
        self._index = IndexTable()

    def judge(self) -> Verdict:
        """Raises AssertionError or LawViolated at the first thing that is wrong."""
        verdict = Verdict()
        for shard in range(self._shards):
            self._judge_shard(shard, verdict)
        SourceLaws(self._table, self._laws, self._index).check_all("the end")
        return verdict

    def _judge_shard(self, shard: int, verdict: Verdict) -> None:
        records = self._remains.records
        messages = [
            Message(found.offset, found.key, found.value, round(1000 * found.seconds))
            for found in records(CHANGES, shard)
        ]
        told = records(POSITIONS, shard)
        positions = [replace(Position.from_json(found.value or b""), ends={}) for found in told]
        sent = {kind: [_sent(found) for found in records(kind, shard)] for kind in (LIVE, DEAD_LETTERS)}

        assert all(a.commit < b.commit and a.next <= b.next for a, b in pairwise(positions))
        kept = self._remains.store(shard).meta()
        assert kept is not None, f"shard {shard} never committed"
        input_state = InputState(kept.topic_ids, self._shards, 0, len(messages))
        transcript, store = reference(self._table, shard, input_state, messages, positions, kept.secret)
        assert_same(f"positions of shard {shard}", positions, transcript.positions)
        for kind in sent:
            assert_same(f"{kind} of shard {shard}", sent[kind], transcript.sent[kind])
        for release in in_releases(_live_records(shard, sent[LIVE])):
            self._laws.check(release)
            verdict.releases += 1
        state = store.load()
        assert state is not None, f"shard {shard} never committed"
        self._judge_letters(sent[DEAD_LETTERS], state.meta)
        self._judge_store(shard, state, len(messages))

        verdict.events += len(messages)
        verdict.records += len(sent[LIVE])
        verdict.dead_letters += len(sent[DEAD_LETTERS])
        moments = [found.seconds for found in told]
        verdict.stall_seconds = max(verdict.stall_seconds, *(later - first for first, later in pairwise(moments)))

    def _judge_letters(self, letters: Sequence[Sent], meta: Meta) -> None:
        """One for every message that was refused, and none about the same message twice."""
        kinds = Counter(json.loads(value or b"null")["kind"] for _, value, _ in letters)
        assert kinds["refused"] == meta.counts.dead_letters > 0
        assert len({source for source, _, _ in letters}) == len(letters)

    def _judge_store(self, shard: int, wanted: State, events: int) -> None:
        """The store holds what the reference holds, nothing waits to be published, and the counts add up."""
        store = self._remains.store(shard)
        found = store.load()
        assert found is not None
        records = dict(found.kept.records)
        assert found.meta == wanted.meta
        assert found.meta.counts.messages == events
        assert records == dict(wanted.kept.records)
        assert dict(found.kept.qi_groups) == dict(wanted.kept.qi_groups)
        assert found.kept.statement_ids == wanted.kept.statement_ids
        assert list(store.outbox()) == []
        for source_key, record in records.items():
            self._index.put(source_key, record.row, None if record.qi_group == PENDING else (shard, record.qi_group))


def reference(
    table: Table,
    shard: int,
    input_state: InputState,
    messages: Sequence[Message],
    positions: Iterable[Position],
    secret: bytes,
) -> tuple[Transcript, MemoryStore]:
    """What a publisher that nothing happens to publishes and keeps, in batches that end where `positions` say.

    secret: that of the shard, so that both draw the same lots.
    """
    transcript, store = Transcript(), MemoryStore(MemoryServer(), table.name, shard)
    publisher = Driven(table, shard, store, transcript, secret=secret)
    publisher.take_over(input_state)
    unread = deque(messages)
    for position in positions:
        batch = []
        while unread and unread[0].offset < position.next:
            batch.append(unread.popleft())
        publisher.step(batch, position.next)
    assert not unread, "messages that no worker has read"
    return transcript, store


def assert_same(what: str, found: Sequence[object], wanted: Sequence[object]) -> None:
    """Equality that says where a long sequence differs first."""
    for number, (one, other) in enumerate(zip(found, wanted, strict=False)):
        assert one == other, f"{what}: number {number} of {len(found)} is not that of the reference"
    assert len(found) == len(wanted), f"{what}: {len(found)} where the reference has {len(wanted)}"


def _sent(found: Found) -> Sent:
    return found.key or b"", found.value, found.headers


def _live_records(shard: int, records: Iterable[Sent]) -> Iterator[LiveRecord]:
    for row_key, value, headers in records:
        release, through = int(headers["release"]), int(headers["through"])
        yield LiveRecord(shard, release, through, row_key, value, parse_part(headers["part"]))
