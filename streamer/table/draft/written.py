"""How a column's numbers, dates and times are written, told by the patterns that all of its texts have.

ISO texts and plain numbers come first, so a pattern is only found where it is needed. Of `1,234` alone nobody could
tell whether the comma stands between thousands: with exactly three digits behind it, it does, and a point does not.
Where day and month could change places in every text, the day stands first. Where nothing but a guess decided, that is
said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from streamer.table.draft.times import clock_of
from streamer.table.moments import DATE, LOCAL_TIMESTAMP, Clock
from streamer.table.source_texts import NUMBERS, reader_of_pattern

_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)

DAYS = ("DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY", "YYYY/MM/DD", "YYYY.MM.DD")
TIMES = (" 00:00", " 00:00:00", "", " hh:mm", " hh:mm:ss")


@dataclass(frozen=True)
class WrittenMoments:
    """Texts of one clock, as ISO has them; written: their pattern, None: they come so. doubtful: day and month could
    change places."""

    clock: Clock
    texts: list[str]
    written: str | None = None
    doubtful: bool = False


def moments_written(texts: Sequence[str]) -> WrittenMoments | None:
    """How the texts are dates or times; None where they are not.

    >>> found = moments_written(["31.12.1980", "1.2.1981"])
    >>> found.written, found.texts
    ('DD.MM.YYYY', ['1980-12-31', '1981-02-01'])
    """
    if (clock := clock_of(texts)) is not None:
        return WrittenMoments(clock, list(texts))
    found: list[WrittenMoments] = []
    for time, day in product(TIMES, DAYS):
        written, clock = day + time, LOCAL_TIMESTAMP if "hh" in time else DATE
        read = reader_of_pattern(written)
        if texts and read(texts[0]) == texts[0]:
            continue  # of a million texts, one look is enough
        iso = [str(read(text)) for text in texts]
        if all(said != text for said, text in zip(iso, texts, strict=True)) and clock_of(iso) is clock:
            found.append(WrittenMoments(clock, iso, written))
    if not found:
        return None
    return WrittenMoments(found[0].clock, found[0].texts, found[0].written, doubtful=len(found) > 1)


def numbers_written(texts: Sequence[str]) -> tuple[str, list[Decimal]] | None:
    """The pattern of texts that are no plain numbers, and the numbers; None where they are none.

    >>> numbers_written(["1,234", "12"]), numbers_written(["38,5"])
    (('1,234.5', [Decimal('1234'), Decimal('12')]), ('1.234,5', [Decimal('38.5')]))
    """
    for written in NUMBERS:
        read = reader_of_pattern(written)
        try:
            numbers = [number for number in map(read, texts) if isinstance(number, Decimal)]
        except ValueError:
            continue
        if texts and len(numbers) == len(texts):
            return written, numbers
    return None


def could_be_thousands(texts: Sequence[str]) -> bool:
    """Whether the mark in numbers could as well stand between thousands as before a fraction.

    >>> could_be_thousands(["1.234", "980"]), could_be_thousands(["1.234", "1234"]), could_be_thousands(["0.125"])
    (True, False, False)
    """
    either = [bool(_EITHER.fullmatch(text)) for text in texts]
    others = (text for text, is_either in zip(texts, either, strict=True) if not is_either)
    return any(either) and all(map(_BELOW_THOUSAND.fullmatch, others))
