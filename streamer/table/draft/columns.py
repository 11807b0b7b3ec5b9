"""What a column of a data file could be in table.yaml: a guess, and the reason for it.

Guessed are the type, the scale and the levels that are obvious: dates and timestamps in cells of the calendar, digit
codes by prefix, few values below one root. Anything else is left out, with the reason. A column that names people is
left out by its name; so is text that hardly repeats: it would be free text, or a name. Roles are a judgement: a column
is guessed to be sensitive by its name alone, and marked as a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from streamer.table.draft.numbers import Scale, scale_of
from streamer.table.draft.times import TimeScale, clock_of, time_scale_of
from streamer.table.moments import Clock, limit_of, moment_of
from streamer.table.scalars import DIGITS_MAX, read_decimal

CATEGORIES_MAX = 100
"""Values of a column below one root; more of them need a hierarchy that somebody thinks about."""
CODES_MAX = 20_000
"""Digit codes of a column, whose levels follow from their texts."""
TEXT_MAX = 60
"""Characters of a category; what is longer is free text."""
NONE, ROOT = "(none)", "*"

_IDS = {"id", "ids", "key", "uuid", "guid", "nr", "no", "number"}
_NAMING = {
    "name", "surname", "firstname", "lastname", "fullname", "username", "mail", "email", "phone", "telephone", "mobile",
    "fax", "address", "street", "ssn", "passport", "iban", "account", "url", "ip",
}  # fmt: skip
_SENSITIVE = {
    "disease", "diagnosis", "diagnoses", "problem", "illness", "condition", "symptom", "medication", "treatment",
    "salary", "income", "wage", "wages", "debt", "religion", "crime", "offence", "verdict", "grade",
}  # fmt: skip
_POSTAL = {"zip", "zipcode", "postcode", "postal", "plz"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DIGITS = re.compile(r"\d{4,12}", re.ASCII)
_ZEROS_IN_FRONT = re.compile(r"-?0\d+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f]")

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Drafted:
    """A guess about one column.

    role: "quasi-identifier", "sensitive", or "" for a column that is left out; why: what there is to check or know.
    scale: of a quasi-identifier with intervals; hierarchy: rows from leaf to root, of a categorical one; type: of a
    sensitive column. null_as: what an empty cell counts as, None where there is none.
    """

    name: str
    role: str
    why: str
    scale: Scale | TimeScale | None = None
    hierarchy: Rows = ()
    type: str = ""
    null_as: str | None = None


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
    return next((name for name in unique if words_of(name) & _IDS), unique[0] if unique else None)


def usable(name: str) -> bool:
    """Whether table.yaml can name the column."""
    return 0 < len(name) <= 255 and not _CONTROL.search(name)


def drafted(name: str, texts: Sequence[str]) -> Drafted:
    """A guess about the column with these cells; an empty one is a null."""
    filled = [text for text in texts if text]
    distinct, empty = sorted(set(filled)), len(texts) - len(filled)
    if reason := _left_out(name, distinct):
        return Drafted(name, "", reason)
    numbers, clock = _numbers(distinct), clock_of(distinct)
    if words_of(name) & _SENSITIVE and (numbers or clock or _few(distinct, len(filled))):
        type_ = clock.name if clock else _type(numbers, distinct)
        return Drafted(name, "sensitive", "a guess, by its name: published as it is", type=type_)
    if clock is not None:
        return _moments(name, distinct, clock, empty)
    if numbers and not words_of(name) & _POSTAL:
        return _number(name, numbers, empty)
    return _category(name, distinct, len(filled), empty)


def _left_out(name: str, distinct: list[str]) -> str:
    """Why a column is left out whatever its type; "" where it is not."""
    if not usable(name):
        return "table.yaml cannot name it"
    if not distinct:
        return "holds nothing"
    if words_of(name) & _NAMING:
        return "names people, by its own name"
    if words_of(name) & _IDS:
        return "an identifier, by its name"
    return ""


def _numbers(distinct: list[str]) -> list[Decimal]:
    """The texts as numbers; empty where one is none, or is a code with zeros in front."""
    numbers = [read_decimal(text) for text in distinct]
    if any(map(_ZEROS_IN_FRONT.fullmatch, distinct)):
        return []
    found = [number for number in numbers if number is not None and abs(number.adjusted()) <= DIGITS_MAX]
    return found if len(found) == len(distinct) else []


def _type(numbers: list[Decimal], distinct: list[str]) -> str:
    if not numbers:
        return "boolean" if set(distinct) <= {"true", "false"} else "text"
    return "integer" if all(number == number.to_integral_value() for number in numbers) else "decimal"


def _number(name: str, numbers: list[Decimal], empty: int) -> Drafted:
    scale = scale_of(numbers, spare=empty > 0)
    if scale is None:
        return Drafted(name, "", "its numbers have more digits than a domain may have")
    free = next((end for end in scale.domain if end not in numbers), scale.domain[0])
    null_as = format(free, "f") if empty else None
    exactly = set(scale.domain) <= set(numbers)
    why = f"the domain is {'that of the values seen' if exactly else 'rounded outward'}; check it, and the grid"
    return Drafted(name, "quasi-identifier", why + _of_empty(empty), scale=scale, null_as=null_as)


def _moments(name: str, distinct: list[str], clock: Clock, empty: int) -> Drafted:
    scale = time_scale_of(distinct, clock)
    seen = {moment_of(text, name, clock) for text in distinct}
    free = next((end for end in scale.domain if limit_of(end, name, clock) not in seen), None)
    if empty and free is None:
        return Drafted(name, "", f"has {empty} empty cells, and all of the calendar for its domain")
    why = "the domain is rounded outward; check it, and the grid" + _of_empty(empty)
    return Drafted(name, "quasi-identifier", why, scale=scale, null_as=free if empty else None)


def _of_empty(empty: int) -> str:
    return f"; {empty} empty cells count as null_as, which is true of nobody: give a better one" if empty else ""


def _few(distinct: list[str], filled: int) -> bool:
    """Whether the texts are categories: few, short, and repeated."""
    short = all(len(text) <= TEXT_MAX and not _CONTROL.search(text) for text in distinct)
    return short and len(distinct) <= CATEGORIES_MAX and 2 * len(distinct) <= filled


def _category(name: str, distinct: list[str], filled: int, empty: int) -> Drafted:
    rows, why = _levels(distinct), "its levels follow from its texts; check them"
    identifies = 2 * len(distinct) > filled and not words_of(name) & _POSTAL
    if not rows or identifies or len(distinct) > CODES_MAX:
        if not _few(distinct, filled):
            return Drafted(name, "", f"{len(distinct)} different texts in {filled} cells: names or free text?")
        rows, why = [(text, ROOT) for text in distinct], "a value or nothing: put levels between in its hierarchy"
    if any(text != text.strip() or text in (ROOT, NONE) for text in distinct):
        return Drafted(name, "", f"has values with blanks at an end, or called {ROOT} or {NONE}: clean them first")
    if empty:
        rows, why = [*rows, (NONE, ROOT)], f"{why}; {empty} empty cells count as {NONE}"
    return Drafted(name, "quasi-identifier", why, hierarchy=tuple(rows), null_as=NONE if empty else None)


def _levels(distinct: list[str]) -> list[tuple[str, ...]]:
    """The obvious hierarchy of digit codes of one length; empty where there is none.

    >>> _levels(["10085"])
    [('10085', '1008*', '100**', '10***', '1****', '*')]
    """
    if all(map(_DIGITS.fullmatch, distinct)) and len(set(map(len, distinct))) == 1:
        return [(text, *_masked(text), ROOT) for text in distinct]
    return []


def _masked(text: str) -> Iterator[str]:
    return (text[:-hidden] + "*" * hidden for hidden in range(1, len(text)))
