"""A database follows the table in transactions and drops no other; SQL over the table reaches nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from streamer.cli.copies import Changed
from streamer.cli.sql_copies import RELEASES, Database, Duckdb, Sqlite, looked_up, quoted, table_name
from streamer.errors import StreamerError, UsageError
from worlds.followed_tables import FollowedTable, followed, rows_of
from worlds.published_groups import FORMS

KINDS: dict[type[Sqlite | Duckdb], Callable[[str], Any]] = {Sqlite: sqlite3.connect, Duckdb: duckdb.connect}


def held(kind: type[Sqlite | Duckdb], path: Path, world: FollowedTable) -> dict[str, list[tuple[object, ...]]]:
    """What another program finds in the database."""
    with KINDS[kind](str(path)) as connection:
        return {
            name: sorted(
                connection.execute(f"SELECT * FROM {quoted(table_name(world.table, name))}").fetchall(), key=repr
            )
            for name in world.frames()
        }


def true_rows(world: FollowedTable) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(rows_of(frame), key=repr) for name, frame in world.frames().items()}


def closed(copy: Database) -> None:
    copy._connection.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_the_database_holds_the_table_and_its_releases(kind: type[Sqlite | Duckdb], form: str, tmp_path: Path) -> None:
    world, path = FollowedTable(form, seed=5), tmp_path / "people.db"
    copy = kind(world.table, path)
    followed(copy, world, batches=12)
    closed(copy)
    assert held(kind, path, world) == true_rows(world)
    with KINDS[kind](str(path)) as connection:
        shown = connection.execute(f"SELECT shard, release, through FROM {RELEASES} WHERE shard >= 0").fetchall()
    assert sorted(shown) == sorted((shard, last.number, last.through) for shard, last in world.last.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_begins_with_the_table_as_it_is_then(kind: type[Sqlite | Duckdb], tmp_path: Path) -> None:
    world, path = FollowedTable("rows", seed=6), tmp_path / "people.db"
    for _ in range(2):
        copy = kind(world.table, path)
        followed(copy, world)
        closed(copy)
        world.releases(7)  # nobody follows
    copy = kind(world.table, path)
    copy.begin(world.frames(), [])
    closed(copy)
    assert held(kind, path, world) == true_rows(world)


@pytest.mark.parametrize("kind", KINDS)
def test_what_ends_in_the_middle_leaves_the_table_before(kind: type[Sqlite | Duckdb], tmp_path: Path) -> None:
    world, path = FollowedTable("rows", seed=7), tmp_path / "people.db"
    copy = kind(world.table, path)
    followed(copy, world)
    before = true_rows(world)
    changed = Changed(world.table, world.releases(4), world.frames)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(copy, "_note", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        copy.change(changed)
    closed(copy)
    assert held(kind, path, world) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form, theirs", [("rows", "patients"), ("rows", "PATIENTS"), ("lossy-join", "patients_qit")])
def test_a_table_of_somebody_else_is_left_alone(
    kind: type[Sqlite | Duckdb], form: str, theirs: str, tmp_path: Path
) -> None:
    """Also where this table was copied into the database before, in another form."""
    world, path = FollowedTable("rows" if form == "lossy-join" else "groups", seed=8), tmp_path / "people.db"
    if form == "lossy-join":
        copy = kind(world.table, path)
        copy.begin(world.frames(), [])
        closed(copy)
    connection = KINDS[kind](str(path))
    connection.execute(f"CREATE TABLE {quoted(theirs)} (mine INTEGER)")
    connection.execute(f"INSERT INTO {quoted(theirs)} VALUES (7)")
    connection.commit()
    connection.close()
    world = FollowedTable(form, seed=8)
    copy = kind(world.table, path)
    with pytest.raises(UsageError, match="did not make"):
        copy.begin(world.frames(), [])
    closed(copy)
    with KINDS[kind](str(path)) as connection:
        assert connection.execute(f"SELECT mine FROM {quoted(theirs)}").fetchall() == [(7,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_goes_over_to_another_form_leaves_nothing_of_the_former(
    kind: type[Sqlite | Duckdb], tmp_path: Path
) -> None:
    path = tmp_path / "people.db"
    for form in ("rows", "lossy-join", "groups"):
        world = FollowedTable(form, seed=14)
        copy = kind(world.table, path)
        followed(copy, world, batches=2)
        made = {name for (name,) in copy._connection.execute(copy.names_used).fetchall() if "patients" in name.lower()}
        closed(copy)
        names = {table_name(world.table, name) for name in world.frames()}
        assert {name for name in made if not name.endswith("_record")} == names


def test_a_run_that_another_has_taken_the_table_from_ends(tmp_path: Path) -> None:
    """It would set the table back: DuckDB shuts a second one out by itself."""
    world, path = FollowedTable("rows", seed=17), tmp_path / "people.db"
    first, second = Sqlite(world.table, path), Sqlite(world.table, path)
    followed(first, world)
    late = Changed(world.table, world.releases(4), world.frames)
    followed(second, world)
    with pytest.raises(StreamerError, match="another `subscribe` has begun"):
        first.change(late)
    for copy in (first, second):
        closed(copy)
    assert held(Sqlite, path, world) == true_rows(world)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_name_can_be_kept(kind: type[Sqlite | Duckdb], tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=18)
    world.table = replace(world.table, name="given")
    copy = kind(world.table, tmp_path / "people.db")
    followed(copy, world)
    closed(copy)
    assert held(kind, tmp_path / "people.db", world) == true_rows(world)


def test_a_database_that_is_locked_is_told_without_what_it_says(tmp_path: Path) -> None:
    world, path = FollowedTable("rows", seed=15), tmp_path / "people.db"
    copy = Sqlite(world.table, path)
    copy._connection.execute("PRAGMA busy_timeout = 50")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StreamerError, match=r"cannot be written \(OperationalError\): is it locked"):
            copy.begin(world.frames(), [])
        other.execute("ROLLBACK")
    other.close()
    closed(copy)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_database_is_refused(kind: type[Sqlite | Duckdb], tmp_path: Path) -> None:
    (tmp_path / "people.db").write_text("canary " * 1000)
    with pytest.raises(UsageError, match="cannot be opened as a database"):
        kind(FollowedTable("rows", seed=9).table, tmp_path / "people.db")


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


def test_days_and_instants_have_types_of_their_own_or_are_the_texts_that_are_published(tmp_path: Path) -> None:
    born = pd.DataFrame(
        {
            "day": pd.Series(["1980-01-31"], dtype="datetime64[s]"),
            "at": pd.to_datetime(pd.Series(["1980-01-31T12:00:00Z"])),
        }
    )
    copy = Sqlite(FollowedTable("rows", seed=1).table, tmp_path / "people.db")
    copy._connection.execute("CREATE TABLE moments (day, at)")
    copy.insert("moments", born)
    assert copy._connection.execute("SELECT * FROM moments").fetchall() == [("1980-01-31", "1980-01-31T12:00:00Z")]
    closed(copy)


def test_a_number_that_sqlite_has_no_type_for_is_text(tmp_path: Path) -> None:
    copy = Sqlite(FollowedTable("rows", seed=1).table, tmp_path / "people.db")
    copy._connection.execute("CREATE TABLE numbers (a, b)")
    copy.insert("numbers", pd.DataFrame({"a": [1 << 70, 7], "b": [None, 0.5]}, dtype=object))
    assert copy._connection.execute("SELECT a, b FROM numbers").fetchall() == [(str(1 << 70), None), (7, 0.5)]
    closed(copy)
