"""What a truncation is in one of several shards: overtaken messages, what is said to others, what came later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.events.changes import Nothing, Remove, Truncate
from streamer.incremental.events.source_position import DATES_APART_MS, OrderLost, SourcePosition
from streamer.incremental.shard import truncations
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Placed, Truncation, placed_in, read_request
from streamer.incremental.shard.truncations import (
    Run,
    begin_of_run,
    in_order,
    is_news,
    last_truncation,
    place_of_truncation,
    run_behind,
    said_of_placing,
    said_to_others,
    to_repeat,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CONTROL

NAME = "shard 1 of people"
META = Meta(shards=3, topic_ids={"changes": "a", CONTROL: "b"})


def lsn(place: int, at: int = 0) -> SourcePosition:
    return SourcePosition("postgresql", (place,), at)


def said(place: int | None, op: str = "u", at: int = 0) -> bytes:
    source = {"connector": "postgresql", **({} if place is None else {"lsn": place, "ts_ms": at})}
    return json.dumps({"op": op, "source": source}).encode()


ROW, TRUNCATION = Remove("7"), Truncate(whole_table_only=True)


def test_messages_before_the_last_truncation_change_nothing_any_more() -> None:
    assert in_order(ROW, said(70), lsn(90)) == Nothing()
    assert in_order(ROW, said(91), lsn(90)) is ROW
    assert in_order(ROW, said(70), None) is ROW
    assert in_order(ROW, None, lsn(90)) is ROW, "a tombstone names no place"
    assert in_order(ROW, said(None), lsn(90)) is ROW


def test_a_truncation_that_is_known_or_overtaken_is_none() -> None:
    assert in_order(TRUNCATION, said(90, "t"), lsn(90)) == Nothing()
    assert in_order(TRUNCATION, said(70, "t"), lsn(90)) == Nothing()
    assert in_order(TRUNCATION, said(91, "t"), lsn(90)) is TRUNCATION
    assert in_order(TRUNCATION, said(None, "t"), lsn(90)) is TRUNCATION
    assert in_order(ROW, said(90), lsn(90)) is ROW


def test_a_message_that_dates_contradict_is_not_decided() -> None:
    with pytest.raises(OrderLost):
        in_order(ROW, said(70, at=2 + DATES_APART_MS), lsn(90, at=1))


def test_a_truncation_without_a_place_refuses_the_shard_and_says_what_to_do_instead() -> None:
    assert place_of_truncation(NAME, "people", Message(5, None, said(90, "t", at=3))) == lsn(90, 3)
    with pytest.raises(ShardRefused) as refused:
        place_of_truncation(NAME, "people", Message(5, None, said(None, "t")))
    text = str(refused.value)
    assert "offset 5" in text
    assert text.index("pause the connector") < text.index("run `streamer produce --truncate`") < text.index("resume")
    assert mends.begin_from_file("people") in text


def test_what_is_said_lies_in_the_partition_of_everybody_else() -> None:
    entries = said_to_others(META, NAME, 1, 44, lsn(90))
    assert [(entry.topic, entry.key) for entry in entries] == [(CONTROL, b"0"), (CONTROL, b"2")]
    read = [read_request(entry.value or b"") for entry in entries]
    assert read == [Truncation(0, lsn(90), by=1, offset=44), Truncation(2, lsn(90), by=1, offset=44)]


def test_without_a_control_topic_the_shard_is_refused_unless_the_broker_tells_no_topics() -> None:
    with pytest.raises(ShardRefused, match="streamer topics create"):
        said_to_others(replace(META, topic_ids={"changes": "a"}), NAME, 1, 44, lsn(90))
    assert len(said_to_others(replace(META, topic_ids={}), NAME, 1, 44, lsn(90))) == 2


def test_a_shard_says_in_its_own_partition_where_it_has_placed_one() -> None:
    entry = said_of_placing(Meta(next=70, truncations=3), 1, 17, lsn(90))
    assert (entry.topic, entry.key) == (CONTROL, b"1")
    assert placed_in([entry.value or b"", b"nonsense"], 1) == [Placed(1, lsn(90), request=17, next=70, number=3)]
    assert placed_in([entry.value or b""], 2) == []


def test_only_a_later_truncation_is_news() -> None:
    knows = replace(META, truncated=lsn(90))
    assert is_news(META, lsn(1))
    assert [is_news(knows, lsn(place)) for place in (89, 90, 91)] == [False, False, True]
    assert is_news(knows, SourcePosition("mysql-bin", (1, 4, 0))), "another log: whoever says so comes later"
    with pytest.raises(OrderLost):
        is_news(replace(META, truncated=lsn(90, at=1)), lsn(80, at=2 + DATES_APART_MS))


def test_the_last_of_several_truncations_counts_and_two_logs_have_none() -> None:
    assert last_truncation([None, lsn(70), None, lsn(90), lsn(80)], "people") == lsn(90)
    assert last_truncation([None], "people") is None
    with pytest.raises(ShardRefused, match="two logs"):
        last_truncation([lsn(70), SourcePosition("mysql-bin", (1, 4, 0))], "people")
    with pytest.raises(ShardRefused, match="has begun anew"):
        last_truncation([lsn(70, at=2 + DATES_APART_MS), lsn(90, at=1)], "people")


def test_what_was_placed_behind_a_lost_commit_is_repeated_in_its_order_or_refused() -> None:
    placed = [Placed(1, lsn(10 * n), request=n, next=n, number=n) for n in (1, 2, 3, 4)]
    position = Position(9, 9, 9, 9, 0, 0, truncations=3)
    assert to_repeat(NAME, "people", Meta(truncations=1), position, placed) == placed[1:3]
    assert to_repeat(NAME, "people", Meta(truncations=3), position, ()) == []
    with pytest.raises(ShardRefused, match="does not say any more"):
        to_repeat(NAME, "people", Meta(truncations=1), position, placed[2:])


# -- what came later --------------------------------------------------------------------------------------------------

PLACES = st.lists(st.one_of(st.none(), st.integers(1, 9)), max_size=12)


def messages_at(places: Sequence[int | None]) -> list[Message]:
    return [Message(2 * i, None, said(place)) for i, place in enumerate(places)]


@given(PLACES, st.integers(1, 9))
def test_later_messages_begin_behind_the_last_earlier_one_however_the_input_is_read(
    places: list[int | None], truncated: int
) -> None:
    messages = messages_at(places)
    before = [i for i, place in enumerate(places) if place is not None and place < truncated]
    expected = 2 * before[-1] + 1 if before else None
    run = run_behind(lsn(truncated), [messages[:3], messages[3:]])
    assert run == Run(expected, told=any(place is not None for place in places))
    if any(place is not None for place in places):
        end, windows = 2 * len(places), list[int]()

        def read(start: int) -> Iterator[Sequence[Message]]:
            windows.append(end - start)
            yield [message for message in messages if start <= message.offset < end]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(truncations, "WINDOW_OFFSETS", 2)
            assert begin_of_run(NAME, "people", lsn(truncated), 0, end, read) == (expected or 0)
        assert windows == sorted(windows)
        assert len(windows) <= 3


def test_an_input_that_does_not_tell_what_came_later_refuses_the_shard() -> None:
    later = messages_at([95, 96])
    with pytest.raises(ShardRefused, match="it has expired"):
        begin_of_run(NAME, "people", lsn(90), 3, 9, lambda start: iter([later]))
    with pytest.raises(ShardRefused, match="do not say where"):
        begin_of_run(NAME, "people", lsn(90), 0, 9, lambda start: iter([messages_at([None])]))
    assert begin_of_run(NAME, "people", lsn(90), 3, 3, lambda start: iter(())) == 3, "nothing was read since"
