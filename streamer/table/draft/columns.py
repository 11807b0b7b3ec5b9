"""Drafts one column of table.yaml from the cells of a data file: a guess, and the reason for it.

A draft says which words are nulls, how dates and numbers are written, the type and the scale. More rows will come, so
codes and dates get room for other values, and categories take unknown ones. A column is left out, with the reason, if
its values identify people, or its name says so (the weaker hint), if its texts hardly repeat (names or free text), or
if nothing fits. Roles are a judgement: a column is guessed to be sensitive by its name alone, and marked as a guess. No
reason repeats a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, takewhile

from streamer.table.codes import DIGITS_MAX, decimal_text, read_decimal
from streamer.table.codes.source_texts import DIGITS_ALONE, plain_letters
from streamer.table.draft.hints import hint_of, hint_of_spellings, is_some_date
from streamer.table.draft.identifiers import identified
from streamer.table.draft.kinds import (
    BESIDE,
    DraftScale,
    TimeScale,
    WrittenMoments,
    could_be_thousands,
    mistakes_max,
    moments_written,
    most_of,
    numbers_written,
    odd_words,
    scale_of,
    time_scale_of,
    with_null_cell,
    with_null_moment,
    words_for_nulls,
)
from streamer.table.yaml.columns import NULL_LABEL, OTHER_LABEL

# Sentinels: numbers that stand for "no answer", such as 99 among ratings of 1 to 5, or -1 among ages. As measured
# values they would widen the domain, so a draft says how many rows have one. A sentinel is written like a code, nines
# above all, and is several widths of all others away from these; a negative one needs no gap if all others are above 0.

GAP = 3
"""The least gap between a sentinel and all others, in widths of these."""
SENTINELS_MAX = 3
"""The most different sentinels at each end."""
OTHERS_MIN = 3
"""Different numbers above 0 that make a lone negative one a sentinel; with fewer it is a scale around 0."""
_SENTINEL = re.compile(r"-1|-?(9+[78]?|8{2,}|7{2,})")
_NEGATIVE_SENTINELS = frozenset(map(Decimal, (-1, -9, -99, -999, -9999)))


def sentinel_values(numbers: Collection[Decimal]) -> set[Decimal]:
    """The numbers that seem to stand for "no answer"."""
    different = sorted(set(numbers))
    at_ends = {*_sentinels_first(different[::-1]), *_sentinels_first(different)}
    others = [number for number in different if number not in at_ends]
    if len(others) < 2:
        return set()
    first, last = others[0], others[-1]
    far = {number for number in at_ends if max(number - last, first - number) >= GAP * (last - first)}
    lowest, *above = different
    measured = [number for number in above if number not in far]
    is_lone = lowest in _NEGATIVE_SENTINELS and len(measured) >= OTHERS_MIN and measured[0] > 0
    return far | {lowest} if is_lone else far


def _sentinels_first(numbers: Sequence[Decimal]) -> Iterator[Decimal]:
    """The first numbers, as long as they are written like sentinels."""
    return islice(takewhile(lambda number: _SENTINEL.fullmatch(decimal_text(number)), numbers), SENTINELS_MAX)


CATEGORIES_MAX = 100
"""The most values below one root; more need a hierarchy that somebody thinks about."""
CODE_DIGITS_SHOWN = 3
"""The number of first digits that the codes of a cell share."""
TEXT_MAX = 60
"""Characters of a category; a longer text is free text."""
ONE_IN_LONG = 100
"""One in ONE_IN_LONG rows may have free text beside categories."""
ROOT = "*"
_TAKEN = frozenset((ROOT, NULL_LABEL, OTHER_LABEL))
"""The categories that a draft publishes by itself: in a source they say that nothing is known."""

IDS = {
    "id", "ids", "key", "uuid", "guid", "nr", "no", "number", "nummer", "numero", "identifiant", "identificador",
    "identificativo", "kennung", "matricule", "matricola", "dni", "nif", "numer", "lp", "pesel", "bsn",
}  # fmt: skip
NAMING = {
    "name", "surname", "firstname", "lastname", "fullname", "username", "mail", "email", "phone", "telephone", "mobile",
    "fax", "address", "street", "ssn", "passport", "iban", "account", "url", "ip",
    "vorname", "nachname", "familienname", "strasse", "telefon", "handy", "adresse", "anschrift",
    "nom", "prenom", "apellido", "apellidos", "nombre", "telefono", "movil", "correo", "direccion", "domicilio",
    "courriel", "portable", "rue", "cognome", "indirizzo", "cellulare", "mailadresse", "hausnummer", "konto",
    "naam", "voornaam", "achternaam", "adres", "straat", "telefoon", "mobiel", "imie", "nazwisko", "ulica",
    "mrn", "imei", "vin", "reisepass", "passeport", "pasaporte", "passaporto", "paspoort", "paszport", "kennzeichen",
}  # fmt: skip
_NAMING_IF_CODES = {
    "beneficiary", "policy", "licence", "license", "certificate", "permit", "plate", "vehicle", "device", "serial",
    "driver", "drivers", "patient", "medical", "record", "health", "plan", "photo", "fingerprint", "card",
    "ausweis", "fuehrerschein", "permis", "conduire", "immatriculation", "permiso", "licencia", "tarjeta", "targa",
    "patente", "rijbewijs", "kenteken", "versichertennummer",
}  # fmt: skip
"""Names of such words alone are those of a kind, or of its numbers: a `license` may be a class."""
_SENSITIVE = {
    "disease", "diagnosis", "diagnoses", "problem", "illness", "condition", "symptom", "medication", "treatment",
    "salary", "income", "wage", "wages", "debt", "religion", "crime", "offence", "verdict", "grade",
    "diagnose", "krankheit", "gehalt", "lohn", "einkommen", "icd", "schulden", "maladie", "diagnostic", "salaire",
    "revenu", "revenus", "enfermedad", "diagnostico", "salario", "sueldo", "ingreso", "ingresos", "reddito", "malattia",
    "inkomen", "salaris", "loon", "ziekte", "aandoening", "dochod", "dochody", "zarobki", "wynagrodzenie", "pensja",
    "choroba", "rozpoznanie", "diagnoza",
}  # fmt: skip
_POSTAL = {"zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "pocztowy"}
_POSTAL_CODE = re.compile(r"(?=.*\d)([A-Z0-9]{2,5})(?:[ -]|(?=[A-Z0-9]{3}$))[A-Z0-9]{2,5}", re.ASCII | re.IGNORECASE)
"""One with a blank, a hyphen or letters; its first part is a region."""
_HEADS = (
    "nummer", "nachname", "vorname", "name", "telefon", "handy", "adresse", "anschrift", "strasse", "konto",
    "einkommen", "gehalt", "lohn", "schulden", "diagnose", "krankheit", "postleitzahl", "postal",
)  # fmt: skip
"""A longer word that ends so is one of these, in languages that join words: a `Jahreseinkommen` is an `einkommen`."""
_PEOPLES = ("telefon", "handy", "mobil", "konto", "ausweis")  # a `Telefonnummer` is no key of a table
_COUNTED = re.compile(r"\b(number|no|nr|nombre)[ _]*(of|de|d|von)\b")
_CODES = _POSTAL | {"code", "codes"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DIGITS = re.compile(r"\d{3,12}", re.ASCII)
_ZEROS_IN_FRONT = re.compile(r"-?0\d+", re.ASCII)
_KEY = re.compile(r"\S*[\d@]\S*")
_LONG_CODE = re.compile(r"(?=.*\d)[\w/-]{5,}")
_MEASURE = re.compile(r"[+-]?\d*[.,]\d+(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f]")

HierarchyRows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Drafted:
    """A guess about one column."""

    name: str
    role: str  # "quasi-identifier", "sensitive", or "" for a column that is left out
    why: str  # the reason, and what to check
    scale: DraftScale | TimeScale | None = None  # of a quasi-identifier with intervals
    hierarchy: HierarchyRows = ()  # of a categorical one: from leaf to root
    type: str = ""  # of a sensitive column
    null_as: str | None = None  # the number or moment that nulls count as
    na: tuple[str, ...] = ()  # the words that are nulls
    nulls: bool = False  # whether there are any, empty cells included
    written: str | None = None  # how its texts are written; None: in the usual form
    largest: Decimal = Decimal(0)  # the share of the most frequent value of a sensitive column


def words_of(name: str) -> set[str]:
    """The words of a column's name, in lower case.

    A joined word counts as its last part, too, and how many of something there are is no name and no number of it.

    >>> sorted(words_of("patientFirst_NAME")), sorted(words_of("SSN-no."))
    (['first', 'name', 'patient'], ['no', 'ssn'])
    >>> sorted(words_of("Jahreseinkommen")), sorted(words_of("Verbalis\u00e9")), sorted(words_of("Number of children"))
    (['einkommen', 'jahreseinkommen'], ['verbalise'], ['children'])
    """
    plain = "".join(plain_letters(sign).upper() if sign.isupper() else plain_letters(sign) for sign in name)
    words = {word.lower() for word in _WORD.findall(plain)}
    if _COUNTED.search(plain.lower().replace("_", " ")):
        words -= {"number", "no", "nr", "nombre", "of", "de", "d", "von"}
    heads = {head for word in words for head in _HEADS if word.endswith(head)}
    return words | heads | {part for word in words for part in _PEOPLES if word.startswith(part)}


def source_key_of(columns: dict[str, list[str]]) -> str | None:
    """The column with another value in every row: one named like an id, else the first one; None if there is none.

    >>> source_key_of({"age": ["1", "2"], "person_id": ["7", "8"]}), source_key_of({"age": ["1", "1"]})
    ('person_id', None)
    """
    unique = [name for name, texts in columns.items() if usable(name) and all(texts) and len(set(texts)) == len(texts)]
    named = (name for name in unique if words_of(name) & IDS and not words_of(name) & NAMING)
    return next(named, next((name for name in unique if _could_be_key(columns[name])), None))


def _could_be_key(texts: Sequence[str]) -> bool:
    """True if texts that are all different could be keys: codes, but no days and no measures such as a longitude."""
    return all(map(_KEY.fullmatch, texts)) and not is_some_date(texts[0]) and not all(map(_MEASURE.fullmatch, texts))


def usable(name: str) -> bool:
    """True if table.yaml can name the column."""
    return 0 < len(name) <= 255 and not _CONTROL.search(name)


@dataclass(frozen=True)
class _Cells:
    """The findings in a column's cells."""

    distinct: list[str]  # sorted, without nulls
    rows: Counter[str]  # how many rows have each text
    filled: int
    empty: int
    odd: int  # rows with words that are nulls only because almost all others have another form
    mistaken: int  # rows with texts of no such form
    na: tuple[str, ...]  # the words that are nulls
    moments: WrittenMoments | None
    numbers: list[Decimal]  # of `distinct`; empty if these are not numbers
    written: str | None  # how the numbers are written


