"""Copies of the published table: files, folders of changes and databases hold what a reader would see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from streamer.copies import (
    COPIES,
    RELEASES,
    TABLES_TABLE,
    Changed,
    ChangesFolder,
    Duckdb,
    check_columns,
    looked_up,
    quoted,
    table_name,
)
from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.frames import PUBLISHED
from streamer.table.codes import KeptColumn
from streamer.table.files import table_files
from streamer.table.schema import Table
from worlds.published_groups import FORMS, FollowedTable, followed, rows_of


@pytest.mark.parametrize("form", FORMS)
def test_files_hold_the_table_as_it_is_now(form: str, tmp_path: Path) -> None:
    for kind, path in (("csv", "t.csv"), ("parquet", "t.parquet")):
        world = FollowedTable(form, seed=3)
        followed(COPIES[kind](world.table, tmp_path / path, "keep"), world)
        frames = world.frames()
        for frame, file in zip(frames.values(), table_files(tmp_path / path, list(frames)), strict=True):
            assert rows_of(read(file)) == rows_of(frame.iloc[:, 1:])


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".csv":
        return pd.read_csv(path, keep_default_na=False, na_values=[""])
    return pq.read_table(path).to_pandas()


def test_the_changes_of_several_releases_have_each_record_once() -> None:
    world = FollowedTable("rows", seed=1)
    releases = world.releases(40)
    changed = Changed(world.table, releases, world.frames)
    assert len(set(changed.records)) == len(changed.records)
    (frame,), (whole,) = changed.frames.values(), world.frames().values()
    pd.testing.assert_frame_equal(frame, whole)


def test_a_column_of_the_name_that_copies_need_is_refused() -> None:
    table = Table("people", ("id",), (), (KeptColumn("_record", sensitive=True),), k=2)
    with pytest.raises(ConfigError, match=r"_record.*rename"):
        check_columns(table)


# -- a folder of changes -----------------------------------------------------------------------------------------------

NOW = """
WITH seen AS (FROM read_parquet('{folder}/**/*.parquet')),
     run  AS (FROM seen WHERE seq >= (SELECT max(seq) FROM seen WHERE op = 'start'))
