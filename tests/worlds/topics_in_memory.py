"""Topics in memory, for readers that speak to kafka-python's consumer: what they hold, and where they begin and end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka import TopicPartition

POLLED_MAX = 7
"""Records that one poll gives of a partition: fewer than most tests write."""


@dataclass(frozen=True)
class Held:
    """A record as the client library gives it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


class TopicsInMemory:
    """A broker and its consumer in one. A record that is None occupies an offset and is never read: a marker."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._held: dict[TopicPartition, list[Held | None]] = defaultdict(list)
        self._begins: dict[TopicPartition, int] = {}
        self._partitions = partitions
        self._stands: dict[TopicPartition, int] = {}
        self._assigned: list[TopicPartition] = []
        self.read: list[Held] = []
        """Every record that was polled, in order."""

    def write(self, topic: str, partition: int, *records: tuple[bytes | None, bytes | None] | None) -> None:
        held = self._held[TopicPartition(topic, partition)]
        for record in records:
            offset = len(held)
            held.append(record and Held(topic, partition, offset, *record, timestamp=1000 * offset))

    def expire(self, topic: str, partition: int, before: int) -> None:
        self._begins[TopicPartition(topic, partition)] = before

    # -- what readers ask of a consumer ---------------------------------------------------------------------------

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._partitions[topic])) if self._partitions.get(topic) else None

    def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self._begins.get(place, 0) for place in places}

    def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: len(self._held[place]) for place in places}

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._assigned = list(places)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._stands[place] = offset

    def seek_to_beginning(self, *places: TopicPartition) -> None:
        for place in places or self._assigned:
            self.seek(place, self._begins.get(place, 0))

    def position(self, place: TopicPartition, timeout_ms: int) -> int:
        return self._stands[place]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Held]]:
        polled = {}
        for place in self._assigned:
            start = self._stands[place]
            window = self._held[place][start : start + POLLED_MAX]
            self._stands[place] = start + len(window)
            polled[place] = [record for record in window if record is not None]
            self.read += polled[place]
        return polled
