"""The last position of every shard, and the records between two offsets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import TopicPartition
from kafka.errors import TopicAuthorizationFailedError

from streamer.cli.last_positions import last_position, last_positions, records_between
from streamer.incremental import kafka_clients
from streamer.incremental.shard.outlet import Position
from worlds.topics_in_memory import TopicsInMemory

TOPIC = "people.positions"
FIRST, SECOND = Position(1, 10, 1, 2, 0, 7), Position(2, 20, 2, 3, 0, 9)


@pytest.fixture
def topics() -> TopicsInMemory:
    found = TopicsInMemory({TOPIC: 3})
    found.write(TOPIC, 0, (b"0", FIRST.to_json()), (b"0", SECOND.to_json()), None)  # a transaction's marker is last
    found.write(TOPIC, 2, (b"2", FIRST.to_json()))
    return found


def test_it_is_the_last_record_of_each_shard_that_has_one(topics: TopicsInMemory) -> None:
    places = [TopicPartition(TOPIC, number) for number in range(3)]
    assert last_positions(cast(Any, topics), places) == {0: SECOND, 2: FIRST}


def test_that_of_one_shard_is_found_by_the_tables_name(topics: TopicsInMemory) -> None:
    assert [last_position(cast(Any, topics), "people", shard) for shard in range(4)] == [SECOND, None, FIRST, None]


def test_who_may_not_read_positions_is_told_so_and_does_not_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setattr(kafka_clients, "SEEN_SECONDS_MAX", 0.0)
    hidden = TopicsInMemory({})
    asked = {"poll": lambda **_: None, "set_topics": lambda _: None}
    monkeypatch.setattr(
        hidden, "_client", SimpleNamespace(**asked, cluster=SimpleNamespace(unauthorized_topics={TOPIC})), raising=False
    )
    with pytest.raises(TopicAuthorizationFailedError, match=TOPIC):
        last_position(cast(Any, hidden), "people", 0)


def test_records_end_before_the_second_offset(topics: TopicsInMemory) -> None:
    found = records_between(cast(Any, topics), TopicPartition(TOPIC, 0), 0, 1)
    assert [record.offset for record in found] == [0]
