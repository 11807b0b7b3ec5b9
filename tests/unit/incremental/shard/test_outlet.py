"""A shard's position: what every commit leaves beside its records, and how it is read back."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from streamer.errors import ShardRefused
from streamer.incremental.shard.outlet import POSITION_FORMAT, LiveEnd, Position
from streamer.incremental.store.base import Meta

META = Meta(5, 50, 4, 18, outside=2, digest=2**64 - 1, skipped=(7, 41))


def test_a_position_says_of_a_commit_all_that_tells_it_from_another() -> None:
    assert Position.of(META) == Position(5, 50, 4, 18, 2, 2**64 - 1, (7, 41))


def test_a_position_is_read_back_as_it_was_written() -> None:
    written = Position.of(META).to_json()
    assert Position.from_json(written) == Position.of(META)
    assert json.loads(written)["digest"] == 2**64 - 1, "no digit of it is lost on the way"


def test_a_position_of_before_offsets_could_be_passed_over_has_passed_over_none() -> None:
    before = b'{"commit":1,"next":10,"release":1,"qi_group_next":2,"outside":0,"digest":3}'
    assert Position.from_json(before) == Position(1, 10, 1, 2, 0, 3)


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
