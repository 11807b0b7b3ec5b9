"""What a shard keeps: as values that come back from fewer bytes, and what is said of them."""

from __future__ import annotations

from dataclasses import astuple, replace

import msgspec
import pytest

from streamer.incremental.engine.replacing import Replaced
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.store.base import (
    ANSWERED,
    DONE,
    REFUSED,
    RUNNING,
    Adopted,
    Commit,
    LastRead,
    Meta,
    Progress,
    Rebuild,
    Snapshot,
    being_loaded,
    remembered,
)
from streamer.incremental.topics import DEAD_LETTERS, LIVE, STT

# When a stored snapshot is held back, and when it waits for nothing but its release.


@pytest.mark.parametrize(
    ("ended", "released", "of", "holds", "is_over"),
    [
        ("", 0, 0, True, False),
        ("change", 0, 0, True, True),
        ("change", 1, 3, True, True),
        ("change", 3, 3, False, False),
        ("operator", 1, 1, False, False),
    ],
)
def test_rows_are_held_back_until_all_commits_of_the_release_are_done(
    ended: str, released: int, of: int, holds: bool, is_over: bool
) -> None:
    snapshot = Snapshot(7, ended=ended, released=released, of=of)
    assert (snapshot.holds, snapshot.is_over) == (holds, is_over)


# A rebuild as a store keeps it: progress adds up region by region, and comes back from its bytes.

REBUILD = Rebuild("r1", "ordered", 2**63, 4)


def test_progress_adds_up_over_regions() -> None:
    progress = Progress(REBUILD, 3)
    for replaced in (Replaced(2, 3, 1, 10, 5.0, 4.0, 12), Replaced(4, 4, 4, 0, 1.5, 1.5, 8)):
        progress = progress.after(replaced)
    assert progress == Progress(REBUILD, 3, 2, 0, 10, 6.5, 5.5, RUNNING, rows=20)


def test_it_comes_back_from_its_bytes_and_from_those_of_a_version_that_said_less() -> None:
    progress = Progress(REBUILD, 3, 1, 1, 10, 6.5, 5.5)
    data = msgspec.msgpack.encode(progress)
    assert msgspec.msgpack.decode(data, type=Progress) == progress
    fewer = msgspec.msgpack.encode(msgspec.msgpack.decode(data)[:2])
    nothing = (0, 0, 0, 0.0, 0.0, "running", "", 0, 0, 0.0, "", 0)
    assert msgspec.msgpack.decode(fewer, type=Progress) == Progress(REBUILD, 3, *nothing)
    assert msgspec.msgpack.decode(b"\x91\x07", type=Snapshot) == Snapshot(7, "tables", 0, "", "", 0, 0)


KEPT = [Snapshot(7), REBUILD, Progress(REBUILD, 3), Adopted("5", 7, 9), LastRead(4, 1_000, b"sum")]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: type(kept).__name__)
def test_what_is_kept_is_stored_by_position_and_changed_by_nobody(kept: msgspec.Struct) -> None:
    fields = kept.__struct_fields__
    assert len(msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=list[object])) == len(fields)
    with pytest.raises(AttributeError):
        setattr(kept, fields[0], getattr(kept, fields[0]))


def test_the_last_five_rebuilds_and_the_last_twenty_answers_are_remembered_in_their_order() -> None:
    def ended(name: str, state: str) -> Progress:
        return Progress(Rebuild(name, "ordered", 1, 0), 1, state=state)

    rebuilds, more = [ended(f"r{i}", DONE) for i in range(7)], [ended("r7", DONE), ended("r8", DONE)]
    answers = [ended(f"a{i}", REFUSED if i % 2 else ANSWERED) for i in range(23)]
    names = [one.rebuild.id for one in remembered([*rebuilds, *answers], more)]
    assert names == ["r4", "r5", "r6", *(f"a{i}" for i in range(3, 23)), "r7", "r8"]


# Where a shard stands.


def test_a_shard_that_never_committed_stands_at_the_beginning_of_everything() -> None:
    begins: tuple[object, ...] = (0, 0, 0, 1, 0, 0, NO_MESSAGES, 1, "", {}, "", (), b"")
    assert astuple(Meta()) == (*begins, None, (), None, 0, (), 0, None, 0, 0, {}, {}, 0, (), None)
    assert not Commit(Meta()).replaces


def test_the_secret_of_a_shard_is_in_no_text() -> None:
    assert "canary" not in repr(Meta(secret=b"canary"))


ROW, LETTER, VALUES = (OutboxEntry(topic, b"key", None) for topic in (LIVE, DEAD_LETTERS, STT))


def test_a_release_is_a_commit_with_a_published_record() -> None:
    meta = Meta(release=4, whole=2, last_of={"qit": 3})
    assert meta.released([LETTER]) == meta
    assert meta.released([LETTER, ROW]) == replace(meta, release=5)
    assert meta.released([VALUES]) == replace(meta, release=5, last_of={"qit": 3, "stt": 5})


def test_a_whole_table_counts_from_its_release_on_and_an_empty_one_from_the_next() -> None:
    assert Meta(release=4, whole=2).released([ROW], whole=True).whole == 5
    assert Meta(release=4, whole=2).released([], whole=True) == Meta(release=4, whole=5)


@pytest.mark.parametrize(("left", "seconds"), [(12.4, "12 s"), (1.6, "2 s"), (0.2, "1 s"), (-3.0, "1 s")])
def test_who_loads_a_table_is_told_with_the_time_and_how_long_a_dead_one_keeps_it(left: float, seconds: str) -> None:
    said = str(being_loaded("shard 0 of people", "1795694400000000-9f", "`streamer load` (ann:7)", left))
    assert said.startswith(
        "shard 0 of people is being loaded by `streamer load` (ann:7) since 2026-11-26 12:00:00 UTC: wait for its end"
    )
    assert said.endswith(f"if that process is dead, call this again in {seconds}")
