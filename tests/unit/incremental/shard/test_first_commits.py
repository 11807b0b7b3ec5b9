"""The commits that a first table is made of: numbers go on, QI groups stay whole, what was there is removed."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, LawViolated, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import PENDING, Origin, QIGroupState, Record, StoredTable
from streamer.incremental.events.changes import Counts
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry, PublishedGroup
from streamer.incremental.shard.first_commits import (
    FirstTable,
    FoundShard,
    Prepared,
    beside_rows,
    commits,
    prepare,
    release_commits,
    rows_in,
    whole_table,
)
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import FoundRecords
from streamer.incremental.store.base import CHANGE, UNFINISHED, Commit, Meta, Snapshot, State
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.encode import EncodedRows
from streamer.table.row import Row
from streamer.table.schema import GROUPS, LOSSY_JOIN, Limits
from streamer.table.schema import ROWS as SCHEMA_ROWS
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, k=2)
INPUT = InputState({"live": "l", "changes": "c"}, shards=2, earliest=0, end=100, live_begun=True)
LETTER = OutboxEntry("dead-letters", b"k", b"letter")


def key(number: int, slot: int = 0) -> bytes:
    return b'{"qi_group":"1-%d","slot":%d}' % (number, slot)


def gone(number: int, slot: int = 0) -> OutboxEntry:
    return OutboxEntry("live", key(number, slot), None)


def first(n: int, k: int = 2, **more: object) -> FirstTable:
    rows = {f"r{i}": Row((i % 10,), (b'"flu"',)) for i in range(n)}
    groups = np.array_split(np.argsort([row.codes[0] for row in rows.values()], kind="stable"), max(1, n // k))
    return FirstTable(EncodedRows.of_rows(rows, 1), groups if n else [], b"secret", 100, **more)  # type: ignore[arg-type]


def made(prepared: Prepared, found: FoundShard, records_max: int = 1000) -> list[Commit]:
    return list(commits(PEOPLE, 1, INPUT, prepared, found, records_max))


def test_a_table_that_fits_is_one_commit_that_replaces_everything() -> None:
    old = FoundShard(7, 5, 30, {3: [gone(3), gone(3, 1)]}, statement_ids=("s-1",))
    (commit,) = made(prepare(PEOPLE, 1, 2, first(9, statement_ids=("s-1", "s-2"), counts=Counts(applied=3))), old)
    meta = commit.meta
    assert commit.replaces
    assert (meta.commit, meta.outside, meta.release, meta.next, meta.shards) == (8, 8, 6, 100, 2)
    assert meta.whole == 6
    assert (meta.fingerprint, meta.secret, meta.counts) == (PEOPLE.fingerprint, b"secret", Counts(applied=3))
    assert meta.topic_ids == INPUT.topic_ids
    assert list(commit.statement_ids) == ["s-2"]
    assert sorted(commit.qi_groups) == [30, 31, 32, 33]
    assert commit.origins == dict.fromkeys(commit.qi_groups, Origin("loaded", 8))
    assert meta.qi_group_next == 34
    assert [entry.key for entry in commit.outbox if entry.value is None] == [key(3), key(3, 1)]
    assert len(commit.outbox) == 11


def test_the_first_release_ever_is_release_0_and_a_table_of_nobody_is_none() -> None:
    (commit,) = made(prepare(PEOPLE, 1, 2, first(9)), FoundShard())
    assert (commit.meta.commit, commit.meta.release) == (1, 0)
    (empty,) = made(prepare(PEOPLE, 1, 2, first(0)), FoundShard())
    assert (empty.meta.commit, empty.meta.release, list(empty.outbox)) == (1, 0, [])


def test_of_a_shard_of_which_nothing_is_found_nothing_counts_on() -> None:
    assert FoundShard() == FoundShard(0, -1, 1, {}, (), 0, 0, {}, False, {})
    assert "canary" not in repr(FoundShard(tombstones={1: [OutboxEntry("live", b"canary", None)]}))
    shown = repr(prepare(PEOPLE, 1, 2, replace(first(4), secret=b"canary")))
    assert "canary" not in shown
    assert "records=" not in shown and ", qi_groups={" not in shown


@pytest.mark.parametrize(
    ("letters", "removed", "records_max", "commits_made"), [(0, 0, 9, 1), (0, 0, 8, 2), (1, 2, 12, 1), (1, 2, 11, 2)]
)
def test_rows_removals_and_letters_are_as_many_commits_as_releases_are_needed(
    letters: int, removed: int, records_max: int, commits_made: int
) -> None:
    old = FoundShard(7, 5, 30, {3: [gone(3), gone(3, 1)]} if removed else {}, whole=4)
    done = made(prepare(PEOPLE, 1, 2, first(9, letters=[LETTER] * letters)), old, records_max)
    assert [commit.replaces for commit in done] == [True, False][:commits_made]
    assert [commit.meta.commit for commit in done] == [8, 9][:commits_made]
    assert {commit.meta.whole for commit in done} == ({6} if commits_made == 1 else {4})
    assert all(commit.meta.digest < 2**64 for commit in done)


def test_a_row_of_a_lossy_join_is_two_records() -> None:
    joined = replace(PEOPLE, form=LOSSY_JOIN)
    prepared = prepare(joined, 1, 2, first(9))
    assert [len(list(commits(joined, 1, INPUT, prepared, FoundShard(), most))) for most in (18, 17)] == [1, 2]


def test_letters_of_a_table_that_was_read_from_the_input_may_be_tried_again() -> None:
    """Of one that was not, the input below is dealt with."""
    read, other = first(9, counts=Counts(dead_letters=1)), first(9)
    assert [made(prepare(PEOPLE, 1, 2, one), FoundShard())[0].meta.letters_from for one in (read, other)] == [0, 100]


def test_a_reload_into_an_output_that_lost_its_beginning_is_one_release_however_large() -> None:
    torn = FoundShard(7, 5, 30, begins={"live": 9}, is_torn=True)
    (commit,) = made(prepare(PEOPLE, 1, 2, first(9)), torn, records_max=3)
    assert [entry.value is not None for entry in commit.outbox] == [True] * 9
    assert (commit.meta.release, commit.meta.whole) == (6, 6)


@given(
    n=st.integers(0, 40),
    old=st.dictionaries(st.integers(1, 20), st.integers(2, 5), max_size=12),
    records_max=st.integers(4, 30),
    n_letters=st.integers(0, 9),
)
def test_several_releases_hold_whole_qi_groups_and_end_with_the_table(
    n: int, old: dict[int, int], records_max: int, n_letters: int
) -> None:
    rows = {number: [gone(number, slot) for slot in range(size)] for number, size in old.items()}
    found = FoundShard(7, 5, 30, rows)
    prepared = prepare(PEOPLE, 1, 2, first(n if n > 1 else 0, letters=[LETTER] * n_letters))
    done = made(prepared, found, records_max)
    published = {one.key: b"old" for tombstones in rows.values() for one in tombstones}
    release, store = 5, MemoryStore(MemoryServer(), "people", 1)
    fence = store.take_over()
    for i, commit in enumerate(done):
        live = [entry for entry in commit.outbox if entry.topic == "live"]
        for entry in live:
            if entry.value is None:
                del published[entry.key]
            else:
                published[entry.key] = entry.value
        groups = [name.split(b'"slot"')[0] for name in published]
        assert all(groups.count(name) >= PEOPLE.k for name in groups), "no QI group is broken for a reader"
        release += bool(live)
        assert commit.meta.release == release
        assert (commit.meta.fingerprint == UNFINISHED) == (i < len(done) - 1)
        assert len(commit.outbox) <= records_max + 3 * 5 + 2
        store.commit(fence, 0 if i == 0 else commit.meta.commit - 1, commit)
    assert sum(entry == LETTER for commit in done for entry in commit.outbox) == n_letters
    state = store.load()
    assert state is not None
    engine = Engine.load(PEOPLE, 1, 2, state.kept, b"secret")
    assert engine.n_rows == len(published) == len(prepared.records)
    assert b"old" not in published.values()


def test_a_group_below_k_is_refused_before_anything_is_touched() -> None:
    small = replace(first(4), qi_groups=[np.array([0]), np.array([1, 2, 3])])
    with pytest.raises(ConfigError, match="QI group 1 does not hold the privacy model: 1 row is fewer than k = 2"):
        prepare(PEOPLE, 1, 2, small)


def test_a_group_that_does_not_fit_into_one_message_is_refused_before_anything_is_touched() -> None:
    rows = {f"r{i}": Row((i % 10,), (b'"%d"' % i,)) for i in range(60)}
    whole = FirstTable(EncodedRows.of_rows(rows, 1), [np.arange(60)], b"secret", 100)
    small = replace(PEOPLE, limits=Limits(row_bytes_max=1000))
    assert prepare(small, 1, 2, whole).qi_groups
    with pytest.raises(ConfigError, match=r"initial load: a QI group of 60 rows does not fit into one message"):
        prepare(replace(small, form=GROUPS), 1, 2, whole)


def test_a_table_with_fewer_rows_than_k_waits_and_publishes_nothing() -> None:
    waits = replace(first(4), qi_groups=[])
    (commit,) = made(prepare(PEOPLE, 1, 2, waits), FoundShard())
    assert not commit.outbox
    assert {record.qi_group for record in commit.records.values() if record} == {0}
    assert len(commit.records) == 4


RECORDED = {
    SCHEMA_ROWS: "b90c36fa1f2f8360cb9eb7ae200294b06e3c63ba0cb121f80befb5e27479bedd",
    GROUPS: "86d29ace12dd17a485ddb81396a4bc884d9b2921b08e42d5150194de8d1edd84",
    LOSSY_JOIN: "d5dddaf866a163f803e6b951b77639f1ca9c6701d9b05af43dd4d99b8204a32d",
}
"""SHA-256 of all that the commits of `a_crowd` say; to be recorded again after a deliberate change."""


def a_crowd(n: int = 300) -> FirstTable:
    """Rows with exact texts and individuals in QI groups of twenty neighbours, some of them in none."""
    rng = random.Random(1)
    problems = [b'"flu"', b'"cough"', b"null"]
    rows = {
        f"key {i}": Row(
            (rng.randrange(10), rng.randrange(6)), (rng.choice(problems),), (), f"person {rng.randrange(n)}"
        )
        for i in range(n)
    }
    by_cells = sorted(range(n - 7), key=lambda i: list(rows.values())[i].codes)
    groups = [np.array(by_cells[first : first + 20]) for first in range(0, n - 20, 20)]
    letters = [LETTER, LETTER]
    return FirstTable(EncodedRows.of_rows(rows, 2), groups, b"secret", 100, letters=letters, statement_ids=("s-2",))


def said_by(commit: Commit) -> list[object]:
    """All that a commit says, but the similarity lists, in an order of its own where it has none."""
    rows = [
        (key, record and (*msgspec.structs.astuple(record.row)[:-1], record.qi_group))  # nobody has nulls
        for key, record in commit.records.items()
    ]
    groups = [(number, state and msgspec.structs.astuple(state)) for number, state in commit.qi_groups.items()]
    meta, outbox = commit.meta, [msgspec.structs.astuple(entry) for entry in commit.outbox]
    stands = (meta.commit, meta.next, meta.release, meta.qi_group_next, meta.outside, meta.digest, meta.secret)
    return [sorted(rows), sorted(groups), outbox, stands, list(commit.statement_ids), commit.replaces]


@pytest.mark.parametrize("form", RECORDED)
def test_a_first_table_is_the_same_to_the_last_byte_as_ever(form: str) -> None:
    """However it is made: in columns or objects, alone or beside other shards."""
    crowd = replace(table(YEARS, CITY, k=2, individual="ssn"), form=form)
    prepared = prepare(crowd, 1, 2, a_crowd())
    done = list(commits(crowd, 1, INPUT, prepared, FoundShard(7, 5, 30, {3: [gone(3), gone(3, 1)]}), 120))
    assert len(done) > 1
    said = msgspec.msgpack.encode([said_by(commit) for commit in done])
    assert hashlib.sha256(said).hexdigest() == RECORDED[form]


# The commits that publish what was held back: whole QI groups, one after the other, gone on with where interrupted.

ROWS = {f"r{i}": Row((i % 10,), (b'"flu"',)) for i in range(9)}
HELD = Meta(commit=3, next=50, secret=b"secret", fingerprint=PEOPLE.fingerprint, snapshot=Snapshot(7, reads=9))


def held(rows: dict[str, Row]) -> State:
    records = [(key, Record(row, PENDING)) for key, row in rows.items()]
    return State(HELD, StoredTable(1, records, [], [], ()))


def grouped(rows: EncodedRows) -> list[np.ndarray]:
    return list(np.array_split(np.argsort(rows.codes[:, 0], kind="stable"), 4))


def first_release_made(meta: Meta, records_max: int, stored: dict[int, QIGroupState] | None = None) -> list[Commit]:
    rows = rows_in(PEOPLE, held(ROWS))
    return list(release_commits(PEOPLE, 0, meta, rows, grouped(rows), CHANGE, stored or {}, records_max))


def test_rows_come_in_the_order_of_their_source_keys_whatever_order_the_store_has() -> None:
    backwards = dict(reversed(ROWS.items()))
    assert rows_in(PEOPLE, held(backwards)).source_keys == sorted(ROWS) == rows_in(PEOPLE, held(ROWS)).source_keys
    assert rows_in(PEOPLE, None).source_keys == []


def test_what_was_held_back_is_one_release_or_several_that_say_how_many_are_done() -> None:
    (whole,) = first_release_made(HELD, 9)
    assert (whole.meta.commit, whole.meta.release, whole.meta.next, whole.meta.qi_group_next) == (4, 0, 50, 5)
    assert whole.meta.snapshot == Snapshot(7, reads=9, ended=CHANGE, released=1, of=1)
    several = first_release_made(HELD, 3)
    assert [(one.meta.commit, one.meta.release, one.meta.outside) for one in several] == [
        (4, 0, 4),
        (5, 1, 5),
        (6, 2, 6),
    ]
    done = [one.meta.snapshot for one in several]
    assert done == [Snapshot(7, reads=9, ended=CHANGE, released=n, of=3) for n in (1, 2, 3)]
    assert sorted(number for one in several for number in one.qi_groups) == sorted(whole.qi_groups) == [1, 2, 3, 4]
    assert several[-1].meta.digest == whole.meta.digest


def test_a_release_goes_on_behind_what_is_done_and_numbers_it_as_it_was_begun() -> None:
    several = first_release_made(HELD, 3)
    groups: dict[int, QIGroupState] = {}
    for done, commit in enumerate(several):
        assert [one.meta for one in first_release_made(HELD if not done else several[done - 1].meta, 3, groups)] == [
            one.meta for one in several[done:]
        ]
        assert first_release_made(commit.meta, 1000, {**groups, **commit.qi_groups})[-1:] == several[done + 1 :][-1:]  # type: ignore[dict-item]
        groups.update(commit.qi_groups)  # type: ignore[arg-type]


def test_where_something_was_published_before_releases_go_on() -> None:
    (whole,) = first_release_made(replace(HELD, release=5), 9)
    assert whole.meta.release == 6


def test_nobody_who_was_held_back_is_a_release_too_and_the_first_one() -> None:
    rows = rows_in(PEOPLE, None)
    (empty,) = release_commits(PEOPLE, 0, HELD, rows, [], CHANGE, {}, 9)
    assert (empty.meta.commit, empty.meta.release, list(empty.outbox)) == (4, 0, [])


def test_a_release_that_was_begun_with_other_groups_is_refused_with_the_mend() -> None:
    whole = first_release_made(HELD, 3)
    with pytest.raises(ShardRefused, match="reload"):
        first_release_made(whole[0].meta, 3, dict(whole[1].qi_groups))  # type: ignore[arg-type]


def test_nothing_is_released_that_is_no_snapshot() -> None:
    with pytest.raises(LawViolated):
        first_release_made(replace(HELD, snapshot=None), 1000)


# The whole table of a shard as one release: what is in it, what goes before it, and what it refuses.

TABLE_GROUPS = {
    7: QIGroupState((3,), (4,), ("a", "b"), ((b'"flu"',), (b"null",))),
    2: QIGroupState((0,), (1,), ("c", "d"), ((b'"flu"',), (b'"flu"',))),
}


def upserts_of(number: int) -> list[OutboxEntry]:
    state = TABLE_GROUPS[number]
    return Changelog(PEOPLE, 0).diff(number, None, PublishedGroup(state.lo, state.hi, state.slots))[0]


def digest_of(*numbers: int) -> int:
    changelog = Changelog(PEOPLE, 0)
    groups = (PublishedGroup(TABLE_GROUPS[n].lo, TABLE_GROUPS[n].hi, TABLE_GROUPS[n].slots) for n in numbers)
    return sum(changelog.diff(n, None, group)[1] for n, group in zip(numbers, groups, strict=True)) & (2**64 - 1)


AT_FIVE = Meta(5, 50, 4, 8, 0, digest_of(2, 7), topic_ids={"live": "first", "changes": "c"})
NOTHING_FOUND = FoundRecords()
NEW_OUTPUT = InputState({"live": "second"}, 1, 0, 100, reach={"live": (3, 9)})
GONE = b'{"qi_group":"0-1","slot":0}'


def republished(
    meta: Meta = AT_FIVE,
    groups: dict[int, QIGroupState] = TABLE_GROUPS,
    found: FoundRecords = NOTHING_FOUND,
    waiting: tuple[OutboxEntry, ...] = (),
    output: InputState = NEW_OUTPUT,
) -> Commit:
    return whole_table(PEOPLE, 0, meta, output, groups, waiting, found)


def test_every_row_goes_out_as_release_1_in_a_commit_from_outside_that_knows_the_new_topic() -> None:
    found = republished()
    assert list(found.outbox) == [*upserts_of(2), *upserts_of(7)]
    ids = {"live": "second", "changes": "c"}
    published = replace(AT_FIVE, commit=6, release=1, topic_ids=ids)
    assert found.meta == replace(published, whole=1, whole_at=6, begins={"live": 9})
    assert not (found.records or found.qi_groups or found.similarity)


def test_an_empty_table_is_no_release_of_a_log_that_held_nothing() -> None:
    found = republished(replace(AT_FIVE, digest=0), {}, output=replace(NEW_OUTPUT, reach={"live": (0, 0)}))
    assert list(found.outbox) == []
    assert (found.meta.commit, found.meta.release) == (6, 0)


def test_an_empty_table_is_a_release_that_removes_what_is_not_there_from_a_log_that_lost_records() -> None:
    found = republished(replace(AT_FIVE, digest=0), {}, waiting=(LETTER,))
    assert list(found.outbox) == [OutboxEntry("live", GONE, None), LETTER]
    assert (found.meta.commit, found.meta.release, found.meta.whole) == (6, 1, 1)


def test_the_first_qi_group_that_ever_was_may_be_removed_again() -> None:
    assert list(republished(replace(AT_FIVE, digest=0, qi_group_next=2), {}).outbox) == [
        OutboxEntry("live", GONE, None)
    ]


def test_in_the_same_topic_releases_go_on_and_in_another_they_follow_what_is_found_there() -> None:
    same = replace(NEW_OUTPUT, topic_ids={"live": "first"})
    assert republished(output=same).meta.release == 5
    at_most = FoundRecords(release=AT_FIVE.release, qi_group=AT_FIVE.qi_group_next - 1)
    assert republished(found=at_most).meta.release == 5
    assert republished(found=FoundRecords(release=2)).meta.release == 3


def test_a_shard_that_never_had_a_qi_group_removes_none_whose_number_it_could_still_give() -> None:
    assert not republished(replace(AT_FIVE, digest=0, qi_group_next=1), {}).outbox


def test_a_reload_of_nobody_says_that_a_log_which_lost_its_beginning_is_whole() -> None:
    """Before: its readers were refused until the first row came, and no worker found anything to mend."""
    torn = FoundShard(7, 5, 30, begins={"live": 9}, is_torn=True)
    output = replace(INPUT, reach={"live": (3, 9)})
    (commit,) = commits(PEOPLE, 1, output, prepare(PEOPLE, 1, 2, first(0)), torn, 1000)
    assert list(commit.outbox) == [gone(1)]
    assert (commit.meta.release, commit.meta.whole, commit.meta.begins) == (6, 6, {"live": 9})
    sound = replace(output, reach={"live": (0, 9)})
    (commit,) = commits(PEOPLE, 1, sound, prepare(PEOPLE, 1, 2, first(0)), FoundShard(7, 5, 30), 1000)
    assert (list(commit.outbox), commit.meta.release) == ([], 5), "there is nothing to be told"


def test_letters_that_wait_go_with_the_rows() -> None:
    waiting = (*upserts_of(2), LETTER)
    assert beside_rows(waiting) == [LETTER]
    assert list(republished(waiting=waiting).outbox) == [*upserts_of(2), *upserts_of(7), LETTER]


def test_what_is_found_and_is_no_row_of_the_table_is_removed() -> None:
    found = FoundRecords(1, 2, {("live", GONE): 1, ("live", upserts_of(7)[1].key): 7})
    outbox = republished(found=found).outbox
    assert list(outbox) == [*upserts_of(2), *upserts_of(7), OutboxEntry("live", GONE, None)]


@pytest.mark.parametrize("found", [FoundRecords(release=AT_FIVE.release + 1), FoundRecords(0, AT_FIVE.qi_group_next)])
def test_a_store_that_knows_less_than_the_output_holds_publishes_nothing(found: FoundRecords) -> None:
    with pytest.raises(ShardRefused, match="lost commits"):
        republished(found=found)


def test_qi_groups_that_are_not_those_of_the_last_commit_are_not_published() -> None:
    with pytest.raises(ShardRefused) as refused:
        republished(groups={7: TABLE_GROUPS[7]})
    assert remedies.reload("people") in str(refused.value)
