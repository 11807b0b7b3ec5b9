"""What tests do on a real Kafka and Redis: make a table's topics, write and read them, and set Redis back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import topic_name, topics_of
from streamer.table.schema import ROWS

SECONDS_MAX = 100.0


def fresh_name() -> str:
    """A table name that no other test uses."""
    return f"t{uuid4().hex[:10]}"


def make_topics(
    bootstrap: str,
    table_name: str,
    shards: int = 4,
    but: dict[str, int] | None = None,
    config: dict[str, dict[str, str]] | None = None,
    form: str = ROWS,
) -> None:
    """Creates the topics of a table that publishes in a form.

    but: kinds that get another number of partitions (0: none at all). config: other settings, by kind.
    """
    counts = {topic.kind: (but or {}).get(topic.kind, shards) for topic in topics_of(table_name, form)}
    news = [
        NewTopic(topic.name, counts[topic.kind], 1, config={**topic.config, **(config or {}).get(topic.kind, {})})
        for topic in topics_of(table_name, form)
        if counts[topic.kind]
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.create_topics(news).values():
        answer.result(SECONDS_MAX)


def write(bootstrap: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
    """Writes (partition, key, value) records."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for partition, record_key, value in records:
        producer.produce(topic, value, record_key, partition=partition)
        producer.poll(0)
    if producer.flush(SECONDS_MAX):
        raise TimeoutError(f"not everything was written to {topic}")


def read(bootstrap: str, table_name: str, kind: str, shard: int, isolation: str = "read_committed") -> list[Message]:
    """All records of one partition, from the start to the end that it has now."""
    topic_partition = TopicPartition(topic_name(table_name, kind), shard, 0)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # the end is what is looked for: the broker would keep it back for half a second
        }
    )
    consumer.assign([topic_partition])
    messages: list[Message] = []
    try:
        while True:
            message = consumer.poll(SECONDS_MAX)
            if message is None:
                raise TimeoutError(f"the end of {topic_partition.topic} was not reached")
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return messages
            else:
                raise RuntimeError(message.error().name())
    finally:
        consumer.close()


@dataclass(frozen=True)
class RedisCopy:
    """The values of some keys, as Redis dumps them."""

    url: str
    match: str
    dumps: dict[bytes, bytes] = field(repr=False)

    def restore(self) -> None:
        """Puts all of them back in one transaction; what was not there then is gone."""
        client: Any = connect(self.url)
        pipeline = client.pipeline(transaction=True)
        for name in client.scan_iter(self.match):
            pipeline.delete(name)
        for name, dump in self.dumps.items():
            pipeline.restore(name, 0, dump)
        pipeline.execute()


def copy_of(url: str, match: str = "*") -> RedisCopy:
    """A copy of all keys whose names match, taken at one moment."""
    client: Any = connect(url)
    names = list(client.scan_iter(match))
    pipeline = client.pipeline(transaction=True)
    for name in names:
        pipeline.dump(name)
    dumps = dict(zip(names, pipeline.execute(), strict=True))
    return RedisCopy(url, match, {name: dump for name, dump in dumps.items() if dump is not None})
