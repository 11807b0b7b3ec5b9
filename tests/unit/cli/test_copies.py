"""Copies of the published table say what the table says, after every batch of releases, whatever the form."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamer.cli.copies import ArrowFile, Changed, CsvFile, ParquetFile, check_columns
from streamer.errors import ConfigError
from streamer.table.schema import KeptColumn, Table
from streamer.table.written_files import table_files
from worlds.followed_tables import FollowedTable, followed, rows_of
from worlds.published_groups import FORMS


@pytest.mark.parametrize("form", FORMS)
def test_files_hold_the_table_as_it_is_now(form: str, tmp_path: Path) -> None:
    for kind, path in ((CsvFile, "t.csv"), (ParquetFile, "t.parquet"), (ArrowFile, "t.arrow")):
        world = FollowedTable(form, seed=3)
        followed(kind(world.table, tmp_path / path), world)
        frames = world.frames()
        for frame, file in zip(frames.values(), table_files(tmp_path / path, list(frames)), strict=True):
            assert rows_of(read(file)) == rows_of(frame.iloc[:, 1:])


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".csv":
        return pd.read_csv(path, keep_default_na=False, na_values=[""])
    arrow = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    return arrow.to_pandas()


def test_what_several_releases_did_to_one_record_is_told_once() -> None:
    world = FollowedTable("rows", seed=1)
    releases = world.releases(40)
    changed = Changed(world.table, releases, world.frames)
    assert len(set(changed.records)) == len(changed.records)
    (told,), (whole,) = changed.frames.values(), world.frames().values()
    pd.testing.assert_frame_equal(told, whole)


def test_a_column_of_the_name_that_copies_need_is_refused() -> None:
    table = Table("people", ("id",), (), (KeptColumn("_record", sensitive=True),), k=2)
    with pytest.raises(ConfigError, match=r"_record.*rename"):
        check_columns(table)
