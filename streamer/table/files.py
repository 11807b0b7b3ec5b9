"""Files of tables: reading them cell by cell, and writing them whole or not at all.

A table is read as text, cell by cell: what a cell means is its column's matter (`streamer.table.source_texts`). Every
command reads a file in the same way: packed if its name ends with .gz, "-" for stdin, a byte order mark at the start
skipped. The delimiter is found in the header, or said by a first line `sep=;`; if a blank follows every delimiter of
the header, blanks after delimiters belong to no cell.
A ragged or unreadable file is refused with the line: nothing is guessed, filled up or left out.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from stat import S_IMODE
from typing import IO, Any

import pandas as pd

from streamer.errors import ConfigError
from streamer.table.source_texts import cell_text
from streamer.table.typed_frame import with_iso_texts

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

LINES_AT_ONCE = 5_000
"""Rows of a file that are lists of texts at the same time."""


def is_named(path: str | Path, *suffixes: str) -> bool:
    """Whether a file's name ends so, packed or not, in whatever case.

    >>> is_named("rows.CSV.gz", ".csv", ".tsv"), is_named("rows.csv.zip", ".csv")
    (True, False)
    """
    return str(path).lower().removesuffix(PACKED).endswith(suffixes)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file to read. Raises ConfigError if it cannot be read, also later while it is."""
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

    Raises ConfigError for a file that cannot be read, and if what reads Parquet is not installed.
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
    """The delimiter that is most frequent outside quotation marks; a comma if there is none."""
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
    while some := list(islice(rows, LINES_AT_ONCE)):
        for j, cells in enumerate(zip(*some, strict=True)):
            texts = known[j]
            if texts is None:
                columns[j].extend(cells)
                continue
            columns[j].extend(map(texts.setdefault, cells, cells))
            if len(texts) > TEXTS_REMEMBERED:
                known[j] = None
    return columns


# What we write for people as files: a published table as CSV, a private index, whole or not at all.
#
# Files that belong together appear together, and an error or a signal leaves what was there. A private file is its
# owner's alone before anything stands in it.

OWNER_ONLY = 0o600


@contextmanager
def atomic_writer(path: str | Path, text: bool = False) -> Iterator[Any]:
    """A file to write, bytes or UTF-8 text, that takes its place when the block ends well; on an error nothing is left.

    Raises ConfigError if the file cannot be made.
    """
    with atomic_writers([path], text) as (writer,):
        yield writer


@contextmanager
def atomic_writers(paths: Sequence[str | Path], text: bool = False) -> Iterator[list[Any]]:
    """Several files of which all take their places when the block ends well, or none.

    Every file is on the disk before the first takes its place. A link stays one, to the new file, and a file that was
    there leaves its mode to the new one. Drafts, `.NAME.PROCESS.draft`, are left behind by a process alone that ends on
    the spot (SIGKILL; a command takes SIGTERM). Raises ConfigError if a file cannot be made.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as files:
            writers = []
            for path in map(_place_of, paths):
                drafts.append((_draft_of(path), path))  # before it is there: a signal may come in between
                _make(*drafts[-1])
                file = files.enter_context(open(drafts[-1][0], "wb"))
                writers.append(TextIOWrapper(file, encoding="utf-8", newline="") if text else file)
            yield writers
            for writer in writers:
                writer.flush()
                os.fsync(writer.fileno())
        for draft, path in drafts:
            os.replace(draft, path)
    except BaseException:
        for draft, _ in drafts:
            with suppress(OSError):  # one that could not be made
                draft.unlink()
        raise


def for_owner_alone(file: IO[Any]) -> None:
    """Lets nobody but its owner read or write a file that is private; to be said before anything stands in it."""
    os.fchmod(file.fileno(), OWNER_ONLY)


def _place_of(path: str | Path) -> Path:
    """Where the file lies that a path names: a link leads there. What is no file, as /dev/stdout, stays as it is."""
    named = Path(path)
    return named.resolve() if named.is_symlink() and not (named.exists() and not named.is_file()) else named


def _draft_of(path: Path) -> Path:
    """The name of a file beside `path`, to be moved to its place. Raises ConfigError where there can be none."""
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: it is a directory")
    if path.exists() and not path.is_file():  # to take its place would be the end of /dev/null
        raise ConfigError(f"{path}: cannot be written: it is a device or a pipe; name a file")
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def _make(draft: Path, path: Path) -> None:
    """Begins the draft of a file. Raises ConfigError."""
    try:
        draft.touch()
        if path.exists():
            draft.chmod(S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def table_files(path: Path, names: Sequence[str]) -> list[Path]:
    """The files of a published table: the path itself, or one beside it for each of several tables.

    >>> [file.name for file in table_files(Path("out.csv"), ("qit", "stt"))]
    ['out-qit.csv', 'out-stt.csv']
    """
    return [path] if len(names) == 1 else [path.with_name(f"{path.stem}-{name}{path.suffix}") for name in names]


def write_rows(frame: pd.DataFrame, file: IO[str]) -> None:
    """A published table as CSV, which `read_rows` and table.yaml read back as the same values.

    Numbers stand as shortest decimals, dates and timestamps as the ISO texts that are published, booleans as true and
    false, a null as an empty cell.
    """
    texts = {name: _cell_texts(frame[name]) for name in frame.columns}
    pd.DataFrame(texts, columns=frame.columns).to_csv(file, index=False)


def _cell_texts(column: pd.Series[Any]) -> Any:
    """The texts of a column, each distinct value written once; whole numbers stay as they are."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return column
    column = with_iso_texts(column)
    texts: dict[tuple[type, object], str] = {}  # by type, too: 1 and true are equal
    cells = [(type(value), value) for value in column.to_numpy(dtype=object)]
    for pair in cells:
        if pair not in texts:
            texts[pair] = cell_text(pair[1])
    return [texts[pair] for pair in cells]


def write_index(pairs: Iterable[tuple[str, str]], file: IO[str]) -> None:
    """The private index table, source key and name of the QI group ("" if it has none), by source key."""
    for_owner_alone(file)
    writer = csv.writer(file)
    writer.writerow(["key", "qi_group"])
    writer.writerows(sorted(pairs))
