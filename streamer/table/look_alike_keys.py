"""Source keys that people would take for one, and that are several here.

A key is text. A number of JSON has one text, but a text stays as it is: in a file, or in a message that writes keys as
texts, `7`, `7.0`, ` 7` and `007` are four rows. Where they are meant to be one person, that person is counted four
times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamer.table.scalars import DIGITS_MAX, decimal_text, read_decimal


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
        f"key column {column}: {count:,} keys look like another one (they differ in blanks, in zeros or in a point, as"
        " 7, 7.0 and 007 do) and are rows of their own; where they mean one person, write them alike in the source"
    ]


def _looks(source_key: str) -> str:
    text = source_key.strip()
    number = read_decimal(text)
    return text if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)
