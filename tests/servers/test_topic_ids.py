"""The ids of topics as commands and readers ask for them: the same that workers see, and none where there are none."""

from __future__ import annotations

from servers.broker.servers import Servers
from streamer.kafka.clients import open_admin
from streamer.kafka.embedded import embedded_servers
from streamer.kafka.shard_input import KafkaInput
from streamer.kafka.topics import topic_id, topic_ids
from worlds.kafka_and_redis import fresh_name, make_topics


def test_commands_see_the_ids_that_workers_see(servers: Servers) -> None:
    name = fresh_name()
    make_topics(servers.kafka_bootstrap, name)
    with open_admin(servers.kafka_bootstrap) as admin:
        assert topic_ids(admin, name) == KafkaInput(servers.kafka_bootstrap, name, 0).state().topic_ids
        assert topic_id(admin, name, "live") == topic_ids(admin, name)["live"]


def test_topics_that_do_not_exist_have_no_id(servers: Servers) -> None:
    with open_admin(servers.kafka_bootstrap) as admin:
        assert topic_ids(admin, fresh_name()) == {}


def test_the_embedded_broker_gives_no_ids() -> None:
    with embedded_servers("people") as embedded, open_admin(embedded.kafka) as admin:
        assert topic_ids(admin, "people") == {}
