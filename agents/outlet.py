"""The way out of one shard by Kafka transactions, and nothing else.

The rules of this file
----------------------
* One transactional producer per shard, under a name that stays (`<table>-shard-<n>`): whoever initializes it shuts out
  the one before and has its open transaction aborted. `fence` always makes a new producer.
* A commit's records and the shard's position, a record of `<table>.positions`, go out in one transaction. Offsets are
  not sent in it (`send_offsets_to_transaction` hangs after a restart of the broker): the position says all.
* Every record goes to the partition that has the shard's number, whatever its key.
* Whatever fails, the producer is done with: `fence` begins anew, and `position` tells what became of the transaction.
* Every call has a time limit. Being shut out is `Fenced`; everything else that Kafka answers, or does not answer, is
  `ServerUnreachable`; what does not fit together is `ShardRefused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from agents.kafka_log import librdkafka_logger
from streamer.errors import Fenced, ServerUnreachable, ShardRefused
from streamer.shard.outlet import InputState, Outgoing, Position
from streamer.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS, topic_name

CALL_SECONDS_MAX = 20.0
"""Limit of each wait for Kafka: longer than a broker needs to serve transactions again after a crash."""

ABORT_SECONDS_MAX = 2.0
TRANSACTION_MS_MAX = 30_000
WINDOW_FIRST, WINDOW_GROWTH = 16, 16
"""Positions are searched from the end backwards: how many offsets at first, and by how much the window grows."""

MOCK_CLUSTER = "mockCluster"
"""How the id of librdkafka's own broker begins. It serves no topic ids."""

_SHUT_OUT = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})

_NO_LEADER_YET = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
LEADER_SECONDS = 0.1
"""Wait before a question that came too early, to a topic just made or a broker just restarted, is asked again."""

NO_TOPIC_ID = ""
"""In place of a topic's id on the embedded broker, which gives none."""


