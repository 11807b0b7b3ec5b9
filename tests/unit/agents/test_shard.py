"""One held shard, without servers: its thread, its limit of time, and what it lets go of."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from agents.shard import HeldShard
from streamer.errors import Fenced
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.no_kafka import NOT_JSON, NoKafka


def held(
    wait: Callable[[], None] = lambda: None, turn: threading.Lock | None = None, kafka: NoKafka | None = None
) -> HeldShard:
    outside = cast(Any, kafka or NoKafka(wait))
    store = MemoryStore(MemoryServer(), "patients", 0)
    return HeldShard(load_table(PATIENTS), 0, store, outside, outside, outside, turn or threading.Lock())


async def stepped(shard: HeldShard) -> StepReport:
    await shard.take_over()
    return await shard.step([NOT_JSON])


def test_a_held_shard_is_taken_over_and_stepped_in_its_thread() -> None:
    threads: list[str] = []
    report = asyncio.run(stepped(held(lambda: threads.append(threading.current_thread().name))))
    assert (report.counts.messages, report.counts.dead_letters) == (1, 1)
    assert threads == ["shard-0_0"]


def test_what_a_shard_does_stands_in_its_diary() -> None:
    shard = held()
    asyncio.run(stepped(shard))
    assert (shard.diary.take_overs, shard.diary.done.counts.dead_letters) == (1, 1)
    assert sum(shard.diary.done.reasons.values()) == sum(shard.diary.commit_seconds.counts) == 1


def test_a_shard_that_was_lost_meanwhile_shuts_nobody_out() -> None:
    async def lose_then_take_over() -> None:
        shard = held()
        shard.lose("given back")
        with pytest.raises(Fenced, match="given back"):
            await shard.take_over()

    asyncio.run(lose_then_take_over())


def test_a_shard_that_is_given_back_lets_go_of_its_table() -> None:
    """Not when somebody collects garbage: tens of megabytes stayed at every take-over, for ever once frozen."""

    async def give_back() -> tuple[bool, int]:
        shard = held()
        await shard.take_over()
        table = weakref.ref(shard._work.publisher.engine)
        shard.close()
        shard._thread.join()
        return table() is None, gc.get_freeze_count()

    gc.disable()
    try:
        assert asyncio.run(give_back()) == (True, 0)
    finally:
        gc.enable()


def test_the_fresh_loss_is_unknown_where_nothing_tells_it() -> None:
    shard = held()
    shard.drifted(1.5)
    assert shard.ncp_fresh is None
    shard._work.ncp = 0.3
    shard.drifted(1.5)
    assert shard.ncp_fresh == pytest.approx(0.2)
    shard.drifted(0.0)
    assert shard.ncp_fresh is None
