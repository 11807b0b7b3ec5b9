"""The folder of changes: its files, folded as its rule says, are the table; a second run voids what was before."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from streamer.cli.changes_folder import ChangesFolder
from streamer.errors import UsageError
from streamer.incremental.release.frames import PUBLISHED
from worlds.followed_tables import FollowedTable, followed, rows_of
from worlds.published_groups import FORMS

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
        followed(ChangesFolder(world.table, tmp_path, noon), world)
        assert_folds_to_the_table(tmp_path, world)
        world.releases(5)  # nobody follows


def test_a_run_that_finds_an_empty_table_voids_what_was_before(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=12)
    followed(ChangesFolder(world.table, tmp_path, noon), world)
    empty = FollowedTable("rows", seed=12)
    ChangesFolder(empty.table, tmp_path, noon).begin(empty.frames(), [])
    assert_folds_to_the_table(tmp_path, empty)


def test_files_lie_by_day_and_hold_whole_releases(tmp_path: Path) -> None:
    world = FollowedTable("rows", seed=13)
    followed(ChangesFolder(world.table, tmp_path, noon), world, batches=2)
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
    with pytest.raises(UsageError, match="no file of changes"):
        ChangesFolder(FollowedTable("rows", seed=1).table, tmp_path, noon)
