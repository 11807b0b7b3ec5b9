"""One held shard, without servers: its thread, its limit of time, and what it lets go of."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from agents.shard import HeldShard
from agents.topic_questions import TopicQuestions, Topics
from streamer.errors import Conflict, Fenced
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.slow_broker import SlowBroker


class NoKafka:
    """An empty input, and an outlet that takes everything; `wait` is called at every publish."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self.asked_for: frozenset[int] = frozenset()

    def state(self) -> InputState:
        return InputState({}, 1, 0, 1000)

    def ask(self) -> None: ...

    def check(self, *kinds: str) -> None: ...

    def placed(self) -> list[Placed]:
        return []

    def skips(self, topic_id: str) -> frozenset[int]:
        return self.asked_for

    def fence(self) -> None: ...

    def position(self) -> None: ...

    def publish(self, records: object, position: object) -> None:
        self._wait()


def held(
    wait: Callable[[], None] = lambda: None, turn: threading.Lock | None = None, kafka: NoKafka | None = None
) -> HeldShard:
    outside = cast(Any, kafka or NoKafka(wait))
    store = MemoryStore(MemoryServer(), "patients", 0)
    return HeldShard(load_table(PATIENTS), 0, store, outside, outside, outside, turn or threading.Lock())


class AskedKafka(NoKafka):
    """Its topics are asked for together with those of other shards; some are made anew meanwhile."""

    def __init__(self, topics: TopicQuestions) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.published = False
        self._topics = topics
        self._answer: Future[Topics] = Future()

    def ask(self) -> None:
        self._answer = self._topics.ask()
        self.asked.set()

    def check(self, *kinds: str) -> None:
        assert not self.published
        if self._answer.result(10)["changes"].id != "first":
            raise Conflict(f"made anew: {kinds}")

    def publish(self, records: object, position: object) -> None:
        self.published = True


MESSAGES = [Message(0, None, b"not JSON")]


async def stepped(shard: HeldShard) -> StepReport:
    await shard.take_over()
    return await shard.step(MESSAGES)


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


async def taken_over(kafka: NoKafka) -> HeldShard:
    shard = held(kafka=kafka)
    await shard.take_over()
    return shard


def test_shards_that_commit_at_the_same_time_share_one_question() -> None:
    """The first one's is under way; two others ask meanwhile, and nobody commits before his answer has come."""

    async def step_three() -> list[StepReport]:
        steps = []
        for kafka in kafkas:
            shard = await taken_over(kafka)
            steps.append(asyncio.ensure_future(shard.step(MESSAGES)))
            assert await asyncio.to_thread(kafka.asked.wait, 10)
            if len(steps) == 1:
                assert await asyncio.to_thread(broker.begun.acquire, True, 10)
        assert not any(step.done() or kafka.published for step, kafka in zip(steps, kafkas, strict=True))
        broker.answers(3)
        return await asyncio.gather(*steps)

    broker = SlowBroker()
    topics = TopicQuestions(broker.topics)
    kafkas = [AskedKafka(topics) for _ in range(3)]
    reports = asyncio.run(step_three())
    assert [report.commits for report in reports] == [1, 1, 1]
    assert all(kafka.published for kafka in kafkas)
    assert broker.put == 2


def test_what_was_read_from_topics_made_anew_is_neither_committed_nor_published() -> None:
    async def step() -> int:
        shard = await taken_over(kafka)
        with pytest.raises(Conflict, match=r"changes.*live"):
            await shard.step(MESSAGES)
        return shard.next

    broker = SlowBroker()
    broker.id = "made anew"
    broker.answers()
    kafka = AskedKafka(TopicQuestions(broker.topics))
    assert asyncio.run(step()) == 0
    assert not kafka.published


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
        table = weakref.ref(shard._publisher.engine)
        shard.close()
        shard._thread.join()
        return table() is None, gc.get_freeze_count()

    gc.disable()
    try:
        assert asyncio.run(give_back()) == (True, 0)
    finally:
        gc.enable()


def test_offsets_that_an_operator_named_too_late_are_told(caplog: pytest.LogCaptureFixture) -> None:
    kafka = NoKafka()
    shard = held(kafka=kafka)
    asyncio.run(stepped(shard))
    kafka.asked_for = frozenset({0, 7})
    asyncio.run(shard.take_over())
    assert "had been read when an operator wanted them passed over: [0]" in caplog.text
    assert "an operator has these offsets passed over: [7]" in caplog.text


def test_the_fresh_loss_is_unknown_where_nothing_tells_it() -> None:
    shard = held()
    shard.drifted(1.5)
    assert shard.ncp_fresh is None
    shard.ncp = 0.3
    shard.drifted(1.5)
    assert shard.ncp_fresh == pytest.approx(0.2)
    shard.drifted(0.0)
    assert shard.ncp_fresh is None
