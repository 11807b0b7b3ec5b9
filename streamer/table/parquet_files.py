"""Tables as Parquet: a file whose name ends with .parquet, or a folder of such files, whole or part by part.

Columns are Arrow's, by their types; those that pandas kept as an index are columns like all others. If a caller says
which columns are wanted, no others are read: they are there, and hold nothing. Timestamps that Spark and Hive write
(INT96) are read in microseconds: in nanoseconds, years before 1678 and after 2262 would become others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd

from streamer.errors import ConfigError
from streamer.table.files import PARQUET, require_header


def is_parquet_source(path: str | Path) -> bool:
    """True if rows are read as Parquet: a file whose name says so, or a folder."""
    return str(path).lower().endswith(PARQUET) or Path(path).is_dir()


_INT96_UNIT = "us"


def read_parquet(path: str | Path, wanted: Collection[str] | None = None) -> pd.DataFrame:
    """All rows; wanted: the columns that are read, None: all.

    Raises ConfigError if they cannot be read, and if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError(f"{path}: to read Parquet, install pyarrow (streamer[parquet]), or give a CSV file") from None
    with _parquet_faults(path):
        if Path(path).is_file():
            require_header(path, pq.read_schema(path).names)  # `read_table` does not say which name is there twice
        schema = _dataset(path).schema
        found = pq.read_table(path, columns=_some(schema, wanted), coerce_int96_timestamp_unit=_INT96_UNIT)
        indexes = _stored_numbers(schema)
        frame = frame_of_arrow(path, _with_unread(found, schema))
    for one in indexes:
        _add_numbers(path, frame, one["name"], _range_of(one))
    return frame


@contextmanager
def _parquet_faults(path: str | Path) -> Iterator[None]:
    """Arrow's errors, which may quote a value, as ConfigError."""
    try:
        yield
    except OSError as error:
        why = error.strerror or ("it is not a Parquet file" if Path(path).exists() else os.strerror(errno.ENOENT))
        if error.errno == errno.ENOENT and Path(path).exists():
            why = "one of its files was there when the reading began, and is gone; call the command again"
        raise ConfigError(f"{path}: cannot be read: {why}") from None
    except (ValueError, TypeError, NotImplementedError):
        is_folder = Path(path).is_dir()
        what = "is no folder of Parquet files with the same columns and types" if is_folder else "is not a Parquet file"
        raise ConfigError(f"{path}: {what}") from None


def frame_of_arrow(path: str | Path, found: Any) -> pd.DataFrame:
    """A pyarrow.Table as a DataFrame of its types; the table is not to be used any more."""
    import pyarrow as arrow

    require_header(path, found.column_names)
    for i, (name, kind) in enumerate(zip(found.schema.names, found.schema.types, strict=True)):
        if kind == "string_view":  # pandas cannot tell their values apart
            found = found.set_column(i, name, found.column(i).cast("large_string"))
        elif not _is_known_to_pandas(kind):  # an interval, a union: bytes in its place, which no column takes either
            found = found.set_column(i, name, arrow.repeat(b"", found.num_rows))
    return cast(pd.DataFrame, found.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True, self_destruct=True))


def _is_known_to_pandas(kind: Any) -> bool:
    try:
        return pd.ArrowDtype(kind).type is not None
    except NotImplementedError:
        return False


def _stored_numbers(schema: Any) -> list[dict[str, Any]]:
    """Indexes of pandas, consecutive numbers with a name, of which only the ends are stored."""
    indexes = (schema.pandas_metadata or {}).get("index_columns", ())
    return [one for one in indexes if isinstance(one, dict) and one["name"] is not None]


class RowPart(NamedTuple):
    """A part of a Parquet file or of a folder of them."""

    source: str
    file: str
    row_groups: tuple[int, ...]
    first_row: int  # the number of its first row, of all rows; the first one is 1
    rows: int


