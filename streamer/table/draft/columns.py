"""What a column of a data file could be in table.yaml: a guess, and the reason for it.

Guessed are the words that are nulls, how dates and numbers are written, the type and the scale: dates and timestamps in
cells of the calendar, digit codes by what they begin with, few values below one root. What will come is not what is
there: codes and dates have room for others, and categories take those that are not known yet. Anything else is left
out, with the reason. A column that names people is left out by its name; so is text that hardly repeats: it would be
free text, or a name. Roles are a judgement: a column is guessed to be sensitive by its name alone, and marked as a
guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from streamer.table.draft.far_numbers import far_numbers, hint_of_rows
from streamer.table.draft.hints import hint_of, hint_of_spellings
from streamer.table.draft.nulls import words_for_nulls
from streamer.table.draft.numbers import Scale, scale_of, with_null_cell
from streamer.table.draft.times import TimeScale, time_scale_of, with_null_moment
from streamer.table.draft.written import WrittenMoments, could_be_thousands, moments_written, numbers_written
from streamer.table.scalars import DIGITS_MAX, decimal_text, read_decimal
from streamer.table.source_texts import DIGITS
from streamer.table.yaml_categories import NULL_LABEL, OTHER_LABEL

CATEGORIES_MAX = 100
"""Values of a column below one root; more of them need a hierarchy that somebody thinks about."""
CODE_DIGITS_SHOWN = 3
"""Digits that a code's cell has in common: the first ones."""
TEXT_MAX = 60
"""Characters of a category; what is longer is free text."""
ROOT = "*"

