"""The agent: what became of a batch reaches whoever sent it, and the agent goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from agents.publish import Batch, publish
from streamer.errors import ServerUnreachable
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.steps import StepReport

MESSAGES = [Message(0, None, b"any")]


class FakeShard:
    """A held shard whose step takes a moment, or fails."""

    def __init__(self, lost: str = "", error: Exception | None = None) -> None:
        self.lost = lost
        self.error = error
        self.stepped = 0

    async def step(self, messages: list[object], through: int) -> StepReport:
        self.stepped += 1
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        return StepReport(Counts(applied=len(messages)))


async def through_the_agent(*shards: FakeShard) -> list[asyncio.Future[StepReport]]:
    async def stream(batches: list[Batch]) -> AsyncIterator[Batch]:
        for batch in batches:
            yield batch

    loop = asyncio.get_running_loop()
    batches = [Batch(cast(Any, shard), MESSAGES, 1, loop.create_future()) for shard in shards]
    await publish(cast(Any, stream(batches)))
    return [batch.done for batch in batches]


def test_an_error_of_one_shard_travels_to_its_sender_and_the_agent_goes_on() -> None:
    bad, good = asyncio.run(through_the_agent(FakeShard(error=ServerUnreachable("away")), FakeShard()))
    assert isinstance(bad.exception(), ServerUnreachable)
    assert good.result().counts.applied == 1


def test_a_batch_of_a_lost_shard_is_not_begun() -> None:
    lost = FakeShard(lost="given back")
    (done,) = asyncio.run(through_the_agent(lost))
    assert done.cancelled()
    assert lost.stepped == 0
