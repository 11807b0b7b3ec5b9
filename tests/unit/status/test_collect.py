"""What dead letters come to as they are read back, and how many there were lately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import fakeredis
import msgspec
import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from streamer.errors import UsageError
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.topics import worker_group
from streamer.kafka import reading
from streamer.status import collect as module
from streamer.status.collect import (
    LATEST_OFFSETS,
    TRUNCATION,
    Letter,
    Tallies,
    latest_standing,
    look,
    row_of,
    standing_refused,
)
from streamer.status.facts import TableFacts, Waiting, Workers
from worlds.kafka_in_memory import TopicsInMemory
from worlds.small_tables import YEARS, table
from worlds.store_contract import commit_number, live, record


def letter(offset: int, kind: str = "refused", reason: str = "wrong-type", shard: int = 0) -> Letter:
    return Letter(kind, reason, "what is wrong", shard, offset, "age")


def test_letters_are_counted_by_kind_reason_and_column_with_their_times_and_shards() -> None:
    tallies = Tallies()
    for one, at in ((letter(5, shard=3), 2_000), (letter(9), 1_000), (letter(2, reason="off-the-step"), 5_000)):
        tallies.add(one, at)
    first, second = tallies.most_common()
    assert (tallies.total, first.letters, first.shards, second.reason) == (3, 2, [0, 3], "off-the-step")
    assert (first.first, first.last) == ("1970-01-01T00:00:01+00:00", "1970-01-01T00:00:02+00:00")
    assert first.example == {"partition": 3, "offset": 5}


def test_a_line_of_a_file_has_the_time_and_the_letter() -> None:
    assert row_of(letter(5), 0) == {
        "at": "1970-01-01T00:00:00+00:00",
        **{"kind": "refused", "reason": "wrong-type", "detail": "what is wrong", "partition": 0, "offset": 5},
        **{"column": "age", "rows": None},
    }


def test_a_letter_stands_until_its_message_was_applied_or_superseded() -> None:
    letters = [letter(1), letter(2), letter(3), letter(4, kind="partial")]
    letters += [letter(1, kind="retried"), letter(2, kind="superseded"), letter(3, "refused-again", "key-exists")]
    assert {offset: one.reason for offset, one in standing_refused(letters).items()} == {3: "key-exists"}


@pytest.mark.parametrize("n_before", [0, 100, 5_000])
def test_the_latest_letters_are_counted_by_their_offsets_however_far_back_they_lie(n_before: int) -> None:
    reached = 50_000
    written: Sequence[Letter] = [
        *(letter(offset) for offset in range(n_before)),
        *(letter(offset) for offset in range(reached - LATEST_OFFSETS - 1, reached, 5)),
        letter(3, kind="refused-again"),
        letter(reached - 1, kind="retried"),
    ]
    first = 7
    since, end = reached - LATEST_OFFSETS, first + len(written)
    read = latest_standing(since, first, end, lambda start: written[start - first :])
    assert sum(one.offset >= since for one in read) == LATEST_OFFSETS // 5 - 1  # 40,004, 40,009 ... 49,994


# What `streamer status` sees: every shard in Redis and in Kafka, its worker, and how much it may be trusted.

CHANGES, LIVE, POSITIONS = "people.changes", "people.live", "people.positions"
SHARDS = 2
NAMES = (CHANGES, LIVE, POSITIONS, "people.dead-letters", "people.control")
AT_ONE = Position(1, 10, 1, 2, 0, 7)
MESSAGE = (b"1", b"{}")


def member(name: str, *shards: int, topic: str = CHANGES) -> SimpleNamespace:
    """A worker in Kafka's consumer group."""
    assignment = SimpleNamespace(topic_partitions=[TopicPartition(topic, shard) for shard in shards])
    return SimpleNamespace(client_id=name, assignment=assignment if shards else None)


def failed(name: str) -> KafkaException:
    return KafkaException(KafkaError(getattr(KafkaError, name)))


