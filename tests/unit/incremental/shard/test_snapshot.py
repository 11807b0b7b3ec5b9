"""When a first load is held back, what ends it, and what is said of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from streamer.incremental.events.snapshot_marks import Mark
from streamer.incremental.shard.snapshot import (
    QUIET_SECONDS,
    SETTLED_SECONDS,
    ended_by,
    has_seen_the_end,
    held_after,
    holds_back,
    looks_for_marks,
    turned,
    waits_for,
)
from streamer.incremental.store.base import (
    CHANGE,
    ELSEWHERE,
    INCREMENTAL,
    LAST,
    OPERATOR,
    QUIET,
    TABLES,
    Meta,
    Snapshot,
)

EMPTY, BEGUN = Meta(), Meta(qi_group_next=2)
HELD = Snapshot(since=7, reads=3)
BETWEEN = Snapshot(since=7, kind=INCREMENTAL, reads=3)
DONE = Snapshot(since=7, seen=LAST, ended=LAST, released=1, of=1)


def holding(snapshot: Snapshot) -> Meta:
    return replace(EMPTY, snapshot=snapshot)


@pytest.mark.parametrize(("mark", "kind"), [(Mark.READ, TABLES), (Mark.LAST, TABLES), (Mark.INCREMENTAL, INCREMENTAL)])
def test_a_row_that_was_read_begins_it_where_no_qi_group_was_ever_formed(mark: Mark, kind: str) -> None:
    assert turned(EMPTY, mark, 5) == Snapshot(since=5, kind=kind)
    assert turned(BEGUN, mark, 5) is None
    assert turned(holding(HELD), mark, 9) is None or mark is Mark.INCREMENTAL


@pytest.mark.parametrize("mark", [Mark.NOTHING, Mark.CHANGE])
def test_nothing_else_begins_it(mark: Mark) -> None:
    assert turned(EMPTY, mark, 5) is None


@pytest.mark.parametrize("mark", [Mark.CHANGE, Mark.INCREMENTAL])
def test_what_comes_after_all_rows_of_whole_tables_ends_it(mark: Mark) -> None:
    over = turned(holding(HELD), mark, 9)
    assert over == Snapshot(since=7, reads=3, seen=CHANGE, ended=CHANGE)
    assert over.is_over


@pytest.mark.parametrize("mark", [Mark.CHANGE, Mark.INCREMENTAL, Mark.READ])
def test_changes_between_rows_end_no_snapshot_between_changes(mark: Mark) -> None:
    assert turned(holding(BETWEEN), mark, 9) is None


def test_messages_without_a_mark_wait_with_the_others() -> None:
    assert turned(holding(HELD), Mark.NOTHING, 9) is None


def test_rows_are_counted_and_the_last_one_is_remembered() -> None:
    marks = Counter({Mark.READ: 4, Mark.LAST: 1, Mark.NOTHING: 9})
    assert held_after(HELD, marks) == Snapshot(since=7, reads=8, seen=LAST)
    assert held_after(HELD, {}) == HELD
    assert held_after(None, marks) is None
    assert held_after(DONE, marks) == DONE


def test_marks_are_looked_for_until_a_qi_group_is_formed_and_while_rows_are_held_back() -> None:
    assert [looks_for_marks(meta) for meta in (EMPTY, BEGUN, holding(HELD))] == [True, False, True]
    assert [holds_back(meta) for meta in (EMPTY, holding(HELD), holding(DONE))] == [False, True, False]


@pytest.mark.parametrize(
    ("snapshot", "quiet", "idle", "elsewhere", "why"),
    [
        (HELD, 1e9, True, False, ""),
        (HELD, SETTLED_SECONDS, True, True, ELSEWHERE),
        (HELD, SETTLED_SECONDS - 1, True, True, ""),
        (HELD, SETTLED_SECONDS, False, True, ""),
        (msgspec.structs.replace(HELD, seen=LAST), SETTLED_SECONDS, True, False, LAST),
        (msgspec.structs.replace(HELD, seen=LAST), 1, True, True, ""),
        (msgspec.structs.replace(HELD, ended=CHANGE), 0, False, False, CHANGE),
        (BETWEEN, QUIET_SECONDS, False, False, QUIET),
        (BETWEEN, QUIET_SECONDS - 1, True, False, ""),
    ],
)
def test_what_ends_it(snapshot: Snapshot, quiet: float, idle: bool, elsewhere: bool, why: str) -> None:
    assert ended_by(snapshot, quiet, idle, elsewhere) == why


def test_others_believe_only_what_a_shard_has_seen_itself() -> None:
    ended = [replace(EMPTY, snapshot=Snapshot(7, seen=seen, ended=why, released=1, of=1)) for seen, why in (
        (LAST, LAST), ("", ELSEWHERE), ("", OPERATOR))]  # fmt: skip
    assert [has_seen_the_end(meta) for meta in (None, EMPTY, *ended)] == [False, False, True, False, False]


def test_what_is_waited_for_is_said_in_words() -> None:
    under_way = Snapshot(7, ended=CHANGE, released=1, of=3)
    said = [waits_for(one) for one in (HELD, BETWEEN, held_after(HELD, {Mark.LAST: 1}) or HELD, under_way)]
    assert "last row, in any shard" in said[0]
    assert "30 s" in said[1]
    assert "5 s" in said[2]
    assert said[3] == "its first release is under way, 1 of 3 releases done"
