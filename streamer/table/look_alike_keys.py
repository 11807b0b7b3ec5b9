"""Source keys and individuals that people would take for one, and that are several here.

A key is text. A number of JSON has one text, but a text stays as it is: in a file, or in a message that writes keys as
texts, `7`, `7.0`, ` 7` and `007` are four rows. Where they are meant to be one person, that person is counted four
times. Individuals are texts in the same way, and where k counts them a QI group of one person four times over would
hold k = 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamer.table.scalars import DIGITS_MAX, decimal_text, read_decimal

_DIFFER = "they differ in blanks, in zeros or in a point, as 7, 7.0 and 007 do"


def look_alikes(source_keys: Iterable[str]) -> int:
    """How many different keys look like another one: they differ in blanks at their ends, zeros or a point alone.

    >>> look_alikes(["7", "7.0", " 7", "8"]), look_alikes(["7", "7", "8"])
    (3, 0)
    """
    different = set(source_keys)
    looks = Counter(map(_looks, different))
    return sum(looks[look] for look in looks if looks[look] > 1)


def warning_of(source_keys: Iterable[str], column: str) -> list[str]:
    """What there is to say of such keys: one sentence, or none."""
    count = look_alikes(source_keys)
    if not count:
        return []
    return [
        f"key column {column}: {count:,} keys look like another one ({_DIFFER}) and are rows of their own; where they"
        " mean one person, write them alike in the source"
    ]


def warning_of_individuals(individuals: Iterable[str | None], column: str | None) -> list[str]:
    """The same of the individuals, whom k counts; column None: it counts rows."""
    count = 0 if column is None else look_alikes(filter(None, individuals))
    if not count:
        return []
    return [
        f"individual column {column}: {count:,} individuals look like another one ({_DIFFER}) and are counted each;"
        " where they mean one person, a QI group has fewer people than k: write them alike in the source"
    ]


def _looks(source_key: str) -> str:
    text = source_key.strip()
    number = read_decimal(text)
    return text if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)
