"""Questions for topics: whoever asks gets an answer that is not older than he, and shares it where he can."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest
from confluent_kafka import TopicPartition

from streamer.errors import Conflict
from streamer.incremental.shard.input import Message, last_read
from streamer.incremental.store.base import Meta
from streamer.kafka.clients import KafkaCalls
from streamer.kafka.shard_input import KafkaInput, TopicQuestions
from streamer.kafka.topics import Described, Reach, Topics
from worlds.kafka_in_memory import SlowBroker, TopicsInMemory


@pytest.fixture
def broker() -> SlowBroker:
    return SlowBroker()


@pytest.fixture
def questions(broker: SlowBroker) -> TopicQuestions:
    return TopicQuestions(broker.topics)


def id_in(answer: Future[Topics]) -> str:
    return answer.result(10)["changes"].id


def under_way(questions: TopicQuestions, broker: SlowBroker) -> Future[Topics]:
    """A question that has been put and waits for its answer."""
    answer = questions.ask()
    assert broker.begun.acquire(timeout=10)
    return answer


def test_nobody_gets_the_answer_to_a_question_that_was_put_before_he_asked(
    questions: TopicQuestions, broker: SlowBroker
) -> None:
    earlier = under_way(questions, broker)
    broker.id = "recreated"
    later = questions.ask()
    broker.answers(2)
    assert (id_in(earlier), id_in(later)) == ("first", "recreated")


def test_all_who_ask_while_a_question_is_under_way_share_the_next_one(
    questions: TopicQuestions, broker: SlowBroker
) -> None:
    earlier = under_way(questions, broker)
    sharing = [questions.ask() for _ in range(50)]
    broker.answers(2)
    assert {id_in(answer) for answer in (earlier, *sharing)} == {"first"}
    assert broker.put == 2


def test_one_question_after_the_other_is_put_anew(questions: TopicQuestions, broker: SlowBroker) -> None:
    for id_ in ("first", "second", "third"):
        broker.id = id_
        broker.answers()
        assert id_in(questions.ask()) == id_
    assert broker.put == 3


def test_a_question_that_failed_is_told_to_all_who_share_it_and_the_next_one_is_put_again(
    questions: TopicQuestions, broker: SlowBroker
) -> None:
    first = under_way(questions, broker)
    broker.fails = True
    sharing = [questions.ask(), questions.ask()]
    broker.answers(2)
    assert id_in(first) == "first"
    for answer in sharing:
        with pytest.raises(TimeoutError):
            answer.result(10)
    broker.fails = False
    broker.answers()
    assert id_in(questions.ask()) == "first"


def test_it_is_busy_until_the_last_answer_has_come(questions: TopicQuestions, broker: SlowBroker) -> None:
    was_busy = [questions.busy]
    under_way(questions, broker)
    last = questions.ask()
    broker.answers()
    was_busy.append(questions.busy)
    broker.answers()
    last.result(10)
    was_busy.append(questions.busy)
    assert was_busy == [False, True, False]


# -- an input that loses its end under a worker -----------------------------------------------------------------------

CHANGES, KINDS = "people.changes", ("changes", "live", "positions", "dead-letters")


class LosingBroker:
    """One shard's topics. Its input may lose its end, and take other messages there under a new leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.live_end = 0
        self.epoch, self._logs = 1, TopicsInMemory({f"people.{kind}": 1 for kind in KINDS})
        self.write(b"old", 10)

        @contextmanager
        def consumer(_calls: KafkaCalls, committed: bool = True) -> Iterator[TopicsInMemory]:
            yield self._logs

        monkeypatch.setattr(KafkaCalls, "consumer", consumer)

    def write(self, value: bytes, count: int) -> None:
        self._logs.write(CHANGES, 0, *[(b"key", value)] * count)

    def lose(self, last: int) -> None:
        """The last messages go, and as many others come."""
        self._logs.cut(CHANGES, 0, last)
        self.write(b"new", last)
        self.epoch += 1

    def topics(self) -> Topics:
        _, end = self._logs.get_watermark_offsets(TopicPartition(CHANGES, 0), 1.0, cached=False)
        ends = {"changes": end, "live": self.live_end}
        return {kind: Described(kind, 1, {0: Reach(0, ends.get(kind, 0), self.epoch)}) for kind in KINDS}


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> LosingBroker:
    return LosingBroker(monkeypatch)


@pytest.fixture
def served(losing: LosingBroker) -> KafkaInput:
    """An input of which everything but the last four messages is committed."""
    served = KafkaInput("nowhere", "people", 0, TopicQuestions(losing.topics))
    served.state()
    served.check(after(6))
    return served


def after(count: int, value: bytes = b"old") -> Meta:
    """The commit of the first messages."""
    secret, last = b"secret", Message(count - 1, b"key", value, 1000 * (count - 1))
    return Meta(next=count, secret=secret, read=last_read(last, secret))


def test_messages_that_are_lost_while_their_batch_is_applied_are_not_stored(
    served: KafkaInput, losing: LosingBroker
) -> None:
    """Before: they were stored, those that had taken their places were never read, and the shard was refused later."""
    losing.lose(2)
    with pytest.raises(Conflict, match="records are lost"):
        served.check(after(10))


def test_messages_that_were_fetched_before_their_loss_and_come_in_a_later_batch_are_not_stored(
    served: KafkaInput, losing: LosingBroker
) -> None:
    losing.lose(2)
    served.check(after(8))
    with pytest.raises(Conflict, match="records are lost"):
        served.check(after(10))


def test_a_take_over_that_is_barred_learns_no_state_from_which_it_would_go_on(served: KafkaInput) -> None:
    served.bar(Conflict("a rebalance began"))
    with pytest.raises(Conflict, match="a rebalance began"):
        served.state()
    served.bar(None)
    assert served.state().shards == 1


def test_messages_that_took_the_place_of_lost_ones_do_not_hide_that(served: KafkaInput, losing: LosingBroker) -> None:
    served.check(after(10))
    losing.lose(2)
    losing.write(b"new", 2)
    with pytest.raises(Conflict, match="records are lost"):
        served.check(after(12, b"new"))


def test_a_new_leader_that_has_all_messages_changes_nothing(served: KafkaInput, losing: LosingBroker) -> None:
    losing.epoch += 1
    losing.write(b"old", 2)
    served.check(after(10))
    served.check(after(12))


def test_rows_that_are_lost_right_after_their_commit_are_missed_without_another_commit(
    served: KafkaInput, losing: LosingBroker
) -> None:
    """Before: a look knew only the end of the look before, so a worker without messages never found it."""
    losing.live_end = 5
    served.look(after(6), {"live": 5})
    losing.live_end = 7  # of 12 that were published
    served.look(after(6), {"live": 12})  # the commit may just have been told, and its marker not be there
    with pytest.raises(Conflict, match=r"records are lost.*\.live"):
        served.look(after(6), {"live": 12})