IDS = {"id", "ids", "key", "uuid", "guid", "nr", "no", "number"}
NAMING = {
    "name", "surname", "firstname", "lastname", "fullname", "username", "mail", "email", "phone", "telephone", "mobile",
    "fax", "address", "street", "ssn", "passport", "iban", "account", "url", "ip",
    "vorname", "nachname", "familienname", "strasse", "telefon", "handy", "adresse", "anschrift",
    "nom", "prenom", "apellido", "nombre", "telefono", "direccion",
}  # fmt: skip
_SENSITIVE = {
    "disease", "diagnosis", "diagnoses", "problem", "illness", "condition", "symptom", "medication", "treatment",
    "salary", "income", "wage", "wages", "debt", "religion", "crime", "offence", "verdict", "grade",
    "diagnose", "krankheit", "gehalt", "lohn", "einkommen", "icd",
}  # fmt: skip
_POSTAL = {"zip", "zipcode", "postcode", "postal", "plz"}
_CODES = _POSTAL | {"code", "codes"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DIGITS = re.compile(r"\d{3,12}", re.ASCII)
_ZEROS_IN_FRONT = re.compile(r"-?0\d+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f]")

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Drafted:
    """A guess about one column."""

    name: str
    role: str  # "quasi-identifier", "sensitive", or "" for a column that is left out
    why: str  # what there is to check or know
    scale: Scale | TimeScale | None = None  # of a quasi-identifier with intervals
    hierarchy: Rows = ()  # of a categorical one: rows from leaf to root
    type: str = ""  # of a sensitive column
    null_as: str | None = None  # the number or moment that nulls count as
    na: tuple[str, ...] = ()  # the words that are nulls
    nulls: bool = False  # whether there are any, empty cells included
    written: str | None = None  # how its texts are; None: as they are expected


def words_of(name: str) -> set[str]:
    """The words of a column's name, in lower case.

    >>> sorted(words_of("patientFirst_NAME")), sorted(words_of("SSN-no."))
    (['first', 'name', 'patient'], ['no', 'ssn'])
    """
    return {word.lower() for word in _WORD.findall(name)}


def source_key_of(columns: dict[str, list[str]]) -> str | None:
    """The column that names each row once: one that is called like an id, else the first one; None where there is none.

    >>> source_key_of({"age": ["1", "2"], "person_id": ["7", "8"]}), source_key_of({"age": ["1", "1"]})
    ('person_id', None)
    """
    unique = [name for name, texts in columns.items() if usable(name) and all(texts) and len(set(texts)) == len(texts)]
    return next((name for name in unique if words_of(name) & IDS), unique[0] if unique else None)


def usable(name: str) -> bool:
    """Whether table.yaml can name the column."""
    return 0 < len(name) <= 255 and not _CONTROL.search(name)


@dataclass(frozen=True)
class _Cells:
    """What is read of a column's cells."""

    distinct: list[str]  # sorted, without nulls
    filled: int
    empty: int
    na: tuple[str, ...]  # the words that are nulls
    moments: WrittenMoments | None
    numbers: list[Decimal]  # of `distinct`; none if they are no numbers
    written: str | None  # how the numbers are written


def drafted(name: str, texts: Sequence[str]) -> Drafted:
    """A guess about the column with these cells; an empty one is a null."""
    cells = _read(texts)
    found = _guessed(name, cells)
    if not found.role:
        return found
    why = _doubt(cells) + found.why
    if isinstance(found.scale, Scale) and found.written != DIGITS:
        far = far_numbers(cells.numbers)
        codes = {text for text, number in zip(cells.distinct, cells.numbers, strict=True) if number in far}
        why = "; ".join(filter(None, (why, hint_of_rows(sum(text in codes for text in texts)))))
    return replace(found, na=cells.na, nulls=cells.empty > 0, why=why)


def _read(texts: Sequence[str]) -> _Cells:
    """More words are nulls if all else are numbers or dates."""
    every = sorted(set(texts) - {""})
    na = words_for_nulls(every, counts=True)
    distinct = [text for text in every if text not in na]
    moments = moments_written(distinct)
    numbers, written = _numbers(distinct)
    if not (moments or numbers):
        na = words_for_nulls(every, counts=False)
        distinct = [text for text in every if text not in na]
    filled = sum(text != "" and text not in na for text in texts)
    return _Cells(distinct, filled, len(texts) - filled, na, moments, numbers, written)


def _doubt(cells: _Cells) -> str:
    """What nobody could tell from the texts, to stand before all else; "" if nothing is in doubt."""
    if cells.moments is not None:
        return "day and month could change places: check how it is written; " if cells.moments.doubtful else ""
    either = bool(cells.numbers) and could_be_thousands(cells.distinct)
    return "could be thousands or fractions: check how it is written; " if either else ""


def _guessed(name: str, cells: _Cells) -> Drafted:
    moments = cells.moments
    if reason := _left_out(name, cells.distinct):
        return Drafted(name, "", reason)
    if words_of(name) & _SENSITIVE and (cells.numbers or moments or _few(cells)):
        type_ = moments.clock.name if moments else _type(cells)
        pattern = moments.written if moments else cells.written
        return Drafted(name, "sensitive", "a guess, by its name: published as it is", type=type_, written=pattern)
    if moments is not None:
        return _moments(name, moments, cells.empty)
    if _is_code(name, cells):
        return _code(name, cells)
    return _number(name, cells) if cells.numbers else _category(name, cells)


def _left_out(name: str, distinct: list[str]) -> str:
    """Why a column is left out whatever its type; "" where it is not."""
    if not name:
        return "has no name: give it one in the header, such as id"
    if not usable(name):
        return "table.yaml cannot name it"
    if not distinct:
        return "holds nothing"
    if words_of(name) & NAMING:
        return "names people, by its own name"
    if words_of(name) & IDS:
        return "an identifier, by its name"
    return ""


def _numbers(distinct: list[str]) -> tuple[list[Decimal], str | None]:
    """The texts as numbers, and how they are written; none where one is no number, or is a code with zeros in front."""
    if any(map(_ZEROS_IN_FRONT.fullmatch, distinct)):
        return [], None
    numbers, written = [read_decimal(text) for text in distinct], None
    if None in numbers and (otherwise := numbers_written(distinct)) is not None:
        written, numbers = otherwise[0], [*otherwise[1]]
    found = [number for number in numbers if number is not None and abs(number.adjusted()) <= DIGITS_MAX]
    return (found, written) if len(found) == len(distinct) else ([], None)


def _type(cells: _Cells) -> str:
    if not cells.numbers:
        return "boolean" if set(cells.distinct) <= {"true", "false"} else "text"
    return "integer" if all(number == number.to_integral_value() for number in cells.numbers) else "decimal"


def _number(name: str, cells: _Cells) -> Drafted:
    numbers, holed = cells.numbers, cells.empty > 0 and _are_holed(cells.numbers)
    scale = scale_of([number.to_integral_value() for number in numbers] if holed else numbers)
    if scale is None:
        return Drafted(name, "", "its numbers have more digits than a domain may have")
    exactly = set(scale.domain) <= set(numbers)
    why = f"the domain is {'that of the values seen' if exactly else 'rounded outward'}; check it, and the grid"
    return _with_nulls(Drafted(name, "quasi-identifier", why, written=cells.written), scale, cells.empty)


def _are_holed(numbers: list[Decimal]) -> bool:
    """Whether the numbers are written as pandas writes whole numbers beside holes: all of them as 7.0.

    >>> _are_holed([Decimal("7.0"), Decimal("8.0")]), _are_holed([Decimal("7.0"), Decimal("8")])
    (True, False)
    """
    return all(number.as_tuple().exponent == -1 and number == number.to_integral_value() for number in numbers)


def _is_code(name: str, cells: _Cells) -> bool:
    """Whether the texts are digit codes, such as postal ones: by the column's name, or by zeros in front."""
    if not all(map(_DIGITS.fullmatch, cells.distinct)):
        return False
    if words_of(name) & _POSTAL:
        return True
    repeated = 2 * len(cells.distinct) <= cells.filled
    named = bool(words_of(name) & _CODES) or any(text[0] == "0" for text in cells.distinct)
    return named and repeated and len(set(map(len, cells.distinct))) == 1


def _code(name: str, cells: _Cells) -> Drafted:
    """All codes of so many digits, in cells of those that begin alike: others will come."""
    digits = max(map(len, cells.distinct))
    grid = Decimal(10 ** max(0, digits - CODE_DIGITS_SHOWN))
    scale = Scale(integer=True, domain=(Decimal(0), Decimal(10**digits - 1)), step=Decimal(1), grid=grid)
    why = f"codes of {digits} digits, in cells of the first {CODE_DIGITS_SHOWN}; check the grid"
    return _with_nulls(Drafted(name, "quasi-identifier", why, written=DIGITS), scale, cells.empty)


def _with_nulls(found: Drafted, scale: Scale, empty: int) -> Drafted:
    """The same with its scale, which has a cell for the nulls if there are any."""
    if not empty:
        return replace(found, scale=scale)
    scale = with_null_cell(scale)
    return replace(found, why=found.why + _of_empty(empty), scale=scale, null_as=decimal_text(scale.domain[0]))


def _moments(name: str, moments: WrittenMoments, empty: int) -> Drafted:
    seen = time_scale_of(moments.texts, moments.clock)
    scale = with_null_moment(seen) if empty else seen
    if scale is None:
        return Drafted(name, "", f"has {empty} empty cells, and all of the calendar for its domain")
    why = "the domain has room for others; check it, and the grid" + (_of_empty(empty) if empty else "")
    null_as = scale.domain[0] if empty else None
    return Drafted(name, "quasi-identifier", why, scale=scale, null_as=null_as, written=moments.written)


def _of_empty(empty: int) -> str:
    return f"; {empty} empty cells count as null_as, in a first cell of their own"


def _few(cells: _Cells) -> bool:
    """Whether the texts are categories: few, short, and repeated."""
    short = all(len(text) <= TEXT_MAX and not _CONTROL.search(text) for text in cells.distinct)
    return short and len(cells.distinct) <= CATEGORIES_MAX and 2 * len(cells.distinct) <= cells.filled


def _category(name: str, cells: _Cells) -> Drafted:
    distinct, empty = cells.distinct, cells.empty
    if not _few(cells):
        hint = hint_of(distinct) or "names or free text?"
        return Drafted(name, "", f"{len(distinct)} different texts in {cells.filled} cells: {hint}")
    taken = (ROOT, NULL_LABEL, OTHER_LABEL)
    spellings = hint_of_spellings(distinct)
    if any(text != text.strip() or text in taken for text in distinct):
        why = f"has values with blanks at an end, or called {' or '.join(taken)}: clean them first"
        return Drafted(name, "", "; ".join(filter(None, (why, spellings))))
    rows = tuple((text, ROOT) for text in distinct)
    why = "a value or nothing: put levels between in its hierarchy; unknown values count as other"
    of_empty = f"{empty} empty cells are a category of their own" if empty else ""
    why = "; ".join(filter(None, (why, of_empty, hint_of(distinct), spellings)))
    return Drafted(name, "quasi-identifier", why, hierarchy=rows)
