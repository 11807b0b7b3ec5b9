"""How the service that feeds the agent ends: in time, whatever Kafka does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from agents.ingest import Ingest
from agents.worker_settings import WorkerSettings
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS

PLACE = TopicPartition("patients.changes", 0)


class SilentConsumer:
    """A consumer whose Kafka does not answer."""

    def __init__(self) -> None:
        self.paused: list[TopicPartition] = []

    def seek(self, place: TopicPartition, offset: int) -> None: ...

    def pause(self, place: TopicPartition) -> None:
        self.paused.append(place)

    async def stop(self) -> None:
        await asyncio.sleep(60)


@pytest.fixture
def ingest(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ingest]:
    """The service as it is between start and end, in a loop of its own; nothing listens where its servers should be."""
    monkeypatch.setattr("agents.input_reader.LEAVE_SECONDS_MAX", 0.05)
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        ingest = Ingest(
            WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0"), app=cast(Any, None)
        )
        ingest.reader.consumer = SilentConsumer()
        yield ingest


def test_a_kafka_that_does_not_answer_does_not_hold_up_the_end(ingest: Ingest) -> None:
    asyncio.get_event_loop().run_until_complete(asyncio.wait_for(ingest.on_stop(), 5))


def test_what_is_assigned_on_the_way_out_is_not_begun(ingest: Ingest) -> None:
    ingest._stopped.set()
    ingest.on_partitions_assigned([PLACE])
    assert ingest.reader.consumer.paused == []
    assert not ingest.busy


def test_a_worker_without_a_shard_says_so_once(ingest: Ingest, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        ingest._tell_no_shard()
    assert [line.getMessage().split(":")[0] for line in caplog.records] == ["no shard is assigned to this worker"]


def test_a_worker_whose_shards_are_given_out_anew_has_not_got_them_yet(ingest: Ingest) -> None:
    loop = asyncio.get_event_loop()
    ingest.on_partitions_assigned([])
    assert ingest.joined
    loop.run_until_complete(ingest.on_partitions_revoked([]))
    assert not ingest.joined
