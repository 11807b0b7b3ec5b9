"""Kafka and Redis inside this process, for a first look: no installation, and nothing is kept.

Clients reach both over TCP, as they reach real servers. The broker is librdkafka's mock cluster: the real protocol, but
no log on disk and no isolation, so that records of an aborted transaction are visible. It shows that everything runs,
and nothing about faults. It cannot be asked to create topics: it creates one of `SHARDS` partitions, its own fixed
number, when a client asks for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import KafkaException, Producer

from streamer.errors import ConfigError, ServerUnreachable
from streamer.incremental.topics import LIVE, topics_of
from streamer.kafka.clients import limited
from streamer.kafka.settings import CONFIG, VARIABLES

SHARDS = 4
START_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class EmbeddedServers:
    """The addresses of the two servers of this process."""

    kafka: str
    redis: str


@contextmanager
def embedded_servers(table_name: str, published: Collection[str] = (LIVE,)) -> Iterator[EmbeddedServers]:
    """Runs both servers, with the topics of one table. published: the kinds that hold what it publishes."""
    with _without_secrets(), _redis() as redis, _kafka() as kafka:
        _make_topics(kafka, table_name, published)
        yield EmbeddedServers(kafka, redis)


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Removes the settings of a secured Kafka from the environment: the embedded one takes no TLS and no password."""
    taken = {name: os.environ.pop(name) for name in (CONFIG, *VARIABLES) if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


@contextmanager
def _redis() -> Iterator[str]:
    try:
        from fakeredis import TcpFakeServer
    except ImportError:
        raise ConfigError("the embedded Redis is not installed: install streamer[demo]") from None
    server = TcpFakeServer(("127.0.0.1", 0), server_version=(7,))
    server.RequestHandlerClass.disable_nagle_algorithm = True  # it answers a pipeline in small pieces
    server.daemon_threads = True  # a client that stays connected must not keep the process alive
    threading.Thread(target=server.serve_forever, name="embedded-redis", daemon=True).start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _kafka() -> Iterator[str]:
    broker = Producer({"test.mock.num.brokers": 1, "logger": limited("librdkafka")})
    brokers = broker.list_topics(timeout=START_SECONDS_MAX).brokers.values()
    yield ",".join(f"{one.host}:{one.port}" for one in brokers)
    del broker  # the cluster lives as long as the client that started it


def _make_topics(kafka: str, table_name: str, published: Collection[str]) -> None:
    """Has the broker create every topic by asking for it, and waits until it has its partitions."""
    client = Producer({"bootstrap.servers": kafka, "logger": limited("librdkafka")})
    deadline = monotonic() + START_SECONDS_MAX
    for name in (topic.name for topic in topics_of(table_name, published)):
        try:
            while len(client.list_topics(name, timeout=START_SECONDS_MAX).topics[name].partitions) != SHARDS:
                if monotonic() > deadline:
                    raise ServerUnreachable(f"the embedded broker did not make {name} within {START_SECONDS_MAX} s")
        except KafkaException as error:
            raise ServerUnreachable(f"the embedded broker answers {error.args[0].name()}") from None
