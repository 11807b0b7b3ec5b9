"""What is published instead of a value that is too exact: its ancestor, a date that is shifted, a pseudonym.

The rules of this file
----------------------
* It happens once, where a row's texts become values (`streamer.table.encode`). So all that comes later, privacy models
  too, knows and counts what is published. A null stays one.
* A *pseudonym* is 160 bits of HMAC-SHA-256 of the value's counted text (`same_text`), in base32: 1, 1.0 and "1" have
  the same one, and so have all spellings of a person. Columns with one key give a value the same pseudonym.
* A date is shifted by 1 to n whole days in one of both directions, never by none. HMAC-SHA-256 of the individual, or
  of the source key if the table declares none, decides it: with one key and one n, all dates of a person are shifted
  alike, so the time between them stays. A timestamp keeps its time of day, in UTC.
* A date less than n days from an end of the calendar is refused, whichever way it would go: what stands for "no end",
  as 9999-12-31, would tell the shift of all other dates of its person.
* Texts that begin with a null character are no counted texts. They are for all that is no pseudonym.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

import msgspec

from streamer.errors import EventRefused
from streamer.table.codes.same_text import CountedText, counted_value
from streamer.table.key_files import KeyFile

ToJson = Callable[[object], bytes]

PSEUDONYM_BYTES = 20
_NULL = b"null"
_DAY = slice(1, 11)
"""Where the JSON text of a date or a timestamp has the day."""


@dataclass(frozen=True)
class Ancestor:
    """Publishes the ancestor at a level of the hierarchy."""

    level: int
    of_leaf: Mapping[str, str] = field(compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        return f"level {self.level}"

    @property
    def words(self) -> str:
        """What it gives readers."""
        return f"by its ancestor at level {self.level}, which only makes it coarser"

    def instead(self, column: str, encode: ToJson, counted: CountedText) -> ToJson:
        """The encoder of a column, given that of the source's values."""
        to_json = msgspec.json.encode
        texts = {to_json(leaf): to_json(node) for leaf, node in self.of_leaf.items()} | {_NULL: _NULL}
        return lambda value: texts[encode(value)]


@dataclass(frozen=True)
class Pseudonym:
    """Publishes a keyed hash."""

    key: KeyFile

    @property
    def fingerprint(self) -> str:
        return f"pseudonym {self.key.check}"

    @property
    def words(self) -> str:
        """What it gives readers."""
        return (
            "as a pseudonym: readers can link all rows with one value, here, in later releases and in other tables"
            " with the same key, so that k of one table says less"
        )

    def text(self, counted: str) -> str:
        """The pseudonym of a counted text. Raises ConfigError if the key is missing."""
        return b32encode(self.key.mac(counted.encode())[:PSEUDONYM_BYTES]).decode().lower()

    def instead(self, column: str, encode: ToJson, counted: CountedText) -> ToJson:
        """The encoder of a column, given that of the source's values."""

        def json_text(value: object) -> bytes:
            said = counted_value(encode(value), counted)
            return _NULL if said is None else b'"%b"' % self.text(said).encode()

        return json_text


@dataclass(frozen=True)
class ShiftedDays:
    """Publishes dates that are shifted by days of each person's own."""

    most: int
    key: KeyFile

    @property
    def fingerprint(self) -> str:
        return f"shift_days {self.most} {self.key.check}"

    @property
    def words(self) -> str:
        """What it gives readers."""
        return (
            f"shifted by up to {self.most} days, all dates of a person alike: the time between them and seasons stay,"
            " and whoever knows one of them knows all"
        )

    def days(self, whose: str) -> int:
        """The days by which the dates of a person are shifted, from -most to most. Raises ConfigError without a key."""
        drawn = int.from_bytes(self.key.mac(b"\0shift\0" + whose.encode())[:16]) % (2 * self.most) - self.most
        return drawn if drawn < 0 else drawn + 1

    def shifted(self, text: bytes, whose: str) -> bytes:
        """The JSON text of a person's date or timestamp, shifted. Raises ConfigError without a key."""
        if text == _NULL:
            return text
        day = date.fromisoformat(text[_DAY].decode()).toordinal() + self.days(whose)
        return b'"%b%b' % (date.fromordinal(day).isoformat().encode(), text[_DAY.stop :])

    def instead(self, column: str, encode: ToJson, counted: CountedText) -> ToJson:
        """The encoder of dates that can be shifted, given that of the source's; `shifted` follows it."""

        def json_text(value: object) -> bytes:
            text = encode(value)
            if text != _NULL:
                day = date.fromisoformat(text[_DAY].decode()).toordinal()
                if not self.most < day <= date.max.toordinal() - self.most:
                    detail = (
                        f"less than {self.most} days from the end of the calendar, where no date can be shifted; if it"
                        " stands for no date, list it in `na`"
                    )
                    raise EventRefused("out-of-domain", f"column {column!r}: {detail}", column)
            return text

        return json_text


Disguise = Ancestor | Pseudonym | ShiftedDays
