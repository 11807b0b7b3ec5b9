"""The Kafka of one shard without a broker: its input, its control topic and its outlet in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from streamer.errors import Conflict, Fenced
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.requests import Placed
from streamer.kafka.shard_input import TopicQuestions
from streamer.kafka.topics import Topics

NOT_JSON = Message(0, None, b"not JSON")


class NoKafka:
    """An empty input, and an outlet that takes everything; `wait` is called at every publish."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self.asked_for: frozenset[int] = frozenset()
        self.lost = ""
        self.looked_at = float("inf")

    def state(self) -> InputState:
        if self.lost:
            raise Fenced(self.lost)
        return InputState({}, 1, 0, 1000)

    def ask(self) -> None: ...

    def forget_answer(self) -> None: ...

    def check(self, *kinds: str) -> None: ...

    def placed(self) -> list[Placed]:
        return []

    def skips(self, topic_id: str) -> frozenset[int]:
        return self.asked_for

    def fence(self) -> None: ...

    def position(self) -> None: ...

    def publish(self, records: object, position: object) -> None:
        self._wait()


class AskedKafka(NoKafka):
    """Its topics are asked for together with those of other shards; some are made anew meanwhile."""

    def __init__(self, topics: TopicQuestions) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.published = False
        self._topics = topics
        self._answer: Future[Topics] = Future()

    def ask(self) -> None:
        self._answer = self._topics.ask()
        self.asked.set()

    def check(self, *kinds: str) -> None:
        assert not self.published
        if self._answer.result(10)["changes"].id != "first":
            raise Conflict(f"made anew: {kinds}")

    def publish(self, records: object, position: object) -> None:
        self.published = True
