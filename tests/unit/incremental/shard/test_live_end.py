"""A `live` made anew shows by the offsets of the records that it takes."""

from __future__ import annotations

from streamer.incremental.shard.live_end import LiveEnd


def after(end: int, *offsets: int) -> LiveEnd:
    live_end = LiveEnd(end)
    for offset in offsets:
        live_end.took(offset)
    return live_end


def test_offsets_that_rise_with_gaps_where_markers_lie_are_of_one_topic() -> None:
    live_end = after(5, 5, 6, 8, 9, 30)
    assert not live_end.fell
    assert live_end.offset == 31


def test_the_first_record_that_another_topic_takes_tells_it() -> None:
    assert after(5, 0).fell
    assert after(5, 5, 6, 0).fell


def test_what_was_told_once_stays_told() -> None:
    assert after(5, 0, 1, 2, 40).fell


def test_one_marker_before_the_first_record_hides_nothing_of_a_release_of_two() -> None:
    assert after(0, 0, 1, 1).fell


def test_in_a_topic_that_held_nothing_there_is_nothing_to_miss() -> None:
    assert not after(0, 0, 1).fell


def test_an_offset_that_kafka_has_not_told_is_not_taken_for_a_good_one() -> None:
    assert after(0, -1001).fell


def test_the_last_of_several_records_tells_where_the_first_one_was_taken() -> None:
    live_end = LiveEnd(5)
    live_end.took(8, count=4)
    assert not live_end.fell
    live_end.took(11, count=4)
    assert live_end.fell, "two of the four are in a topic that is gone"
