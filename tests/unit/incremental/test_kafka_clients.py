"""Reaching Kafka from a command: addresses without passwords, errors in our words, and reading up to an end."""

from __future__ import annotations

import ssl

import pytest
from kafka import TopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaTimeoutError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from streamer.errors import ConfigError, ServerUnreachable, StreamerError, UsageError
from streamer.incremental import kafka_clients
from streamer.incremental.kafka_clients import reaching, records_until, servers_of, shards_in
from worlds.topics_in_memory import TopicsInMemory

TOPIC = "people.changes"
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


@pytest.mark.parametrize("wrong", ["", "broker", "broker:", ":9092", "a:1 b:2", "a:1,,b:2", "sasl://a:1", "a:99999"])
def test_what_is_no_address_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT") as refused:
        servers_of(wrong)
    assert len(wrong) < 2 or wrong not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (UnknownTopicOrPartitionError("canary"), UsageError, "`streamer topics create` makes them all"),
        (TopicAuthorizationFailedError({"canary", "a.live"}), ConfigError, r"--operation Read --topic a\.live`"),
        (TransactionalIdAuthorizationFailedError("canary"), ConfigError, "--transactional-id"),
        (ClusterAuthorizationFailedError("canary"), ConfigError, "not authorised"),
        (NotLeaderForPartitionError("canary"), ServerUnreachable, "refuses the request: NotLeaderForPartition"),
        (ssl.SSLError(1, "canary"), ServerUnreachable, "does it want TLS"),
        (KafkaTimeoutError("canary"), ServerUnreachable, "does not answer"),
    ],
)
def test_the_clients_errors_come_out_in_our_words_and_without_theirs(
    error: Exception, kind: type[StreamerError], says: str
) -> None:
    with pytest.raises(kind, match=says) as told, reaching("broker:9092"):
        raise error
    assert "broker:9092" in str(told.value)
    assert "canary" not in str(told.value)


def test_the_shards_of_a_topic_are_its_partitions_in_order() -> None:
    assert shards_in(TopicsInMemory({TOPIC: 2}), TOPIC) == PLACES


def test_a_topic_that_was_made_just_now_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = TopicsInMemory({TOPIC: 2})
    answers = [None, set(), {1, 0}]
    monkeypatch.setattr(topics, "partitions_for_topic", lambda topic: answers.pop(0))
    monkeypatch.setattr(kafka_clients, "SEEN_AGAIN_SECONDS", 0.0)
    assert shards_in(topics, TOPIC) == PLACES


def test_a_topic_that_stays_away_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "SEEN_SECONDS_MAX", 0.0)
    with pytest.raises(UsageError, match=r"people\.changes does not exist: `streamer topics create`"):
        shards_in(TopicsInMemory({}), TOPIC)


def read(topics: TopicsInMemory, **ends: int) -> list[tuple[int, int]]:
    """Partition and offset of what is read from offset 0 up to these ends."""
    until = {place: ends[f"end_{place.partition}"] for place in PLACES}
    topics.assign(PLACES)
    for place in PLACES:
        topics.seek(place, 0)
    return [(record.partition, record.offset) for record in records_until(topics, until)]


def test_records_are_read_up_to_the_ends_and_not_beyond_what_came_meanwhile() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, *[(b"k", b"v")] * 20)
    topics.write(TOPIC, 1, *[(b"k", b"v")] * 3)
    found = read(topics, end_0=9, end_1=3)
    assert [offset for shard, offset in found if shard == 0] == list(range(9))
    assert [offset for shard, offset in found if shard == 1] == list(range(3))


def test_markers_at_the_end_are_passed_over() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, (b"k", b"v"), *[None] * 30)
    assert read(topics, end_0=31, end_1=0) == [(0, 0)]


def test_a_broker_that_falls_silent_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "SILENCE_SECONDS_MAX", 0.0)
    with pytest.raises(ServerUnreachable, match="has sent nothing"):
        read(TopicsInMemory({TOPIC: 2}), end_0=1, end_1=0)
