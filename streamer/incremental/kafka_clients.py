"""Connections to Kafka for the operator's commands.

One place says how long a command waits for a broker and what a failure means to the person who typed it. Readers
belong to no consumer group, commit nothing and see committed records only. The client library writes keys and values
of messages to its log at debug level: its logger is shut.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from streamer.errors import ConfigError, ServerUnreachable, UsageError
from streamer.incremental.kafka_access import for_kafka_python, kafka_settings
from streamer.incremental.kafka_rights import (
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
    not_authorised,
    topics_named,
)  # fmt: skip
from streamer.incremental.kafka_shut_out import require_access, shut_out
from streamer.incremental.kafka_tickets import TicketsPassedOver

CONNECT_MS_MAX = 5_000
ANSWER_MS_MAX = 15_000
SILENCE_SECONDS_MAX = 15.0
UUID_CHARACTERS = 36
SEEN_SECONDS_MAX, SEEN_AGAIN_SECONDS = 2.0, 0.1

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:@/\[\]]+):[0-9]{1,5}")


@contextmanager
def reaching(bootstrap: str, *operations: str, transactions: str = "TABLE") -> Iterator[None]:
    """Says in our words what goes wrong between here and the broker: ConfigError, UsageError or ServerUnreachable.

    operations: what is done with topics, for who is not authorised to; without them, reading. transactions: how names
    of transactions begin.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        yield
    except UnknownTopicOrPartitionError:
        raise UsageError(f"a topic is missing at {bootstrap}: `streamer topics create` makes them all") from None
    except AuthorizationError as error:
        user = kafka_settings().username
        raise ConfigError(
            not_authorised(f"Kafka at {bootstrap}", _missing(error, operations, transactions), user)
        ) from None
    except BrokerResponseError as error:
        raise ServerUnreachable(f"Kafka at {bootstrap} refuses the request: {type(error).__name__}") from None
    except (KafkaError, ssl.SSLError) as error:
        raise shut_out(servers_of(bootstrap)) or ServerUnreachable(
            f"Kafka at {bootstrap} does not answer ({type(error).__name__}): is it up, is --kafka right, does it want "
            "TLS or a password (KAFKA_CONFIG)?"
        ) from None


def _missing(error: AuthorizationError, operations: Sequence[str], transactions: str) -> Right:
    """What a user has to be granted."""
    topics = topics_named(str(error)) or ["NAME"]
    if isinstance(error, TransactionalIdAuthorizationFailedError):
        return Right((WRITE, DESCRIBE), [transactions], TRANSACTIONAL_ID, prefixed=True)
    reads = isinstance(error, TopicAuthorizationFailedError) and any(isinstance(one, set) for one in error.args)
    return Right([READ] if reads else operations or [READ], topics)  # readers name a set, whoever else is at work


def servers_of(bootstrap: str) -> list[str]:
    """The addresses in "host:port,...". Raises UsageError, which never repeats the text: a password may stand in it.

    >>> servers_of("a.example:9092, [::1]:9093")
    ['a.example:9092', '[::1]:9093']
    """
    servers = [server.strip() for server in bootstrap.split(",")]
    if not all(_ADDRESS.fullmatch(server) and int(server.rpartition(":")[2]) < 1 << 16 for server in servers):
        raise UsageError(
            "--kafka (KAFKA_BOOTSTRAP): expected HOST:PORT, or several of them with commas between, and nothing else: "
            "no user, no password, no protocol"
        )
    return servers


def _connection(bootstrap: str) -> dict[str, Any]:
    """What every client is made with. Who is shut out hears it here: to the client, topics would seem to be missing."""
    servers = servers_of(bootstrap)
    require_access(servers)
    return {
        "bootstrap_servers": servers,
        "api_version_auto_timeout_ms": CONNECT_MS_MAX,
        "request_timeout_ms": ANSWER_MS_MAX,
        "metrics_enabled": False,
        "selector": TicketsPassedOver,
        **for_kafka_python(kafka_settings()),
    }


