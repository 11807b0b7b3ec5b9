"""Kafka without a broker: for one shard, for readers of topics, and for questions that are answered late."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import KafkaError, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from streamer.errors import Conflict, StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.input import Message as InputMessage
from streamer.incremental.shard.outlet import DeafOutlet
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.topics import POSITIONS
from streamer.kafka.shard_input import TopicQuestions
from streamer.kafka.topics import Described, Topics

NOT_JSON = InputMessage(0, None, b"not JSON")


class NoKafka(DeafOutlet):
    """An empty input, and an outlet that takes everything; `wait` is called at every publish."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self.asked_for: frozenset[int] = frozenset()
        self.ends: dict[str, int] = {}
        self._barred: StreamerError | None = None
        self.looked_at = float("inf")

    def bar(self, why: StreamerError | None) -> None:
        self._barred = why

    def state(self, last: int | None = None) -> InputState:
        if self._barred is not None:
            raise self._barred
        return InputState({}, 1, 0, 1000)

    def topics(self) -> Topics:
        return {}

    def ask(self) -> None: ...

    def forget_answer(self) -> None: ...

    def check(self, meta: object, *kinds: str) -> None: ...

    def look(self, meta: object, ends: object) -> None:
        self.ask()
        self.check(meta, POSITIONS)

    def epochs_over(self) -> list[EpochOver]:
        return []

    def secret(self) -> None: ...

    def skips(self, topic_id: str) -> frozenset[int]:
        return self.asked_for

    def publish(self, records: object, position: object) -> None:
        self._wait()


class AskedKafka(NoKafka):
    """Its topics are asked for together with those of other shards; some are recreated in between."""

    def __init__(self, topics: TopicQuestions) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.has_published = False
        self._topics = topics
        self._answer: Future[Topics] = Future()

    def ask(self) -> None:
        self._answer = self._topics.ask()
        self.asked.set()

    def check(self, meta: object, *kinds: str) -> None:
        assert not self.has_published
        if self._answer.result(10)["changes"].id != "first":
            raise Conflict(f"recreated: {kinds}")

    def published(self) -> tuple[()]:
        return ()

    def publish(self, records: object, position: object) -> None:
        self.has_published = True


class SlowBroker:
    """An answer has the topics as they were when the question came."""

    def __init__(self) -> None:
        self.id = "first"
        self.put = 0
        self.fails = False
        self.begun = threading.Semaphore(0)
        self.goes_on = threading.Semaphore(0)

    def topics(self) -> Topics:
        self.put += 1
        now, fails = {"changes": Described(self.id, 4)}, self.fails
        self.begun.release()
        assert self.goes_on.acquire(timeout=10)
        if fails:
            raise TimeoutError
        return now

    def answers(self, questions: int = 1) -> None:
        for _ in range(questions):
            self.goes_on.release()


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

    def cut(self, topic: str, partition: int, last: int) -> None:
        """Loses the last records of a partition."""
        del self._held[TopicPartition(topic, partition)][-last:]

    # -- what readers ask of a consumer ---------------------------------------------------------------------------

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        numbers = dict.fromkeys(range(self._partitions.get(topic, 0)))
        error = None if numbers else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if topic in self._hidden else error
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=numbers)})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        return self._begins.get(place, 0), len(self._held[place])

    def list_offsets(
        self, asked: Mapping[TopicPartition, OffsetSpec], request_timeout: float
    ) -> dict[TopicPartition, Future[SimpleNamespace]]:
        answers: dict[TopicPartition, Future[SimpleNamespace]] = {place: Future() for place in asked}
        for place, spec in asked.items():
            begin, end = self.get_watermark_offsets(place, request_timeout, cached=False)
            offset = begin if spec == OffsetSpec.earliest() else end
            if (since := getattr(spec, "timestamp", None)) is not None:  # records are one second apart
                offset = -1 if since > 1000 * (end - 1) else max(begin, -(-since // 1000))
            answers[place].set_result(SimpleNamespace(offset=offset, leader_epoch=0))
        return answers

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
