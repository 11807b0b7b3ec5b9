"""Topics in memory, for readers that speak to the C client's consumer: what they hold, where they begin and end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from confluent_kafka import KafkaError, Message, TopicPartition

POLLED_MAX = 7
"""Records that the client holds at a time: fewer than most tests write."""


class TopicsInMemory:
    """A broker and its consumer in one. A record that is None occupies an offset and is never read: a marker."""

    def __init__(self, partitions: Mapping[str, int], hidden: Sequence[str] = ()) -> None:
        self._held: dict[TopicPartition, list[Message | None]] = defaultdict(list)
        self._begins: dict[TopicPartition, int] = {}
        self._partitions = partitions
        self._hidden = hidden
        self._stands: dict[TopicPartition, int] = {}
        self._told: set[TopicPartition] = set()
        self.read: list[Message] = []
        """Every record that was polled, in order."""
        self.starts: list[int] = []
        """Every offset from which something was read."""

    def write(self, topic: str, partition: int, *records: tuple[bytes | None, bytes | None] | None) -> None:
        held = self._held[TopicPartition(topic, partition)]
        for record in records:
            at = len(held)
            named = {"topic": topic, "partition": partition, "offset": at, "timestamp": (1, 1000 * at)}
            held.append(record and Message(**named, key=record[0], value=record[1]))

    def expire(self, topic: str, partition: int, before: int) -> None:
        self._begins[TopicPartition(topic, partition)] = before

    # -- what readers ask of a consumer ---------------------------------------------------------------------------

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        numbers = dict.fromkeys(range(self._partitions.get(topic, 0)))
        error = None if numbers else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if topic in self._hidden else error
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=numbers)})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        return self._begins.get(place, 0), len(self._held[place])

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._stands, self._told = {place: place.offset for place in places}, set()
        self.starts += self._stands.values()

    def poll(self, timeout: float) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        polled: list[Message] = []
        for place, start in self._stands.items():
            room = min(POLLED_MAX, num_messages - len(polled))
            window = self._held[place][start : start + room]
            self._stands[place] = start + len(window)
            polled += [record for record in window if record is not None]
            self.read += [record for record in window if record is not None]
            if room and not window and place not in self._told:
                self._told.add(place)
                end = KafkaError(KafkaError._PARTITION_EOF)
                polled.append(Message(topic=place.topic, partition=place.partition, offset=start, error=end))
        return polled
