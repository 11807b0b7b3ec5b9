"""Refused messages that are tried again between batches: in pieces, answered once, and nothing behind them before."""

from __future__ import annotations

import asyncio
import threading
from time import time
from typing import Any, cast

import pytest

from agents import retries
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.requests import Retry
from worlds.rebuilt_shards import RebuiltShard


@pytest.mark.parametrize("waited_for_max", [0, 5_000])
def test_a_request_is_answered_once_however_long_its_input_is(
    waited_for_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "WAITED_FOR_MAX", waited_for_max)
    world, pieces = RebuiltShard(), []
    messages = [world._one() for _ in range(30)]
    wrong = Message(4, b"p5", b"{")

    def read_once_more(start: int, end: int) -> tuple[list[Message], int]:
        pieces.append(start)
        through = min(end, start + 10)
        return messages[start:through], through

    cast(Any, world.kafka).read_once_more = read_once_more

    async def story() -> None:
        await world.take_over()
        await world.shard.step([wrong if one.offset == 4 else one for one in messages])
        for id_ in ("first", "second"):
            now = int(time())
            world.asks(Retry(0, id_, now, (4,)), now)
        while world.shard.meta.control_next < 2:
            await world.go_on(1)
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(story(), 60))
    meta = world.shard.meta
    assert (meta.retried, meta.counts.applied, meta.counts.dead_letters) == (((30, 4),), 30, 0)
    assert pieces == [4, 14, 24]
    assert len(world.rows()) == 30


def test_changes_go_on_while_the_input_is_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes meanwhile is read, too: it may be about the same row."""
    monkeypatch.setattr(retries, "WAITED_FOR_MAX", 0)
    world, goes_on = RebuiltShard(), threading.Event()
    messages = [world._one() for _ in range(30)]
    input_ = [Message(one.offset, one.key, b"{") if one.offset == 4 else one for one in messages]

    def read_once_more(start: int, end: int) -> tuple[list[Message], int]:
        assert goes_on.wait(60)
        return messages[start:end], end

    cast(Any, world.kafka).read_once_more = read_once_more

    async def story() -> None:
        await world.take_over()
        await world.shard.step(input_[:10])
        now = int(time())
        world.asks(Retry(0, "first", now, (4,)), now)
        await world.go_on(5)
        for message in input_[10:]:
            await world.shard.step([message])
            await world.go_on(1)
        assert (world.shard.next, world.shard.meta.control_next, world.shard.meta.retried) == (30, 0, ())
        goes_on.set()
        while not world.shard.meta.control_next:
            await world.go_on(1)
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert world.shard.meta.retried == ((30, 4),)
    assert len(world.rows()) == 30
