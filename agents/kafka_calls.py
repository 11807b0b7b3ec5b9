"""How this process talks to Kafka about one shard, through its C client: settings, limits, and what errors mean.

The rules of this file
----------------------
* Every call has a time limit. Being shut out is `Fenced`. What Kafka refuses for good would be refused again for ever:
  it is `ConfigError` (nobody allowed it) or `ShardRefused`, and names the mend. Everything else that Kafka answers, or
  does not answer, is `ServerUnreachable`, and worth another try.
* Where a secured Kafka gives no connection, the client does not know why: `kafka_shut_out` finds out.
* A producer that cannot go on for another reason is not called shut out: the next take-over tells who owns the shard.
* A question that came too early, to a topic just made or a broker just restarted, is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.kafka_log import librdkafka_logger
from streamer.errors import ConfigError, Fenced, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.kafka_access import for_librdkafka, kafka_settings
from streamer.incremental.kafka_clients import servers_of
from streamer.incremental.kafka_rights import DESCRIBE, GROUP, READ, TRANSACTIONAL_ID, WRITE, Right, not_authorised
from streamer.incremental.kafka_shut_out import shut_out
from streamer.incremental.topics import topic_name, worker_group

CALL_SECONDS_MAX = 20.0
"""Limit of each wait for Kafka: longer than a broker needs to serve transactions again after a crash."""

_SHUT_OUT = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

_NOT_ALLOWED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.SECURITY_DISABLED,
    }
)

_NO_CONNECTION = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL}
    | {KafkaError._TIMED_OUT}
)
"""What the client answers that is shut out, and the client of a broker that is away."""

_TOO_LARGE = "a record is larger than its topic allows: raise the topic's max.message.bytes (`streamer topics check`)"
_MISSING = "a topic or one of its partitions is missing: `streamer topics check` says which"
_TOO_OLD = "the broker is too old for it, or an old message format is set: transactions are needed"
_POLICY = "a policy of the broker or a setting of the topic refuses it: `streamer topics check` says what is needed"
_SETTING = "a setting of the connection is not valid: look at --kafka"
_MENDS = {
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _MISSING,
    KafkaError._UNKNOWN_TOPIC: _MISSING,
    KafkaError._UNKNOWN_PARTITION: _MISSING,
    KafkaError.TOPIC_EXCEPTION: _MISSING,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "raise the broker's transaction.max.timeout.ms to 30000 at least",
    KafkaError.UNSUPPORTED_VERSION: _TOO_OLD,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: _TOO_OLD,
    KafkaError._UNSUPPORTED_FEATURE: _TOO_OLD,
    KafkaError.POLICY_VIOLATION: _POLICY,
    KafkaError.INVALID_RECORD: _POLICY,
    KafkaError.INVALID_CONFIG: _POLICY,
    KafkaError._INVALID_ARG: _SETTING,
}
"""What to do about an answer that will not change by itself."""

_TOO_EARLY = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
LEADER_SECONDS = 0.1
"""Wait before a question that came too early is asked again."""
SETTLING_SECONDS_MAX = 20.0
"""How long an answer that may have come too early is doubted; no limit of a single call."""


class KafkaCalls:
    """What the calls about one shard have in common; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self.bootstrap = bootstrap
        self.table_name = table_name
        self.shard = shard
        self.name = f"shard {shard} of {table_name}"

    def settings(self) -> dict[str, object]:
        """What every client is made with. Raises ConfigError."""
        return client_settings(self.bootstrap)

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        """A reader of committed records for the time of a `with`."""
        consumer = self.new_consumer()
        try:
            yield consumer
        finally:
            consumer.close()

    def new_consumer(self) -> Consumer:
        """A reader of committed records, in no group that anybody joins."""
        return Consumer(
            {
                **self.settings(),
                "group.id": f"{self.table_name}-outlet",  # the client wants one; nobody joins it
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # the end is what is looked for, so there is nothing to wait for
                "auto.offset.reset": "earliest",
            }
        )

    def watermarks(self, consumer: Consumer, topic_partition: TopicPartition) -> tuple[int, int]:
        """First and end offset; asked again while the cluster is still settling who leads."""
        deadline = monotonic() + SETTLING_SECONDS_MAX
        while True:
            try:
                first, end = consumer.get_watermark_offsets(topic_partition, timeout=CALL_SECONDS_MAX, cached=False)
            except KafkaException as error:
                if error.args[0].code() not in _TOO_EARLY or monotonic() > deadline:
                    raise
                sleep(LEADER_SECONDS)
            else:
                return first, end

    def values(
        self, consumer: Consumer, topic_partition: TopicPartition, start: int, deadline: float
    ) -> Iterator[bytes]:
        """The values of `records`; no tombstones."""
        values = (record.value() for record in self.records(consumer, topic_partition, start, deadline))
        return (value for value in values if value is not None)

    def records(
        self, consumer: Consumer, topic_partition: TopicPartition, start: int, deadline: float
    ) -> Iterator[Message]:
        """The committed records from an offset on, up to the end that the partition has now."""
        consumer.assign([TopicPartition(topic_partition.topic, topic_partition.partition, start)])
        while monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
        raise ServerUnreachable(
            f"{self.name}: {topic_partition.topic} could not be read within {CALL_SECONDS_MAX:.0f} s"
        )

    @contextmanager
    def failures(self, doing: str, operation: str = DESCRIBE, *kinds: str) -> Iterator[None]:
        """Turns Kafka's errors into ours. operation, kinds: what is done with which topics of the table."""
        try:
            yield
        except KafkaException as error:
            names = [topic_name(self.table_name, kind) for kind in kinds] or [f"{self.table_name}."]
            raise self._failure(doing, error.args[0], Right([operation], names, prefixed=not kinds)) from None
        except TimeoutError:
            raise ServerUnreachable(f"{self.name}: {doing}: Kafka does not answer") from None

    def _failure(self, doing: str, error: KafkaError, right: Right) -> StreamerError:
        if error.code() in _SHUT_OUT:
            return Fenced(f"{self.name}: {doing}: Kafka has shut this producer out ({error.name()})")
        refused = refusal(f"{self.name}: {doing}", error.code(), error.name(), right, self.table_name)
        if refused is None and error.code() in _NO_CONNECTION:
            refused = shut_out(servers_of(self.bootstrap))
        return refused or ServerUnreachable(f"{self.name}: {doing}: Kafka at {self.bootstrap} answers {error.name()}")


def client_settings(bootstrap: str) -> dict[str, object]:
    """What every C client of this process is made with. Raises ConfigError."""
    return {"bootstrap.servers": bootstrap, "logger": librdkafka_logger(), **for_librdkafka(kafka_settings())}


def refusal(doing: str, code: int | None, name: str, right: Right, table_name: str) -> StreamerError | None:
    """The error for an answer of Kafka that no repetition changes; None for any other. Both clients use its codes.

    right: what was made use of, where topics are not allowed.
    """
    missing = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: right,
        KafkaError.GROUP_AUTHORIZATION_FAILED: Right([READ], [worker_group(table_name)], GROUP),
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Right(
            [WRITE, DESCRIBE], [f"{table_name}-shard-"], TRANSACTIONAL_ID, prefixed=True
        ),
    }
    if code in missing:
        return ConfigError(not_authorised(doing, missing[code], kafka_settings().username))
    if code in _NOT_ALLOWED:
        return ConfigError(f"{doing}: Kafka does not let this user do it ({name}): look at KAFKA_CONFIG and its ACLs")
    if code in _MENDS:
        return ShardRefused(f"{doing}: Kafka refuses it for good ({name}): {_MENDS[code]}")
    return None
