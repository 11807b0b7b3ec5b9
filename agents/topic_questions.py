"""Which topics a table has right now, by their ids: one question for all topics and all shards of a worker.

The rules of this file
----------------------
* An answer is worth something only for what had happened before its question was put: no id comes back, so what was
  read from a topic by then was read from the very topic that the answer names. Nobody is given the answer to a question
  that was under way already when he asked.
* At most one question is under way. All who ask meanwhile share the next one, so the number of questions does not grow
  with that of shards, and who asks early has the answer when he needs it.
* Brokers learn of a new topic one after the other; only within that time they may disagree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka.admin import AdminClient

from streamer.kafka.clients import client_settings
from streamer.kafka.reading import CALL_SECONDS_MAX
from streamer.kafka.topics import Described, Topics, described, gives_ids

__all__ = ["ANSWER_SECONDS_MAX", "Described", "TopicQuestions", "Topics", "kafka_topics"]

ANSWER_SECONDS_MAX = 2 * CALL_SECONDS_MAX + 2
"""How long an answer may take: the question before it has to end first."""


class TopicQuestions:
    """Questions for a table's topics, put one after the other in a thread of their own; to be asked from any thread.

    put: puts one question and waits for the answer.
    """

    def __init__(self, put: Callable[[], Topics]) -> None:
        self._put = put
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="topics")
        self._lock = threading.Lock()
        self._next: Future[Topics] | None = None
        """The question that waits to be put; whoever asks shares it."""
        self._last: Future[Topics] | None = None

    def ask(self) -> Future[Topics]:
        """The answer to a question that is put from now on; raises KafkaException where Kafka does not give it."""
        with self._lock:
            if self._next is None:
                self._next = self._last = self._thread.submit(self._put_next)
            return self._next

    def _put_next(self) -> Topics:
        with self._lock:
            self._next = None  # who asks from here on comes too late for this question
        return self._put()

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._last is not None and not self._last.done()


def kafka_topics(bootstrap: str, table_name: str) -> TopicQuestions:
    """Questions to Kafka over one connection of their own, which is made with the first."""
    return TopicQuestions(_Kafka(bootstrap, table_name).topics)


class _Kafka:
    """Asks Kafka; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str) -> None:
        self._settings = client_settings(bootstrap)
        self._table_name = table_name
        self._admin: AdminClient | None = None
        self._gives_ids = True

    def topics(self) -> Topics:
        if self._admin is None:
            admin = AdminClient(self._settings)
            self._gives_ids, self._admin = gives_ids(admin), admin
        return described(self._admin, self._table_name, self._gives_ids)
