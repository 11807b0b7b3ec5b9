"""Rows of a file that are no data: titles above the header, a second header, units, totals, a note at the end.

Those below the header are named by number and kind, and never quoted. None is left out by itself: a row may look like
a total and be somebody's. `init` drafts from the other rows. A table in parts has the same ones: what a part alone
shows are suspects, which are judged when the number of all rows is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from streamer.table.codes.source_texts import cell_text, plain_letters

if TYPE_CHECKING:
    import pandas as pd

HEADER, UNITS, TOTAL, NOTE = "the header again", "a second header or units", "a total", "a note"

ENDS_LOOKED_AT = 5
"""The last rows, of which one may be a note."""
ONE_IN_TOTALS, TOTALS_MAX = 20, 1_000
"""Totals are few; what one in ONE_IN_TOTALS rows has, or more than TOTALS_MAX, is a category."""
ROWS_COMPARED = 1_000
"""The first rows, which show what a column holds."""
LABELS_IN = 2
"""The label of a total is in one of the first columns."""
TITLE_ROWS_MAX = 20
NAMES_MIN = 3
"""Titles have one cell; what has fewer than NAMES_MIN is no header that they could stand above."""
TITLES = "titles"
"""The name of the attribute of a DataFrame, in pandas' `attrs`, that says which titles were above its header."""

_TOTAL_LABELS = (
    "total totals grandtotal subtotal sum average mean all count summe gesamt gesamtsumme zwischensumme insgesamt",
    "mittelwert durchschnitt anzahl totalgeneral somme soustotal ensemble moyenne suma promedio media mediana",
    "totale somma medio totalgeral soma totaal som gemiddelde razem ogolem ogo\u0142em srednia celkem soucet",
    "prumer totalt snitt yhteensa toplam osszesen \u0438\u0442\u043e\u0433\u043e \u0432\u0441\u0435\u0433\u043e",
    "\u5408\u8ba1 \u5408\u8a08 \u603b\u8ba1 \u7dcf\u8a08",
)
"""In plain letters, without blanks and marks."""
_TOTALS = frozenset(label for line in _TOTAL_LABELS for label in line.split())
_UNIT = re.compile(
    r"[\[(].{1,20}[\])]|%|\u20ac|\$|\u00a3|z\u0142|kg|g|mg|lb|cm|mm|m|km|in|years?|yrs?|jahre?|ans?|a\u00f1os|anni|anos|jaar|lat"
    r"|months?|days?|eur|usd|gbp|chf|pln|kg/m[2\u00b2]|mmhg|bpm|text|string|integer|int|date|datum|numeric|number",
    re.IGNORECASE,
)
_NO_LETTERS = re.compile(r"[\W_]+")
_DIGIT = re.compile(r"\d")


def stray_rows(columns: Mapping[str, Sequence[str]]) -> dict[int, str]:
    """The rows that seem to be no data, by number from 0: what each seems to be. columns: texts by name.

    >>> stray_rows({"id": ["1", "id", "2", "Summe"], "age": ["30", "age", "40", "70"], "sex": ["f", "sex", "m", ""]})
    {1: 'the header again', 3: 'a total'}
    """
    return judged(_suspects(columns, 0), max(map(len, columns.values()), default=0))


