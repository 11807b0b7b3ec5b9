"""Refused messages that are tried again between batches: in pieces, answered once, and nothing after them before."""

from __future__ import annotations

import asyncio

import pytest

from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import Messages
from streamer.incremental.shard.requests import Retry
from worlds.rebuilt_shards import CLOCK, NOW, RebuiltShard


@pytest.fixture(autouse=True)
def now() -> None:
    CLOCK.seconds = NOW


def test_a_request_is_answered_once_however_long_its_input_is() -> None:
    world = RebuiltShard()
    messages = [world.one_more() for _ in range(30)]
    world.kafka.read, world.kafka.piece_max = messages, 10

    async def story() -> None:
        await world.take_over()
        world.drive(Messages([Message(4, b"p5", b"{") if one.offset == 4 else one for one in messages]))
        for id_ in ("first", "second"):
            world.asks(Retry(0, id_, NOW, (4,)), NOW)
        await world.go_on(10)

    asyncio.run(story())
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

    async def story() -> None:
        await world.take_over()
        world.drive(Messages(input_[:10]))
        world.asks(Retry(0, "first", NOW, (4,)), NOW)
        await world.go_on(1)
        for message in input_[10:]:
            world.drive(Messages([message]))
            await world.go_on(1)
        assert (world.shard.meta.next, world.shard.meta.control_next, world.shard.meta.retried) == (30, 0, ())
        await world.go_on(10)

    asyncio.run(story())
    assert world.shard.meta.retried == ((30, 4),)
    assert len(world.rows()) == 30
