"""Questions for topics: whoever asks gets an answer that is not older than he, and shares it where he can."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from streamer.kafka.shard_input import TopicQuestions
from streamer.kafka.topics import Topics
from worlds.kafka_in_memory import SlowBroker


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
