"""The records of a sealed changelog, and their bytes.

The rules of this file
----------------------
* There are four kinds of records, and none is about one row: `ADD` publishes a cohort, `LIVE` says how many of its
  people are still there, `RETIRE` withdraws it as a whole, `EPOCH` ends an epoch of a shard.
* The key is the cohort's id, 32 hexadecimal digits of chance, or `epoch-<shard>`. The value is JSON without spaces, its
  members in the order of the fields below. A record has one spelling: `decode` refuses any other.
* The records of an epoch are in the order of their keys, and `EPOCH` is the last one. It is written for an epoch in
  which nothing happened, too. All have one timestamp: the epoch's time.
* `sensitive` has the other published values of each row in the order of their texts, so it carries no order of
  arrival. null: they are withheld.
* `decode` looks at one record by itself and needs no table.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import NamedTuple

import msgspec

from streamer.errors import LawViolated
from streamer.incremental.release.records import EPOCH_KEY
from streamer.table.codes import decimal_text
from streamer.table.published.rows import box_text
from streamer.table.row import Unshown, Values
from streamer.table.schema import Table

COHORT_ID_BYTES = 16

SensitiveTexts = tuple[tuple[msgspec.Raw, ...], ...]
"""The values of each row, as JSON texts."""


class Add(Unshown, frozen=True, tag_field="record", tag="ADD", forbid_unknown_fields=True):
    """A cohort is published."""

    cohort: str  # its id
    epoch: int
    n: int  # rows
    box: msgspec.Raw  # a JSON object: what `live` publishes of a box, column by column
    sensitive: SensitiveTexts | None  # None: withheld


class Live(Unshown, frozen=True, tag_field="record", tag="LIVE", forbid_unknown_fields=True):
    """The number of a cohort's people who are left; the rows of the others are ghosts."""

    cohort: str
    epoch: int
    live: int


class Retire(Unshown, frozen=True, tag_field="record", tag="RETIRE", forbid_unknown_fields=True):
    """A cohort is withdrawn."""

    cohort: str
    epoch: int


class EpochEnd(Unshown, frozen=True, tag_field="record", tag="EPOCH", forbid_unknown_fields=True):
    """An epoch of a shard is over; all its records came before."""

    epoch: int  # from 1, without a gap
    shard: int
    time: str  # ISO, in UTC, to the second
    adds: int
    retires: int
    lives: int
    k: int
    alpha: str  # a decimal
    l: int  # noqa: E741 - 1: any number of distinct values


SealedRecord = Add | Live | Retire | EpochEnd


class Written(NamedTuple):
    """A record as bytes."""

    key: bytes
    value: bytes


_NAME = re.compile(r"[0-9a-f]{32}")
_encode = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(SealedRecord)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def cohort_name(number: int) -> str:
    """The id of a cohort, from a number of 128 bits.

    >>> cohort_name(255)
    '000000000000000000000000000000ff'
    """
    return f"{number:032x}"


def epoch_key(shard: int) -> str:
    """The key of the records that end a shard's epochs.

    >>> epoch_key(3)
    'epoch-3'
    """
    return f"{EPOCH_KEY}{shard}"


def time_text(seconds: int) -> str:
    """A moment in seconds since 1970 as `EPOCH` has it.

    >>> time_text(1_795_687_200)
    '2026-11-26T10:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> int:
    """The moment of a text of `time_text`. Raises LawViolated."""
    try:
        seconds = int(datetime.fromisoformat(text).timestamp())
        if time_text(seconds) == text:
            return seconds
    except (ValueError, OverflowError, OSError):
        pass
    raise LawViolated("the time of an epoch is not of the form 2026-11-26T10:00:00Z")


def box_json(table: Table, lo: Iterable[int], hi: Iterable[int]) -> msgspec.Raw:
    """The box of cells lo..hi (d,) as `Add` has it."""
    return msgspec.Raw(b"{%b}" % box_text(table, tuple(lo), tuple(hi))[1:])


def sensitive_texts(rows: Iterable[Values]) -> SensitiveTexts:
    """The values of rows as `Add` has them: ordered by their texts alone."""
    return tuple(tuple(map(msgspec.Raw, values)) for values in sorted(rows))


def encode(record: SealedRecord) -> Written:
    """A record's key and value."""
    key = epoch_key(record.shard) if isinstance(record, EpochEnd) else record.cohort
    return Written(key.encode(), _encode(record))