@dataclass
class TableInMemory:
    """A table's topics, its workers' consumer group, and a Redis."""

    topics: TopicsInMemory = field(default_factory=lambda: TopicsInMemory(dict.fromkeys(NAMES, SHARDS)))
    redis: Any = field(default_factory=fakeredis.FakeRedis)
    members: Sequence[SimpleNamespace] = ()
    state: str = "STABLE"
    answers: list[Exception] = field(default_factory=list)
    """What the broker answers to the questions for the group, before it tells it."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    group_asked: str = ""

    @contextmanager
    def open_consumer(self, bootstrap: str) -> Iterator[TopicsInMemory]:
        yield self.topics

    def list_offsets(self, *asked: Any, **options: Any) -> dict[TopicPartition, Future[Any]]:
        return self.topics.list_offsets(*asked, **options)

    @contextmanager
    def open_admin(self, bootstrap: str) -> Iterator[TableInMemory]:
        yield self

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        (self.group_asked,) = names
        answer: Future[Any] = Future()
        if self.answers:
            answer.set_exception(self.answers.pop(0))
        else:
            answer.set_result(SimpleNamespace(members=self.members, state=ConsumerGroupState[self.state]))
        return {self.group_asked: answer}

    def commit(self, shard: int = 0) -> None:
        """One commit of a shard that holds a row, up to offset 10."""
        store = RedisStore(self.redis, "people", shard)
        changes = {"records": {"ann": record()}, "outbox": live("a", "b")}
        store.commit(store.take_over(), 0, commit_number(1, **changes))

    def look(self) -> TableFacts:
        return look(table(YEARS), "broker:9092", "redis://nowhere:6379/0")


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> TableInMemory:
    found = TableInMemory()
    monkeypatch.setattr(module, "open_consumer", found.open_consumer)
    monkeypatch.setattr(module, "open_admin", found.open_admin)
    monkeypatch.setattr(module, "connect_now", lambda url: found.redis)
    monkeypatch.setattr(module, "topic_ids", lambda admin, table_name: found.topic_ids)
    monkeypatch.setattr(module, "GROUP_AGAIN_SECONDS", 0.0)
    return found


def test_a_table_that_nobody_worked_on_has_its_shards_and_nothing_in_them(people: TableInMemory) -> None:
    facts = people.look()
    assert [shard.number for shard in facts.shards] == [0, 1]
    for shard in facts.shards:
        assert (shard.redis.before, shard.redis.meta, shard.kafka.position, shard.kafka.waiting) == (None,) * 4
        assert (shard.worker, shard.kafka.input_state.live_begun) == ("", False)
    assert facts.shards_in_redis == []
    assert facts.topics == dict.fromkeys(NAMES, SHARDS)


def test_a_table_without_input_is_a_usage_error(people: TableInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SEEN_SECONDS_MAX", 0.0)
    people.topics = TopicsInMemory({})
    with pytest.raises(UsageError, match="streamer topics create"):
        people.look()


def test_an_output_that_is_missing_counts_no_partitions(people: TableInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SEEN_SECONDS_MAX", 0.0)
    people.topics = TopicsInMemory({CHANGES: SHARDS, POSITIONS: 3})
    assert people.look().topics == {**dict.fromkeys(NAMES, 0), CHANGES: SHARDS, POSITIONS: 3}


def test_what_a_shard_holds_in_redis_is_counted_and_not_loaded(people: TableInMemory) -> None:
    people.commit(1)
    facts = people.look()
    one = facts.shards[1].redis
    assert one.meta is not None
    assert (one.meta.commit, one.meta.next, one.before) == (1, 10, one.meta)
    assert (one.sizes.records, one.sizes.outbox) == (1, 1)
    assert (facts.shards[0].redis.meta, facts.shards_in_redis) == (None, [1])


def test_a_shard_that_commits_while_kafka_is_asked_is_seen_twice(
    people: TableInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: Iterator[Meta] = (Meta(commit=number, next=10) for number in (1, 1, 2, 2))
    monkeypatch.setattr(RedisLookups, "meta", lambda store: next(readings))
    assert [(shard.redis.before, shard.redis.meta) for shard in people.look().shards] == [
        (Meta(1, 10), Meta(2, 10)),
        (Meta(1, 10), Meta(2, 10)),
    ]


@pytest.mark.parametrize(
    ("then", "letters_from", "standing"),
    [(None, 0, (7,)), (None, 8, ()), ("refused-again", 0, ()), ("superseded", 0, ())],
    ids=["refused", "before a reload", "retried", "superseded"],
)
def test_a_truncation_stands_until_it_was_retried_or_the_table_was_reloaded(
    people: TableInMemory, monkeypatch: pytest.MonkeyPatch, then: str | None, letters_from: int, standing: object
) -> None:
    meta = Meta(1, 10, shards=SHARDS, counts=Counts(applied=9, dead_letters=1), letters_from=letters_from)
    monkeypatch.setattr(RedisLookups, "meta", lambda store: meta)
    letters = [letter(7, reason=TRUNCATION), *([letter(7, then, "statement")] if then else [])]
    people.topics.write("people.dead-letters", 0, *((b"", msgspec.json.encode(one)) for one in letters))
    assert people.look().shards[0].kafka.truncations == standing


@pytest.mark.parametrize(
    ("clock", "acknowledged_below", "expected"),
    [
        (200, 0, (20, 20, 200)),
        (1_000, 0, (20, 10, 10)),
        (5_000, 0, (20, 0, 0)),
        (5_000, 185, (15, 0, 0)),
        (1_000, 195, (5, 5, 5)),
        (1_000, 200, (0, 0, 0)),
    ],
    ids=["at once", "after some minutes", "hours later", "some acknowledged", "and at once", "all of them"],
)
def test_refused_messages_count_now_and_among_the_latest_ones_until_they_are_acknowledged(
    people: TableInMemory,
    monkeypatch: pytest.MonkeyPatch,
    clock: int,
    acknowledged_below: int,
    expected: tuple[int, int, int],
) -> None:
    """20 of 200 messages, the last ones; a record of a topic is written each second."""
    meta = Meta(1, 200, counts=Counts(applied=180, dead_letters=20))
    monkeypatch.setattr(RedisLookups, "meta", lambda store: meta)
    monkeypatch.setattr(module, "time", lambda: float(clock))
    people.topics.write(CHANGES, 0, *[MESSAGE] * 200)
    letters = [letter(offset) for offset in range(180, 200)]
    if acknowledged_below:
        letters.append(letter(acknowledged_below, "acknowledged", "acknowledged"))
    nothing = [None] * 380
    written = [(b"", msgspec.json.encode(one)) for one in letters]
    people.topics.write("people.dead-letters", 0, *nothing, *written[:10], *nothing, *written[10:])
    kafka = people.look().shards[0].kafka
    assert (kafka.refused_lately, kafka.refused_now, kafka.now) == expected
    assert kafka.lately == 200


def test_a_truncation_is_never_acknowledged_as_its_rows_are_still_published() -> None:
    letters = [letter(1), letter(2, reason=TRUNCATION), letter(3), letter(3, "acknowledged", "acknowledged")]
    assert list(standing_refused(letters)) == [2, 3]


def test_the_first_message_that_waits_is_the_one_behind_the_last_commit(people: TableInMemory) -> None:
    people.commit()
    people.topics.write(CHANGES, 0, *[MESSAGE] * 10, None, MESSAGE, MESSAGE)
    kafka = people.look().shards[0].kafka
    assert kafka.waiting == Waiting(offset=11, since=11.0), "offset 10 holds the marker of a transaction"
    assert (kafka.input_state.earliest, kafka.input_state.end) == (0, 13)


def test_nothing_waits_where_only_markers_are_left(people: TableInMemory) -> None:
    people.commit()
    people.topics.write(CHANGES, 0, *[MESSAGE] * 10, None, None)
    assert people.look().shards[0].kafka.waiting is None


def test_where_the_input_has_expired_the_first_message_left_is_the_one_that_waits(people: TableInMemory) -> None:
    people.topics.write(CHANGES, 0, *[MESSAGE] * 5)
    people.topics.expire(CHANGES, 0, 3)
    assert people.look().shards[0].kafka.waiting == Waiting(3, 3.0)


def test_the_position_is_the_last_one_however_many_markers_follow_it(people: TableInMemory) -> None:
    later = Position(2, 20, 2, 3, 0, 8)
    people.topics.write(POSITIONS, 1, (b"1", AT_ONE.to_json()), (b"1", later.to_json()), *[None] * 50)
    assert [shard.kafka.position for shard in people.look().shards] == [None, later]


def test_every_shard_is_compared_with_the_ids_that_the_topics_have_now(people: TableInMemory) -> None:
    people.topic_ids = {"changes": "first", "live": "second"}
    assert [shard.kafka.input_state.topic_ids for shard in people.look().shards] == [people.topic_ids] * SHARDS


def test_an_output_that_readers_see_rows_in_has_begun(people: TableInMemory) -> None:
    people.topics.write(LIVE, 1, MESSAGE)
    assert [shard.kafka.input_state.live_begun for shard in people.look().shards] == [False, True]


def test_every_shard_has_the_worker_that_kafka_gave_it_to(people: TableInMemory) -> None:
    people.members = [member("first:1", 1), member("second:2", 0, topic="other.changes"), member("third:3")]
    facts = people.look()
    assert [shard.worker for shard in facts.shards] == ["", "first:1"]
    assert facts.workers == Workers({1: "first:1"})
    assert people.group_asked == worker_group("people")


@pytest.mark.parametrize(("state", "settled"), [("STABLE", True), ("EMPTY", True), ("PREPARING_REBALANCING", False)])
def test_while_shards_change_hands_it_is_not_known_who_has_them(
    people: TableInMemory, state: str, settled: bool
) -> None:
    people.state = state
    assert people.look().workers.settled is settled


@pytest.mark.parametrize("answer", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_broker_that_looks_after_no_group_yet_is_asked_again(people: TableInMemory, answer: str) -> None:
    people.members = [member("first:1", 0, 1)]
    people.answers = [failed(answer)] * 3
    assert people.look().workers == Workers({0: "first:1", 1: "first:1"})


@pytest.mark.parametrize("error", [failed("GROUP_AUTHORIZATION_FAILED"), failed("_UNSUPPORTED_FEATURE")])
def test_a_broker_that_does_not_tell_the_workers_is_not_taken_for_one_that_has_none(
    people: TableInMemory, error: Exception
) -> None:
    people.answers = [error]
    assert not people.look().workers.told


def test_a_broker_that_never_looks_after_the_group_is_not_waited_for_without_end(
    people: TableInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_SECONDS_MAX", 0.0)
    people.answers = [failed("COORDINATOR_NOT_AVAILABLE")] * 99_999
    assert not people.look().workers.told
