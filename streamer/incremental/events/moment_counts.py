"""Days, times of day and timestamps that connectors count, as ISO texts, and back.

A count becomes the one text that says the same moment: nothing is rounded, a fraction has the digits it needs and no
more. Counts of days and of timestamps begin with 1970; outside the years 1 to 9999 there is no text. Times of day may
be negative, or more than a day: MySQL has such. Back from a text comes the count only where it is the text of one.
"""

from __future__ import annotations

import re
from datetime import date

EPOCH = date(1970, 1, 1).toordinal()
SECONDS_PER_DAY = 86_400

_TIME = re.compile(r"(-?)(\d{2,}):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)


def day_text(days: int) -> str | None:
    """The date of a count of days; None outside the years 1 to 9999.

    >>> day_text(3682), day_text(-719162), day_text(-719163)
    ('1980-01-31', '0001-01-01', None)
    """
    ordinal = EPOCH + days
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else None


def time_text(count: int, per_second: int) -> str:
    """The time of day after a count of parts of a second.

    >>> time_text(25_500_250, 1000), time_text(-3_600_000_000, 1_000_000)
    ('07:05:00.25', '-01:00:00')
    """
    seconds, parts = divmod(abs(count), per_second)
    fraction = f"{parts:0{len(str(per_second)) - 1}}".rstrip("0")
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return "-" * (count < 0) + clock + ("." + fraction if fraction else "")


def timestamp_text(count: int, per_second: int) -> str | None:
    """Date and time of day after a count of parts of a second; None outside the years 1 to 9999.

    >>> timestamp_text(1529501823123456, 1_000_000), timestamp_text(-1, 1000)
    ('2018-06-20T13:37:03.123456', '1969-12-31T23:59:59.999')
    """
    days, rest = divmod(count, SECONDS_PER_DAY * per_second)
    day = day_text(days)
    return None if day is None else f"{day}T{time_text(rest, per_second)}"


def day_count(text: str) -> int | None:
    """The count of days that has this text."""
    try:
        days = date.fromisoformat(text).toordinal() - EPOCH
    except ValueError:
        return None
    return days if day_text(days) == text else None


def time_count(text: str, per_second: int) -> int | None:
    """The count of parts of a second that has this text as time of day."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    parts = int((fraction or "0").ljust(9, "0")) * per_second // 10**9
    count = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * per_second + parts
    count = -count if sign else count
    return count if time_text(count, per_second) == text else None


def timestamp_count(text: str, per_second: int) -> int | None:
    """The count of parts of a second that has this text as date and time of day."""
    day, _, clock = text.partition("T")
    days, rest = day_count(day), time_count(clock, per_second)
    if days is None or rest is None:
        return None
    count = days * SECONDS_PER_DAY * per_second + rest
    return count if timestamp_text(count, per_second) == text else None
