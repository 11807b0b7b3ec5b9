"""Tables of people as files: CSV and Parquet, read.

A table is read as text, cell by cell: what a cell means is its column's matter (`streamer.table.file_cells`). Every
command reads a file in the same way: packed if its name ends with .gz, "-" for stdin, a byte order mark at the start
skipped. The delimiter is found in the header, or said by a first line `sep=;`; if a blank follows every delimiter of
the header, blanks after delimiters belong to no cell.
A ragged or unreadable file is refused with the line: nothing is guessed, filled up or left out.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from streamer.errors import ConfigError

STDIN = "-"
PACKED = ".gz"
PARQUET = ".parquet"
_DELIMITERS = ",;\t"
_RARE_DELIMITER = "|"  # stands in names, too: taken for one where the header holds no other
_SAID_DELIMITER = re.compile(r'"?sep=([,;\t|])"?\r?\n')  # a first line of Excel's
_NO_TEXTS = {
    b"\xff\xfe": "is UTF-16 text: save it as CSV UTF-8, or convert it, such as by `iconv -f UTF-16 -t UTF-8`",
    b"PAR1": "is a Parquet file: write it as CSV, or give its DataFrame to `streamer.anonymize`",
    b"PK\x03\x04": "is a zip file, as .xlsx is: save it as CSV UTF-8 where it comes from",
    b"\x1f\x8b": "is packed by gzip: let its name end with .gz",
    b"": "is not UTF-8 text: save it as that where it comes from (Excel: CSV UTF-8), or convert it, such as by"
    " `iconv -f WINDOWS-1252 -t UTF-8`",
}

TEXTS_REMEMBERED = 10_000
"""Distinct cells of a column that are looked out for: what most columns hold, and never all source keys."""

ROWS_AT_ONCE = 5_000
"""Rows of a file that are lists of texts at the same time."""


def is_named(path: str | Path, *suffixes: str) -> bool:
    """Whether a file's name ends so, packed or not, in whatever case.

    >>> is_named("rows.CSV.gz", ".csv", ".tsv"), is_named("rows.csv.zip", ".csv")
    (True, False)
    """
    return str(path).lower().removesuffix(PACKED).endswith(suffixes)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file to read. Raises ConfigError where it cannot be read, also later while it is."""
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
        elif str(path).lower().endswith(PACKED):
            with gzip.open(path, "rb") as unpacked:
                yield unpacked
        else:
            with open(path, "rb") as file:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ConfigError(f"{path}: is not a whole gzip file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def read_rows(path: str | Path) -> pd.DataFrame:
    """A CSV file (comma, semicolon, tab or `|`, UTF-8, a header line) as a table of texts.

    Raises ConfigError for a file that is unreadable, empty or ragged, or whose header names a column twice.
    """
    with open_bytes(path) as file:
        text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            return _rows_of(path, text)
        except UnicodeDecodeError as error:
            told = next(what for start, what in _NO_TEXTS.items() if error.object.startswith(start))
            raise ConfigError(f"{path}: {told}") from None
        finally:
            text.detach()  # stdin stays open


def read_table(path: str | Path) -> pd.DataFrame:
    """A file of rows: Parquet where its name ends with .parquet, as typed values, else what `read_rows` reads.

    Raises ConfigError for a file that cannot be read, and where what reads Parquet is not installed.
    """
    if not str(path).lower().endswith(PARQUET):
        return read_rows(path)
    try:
        return pd.read_parquet(path, dtype_backend="numpy_nullable")  # else a null makes whole numbers floats
    except ImportError:
        raise ConfigError(f"{path}: to read Parquet, install pyarrow (streamer[parquet]), or give a CSV file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or 'is no Parquet file'}") from None
    except ValueError:
        raise ConfigError(f"{path}: is no Parquet file") from None


def _rows_of(path: str | Path, text: TextIOWrapper) -> pd.DataFrame:
    first = text.readline()
    said = _SAID_DELIMITER.fullmatch(first)
    above = ["\n"] if said else []  # a blank line in its place, so that lines are counted as in the file
    if said:
        first = text.readline()
    if first.replace(" ", "").startswith(('{"', "[{")):  # what stands there may be somebody's row
        raise ConfigError(f"{path}: is JSON, not CSV: expected a header line with the names of the columns")
    delimiter = said[1] if said else "\t" if is_named(path, ".tsv") else _delimiter(first)
    reader = csv.reader(
        chain(above, [first], text), delimiter=delimiter, strict=True, skipinitialspace=_is_spaced(first, delimiter)
    )
    try:
        header = next(islice(reader, len(above), None), [])
        _check_header(path, header)
        columns = _columns(_checked_rows(path, reader, len(header)), len(header))
    except csv.Error as error:
        what = "not valid CSV (a quotation mark out of place?)"
        if "field limit" in str(error):
            what = f"a cell of more than {csv.field_size_limit():,} characters (a quotation mark that is not closed?)"
        raise ConfigError(f"{path}, line {reader.line_num}: {what}") from None
    # As objects: pandas' own texts would be copies, in memory that its allocator does not give back.
    return pd.DataFrame(dict(zip(header, columns, strict=True)), columns=header, dtype=object)


def _delimiter(header: str) -> str:
    """The delimiter that is most frequent outside quotation marks; a comma where there is none."""
    bare = "".join(header.split('"')[::2])
    found = max(_DELIMITERS, key=bare.count)
    return _RARE_DELIMITER if found not in bare and _RARE_DELIMITER in bare else found


def _is_spaced(header: str, delimiter: str) -> bool:
    """Whether a blank follows every delimiter of the header outside quotation marks: then it belongs to these."""
    bare = "".join(header.split('"')[::2])
    return 0 < bare.count(delimiter) == bare.count(f"{delimiter} ")


def _check_header(path: str | Path, header: list[str]) -> None:
    if not any(header):
        raise ConfigError(f"{path}: is empty; expected a header line with the names of the columns")
    if header.count("") > 1:
        raise ConfigError(f"{path}: {header.count('')} columns have no name in the header; name them, or remove them")
    if repeated := [name for name in header if header.count(name) > 1]:
        raise ConfigError(f"{path}: the header names the column {repeated[0]!r} twice; rename one of them")


def _checked_rows(path: str | Path, reader: Any, width: int) -> Iterator[list[str]]:
    """The rows of a file."""
    for row in reader:
        if not row:
            continue  # a blank line
        if len(row) != width:
            raise ConfigError(f"{path}, line {reader.line_num}: has {len(row)} cells; the header has {width}")
        yield row


def _columns(rows: Iterator[list[str]], width: int) -> list[list[str]]:
    """Rows as columns; in one of few texts, cells that say the same are one text in memory."""
    columns: list[list[str]] = [[] for _ in range(width)]
    known: list[dict[str, str] | None] = [{} for _ in range(width)]
    while some := list(islice(rows, ROWS_AT_ONCE)):
        for j, cells in enumerate(zip(*some, strict=True)):
            texts = known[j]
            if texts is None:
                columns[j].extend(cells)
                continue
            columns[j].extend(map(texts.setdefault, cells, cells))
            if len(texts) > TEXTS_REMEMBERED:
                known[j] = None
    return columns
