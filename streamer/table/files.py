"""Files of tables: reading them cell by cell, and writing them whole or not at all.

Every command reads a file in the same way, as text; `source_texts.py` says what a cell means. A file is compressed if
its name ends with .gz, and "-" is stdin. Text is what its byte order mark says, else what the caller says, else UTF-8.
The delimiter is found in the header, or given by a first line `sep=;`. If a blank follows every delimiter of the
header, blanks after delimiters belong to no cell. A ragged or unreadable file is refused with the line: nothing is
guessed, filled up or left out.
"""

from __future__ import annotations

import codecs
import csv
import errno
import gzip
import hashlib
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from shutil import copyfileobj
from stat import S_IMODE
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, cast

import pandas as pd

from streamer.errors import ConfigError, UsageError
from streamer.table.codes import cell_text
from streamer.table.typed_frame import with_iso_texts
from streamer.uninterrupted import uninterrupted

STDIN, STDOUT = "-", Path("-")
PACKED = ".gz"
PARQUET = ".parquet"
_DELIMITERS = ",;\t"
_RARE_DELIMITER = "|"  # may be part of names, too: a delimiter only if the header has no other
_SEP_LINE = re.compile(r'"?sep=([,;\t|])"?\r?\n')  # written by Excel
_OTHER_FORMATS = {
    b"PAR1": "is a Parquet file: rename it, so that its name ends with .parquet",
    b"PK\x03\x04": "is a zip file, as .xlsx is: rename it, so that its name says what it is",
    b"\x1f\x8b": "is compressed by gzip: rename it, so that its name ends with .gz",
}
"""What is wrong with bytes that are not text, by how the file begins."""

