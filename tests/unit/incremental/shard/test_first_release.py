"""The commits that publish what was held back: whole QI groups, one after the other, gone on with where interrupted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamer.errors import LawViolated, ShardRefused
from streamer.incremental.groups.kept import PENDING, KeptTable, Origin, QIGroupState, Record
from streamer.incremental.shard.first_release import release_commits, rows_in
from streamer.incremental.store.base import Commit, Meta, State
from streamer.incremental.store.snapshot import CHANGE, Snapshot
from streamer.table.encode import EncodedRows
from streamer.table.row import Row
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)
ROWS = {f"r{i}": Row((i % 10,), (b'"flu"',)) for i in range(9)}
HELD = Meta(commit=3, next=50, secret=b"secret", fingerprint=PEOPLE.fingerprint, snapshot=Snapshot(7, reads=9))


def held(rows: dict[str, Row]) -> State:
    records = [(key, Record(row, PENDING)) for key, row in rows.items()]
    return State(HELD, KeptTable(1, records, [], [], ()))


def grouped(rows: EncodedRows) -> list[np.ndarray]:
    return list(np.array_split(np.argsort(rows.codes[:, 0], kind="stable"), 4))


def made(meta: Meta, records_max: int, stored: dict[int, QIGroupState] | None = None) -> list[Commit]:
    rows = rows_in(PEOPLE, held(ROWS))
    return list(release_commits(PEOPLE, 0, meta, rows, grouped(rows), CHANGE, stored or {}, records_max))


def test_rows_come_in_the_order_of_their_source_keys_whatever_order_the_store_has() -> None:
    backwards = dict(reversed(ROWS.items()))
    assert rows_in(PEOPLE, held(backwards)).source_keys == sorted(ROWS) == rows_in(PEOPLE, held(ROWS)).source_keys
    assert rows_in(PEOPLE, None).source_keys == []


def test_rows_that_fit_are_one_commit_and_release_0() -> None:
    (commit,) = made(HELD, 1000)
    meta = commit.meta
    assert (meta.commit, meta.outside, meta.release, meta.next, meta.qi_group_next) == (4, 4, 0, 50, 5)
    assert meta.snapshot == Snapshot(7, reads=9, ended=CHANGE, released=1, of=1)
    assert (len(commit.outbox), len(commit.records), len(commit.qi_groups)) == (9, 9, 4)
    assert not commit.replaces
    assert commit.similarity


def test_more_rows_go_out_in_several_releases_of_whole_groups_one_after_the_other() -> None:
    commits = made(HELD, 3)
    assert [commit.meta.release for commit in commits] == list(range(len(commits)))
    assert [commit.meta.snapshot.released for commit in commits if commit.meta.snapshot] == [1, 2, 3]
    assert [commit.meta.snapshot.holds for commit in commits if commit.meta.snapshot] == [True, True, False]
    assert sorted(key for commit in commits for key in commit.records) == sorted(ROWS)
    assert [bool(commit.similarity) for commit in commits] == [False, False, True]
    for commit in commits:
        assert commit.origins == dict.fromkeys(commit.qi_groups, Origin("loaded", commit.meta.commit))
    assert commits[-1].meta.digest == made(HELD, 1000)[0].meta.digest


def test_an_interrupted_release_goes_on_behind_what_is_stored() -> None:
    whole = made(HELD, 3)
    assert made(whole[0].meta, 1000, dict(whole[0].qi_groups)) == whole[1:]  # type: ignore[arg-type]


def test_a_release_that_was_begun_with_other_groups_is_refused_with_the_mend() -> None:
    whole = made(HELD, 3)
    with pytest.raises(ShardRefused, match="start-anew"):
        made(whole[0].meta, 3, dict(whole[1].qi_groups))  # type: ignore[arg-type]


def test_rows_that_hold_no_model_stay_pending_and_the_shard_reads_on() -> None:
    rows = rows_in(PEOPLE, held({"r0": ROWS["r0"]}))
    (commit,) = release_commits(PEOPLE, 0, HELD, rows, [], CHANGE, {}, 1000)
    assert (commit.meta.release, commit.meta.qi_group_next, list(commit.outbox)) == (0, 1, [])
    assert commit.meta.snapshot is not None
    assert not commit.meta.snapshot.holds


def test_nothing_is_released_that_is_no_snapshot() -> None:
    with pytest.raises(LawViolated):
        made(replace(HELD, snapshot=None), 1000)
