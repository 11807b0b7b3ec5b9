"""The input of one shard as the broker sees it right now: its topics, and from which offset to which it is held."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.errors import ShardRefused
from streamer.incremental.shard.input import InputState
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS, topic_name

MOCK_CLUSTER = "mockCluster"
"""How the id of librdkafka's own broker begins. It serves no topic ids."""

NO_TOPIC_ID = ""
"""In place of a topic's id on the embedded broker, which gives none."""


class KafkaInput:
    """The input of one shard; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)

    def state(self) -> InputState:
        """What the broker says of the shard's input right now.

        Raises ShardRefused where a topic is missing or the topics do not have the same number of partitions;
        ServerUnreachable.
        """
        changes = topic_name(self._kafka.table_name, CHANGES)
        with self._kafka.failures("asking for the topics"), self._kafka.consumer() as consumer:
            shards = self._shards(consumer)
            topic_id = self._topic_id(consumer, changes)
            topic_partition = TopicPartition(changes, self._kafka.shard)
            earliest, end = self._kafka.watermarks(consumer, topic_partition)
        return InputState(topic_id, shards, earliest, end)

    def _shards(self, consumer: Consumer) -> int:
        """The number of partitions that the topics of the table have in common."""
        topics = consumer.list_topics(timeout=CALL_SECONDS_MAX).topics
        counts = {}
        for name in (topic_name(self._kafka.table_name, kind) for kind in (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)):
            if name not in topics or topics[name].error is not None:
                raise ShardRefused(f"topic {name} does not exist: `streamer topics create` makes it")
            counts[name] = len(topics[name].partitions)
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ShardRefused(
                f"{self._kafka.name}: the topics must have the same number of partitions, but have: {found}; "
                "make those with the wrong number anew by `streamer topics create`"
            )
        return counts[topic_name(self._kafka.table_name, CHANGES)]

    def _topic_id(self, consumer: Consumer, topic: str) -> str:
        """The id that tells a topic from another one of the same name; empty on the embedded broker."""
        if (consumer.cluster_id(CALL_SECONDS_MAX) or "").startswith(MOCK_CLUSTER):
            return NO_TOPIC_ID
        admin = AdminClient(self._kafka.settings())
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=CALL_SECONDS_MAX)
        description: TopicDescription = answers[topic].result(CALL_SECONDS_MAX + 1)
        return str(description.topic_id)
