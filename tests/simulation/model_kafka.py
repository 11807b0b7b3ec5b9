"""A model of Kafka as one shard meets it: transactions, offsets in `live`, ids of topics.

It keeps only what consumers that read committed records see: a transaction is there whole or not at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from streamer.errors import Conflict, Fenced
from streamer.incremental.release.records import Outgoing
from streamer.incremental.sealed.records import Live, Retire, decode
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import LiveEnd, Position, PublishedRecord
from streamer.incremental.shard.requests import Secret
from streamer.incremental.topics import CONTROL, OUTPUTS, POSITIONS, SEALED


@dataclass
class ModelTopic:
    """The committed output of a shard: transactions in order, and the newest producer's epoch."""

    transactions: list[tuple[list[Outgoing], Position]] = field(default_factory=list)
    epoch: int = 0
    begins: dict[str, int] = field(default_factory=dict)
    """By kind of topic, the first transaction that it holds, where it was deleted and made again."""
    lost: set[tuple[str, int]] = field(default_factory=set)
    """Kinds of topics and the transactions whose records they have lost."""
    firsts: Counter[str] = field(default_factory=Counter)
    """The first offset in every topic of published rows."""
    ends: Counter[str] = field(default_factory=Counter)
    """The next offset in every topic of published rows, in which markers of transactions have offsets too."""
    reached: list[dict[str, int]] = field(default_factory=list)
    """`ends` before each transaction."""
    control: defaultdict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """The control topic by partition, which several shards may share."""
    meanwhile: Callable[[], None] = lambda: None
    """Called before `live` takes a record or a marker."""

    def holds(self, kind: str, number: int) -> bool:
        """Whether a topic still holds its part of a transaction."""
        return number >= self.begins.get(kind, 0) and (kind, number) not in self.lost

    def in_topic(self, *kinds: str) -> list[tuple[list[Outgoing], Position]]:
        """What readers find in some topics, by transaction, without those of which nothing is there."""
        found = []
        for number, (records, position) in enumerate(self.transactions):
            there = [one for one in records if one.topic in kinds and self.holds(one.topic, number)]
            if there:
                found.append((there, position))
        return found

    def lose_end(self, kind: str, transactions: int) -> None:
        """The broker lost the last transactions of a topic, those that left something there."""
        for number in self._last(kind)[-transactions:][::-1]:
            self.lost.add((kind, number))
            if kind in OUTPUTS:
                self.ends[kind] = self.reached[number][kind]

    def lose_beginning(self, kind: str, transactions: int) -> None:
        """Somebody deleted the first records of a topic."""
        there = self._last(kind)
        for number in there[:transactions]:
            self.lost.add((kind, number))
        left = there[transactions:]
        self.firsts[kind] = self.reached[left[0]][kind] if left else self.ends[kind]

    def _last(self, kind: str) -> list[int]:
        said = enumerate(self.transactions)
        left = ((n, kind == POSITIONS or any(one.topic == kind for one in records)) for n, (records, _) in said)
        return [n for n, something in left if something and self.holds(kind, n)]

    def take(self, kind: str) -> int:
        """The offset at which a topic of published rows takes a record or a marker."""
        self.meanwhile()
        self.ends[kind] += 1
        return self.ends[kind] - 1


class ModelOutlet:
    """An outlet by the rules of Kafka's transactions."""

    def __init__(self, topic: ModelTopic, shard: int) -> None:
        self._topic, self._shard = topic, shard
        self._epoch = -1
        self._ends: dict[str, LiveEnd] = {}

    def fence(self) -> None:
        self._topic.epoch += 1
        self._epoch = self._topic.epoch
        self._ends = {kind: LiveEnd(self._topic.ends[kind]) for kind in OUTPUTS}

    def position(self) -> Position | None:
        there = (n for n in reversed(range(len(self._topic.transactions))) if self._topic.holds(POSITIONS, n))
        return next((self._topic.transactions[n][1] for n in there), None)

    def published(self) -> list[PublishedRecord]:
        return [
            *(
                PublishedRecord(position.release, record.key, record.value is not None, record.topic)
                for records, position in self._topic.in_topic(*OUTPUTS)
                for record in records
            ),
            *(
                PublishedRecord(said.epoch, record.key, not isinstance(said, Retire), SEALED)
                for records, _ in self._topic.in_topic(SEALED)
                for record in records
                if not isinstance(said := decode(record.key, record.value), Live)
            ),
        ]

    def keep_secret(self, secret: bytes) -> None:
        if self._epoch != self._topic.epoch:
            raise Fenced("the producer was fenced")
        self._topic.control[self._shard].append(Secret(self._shard, secret).to_json())

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        if self._epoch != self._topic.epoch:
            raise Fenced("the producer was fenced")
        published, before = [record.topic for record in records if record.topic in OUTPUTS], dict(self._topic.ends)
        for kind in published:
            self._ends[kind] = self._ends[kind].took(self._topic.take(kind))
        fell = any(end.fell for end in self._ends.values())
        if not fell:
            said = msgspec.structs.replace(position, ends={kind: end.end for kind, end in self._ends.items()})
            self._topic.transactions.append((list(records), Position.from_json(said.to_json())))
            self._topic.reached.append({kind: before.get(kind, 0) for kind in OUTPUTS})
            for record in records:
                if record.topic == CONTROL and record.value is not None:
                    self._topic.control[int(record.key)].append(record.value)
        for kind in sorted(set(published)):
            self._topic.take(kind)
        if fell:
            raise Conflict("the output was recreated")


class Asked(Protocol):
    """What knows of the input, and when an answer about the topics is given."""

    topic_ids: dict[str, str]
    answers_late: bool

    def state(self, last: int | None = None) -> InputState: ...

    def read(self, after: int, batch: int) -> tuple[list[Message], int]: ...


class ModelInput:
    """The input and the ids of topics, as one worker asks for them."""

    def __init__(self, world: Asked) -> None:
        self._world = world
        self._seen: Mapping[str, str] = {}
        self._answer: Callable[[], Mapping[str, str]] | None = None

    def state(self, last: int | None = None) -> InputState:
        state = self._world.state(last)
        self._seen, self._answer = state.topic_ids, None
        return state

    def read(self, after: int, batch: int) -> tuple[list[Message], int]:
        return self._world.read(after, batch)

    def ask(self) -> None:
        now = self._world.topic_ids
        self._answer = (lambda: self._world.topic_ids) if self._world.answers_late else (lambda: now)

    def check(self, *kinds: str) -> None:
        if self._answer is None:
            return
        now = self._answer()
        if any(now[kind] != self._seen[kind] for kind in kinds):
            raise Conflict("topics were recreated")
