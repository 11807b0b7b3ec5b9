"""One held shard, without servers: its agent, its thread, what reaches it by its mailbox, and what it lets go of."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from agents.anonymizer import RebuildThrottle
from agents.app import App
from agents.shard_agent import HeldShard, WorkerParts
from streamer.errors import Conflict, Fenced, ServerUnreachable, StreamerError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import Free, Request
from streamer.incremental.shard.requests import FullRebuild
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.kafka.control import News
from streamer.kafka.shard_input import TopicQuestions
from streamer.table.yaml.loading import load_table
from streamer.worker.tenure import GivenAway
from worlds.checkout import PATIENTS
from worlds.faust_loops import alive, close_loops
from worlds.kafka_in_memory import NOT_JSON, AskedKafka, NoKafka, SlowBroker
from worlds.workers import wait_until


class Nobody:
    """Instead of the process that anonymizes: it is never free."""

    def __init__(self) -> None:
        self.throttle = RebuildThrottle(lambda: 0.0)

    def is_ready(self) -> bool:
        return False


class Said:
    """The control topic; failure: why it cannot be read."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.failure: StreamerError | None = None

    def since(self, shard: int, offset: int) -> Future[News]:
        answer: Future[News] = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
        else:
            answer.set_result(News(tuple(self.asked[offset:]), len(self.asked)))
        return answer


def held(kafka: NoKafka, news: Said | None = None, store: MemoryStore | None = None) -> HeldShard:
    outside = cast(Any, kafka)
    store = store or MemoryStore(MemoryServer(), "patients", 0)
    shared = WorkerParts(threading.Lock(), cast(Any, Nobody()), cast(Any, news or Said()))
    return HeldShard(load_table(PATIENTS), 0, store, outside, outside, shared)


@asynccontextmanager
async def started(shard: HeldShard) -> AsyncIterator[HeldShard]:
    """The shard with its agent at work."""
    app = App("a-test", broker="kafka://127.0.0.1:1", loop=asyncio.get_running_loop())
    app.flow_control.resume()
    await shard.start(app)
    try:
        yield shard
    finally:
        shard.tell(GivenAway("the test is over", 0.0))
        shard.close()
        await shard.stop(app)
        close_loops()


def a_patient(offset: int) -> Message:
    row = {"id": f"p{offset}", "age": 40, "zip": 12000, "bmi": 20.5, "sex": "Female", "problem": "flu"}
    return Message(offset, f"p{offset}".encode(), json.dumps({"op": "insert", "row": row}).encode())


async def test_a_shard_is_taken_over_and_served_in_its_thread_and_its_metrics_count_it() -> None:
    threads: list[str] = []
    shard = held(NoKafka(lambda: threads.append(threading.current_thread().name)))
    async with started(shard):
        await shard.take_over()
        assert shard.meta.next == 0
        await shard.step([NOT_JSON])
        await shard.between(idle=True)
    assert threads == ["shard-0_0"]
    metrics = shard.metrics
    assert (shard.meta.next, metrics.take_overs, metrics.done.counts.dead_letters) == (1, 1, 1)
    assert sum(metrics.done.reasons.values()) == sum(metrics.commits_by_seconds) == 1


async def test_a_shard_that_was_lost_meanwhile_shuts_nobody_out() -> None:
    shard = held(NoKafka())
    async with started(shard):
        shard.tell(GivenAway("given back", 0.0))
        with pytest.raises(Fenced, match="given back"):
            await shard.take_over()


async def test_a_worker_without_messages_finds_that_its_shard_is_not_in_redis_any_more() -> None:
    """Before: an emptied Redis stayed empty until a message came, and after a `load` status said that all fits."""
    store = MemoryStore(server := MemoryServer(), "patients", 0)
    shard = held(kafka := NoKafka(), store=store)
    kafka.looked_at = float("-inf")
    async with started(shard):
        await shard.take_over()
        await shard.step([NOT_JSON])
        await shard.between(idle=True)
        MemoryStore(server, "patients", 0).take_over()
        with pytest.raises(Fenced):
            await shard.between(idle=True)


async def test_a_shard_that_is_given_back_lets_go_of_its_table() -> None:
    """Not when somebody collects garbage: tens of megabytes stayed at every take-over, for ever once frozen."""
    tables: list[weakref.ref[Any]] = []
    gc.unfreeze()  # what other tests of this process froze
    old = {id(one) for one in alive(Engine)}
    shard = held(NoKafka())

    gc.disable()
    try:
        async with started(shard):
            await shard.take_over()
            tables.extend(weakref.ref(one) for one in alive(Engine) if id(one) not in old)
        (table,) = tables
        wait_until(lambda: table() is None, 10, lambda: "the table is still there")
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()


async def test_a_shard_that_is_stopped_is_let_go_with_its_clients_and_threads() -> None:
    """Four threads and eight descriptors stayed of every one that a rebalance took."""
    app = App("a-test", broker="kafka://127.0.0.1:1", loop=asyncio.get_running_loop())
    app.flow_control.resume()

    async def lived_through() -> weakref.ref[HeldShard]:
        shard = held(NoKafka())
        await shard.start(app)
        await shard.take_over()
        shard.close()
        await shard.stop(app)
        await asyncio.to_thread(shard.thread.join)
        return weakref.ref(shard)

    await lived_through()  # a context of this loop keeps the first agent
    stopped = await lived_through()
    gc.collect()
    assert stopped() is None


