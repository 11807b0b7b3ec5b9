"""What a truncation is in one of several shards: overtaken messages, what is said to others, what came later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.events.changes import Change, Insert, Nothing, Remove, Truncate, Upsert
from streamer.incremental.events.source_position import DATES_APART_MS, OrderLost, SourcePosition
from streamer.incremental.shard import truncations
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Placed, Truncation, placed_in, read_request
from streamer.incremental.shard.steps import StepTally
from streamer.incremental.shard.truncations import (
    Run,
    begin_of_run,
    in_order,
    in_source_order,
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
from streamer.table.row import Row
from worlds.small_tables import CITY, YEARS, table

NAME = "shard 1 of people"
PEOPLE = table(YEARS, CITY, k=2)
META = Meta(shards=3, topic_ids={"changes": "a", CONTROL: "b"})


def lsn(place: int, at: int = 0) -> SourcePosition:
    return SourcePosition("postgresql", (place,), at)


def said(place: int | None, op: str = "u", at: int = 0) -> bytes:
    source = {"connector": "postgresql", **({} if place is None else {"lsn": place, "ts_ms": at})}
    return json.dumps({"op": op, "source": source}).encode()


OTHER_LOG = SourcePosition("mysql-bin", (1, 4, 0))
OF_OTHER_LOG = b'{"op":"t","source":{"connector":"mysql","file":"mysql-bin.000001","pos":4,"ts_ms":7}}'
NOBODY = Row((), ())
ROW, TRUNCATION = Remove("7"), Truncate(whole_table_only=True)


def test_messages_before_the_last_truncation_change_nothing_any_more() -> None:
    assert in_order(ROW, lsn(70, 1), lsn(90, 2), "people") == Nothing()
    assert in_order(ROW, lsn(91, 2), lsn(90, 1), "people") is ROW
    assert in_order(ROW, lsn(91), lsn(90, 1), "people") is ROW
    assert in_order(ROW, None, lsn(90, 1), "people") is ROW


@pytest.mark.parametrize(("dated", "truncated"), [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("change", [Remove("7"), Upsert("7", Row((), ())), Truncate(whole_table_only=True)])
def test_a_change_of_before_without_a_date_is_told_because_its_log_may_have_begun_anew(
    change: Change, dated: int, truncated: int
) -> None:
    with pytest.raises(EventRefused, match=r"source\.ts_ms") as refused:
        in_order(change, lsn(70, dated), lsn(90, truncated), "people")
    assert refused.value.reason == "undated-before-truncation"
    assert remedies.reload_from_file("people") in refused.value.detail
    assert in_order(Nothing(), lsn(70, dated), lsn(90, truncated), "people") == Nothing()


def test_a_truncation_that_is_known_or_overtaken_is_none() -> None:
    known = lsn(90, 5)
    assert in_order(TRUNCATION, lsn(90), known, "people") == Nothing()
    assert in_order(TRUNCATION, lsn(70, 5), known, "people") == Nothing()
    assert in_order(TRUNCATION, lsn(91, 5), known, "people") is TRUNCATION
    assert in_order(TRUNCATION, None, known, "people") is TRUNCATION
    assert in_order(ROW, lsn(90, 5), known, "people") is ROW


def test_a_message_that_dates_contradict_is_not_decided() -> None:
    with pytest.raises(OrderLost):
        in_order(ROW, lsn(70, at=2 + DATES_APART_MS), lsn(90, at=1), "people")


COMES = Upsert("7", NOBODY)


@pytest.mark.parametrize("change", [COMES, Insert("7", NOBODY)], ids=["captured", "plain"])
@pytest.mark.parametrize("value", [b"{}", OF_OTHER_LOG], ids=["no place", "other log"])
def test_a_row_whose_place_says_nothing_of_a_truncation_is_refused_until_its_log_was_seen(
    change: Change, value: bytes
) -> None:
    knows, message = replace(META, truncated=lsn(90, 1)), Message(5, b"7", value)
    tally = StepTally.after(knows)
    with pytest.raises(ShardRefused, match="offset 5") as refused:
        in_source_order(PEOPLE, 1, knows, change, message, tally)
    assert remedies.reload_from_file("people") in str(refused.value)
    for seen in (said(70, at=1), said(91, at=1)):
        tally = StepTally.after(knows)
        in_source_order(PEOPLE, 1, knows, COMES, Message(4, b"7", seen), tally)
        assert tally.log_seen
        assert in_source_order(PEOPLE, 1, knows, change, message, tally) is change
    assert in_source_order(PEOPLE, 1, knows, change, message, StepTally.after(replace(knows, log_seen=True))) is change
    assert in_source_order(PEOPLE, 1, META, change, message, StepTally.after(META)) is change, "nothing was truncated"
    assert in_source_order(PEOPLE, 0, replace(knows, shards=1), change, message, StepTally.after(knows)) is change


def test_what_brings_no_row_needs_no_place() -> None:
    knows = replace(META, truncated=lsn(90))
    for change in (ROW, Nothing(), Truncate()):
        tally = StepTally.after(knows)
        assert in_source_order(PEOPLE, 1, knows, change, Message(5, b"7", None), tally) is change
        assert not tally.log_seen


def test_who_reads_a_truncation_has_seen_its_log() -> None:
    tally = StepTally.after(META)
    in_source_order(PEOPLE, 1, META, TRUNCATION, Message(5, None, said(90, "t", at=3)), tally)
    assert (tally.truncated, tally.log_seen) == (lsn(90, 3), True)


def test_a_truncation_without_a_place_refuses_the_shard_and_says_what_to_do_instead() -> None:
    assert place_of_truncation(NAME, "people", Message(5, None, said(90, "t", at=3))) == lsn(90, 3)
    with pytest.raises(ShardRefused) as refused:
        place_of_truncation(NAME, "people", Message(5, None, said(None, "t")))
    text = str(refused.value)
    assert "offset 5" in text
    assert text.index("pause the connector") < text.index("run `streamer produce --truncate`") < text.index("resume")
    assert remedies.reload_from_file("people") in text


def test_a_truncation_without_a_date_refuses_the_shard_because_another_log_could_not_be_told_from_its_own() -> None:
    with pytest.raises(ShardRefused, match=r"offset 5.*does not say when \(source\.ts_ms\).*source\.ts_ms"):
        place_of_truncation(NAME, "people", Message(5, None, said(90, "t")))


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
    assert is_news(NAME, "people", META, lsn(1))
    assert [is_news(NAME, "people", knows, lsn(place)) for place in (89, 90, 91)] == [False, False, True]
    with pytest.raises(ShardRefused, match="has restarted"):
        is_news(NAME, "people", replace(META, truncated=lsn(90, at=1)), lsn(80, at=2 + DATES_APART_MS))


def test_a_truncation_of_another_log_than_the_known_ones_is_never_guessed_to_be_the_later_one() -> None:
    knows = replace(META, truncated=lsn(90))
    with pytest.raises(ShardRefused, match="two logs") as heard:
        is_news(NAME, "people", knows, OTHER_LOG)
    tally, message = StepTally.after(knows), Message(5, None, OF_OTHER_LOG)
    with pytest.raises(ShardRefused, match=r"offset 5.*two logs") as read:
        in_source_order(PEOPLE, 1, knows, TRUNCATION, message, tally)
    for refused in (heard, read):
        assert remedies.reload_from_file("people") in str(refused.value)
    assert (tally.truncated, tally.letters) == (lsn(90), []), "nothing is said to the others"


def test_the_last_of_several_truncations_counts_and_two_logs_have_none() -> None:
    assert last_truncation([None, lsn(70), None, lsn(90), lsn(80)], "people") == lsn(90)
    assert last_truncation([None], "people") is None
    with pytest.raises(ShardRefused, match="two logs"):
        last_truncation([lsn(70), SourcePosition("mysql-bin", (1, 4, 0))], "people")
    with pytest.raises(ShardRefused, match="has restarted"):
        last_truncation([lsn(70, at=2 + DATES_APART_MS), lsn(90, at=1)], "people")


def test_what_was_placed_behind_a_lost_commit_is_repeated_in_its_order_or_refused() -> None:
    placed = [Placed(1, lsn(10 * n), request=n, next=n, number=n) for n in (1, 2, 3, 4)]
    position = Position(9, 9, 9, 9, 0, 0, truncations=3)
    assert to_repeat(NAME, "people", Meta(truncations=1), position, placed) == tuple(placed[1:3])
    assert to_repeat(NAME, "people", Meta(truncations=3), position, ()) == ()
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