@contextmanager
def open_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """An admin client for the time of a `with`."""
    settings = _connection(bootstrap)
    del settings["metrics_enabled"]
    with reaching(bootstrap, CREATE, DESCRIBE, DESCRIBE_CONFIGS):
        admin = KafkaAdminClient(**settings)
        try:
            yield admin
        finally:
            admin.close()


@contextmanager
def open_consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    """A reader of committed records for the time of a `with`; the partitions are assigned by hand."""
    settings = _connection(bootstrap)
    with reaching(bootstrap):
        consumer = KafkaConsumer(
            **settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            max_poll_records=5_000,
            check_crcs=False,  # the embedded broker's transaction markers have none that is valid; TCP checks too
        )
        try:
            yield consumer
        finally:
            consumer.close(autocommit=False)


@contextmanager
def open_producer(bootstrap: str, transactional_id: str | None = None) -> Iterator[KafkaProducer]:
    """A producer that doubles and loses nothing (idempotent, acks=all) for the time of a `with`.

    transactional_id: ends with a UUID, so that no two producers shut each other out.
    """
    settings = _connection(bootstrap)
    with reaching(bootstrap, WRITE, transactions=(transactional_id or "")[:-UUID_CHARACTERS]):
        producer = KafkaProducer(
            **settings,
            enable_idempotence=True,
            transactional_id=transactional_id,
            transaction_timeout_ms=10_000,
            max_in_flight_requests_per_connection=1,
            acks="all",
            linger_ms=5,
            batch_size=256 * 1024,
            retry_backoff_ms=5 if transactional_id else 100,
            max_request_size=2 << 20,
            max_block_ms=ANSWER_MS_MAX,
            delivery_timeout_ms=2 * ANSWER_MS_MAX,
            allow_auto_create_topics=False,
        )
        try:
            yield producer
        finally:
            _close(producer)


def _close(producer: KafkaProducer) -> None:
    try:
        producer.close(timeout=CONNECT_MS_MAX / 1000)
    except KafkaError:  # what was not delivered has been reported already
        producer._closed = True  # or its destructor waits, and complains, once more


def shards_in(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """All partitions of a topic by number; raises UsageError where the topic does not exist.

    A topic that was made just now is waited for: a broker learns of it a moment later.
    """
    until = monotonic() + SEEN_SECONDS_MAX
    while not (partitions := consumer.partitions_for_topic(topic)):
        if monotonic() > until:
            if kafka_settings().is_secured and _is_hidden(consumer, topic):
                raise TopicAuthorizationFailedError({topic})
            raise UsageError(f"topic {topic} does not exist: `streamer topics create` makes it")
        sleep(SEEN_AGAIN_SECONDS)
    return [TopicPartition(topic, number) for number in sorted(partitions)]


def _is_hidden(consumer: KafkaConsumer, topic: str) -> bool:
    """Whether the broker keeps a topic from this user; asked for all topics, it leaves those out."""
    client = consumer._client
    client.poll(future=client.set_topics([topic]), timeout_ms=ANSWER_MS_MAX)
    return topic in client.cluster.unauthorized_topics


def records_until(consumer: KafkaConsumer, ends: Mapping[TopicPartition, int]) -> Iterator[ConsumerRecord]:
    """The records of the assigned partitions from where they stand up to `ends` (exclusive offsets).

    Offsets without a record (transaction markers, aborted or compacted records) are passed over. Raises
    ServerUnreachable when the broker falls silent.
    """
    heard = monotonic()
    remaining = {
        topic_partition: end - consumer.position(topic_partition, ANSWER_MS_MAX)
        for topic_partition, end in ends.items()
    }
    while any(count > 0 for count in remaining.values()):
        for topic_partition, records in consumer.poll(timeout_ms=200).items():
            yield from (record for record in records if record.offset < ends[topic_partition])
        now = {
            topic_partition: end - consumer.position(topic_partition, ANSWER_MS_MAX)
            for topic_partition, end in ends.items()
        }
        if now != remaining:
            remaining, heard = now, monotonic()
        elif monotonic() - heard > SILENCE_SECONDS_MAX:
            raise ServerUnreachable(f"Kafka has sent nothing for {SILENCE_SECONDS_MAX:.0f} s, though there is more")
