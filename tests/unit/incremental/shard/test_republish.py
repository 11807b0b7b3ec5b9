"""The whole table of a shard as one release: what is in it, what goes before it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.groups.kept import QIGroupState
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.republish import beside_rows, whole_table
from streamer.incremental.store.base import Commit, Meta
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)
GROUPS = {
    7: QIGroupState((3,), (4,), ("a", "b"), ((b'"flu"',), (b"null",))),
    2: QIGroupState((0,), (1,), ("c", "d"), ((b'"flu"',), (b'"flu"',))),
}


def rows_of(number: int) -> list[Entry]:
    state = GROUPS[number]
    return Changelog(PEOPLE, 0).diff(number, None, PublishedGroup(state.lo, state.hi, state.slots))[0]


def digest_of(*numbers: int) -> int:
    changelog = Changelog(PEOPLE, 0)
    groups = (PublishedGroup(GROUPS[n].lo, GROUPS[n].hi, GROUPS[n].slots) for n in numbers)
    return sum(changelog.diff(n, None, group)[1] for n, group in zip(numbers, groups, strict=True)) & (2**64 - 1)


Groups = dict[int, QIGroupState]
META = Meta(5, 50, 4, 8, 0, digest_of(2, 7), topic_ids={"live": "first", "changes": "c"})
INPUT = InputState({"live": "second"}, 1, 0, 100)
GONE = Entry("live", b'{"qi_group":"0-1","slot":0}', None)
LETTER = Entry("dead-letters", b"k", b"letter")


def commit(
    meta: Meta = META,
    groups: dict[int, QIGroupState] = GROUPS,
    live_begun: bool = False,
    waiting: tuple[Entry, ...] = (),
) -> Commit:
    return whole_table(PEOPLE, 0, meta, replace(INPUT, live_begun=live_begun), groups, waiting)


def test_every_row_goes_out_as_release_1_in_a_commit_from_outside_that_knows_the_new_topic() -> None:
    found = commit()
    assert list(found.outbox) == [*rows_of(2), *rows_of(7)]
    ids = {"live": "second", "changes": "c"}
    assert found.meta == replace(META, commit=6, release=1, outside=6, topic_ids=ids)
    assert not (found.records or found.qi_groups or found.similarity)


def test_an_empty_table_is_no_release() -> None:
    found = commit(replace(META, digest=0), {})
    assert list(found.outbox) == []
    assert (found.meta.commit, found.meta.release) == (6, 0)


def test_letters_go_before_and_never_with_the_rows() -> None:
    waiting = (*rows_of(2), GONE, LETTER)
    assert beside_rows(waiting) == [LETTER]
    assert LETTER not in commit(waiting=waiting, live_begun=True).outbox


def test_rows_that_the_last_commit_removed_are_removed_from_a_topic_that_is_not_empty_any_more() -> None:
    back_again = Entry("live", rows_of(7)[1].key, None)
    assert GONE not in commit(waiting=(GONE, back_again)).outbox
    outbox = commit(waiting=(GONE, back_again), live_begun=True).outbox
    assert list(outbox) == [*rows_of(2), *rows_of(7), GONE]


def test_qi_groups_that_are_not_those_of_the_last_commit_are_not_published() -> None:
    with pytest.raises(ShardRefused) as refused:
        commit(groups={7: GROUPS[7]})
    assert mends.begin_anew("people") in str(refused.value)
