"""Rows of a workbook of Excel, as whoever filled it in sees them.

* A cell that shows zeros in front, or digits in groups, is that text: `01067` under the format `00000`, `123-45-6789`
  under `000-00-0000`. Any other number is itself, without the noise in its 16th digit that Excel does not show.
* An error is its text, such as `#N/A`. A name of a column is what its cell shows: `2019`, not `2019.0`.
* calamine reads values, dates among them, fast. It knows neither formats nor errors: if there are any, they are looked
  up in the sheet's XML.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from posixpath import join, normpath
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

from streamer.errors import ConfigError, UsageError, needs_extra
from streamer.table.codes import cell_text, time_text
from streamer.table.stray_rows import TITLE_ROWS_MAX, said_of_titles, titles_above

Cells = tuple[Any, ...]

_SHOWN_DIGITS = 15
_BOOKS, _RELATIONS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PLACE = re.compile(r"([A-Z]+)(\d+)")
_ATTRIBUTE = re.compile(rb"""\b(\w+)=["']([^"']*)["']""")
_VALUE = re.compile(rb"<(?:\w+:)?v\b[^>]*>([^<]*)|<(?:\w+:)?(?:v/|is\b)")
_PART = re.compile(r'\\(?P<escaped>.)|"(?P<quoted>[^"]*)"|_.|(?P<digit>[0#?])|(?P<mark>[-/ ()+:])')
_AROUND = re.compile(r"\[[^\]<>=]*\]|;.*")  # colours, languages, and the formats of other numbers
_YEARS = re.compile(r"[yYjJ]{4}")


class Odd(NamedTuple):
    """A cell of which calamine does not tell all."""

    error: str | None  # what it shows, if it is an error
    format: str | None  # its format, if that shows other texts than the number's
    lacks_result: bool  # whether it is a formula that was never computed


def rows_of_workbook(
    path: str, sheet: str | None, wanted: Collection[str] | None = None
) -> tuple[list[str], Iterator[Cells], str]:
    """The header of a sheet, its rows, and a sentence about the titles above the header, "" if there are none.

    sheet: None if there is only one; wanted: the columns that must be whole. Blank rows are no rows, but of one column.
    Raises ConfigError, UsageError, LibraryMissing.
    """
    with needs_extra("excel"):
        from python_calamine import CalamineError, CalamineWorkbook
    try:
        book = CalamineWorkbook.from_path(path)
        names = [one.name for one in book.sheets_metadata if "WorkSheet" in str(one.typ)]
        if sheet not in names and (sheet is not None or len(names) != 1):
            raise UsageError(f"{path}: say which sheet by --sheet: {', '.join(map(repr, names))}")
        found = book.get_sheet_by_name(sheet or names[0])
        rows, (top, left) = found.to_python(), found.start or (0, 0)
        odd = _odd_cells(path, found.name)
    except OSError:
        raise ConfigError(f"{path}: cannot be read: {os.strerror(2)}") from None
    except (CalamineError, ElementTree.ParseError, zipfile.BadZipFile, KeyError) as error:
        raise ConfigError(f"{path}: cannot be read as a workbook of Excel ({type(error).__name__})") from None
    shown = [
        [_shown(cell, odd.get((top + y, left + x))) for x, cell in enumerate(row)] if odd else [*map(_plain, row)]
        for y, row in enumerate(rows)
    ]
    first = [[_name(cell) for cell in row] for row in shown[: TITLE_ROWS_MAX + 2]]
    titles = max((titles_above(first[: n + 1], first[n + 1]) for n in range(len(first) - 1)), default=0)
    header = first[titles] if first else []
    while header and not header[-1] and not any(row[len(header) - 1] is not None for row in shown):
        header.pop()
    _require_results(path, header, odd, left, wanted)
    below = (tuple(row[: len(header)]) for row in shown[titles + 1 :])
    filled = (row for row in below if len(header) == 1 or any(cell is not None for cell in row))
    return header, filled, said_of_titles(first[:titles], top + 1, "row")


def _require_results(
    path: str, header: list[str], odd: dict[tuple[int, int], Odd], left: int, wanted: Collection[str] | None
) -> None:
    """Raises ConfigError for a formula of a wanted column that was never computed: it would be taken for a null."""
    for (row, column), cell in odd.items():
        name = header[column - left] if 0 <= column - left < len(header) else ""
        if cell.lacks_result and wanted is not None and name in wanted:
            raise ConfigError(
                f"{path}, row {row + 1}: column {name!r} holds a formula without its result: open the workbook in Excel"
                " or LibreOffice, and save it"
            )


def _plain(cell: Any) -> Any:
    """A cell that calamine tells all of; an empty one is None."""
    if type(cell) is float and not cell.is_integer():
        return float(format(cell, f".{_SHOWN_DIGITS}g"))
    if isinstance(cell, timedelta):
        return time_text(cell // timedelta(microseconds=1), 10**6)
    return None if cell == "" else cell


def _shown(cell: Any, odd: Odd | None) -> Any:
    if odd is None:
        return _plain(cell)
    if odd.error is not None:
        return odd.error
    text = None if odd.format is None else text_in_format(cell, odd.format)
    return _plain(cell) if text is None else text


def _name(cell: Any) -> str:
    return str(cell).upper() if isinstance(cell, bool) else cell_text(cell)


def text_in_format(cell: object, code: str) -> str | None:
    """The text that a cell shows under a format; None if that is the number or the date itself, written otherwise.

    >>> text_in_format(1067, "00000"), text_in_format(123456789, '000\\\\-00\\\\-0000'), text_in_format(7, '"P"000')
    ('01067', '123-45-6789', 'P007')
    >>> text_in_format(1067, "0.00"), text_in_format(1067, "#,##0"), text_in_format(date(2019, 1, 1), "yyyy")
    (None, None, '2019')
    """
    if isinstance(cell, date):
        return f"{cell.year:04}" if _YEARS.fullmatch(code) else None
    if not isinstance(cell, int | float) or isinstance(cell, bool) or cell != int(cell):
        return None
    parts = _parts_of(code)
    digits = str(abs(int(cell)))
    texts: list[str] = []
    for i, (is_digit, text) in reversed(list(enumerate(parts or ()))):
        if not is_digit:
            texts.append(text)
        elif any(one for one, _ in parts[:i]):
            texts.append(digits[-1:] or text)
            digits = digits[:-1]
        else:  # the first place takes all that is left
            texts.append(digits or text)
    return "-" * (cell < 0) + "".join(reversed(texts)) if parts else None


def _parts_of(code: str) -> list[tuple[bool, str]]:
    """The parts of a format that pads or groups digits: places, with what they show if empty, and texts; or none."""
    code = _AROUND.sub("", code)
    found = list(_PART.finditer(code))
    if "".join(part[0] for part in found) != code:
        return []
    empty = {"0": "0", "#": "", "?": " "}
    parts = [
        (True, empty[part["digit"]])
        if part["digit"]
        else (False, part["escaped"] or part["quoted"] or part["mark"] or "")
        for part in found
    ]
    places = [i for i, (is_digit, _) in enumerate(parts) if is_digit]
    is_grouped = bool(places) and places[-1] - places[0] >= len(places)
    return parts if len(places) > 1 and (is_grouped or sum(part["digit"] == "0" for part in found) > 1) else []


# -- the XML of a sheet -----------------------------------------------------------------------------------------------


def _odd_cells(path: str, sheet: str) -> dict[tuple[int, int], Odd]:
    """The cells of which calamine does not tell all, by row and column from 0."""
    with zipfile.ZipFile(path) as book:
        formats = _formats(book)
        return dict(_odd_of(book.read(_part_of_sheet(book, sheet)), formats))


def _part_of_sheet(book: zipfile.ZipFile, sheet: str) -> str:
    """The file of a sheet within the workbook's zip file."""
    relation = next(one.get(_RELATION) for one in _elements(book, _BOOKS, "sheet") if one.get("name") == sheet)
    target = next(
        one.get("Target", "") for one in _elements(book, _RELATIONS, "Relationship") if one.get("Id") == relation
    )
    return target.removeprefix("/") if target.startswith("/") else normpath(join("xl", target))


