"""What a reload finds of a shard: in the output, in positions, in the store."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from streamer.errors import LawViolated
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard.bootstrap import find, not_fitting
from streamer.incremental.shard.first_commits import FoundShard
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import FoundRecords, Position, PublishedRecord, found_records
from streamer.incremental.store.base import Meta

INPUT = InputState({"live": "l", "changes": "c"}, shards=2, earliest=0, end=100, live_begun=True)
NOTHING = FoundRecords()
POSITION = Position(7, 70, 5, 30, 0, 9, live_id="l")


def key(number: int, slot: int = 0) -> bytes:
    return b'{"qi_group":"1-%d","slot":%d}' % (number, slot)


def test_the_highest_numbers_count_wherever_they_are_known() -> None:
    records = found_records([PublishedRecord(4, key(40), True), PublishedRecord(6, key(41), False)])
    assert find(records, POSITION, None, INPUT).qi_group_next == 42
    assert find(records, replace(POSITION, qi_group_next=50), None, INPUT).qi_group_next == 50
    assert find(records, POSITION, Meta(commit=9, qi_group_next=60), INPUT).qi_group_next == 60
    assert find(records, POSITION, Meta(commit=9), INPUT).commit == 9
    assert find(records, POSITION, Meta(commit=3), INPUT).commit == 7
    assert find(records, POSITION, None, INPUT).release == 6
    assert find(NOTHING, None, None, INPUT) == FoundShard()


def test_releases_of_another_output_do_not_count() -> None:
    assert find(NOTHING, POSITION, None, INPUT).release == 5
    assert find(NOTHING, replace(POSITION, live_id="the one before"), None, INPUT).release == -1


def test_the_last_release_of_each_of_two_topics_is_found_in_the_output_and_in_its_position() -> None:
    said = ((4, "qit"), (3, "stt"), (2, "qit"))
    records = found_records(PublishedRecord(n, key(3), True, topic) for n, topic in said)
    assert find(records, None, None, INPUT).last_of == {"qit": 4, "stt": 3}
    assert find(records, replace(POSITION, last_of={"qit": 3, "stt": 5}), None, INPUT).last_of == {"qit": 4, "stt": 5}


def test_an_output_that_has_lost_its_beginning_is_replaced_at_once_and_counts_from_its_end_on() -> None:
    lost = dataclasses.replace(INPUT, reach={"live": (7, 60)})
    found = find(NOTHING, None, None, lost)
    assert (found.begins, found.is_torn) == ({"live": 60}, True)
    mended = find(NOTHING, None, Meta(begins={"live": 60}), dataclasses.replace(lost, reach={"live": (8, 90)}))
    assert (mended.begins, mended.is_torn) == ({"live": 60}, False)
    assert find(NOTHING, None, None, dataclasses.replace(lost, reach={"live": (1, 60)})).is_torn
    whole = find(NOTHING, None, None, dataclasses.replace(lost, reach={"live": (0, 60)}))
    assert (whole.begins, whole.is_torn) == ({}, False), "it begins where every topic begins"


def test_rows_that_were_removed_are_not_there_any_more() -> None:
    records = [PublishedRecord(1, key(3, slot), True) for slot in (0, 1, 10)] + [PublishedRecord(2, key(3, 1), False)]
    left = [OutboxEntry("live", key(3, slot), None) for slot in (0, 10)]
    assert find(found_records(records), None, None, INPUT).tombstones == {3: left}


def test_a_record_that_no_publisher_of_ours_wrote_is_told() -> None:
    with pytest.raises(LawViolated):
        found_records([PublishedRecord(1, b"somebody's", True)])


@pytest.mark.parametrize("position", [None, POSITION, replace(POSITION, next=20)])
def test_a_position_in_front_of_a_commit_whose_rows_are_lost_fits_no_store(position: Position | None) -> None:
    meta = Meta(commit=8, next=40, release=6, qi_group_next=31, topic_ids={"live": "l"})
    said = not_fitting(meta, position, FoundShard(8, 5, 33))
    assert said.commit == said.outside == 8
    assert said != Position.of(meta)
    assert said.next <= meta.next, "or a worker would read the input again up to there"
    assert said.qi_group_next == 33
    assert said.release == 5


@pytest.mark.parametrize("release", [-1, 0])
def test_where_nothing_is_known_to_be_published_that_position_is_of_the_first_release(release: int) -> None:
    said = not_fitting(Meta(commit=1, next=40, topic_ids={"live": "l"}), None, FoundShard(1, release, 3))
    assert (said.commit, said.next, said.release, said.outside, said.digest) == (1, 0, 0, 1, 0)
