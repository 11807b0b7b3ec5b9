"""The ids of topics as commands and readers ask for them: the same that workers see, and none where there are none."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicCollection

from servers.broker.servers import Servers
from streamer.kafka.clients import KafkaCalls, open_admin
from streamer.kafka.embedded import embedded_servers
from streamer.kafka.reading import Place
from streamer.kafka.shard_input import KafkaInput
from streamer.kafka.topics import Admin, Reach, reach_at_once, reach_of, topic_id, topic_ids, with_reach
from worlds.kafka_and_redis import fresh_name, make_topics, write


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


def test_one_answer_about_all_partitions_says_what_an_answer_about_each_says(servers: Servers) -> None:
    """Also of a partition that does not exist, about which there is no answer."""
    name, bootstrap = fresh_name(), servers.kafka_bootstrap
    make_topics(bootstrap, name, 2)
    write(bootstrap, f"{name}.changes", [(1, b"key", b"value")])
    places = [Place(f"{name}.{kind}", shard) for kind in ("changes", "live") for shard in range(2)]
    with open_admin(bootstrap) as admin, KafkaCalls(bootstrap, name, 0).consumer(committed=False) as reader:
        found = reach_at_once(admin, reader, places)
        assert found == reach_at_once(admin, reader, places) == reach_of(admin, places)
        assert found[places[1]] == Reach(0, 1, 0)
        more = [*places, Place(f"{name}.qit", 0), Place(f"{name}.live", 2)]
        assert reach_at_once(admin, reader, more) == reach_of(admin, more) == found


def test_topics_are_asked_for_without_those_that_hold_nothing_that_is_published(servers: Servers) -> None:
    name, bootstrap = fresh_name(), servers.kafka_bootstrap
    make_topics(bootstrap, name, 2)
    asked: list[str] = []

    class Watched(Admin):
        def describe_topics(self, topics: TopicCollection, **settings: Any) -> Any:
            asked.extend(topics.topic_names)
            return super().describe_topics(topics, **settings)

    with KafkaCalls(bootstrap, name, 0).consumer(committed=False) as reader:
        topics = with_reach(Watched({"bootstrap.servers": bootstrap}), reader, name, {}, ["live"])
    assert {one.removeprefix(f"{name}.") for one in asked} == set(topics)
