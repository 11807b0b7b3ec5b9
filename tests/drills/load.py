"""Sources that never rest: 500 changes a second, on the clock, into the input topic of a table."""

from __future__ import annotations

import json
import random
import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from drills.source import SourceTable
from worlds.patients import CANARY, Changes

EVENTS_PER_SECOND = 500
BURST_SECONDS = 0.02
FLUSH_SECONDS_MAX = 60.0
STATEMENT_EVERY, REPEATED_EVERY, MALFORMED_EVERY = 1500, 3, 150
STATEMENTS = (
    {"op": "modify", "where": "age < 30", "set": {"problem": "'flu'"}},
    {"op": "modify", "where": "problem = 'burn'", "set": {"age": "age + 1"}},
    {"op": "delete", "where": "age = 77"},
)
MALFORMED = f'{{"op": "insert", "row": {CANARY}'.encode()


class Paced(threading.Thread):
    """Sends until it is stopped; what, its kinds say.

    The producer is idempotent and patient: what it sends is in the input once, whatever happens to the broker.
    """

    def __init__(self, bootstrap: str, topic: str, events_per_second: int = EVENTS_PER_SECOND) -> None:
        super().__init__(name="load", daemon=True)
        self._topic = topic
        self._per_burst = int(events_per_second * BURST_SECONDS)
        self._stopped = threading.Event()
        self._failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "message.timeout.ms": 180_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self.sent = 0

    def run(self) -> None:
        began, rounds = time.monotonic(), 0
        while not self._stopped.wait(max(0.0, began + rounds * BURST_SECONDS - time.monotonic())):
            for _ in range(self._per_burst):
                self._send_next()
            rounds += 1

    def stop(self) -> int:
        """Ends the load; returns how many messages the broker has confirmed."""
        self._stopped.set()
        self.join()
        unconfirmed = self._producer.flush(FLUSH_SECONDS_MAX)
        assert (unconfirmed, self._failed) == (0, []), "the load itself lost messages: nothing can be said"
        return self.sent

    def abandon(self) -> None:
        """Ends the load without asking what became of it."""
        self._stopped.set()

    def _send_next(self) -> None:
        raise NotImplementedError

    def _produce(self, value: bytes | None, record_key: bytes | None, shard: int | None = None) -> None:
        place = {} if shard is None else {"partition": shard}
        self._producer.produce(self._topic, value, record_key, on_delivery=self._delivered, **place)
        self._producer.poll(0)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error.name())


class Load(Paced):
    """Random changes of single rows by murmur2, statements to every shard, and some nonsense."""

    def __init__(self, bootstrap: str, topic: str, shards: int, seed: int) -> None:
        super().__init__(bootstrap, topic)
        self._shards = shards
        self._changes = Changes(1, seed)
        self._rng = random.Random(seed)

    def _send_next(self) -> None:
        ((_, record_key, value),) = self._changes.more(1)
        if self._rng.randrange(MALFORMED_EVERY) == 0:
            value = MALFORMED
        if self._rng.randrange(STATEMENT_EVERY) == 0:
            self._send_statement()
        self._produce(value, record_key)

    def _send_statement(self) -> None:
        """To every shard; some are sent twice, which has to be noticed by their ids."""
        statement = {**self._rng.choice(STATEMENTS), "statement_id": f"statement-{self.sent}"}
        value = json.dumps(statement).encode()
        for _ in range(2 if self._rng.randrange(REPEATED_EVERY) == 0 else 1):
            for shard in range(self._shards):
                self._produce(value, None, shard)


class SourceLoad(Paced):
    """The changes of a source table that knows what it holds."""

    def __init__(self, bootstrap: str, topic: str, source: SourceTable, events_per_second: int) -> None:
        super().__init__(bootstrap, topic, events_per_second)
        self._source = source

    def come(self, count: int) -> None:
        """So many rows at once."""
        for sent in self._source.come(count):
            self._produce(sent.value, sent.key, sent.shard)

    def _send_next(self) -> None:
        for sent in self._source.more():
            self._produce(sent.value, sent.key, sent.shard)
