"""What the broker says of topics and of the workers' group; the rest on a real one (servers/test_topics.py)."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection, TopicPartition

from streamer.kafka.errors import ADMINISTRATION
from streamer.kafka.topics import Described, GroupHidden, Members, described, members_of, topic_id, topic_ids

TOPIC = "people.changes"


def answered(answer: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, KafkaError):
        future.set_exception(KafkaException(answer))
    else:
        future.set_result(answer)
    return future


class Admin:
    """An admin client whose broker has some topics by id, and one group; or answers with errors."""

    def __init__(self, ids: dict[str, Any], cluster: str = "abc", group: Any = None) -> None:
        self._ids, self._cluster, self._group = ids, cluster, group
        self.asked: list[str] = []

    def list_topics(self, timeout: float) -> SimpleNamespace:
        there = {name: SimpleNamespace(error=None, partitions={0: None}) for name in self._ids}
        return SimpleNamespace(cluster_id=self._cluster, topics=there)

    def describe_topics(self, asked: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        self.asked = list(asked.topic_names)
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        said = {name: self._ids.get(name, missing) for name in self.asked}
        return {
            name: answered(one if isinstance(one, KafkaError) else SimpleNamespace(topic_id=one, partitions=[None]))
            for name, one in said.items()
        }

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        return {names[0]: answered(self._group)}


def test_topics_are_told_by_kind_without_those_that_do_not_exist() -> None:
    admin = Admin({TOPIC: "a", "people.live": "b"})
    assert described(admin, "people") == {"changes": Described("a", 1), "live": Described("b", 1)}
    assert set(admin.asked) >= {TOPIC, "people.live", "people.positions", "people.dead-letters"}
    assert topic_ids(admin, "people") == {"changes": "a", "live": "b"}


def test_one_topic_is_asked_for_alone() -> None:
    admin = Admin({TOPIC: "a"})
    assert topic_id(admin, "people", "changes") == "a"
    assert admin.asked == [TOPIC]
    assert topic_id(admin, "people", "live") == ""


def test_the_embedded_broker_gives_no_ids_and_is_not_asked_for_them() -> None:
    admin = Admin({TOPIC: "a"}, cluster="mockCluster7")
    assert (topic_ids(admin, "people"), topic_id(admin, "people", "changes"), admin.asked) == ({}, "", [])
    assert described(admin, "people", ids=False) == {"changes": Described("", 1)}


def test_topics_that_are_kept_from_a_user_have_no_id_and_are_an_error_for_who_looks_after_them() -> None:
    admin = Admin({TOPIC: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "people.live": "b"})
    assert (topic_ids(admin, "people"), topic_id(admin, "people", "changes")) == ({"live": "b"}, "")
    with pytest.raises(KafkaException) as refused:
        described(admin, "people")
    right = refused.value.args[1]
    assert (right.operations, TOPIC in right.names) == (ADMINISTRATION, True)


def member(name: str, *places: tuple[str, int]) -> SimpleNamespace:
    assignment = SimpleNamespace(topic_partitions=[TopicPartition(*place) for place in places]) if places else None
    return SimpleNamespace(client_id=name, assignment=assignment)


@pytest.mark.parametrize(("state", "settled"), [("STABLE", True), ("DEAD", True), ("PREPARING_REBALANCING", False)])
def test_members_of_a_group_have_partitions_of_the_one_topic(state: str, settled: bool) -> None:
    members = [member("one", (TOPIC, 1), ("other.changes", 2)), member("two", (TOPIC, 0)), member("three")]
    group = SimpleNamespace(members=members, state=ConsumerGroupState[state])
    assert members_of(Admin({}, group=group), "g", TOPIC) == Members(settled, {0: "two", 1: "one"})


def test_a_group_may_not_be_looked_after_yet_or_not_be_told() -> None:
    assert members_of(Admin({}, group=KafkaError(KafkaError.NOT_COORDINATOR)), "g", TOPIC) is None
    for code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._UNSUPPORTED_FEATURE):
        with pytest.raises(GroupHidden):
            members_of(Admin({}, group=KafkaError(code)), "g", TOPIC)
    with pytest.raises(KafkaException):
        members_of(Admin({}, group=KafkaError(KafkaError._TIMED_OUT)), "g", TOPIC)
