"""Numbers, dates and moments as text: read, written and compared exactly.

Input values are what JSON has: text, int, Decimal (never a binary float), bool, None; a bool is never a number. A
number that JSON can say but no table of people has (hundreds of digits before or after the point) is refused, so that
an exponent of eight characters does not become a text of a million. Any other value raises `EventRefused`, with reason
and column and never with the value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from streamer.errors import EventRefused

DIGITS_MAX = 400
"""The most digits before the point, or leading zeros after it, of a number (a binary float has at most 325)."""

PLAIN_ZEROS_MAX = 30
"""The most zeros after the point of a number that is written without an exponent; table.yaml's numbers have fewer."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)


def read_decimal(text: str) -> Decimal | None:
    """The number that a text stands for, exactly; None if it is not a finite decimal number.

    >>> read_decimal("-1.50"), read_decimal("1e2"), read_decimal("NaN"), read_decimal("1_000"), read_decimal("")
    (Decimal('-1.50'), Decimal('1E+2'), None, None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def decimal_text(number: Decimal) -> str:
    """The one text of a number: no trailing zeros, no minus zero, and an exponent only instead of very many zeros.

    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal("1E+2")), decimal_text(Decimal("-0.0"))
    ('1.5', '100', '0')
    >>> decimal_text(Decimal("1.50E-300"))
    '1.5e-300'
    """
    if number and number.adjusted() < -PLAIN_ZEROS_MAX:
        digits, _, exponent = format(number, "e").partition("e")
        return f"{decimal_text(Decimal(digits))}e{exponent}"
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def shortest_text(text: str) -> str:
    """The one text of a number; any other text as it is, also a number of too many digits."""
    number = read_decimal(text)
    return text if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)


def number_of(value: object, column: str) -> Decimal:
    """A JSON number, or a text that is one, as change data capture may send it; else EventRefused."""
    if type(value) is int:
        return Decimal(_bounded(value, column))
    if type(value) is str:
        value = read_decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        raise EventRefused("wrong-type", f"column {column!r}: not a number", column)
    if abs(value.adjusted()) > DIGITS_MAX:
        raise EventRefused("wrong-type", f"column {column!r}: a number of more than {DIGITS_MAX} digits", column)
    return value


def integer_of(value: object, column: str) -> int:
    """A JSON number with an integral value; else EventRefused.

    >>> integer_of(Decimal("7.0"), "age")
    7
    """
    if type(value) is int:
        return _bounded(value, column)
    if not isinstance(value, Decimal):
        raise EventRefused("wrong-type", f"column {column!r}: not an integer", column)
    number = number_of(value, column)
    if number != number.to_integral_value():
        raise EventRefused("wrong-type", f"column {column!r}: not an integer", column)
    return int(number)


def _bounded(value: int, column: str) -> int:
    if value.bit_length() > 1328:  # 400 decimal digits
        raise EventRefused("wrong-type", f"column {column!r}: a number of more than {DIGITS_MAX} digits", column)
    return value


def category_of(value: object, column: str) -> str:
    """The text of a category: 1 and "1" are the same; else EventRefused."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return decimal_text(number_of(value, column))
    raise EventRefused("wrong-type", f"column {column!r}: not a category; expected text", column)


def key_text(value: object, column: str) -> str:
    """The text of a primary key or of an individual: 7, 7.0 and "7" are one. EventRefused for null and bool."""
    if type(value) is str:
        return value
    if type(value) is int or isinstance(value, Decimal):
        return decimal_text(number_of(value, column))
    raise EventRefused("wrong-type", f"column {column!r}: neither text nor a number", column)


# Dates and times as whole numbers: text -> moment, and back.
#
# * A *moment* counts days (a date) or microseconds (a timestamp) from the first of January of year 1, in the calendar
#   of ISO 8601, years 1 to 9999. Nothing is rounded: what is finer than a microsecond is refused.
# * Databases have other dates, too: `infinity`, `10000-01-01`, `0044-03-15 BC`. All that lie after year 9999 are one
#   moment, `infinity`, and all before year 1 another. Only `outside: ends` and `na` take these two.
# * A `timestamp` is an instant: it has an offset from UTC, and is kept and published in UTC, with a `Z`. A
#   `local-timestamp` is what a clock on the wall showed: it has no offset. Neither is read as the other, because that
#   would silently shift it by hours.
# * Accepted are ISO texts (`1980-01-31`; `1980-01-31T08:00:00.5+01:00`, also with a space for the T), `datetime.date`
#   and `datetime.datetime`. A date may have the time of midnight, as in a DataFrame. A number is not a moment: only its
#   producer knows what it counts, and from where.
# * Every moment has one text, as `datetime.isoformat` writes it: a fraction has six digits, or there is none.

