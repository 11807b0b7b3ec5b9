"""The rows of a source, part by part, each put where its shard waits for it.

Rows are in memory part by part, then shard by shard; meanwhile they wait in a `Spill`, and so do finished shards.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from streamer.engines.pool import CallPool, written
from streamer.errors import ConfigError, UsageError
from streamer.incremental.events.key_form import AnyKeyForm, shard_of
from streamer.incremental.sealed.alpha import frequencies
from streamer.table.arrays import Ints
from streamer.table.codes import Spellings
from streamer.table.data_warnings import (
    most_spellings,
    several_spellings,
    unknown_category_rows,
    writing_of_keys,
)
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.parquet_files import RowPart, is_parquet_source, parquet_parts, read_part
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from streamer.table.stray_rows import TITLES, suspects_among

EMPTY_IT = "`streamer produce --truncate` empties a table on purpose"

PART_ROWS = 100_000  # of the source, in memory at the same time, before they lie in the files of their shards
SPILL_IN_MEMORY_BYTES = 16_000_000  # less needs no file


class OwnFile:
    """A file without a name: nobody else can open it, and it is gone with the process."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(SPILL_IN_MEMORY_BYTES)  # noqa: SIM115 - `close` closes it
        self._places: dict[int, list[int]] = defaultdict(list)
        self._lock = Lock()
        self.close = self._file.close

    def add(self, shard: int, piece: object, at: int = 0) -> None:
        """Puts a piece of a shard there; they must come in the order of their rows. Raises ConfigError without room."""
        try:
            with self._lock:
                self._places[shard].append(self._file.seek(0, os.SEEK_END))
                pickle.dump(piece, self._file, pickle.HIGHEST_PROTOCOL)
                self._file.flush()
        except OSError as error:
            folder = tempfile.tempdir or "no folder for temporary files"  # `gettempdir` raises if there is none
            raise ConfigError(
                f"{folder}: cannot hold the rows that wait for their shard: {error.strerror}; give the variable TMPDIR "
                "a folder with more room"
            ) from None

    def of(self, shard: int) -> Iterator[Any]:
        """The pieces of a shard, in the order of their rows."""
        for begin in self._places[shard]:
            with self._lock:
                self._file.seek(begin)
                piece = pickle.load(self._file)
            yield piece


@dataclass(frozen=True)
class SharedFolder:
    """A folder that other machines see under the same path; each piece is a file, whole or not there."""

    path: Path

    def add(self, shard: int, piece: object, at: int = 0) -> None:
        """Puts a piece of a shard there; at: the number of its first row. The same piece may come again."""
        written(self.path / f"{shard}-{at:018}", piece)

    def of(self, shard: int) -> Iterator[Any]:
        """The pieces of a shard, in the order of their rows."""
        for path in sorted(self.path.glob(f"{shard}-*")):
            yield pickle.loads(path.read_bytes())


Spill = OwnFile | SharedFolder  # where pieces of shards wait


@dataclass
class RowCounts:
    """Counts of rows on their way."""

    n_read: int = 0
    n_chosen: int = 0  # of the shards that are loaded
    frequencies: dict[int, Counter[str | None]] = field(default_factory=dict, repr=False)  # as `frequencies` has them
    unlisted: Counter[str] = field(default_factory=Counter)  # by column, rows with a category that only `other` takes

    spelt: dict[str, Spellings] = field(default_factory=dict)  # by column, of the part of the rows that has most

    keys: dict[str, str] = field(default_factory=dict)  # as `writing_of_keys` has them, of the first part with any

    stray: dict[int, str] = field(default_factory=dict)  # by number from 0, rows that may be no data

    titles: str = ""  # what is said of titles above the header

    def add(self, other: RowCounts) -> None:
        """Counts other rows, too."""
        self.n_read += other.n_read
        self.n_chosen += other.n_chosen
        self.unlisted.update(other.unlisted)
        self.spelt = most_spellings(self.spelt, other.spelt)
        self.keys = other.keys | self.keys
        self.stray |= other.stray
        self.titles = self.titles or other.titles
        for i, counts in other.frequencies.items():
            self.frequencies.setdefault(i, Counter()).update(counts)


