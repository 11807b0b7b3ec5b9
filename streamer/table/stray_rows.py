"""Rows of a file that are no data: a second header, a line of units, totals, a note at the end.

They are named by number and kind, and never quoted. Nothing is left out by itself: a row may look like a total and be
somebody's. `init` drafts from the other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from streamer.table.codes.source_texts import plain_letters

HEADER, UNITS, TOTAL, NOTE = "the header again", "a second header or units", "a total", "a note"

ENDS_LOOKED_AT = 5
"""The last rows, of which one may be a note."""
ONE_IN_TOTALS = 20
"""Totals are few; what one in ONE_IN_TOTALS rows has is a category."""
LABELS_IN = 2
"""The label of a total is in one of the first columns."""

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
    n = max(map(len, columns.values()), default=0)
    found = dict.fromkeys(_headers(columns, n), HEADER)
    if n > 1 and 0 not in found and _is_of_units([texts[0] for texts in columns.values()], columns):
        found[0] = UNITS
    found |= dict.fromkeys(_totals(columns, n), TOTAL)
    for number in range(n - 1, max(0, n - ENDS_LOOKED_AT) - 1, -1):
        if _is_note([texts[number] for texts in columns.values()]):
            found[number] = NOTE
        elif number not in found:
            break
    return dict(sorted(found.items()))


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
        for number, text in enumerate(texts):
            if len(text) >= len(wanted) and text.strip().casefold() == wanted:
                alike[number] += 1
    return (number for number, count in enumerate(alike) if count >= 2 and 2 * count >= len(columns))


def _is_of_units(row: Sequence[str], columns: Mapping[str, Sequence[str]]) -> bool:
    """True if a first row has units, or words where all others have digits."""
    filled = [text.strip() for text in row if text.strip(" -")]
    if filled and all(map(_UNIT.fullmatch, filled)) and (len(filled) > 1 or len(row) > 2):
        return not any(text in texts[1:] for text, texts in zip(row, columns.values(), strict=True) if text.strip(" -"))
    of_digits = worded = 0
    for text, (_, *others) in zip(row, columns.values(), strict=True):
        some = [other for other in others if other.strip()]
        if some and sum(map(bool, map(_DIGIT.search, some))) > len(some) / 2:
            of_digits += 1
            worded += text.strip() != "" and not _DIGIT.search(text) and text not in others
    return worded >= 2 and 2 * worded > of_digits


def _totals(columns: Mapping[str, Sequence[str]], n: int) -> list[int]:
    """Rows that have the label of a total in one of the first columns."""
    found = []
    for texts in [*columns.values()][:LABELS_IN]:
        known = {text for text in set(texts) if _NO_LETTERS.sub("", plain_letters(text)) in _TOTALS}
        found += [number for number, text in enumerate(texts) if text in known] if known else []
    return found if ONE_IN_TOTALS * len(found) <= max(n, ONE_IN_TOTALS) else []


def _is_note(row: Sequence[str]) -> bool:
    """True if a row has one sentence alone."""
    filled = [text for text in row if text.strip()]
    return len(filled) == 1 < len(row) and bool(re.search(r"[^\W\d_]{2}.*[\s:]", filled[0]))