MICROSECONDS_PER_DAY = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After so many years the calendar is the same again."""


@dataclass(frozen=True)
class Clock:
    """A type of table.yaml that counts time."""

    name: str
    per_day: int  # moments of a day
    zoned: bool  # whether its texts have an offset from UTC
    example: str

    @property
    def last(self) -> int:
        """The last moment of year 9999; the first one of year 1 is 0."""
        return date.max.toordinal() * self.per_day - 1


DATE = Clock("date", 1, zoned=False, example="1980-01-31")
TIMESTAMP = Clock("timestamp", MICROSECONDS_PER_DAY, zoned=True, example="1980-01-31T08:00:00Z")
LOCAL_TIMESTAMP = Clock("local-timestamp", MICROSECONDS_PER_DAY, zoned=False, example="1980-01-31T08:00:00")
CLOCKS = {clock.name: clock for clock in (DATE, TIMESTAMP, LOCAL_TIMESTAMP)}

INFINITY = "infinity"

_DAY = r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"(?P<offset>Z|(?P<sign>[+-])(?P<hours>[01]\d|2[0-3])(:?(?P<minutes>[0-5]\d))?)"
_BARE_DAY = re.compile(_DAY, re.ASCII)
_ERA = r"(?P<era> BC| \(BC\))?"  # as Postgres and DuckDB write it
_MOMENT = re.compile(f"{_DAY}([T ](?P<time>{_TIME}){_OFFSET}?)?{_ERA}", re.ASCII)
_ENDLESS = re.compile(f"([+-]?){INFINITY}", re.ASCII | re.IGNORECASE)


def moment_of(value: object, column: str, clock: Clock) -> int:
    """The moment that a value of a row stands for. EventRefused: wrong-type, out-of-domain, off-the-step.

    >>> moment_of("0001-01-02", "born", DATE), moment_of("0001-01-01T01:00:00+00:30", "seen", TIMESTAMP)
    (1, 1800000000)
    """
    moment = moment_anywhere(value, column, clock)
    if not 0 <= moment <= clock.last:
        raise EventRefused("out-of-domain", f"column {column!r}: outside the years 1 to 9999", column)
    return moment


def moment_anywhere(value: object, column: str, clock: Clock) -> int:
    """The same; -1 for all that lies before year 1, and the number after the last one for all after year 9999.

    >>> [moment_anywhere(text, "born", DATE) for text in ("-infinity", "0044-03-15 BC", "0001-01-01")]
    [-1, -1, 0]
    """
    if isinstance(value, date):  # a datetime is one, too
        value = value.isoformat()
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None and isinstance(value, str) and (endless := _ENDLESS.fullmatch(value)):
        return -1 if endless[1] == "-" else clock.last + 1
    if found is None or (clock != DATE and found["time"] is None):
        raise _unreadable(column, clock)
    _check_offset(found, column, clock)
    moment = _days(found, column, clock) * clock.per_day
    if clock == DATE:
        if _microseconds(found, column, clock):
            raise EventRefused("off-the-step", f"column {column!r}: a date with a time of day", column)
    else:
        offset = 60 * int(found["hours"] or 0) + int(found["minutes"] or 0)
        moment += _microseconds(found, column, clock) + offset * 60_000_000 * (1 if found["sign"] == "-" else -1)
    return min(max(moment, -1), clock.last + 1)


def limit_of(text: str, column: str, clock: Clock) -> int:
    """The same for a text of table.yaml, in which a day alone is its first moment.

    >>> limit_of("0001-01-02", "seen", TIMESTAMP) == MICROSECONDS_PER_DAY
    True
    """
    return moment_of(_from_midnight(text, clock), column, clock)


def constant_of(text: str, column: str, clock: Clock) -> int:
    """The same for a text of a statement, with which moments are compared: it may lie outside the years, too."""
    return moment_anywhere(_from_midnight(text, clock), column, clock)


def _from_midnight(text: str, clock: Clock) -> str:
    is_day = clock != DATE and _BARE_DAY.fullmatch(text)
    return text + "T00:00:00" + "Z" * clock.zoned if is_day else text


def moment_text(moment: int, clock: Clock) -> str:
    """The text of a moment.

    >>> moment_text(1, DATE), moment_text(1_800_000_000, TIMESTAMP), moment_text(500_000, LOCAL_TIMESTAMP)
    ('0001-01-02', '0001-01-01T00:30:00Z', '0001-01-01T00:00:00.500000')
    """
    if clock == DATE:
        return date.fromordinal(moment + 1).isoformat()
    return (datetime.min + timedelta(microseconds=moment)).isoformat() + "Z" * clock.zoned


EPOCH = date(1970, 1, 1).toordinal()
SECONDS_PER_DAY = 86_400
_ENDLESS_DAYS, ENDLESS_COUNT = 106_751_000, 9_223_372_036_825_200_000
"""Databases and connectors say `infinity` by counts near the end of int64, whatever these count; in years, 290,000."""


def day_text(days: int) -> str:
    """A count of days since 1970 as a date of any year, or `infinity`.

    >>> day_text(3682), day_text(2_932_897), day_text(-735_160), day_text(2**31 - 1)
    ('1980-01-31', '10000-01-01', '-0043-03-15', 'infinity')
    """
    if abs(days) >= _ENDLESS_DAYS:
        return INFINITY if days > 0 else f"-{INFINITY}"
    ordinal = EPOCH + days
    if 1 <= ordinal <= date.max.toordinal():
        return date.fromordinal(ordinal).isoformat()
    cycles, day = divmod(ordinal - 1, _CYCLE_DAYS)
    like = date.fromordinal(day + 1)
    year = like.year + cycles * _CYCLE_YEARS
    return f"{'-' * (year < 0)}{abs(year):04}{like.isoformat()[4:]}"


def time_text(count: int, per_second: int) -> str:
    """A count of parts of a second as a time of day.

    >>> time_text(25_500_250, 1000), time_text(-3_600_000_000, 1_000_000)
    ('07:05:00.25', '-01:00:00')
    """
    seconds, parts = divmod(abs(count), per_second)
    fraction = f"{parts:0{len(str(per_second)) - 1}}".rstrip("0")
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return "-" * (count < 0) + clock + ("." + fraction if fraction else "")


def timestamp_text(count: int, per_second: int, zone: str = "") -> str:
    """A count of parts of a second since 1970 as date and time of day, of any year, or `infinity`.

    >>> timestamp_text(1529501823123456, 1_000_000), timestamp_text(-1, 1000, "Z")
    ('2018-06-20T13:37:03.123456', '1969-12-31T23:59:59.999Z')
    >>> timestamp_text(9_223_372_036_825_200_000, 1_000_000, "Z")
    'infinity'
    """
    days, rest = divmod(count, SECONDS_PER_DAY * per_second)
    if ENDLESS_COUNT <= abs(count) <= 2**63 or abs(days) >= _ENDLESS_DAYS:
        return day_text(_ENDLESS_DAYS if count > 0 else -_ENDLESS_DAYS)
    return f"{day_text(days)}T{time_text(rest, per_second)}{zone}"


def _days(found: re.Match[str], column: str, clock: Clock) -> int:
    """The days since the first of January of year 1; of every year, by a like one 400 years away."""
    year = int(found["year"])
    if found["era"] is not None:
        year = 1 - year
    away = 0 if date.min.year <= year <= date.max.year else year // _CYCLE_YEARS - 1
    try:
        day = date(year - away * _CYCLE_YEARS, int(found["month"]), int(found["day"]))
    except ValueError:
        raise _unreadable(column, clock) from None
    return day.toordinal() - 1 + away * _CYCLE_DAYS


def _microseconds(found: re.Match[str], column: str, clock: Clock) -> int:
    """The time of day."""
    if found["time"] is None:
        return 0
    fraction = (found["fraction"] or "").ljust(9, "0")
    if not fraction.endswith("000"):
        raise EventRefused("off-the-step", f"column {column!r}: finer than a microsecond", column)
    try:
        shown = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), int(fraction[:6]))
    except ValueError:
        raise _unreadable(column, clock) from None
    return ((shown.hour * 60 + shown.minute) * 60 + shown.second) * 1_000_000 + shown.microsecond


def _check_offset(found: re.Match[str], column: str, clock: Clock) -> None:
    if clock.zoned and found["offset"] is None:
        detail = "has no offset from UTC; send one, such as Z, or let the column's type be local-timestamp"
        raise EventRefused("wrong-type", f"column {column!r}: {detail}", column)
    if not clock.zoned and found["offset"] is not None:
        detail = f"has an offset from UTC, which a {clock.name} has not; let the column's type be timestamp"
        raise EventRefused("wrong-type", f"column {column!r}: {detail}", column)


def _unreadable(column: str, clock: Clock) -> EventRefused:
    return EventRefused(
        "wrong-type", f"column {column!r}: not a {clock.name}; expected text such as {clock.example}", column
    )
