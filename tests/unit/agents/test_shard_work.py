"""What a held shard's thread does, in the test's own: what is asked before a commit, measured behind it, and told."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from agents.shard_work import ShardWork
from agents.topic_questions import TopicQuestions
from agents.turn import Turn
from streamer.errors import Conflict
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.no_kafka import NOT_JSON, AskedKafka, NoKafka
from worlds.slow_broker import SlowBroker


def work_with(kafka: NoKafka) -> ShardWork:
    outside = cast(Any, kafka)
    store, turn = MemoryStore(MemoryServer(), "patients", 0), Turn(threading.Lock())
    return ShardWork(load_table(PATIENTS), 0, "shard 0", store, outside, outside, outside, turn, None)


def taken_over(kafka: NoKafka) -> ShardWork:
    work = work_with(kafka)
    work.take_over(kafka)
    return work


def test_shards_that_commit_at_the_same_time_share_one_question() -> None:
    """The first one's is under way; two others ask meanwhile, and nobody commits before his answer has come."""
    broker = SlowBroker()
    topics = TopicQuestions(broker.topics)
    kafkas = [AskedKafka(topics) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        steps = []
        for kafka in kafkas:
            steps.append(threads.submit(taken_over(kafka).step, [NOT_JSON], 0))
            assert kafka.asked.wait(10)
            if len(steps) == 1:
                assert broker.begun.acquire(True, 10)
        assert not any(step.done() or kafka.published for step, kafka in zip(steps, kafkas, strict=True))
        broker.answers(3)
        assert [step.result(10).commits for step in steps] == [1, 1, 1]
    assert all(kafka.published for kafka in kafkas)
    assert broker.put == 2


def test_what_was_read_from_topics_made_anew_is_neither_committed_nor_published() -> None:
    broker = SlowBroker()
    broker.id = "made anew"
    broker.answers()
    kafka = AskedKafka(TopicQuestions(broker.topics))
    work = taken_over(kafka)
    with pytest.raises(Conflict, match=r"changes.*live"):
        work.step([NOT_JSON], 0)
    assert work.publisher.meta.next == 0
    assert not kafka.published


def test_offsets_that_an_operator_named_too_late_are_told(caplog: pytest.LogCaptureFixture) -> None:
    kafka = NoKafka()
    work = taken_over(kafka)
    work.step([NOT_JSON], 0)
    kafka.asked_for = frozenset({0, 7})
    work.take_over(kafka)
    assert "had been read when an operator wanted them passed over: [0]" in caplog.text
    assert "an operator has these offsets passed over: [7]" in caplog.text


def test_sizes_and_loss_are_measured_behind_every_step() -> None:
    kafka = NoKafka()
    work = work_with(kafka)
    assert (work.sizes, work.ncp) == ({}, None)
    work.take_over(kafka)
    assert (work.sizes, work.ncp) == ({"rows": 0, "pending": 0, "qi_groups": 0}, None)
    k = work.publisher.table.k
    work.step([a_patient(offset) for offset in range(k - 1)], 0)
    assert (work.sizes, work.ncp) == ({"rows": k - 1, "pending": k - 1, "qi_groups": 0}, None)
    work.step([a_patient(k - 1)], 0)
    loss = work.publisher.engine.loss
    assert loss > 0
    assert (work.sizes, work.ncp) == ({"rows": k, "pending": 0, "qi_groups": 1}, loss / k)


def a_patient(offset: int) -> Message:
    row = {"id": f"p{offset}", "age": 40, "zip": 12000, "bmi": 20.5, "sex": "Female", "problem": "flu"}
    return Message(offset, f"p{offset}".encode(), json.dumps({"op": "insert", "row": row}).encode())
