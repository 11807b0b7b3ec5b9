"""A model of Kafka as one shard meets it: transactions, offsets in `live`, ids of topics.

It keeps only what consumers that read committed records see: a transaction is there whole or not at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streamer.errors import Conflict, Fenced
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import LiveEnd, Position
from streamer.incremental.topics import CONTROL, OUTPUTS, POSITIONS


@dataclass
class ModelTopic:
    """The committed output of a shard: transactions in order, and the newest producer's epoch."""

    transactions: list[tuple[list[Outgoing], Position]] = field(default_factory=list)
    epoch: int = 0
    begins: dict[str, int] = field(default_factory=dict)
    """By kind of topic, the first transaction that it holds, where it was deleted and made again."""
    ends: Counter[str] = field(default_factory=Counter)
    """The next offset in every topic of published rows, in which markers of transactions have offsets too."""
    control: defaultdict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """The control topic by partition, which several shards may share."""
    meanwhile: Callable[[], None] = lambda: None
    """Called before `live` takes a record or a marker."""

    def take(self, kind: str) -> int:
        """The offset at which a topic of published rows takes a record or a marker."""
        self.meanwhile()
        self.ends[kind] += 1
        return self.ends[kind] - 1


class ModelOutlet:
    """An outlet by the rules of Kafka's transactions."""

    def __init__(self, topic: ModelTopic) -> None:
        self._topic = topic
        self._epoch = -1
        self._ends: dict[str, LiveEnd] = {}

    def fence(self) -> None:
        self._topic.epoch += 1
        self._epoch = self._topic.epoch
        self._ends = {kind: LiveEnd(self._topic.ends[kind]) for kind in OUTPUTS}

    def position(self) -> Position | None:
        kept = self._topic.transactions[self._topic.begins.get(POSITIONS, 0) :]
        return kept[-1][1] if kept else None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        if self._epoch != self._topic.epoch:
            raise Fenced("the producer was fenced")
        published = [record.topic for record in records if record.topic in OUTPUTS]
        for kind in published:
            self._ends[kind].took(self._topic.take(kind))
        fell = any(end.fell for end in self._ends.values())
        if not fell:
            self._topic.transactions.append((list(records), Position.from_json(position.to_json())))
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

    def state(self) -> InputState: ...

    def read(self, after: int, batch: int) -> tuple[list[Message], int]: ...


class ModelInput:
    """The input and the ids of topics, as one worker asks for them."""

    def __init__(self, world: Asked) -> None:
        self._world = world
        self._seen: Mapping[str, str] = {}
        self._answer: Callable[[], Mapping[str, str]] | None = None

    def state(self) -> InputState:
        state = self._world.state()
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
