"""Copies of the published table that `subscribe` keeps current: what they are told, and those that are files.

The rules of this file
----------------------
* A copy is told the whole table first, then every batch of complete releases. A reader of the topic always begins at
  its beginning, so a copy needs no memory of where it stood: what it held before is replaced, at once.
* Whoever looks at a copy sees whole releases only: a file appears as a whole, a database changes in one transaction.
* What a batch of releases changed is netted: of each record the last value counts. The whole table is made only for a
  copy that asks for it: a file, which is written anew. What the others do costs what the releases are, not the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from streamer.errors import ConfigError
from streamer.incremental.release.arrow import require, to_arrow
from streamer.incremental.release.fold import Release
from streamer.incremental.release.frames import RECORD, recorded_frames
from streamer.table.schema import Table
from streamer.table.written_files import atomic_writers, table_files, write_rows

Frames = Mapping[str, pd.DataFrame]
"""Recorded frames, by name."""


@dataclass(frozen=True)
class Changed:
    """What some releases did, given in their order; whole: makes the table as it is behind them.

    What a copy does not ask for is not made.
    """

    table: Table
    releases: Sequence[Release]
    whole: Callable[[], Frames]

    @cached_property
    def records(self) -> tuple[str, ...]:
        """The keys of the records that are gone or replaced, each once."""
        return tuple(key.decode() for key in self._last)

    @cached_property
    def frames(self) -> Frames:
        """The rows that are there in their stead. Raises LawViolated."""
        return recorded_frames(self.table, [(key, value) for key, value in self._last.items() if value is not None])

    @cached_property
    def _last(self) -> dict[bytes, bytes | None]:
        return {key: value for release in self.releases for key, value in release.records}


class Copy(Protocol):
    """Where the table is kept current."""

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        """Replaces whatever was there by the whole table; releases: the last ones that it shows."""

    def change(self, changed: Changed) -> None:
        """Follows some releases."""


def check_columns(table: Table) -> None:
    """Raises ConfigError where the table has a column of the name that copies keep records under."""
    if RECORD in {column.name for column in (*table.attributes, *table.kept)}:
        raise ConfigError(f"column {RECORD!r}: a database or a folder needs this name for itself: rename the column")


class _Files:
    """One file, or one for each of several tables, written anew whenever the table has changed."""

    text = False

    def __init__(self, table: Table, path: Path) -> None:
        self._table, self._path = table, path

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        with atomic_writers(table_files(self._path, list(frames)), text=self.text) as files:
            for frame, file in zip(frames.values(), files, strict=True):
                self.write(frame.iloc[:, 1:], file)

    def change(self, changed: Changed) -> None:
        self.begin(changed.whole(), changed.releases)

    def write(self, frame: pd.DataFrame, file: Any) -> None:
        raise NotImplementedError


class CsvFile(_Files):
    """CSV: numbers as shortest decimals, a null as an empty cell."""

    text = True

    def write(self, frame: pd.DataFrame, file: Any) -> None:
        write_rows(frame, file)


class ParquetFile(_Files):
    """Parquet, in the types of `streamer.incremental.release.arrow`."""

    def write(self, frame: pd.DataFrame, file: Any) -> None:
        require("pyarrow.parquet", "parquet").write_table(to_arrow(self._table, frame), file)


class ArrowFile(_Files):
    """Arrow's IPC file format, also known as Feather."""

    def write(self, frame: pd.DataFrame, file: Any) -> None:
        arrow_table = to_arrow(self._table, frame)
        with require("pyarrow", "parquet").ipc.new_file(file, arrow_table.schema) as writer:
            writer.write_table(arrow_table)
