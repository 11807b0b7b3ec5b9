"""What waits of a partition, and how long: batches by what came meanwhile, or by a table's limits of time and size."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from agents.input_reader import BATCH_BYTES_MAX, Arrivals
from streamer.incremental.shard.input import Message
from streamer.table.schema import Limits


def messages(first: int, n: int, value: bytes | None = b"x") -> list[Message]:
    return [Message(offset, b"7", value) for offset in range(first, first + n)]


def taken(arrivals: Arrivals, seconds_max: float = 0.0) -> list[int]:
    return [one.offset for one in asyncio.run(arrivals.take(seconds_max)).messages]


def test_a_message_waits_for_no_other_by_default() -> None:
    arrivals = Arrivals(Limits())
    arrivals.add(messages(0, 1), 1)
    assert taken(arrivals, 60) == [0]


async def test_a_message_waits_for_others_as_long_as_the_table_says() -> None:
    arrivals, began = Arrivals(Limits(batch_ms_max=100)), monotonic()
    arrivals.add(messages(0, 1), 1)
    asyncio.get_running_loop().call_later(0.02, arrivals.add, messages(1, 1), 2)
    assert len((await arrivals.take(60)).messages) == 2
    assert monotonic() - began >= 0.1


def test_a_full_batch_waits_for_nothing() -> None:
    arrivals = Arrivals(Limits(batch_ms_max=60_000, batch_events_max=2))
    arrivals.add(messages(0, 3), 3)
    assert taken(arrivals) == [0, 1]


def test_a_batch_ends_where_its_bytes_are_enough() -> None:
    arrivals = Arrivals(Limits(batch_ms_max=60_000))
    arrivals.add([*messages(0, 1, b"x" * BATCH_BYTES_MAX), *messages(1, 1, None)], 2)
    assert taken(arrivals) == [0]


def test_a_partition_is_full_by_the_number_of_messages_or_by_their_bytes() -> None:
    by_number, by_bytes = Arrivals(Limits(batch_events_max=3)), Arrivals(Limits())
    by_number.add(messages(0, 5), 5)
    by_bytes.add(messages(0, 1, b"x" * (2 * BATCH_BYTES_MAX - 1)), 1)
    assert [by_number.is_full, by_bytes.is_full] == [False, False]
    by_number.add(messages(5, 1), 6)
    by_bytes.add(messages(1, 1), 2)
    assert [by_number.is_full, by_bytes.is_full] == [True, True]
    assert taken(by_number) == [0, 1, 2]
    assert not by_number.is_full


async def test_whoever_waits_for_room_goes_on_once_there_is_some() -> None:
    arrivals = Arrivals(Limits(batch_events_max=1))
    arrivals.add(messages(0, 4), 4)
    waiting = asyncio.ensure_future(arrivals.until_room())
    for _ in range(3):
        assert not waiting.done()
        await arrivals.take(0)
        await asyncio.sleep(0)
    await asyncio.wait_for(waiting, 5)


async def test_what_has_failed_is_raised_to_whoever_waits() -> None:
    arrivals = Arrivals(Limits())
    asyncio.get_running_loop().call_later(0.01, arrivals.fail, KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        await arrivals.take(60)
