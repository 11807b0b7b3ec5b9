"""The kinds of texts of a column: words for nulls, numbers, dates or times, how they are written, and their scale."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import product

from streamer.errors import EventRefused
from streamer.table.codes import CLOCKS, DATE, LOCAL_TIMESTAMP, Clock, Span, limit_of, moment_of, moment_text
from streamer.table.codes.calendar import ends_of_unit
from streamer.table.codes.source_texts import NUMBER_SPELLINGS, PLAIN_NUMBER, plain_letters, reader_of_pattern
from streamer.table.yaml.shape import FRACTION_DIGITS_MAX, WHOLE_DIGITS_MAX

DRAFT_CELLS = 25
"""About how many cells a drafted domain has."""

# Words for nulls. A doubtful one may be a value elsewhere (`none` of a medication, `-` of a blood group, `NA` of a
# country), so it is a null only if everything else in the column is a number or a date.

OF_SPREADSHEETS = ("#N/A", "#NV", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
SURE = frozenset(("N/A", "n/a", "<NA>", "NULL", "null", "(null)", "\\N", "?", "??", "n.a.", *OF_SPREADSHEETS))
DOUBTFUL = frozenset(("NA", "na", "NaN", "nan", "None", "none", "-", "--", "---", ".", "infinity", "-infinity"))
_NOT_KNOWN = (
    "unknown notknown notavailable notapplicable notstated notasked missing refused dontknow nodata noanswer",
    "noresponse unspecified na nd nr nk ka keineangabe keineangaben unbekannt oa entfallt fehlt inconnu inconnue",
    "nonrenseigne nonrenseignee ns nsp so sd sindato sindatos sininformacion sinrespuesta desconocido desconocida",
    "noconsta nc nosabe nocontesta nsnc nv sconosciuto sconosciuta nonnoto nondisponibile nondichiarato",
    "desconhecido desconhecida seminformacao naoinformado naoinformada onbekend nvt brak brakdanych bd nieznany",
    "nieznane neznamy neznama nezname neuvedeno okand okant uppgiftsaknas ukjent ukendt tuntematon eitietoa",
    "bilinmiyor ohneangabe nichtbekannt nichterhoben nonprecise nonconnu sansreponse sinespecificar niedotyczy",
    "nieznana bezdanych brakodpowiedzi nietbekend geenopgave geenantwoord notprovided notrecorded declined",
    "\u043d\u0435\u0442\u0434\u0430\u043d\u043d\u044b\u0445",
    "\u043d\u0435\u0438\u0437\u0432\u0435\u0441\u0442\u043d\u043e",
    "\u4e0d\u660e \u4e0d\u8be6 \u672a\u77e5 \u65e0 \u7121",
)
"""Words for "not known" in the languages of `MONTH_NAMES` and others, in plain letters, without blanks and points."""
_UNKNOWN = frozenset(word for line in _NOT_KNOWN for word in line.split())
_NO_LETTERS = re.compile(r"[\W_]+")


def words_for_nulls(texts: Collection[str], counts: bool) -> tuple[str, ...]:
    """The words among the texts that are nulls, sorted; counts: whether everything else is numbers or dates."""
    words = SURE | DOUBTFUL if counts else SURE
    return tuple(sorted(words.intersection(texts)))


ODD_WORDS_MAX = 8
ONE_IN_ODD = 10
HALF = 2
_NO_DAY = re.compile(r"0+\W0+\W0+( 0+:0+(:0+)?)?|9+\W9+\W9+", re.ASCII)


def odd_words(rows: Mapping[str, int]) -> tuple[str, ...]:
    """The words among texts with digits, sorted, and days that are none, such as 00.00.0000; none if there are many.

    rows: how many rows have each text. One word, or words for "not known", may be in half of the rows, any others in a
    tenth. A text with other digits is no word: it may be somebody's value.

    >>> odd_words({"31.12.1980": 200, "1.2.1990": 90, "unbekannt": 1, "00.00.0000": 1}), odd_words({"a": 1, "7": 1})
    (('00.00.0000', 'unbekannt'), ())
    """
    odd = [text for text in rows if not any(map(str.isdigit, text)) or _NO_DAY.fullmatch(text)]
    is_unknown = all(_NO_LETTERS.sub("", plain_letters(text)) in _UNKNOWN for text in odd)
    one_in = HALF if is_unknown or (len(odd) == 1 and len(odd[0]) > 1) else ONE_IN_ODD
    few = len(odd) <= ODD_WORDS_MAX and one_in * sum(rows[text] for text in odd) <= sum(rows.values())
    return tuple(sorted(odd)) if few else ()


# The scale of numbers. The domain is rounded outward to whole cells, so that its ends are nobody's value. 0 stays an
# end if nothing lies below it. Consecutive numbers such as 0 and 1 keep their own ends: a wider domain would make every
# loss look smaller. Cells have a width that people count in: 1, 2, 2.5 or 5 times a power of ten. The step is the last
# digit seen; numbers with more than `STEP_DIGITS_MAX` digits after the point are measured, not counted, and have no
# step.

# A few numbers that are far away do not decide the width of the cells.

STEP_DIGITS_MAX = 4
TIMES_WIDER = 5
"""All numbers must be this many times wider than most of them."""
_WIDTHS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


@dataclass(frozen=True)
class DraftScale:
    """How a numeric quasi-identifier is published; step None: a decimal that is measured."""

    integer: bool
    domain: tuple[Decimal, Decimal]
    step: Decimal | None
    grid: Decimal
    width: int | None = None  # the digits of codes


def scale_of(numbers: Sequence[Decimal]) -> DraftScale | None:
    """A scale that holds all the numbers, one for each row; None if table.yaml could not write it."""
    digits = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    step = None if digits > STEP_DIGITS_MAX else Decimal(1).scaleb(-digits)
    first, last = min(numbers), max(numbers)
    if max(abs(first), abs(last)) >= Decimal(10) ** (WHOLE_DIGITS_MAX - 2):
        return None
    low, high = most_of(numbers)
    grid = _grid(high - low, step)
    consecutive = step == grid and len(set(numbers)) == (last - first) / grid + 1 > 1
    lo, hi = (first, last) if consecutive else _numbers_outward(first, last, grid, step)
    if any(number != round(number, FRACTION_DIGITS_MAX) for number in (lo, hi, grid)):
        return None
    return DraftScale(digits == 0, (lo, hi), step, grid)


def most_of(numbers: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """The ends of the numbers that the grid is made for: all, but for the outermost hundredths if these are far away.

    >>> most_of([Decimal(n) for n in (*range(200), 9_000_000)])
    (Decimal('2'), Decimal('198'))
    """
    ordered = sorted(numbers)
    apart = len(ordered) // 100
    low, high = ordered[apart], ordered[-1 - apart]
    return (low, high) if 0 < TIMES_WIDER * (high - low) < ordered[-1] - ordered[0] else (ordered[0], ordered[-1])


def with_null_cell(scale: DraftScale) -> DraftScale:
    """The same with one more cell for nulls, below all values.

    If no value is negative, the cell is, so that nobody's value could be in it; unless the domain would then be mostly
    empty.

    >>> with_null_cell(DraftScale(True, (Decimal(16), Decimal(67)), Decimal(1), Decimal(2))).domain
    (Decimal('-2'), Decimal('67'))
    """
    lo, hi = scale.domain
    first = Decimal(0) if 0 <= lo <= hi - lo and not lo % scale.grid else lo
    return replace(scale, domain=(first - scale.grid, hi))


def _numbers_outward(first: Decimal, last: Decimal, grid: Decimal, step: Decimal | None) -> tuple[Decimal, Decimal]:
    """The ends of whole cells around the numbers; neither is one of the numbers, except a 0."""
    lo = (first / grid).to_integral_value(ROUND_FLOOR) * grid
    if lo == first != 0:
        lo -= grid
    if first >= 0:
        lo = max(lo, Decimal(0))
    hi = lo + ((last - lo) / grid).to_integral_value(ROUND_CEILING) * grid - (step or 0)
    while hi <= last:
        hi += grid
    return lo, hi


def _grid(width: Decimal, step: Decimal | None) -> Decimal:
    """The narrowest usual width, a multiple of the step, that cuts `width` into at most `DRAFT_CELLS` cells."""
    wanted = width / DRAFT_CELLS
    if step is not None and wanted <= step:
        return step
    if not wanted:
        return Decimal(1)
    power = Decimal(1).scaleb(wanted.adjusted())
    grids = (power * times for times in _WIDTHS)
    return next(grid for grid in grids if grid >= wanted and (step is None or grid % step == 0))


# The scale of dates and times. More rows will come, so the domain has a margin on both sides: as long as what is there,
# and ten years at most. It begins where people expect it: weeks on Mondays, quarters in January, April, July or
# October, five years with a year that 5 divides.

GRIDS = (
    Span(1, "minute"), Span(15, "minute"), Span(1, "hour"), Span(6, "hour"), Span(1, "day"), Span(7, "day"),
    Span(1, "month"), Span(3, "month"), Span(1, "year"), Span(5, "year"), Span(10, "year"), Span(100, "year"),
)  # fmt: skip

MARGIN_DAYS_MAX = 3_650

_DAYS_OF_400_YEARS, _MONTHS_OF_400_YEARS = 146_097, 4_800


@dataclass(frozen=True)
class TimeScale:
    """How a quasi-identifier of moments is published; the domain as texts, an end at midnight as its day."""

    clock: Clock
    domain: tuple[str, str]
    grid: Span


def clock_of(texts: Sequence[str]) -> Clock | None:
    """The type that all the texts have; None if there is none."""
    for clock in CLOCKS.values() if texts else ():
        with suppress(EventRefused):
            for text in texts:
                moment_of(text, "", clock)
            return clock
    return None


def time_scale_of(texts: Sequence[str], clock: Clock) -> TimeScale:
    """A scale that holds all the texts, which are of the clock, with a margin on both sides.

    >>> scale = time_scale_of(["1950-05-17", "1999-12-30"], DATE)
    >>> scale.domain, scale.grid.text
    (('1940-01-01', '2009-12-31'), '5 years')
    """
    moments = [moment_of(text, "", clock) for text in texts]
    first, last = min(moments), max(moments)
    month = _DAYS_OF_400_YEARS / _MONTHS_OF_400_YEARS * clock.per_day  # its mean length
    lengths = {grid: grid.moments(clock) or grid.months * month for grid in GRIDS}
    grids = [grid for grid, length in lengths.items() if length]
    grid = next((grid for grid in grids if lengths[grid] >= (last - first) / DRAFT_CELLS), grids[-1])
    margin = min(last - first, MARGIN_DAYS_MAX * clock.per_day)
    lo, hi = _moments_outward(max(0, first - margin), min(last + margin, clock.last), grid, clock)
    return TimeScale(clock, (_limit_text(lo, clock), _limit_text(hi, clock)), grid)


def with_null_moment(scale: TimeScale) -> TimeScale | None:
    """The same with one more cell for nulls, before the first one; None if the calendar has no earlier cell."""
    lo = limit_of(scale.domain[0], "", scale.clock)
    if not lo:
        return None
    earlier, _ = ends_of_unit(scale.clock, scale.grid, lo - 1)
    return replace(scale, domain=(_limit_text(earlier, scale.clock), scale.domain[1]))


def _moments_outward(first: int, last: int, grid: Span, clock: Clock) -> tuple[int, int]:
    """The ends of whole cells around the moments; neither is one of these, as long as the calendar has others."""
    lo, _ = ends_of_unit(clock, grid, first)
    if lo == first > 0:
        lo, _ = ends_of_unit(clock, grid, first - 1)
    _, end = ends_of_unit(clock, grid, last)
    if clock == DATE and end - 1 == last < clock.last:
        _, end = ends_of_unit(clock, grid, last + 1)
    return max(lo, 0), min(end - (clock == DATE), clock.last)


def _limit_text(moment: int, clock: Clock) -> str:
    return moment_text(moment // clock.per_day, DATE) if moment % clock.per_day == 0 else moment_text(moment, clock)


# How numbers, dates and times are written: the first pattern that all texts of a column have; ISO texts and plain
# numbers need none. `1,234` alone is read as thousands: exactly three digits follow the comma. If day and month could
# be swapped in every text, the day comes first. The draft says where only such a guess decided.

_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_UNIT_BEFORE = r"(?:[A-Z]{3}\s+|(?:US|CA|A)?[$\u20ac\u00a3\u00a5]\s*|)"
BESIDE = re.compile(rf"(?P<before>{_UNIT_BEFORE})[+-]?[0-9][0-9.,'\u2019\s]*(?P<after>[^\d.,'+<>=~-]{{0,20}})")
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)

LOOSE_ISO = "YYYY-MM-DD"  # with or without zeros: 1980-1-31
DAYS = (
    "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY", "YYYY/MM/DD", "YYYY.MM.DD", LOOSE_ISO,
)  # fmt: skip
DAYS_OF_DIGITS = ("YYYYMMDD", "DDMMYYYY", "MMDDYYYY")
_YEARS = range(1850, 2101)
"""The years of all eight digits that are a day: any others may be numbers."""
NAMED_DAYS = (
    "DD MMM YYYY", "DD-MMM-YYYY", "DD/MMM/YYYY", "DD.MMM.YYYY", "MMM DD, YYYY", "MMM DD YYYY", "DD de MMM de YYYY",
    "DD MMM, YYYY", "YYYY MMM DD", "YYYY-MMM-DD",
)  # fmt: skip
MISTAKES_MAX = 8
ONE_IN_MISTAKES = 100
"""One in ONE_IN_MISTAKES different texts may be a mistake, such as a 31st of February, and one of ONE_FROM or more."""
ONE_FROM = 20
TIMES_WRITTEN = (" 00:00", " 00:00:00", "", " hh:mm", " hh:mm:ss")


@dataclass(frozen=True)
class WrittenMoments:
    """The texts of a column of dates or times."""

    clock: Clock
    texts: list[str]  # in ISO's form
    written: str | None = None  # the pattern of the originals; None: ISO's form
    doubtful: bool = False  # whether day and month could be swapped
    mistakes: tuple[str, ...] = ()  # the few originals that are none


def moments_written(texts: Sequence[str]) -> WrittenMoments | None:
    """How the texts are dates or times; None if they are not."""
    if not texts:
        return None
    found = [moments for clock in CLOCKS.values() if (moments := _mostly(texts, clock, None)) is not None]
    if not found or found[0].mistakes:
        ways = [*product(TIMES_WRITTEN, DAYS + NAMED_DAYS)] + [("", day) for day in DAYS_OF_DIGITS]
        tried = (_mostly(texts, LOCAL_TIMESTAMP if "hh" in time else DATE, day + time) for time, day in ways)
        found += [moments for moments in tried if moments is not None]
    fewest = min((len(moments.mistakes) for moments in found), default=0)
    best = [moments for moments in found if len(moments.mistakes) == fewest]
    if not best:
        return None
    return replace(best[0], doubtful=any(one.clock is best[0].clock and one.texts != best[0].texts for one in best))


def mistakes_max(different: int) -> int:
    """The most mistakes among different texts.

    >>> mistakes_max(19), mistakes_max(20), mistakes_max(400), mistakes_max(4000)
    (0, 1, 4, 8)
    """
    return min(MISTAKES_MAX, max(different // ONE_IN_MISTAKES, int(different >= ONE_FROM)))


def _mostly(texts: Sequence[str], clock: Clock, written: str | None) -> WrittenMoments | None:
    """The moments of texts that are written so, but for a few mistakes; None if there are more."""
    read = (lambda text: text) if written is None else reader_of_pattern(written)
    is_iso = written is None or written.startswith(LOOSE_ISO)
    iso, mistakes = list[str](), list[str]()
    most = mistakes_max(len(texts))
    for text in texts:
        said = str(read(text))
        try:
            moment_of(said if is_iso or said != text else "", "", clock)
            if written in DAYS_OF_DIGITS and int(said[:4]) not in _YEARS:
                return None
            iso.append(said)
        except EventRefused:
            mistakes.append(text)
            if len(mistakes) > most:
                return None
    return WrittenMoments(clock, iso, written, mistakes=tuple(mistakes))


def numbers_written(texts: Sequence[str]) -> tuple[str, list[Decimal]] | None:
    """The pattern of texts that are not plain numbers, and the numbers; None if they are not numbers."""
    before, after = unit_of(texts)
    for spelling in (PLAIN_NUMBER, *NUMBER_SPELLINGS) if before or after else NUMBER_SPELLINGS if texts else ():
        written = f"{before} {spelling} {after}".strip()
        with suppress(ValueError):
            return written, [Decimal(str(number)) for number in map(reader_of_pattern(written), texts)]
    return None


def unit_of(texts: Sequence[str]) -> tuple[str, str]:
    """The one unit that stands before or after the numbers of some texts; two empty texts if there is none.

    >>> unit_of(["34 years", "7 years"]), unit_of(["1.200,50 EUR", "7"]), unit_of(["E11", "E12"])
    (('', 'years'), ('', 'EUR'), ('', ''))
    """
    units = set[tuple[str, str]]()
    for text in texts:
        found = BESIDE.fullmatch(text.strip())
        if found is None:
            return "", ""
        units.add((found["before"].strip(), found["after"].strip()))
        if len(units - {("", "")}) > 1:
            return "", ""
    before, after = next(iter(units - {("", "")}), ("", ""))
    return ("", "") if before and after else (before, after)


def could_be_thousands(texts: Sequence[str]) -> bool:
    """True if the mark in numbers could separate thousands as well as a fraction.

    >>> could_be_thousands(["1.234", "980"]), could_be_thousands(["1.234", "1234"]), could_be_thousands(["0.125"])
    (True, False, False)
    """
    either = [bool(_EITHER.fullmatch(text)) for text in texts]
    others = (text for text, is_either in zip(texts, either, strict=True) if not is_either)
    return any(either) and all(map(_BELOW_THOUSAND.fullmatch, others))