def judged(suspects: Mapping[int, str], n: int) -> dict[int, str]:
    """The rows of a table of n that seem to be no data, of the suspects of all its parts."""
    totals = sum(what == TOTAL for what in suspects.values())
    is_category = totals > min(TOTALS_MAX, max(n, ONE_IN_TOTALS) // ONE_IN_TOTALS)
    found = {number: what for number, what in suspects.items() if not (is_category and what == TOTAL)}
    end = next(number for number in range(n - 1, -2, -1) if number not in found or number < n - ENDS_LOOKED_AT)
    return {number: what for number, what in sorted(found.items()) if what != NOTE or number > end}


def _suspects(columns: Mapping[str, Sequence[str]], first: int) -> dict[int, str]:
    """The rows of a part of a table that may be no data; first: the number of its first row, from 0."""
    n = max(map(len, columns.values()), default=0)
    found = dict.fromkeys(_headers(columns, n), HEADER)
    if first == 0 and n > 1 and 0 not in found and _is_of_units([texts[0] for texts in columns.values()], columns):
        found[0] = UNITS
    found |= dict.fromkeys(islice(_totals(columns), TOTALS_MAX + 1), TOTAL)
    for number in range(max(0, n - ENDS_LOOKED_AT), n):
        row = [text for texts in columns.values() if (text := texts[number]).strip()]
        if len(row) == 1 < len(columns) and is_note(row[0]):
            found.setdefault(number, NOTE)
    return {first + number: what for number, what in found.items()}


def titles_above(rows: Sequence[Sequence[str]], below: Sequence[str]) -> int:
    """The number of titles and blank lines above a header, which is the last of some rows; 0 if it is not below any.

    below: the row after the header. In doubt a first line is a header, as else a person's row would name the columns: a
    title has several words, and names have no digits in a column whose first cell has some.

    >>> titles_above([["Patients 2024"], [""], ["id", "age", "sex"]], ["1", "30", "f"])
    2
    >>> titles_above([["ill"], ["flu", "b", "y"]], ["1", "2", "3"]), titles_above([["id", "age"], ["1", "2", "3"]], [])
    (0, 0)
    """
    *above, header = ([cell.strip() for cell in row if cell.strip()] for row in rows)
    if len(header) < NAMES_MIN or any(len(cells) > 1 or not all(" " in one for one in cells) for cells in above):
        return 0
    named = any(_DIGIT.search(cell) and not _DIGIT.search(name) for name, cell in zip(rows[-1], below, strict=False))
    return len(above) if named and not any(name.replace(".", "").isdecimal() for name in header) else 0


def said_of_titles(titles: Sequence[Sequence[str]], first: int, what: str) -> str:
    """A sentence about the rows above a header, the first of which is line `first` of a file; "" if all are blank."""
    if not any(cell.strip() for cells in titles for cell in cells):
        return ""
    header = first + len(titles)
    which = f"{what} {first} was skipped as a title"
    if len(titles) > 1:
        which = f"{what}s {first} to {header - 1} were skipped as titles"
    return f"{which}, and {what} {header} was taken for the header"


def stray_among(frame: pd.DataFrame) -> dict[int, str]:
    """The same of a DataFrame of texts, as files have them; rows of a database or of Parquet, with types, are data."""
    return judged(suspects_among(frame), len(frame))


def suspects_among(frame: pd.DataFrame, first: int = 0) -> dict[int, str]:
    """The rows of a part of such a table that may be no data; first: the number of its first row, from 0."""
    if not all("object" in str(dtype) or "str" in str(dtype) for dtype in frame.dtypes):
        return {}
    return _suspects({str(name): _Texts(cells) for name, cells in frame.items()}, first)


class _Texts(Sequence[str]):
    """A column of a DataFrame as texts, which are made when they are asked for: all of them take half of the memory."""

    def __init__(self, cells: pd.Series[Any]) -> None:
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, at: Any) -> Any:
        found = self._cells.iloc[at]
        return list(map(cell_text, found)) if isinstance(at, slice) else cell_text(found)

    def __iter__(self) -> Iterator[str]:
        return map(cell_text, self._cells)

    def different(self) -> list[str]:
        """The texts of different cells."""
        cells = np.asarray(self._cells.unique(), dtype=object)
        return [cell if type(cell) is str else cell_text(cell) for cell in cells]


def _different(texts: Sequence[str]) -> Iterable[str]:
    return texts.different() if isinstance(texts, _Texts) else set(texts)


def said_of(found: Mapping[int, str]) -> str:
    """A sentence about such rows; "" if there are none."""
    if not found:
        return ""
    some = ", ".join(f"{number + 1} ({what})" for number, what in [*found.items()][:ENDS_LOOKED_AT])
    more = f" and {len(found) - ENDS_LOOKED_AT} more" if len(found) > ENDS_LOOKED_AT else ""
    rows, seem, them = ("row", "seems", "it") if len(found) == 1 else ("rows", "seem", "them")
    return f"data {rows} {some}{more} {seem} to be no data: remove {them} from the source"


def _headers(columns: Mapping[str, Sequence[str]], n: int) -> Iterator[int]:
    """Rows of which at least two cells, and half of them, are the names of their columns."""
    alike = [0] * n
    for name, texts in columns.items():
        wanted = name.strip().casefold()
        again = {text for text in _different(texts) if len(text) >= len(wanted) and text.strip().casefold() == wanted}
        for number, text in enumerate(texts) if again else ():
            alike[number] += text in again
    return (number for number, count in enumerate(alike) if count >= 2 and 2 * count >= len(columns))


def _is_of_units(row: Sequence[str], columns: Mapping[str, Sequence[str]]) -> bool:
    """True if a first row has units, or words where all others have digits."""
    filled = [text.strip() for text in row if text.strip(" -")]
    if filled and all(map(_UNIT.fullmatch, filled)) and (len(filled) > 1 or len(row) > 2):
        below = (texts[1:ROWS_COMPARED] for texts in columns.values())
        return not any(text in some for text, some in zip(row, below, strict=True) if text.strip(" -"))
    of_digits = worded = 0
    for text, texts in zip(row, columns.values(), strict=True):
        others = texts[1:ROWS_COMPARED]
        some = [other for other in others if other.strip()]
        if some and sum(map(bool, map(_DIGIT.search, some))) > len(some) / 2:
            of_digits += 1
            worded += text.strip() != "" and not _DIGIT.search(text) and text not in others
    return worded >= 2 and 2 * worded > of_digits


def _totals(columns: Mapping[str, Sequence[str]]) -> Iterator[int]:
    """Rows that have the label of a total in one of the first columns."""
    for texts in [*columns.values()][:LABELS_IN]:
        known = set(filter(_is_total, _different(texts)))
        yield from (number for number, text in enumerate(texts) if text in known) if known else ()


def _is_total(text: str) -> bool:
    return not _DIGIT.search(text) and _NO_LETTERS.sub("", plain_letters(text)) in _TOTALS


def is_note(text: str) -> bool:
    """True if the one cell of a row has words, or the label of a total."""
    return bool(re.search(r"[^\W\d_]{2}.*[\s:]", text)) or _is_total(text)