UTF8 = "utf-8-sig"
_MARKS = {
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF32_LE: "utf-32",  # begins as UTF-16's mark does
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARK_BYTES = 4
_NO_MARKS = {"utf-16-le": re.compile(rb"([^\0]\0){2}", re.S), "utf-16-be": re.compile(rb"(\0[^\0]){2}", re.S)}
"""UTF-16 without a mark begins so, and no other text does."""

TEXTS_REMEMBERED = 10_000
"""Distinct cells of a column that are shared in memory: enough for most columns, and never all source keys."""

LINES_AT_ONCE = 5_000
"""Rows of a file that are in memory as lists at the same time."""

PLAIN_BYTES = 1 << 24
"""Bytes of a plain file that are read at the same time."""


def is_named(path: str | Path, *suffixes: str) -> bool:
    """Whether a file's name has one of these suffixes, compressed or not, in upper or lower case.

    >>> is_named("rows.CSV.gz", ".csv", ".tsv"), is_named("rows.csv.zip", ".csv")
    (True, False)
    """
    return str(path).lower().removesuffix(PACKED).endswith(suffixes)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file to read. Raises ConfigError if it cannot be read, also inside the block."""
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
        raise ConfigError(f"{path}: is not a complete gzip file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def read_rows(path: str | Path, encoding: str | None = None) -> pd.DataFrame:
    """A file of rows: Parquet, as Arrow columns by their types, or CSV as a table of texts.

    Parquet is a file whose name ends with .parquet, or a folder of such files. CSV has commas, semicolons, tabs or `|`,
    and a header line; encoding: of its text, if it is not UTF-8 and has no mark. Raises ConfigError for a file that is
    unreadable, empty or ragged, or whose header names a column twice; and if Parquet is given and pyarrow is not
    installed.
    """
    if is_parquet_source(path):
        return _parquet_rows(path)
    with _csv_text(path, encoding) as text:
        header, rows, delimiter = _opened_csv(path, text)
        plain = None if delimiter is None else _plain_rows(path, delimiter, header)
        return plain if plain is not None else _frame_of_cells(header, rows)


def is_parquet_source(path: str | Path) -> bool:
    """Whether rows are read as Parquet: a file whose name says so, or a folder."""
    return str(path).lower().endswith(PARQUET) or Path(path).is_dir()


def checked_encoding(name: str) -> str:
    """Python's name of an encoding of text. Raises UsageError for what is none."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise UsageError(f"--encoding: {name!r} is no encoding; such are cp1252, iso8859-15, shift_jis") from None


@contextmanager
def _csv_text(path: str | Path, encoding: str | None) -> Iterator[TextIOWrapper]:
    """A CSV file to read. Raises ConfigError, also inside the block, if it is not text of its encoding."""
    with open_bytes(path) as opened:
        file = BufferedReader(cast(Any, opened))
        start = file.peek(_MARK_BYTES)[:_MARK_BYTES]
        told = None if encoding is None else checked_encoding(encoding)
        text = TextIOWrapper(file, encoding=_encoding_of(start, told), newline="")
        try:
            yield text
        except UnicodeError:
            what = next((what for begin, what in _OTHER_FORMATS.items() if start.startswith(begin)), None)
            raise ConfigError(f"{path}: {what or _not_text(text.encoding, told)}") from None
        finally:
            text.detach()
            file.detach()  # stdin stays open


def _encoding_of(start: bytes, told: str | None) -> str:
    """The encoding by a file's first bytes, which are sure, else as it is told, else UTF-8."""
    by_mark = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    if by_mark is not None:
        return by_mark
    if told is not None:
        return UTF8 if told == "utf-8" else told
    return next((name for name, begin in _NO_MARKS.items() if begin.match(start)), UTF8)


def _not_text(encoding: str, told: str | None) -> str:
    if encoding != UTF8:
        return f"is not {encoding} text" + ("" if told is None else ", as --encoding says")
    return (
        "is not UTF-8 text: say what it is, such as by `--encoding cp1252` (Windows in Western Europe), save it as"
        " UTF-8 where it comes from (Excel: CSV UTF-8), or convert it, such as by `iconv -f WINDOWS-1252 -t UTF-8`"
    )


def _parquet_rows(path: str | Path) -> pd.DataFrame:
    """A Parquet file or a folder of them; columns that pandas kept as an index are columns like all others."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError(f"{path}: to read Parquet, install pyarrow (streamer[parquet]), or give a CSV file") from None
    is_folder = Path(path).is_dir()
    with _parquet_faults(path):
        found = pq.read_table(path)
        if is_folder and not found.column_names:
            raise ConfigError(f"{path}: is a folder without Parquet files")
        indexes = _stored_numbers(found.schema)
        frame = frame_of_arrow(path, found)
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
        raise ConfigError(f"{path}: cannot be read: {why}") from None
    except (ValueError, TypeError, NotImplementedError):
        is_folder = Path(path).is_dir()
        what = "is no folder of Parquet files with the same columns and types" if is_folder else "is not a Parquet file"
        raise ConfigError(f"{path}: {what}, or names a column twice") from None


def frame_of_arrow(path: str | Path, found: Any) -> pd.DataFrame:
    """A pyarrow.Table as a DataFrame of its types; the table is not to be used any more."""
    require_header(path, found.column_names)
    for i, (name, kind) in enumerate(zip(found.schema.names, found.schema.types, strict=True)):
        if kind == "string_view":  # pandas cannot tell their values apart
            found = found.set_column(i, name, found.column(i).cast("large_string"))
    return cast(pd.DataFrame, found.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True, self_destruct=True))


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

    A row group is not torn. Raises ConfigError as `read_rows` does.
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


def read_part(part: RowPart, rows_max: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of a part as `read_rows` has them, at most rows_max at a time, and the number of the first of these."""
    import pyarrow as arrow

    with _parquet_faults(part.source):
        whole, first_row = _dataset(part.source), part.first_row
        fragment = next(fragment for fragment in whole.get_fragments() if fragment.path == part.file)
        rows = fragment.subset(row_group_ids=part.row_groups)
        for batch in rows.scanner(schema=whole.schema, batch_size=rows_max, use_threads=False).to_batches():
            if batch.num_rows:
                frame = frame_of_arrow(part.source, arrow.Table.from_batches([batch]))
                for one in _stored_numbers(whole.schema):
                    some = _range_of(one)[first_row - 1 : first_row - 1 + batch.num_rows]
                    _add_numbers(part.source, frame, one["name"], some)
                yield first_row, frame
                first_row += batch.num_rows


def column_names(path: str | Path, encoding: str | None = None) -> list[str]:
    """The names of the columns of a file of rows. Raises ConfigError as `read_rows` does."""
    if is_parquet_source(path):
        with _parquet_faults(path):
            schema = _dataset(path).schema
            return [*(one["name"] for one in _stored_numbers(schema)), *schema.names]
    with _csv_text(path, encoding) as text:
        return _opened_csv(path, text)[0]


def _dataset(path: str | Path) -> Any:
    import pyarrow.dataset as ds

    found = ds.dataset(path, format="parquet", partitioning="hive")
    if not found.schema.names:
        raise ConfigError(f"{path}: is a folder without Parquet files")
    require_header(path, found.schema.names)
    return found


def csv_chunks(path: str | Path, rows_max: int, encoding: str | None = None) -> Iterator[pd.DataFrame]:
    """The rows of a CSV file as `read_rows` has them, at most rows_max at a time; one empty frame if there are none."""
    with _csv_text(path, encoding) as text:
        header, rows, delimiter = _opened_csv(path, text)
        seen = 0
        try:
            for frame in () if delimiter is None else _plain_chunks(path, delimiter, header, rows_max):
                seen += len(frame)
                yield frame
            if seen:
                return
        except _NotPlain:
            pass
        rows = islice(rows, seen, None)
        yield (frame := _frame_of_cells(header, islice(rows, rows_max)))
        while len(frame) == rows_max and len(frame := _frame_of_cells(header, islice(rows, rows_max))):
            yield frame


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


def _opened_csv(path: str | Path, text: TextIOWrapper) -> tuple[list[str], Iterator[list[str]], str | None]:
    """The header, the rows, and the delimiter if nothing but it is special in this file of UTF-8."""
    first = text.readline()
    sep = _SEP_LINE.fullmatch(first)
    above = ["\n"] if sep else []  # a blank line instead, so that lines are counted as in the file
    if sep:
        first = text.readline()
    if first.replace(" ", "").startswith(('{"', "[{")):  # may be somebody's row, so it is not quoted
        raise ConfigError(f"{path}: is JSON, not CSV: expected a header line with the names of the columns")
    bare = "".join(first.split('"')[::2])  # without what is inside quotation marks
    delimiter = sep[1] if sep else "\t" if is_named(path, ".tsv") else _delimiter(bare)
    is_spaced = 0 < bare.count(delimiter) == bare.count(f"{delimiter} ")
    reader = csv.reader(chain(above, [first], text), delimiter=delimiter, strict=True, skipinitialspace=is_spaced)
    rows = _checked_rows(path, reader, len(above))
    header = next(rows, [])
    require_header(path, header)
    return header, rows, None if sep or is_spaced or text.encoding != UTF8 else delimiter


def _frame_of_cells(header: list[str], rows: Iterator[list[str]]) -> pd.DataFrame:
    # As objects: pandas' own texts would be copies, in memory that its allocator does not give back.
    columns = _columns(rows, len(header))
    return pd.DataFrame(dict(zip(header, columns, strict=True)), columns=header, dtype=object)


class _NotPlain(Exception):
    """A file is not plain, or has a fault, which the other way of reading names with its line."""


def _plain_rows(path: str | Path, delimiter: str, header: list[str]) -> pd.DataFrame | None:
    """The rows of a plain file, ten times as fast as the other way; None if it is another one, or has a fault."""
    try:
        import pyarrow as arrow

        parts = list(_plain_parts(path, delimiter, header))
    except (ImportError, _NotPlain):
        return None
    if not parts:
        return None
    found = arrow.concat_tables(parts)
    del parts
    return cast(pd.DataFrame, found.to_pandas(types_mapper=pd.ArrowDtype, self_destruct=True))


def _plain_chunks(path: str | Path, delimiter: str, header: list[str], rows_max: int) -> Iterator[pd.DataFrame]:
    """The same, at most rows_max at a time. Raises _NotPlain, if there is a fault after the chunks before it."""
    for part in _plain_parts(path, delimiter, header):
        for begin in range(0, part.num_rows, rows_max):
            yield part.slice(begin, rows_max).to_pandas(types_mapper=pd.ArrowDtype)


def _plain_parts(path: str | Path, delimiter: str, header: list[str]) -> Iterator[Any]:
    """A file without quotation marks, part by part, as pyarrow.Tables of texts. Raises _NotPlain."""
    if not Path(path).is_file() or str(path).lower().endswith(PACKED) or not _is_plain(path):
        raise _NotPlain
    try:
        import pyarrow as arrow
        from pyarrow import compute
        from pyarrow import csv as arrow_csv
    except ImportError:
        raise _NotPlain from None
    reading = arrow_csv.ReadOptions(column_names=header, skip_rows=1, use_threads=False, block_size=PLAIN_BYTES)
    parsing = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False, double_quote=False)
    meaning = arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, arrow.string()))
    try:
        for batch in arrow_csv.open_csv(path, reading, parsing, meaning):
            if any((compute.max(compute.utf8_length(cells)).as_py() or 0) > csv.field_size_limit() for cells in batch):
                raise _NotPlain
            yield arrow.Table.from_batches([batch])
    except ValueError:  # ragged, or not UTF-8
        raise _NotPlain from None