SELECT {columns} FROM run
WHERE op = 'upsert' AND (_record, seq) IN (SELECT (_record, max(seq)) FROM run GROUP BY _record)
"""


def noon() -> datetime:
    return datetime(2026, 2, 3, 12, tzinfo=UTC)


def assert_folds_to_the_table(folder: Path, world: FollowedTable) -> None:
    for name, frame in world.frames().items():
        here = folder if name == PUBLISHED else folder / name
        columns = ", ".join(f'"{column}"' for column in frame.columns)
        found = duckdb.sql(NOW.format(folder=here, columns=columns)).fetchall()
        assert sorted(found, key=repr) == sorted(rows_of(frame), key=repr)


@pytest.mark.parametrize("form", FORMS)
def test_the_files_fold_to_the_table_after_every_run(form: str, tmp_path: Path) -> None:
    world = FollowedTable(form, seed=11)
    for _ in range(2):
        folder = ChangesFolder(world.table, tmp_path, noon)
        followed(folder, world)
        folder.close()  # as the end of its process does
        assert_folds_to_the_table(tmp_path, world)
        world.releases(5)  # nobody follows


def test_a_run_that_finds_an_empty_table_voids_what_was_before(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=12)
    folder = ChangesFolder(world.table, tmp_path, noon)
    followed(folder, world)
    folder.close()
    empty = FollowedTable("rows", seed=12)
    with closing(ChangesFolder(empty.table, tmp_path, noon)) as folder:
        folder.begin(empty.frames(), [])
    assert_folds_to_the_table(tmp_path, empty)


def test_files_lie_by_day_and_hold_whole_releases(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=13)
    with closing(ChangesFolder(world.table, tmp_path, noon)) as folder:
        followed(folder, world, batches=2)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet"))
    assert files == [f"date=2026-02-03/{number:012}.parquet" for number in (1, 2, 3)]
    per_file = duckdb.sql(
        "SELECT filename, count(DISTINCT (shard, release)) "
        f"FROM read_parquet('{tmp_path}/**/*.parquet', filename=true) "
        "WHERE op <> 'start' AND shard IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert [count for _, count in per_file] == [1, 2]


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "date=2026-01-01").mkdir()
    (tmp_path / "date=2026-01-01" / "1.parquet").write_text("no Parquet")
    with pytest.raises(UsageError, match="not a file of changes"):
        ChangesFolder(FollowedTable("rows", seed=1).table, tmp_path, noon)


def test_a_second_run_beside_the_first_is_refused(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=5)
    folder = ChangesFolder(world.table, tmp_path, noon)
    with pytest.raises(UsageError, match="another `subscribe` writes to this folder"):
        ChangesFolder(world.table, tmp_path, noon)
    folder.close()
    ChangesFolder(world.table, tmp_path, noon).close()


def test_a_folder_of_another_table_is_refused(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=5)
    ChangesFolder(world.table, tmp_path, noon).close()
    with pytest.raises(UsageError, match="changes of another table"):
        ChangesFolder(replace(world.table, name="others"), tmp_path, noon)


def test_a_removed_row_says_nothing_of_its_values(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=16)
    with closing(ChangesFolder(world.table, tmp_path, noon)) as folder:
        followed(folder, world)
    removed = "SELECT count(*), count(problem) FROM read_parquet('{}/**/*.parquet') WHERE op <> 'upsert'"
    ((rows, values),) = duckdb.sql(removed.format(tmp_path)).fetchall()
    assert rows > 1 and values == 0


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def held(path: Path, world: FollowedTable) -> dict[str, list[tuple[object, ...]]]:
    """What another program finds in the database."""
    with duckdb.connect(str(path)) as connection:
        return {
            name: sorted(
                connection.execute(f"SELECT * FROM {quoted(table_name(world.table, name))}").fetchall(), key=repr
            )
            for name in world.frames()
        }


def true_rows(world: FollowedTable) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(rows_of(frame), key=repr) for name, frame in world.frames().items()}


@pytest.mark.parametrize("form", FORMS)
def test_the_database_holds_the_table_and_its_releases(form: str, tmp_path: Path) -> None:
    world, path = FollowedTable(form, seed=5), tmp_path / "people.duckdb"
    copy = Duckdb(world.table, path)
    followed(copy, world, batches=12)
    copy.close()
    assert held(path, world) == true_rows(world)
    with duckdb.connect(str(path)) as connection:
        shown = connection.execute(f"SELECT shard, release, through FROM {RELEASES} WHERE shard >= 0").fetchall()
    assert sorted(shown) == sorted((shard, last.number, last.through) for shard, last in world.last.items())


def test_a_second_run_begins_with_the_table_as_it_is_then(tmp_path: Path) -> None:
    world, path = FollowedTable("rows", seed=6), tmp_path / "people.duckdb"
    for _ in range(2):
        copy = Duckdb(world.table, path)
        followed(copy, world)
        copy.close()
        world.releases(7)  # nobody follows
    copy = Duckdb(world.table, path)
    copy.begin(world.frames(), [])
    copy.close()
    assert held(path, world) == true_rows(world)


class Interrupted(list[FoldedRelease]):
    """Releases of which the second look at them is interrupted."""

    looks = 0

    def __iter__(self) -> Iterator[FoldedRelease]:
        self.looks += 1
        if self.looks > 1:
            raise KeyboardInterrupt
        return super().__iter__()


def test_what_ends_in_the_middle_leaves_the_table_before(tmp_path: Path) -> None:
    world, path = FollowedTable("rows", seed=7), tmp_path / "people.duckdb"
    copy = Duckdb(world.table, path)
    followed(copy, world)
    before = true_rows(world)
    changed = Changed(world.table, Interrupted(world.releases(4)), world.frames)
    assert changed.records, "they are looked at once before the last thing that is written"
    with pytest.raises(KeyboardInterrupt):
        copy.change(changed)
    copy.close()
    assert held(path, world) == before


@pytest.mark.parametrize("form, theirs", [("rows", "patients"), ("rows", "PATIENTS"), ("lossy-join", "patients_qit")])
def test_a_table_of_somebody_else_is_left_alone(form: str, theirs: str, tmp_path: Path) -> None:
    """Also where this table was copied into the database before, in another form."""
    world, path = FollowedTable("rows" if form == "lossy-join" else "groups", seed=8), tmp_path / "people.duckdb"
    if form == "lossy-join":
        copy = Duckdb(world.table, path)
        copy.begin(world.frames(), [])
        copy.close()
    connection = duckdb.connect(str(path))
    connection.execute(f"CREATE TABLE {quoted(theirs)} (mine INTEGER)")
    connection.execute(f"INSERT INTO {quoted(theirs)} VALUES (7)")
    connection.commit()
    connection.close()
    world = FollowedTable(form, seed=8)
    copy = Duckdb(world.table, path)
    with pytest.raises(UsageError, match="did not create"):
        copy.begin(world.frames(), [])
    copy.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute(f"SELECT mine FROM {quoted(theirs)}").fetchall() == [(7,)]


def test_a_table_that_goes_over_to_another_form_leaves_nothing_of_the_former(tmp_path: Path) -> None:
    path = tmp_path / "people.duckdb"
    for form in ("rows", "lossy-join", "groups"):
        world = FollowedTable(form, seed=14)
        copy = Duckdb(world.table, path)
        followed(copy, world, batches=2)
        copy.close()
        with duckdb.connect(str(path)) as connection:
            made = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        names = {table_name(world.table, name) for name in world.frames()}
        assert {name for (name,) in made} == {*names, RELEASES, TABLES_TABLE}


def test_a_table_of_any_name_can_be_kept(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=18)
    world.table = replace(world.table, name="given")
    copy = Duckdb(world.table, tmp_path / "people.duckdb")
    followed(copy, world)
    copy.close()
    assert held(tmp_path / "people.duckdb", world) == true_rows(world)


def test_a_database_that_another_program_keeps_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.duckdb"
    holds = f"import duckdb, sys; held = duckdb.connect({str(path)!r}); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="does another program use it"):
            Duckdb(FollowedTable("rows", seed=9).table, path)
        other.communicate()
    Duckdb(FollowedTable("rows", seed=9).table, path).close()


def test_a_database_that_cannot_be_written_is_told_without_what_it_says(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=15)
    copy = Duckdb(world.table, tmp_path / "people.duckdb")
    copy.close()
    with pytest.raises(StreamerError, match=r"cannot be written \(ConnectionException\): is it locked"):
        copy.begin(world.frames(), [])


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "people.duckdb").write_text("canary " * 1000)
    with pytest.raises(UsageError, match="cannot be opened as a database"):
        Duckdb(FollowedTable("rows", seed=9).table, tmp_path / "people.duckdb")


def test_a_query_sees_the_table_and_nothing_else(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=10)
    world.releases(9)
    (tmp_path / "other.csv").write_text("a\n1\n")
    name = quoted(world.table.name)
    (frame,) = world.frames().values()
    assert looked_up(world.table, world.frames(), f"SELECT count(*) AS n FROM {name}").to_dict("records") == [
        {"n": len(frame)}
    ]
    for query in (f"FROM '{tmp_path / 'other.csv'}'", "SELECT nothing", "not SQL"):
        with pytest.raises(UsageError, match="--sql"):
            looked_up(world.table, world.frames(), query)
