"""The commit after the last one: counted on, with the records by QI group and the dead letters behind them."""

from __future__ import annotations

from streamer.incremental.events.changes import Delete, Insert
from streamer.incremental.events.counts import APPLIED
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import Origin
from streamer.incremental.groups.net_effect import Drained
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.next_commit import next_commit
from streamer.incremental.shard.steps import Tally
from streamer.incremental.store.base import Meta
from streamer.table.row import Row
from worlds.small_tables import YEARS, table

SMALL = table(YEARS, k=2)
META = Meta(commit=4, next=10, release=3, outside=2, skipped=(5,), secret=b"kept")
LETTER = Entry("dead-letters", b"{}", b"{}")


def drained(*years: int) -> Drained:
    engine = Engine(SMALL)
    for year in years:
        engine.apply(Insert(f"p{year}", Row((year,), (b'"flu"',))))
    return engine.drain()


def test_a_commit_goes_on_where_the_last_one_ended() -> None:
    tally = Tally(next=14, key_form="bare", counts=APPLIED, letters=[LETTER], skipped=[12])
    commit = next_commit(META, drained(1, 2, 8, 9), tally, Changelog(SMALL, 0))
    meta = commit.meta
    assert (meta.commit, meta.next, meta.release, meta.qi_group_next) == (5, 14, 4, 3)
    assert (meta.outside, meta.skipped, meta.key_form, meta.secret) == (2, (5, 12), "bare", b"kept")
    assert meta.counts == APPLIED
    assert meta.digest != META.digest
    names = [entry.key for entry in commit.outbox]
    assert names[:4] == [b'{"qi_group":"0-%d","slot":%d}' % (group, slot) for group in (1, 2) for slot in (0, 1)]
    assert commit.outbox[4:] == [LETTER]
    assert set(commit.records) == {"p1", "p2", "p8", "p9"}


def test_a_commit_tells_how_groups_came_to_be_and_which_are_gone() -> None:
    engine = Engine(SMALL)
    for year in (1, 2, 8, 9):
        engine.apply(Insert(f"p{year}", Row((year,), (b'"flu"',))))
    split = next_commit(META, engine.drain(), Tally(next=14, key_form=""), Changelog(SMALL, 0))
    assert split.origins == dict.fromkeys((1, 2), Origin("split", 5))
    engine.apply(Delete("p9"))
    merged = next_commit(split.meta, engine.drain(), Tally(next=15, key_form=""), Changelog(SMALL, 0))
    (stays,) = (number for number, state in merged.qi_groups.items() if state)
    assert merged.origins == {stays: Origin("merged", 6), 3 - stays: None}


def test_a_commit_in_which_readers_see_nothing_is_no_release() -> None:
    commit = next_commit(META, drained(1), Tally(next=11, key_form=""), Changelog(SMALL, 0))
    assert (commit.meta.commit, commit.meta.release, commit.meta.digest, commit.outbox) == (5, 3, 0, [])
