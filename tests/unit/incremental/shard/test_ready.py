"""What a machine asks for and hears: a publication says which commit it is, and whether the input brought it."""

from __future__ import annotations

from streamer.incremental.release.records import OUTSIDE, OutboxEntry
from streamer.incremental.shard import ready
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.ready import Publication, Ready
from streamer.incremental.store.base import Meta

ROW = OutboxEntry("live", b"0", b"{}")


def test_a_publication_is_of_the_commit_that_its_position_names() -> None:
    meta = Meta(commit=4, next=9, release=2)
    publication = Publication.of([ROW], meta)
    assert publication.position == Position.of(meta)
    (record,) = publication.records()
    assert dict(record.headers) == {"release": b"2", "part": b"1/1", "through": b"9"}


def test_what_the_input_did_not_bring_is_marked() -> None:
    (record,) = Publication.of([ROW], Meta(commit=4, outside=4)).records()
    assert OUTSIDE in record.headers
    (record,) = Publication.of([ROW], Meta(commit=5, outside=4)).records()
    assert OUTSIDE not in record.headers


def test_nothing_is_asked_for_unless_it_is_said() -> None:
    assert {*Ready()} == {"", 0, None}


def test_what_an_order_or_an_event_does_not_say_is_nothing() -> None:
    kinds = [one for one in vars(ready).values() if isinstance(one, type) and one.__module__ == ready.__name__]
    left_out = [value for kind in kinds for value in getattr(kind, "_field_defaults", {}).values()]
    assert len(left_out) > 20
    assert not any(left_out)
