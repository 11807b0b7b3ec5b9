"""Reading a topic from one offset to another, to its end, and back to its last record: over markers and silence."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.shard.outlet import Position
from streamer.kafka import reading
from streamer.kafka.errors import READ_RIGHT, Right
from streamer.kafka.reading import (
    FIRST_WINDOW_OFFSETS,
    batches,
    coming,
    last_position,
    last_value,
    records,
    shards_in,
    watermarks,
)
from worlds.kafka_in_memory import TopicsInMemory

TOPIC = "people.changes"
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
POSITIONS = "people.positions"
FIRST, SECOND = Position(1, 10, 1, 2, 0, 7), Position(2, 20, 2, 3, 0, 9)
MESSAGE = (b"k", b"v")


# -- which partitions there are -----------------------------------------------------------------------------------


def test_the_shards_of_a_topic_are_its_partitions_in_order() -> None:
    assert shards_in(TopicsInMemory({TOPIC: 2}), TOPIC) == PLACES


def test_a_topic_that_was_made_just_now_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    there: dict[str, int] = {}
    monkeypatch.setattr(reading, "sleep", lambda seconds: there.update({TOPIC: 2}))
    assert shards_in(TopicsInMemory(there), TOPIC) == PLACES


def test_a_topic_that_stays_away_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SEEN_SECONDS_MAX", 0.0)
    with pytest.raises(UsageError, match=r"people\.changes does not exist: `streamer topics create`"):
        shards_in(TopicsInMemory({}), TOPIC)


def test_a_topic_that_is_kept_from_this_user_is_named_and_not_waited_for() -> None:
    hidden = TopicsInMemory({}, hidden=[POSITIONS])
    with pytest.raises(KafkaException) as refused:
        last_position(hidden, "people", 0)
    assert refused.value.args[1] == Right([READ_RIGHT], [POSITIONS])


@pytest.mark.parametrize("name", ["UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "LEADER_NOT_AVAILABLE"])
def test_ends_are_asked_again_after_an_answer_that_came_too_early(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    topics, waited = TopicsInMemory({TOPIC: 2}), list[float]()
    ends, early = topics.get_watermark_offsets, KafkaException(KafkaError(getattr(KafkaError, name)))

    def once_too_early(*asked: Any, **options: Any) -> tuple[int, int]:
        if not waited:
            raise early
        return ends(*asked, **options)

    monkeypatch.setattr(topics, "get_watermark_offsets", once_too_early)
    monkeypatch.setattr(reading, "sleep", waited.append)
    assert watermarks(topics, PLACES[0]) == (0, 0)
    assert len(waited) == 1


# -- up to an end -------------------------------------------------------------------------------------------------


def read(topics: TopicsInMemory, **ends: int) -> list[tuple[int, int]]:
    """Partition and offset of what is read from offset 0 up to these ends."""
    until = {place: ends[f"end_{place.partition}"] for place in PLACES}
    starts = [TopicPartition(TOPIC, place.partition, 0) for place in PLACES]
    found = chain.from_iterable(batches(topics, starts, until))
    return [(record.partition(), record.offset()) for record in found]


def test_records_are_read_up_to_the_ends_and_not_beyond_what_came_meanwhile() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, *[MESSAGE] * 20)
    topics.write(TOPIC, 1, *[MESSAGE] * 3)
    found = read(topics, end_0=9, end_1=3)
    assert [offset for shard, offset in found if shard == 0] == list(range(9))
    assert [offset for shard, offset in found if shard == 1] == list(range(3))


def test_markers_at_the_end_are_passed_over() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, MESSAGE, *[None] * 30)
    assert read(topics, end_0=31, end_1=0) == [(0, 0)]


def test_markers_before_an_end_in_the_middle_are_passed_over() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, MESSAGE, *[None] * 5, MESSAGE)
    assert [record.offset() for record in records(topics, PLACES[0], 0, 6)] == [0]


def test_without_an_end_all_there_is_is_read() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 1, *[MESSAGE] * 20)
    found = chain.from_iterable(batches(topics, [TopicPartition(TOPIC, 1, 4)]))
    assert [record.offset() for record in found] == list(range(4, 20))


def test_nothing_is_read_of_an_empty_range() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, *[MESSAGE] * 5)
    assert list(records(topics, PLACES[0], 3, 3)) == [] == topics.read


class Silent(TopicsInMemory):
    """A broker that says nothing, not even that an end is reached."""

    def consume(self, num_messages: int, timeout: float) -> list[object]:
        return []


class Complaining(TopicsInMemory):
    """A broker whose first answer is an error, before it answers as others do."""

    def __init__(self, error: KafkaError, topic: str | None = None) -> None:
        super().__init__({TOPIC: 1})
        self._complaints = [Message(topic=topic, partition=-1, error=error)]

    def poll(self, timeout: float) -> Message | None:
        return self._complaints.pop() if self._complaints else super().poll(timeout)


def test_the_group_that_the_client_names_and_nobody_joins_needs_no_right() -> None:
    topics = Complaining(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    topics.write(TOPIC, 0, MESSAGE)
    assert [record.offset() for record in records(topics, PLACES[0], 0, 1)] == [0]


def test_a_topic_that_may_not_be_read_is_an_error_with_the_right_that_is_missing() -> None:
    topics = Complaining(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), TOPIC)
    with pytest.raises(KafkaException) as refused:
        list(records(topics, PLACES[0], 0, 1))
    assert refused.value.args[1] == Right([READ_RIGHT], [TOPIC])


@pytest.mark.parametrize(("deadline", "says"), [(None, "has sent nothing"), (0.0, "could not be read within")])
def test_a_broker_that_falls_silent_is_not_waited_for_without_end(
    deadline: float | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SILENCE_SECONDS_MAX", 0.0)
    with pytest.raises(ServerUnreachable, match=says):
        list(batches(Silent({TOPIC: 1}), [TopicPartition(TOPIC, 0, 0)], deadline=deadline))


def test_what_comes_later_is_read_for_ever() -> None:
    topics = TopicsInMemory({TOPIC: 2})
    topics.write(TOPIC, 0, *[MESSAGE] * 3)
    news = coming(topics, {PLACES[0]: 3, PLACES[1]: 0})
    assert list(islice(news, 3)) == [[], [], []]
    topics.write(TOPIC, 1, MESSAGE)
    assert [record.partition() for record in next(news)] == [1]


# -- the last record ----------------------------------------------------------------------------------------------


def partition(end: int, *offsets: int, first: int = 0) -> TopicsInMemory:
    """A partition that holds records at these offsets, whose values are their offsets."""
    topics = TopicsInMemory({TOPIC: 1})
    topics.write(TOPIC, 0, *[(b"", b"%d" % offset) if offset in offsets else None for offset in range(end)])
    topics.expire(TOPIC, 0, first)
    return topics


@given(st.sets(st.integers(0, 3_000), max_size=5), st.integers(0, 100), st.integers(0, 300))
def test_the_last_record_is_found_wherever_it_is(offsets: set[int], first: int, behind: int) -> None:
    there = {offset for offset in offsets if offset >= first}
    topics = partition(max(there, default=first) + 1 + behind, *there, first=first)
    assert last_value(topics, PLACES[0]) == (b"%d" % max(there) if there else None)


def test_an_empty_partition_is_not_read() -> None:
    topics = partition(7, first=7)
    assert last_value(topics, PLACES[0]) is None
    assert topics.starts == []


def test_a_record_near_the_end_costs_one_short_window() -> None:
    topics = partition(10_000, 9_999)
    last_value(topics, PLACES[0])
    assert topics.starts == [10_000 - FIRST_WINDOW_OFFSETS]


def test_many_aborted_offsets_cost_a_handful_of_looks_and_none_before_the_start() -> None:
    topics = partition(100_000, first=500)
    assert last_value(topics, PLACES[0]) is None
    assert len(topics.starts) <= 5
    assert min(topics.starts) == topics.starts[-1] == 500


def test_the_last_position_of_a_shard_is_found_by_the_tables_name() -> None:
    topics = TopicsInMemory({POSITIONS: 3})
    topics.write(POSITIONS, 0, (b"0", FIRST.to_json()), (b"0", SECOND.to_json()), None)  # a marker is last
    topics.write(POSITIONS, 2, (b"2", FIRST.to_json()))
    assert [last_position(topics, "people", shard) for shard in range(4)] == [SECOND, None, FIRST, None]