async def test_an_error_reaches_whoever_sent_the_batch_and_the_next_take_over_goes_on() -> None:
    outages = [ServerUnreachable("away")]

    def publish() -> None:
        if outages:
            raise outages.pop()

    shard = held(NoKafka(publish))
    async with started(shard):
        await shard.take_over()
        with pytest.raises(ServerUnreachable, match="away"):
            await shard.step([NOT_JSON])
        with pytest.raises(StreamerError, match="Idle, and nothing leads on from there by Messages"):
            await shard.step([NOT_JSON])
        await shard.take_over()  # publishes what the store has and the output has not
        assert shard.meta.next == 1


async def test_an_error_that_nobody_waited_for_reaches_the_next_who_sends() -> None:
    """Else the shard would go on as if the request had its answer."""
    shard = held(NoKafka(), store=(store := Broken(MemoryServer(), "patients", 0)))
    async with started(shard):
        await shard.take_over()
        await shard.step([a_patient(0)])
        store.breaks = True
        await shard.post(Request(0, 1e12, FullRebuild(0, "a", 1_000).to_json()))
        with pytest.raises(ServerUnreachable, match="away"):
            await shard.between(idle=True)
        store.breaks = False


class Broken(MemoryStore):
    breaks = False

    def commit(self, fence: str, commit_before: int, commit: Any) -> None:
        if self.breaks:
            raise ServerUnreachable("away")
        super().commit(fence, commit_before, commit)


async def test_a_control_topic_that_cannot_be_read_stops_nothing_and_is_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    news = Said()
    news.failure = ServerUnreachable("the control topic does not answer")
    news.asked = [Request(0, 2e9, b"nonsense")]
    shard = held(NoKafka(), news)
    async with started(shard):
        await shard.take_over()
        await shard.step([a_patient(0)])
        while "asked again" not in caplog.text:
            await shard.between(idle=True)
        news.failure = None
        while not shard.meta.rebuilds:
            await shard.between(idle=True)
    assert [one.state for one in shard.meta.rebuilds] == ["refused"]
    assert "the control topic does not answer; asked again" in caplog.text


async def test_an_event_of_a_table_that_was_let_go_of_is_nobodys() -> None:
    shard = held(NoKafka())
    async with started(shard):
        await shard.post(Free())
        await shard.take_over()
        await shard.step([a_patient(0)])
    assert shard.meta.next == 1


async def test_offsets_that_an_operator_named_too_late_are_told(caplog: pytest.LogCaptureFixture) -> None:
    shard = held(kafka := NoKafka())
    async with started(shard):
        kafka.asked_for = frozenset({7})
        await shard.take_over()
    assert "an operator skips these offsets: [7]" in caplog.text


async def test_sizes_and_loss_are_measured_after_every_step() -> None:
    shard = held(NoKafka())
    k = shard.table.k
    async with started(shard):
        assert (shard.facts.sizes, shard.facts.ncp) == ({}, None)
        await shard.take_over()
        assert (shard.facts.sizes, shard.facts.ncp) == ({"rows": 0, "pending": 0, "qi_groups": 0}, None)
        await shard.step([a_patient(offset) for offset in range(k - 1)])
        assert shard.facts.sizes == {"rows": k - 1, "pending": k - 1, "qi_groups": 0}
        await shard.step([a_patient(k - 1)])
        await shard.between(idle=True)
        assert shard.facts.sizes == {"rows": k, "pending": 0, "qi_groups": 1}
        assert shard.facts.ncp is not None
        assert shard.facts.ncp > 0
        assert shard.facts.ncp_fresh is None


# -- what is asked of the topics --------------------------------------------------------------------------------------


async def test_shards_that_commit_at_the_same_time_share_one_question() -> None:
    """The first one's is under way; two others ask meanwhile, and nobody commits before his answer has come."""
    broker = SlowBroker()
    topics = TopicQuestions(broker.topics)
    kafkas = [AskedKafka(topics) for _ in range(3)]
    shards = [held(kafka) for kafka in kafkas]
    async with started(shards[0]), started(shards[1]), started(shards[2]):
        for shard in shards:
            await shard.take_over()
        steps = []
        for shard, kafka in zip(shards, kafkas, strict=True):
            steps.append(asyncio.ensure_future(shard.step([NOT_JSON])))
            assert await asyncio.to_thread(kafka.asked.wait, 10)
            if len(steps) == 1:
                assert await asyncio.to_thread(broker.begun.acquire, True, 10)
        assert not any(step.done() or kafka.has_published for step, kafka in zip(steps, kafkas, strict=True))
        broker.answers(3)
        await asyncio.gather(*steps)
    assert all(kafka.has_published for kafka in kafkas)
    assert broker.put == 2


async def test_what_was_read_from_recreated_topics_is_neither_committed_nor_published() -> None:
    broker = SlowBroker()
    broker.id = "recreated"
    broker.answers()
    shard = held(kafka := AskedKafka(TopicQuestions(broker.topics)))
    async with started(shard):
        await shard.take_over()
        with pytest.raises(Conflict, match="recreated"):
            await shard.step([NOT_JSON])
    assert shard.meta.next == 0
    assert not kafka.has_published