def _is_plain(path: str | Path) -> bool:
    """Whether a file has neither quotation marks nor bare carriage returns."""
    with open(path, "rb") as file:
        ends = b""
        while block := file.read(PLAIN_BYTES):
            block = ends + block
            if b'"' in block or block.count(b"\r") != block.count(b"\r\n") + block.endswith(b"\r"):
                return False
            ends = b"\r" if block.endswith(b"\r") else b""
        return not ends


def _delimiter(bare: str) -> str:
    """The most frequent delimiter of a header without quoted texts; a comma if there is none."""
    found = max(_DELIMITERS, key=bare.count)
    return _RARE_DELIMITER if found not in bare and _RARE_DELIMITER in bare else found


def require_header(path: str | Path, header: list[str]) -> None:
    """Raises ConfigError if names are missing or repeated."""
    if not any(header):
        raise ConfigError(f"{path}: is empty; expected a header line with the names of the columns")
    if header.count("") > 1:
        raise ConfigError(f"{path}: {header.count('')} columns have no name in the header; name them, or remove them")
    if repeated := [name for name in header if header.count(name) > 1]:
        raise ConfigError(f"{path}: the header names the column {repeated[0]!r} twice; rename one of them")


def _checked_rows(path: str | Path, reader: Any, above: int) -> Iterator[list[str]]:
    """The header and the rows, without blank lines; above: lines before the header."""
    try:
        header: list[str] = next(islice(reader, above, None), [])
        yield header
        for row in reader:
            if row and len(row) != len(header):
                what = f"has {len(row)} cells; the header has {len(header)}"
                raise ConfigError(f"{path}, line {reader.line_num}: {what}")
            if row:
                yield row
    except csv.Error as error:
        what = "not valid CSV (a quotation mark out of place?)"
        if "field limit" in str(error):
            what = f"a cell of more than {csv.field_size_limit():,} characters (a quotation mark that is not closed?)"
        raise ConfigError(f"{path}, line {reader.line_num}: {what}") from None