def _formats(book: zipfile.ZipFile) -> dict[str, str]:
    """The formats that show other texts than numbers, by the number of the style in a cell."""
    if "xl/styles.xml" not in book.namelist():
        return {}
    codes = {one.get("numFmtId"): one.get("formatCode", "") for one in _elements(book, "xl/styles.xml", "numFmt")}
    used = next(map(list, _elements(book, "xl/styles.xml", "cellXfs")), [])
    of_styles = {str(i): codes.get(style.get("numFmtId"), "") for i, style in enumerate(used)}
    return {i: code for i, code in of_styles.items() if _parts_of(code) or _YEARS.fullmatch(code)}


def _elements(book: zipfile.ZipFile, part: str, name: str) -> Iterator[ElementTree.Element]:
    with book.open(part) as file:
        yield from (one for one in ElementTree.parse(file).iter() if _bare(one) == name)


def _odd_of(sheet: bytes, formats: dict[str, str]) -> Iterator[tuple[tuple[int, int], Odd]]:
    """Found by expressions: a parser of XML would take six times as long as calamine does for everything."""
    styles = "|".join(formats) or "none"
    is_odd = rf"""(?=[^>]*\s(?:s=["'](?:{styles})["']|t=["']e["'])|[^>]*><(?:\w+:)?f\b)"""
    cells = re.compile(rf"<(?:\w+:)?c\b{is_odd}([^>]*?)(?:/>|>(.*?)</(?:\w+:)?c>)".encode(), re.DOTALL)
    for cell in cells.finditer(sheet):
        said = {name.decode(): value.decode() for name, value in _ATTRIBUTE.findall(cell[1])}
        place, value = _PLACE.fullmatch(said.get("r", "")), _VALUE.search(cell[2] or b"")
        error = unescape(value[1].decode()) if value and value[1] and said.get("t") == "e" else None
        found = Odd(error, formats.get(said.get("s", "")), bool(cell[2]) and value is None)
        if place and any(found):
            yield (int(place[2]) - 1, _column_of(place[1])), found


def _column_of(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _bare(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
