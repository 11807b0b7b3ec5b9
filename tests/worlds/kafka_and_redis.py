"""What tests do on a real Kafka and Redis: make a table's topics, write and read them, and set Redis back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import outputs_of, topic_name, topics_of
from streamer.table.schema import ROWS

SECONDS_MAX = 100.0
DELETED_SECONDS_MAX, MARKED_SECONDS_MAX = 20.0, 2.0
"""How long a deleted topic may stand in the way of a new one, and how long markers of transactions may take."""


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
    counts = {topic.kind: (but or {}).get(topic.kind, shards) for topic in topics_of(table_name, outputs_of(form))}
    news = [
        NewTopic(topic.name, counts[topic.kind], 1, config={**topic.config, **(config or {}).get(topic.kind, {})})
        for topic in topics_of(table_name, outputs_of(form))
        if counts[topic.kind]
    ]
    admin = admin_of(bootstrap)
    _await(admin.create_topics(news))


def delete_topics(bootstrap: str, table_name: str, *kinds: str) -> None:
    """Deletes some topics of a table; the broker may go on for a moment as if they were there."""
    admin = admin_of(bootstrap)
    _await(admin.delete_topics([topic_name(table_name, kind) for kind in kinds]))


def make_topics_again(bootstrap: str, table_name: str, *kinds: str, shards: int = 4, form: str = ROWS) -> None:
    """Creates deleted topics of a table, each as soon as the old one is gone."""
    deadline = monotonic() + DELETED_SECONDS_MAX
    for kind in kinds:
        others = {topic.kind: 0 for topic in topics_of(table_name, outputs_of(form)) if topic.kind != kind}
        while True:
            try:
                make_topics(bootstrap, table_name, shards, others, form=form)
                break
            except KafkaException:
                if monotonic() > deadline:
                    raise
                sleep(0.02)


def recreate_topics(bootstrap: str, table_name: str, *kinds: str, shards: int = 4, form: str = ROWS) -> None:
    """Deletes some topics of a table and creates them again, empty."""
    delete_topics(bootstrap, table_name, *kinds)
    make_topics_again(bootstrap, table_name, *kinds, shards=shards, form=form)


def wait_until_deleted(bootstrap: str, table_name: str, *kinds: str) -> None:
    """Waits until the broker lists none of these topics."""
    names, deadline = {topic_name(table_name, kind) for kind in kinds}, monotonic() + DELETED_SECONDS_MAX
    while names & set(admin_of(bootstrap).list_topics(timeout=SECONDS_MAX).topics):
        assert monotonic() < deadline, f"not deleted: {names}"
        sleep(0.1)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Gives a topic more partitions."""
    admin = admin_of(bootstrap)
    _await(admin.create_partitions([NewPartitions(topic, partitions)]))


def expire(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Deletes the records before these offsets, by partition."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = admin_of(bootstrap)
    _await(admin.delete_records(places))


@contextmanager
def configured(bootstrap: str, of: str, settings: Mapping[str, str]) -> Iterator[None]:
    """In the block a topic, or the "broker", has these settings besides its own."""
    admin = admin_of(bootstrap)
    kind = ResourceType.BROKER if of == "broker" else ResourceType.TOPIC
    name = str(next(iter(admin.list_topics(timeout=SECONDS_MAX).brokers))) if of == "broker" else of

    def set_all(how: AlterConfigOpType) -> None:
        entries = [ConfigEntry(setting, value, incremental_operation=how) for setting, value in settings.items()]
        _await(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]))

    set_all(AlterConfigOpType.SET)
    try:
        yield
    finally:
        set_all(AlterConfigOpType.DELETE)


def admin_of(bootstrap: str) -> AdminClient:
    """To be held on to until it has answered."""
    return AdminClient({"bootstrap.servers": bootstrap})


def _await(answers: Mapping[Any, Any]) -> None:
    for answer in answers.values():
        answer.result(SECONDS_MAX)


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    """A producer that is ready for its first transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(20)
    return producer


def write(bootstrap: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
    """Writes (partition, key, value) records."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for partition, record_key, value in records:
        producer.produce(topic, value, record_key, partition=partition)
        producer.poll(0)
    if producer.flush(SECONDS_MAX):
        raise TimeoutError(f"not everything was written to {topic}")


def read(bootstrap: str, table_name: str, kind: str, shard: int, isolation: str = "read_committed") -> list[Message]:
    """All records of one partition, from the start to the end that it has now.

    A transaction that has ended just now may not be marked yet: it is waited for, and one that stays open is not.
    """
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
    seconds = SECONDS_MAX
    try:
        while True:
            message = consumer.poll(seconds)
            if message is None:
                if seconds < SECONDS_MAX:
                    return messages
                raise TimeoutError(f"the end of {topic_partition.topic} was not reached")
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                if message.offset() >= consumer.get_watermark_offsets(topic_partition, cached=True)[1]:
                    return messages
                seconds = MARKED_SECONDS_MAX
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
