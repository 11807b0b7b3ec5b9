"""Tables as CSV: reading a file cell by cell, and writing one.

Every command reads a file in the same way, as text; `source_texts.py` says what a cell means. Text is what its byte
order mark says, else what the caller says, else UTF-8. The delimiter is found in the header, or given by a first line
`sep=;`. If a blank follows every delimiter of the header, blanks after delimiters belong to no cell. Titles above the
header are left out, which the table says, and a note below the rows is a row, for `stray_rows.py` to name. Blank lines
are no rows; of one column, such a line is a row with an empty cell, unless it is the last. A ragged or unreadable file
is refused with the line: nothing else is guessed, filled up or left out.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from streamer.errors import ConfigError, UsageError
from streamer.table.codes import cell_text
from streamer.table.files import PACKED, for_owner_alone, is_named, open_bytes, require_header
from streamer.table.stray_rows import (
    ENDS_LOOKED_AT,
    NAMES_MIN,
    TITLE_ROWS_MAX,
    TITLES,
    is_note,
    said_of_titles,
    titles_above,
)
from streamer.table.typed_frame import with_iso_texts

ROWS_AT_ONCE = 4_096
"""As many are written together."""
_DELIMITERS = ",;\t"
_RARE_DELIMITER = "|"  # may be part of names, too: a delimiter only if the header has no other
_SEP_LINE = re.compile(r'"?sep=([,;\t|])"?\r?\n')  # written by Excel
_QUOTED_WHOLE = (
    "the line is in quotation marks as a whole, so it is one cell: remove those around each such line, and write"
    ' "" inside it as "'
)
_OTHER_FORMATS = {
    b"PAR1": "is a Parquet file: rename it, so that its name ends with .parquet",
    b"PK\x03\x04": "is a zip file, as .xlsx is: rename it, so that its name says what it is",
    b"\x1f\x8b": "is compressed by gzip: rename it, so that its name ends with .gz",
}
"""The fault of bytes that are not text, by how the file begins."""

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


def read_csv(path: str | Path, encoding: str | None = None) -> pd.DataFrame:
    """A CSV file as a table of texts; encoding: of its text, if it is not UTF-8 and has no mark.

    Raises ConfigError for a file that is unreadable, empty or ragged, or whose header names a column twice.
    """
    with _csv_text(path, encoding) as text:
        header, rows, delimiter, titles = _opened_csv(path, text)
        frame = None if delimiter is None else _plain_rows(path, delimiter, header)
        frame = _frame_of_cells(header, rows) if frame is None else frame
        frame.attrs[TITLES] = titles
        return frame


def csv_header(path: str | Path, encoding: str | None = None) -> list[str]:
    """The names of the columns of a CSV file. Raises ConfigError as `read_csv` does."""
    with _csv_text(path, encoding) as text:
        return _opened_csv(path, text).header


def csv_chunks(path: str | Path, rows_max: int, encoding: str | None = None) -> Iterator[pd.DataFrame]:
    """The rows of a CSV file as `read_csv` has them, at most rows_max at a time; one empty frame if there are none."""
    with _csv_text(path, encoding) as text:
        header, rows, delimiter, titles = _opened_csv(path, text)
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
        frame = _frame_of_cells(header, islice(rows, rows_max))
        frame.attrs[TITLES] = titles
        yield frame
        while len(frame) == rows_max and len(frame := _frame_of_cells(header, islice(rows, rows_max))):
            yield frame


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
        "is not UTF-8 text: say what it is, by `--encoding cp1252` (Windows in Western Europe), `cp1250` (Central"
        " Europe) or another, save it as UTF-8 where it comes from (Excel: CSV UTF-8), or convert it, such as by `iconv"
        " -f WINDOWS-1252 -t UTF-8`"
    )


class _Opened(NamedTuple):
    """A file to read row by row. Delimiter: if nothing else is special in this file of UTF-8; with a blank, if such
    belong to no cell."""

    header: list[str]
    rows: Iterator[list[str]]
    delimiter: str | None
    titles: str  # a sentence about the lines above the header; "" if there are none


def _opened_csv(path: str | Path, text: TextIOWrapper) -> _Opened:
    first = text.readline()
    sep = _SEP_LINE.fullmatch(first)
    if sep:
        first = text.readline()
    if first.replace(" ", "").startswith(('{"', "[{")):  # may be somebody's row, so it is not quoted
        raise ConfigError(f"{path}: is JSON, not CSV: expected a header line with the names of the columns")
    begin = [first, *islice(iter(text.readline, ""), TITLE_ROWS_MAX)]
    told = sep[1] if sep else "\t" if is_named(path, ".tsv") else None
    titles = _titles(begin, told)
    above = ["\n"] * (bool(sep) + titles)  # blank lines instead, so that lines are counted as in the file
    bare = _bare(begin[titles])
    delimiter = told or _delimiter(bare)
    is_spaced = 0 < bare.count(delimiter) == bare.count(f"{delimiter} ")
    lines = chain(above, begin[titles:], text)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=is_spaced)
    rows = _checked_rows(path, reader, len(above))
    header = next(rows, [])
    require_header(path, header)
    if len(header) == 1 and _is_quoted_whole(begin[titles:]):
        one = "if it is the name of one column, leave delimiters out of it"
        raise ConfigError(f"{path}, line {1 + len(above)}: {_QUOTED_WHOLE}; {one}")
    if len(header) == 1 and _are_of_columns(begin[titles + 1 :]):
        what = "has one cell, and the lines below it have more: if it is a title, remove it; if it is the name of one"
        raise ConfigError(f"{path}, line {1 + len(above)}: {what} column, put its cells in quotation marks")
    is_special = above or text.encoding != UTF8 or len(header) == 1
    said = said_of_titles([[line] for line in begin[:titles]], 1 + bool(sep), "line")
    return _Opened(header, rows, None if is_special else delimiter + " " * is_spaced, said)


def _bare(line: str) -> str:
    """A line without what is inside quotation marks."""
    return "".join(line.split('"')[::2])


def _is_quoted_whole(lines: Sequence[str]) -> bool:
    """True if a header is one text in quotation marks, with as many delimiters as the row below it."""
    header, *below = map(str.strip, lines)
    name = _bare(_inside(header))
    delimiter = _delimiter(name)
    row = next(filter(None, below), "")
    counts = {_bare(text).count(delimiter) for text in (row, _inside(row))}
    return delimiter in name and delimiter not in _bare(header) and name.count(delimiter) in counts


def _are_of_columns(lines: Sequence[str]) -> bool:
    """True if there are several lines with as many names or cells as a header below a title has, and all have these."""
    bare = [_bare(line) for line in lines if line.strip()]
    counts = {line.count(_delimiter(bare[0])) for line in bare}
    return len(bare) > 1 and len(counts) == 1 and min(counts) + 1 >= NAMES_MIN


def _inside(line: str) -> str:
    """What a cell in quotation marks holds."""
    return line.removeprefix('"').removesuffix('"').replace('""', '"')


def _titles(begin: Sequence[str], told: str | None) -> int:
    """The number of titles above the header, of the first lines of a file; told: the delimiter, if it is known."""
    for number, line in enumerate(begin):
        delimiter = told or _delimiter(_bare(line))
        cells = [one.replace('"', "").split(delimiter) for one in begin[: number + 1]]
        below = next(filter(str.strip, begin[number + 1 :]), "")
        is_even = _bare(below).count(delimiter) == _bare(line).count(delimiter)
        is_even &= delimiter in _bare(line) or _is_quoted_whole(begin[number:])
        if sum(map(bool, map(str.strip, cells[-1]))) > 1 and is_even:
            return titles_above(cells, below.replace('"', "").split(delimiter))
        if line.count('"') % 2:  # a name of the header, or a cell, goes on in the next line
            return 0
    return 0


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
    parsing = arrow_csv.ParseOptions(delimiter=delimiter[0], quote_char=False, double_quote=False)
    meaning = arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, arrow.string()))
    try:
        for batch in arrow_csv.open_csv(path, reading, parsing, meaning):
            if any((compute.max(compute.utf8_length(cells)).as_py() or 0) > csv.field_size_limit() for cells in batch):
                raise _NotPlain
            cells = [compute.utf8_ltrim(column, " ") for column in batch] if delimiter[1:] else batch.columns
            yield arrow.table(cells, names=header)
    except ValueError:  # ragged, or not UTF-8
        raise _NotPlain from None


def _is_plain(path: str | Path) -> bool:
    """True if a file has neither quotation marks nor bare carriage returns."""
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


def _checked_rows(path: str | Path, reader: Any, above: int) -> Iterator[list[str]]:
    """The header and the rows, without blank lines, which are rows of one column; above: lines before the header."""
    began, blank = above + 1, 0  # the line in which a row begins, of which a quotation mark may make many
    try:
        header: list[str] = next(islice(reader, above, None), [])
        yield header
        began = reader.line_num + 1
        for number, row in enumerate(reader):
            if row and len(row) != len(header):
                last = [row, *filter(None, islice(reader, ENDS_LOOKED_AT))]
                if len(row) == 1 and _bare(row[0]).count(reader.dialect.delimiter) == len(header) - 1:
                    raise ConfigError(f"{path}, line {began}: {_QUOTED_WHOLE}")
                are_notes = all(len(one) == 1 and is_note(one[0]) for one in last) and next(reader, None) is None
                if are_notes and _is_whole(path):
                    yield from (one + [""] * (len(header) - 1) for one in last)
                    return
                what = f"has {len(row)} cells; the header has {len(header)}"
                if len(row) > len(header) and number < 2:  # after a blank line, too
                    what += "; if there are titles above the header, remove them"
                if len(last) == 1 and len(row) < len(header):
                    what += "; does the file end in the middle of a row, or is its last line no row?"
                raise ConfigError(f"{path}, line {began}: {what}")
            if row:
                yield from ([""] for _ in range(blank))
                yield row
            blank = blank + 1 if len(header) == 1 and not row else 0
            began = reader.line_num + 1
        if blank:
            what = 'is blank, and the last one: if it is a row with an empty cell, write "" there, else remove it'
            raise ConfigError(f"{path}, line {began - 1}: {what}")
    except csv.Error as error:
        what = "not valid CSV (a quotation mark out of place, or a title above the header?)"
        if "field limit" in str(error):
            what = f"a cell of more than {csv.field_size_limit():,} characters (a quotation mark that is not closed?"
            what += " else shorten the cell, or give the rows as Parquet)"
        raise ConfigError(f"{path}, line {began}: {what}") from None


def _is_whole(path: str | Path) -> bool:
    """False if a file does not end with a line end: then its last row may be cut off."""
    if not Path(path).is_file() or str(path).lower().endswith(PACKED):
        return True
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) in b"\r\n\0"  # of UTF-16, too


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


ESCAPE, REFUSE, KEEP = "escape", "refuse", "keep"
"""The choices for a text that a spreadsheet would take for a formula."""

_NUMBER = r"[+-]?[\d.,]+([eE][+-]?\d+)?(\Z|;)"
_FORMULA = re.compile(rf"(\A|(?<=;))(?!{_NUMBER})(?=[=+\-@＝＋－＠\t\r\n].)", re.DOTALL)
"""Before a formula: -5 is a number, a mark alone a text. A semicolon begins a cell where decimals have a comma."""


class _Lines(list[str]):
    """Rows that end with a line feed alone: csv quotes a bare carriage return only where rows end with both.

    Unquoted, it would begin a row.
    """

    end = "\r\n"

    def write(self, row: str) -> None:
        self.append(row.removesuffix(self.end) + "\n")


def write_rows(frame: pd.DataFrame, file: IO[str], formulas: str = KEEP) -> None:
    """Writes a published table as CSV.

    Numbers are shortest decimals, dates and timestamps the published ISO texts, booleans true and false, nulls empty.
    Under KEEP it is read back as the same values. ESCAPE writes an apostrophe before what a spreadsheet would take for
    a formula, in names of columns, too; REFUSE raises ConfigError for it.
    """
    header = [_without_formula(str(name), name, formulas) for name in frame.columns]
    rows = chain([header], zip(*(_cell_texts(frame[name], formulas) for name in frame.columns), strict=True))
    while some := list(islice(rows, ROWS_AT_ONCE)):
        csv.writer(lines := _Lines(), lineterminator=_Lines.end).writerows(some)
        file.write("".join(lines))


def _cell_texts(column: pd.Series[Any], formulas: str) -> Iterable[object]:
    """The texts of a column, each made once; whole numbers stay as they are."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column
    column = with_iso_texts(column)
    if isinstance(column.dtype, pd.StringDtype):
        numbers, different = pd.factorize(column, use_na_sentinel=False)
        return np.array(
            [_without_formula(cell_text(text), column.name, formulas) for text in different] or [""], object
        )[numbers]
    texts: dict[tuple[type, object], str] = {}  # by type, too: 1 and true are equal
    cells = column.to_numpy(dtype=object)
    for value in cells:
        if (pair := (type(value), value)) not in texts:
            text = cell_text(value)
            texts[pair] = _without_formula(text, column.name, formulas) if isinstance(value, str) else text
    return [texts[type(value), value] for value in cells]


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