class KafkaOutlet:
    """The outlet of one shard; to be used from one thread. Implements `streamer.shard.outlet.Outlet`."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._bootstrap = bootstrap
        self._table_name = table_name
        self._shard = shard
        self._name = f"shard {shard} of {table_name}"
        self._producer: Producer | None = None

    # -- shutting the former writer out ---------------------------------------------------------------------------

    def fence(self) -> None:
        self._producer = None
        with self._failures("shutting out the former writer"):
            producer = Producer(self._producer_settings())
            producer.init_transactions(CALL_SECONDS_MAX)
        self._producer = producer

    def _producer_settings(self) -> dict[str, object]:
        return {
            **self._client_settings(),
            "transactional.id": f"{self._table_name}-shard-{self._shard}",
            "transaction.timeout.ms": TRANSACTION_MS_MAX,
            "acks": "all",
            "linger.ms": 1,
            "retry.backoff.ms": 2,  # a transaction that follows another waits for its end in steps of this
            "retry.backoff.max.ms": 20,
        }

    def _client_settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self._bootstrap, "logger": librdkafka_logger()}

    # -- publishing -----------------------------------------------------------------------------------------------

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        producer, self._producer = self._producer, None  # an error below leaves the outlet to be fenced anew
        if producer is None:
            raise ServerUnreachable(f"{self._name}: the outlet has no producer: call fence first")
        with self._failures("publishing"), _aborted_on_error(producer):
            failed = _FailedDeliveries()
            producer.begin_transaction()
            for record in records:
                topic = topic_name(self._table_name, record.topic)
                self._produce(producer, topic, record.key, record.value, list(record.headers), failed)
            positions = topic_name(self._table_name, POSITIONS)
            self._produce(producer, positions, b"%d" % self._shard, position.to_json(), [], failed)
            producer.commit_transaction(CALL_SECONDS_MAX)  # flushes before it commits; fails where a delivery failed
            failed.check()
        self._producer = producer

    def _produce(
        self,
        producer: Producer,
        topic: str,
        record_key: bytes,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Queues one record; waits where the client's queue is full."""
        deadline = monotonic() + CALL_SECONDS_MAX
        while True:
            try:
                producer.produce(
                    topic, value, record_key, partition=self._shard, headers=headers, on_delivery=on_delivery
                )
            except BufferError:
                if monotonic() > deadline:
                    raise ServerUnreachable(f"{self._name}: Kafka takes no records from the full queue") from None
                producer.poll(0.1)
            else:
                return  # answers are served while the transaction commits: asking for them here costs a thread switch

    # -- reading back ---------------------------------------------------------------------------------------------

    def position(self) -> Position | None:
        place = TopicPartition(topic_name(self._table_name, POSITIONS), self._shard)
        with self._failures("reading the position"), self._consumer() as consumer:
            value = self._last_value(consumer, place)
        return None if value is None else Position.from_json(value)

    def _last_value(self, consumer: Consumer, place: TopicPartition) -> bytes | None:
        """Value of the last committed record. Transaction markers and aborted records occupy offsets too."""
        deadline = monotonic() + CALL_SECONDS_MAX
        first, end = self._watermarks(consumer, place)
        start, window = end, WINDOW_FIRST
        while start > first:
            start = max(first, end - window)
            window *= WINDOW_GROWTH
            value = None
            for value in self._values(consumer, place, start, deadline):  # noqa: B007 - the last one is wanted
                pass
            if value is not None:
                return value
        return None

    def _watermarks(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
        """First and end offset; asked again while the cluster is still settling who leads."""
        deadline = monotonic() + CALL_SECONDS_MAX
        while True:
            try:
                first, end = consumer.get_watermark_offsets(place, timeout=CALL_SECONDS_MAX, cached=False)
            except KafkaException as error:
                if error.args[0].code() not in _NO_LEADER_YET or monotonic() > deadline:
                    raise
                sleep(LEADER_SECONDS)
            else:
                return first, end

    def _values(self, consumer: Consumer, place: TopicPartition, start: int, deadline: float) -> Iterator[bytes]:
        consumer.assign([TopicPartition(place.topic, place.partition, start)])
        while monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
        raise ServerUnreachable(f"{self._name}: the position could not be read within {CALL_SECONDS_MAX:.0f} s")

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                **self._client_settings(),
                "group.id": f"{self._table_name}-outlet",  # the client wants one; nobody joins it
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # the end is what is looked for, so there is nothing to wait for
                "auto.offset.reset": "earliest",
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # -- the input, as the broker sees it -------------------------------------------------------------------------

    def input_state(self) -> InputState:
        """What the broker says of the shard's input right now.

        Raises ShardRefused where a topic is missing or the topics do not have the same number of partitions;
        ServerUnreachable.
        """
        changes = topic_name(self._table_name, CHANGES)
        with self._failures("asking for the topics"), self._consumer() as consumer:
            shards = self._shards(consumer)
            topic_id = self._topic_id(consumer, changes)
            place = TopicPartition(changes, self._shard)
            earliest, end = self._watermarks(consumer, place)
        return InputState(topic_id, shards, earliest, end)

    def _shards(self, consumer: Consumer) -> int:
        """The number of partitions that the topics of the table have in common."""
        topics = consumer.list_topics(timeout=CALL_SECONDS_MAX).topics
        counts = {}
        for name in (topic_name(self._table_name, kind) for kind in (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)):
            if name not in topics or topics[name].error is not None:
                raise ShardRefused(f"topic {name} does not exist: `streamer topics create` makes it")
            counts[name] = len(topics[name].partitions)
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ShardRefused(
                f"{self._name}: the topics must have the same number of partitions, but have: {found}; "
                "make those with the wrong number anew by `streamer topics create`"
            )
        return counts[topic_name(self._table_name, CHANGES)]

    def _topic_id(self, consumer: Consumer, topic: str) -> str:
        """The id that tells a topic from another one of the same name; empty on the embedded broker."""
        if (consumer.cluster_id(CALL_SECONDS_MAX) or "").startswith(MOCK_CLUSTER):
            return NO_TOPIC_ID
        admin = AdminClient(self._client_settings())
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=CALL_SECONDS_MAX)
        description: TopicDescription = answers[topic].result(CALL_SECONDS_MAX + 1)
        return str(description.topic_id)

    # -- what Kafka's errors mean ---------------------------------------------------------------------------------

    @contextmanager
    def _failures(self, doing: str) -> Iterator[None]:
        """Turns Kafka's errors into ours."""
        try:
            yield
        except KafkaException as error:
            raise self._failure(doing, error.args[0]) from None
        except TimeoutError:
            raise ServerUnreachable(f"{self._name}: {doing}: Kafka does not answer") from None

    def _failure(self, doing: str, error: KafkaError) -> Fenced | ServerUnreachable:
        if error.code() in _SHUT_OUT or error.fatal():
            return Fenced(f"{self._name}: {doing}: another worker has taken over ({error.name()})")
        return ServerUnreachable(f"{self._name}: {doing}: Kafka at {self._bootstrap} answers {error.name()}")


class _FailedDeliveries:
    """Remembers the first record that could not be delivered."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self._error = self._error or error

    def check(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)


@contextmanager
def _aborted_on_error(producer: Producer) -> Iterator[None]:
    """Aborts the transaction on the way out of an error, so that its readers need not wait for its end.

    Only an attempt: whatever becomes of it, the next `fence` resolves the transaction.
    """
    try:
        yield
    except Exception:
        with suppress(KafkaException):
            producer.purge()
            producer.abort_transaction(ABORT_SECONDS_MAX)
        raise