def drafted(name: str, texts: Sequence[str], role: str | None = None) -> Drafted:
    """A guess about the column with these cells; an empty one is a null. role: as it was chosen, if it was."""
    texts = [text.strip() for text in texts]
    if (role or role is None) and usable(name) and (held := identified(texts)):
        return Drafted(name, "", f"holds {held}")
    cells = _read(texts)
    found = _guessed(name, cells) if role is None else _chosen(name, cells, role)
    if not found.role:
        return found
    reasons = [*_doubts(cells), found.why, *_apart_from_form(cells)]
    if isinstance(found.scale, DraftScale) and found.written != DIGITS_ALONE:
        reasons += _crowded(cells, found.scale)
        sentinels = sentinel_values(cells.numbers)
        codes = {text for text, number in zip(cells.distinct, cells.numbers, strict=True) if number in sentinels}
        if rows := sum(text in codes for text in texts):
            hold = _rows(rows) + (" a number" if rows == 1 else " numbers")
            reasons.append(
                f"{hold} far from all others: if it stands for no answer, list it in the column's `na`, set `null_as`,"
                " and fit domain and grid to the others"
            )
    largest = Decimal(max(Counter(texts).values())) / len(texts) if found.role == "sensitive" else Decimal(0)
    return replace(found, na=cells.na, nulls=cells.empty > 0, why="; ".join(reasons), largest=largest)