@dataclass(frozen=True)
class WaitingRows:
    """The rows of shards, which wait for their turn in a spill; those of other shards are only counted."""

    table: Table
    chosen: frozenset[int]
    spill: Spill
    counted: RowCounts = field(default_factory=RowCounts)

    def add(self, shard: int, rows: EncodedRows, numbers: Ints | None = None) -> None:
        """Takes some rows of a shard. numbers: of their rows in a file, (n,), if a key may come again."""
        n, is_chosen = len(rows.source_keys), shard in self.chosen
        self.counted.add(RowCounts(n, n * is_chosen, dict(frequencies(self.table, rows.values))))
        if is_chosen and n:
            self.spill.add(shard, (rows, numbers), 0 if numbers is None else int(numbers[0]))

    def route(self, frame: pd.DataFrame, first_row: int, key_form: AnyKeyForm | None, shards: int) -> None:
        """Puts rows of a file into the shards that get their messages. key_form: None with one shard.

        Raises ConfigError for a row that is refused.
        """
        rows = Encoder(self.table).columns(frame, first_row).by_row()
        numbers = np.arange(first_row, first_row + len(frame))
        unlisted = Counter(unknown_category_rows(self.table, frame))
        spelt, keys = several_spellings(self.table, frame), writing_of_keys(self.table, frame)
        stray, titles = suspects_among(frame, first_row - 1), frame.attrs.get(TITLES, "")
        self.counted.add(RowCounts(unlisted=unlisted, spelt=spelt, keys=keys, stray=stray, titles=titles))
        for shard, indexes in enumerate(by_shard(rows.source_keys, key_form, shards, first_row)):
            self.add(shard, rows if shards == 1 else rows.some(indexes), numbers[indexes])

    def of(self, shard: int) -> EncodedRows:
        """All rows of a shard. Raises ConfigError if two have one key."""
        pieces = list(self.spill.of(shard))
        rows = EncodedRows.joined([rows for rows, _ in pieces], self.table.space.d)
        if len(pieces) > 1 and len(set(rows.source_keys)) < len(rows.source_keys):
            again = int(np.argmax(pd.Series(rows.source_keys, dtype=object).duplicated()))
            number = np.concatenate([numbers for _, numbers in pieces])[again]
            key = ", ".join(self.table.source_key)
            raise ConfigError(f"data row {number}: an earlier row has the same key ({key})")
        return rows


class Workplace(NamedTuple):
    """The place of the work, and of rows and finished shards that wait meanwhile."""

    rows: Spill
    prepared: Spill
    executors: CallPool | None  # Spark's, which read, route and group rows and write to no server; None: this process


@contextmanager
def this_process() -> Iterator[Workplace]:
    """This process as the place, with files of its own."""
    with closing(OwnFile()) as rows, closing(OwnFile()) as prepared:
        yield Workplace(rows, prepared, None)


def at_executors(executors: CallPool, folder: Path) -> Workplace:
    """The place of executors that all see a folder."""
    return Workplace(SharedFolder(folder / "pieces"), SharedFolder(folder / "prepared"), executors)


def route_all(
    into: WaitingRows, source: RowSource, key_form: AnyKeyForm | None, shards: int, executors: CallPool | None = None
) -> None:
    """Puts the rows of a file into their shards, part by part.

    Raises ConfigError for a file or a row that is refused.
    """
    if executors is not None:
        if not is_parquet_source(file := source.file("--engine spark")):
            raise UsageError(f"{source.name}: --engine spark reads rows in parts: give Parquet, a file or a folder")
        calls = [(into, part, key_form, shards) for part in parquet_parts(file.absolute(), PART_ROWS)]
        for counted in executors.map("route", _routed, calls):
            into.counted.add(counted)
    else:
        first_row = 1
        for frame in source.parts(PART_ROWS, into.table.named):
            into.route(frame, first_row, key_form, shards)
            first_row += len(frame)
    if not into.counted.n_read:
        raise ConfigError(f"{source.name}: holds no rows, so the table would be empty; {EMPTY_IT}")


def _routed(into: WaitingRows, part: RowPart, key_form: AnyKeyForm | None, shards: int) -> RowCounts:
    """Puts the rows of a part of a file into their shards; returns the counts. into: the executor's own copy."""
    for first_row, frame in read_part(part, PART_ROWS, into.table.named):
        into.route(frame, first_row, key_form, shards)
    return into.counted


def by_shard(source_keys: Sequence[str], key_form: AnyKeyForm | None, shards: int, first_row: int = 1) -> list[Ints]:
    """The numbers of rows, from 0, by the shard that murmur2 of their message keys gives.

    Raises ConfigError for a key without this form; first_row: the data row of the first one.
    """
    if key_form is None:
        return [np.arange(len(source_keys))]
    placed = np.empty(len(source_keys), np.int64)
    for index, source_key in enumerate(source_keys):
        message_key = key_form.written(source_key)
        if message_key is None:
            raise ConfigError(
                f"data row {first_row + index}: its key cannot be written as {key_form.name}, as the input's message"
                " keys are"
            )
        placed[index] = shard_of(message_key, shards)
    return [np.flatnonzero(placed == shard) for shard in range(shards)]