def parquet_parts(path: str | Path, rows_max: int) -> list[RowPart]:
    """All rows of a Parquet file or folder, in the order of file names, in parts of about rows_max rows or fewer.

    A row group is not torn. Raises ConfigError as `read_parquet` does.
    """
    found: list[RowPart] = []
    with _parquet_faults(path):
        whole = _dataset(path)
        for fragment in sorted(whole.get_fragments(), key=lambda fragment: fragment.path):
            for group in filter(lambda group: group.num_rows, fragment.row_groups):
                last = found[-1] if found else RowPart(str(path), "", (), 1, 0)
                if last.file == fragment.path and last.rows + group.num_rows <= rows_max:
                    found[-1] = last._replace(row_groups=(*last.row_groups, group.id), rows=last.rows + group.num_rows)
                else:
                    begin = last.first_row + last.rows
                    found.append(RowPart(str(path), fragment.path, (group.id,), begin, group.num_rows))
        for numbers in _stored_numbers(whole.schema):
            _check_numbers(path, numbers["name"], _range_of(numbers), sum(part.rows for part in found))
    return found


def read_part(
    part: RowPart, rows_max: int, wanted: Collection[str] | None = None
) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of a part, at most rows_max at a time, each time with the number of the first one.

    wanted: as in `read_parquet`.
    """
    import pyarrow as arrow

    with _parquet_faults(part.source):
        whole, first_row = _dataset(part.source), part.first_row
        fragment = next((fragment for fragment in whole.get_fragments() if fragment.path == part.file), None)
        if fragment is None:
            raise ConfigError(f"{part.file}: was there when the reading began, and is gone; call the command again")
        rows = fragment.subset(row_group_ids=part.row_groups)
        some = _some(whole.schema, wanted)
        scanner = rows.scanner(schema=whole.schema, columns=some, batch_size=rows_max, use_threads=False)
        for batch in scanner.to_batches():
            if batch.num_rows:
                frame = frame_of_arrow(part.source, _with_unread(arrow.Table.from_batches([batch]), whole.schema))
                for one in _stored_numbers(whole.schema):
                    numbers = _range_of(one)[first_row - 1 : first_row - 1 + batch.num_rows]
                    _add_numbers(part.source, frame, one["name"], numbers)
                yield first_row, frame
                first_row += batch.num_rows


def parquet_names(path: str | Path) -> list[str]:
    """The names of the columns. Raises ConfigError as `read_parquet` does."""
    with _parquet_faults(path):
        schema = _dataset(path).schema
        return [*(one["name"] for one in _stored_numbers(schema)), *schema.names]


def _dataset(path: str | Path) -> Any:
    import pyarrow.dataset as ds

    found = ds.dataset(path, format=ds.ParquetFileFormat(coerce_int96_timestamp_unit=_INT96_UNIT), partitioning="hive")
    if not found.schema.names:
        raise ConfigError(f"{path}: is a folder without Parquet files")
    require_header(path, found.schema.names)
    return found


def _some(schema: Any, wanted: Collection[str] | None) -> list[str] | None:
    return None if wanted is None else [name for name in schema.names if name in wanted]


def _with_unread(found: Any, schema: Any) -> Any:
    """A pyarrow.Table with all columns of the schema, in their order; those that were not read hold nothing."""
    import pyarrow as arrow

    unread = set(schema.names).difference(found.column_names)
    columns = (arrow.nulls(found.num_rows) if name in unread else found[name] for name in schema.names)
    return arrow.table(list(columns), names=schema.names) if unread else found


def _range_of(index: dict[str, Any]) -> range:
    return range(index["start"], index["stop"], index["step"])


def _add_numbers(path: str | Path, frame: pd.DataFrame, name: str, numbers: range) -> None:
    _check_numbers(path, name, numbers, len(frame))
    frame.insert(0, name, pd.Series(numbers))


def _check_numbers(path: str | Path, name: str, numbers: range, rows: int) -> None:
    if len(numbers) != rows:
        raise ConfigError(
            f"{path}: {name!r} is an index of pandas, and its numbers are not in every file; write the files after"
            " `reset_index()`"
        )