def decode(key: bytes, value: bytes | None) -> SealedRecord:
    """Reads a record back. Raises LawViolated, without any value, for what is not exactly what `encode` writes."""
    if value is None:
        raise LawViolated("a sealed changelog has no tombstones")
    try:
        record: SealedRecord = _DECODER.decode(value)
        _check(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise LawViolated("a record is not ADD, LIVE, RETIRE or EPOCH with exactly its members") from None
    if encode(record) != (key, value):
        raise LawViolated("a record is not written as it has to be, or its key is not that of its value")
    return record


def log_line(shard: int, record: Written, timestamp: int, headers: int = 0) -> bytes:
    """A record as a line of a sealed log; timestamp: in milliseconds since 1970. headers: it should have none."""
    line = b'{"partition":%d,"key":"%b","value":%b,"timestamp":%d%b}\n'
    return line % (shard, record.key, record.value, timestamp, b',"headers":%d' % headers if headers else b"")


def _check(record: SealedRecord) -> None:
    if record.epoch < 1:
        raise LawViolated("an epoch has a number below 1")
    if isinstance(record, EpochEnd):
        seconds_of(record.time)
        _check_decimal(record.alpha)
        if min(record.shard, record.adds, record.retires, record.lives) < 0 or min(record.k, record.l) < 1:
            raise LawViolated("the end of an epoch has a number that is too small")
        return
    if _NAME.fullmatch(record.cohort) is None:
        raise LawViolated("a cohort's id is not 32 hexadecimal digits")
    if isinstance(record, Live) and record.live < 1:
        raise LawViolated("LIVE says that nobody is left; such a cohort is retired")
    if isinstance(record, Add):
        _check_cohort(record)


def _check_cohort(record: Add) -> None:
    if record.n < 1:
        raise LawViolated("a cohort has no rows")
    try:
        box = _MEMBERS.decode(record.box)
    except msgspec.MsgspecError:
        raise LawViolated("a box is not an object") from None
    if _encode(box) != bytes(record.box) or not all(map(_is_compact, box.values())):
        raise LawViolated("a box is not written as it has to be")
    if record.sensitive is None:
        return
    rows = [tuple(map(bytes, row)) for row in record.sensitive]
    if len(rows) != record.n or len(set(map(len, rows))) > 1:
        raise LawViolated("a cohort has not one list of values for each row")
    if rows != sorted(rows):
        raise LawViolated("the values of a cohort are not in the order of their texts")
    if not all(_is_compact(text) for text in {value for row in record.sensitive for value in map(bytes, row)}):
        raise LawViolated("a value of a cohort is not written as it has to be")


def _is_compact(text: bytes | msgspec.Raw) -> bool:
    """True if a JSON text has no spaces and, if it is a text, no escape that it does not need."""
    if bytes(text).startswith(b'"'):
        return _encode(msgspec.json.decode(text)) == bytes(text)
    return msgspec.json.format(bytes(text), indent=-1) == bytes(text)


def _check_decimal(text: str) -> None:
    try:
        if re.fullmatch(r"[0-9.]{1,40}", text) and decimal_text(Decimal(text)) == text:
            return
    except ArithmeticError:
        pass
    raise LawViolated("the alpha of an epoch is not a decimal")


def ordered_epoch(records: Iterable[Add | Live | Retire], end: EpochEnd) -> list[SealedRecord]:
    """The records of an epoch in the order in which they are published."""
    return [*sorted(records, key=attrgetter("cohort")), end]
