"""The Faust agent: takes batches from the channel and has each applied and published.

The rules of this file
----------------------
* A batch is the unit of work; whoever sent it waits for `done` before the next one of that shard. So one shard's
  batches stay in order although several actors share the channel.
* No exception leaves the agent: Faust would go on with the next batch as if this one were done. It travels in `done`.
* A batch of a shard that was lost meanwhile is not begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from faust.types import StreamT

from agents.shard import HeldShard
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.steps import StepReport

SHARDS_AT_ONCE = 16
"""Actors of the agent: so many shards of one worker wait for Redis and Kafka at the same time."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one shard, in offset order, and the future that tells what became of them.

    through: the offset below which the input holds no other messages than those read up to now.
    """

    shard: HeldShard
    messages: Sequence[Message] = field(repr=False)
    through: int
    done: asyncio.Future[StepReport] = field(repr=False)


async def publish(batches: StreamT[Batch]) -> None:
    """Has every batch applied and published."""
    async for batch in batches:
        await _step(batch)


async def _step(batch: Batch) -> None:
    if batch.shard.lost or batch.done.done():
        batch.done.cancel()
        return
    try:
        report = await batch.shard.step(batch.messages, batch.through)
    except asyncio.CancelledError:
        batch.done.cancel()
        raise
    except Exception as error:
        if not batch.done.done():
            batch.done.set_exception(error)
    else:
        if not batch.done.done():
            batch.done.set_result(report)
