"""What Kafka's answers mean: shut out, refused for good, or worth another try."""

from __future__ import annotations

import aiokafka.errors
import pytest
from aiokafka.errors import KafkaError as ReaderError
from confluent_kafka import KafkaError, KafkaException

from agents.input_reader import failure_of
from agents.kafka_calls import KafkaCalls
from streamer.errors import ConfigError, Fenced, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.kafka_rights import WRITE
from streamer.incremental.topics import LIVE

CALLS = KafkaCalls("broker:9092", "patients", 2)


def meant(error: KafkaError) -> StreamerError:
    with pytest.raises(StreamerError) as caught, CALLS.failures("publishing", WRITE, LIVE):
        raise KafkaException(error)
    return caught.value


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", ConfigError, "--operation Write --topic patients.live`"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", ConfigError, "--transactional-id patients-shard- --resource"),
        ("GROUP_AUTHORIZATION_FAILED", ConfigError, "--group streamer-patients`"),
        ("MSG_SIZE_TOO_LARGE", ShardRefused, "max.message.bytes"),
        ("INVALID_TRANSACTION_TIMEOUT", ShardRefused, "transaction.max.timeout.ms"),
        ("UNKNOWN_TOPIC_OR_PART", ShardRefused, "streamer topics check"),
        ("_UNKNOWN_PARTITION", ShardRefused, "streamer topics check"),
        ("_FENCED", Fenced, "Kafka has shut this producer out"),
        ("INVALID_PRODUCER_EPOCH", Fenced, "Kafka has shut this producer out"),
        ("_TIMED_OUT", ServerUnreachable, "answers _TIMED_OUT"),
        ("NOT_ENOUGH_REPLICAS", ServerUnreachable, "answers NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_NOT_AVAILABLE", ServerUnreachable, "answers COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_what_no_repetition_changes_is_told_from_an_outage(name: str, kind: type[StreamerError], says: str) -> None:
    error = meant(KafkaError(getattr(KafkaError, name)))
    assert type(error) is kind
    assert says in str(error)
    assert "shard 2 of patients: publishing" in str(error)


def test_a_producer_that_is_not_allowed_is_not_called_shut_out_though_its_error_is_fatal() -> None:
    """Before: "Kafka has shut this producer out", and the shard was dropped again and again."""
    error = meant(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "", True))
    assert type(error) is ConfigError
    assert type(meant(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True))) is ServerUnreachable


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TopicAuthorizationFailedError", ConfigError),
        ("GroupAuthorizationFailedError", ConfigError),
        ("UnsupportedVersionError", ShardRefused),
        ("UnknownTopicOrPartitionError", ServerUnreachable),
        ("NotLeaderForPartitionError", ServerUnreachable),
        ("KafkaConnectionError", ServerUnreachable),
        ("OffsetOutOfRangeError", ServerUnreachable),
    ],
)
def test_the_reading_client_tells_them_apart_too(name: str, kind: type[StreamerError]) -> None:
    error: ReaderError = getattr(aiokafka.errors, name)("patients.changes")
    assert type(failure_of("reading patients.changes", error, "patients.changes")) is kind
