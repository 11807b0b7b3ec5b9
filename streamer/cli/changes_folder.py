"""The changes of the published table as a folder of Parquet files, one for every look at the topic that found any.

The rules of this file
----------------------
* Files lie by day, as Hive has it: `<folder>/date=2026-11-22/000000000042.parquet`. The number is that of the file's
  first change, `seq`, which grows over the whole folder; a release is one number. A file appears as a whole.
* Every run of `subscribe` begins with a file whose first row says `op` = start, followed by the whole table: what has a
  lower `seq` counts no more. Then `upsert` and `removal`: of each `_record` the rows of the highest `seq` count.
* So the table as it is now is (in DuckDB's SQL):

      WITH seen AS (FROM read_parquet('folder/**/*.parquet')),
           run  AS (FROM seen WHERE seq >= (SELECT max(seq) FROM seen WHERE op = 'start'))
      FROM run WHERE op = 'upsert' AND (_record, seq) IN (SELECT (_record, max(seq)) FROM run GROUP BY _record)

* A lossy join has a folder for each of its tables in it, `qit` and `stt`.
* One run at a time writes into a folder, of one table: a lock that goes with the process (`.lock`) and the
  table's name (`.table`) shut any other out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from streamer.cli.copies import Changed, Frames, check_columns
from streamer.errors import UsageError
from streamer.incremental.release.arrow import require, to_arrow
from streamer.incremental.release.fold import Release
from streamer.incremental.release.frames import PUBLISHED, RECORD, frame_names
from streamer.table.schema import Table
from streamer.table.written_files import atomic_writer

START, UPSERT, REMOVAL = "start", "upsert", "removal"
WHERE = ("shard", "release", "through", "outside")
DIGITS = 12
"""Of a file's name: names sort as numbers."""


def _now() -> datetime:
    return datetime.now(UTC)


class ChangesFolder:
    """A folder of changes; clock: tells the time that stands beside them."""

    def __init__(self, table: Table, folder: Path, clock: Callable[[], datetime] = _now) -> None:
        check_columns(table)
        self._table, self._folder, self._clock = table, folder, clock
        self._parquet = require("pyarrow.parquet", "parquet")
        self._lock = _locked(folder, table.name)
        self._seq = self._last_seq() + 1

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        for name, frame in frames.items():
            marker = self._rows(frame.iloc[:0].reindex(range(1)), START)
            self._write(name, self._seq, [marker, self._rows(frame, UPSERT)])
        self._seq += 1

    def change(self, changed: Changed) -> None:
        first = self._seq
        files: dict[str, list[Any]] = {name: [] for name in frame_names(self._table)}
        for release in changed.releases:
            alone = Changed(self._table, [release], changed.whole)
            for name, frame in alone.frames.items():
                there = set(frame[RECORD])
                gone = [record for record in alone.records if record not in there]
                removed = frame.iloc[:0].reindex(range(len(gone))).assign(**{RECORD: gone})
                files[name] += [self._rows(frame, UPSERT, release), self._rows(removed, REMOVAL, release)]
            self._seq += 1
        for name, parts in files.items():
            self._write(name, first, parts)

    def _rows(self, frame: pd.DataFrame, op: str, release: Release | None = None) -> Any:
        """Rows of a recorded frame behind the columns that say what happened to them, and when."""
        arrow, n = require("pyarrow", "parquet"), len(frame)
        where = (None,) * 4 if release is None else (release.shard, release.number, release.through, release.outside)
        kinds = (arrow.int32(), arrow.int64(), arrow.int64(), arrow.bool_())
        columns = {
            "seq": arrow.array([self._seq] * n, arrow.int64()),
            "at": arrow.array([self._clock()] * n, arrow.timestamp("ms", tz="UTC")),
            "op": arrow.array([op] * n, arrow.string()),
        }
        for name, value, kind in zip(WHERE, where, kinds, strict=True):
            columns[name] = arrow.array([value] * n, kind)
        published = to_arrow(self._table, frame)
        return arrow.table({**columns, **{name: published[name] for name in published.column_names}})

    def _write(self, name: str, seq: int, parts: Sequence[Any]) -> None:
        folder = (self._folder if name == PUBLISHED else self._folder / name) / f"date={self._clock():%Y-%m-%d}"
        _make(folder)
        with atomic_writer(folder / f"{seq:0{DIGITS}}.parquet") as file:
            self._parquet.write_table(require("pyarrow", "parquet").concat_tables(parts), file)

    def _last_seq(self) -> int:
        """The highest number of a change in the folder; 0 where there is none."""
        files = sorted(self._folder.glob("**/date=*/*.parquet"), key=lambda path: path.stem)
        if not files:
            return 0
        try:
            return int(max(self._parquet.read_table(files[-1], columns=["seq"])["seq"].to_pylist()))
        except (OSError, ValueError, KeyError):
            raise UsageError(
                f"{files[-1]}: is no file of changes: name an empty folder, or one of this command"
            ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None


def _locked(folder: Path, table_name: str) -> FileLock:
    """The folder for this process and this table alone. Raises UsageError."""
    _make(folder)
    lock, owner = FileLock(folder / ".lock", timeout=0), folder / ".table"
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(f"{folder}: another `subscribe` keeps this folder: only one may write into it") from None
    if owner.exists() and owner.read_text() != table_name:
        lock.release()
        raise UsageError(f"{folder}: holds changes of another table: name another folder")
    owner.write_text(table_name)
    return lock
