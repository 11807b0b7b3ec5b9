"""Refused messages that are tried again between batches: in pieces, answered once, and nothing after them before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.events.changes import Change, Insert
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import Messages
from streamer.incremental.shard.requests import Retry
from streamer.incremental.shard.retrial import Judged
from worlds.rebuilt_shards import CLOCK, NOW, Kafka, RebuiltShard
from worlds.shards import Driven, Shard, insert
from worlds.small_tables import CITIES, CITY, YEARS, table


@pytest.fixture(autouse=True)
def now() -> None:
    CLOCK.seconds = NOW


def test_a_request_is_answered_once_however_long_its_input_is() -> None:
    world = RebuiltShard()
    messages = [world.one_more() for _ in range(30)]
    world.kafka.read, world.kafka.piece_max = messages, 10

    world.take_over()
    world.drive(Messages([Message(4, b"p5", b"{") if one.offset == 4 else one for one in messages]))
    for id_ in ("first", "second"):
        world.asks(Retry(0, id_, NOW, (4,)), NOW)
    world.go_on(10)
    meta = world.shard.meta
    assert (meta.retried, meta.counts.applied, meta.counts.dead_letters) == (((30, 4),), 30, 0)
    assert meta.control_next == 2
    assert len(world.rows()) == 30


def test_changes_go_on_while_the_input_is_read_once_more() -> None:
    """What comes during the reading is read, too: it may be about the same row."""
    world = RebuiltShard()
    messages = [world.one_more() for _ in range(30)]
    input_ = [Message(one.offset, one.key, b"{") if one.offset == 4 else one for one in messages]
    world.kafka.read, world.kafka.piece_max = messages, 1
    world.take_over()
    world.drive(Messages(input_[:10]))
    world.asks(Retry(0, "first", NOW, (4,)), NOW)
    world.go_on(1)
    for message in input_[10:]:
        world.drive(Messages([message]))
        world.go_on(1)
    assert (world.shard.meta.next, world.shard.meta.control_next, world.shard.meta.retried) == (30, 0, ())
    world.go_on(10)
    assert world.shard.meta.retried == ((30, 4),)
    assert len(world.rows()) == 30


def test_a_message_that_breaks_the_engine_stays_refused_and_the_others_are_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, kafka, apply = RebuiltShard(), Kafka(), Engine.apply
    messages = [world.one_more() for _ in range(8)]

    def fragile(engine: Engine, change: Change) -> Outcome:
        outcome = apply(engine, change)
        if isinstance(change, Insert) and change.source_key == "p3":
            raise KeyError(change.source_key)
        return outcome

    monkeypatch.setattr(Engine, "apply", fragile)
    publisher = Driven(world.table, 0, world.store, kafka)
    publisher.take_over(kafka, skips=[1, 2, 3])
    publisher.step(messages)
    publisher.retry([Judged(one.offset, one, None) for one in messages[1:4]], heard=5)
    meta = publisher.meta
    assert (meta.retried, meta.control_next) == (((8, 1), (8, 3)), 5)
    assert (meta.counts.applied, meta.counts.dead_letters) == (7, 1)
    assert sorted(key for key, _ in publisher.engine.index_table()) == ["p1", "p2", "p4", "p5", "p6", "p7", "p8"]


def test_categories_that_are_not_listed_are_counted_once_and_only_where_a_message_was_applied() -> None:
    people = table(YEARS, replace(CITY, other_code=CITIES.code_of["d1"]))
    shard = Shard(people)
    publisher = shard.publisher()
    publisher.take_over(shard, skips=[2])
    messages = [insert(offset, city=city) for offset, city in enumerate(["a1", "nowhere", "nowhere", "elsewhere"])]
    refused = Message(4, None, messages[1].value)  # its key is there
    report = publisher.step([*messages, refused])
    assert (report.counts.dead_letters, report.counts.unlisted) == (2, {"city": 2})
    publisher.retry([Judged(2, messages[2], None)], heard=1)
    assert publisher.meta.counts.unlisted == {"city": 3}
    stored = shard.publisher()
    stored.take_over(shard)
    assert stored.meta.counts == publisher.meta.counts