def _columns(rows: Iterator[list[str]], width: int) -> list[list[str]]:
    """Rows as columns; in a column of few distinct texts, equal cells are one text in memory."""
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


# Writing. Files that belong together appear together; an error or a signal leaves what was there before.

OWNER_ONLY = 0o600


@contextmanager
def atomic_writer(path: str | Path, text: bool = False) -> Iterator[Any]:
    """A file to write, bytes or UTF-8 text, that appears when the block ends without an error.

    Raises ConfigError if the file cannot be created.
    """
    with atomic_writers([path], text) as (writer,):
        yield writer


@contextmanager
def atomic_writers(paths: Sequence[str | Path], text: bool = False) -> Iterator[list[Any]]:
    """Several files, which all appear when the block ends without an error, or none does.

    Every file is on the disk before the first one appears. A link stays a link, to the new file, and a new file gets
    the mode of the file that it replaces. A file whose name ends with .gz is compressed, equal content to equal bytes.
    "-", which is stdout, a device or a pipe gets its content at the end, just before the files appear. No Ctrl-C or
    SIGTERM comes between two files that appear. Only a process that is killed by SIGKILL leaves drafts,
    `.NAME.PROCESS.draft`. Raises ConfigError if a file cannot be created.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as files:
            opened = [(files.enter_context(_opened(path, drafts)), path) for path in map(_target_of, paths)]
            with ExitStack() as packing:
                writers = [_writer(file, path, text, packing) for file, path in opened]
                yield writers
                for writer in writers:
                    if not writer.closed:  # `sha256_written` ends a compressed one
                        writer.flush()
            for file, _ in opened:
                os.fsync(file.fileno())
            replaced = [path for _, path in drafts]
            for file, path in opened:
                if path not in replaced:
                    _pass_on(file, path)
        with uninterrupted():
            for draft, path in drafts:
                os.replace(draft, path)
    except BaseException:
        for draft, _ in drafts:
            with suppress(OSError):  # one that could not be created
                draft.unlink()
        raise


def is_stream(path: Path) -> bool:
    """Whether this is stdout, a device or a pipe: nothing that could be replaced."""
    return path == STDOUT or (path.exists() and not path.is_file() and not path.is_dir())


def _opened(path: Path, drafts: list[tuple[Path, Path]]) -> IO[bytes]:
    """A file without a name for a stream, else a draft, which is added to `drafts`. Raises ConfigError."""
    if is_stream(path):
        return TemporaryFile()
    drafts.append((_draft_of(path), path))  # before it exists: a signal may come in between
    _create(*drafts[-1])
    return open(drafts[-1][0], "w+b")


def _writer(file: IO[bytes], path: Path, text: bool, packing: ExitStack) -> Any:
    """What writes into a file; `packing` ends a compressed one."""
    if path.name.lower().endswith(PACKED):
        file = cast(IO[bytes], packing.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
    return TextIOWrapper(file, encoding="utf-8", newline="") if text else file


def _pass_on(file: IO[bytes], path: Path) -> None:
    file.seek(0)
    with nullcontext(sys.stdout.buffer) if path == STDOUT else open(path, "wb") as stream:
        copyfileobj(file, stream)
        stream.flush()


def sha256_written(writer: Any) -> str:
    """Of all that was written to a text file of `atomic_writers`; nothing may be written to it after that."""
    writer.flush()
    file = writer.buffer
    if isinstance(file, gzip.GzipFile):
        packed, file = file, cast(Any, file.fileobj)
        packed.close()
    file.seek(0)
    return sha256_of(file)


def sha256_of(file: IO[bytes]) -> str:
    """Of the rest of a file."""
    return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def sha256_by_name(path: Path) -> dict[str, str]:
    """Of a file, or of every file of a folder, by their names; none of a pipe. Raises ConfigError."""
    found = {}
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    for one in filter(Path.is_file, files):
        try:
            with open(one, "rb") as file:
                found[one.name if path.is_file() else str(one.relative_to(path))] = sha256_of(file)
        except OSError as error:
            raise ConfigError(f"{one}: cannot be read: {error.strerror}") from None
    return found


def for_owner_alone(file: IO[Any]) -> None:
    """Lets only its owner read or write a private file; to be called before anything is written."""
    os.fchmod(file.fileno(), OWNER_ONLY)


def _target_of(path: str | Path) -> Path:
    """The file that a path or link leads to; a path to something else, such as /dev/stdout, stays as it is."""
    named = Path(path)
    return named.resolve() if named.is_symlink() and not (named.exists() and not named.is_file()) else named


def _draft_of(path: Path) -> Path:
    """The name of a draft next to `path`. Raises ConfigError if `path` cannot be replaced by a file."""
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: it is a directory")
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def _create(draft: Path, path: Path) -> None:
    """Creates the draft of a file. Raises ConfigError."""
    try:
        draft.touch()
        if path.exists():
            draft.chmod(S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def table_files(path: Path, names: Sequence[str]) -> list[Path]:
    """The files of a published table: the path itself, or one next to it for each of several tables.

    >>> [file.name for file in table_files(Path("out.csv"), ("qit", "stt"))]
    ['out-qit.csv', 'out-stt.csv']
    >>> [file.name for file in table_files(Path("my.out.csv.gz"), ("qit", "stt"))]
    ['my.out-qit.csv.gz', 'my.out-stt.csv.gz']
    """
    stem = Path(path.stem).stem if path.suffix.lower() == PACKED else path.stem
    ending = path.name.removeprefix(stem)
    return [path] if len(names) == 1 else [path.with_name(f"{stem}-{name}{ending}") for name in names]


ESCAPE, REFUSE, KEEP = "escape", "refuse", "keep"
"""What becomes of a text that a spreadsheet would take for a formula."""

_NUMBER = r"[+-]?[\d.,]+([eE][+-]?\d+)?(\Z|;)"
_FORMULA = re.compile(rf"(\A|(?<=;))(?!{_NUMBER})(?=[=+\-@＝＋－＠\t\r\n].)", re.DOTALL)
"""Before a formula: -5 is a number, a mark alone a text. A semicolon begins a cell where decimals have a comma."""


class _Lines:
    """A file for rows that end with a line feed alone: csv quotes a bare carriage return only where rows end with both.

    Unquoted, it would begin a row.
    """

    end = "\r\n"

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix(self.end) + "\n")


def write_rows(frame: pd.DataFrame, file: IO[str], formulas: str = KEEP) -> None:
    """Writes a published table as CSV.

    Numbers are shortest decimals, dates and timestamps the published ISO texts, booleans true and false, nulls empty.
    Under KEEP it is read back as the same values. ESCAPE writes an apostrophe before what a spreadsheet would take for
    a formula, in names of columns, too; REFUSE raises ConfigError for it.
    """
    texts = {name: _cell_texts(frame[name], formulas) for name in frame.columns}
    header = [_without_formula(str(name), name, formulas) for name in frame.columns]
    rows = pd.DataFrame(texts, columns=frame.columns)
    rows.to_csv(_Lines(file), index=False, header=header, lineterminator=_Lines.end)  # type: ignore[call-overload]


def _cell_texts(column: pd.Series[Any], formulas: str) -> Any:
    """The texts of a column; whole numbers stay as they are."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return column
    column = with_iso_texts(column)
    texts: dict[tuple[type, object], str] = {}  # by type, too: 1 and true are equal
    cells = [(type(value), value) for value in column.to_numpy(dtype=object)]
    for pair in cells:
        if pair not in texts:
            text = cell_text(pair[1])
            texts[pair] = _without_formula(text, column.name, formulas) if isinstance(pair[1], str) else text
    return [texts[pair] for pair in cells]


def _without_formula(text: str, column: object, formulas: str) -> str:
    """A text that no spreadsheet takes for a formula, unless it is kept. Raises ConfigError if formulas are refused."""
    if formulas == KEEP or not _FORMULA.search(text):
        return text
    if formulas == REFUSE:
        raise ConfigError(
            f"column {str(column)!r}: a text begins as a formula of a spreadsheet does (=, +, -, @, tab, line end):"
            f" with `--formulas {ESCAPE}` an apostrophe is written before it, with `--formulas {KEEP}` it stays"
        )
    return _FORMULA.sub("'", text)


def write_index(pairs: Iterable[tuple[str, str]], file: IO[str]) -> None:
    """Writes the private index table, by source key: the key and the name of its QI group ("" if it has none)."""
    for_owner_alone(file)
    writer = csv.writer(file)
    writer.writerow(["key", "qi_group"])
    writer.writerows(sorted(pairs))