def _read(texts: Sequence[str]) -> _Cells:
    rows = Counter(texts)
    del rows[""]
    known = set(words_for_nulls(rows, counts=True))
    odd = set(odd_words({text: count for text, count in rows.items() if text not in known}))
    distinct = sorted(rows.keys() - known - odd)
    moments = moments_written(distinct)
    mistakes = set(moments.mistakes) if moments else _no_numbers(distinct)
    distinct = [text for text in distinct if text not in mistakes]
    numbers, written = numbers_of(distinct)
    if not (moments or numbers or (distinct and all(map(_DIGITS.fullmatch, distinct)))):
        known, odd, mistakes = set(words_for_nulls(rows, counts=False)), set(rows.keys() & _TAKEN), set[str]()
        distinct = sorted(rows.keys() - known - odd)
    of = {name: sum(rows[text] for text in some) for name, some in (("odd", odd), ("mistaken", mistakes))}
    filled = sum(rows[text] for text in distinct)
    empty = len(texts) - filled - of["mistaken"]
    na = tuple(sorted(known | odd))
    return _Cells(distinct, rows, filled, empty, na=na, moments=moments, numbers=numbers, written=written, **of)


def values_of(texts: Sequence[str], counts: bool = False) -> Counter[str]:
    """How many rows have each value, without blanks, words for nulls and what a draft publishes by itself.

    counts: whether all are numbers, beside which more words are nulls.
    """
    rows = Counter(text.strip() for text in texts)
    for word in ("", *words_for_nulls(rows, counts), *_TAKEN):
        del rows[word]
    return rows


