"""A shard's position: what every commit leaves beside its records, and how it is read back."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from streamer.errors import ShardRefused
from streamer.incremental.shard.outlet import (
    POSITION_FORMAT,
    FoundRecords,
    FoundSealed,
    LiveEnd,
    Position,
    PublishedRecord,
    found_records,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import SEALED

META = Meta(5, 50, 4, 18, outside=2, digest=2**64 - 1, skipped=(7, 41))


def test_a_position_says_of_a_commit_all_that_tells_it_from_another() -> None:
    assert Position.of(META) == Position(5, 50, 4, 18, 2, 2**64 - 1, (7, 41))


def test_a_position_is_read_back_as_it_was_written() -> None:
    written = Position.of(META).to_json()
    assert Position.from_json(written) == Position.of(META)
    assert json.loads(written)["digest"] == 2**64 - 1, "no digit of it is lost on the way"


def test_what_a_position_of_before_does_not_say_is_nothing() -> None:
    before = b'{"commit":1,"next":10,"release":1,"qi_group_next":2,"outside":0,"digest":3}'
    nothing: tuple[object, ...] = ((), "", 0, (), {}, None, 0, {}, {}, POSITION_FORMAT, "", None)
    assert msgspec.structs.astuple(Position.from_json(before)) == (1, 10, 1, 2, 0, 3, *nothing)


def test_a_position_that_was_read_is_changed_by_nobody() -> None:
    with pytest.raises(AttributeError):
        Position.of(META).next = 51  # type: ignore[misc]


def test_a_position_of_a_newer_format_is_refused_whatever_else_it_says() -> None:
    """Before: what a newer streamer said beside the rest was passed over in silence."""
    newer = [
        Position.of(META).to_json().replace(b'"format":3', b'"format":4'),
        b'{"format":5,"commit":"another shape"}',
    ]
    for text, format_ in zip(newer, (4, 5), strict=True):
        said = f"the last position is in format {format_}, and this streamer reads up to format 3: run the version that"
        with pytest.raises(ShardRefused, match=said):
            Position.from_json(text)


def test_whoever_adds_a_field_to_a_position_raises_its_format() -> None:
    named = "commit next release qi_group_next outside digest skipped live_id truncations retried last_of read whole"
    assert (" ".join(Position.__struct_fields__), POSITION_FORMAT) == (f"{named} begins ends format engine sealed", 3)


def test_a_position_names_the_engine_that_published_it_and_an_earlier_one_that_does_not_is_still_of_its_commit() -> (
    None
):
    meta = replace(META, fingerprint="engine-version:6.2 columns:aa")
    said = Position.of(meta)
    assert (said.engine, said.is_of(meta)) == ("6.2", True)
    assert msgspec.structs.replace(said, engine="").is_of(meta)
    assert msgspec.structs.replace(said, truncations=3).is_of(meta), "a former version counted them"
    assert not msgspec.structs.replace(said, engine="5").is_of(meta)
    assert not msgspec.structs.replace(said, engine="", digest=1).is_of(meta)


@pytest.mark.parametrize("text", [b"", b"{}", b"null", b'{"commit":"1"}'])
def test_what_is_no_position_is_not_read_as_one(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Position.from_json(text)


# What an output holds is what its records leave, one after the other.


def key(number: int, slot: int = 0) -> bytes:
    return b'{"qi_group":"0-%d","slot":%d}' % (number, slot)


def test_an_output_without_a_record_holds_nothing_and_has_no_release() -> None:
    nothing = FoundRecords(-1, 0, {}, {}, FoundSealed(0, frozenset()))
    assert found_records([]) == FoundRecords() == nothing


def test_a_tombstone_removes_its_row_and_the_highest_release_and_number_stay_known() -> None:
    records = [PublishedRecord(0, key(5), True), PublishedRecord(2, key(3), True), PublishedRecord(1, key(5), False)]
    found = found_records(records)
    assert (found.release, found.qi_group, found.rows) == (2, 5, {("live", key(3)): 3})


def test_a_record_whose_transaction_did_not_end_is_a_row_and_gives_no_numbers() -> None:
    found = found_records([PublishedRecord(-1, key(9), True, "qit")])
    assert (found.release, found.qi_group, found.last_of) == (-1, 0, {"qit": 0})
    assert found.rows == {("qit", key(9)): 9}
    found = found_records(
        [PublishedRecord(n, key(1), True, topic) for n, topic in ((0, "qit"), (2, "stt"), (1, "stt"))]
    )
    assert found.last_of == {"qit": 0, "stt": 2}


def test_cohorts_are_found_beside_the_rows_without_those_that_are_retired_and_the_ends_of_epochs() -> None:
    said = ((1, b"c1", True), (1, b"epoch-0", True), (3, b"c2", True), (2, b"c1", False))
    cohorts = [PublishedRecord(epoch, name, is_row, SEALED) for epoch, name, is_row in said]
    found = found_records([*cohorts, PublishedRecord(4, key(2), True)])
    assert found.sealed == FoundSealed(3, frozenset({"c2"}))
    assert (found.release, found.rows) == (4, {("live", key(2)): 2})


def test_the_keys_of_an_output_are_in_no_text() -> None:
    assert "slot" not in repr(found_records([PublishedRecord(1, key(1), True)]))


# A recreated `live` shows by the offsets of the records that it takes.


def after(end: int, *offsets: int) -> LiveEnd:
    live_end = LiveEnd(end)
    for offset in offsets:
        live_end = live_end.took(offset)
    return live_end


def test_an_offset_that_kafka_has_not_told_is_not_taken_for_a_good_one() -> None:
    assert after(0, -1001).fell


def test_the_last_of_several_records_tells_where_the_first_one_was_taken() -> None:
    live_end = LiveEnd(5).took(8, count=4)
    assert not live_end.fell
    assert live_end.took(11, count=4).fell, "two of the four are in a topic that is gone"