def _no_numbers(distinct: Sequence[str]) -> set[str]:
    """The few texts that do not look like numbers although all others do."""
    odd = {text for text in distinct if not BESIDE.fullmatch(text)}
    return odd if len(odd) <= mistakes_max(len(distinct)) else set()


def _apart_from_form(cells: _Cells) -> Iterator[str]:
    """The rows that are not written as almost all others are, without what they hold."""
    if cells.odd:
        yield f"{_rows(cells.odd)} one of the words in `na`, which are read as nulls: check them"
    if cells.mistaken:
        what = "a text of another form, or a day that does not exist" if cells.moments else "a text that is no number"
        refused = "is" if cells.mistaken == 1 else "are"
        yield (
            f"{_rows(cells.mistaken)} {what}, and {refused} refused until the source is corrected (`--skip-refused`"
            " leaves such rows out)"
        )


def _rows(count: int) -> str:
    return "1 row holds" if count == 1 else f"{count} rows hold"


def _crowded(cells: _Cells, scale: DraftScale) -> Iterator[str]:
    """The effect of a few far numbers on the domain, and a warning if most rows lie in one cell."""
    numbers = _by_row(cells)
    low, high = most_of(numbers)
    if (low, high) != (min(numbers), max(numbers)):
        lo, hi = (((end - scale.domain[0]) // scale.grid + (end == high)) * scale.grid for end in (low, high))
        ends = " to ".join(decimal_text(scale.domain[0] + end) for end in (lo, hi))
        yield (
            f"a few numbers lie far from most, and the grid fits most: with a domain from {ends} and `outside: ends`,"
            " the others count as its ends (top-coding)"
        )
    (_, most), *_ = Counter((number - scale.domain[0]) // scale.grid for number in numbers).most_common(1)
    if len(set(numbers)) > 2 and 2 * most > len(numbers):
        yield f"{100 * most // len(numbers)} % of the rows lie in one cell: check the grid"


def _by_row(cells: _Cells) -> list[Decimal]:
    pairs = zip(cells.distinct, cells.numbers, strict=True)
    return [number for text, number in pairs for _ in range(cells.rows[text])]


def numbers_of(distinct: list[str]) -> tuple[list[Decimal], str | None]:
    """The texts as numbers, and how they are written; none if one is not a number, or is a code with zeros in front."""
    if any(map(_ZEROS_IN_FRONT.fullmatch, distinct)):
        return [], None
    numbers, written = [read_decimal(text) for text in distinct], None
    if None in numbers and (otherwise := numbers_written(distinct)) is not None:
        written, numbers = otherwise[0], [*otherwise[1]]
    found = [number for number in numbers if number is not None and abs(number.adjusted()) <= DIGITS_MAX]
    return (found, written) if len(found) == len(distinct) else ([], None)


def _doubts(cells: _Cells) -> Iterator[str]:
    """The questions that the texts leave open, and a guess decided."""
    if cells.moments is not None:
        if cells.moments.doubtful:
            yield "day and month could be swapped: check `written`"
    elif cells.numbers and could_be_thousands(cells.distinct):
        yield "could be thousands or fractions: check `written`"


def _guessed(name: str, cells: _Cells) -> Drafted:
    if reason := _left_out(name, cells):
        return Drafted(name, "", reason)
    if words_of(name) & _SENSITIVE and (cells.numbers or cells.moments or _few(cells)):
        return _sensitive(name, cells, "guessed by its name: published as it is")
    return _quasi_identifier(name, cells)


def _chosen(name: str, cells: _Cells, role: str) -> Drafted:
    if not role or not usable(name) or not cells.distinct:
        return Drafted(name, "", "left out, as it was chosen" if not role else _left_out(name, cells))
    if role == "sensitive":
        return _sensitive(name, cells, "published as it is, as it was chosen")
    return _quasi_identifier(name, cells)


def _sensitive(name: str, cells: _Cells, why: str) -> Drafted:
    moments = cells.moments
    type_ = moments.clock.name if moments else _type(cells)
    return Drafted(name, "sensitive", why, type=type_, written=moments.written if moments else cells.written)


def _quasi_identifier(name: str, cells: _Cells) -> Drafted:
    if cells.moments is not None:
        return _moments(name, cells.moments, cells.empty)
    if _is_code(name, cells):
        return _code(name, cells)
    return _number(name, cells) if cells.numbers else _category(name, cells)


def _left_out(name: str, cells: _Cells) -> str:
    """Why a column is left out whatever its type; "" if it is not."""
    if not name:
        return "has no name: give it one in the header, such as id"
    if not usable(name):
        return "table.yaml cannot name it"
    if not cells.distinct:
        return "holds nothing"
    words, varied = words_of(name), 2 * len(cells.distinct) > cells.filled and not cells.moments
    are_codes = varied and all(map(_LONG_CODE.fullmatch, cells.distinct))
    if words & NAMING or (are_codes and words and words <= _NAMING_IF_CODES):
        return "its name says that it identifies people, its values do not: a guess"
    return "its name says that it is a key" if words & IDS else ""


def _type(cells: _Cells) -> str:
    if not cells.numbers:
        return "boolean" if set(cells.distinct) <= {"true", "false"} else "text"
    return "integer" if all(number == number.to_integral_value() for number in cells.numbers) else "decimal"


def _number(name: str, cells: _Cells) -> Drafted:
    numbers = _by_row(cells)
    whole = [number.to_integral_value() for number in numbers]
    if cells.empty and numbers == whole and all(number.as_tuple().exponent == -1 for number in numbers):
        numbers = whole  # pandas writes whole numbers of a column with nulls so: all of them as 7.0
    scale = scale_of(numbers)
    if scale is None:
        return Drafted(name, "", "its numbers have more digits than a domain may have")
    exactly = set(scale.domain) <= set(cells.numbers)
    why = f"the domain is {'that of the values seen' if exactly else 'rounded outward'}"
    return _with_scale(Drafted(name, "quasi-identifier", why, written=cells.written), scale, cells.empty)


def _is_code(name: str, cells: _Cells) -> bool:
    """True if the texts are digit codes, such as postal ones: by the column's name, or by zeros in front."""
    if not all(map(_DIGITS.fullmatch, cells.distinct)):
        return False
    if words_of(name) & _POSTAL:
        return True
    repeated = 2 * len(cells.distinct) <= cells.filled
    named = bool(words_of(name) & _CODES) or any(text[0] == "0" for text in cells.distinct)
    return named and repeated and len(set(map(len, cells.distinct))) == 1


def _code(name: str, cells: _Cells) -> Drafted:
    """All codes of this number of digits, because others will come; a cell holds those that begin alike."""
    digits = max(map(len, cells.distinct))
    grid = Decimal(10 ** max(0, digits - CODE_DIGITS_SHOWN))
    domain = (Decimal(0), Decimal(10**digits - 1))
    scale = DraftScale(integer=True, domain=domain, step=Decimal(1), grid=grid, width=digits)
    why = f"codes of {digits} digits, in cells of the first {CODE_DIGITS_SHOWN}; check the grid"
    found = Drafted(name, "quasi-identifier", why, written=DIGITS_ALONE)
    if cells.empty and min(map(int, cells.distinct)) >= grid:  # no code lies in the first cell
        return replace(found, why=why + _of_empty(cells.empty), scale=scale, null_as="0")
    return _with_scale(found, scale, cells.empty)


def _with_scale(found: Drafted, scale: DraftScale, empty: int) -> Drafted:
    """The same with its scale, which has a cell for nulls if there are any."""
    if not empty:
        return replace(found, scale=scale)
    scale = with_null_cell(scale)
    return replace(found, why=found.why + _of_empty(empty), scale=scale, null_as=decimal_text(scale.domain[0]))


def _moments(name: str, moments: WrittenMoments, empty: int) -> Drafted:
    seen = time_scale_of(moments.texts, moments.clock)
    scale = with_null_moment(seen) if empty else seen
    if scale is None:
        return Drafted(name, "", f"has empty cells ({empty}), and no earlier date is left for them")
    why = "the domain has room for others" + (_of_empty(empty) if empty else "")
    null_as = scale.domain[0] if empty else None
    return Drafted(name, "quasi-identifier", why, scale=scale, null_as=null_as, written=moments.written)


def _of_empty(empty: int) -> str:
    return f"; empty cells ({empty}) count as null_as, in a first cell of their own"


def _few(cells: _Cells) -> bool:
    """True if the texts are categories: few, short, and repeated."""
    short = _short(cells.distinct)
    long = sum(cells.rows[text] for text in cells.distinct) - sum(cells.rows[text] for text in short)
    are_few = len(short) <= CATEGORIES_MAX and 2 * len(short) <= cells.filled - long
    return are_few and ONE_IN_LONG * long <= cells.filled


def _short(texts: Iterable[str]) -> list[str]:
    """The texts that can be categories."""
    return [text for text in texts if len(text) <= TEXT_MAX and not _CONTROL.search(text)]


def _category(name: str, cells: _Cells) -> Drafted:
    distinct, empty = cells.distinct, cells.empty
    regions = [_POSTAL_CODE.fullmatch(text) for text in distinct] if words_of(name) & _POSTAL else [None]
    if None in regions and not _few(cells):
        hint = hint_of(distinct) or ("codes?" if all(map(_KEY.fullmatch, distinct)) else "names or free text?")
        return Drafted(name, "", f"{len(distinct)} different texts in {cells.filled} cells: {hint}")
    spellings = hint_of_spellings(distinct)
    why = (
        "its hierarchy is flat, so a value is published exactly or as *: add levels (`streamer hierarchy`); unknown"
        " values count as other"
    )
    of_empty = f"empty cells ({empty}) are a category of their own" if empty else ""
    short = _short(distinct)
    rows = sum(cells.rows[text] for text in set(distinct) - set(short))
    of_long = f"{_rows(rows)} a long text or a line break, which counts as other" if rows else ""
    if None not in regions:
        levels = tuple((code[0], f"{code[1]} {ROOT}", ROOT) for code in regions if code)
        why = "; ".join(filter(None, ("codes below their first part; check its levels", of_empty)))
        return Drafted(name, "quasi-identifier", why, hierarchy=levels)
    why = "; ".join(filter(None, (why, of_empty, of_long, hint_of(distinct), spellings)))
    return Drafted(name, "quasi-identifier", why, hierarchy=tuple((text, ROOT) for text in short))
