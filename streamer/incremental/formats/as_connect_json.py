"""Records with Kafka Connect's schema in each: `{"schema":{..},"payload":{..}}`, as its JsonConverter reads them.

The rules of this file
----------------------
* The schema is the one that `streamer connect sink` prints for plain records. Its bytes are made once, and put before
  each payload as they are.
* A decimal of the schema has all digits of its scale (`20.0`): Connect takes the scale from the number as it is
  written, and converters behind it refuse one that is not the schema's. Read back, it is the shortest text again.
* Members that the schema does not name (`values` of a QI group in one message) are in the payload all the same.
* What is read may have an older schema, of a table.yaml of before: which of its columns are decimals it says itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache

import msgspec

from streamer.errors import LawViolated
from streamer.table.connect_schemas import DECIMAL_NAME, envelopes
from streamer.table.published_types import record_value_columns
from streamer.table.scalars import decimal_text
from streamer.table.schema import Table

TEXTS_MAX = 1 << 12
"""Ends of intervals, and schemas, that are remembered with what they become."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Field(msgspec.Struct):
    field: str
    name: str | None = None


class _Schema(msgspec.Struct):
    fields: list[_Field]


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class ConnectJsonFormat:
    """Writes and reads records of one table. Implements `streamer.incremental.formats.live_format.LiveFormat`."""

    def __init__(self, table: Table) -> None:
        self._before_key, self._before_value = envelopes(table)
        scales = {column.name: column.scale for column in record_value_columns(table) if column.scale}
        self._full = {name: _full_writer(scale) for name, scale in scales.items()}

    def begin(self) -> None:
        """Nothing is needed: every record has its schema."""

    def written_key(self, key: bytes) -> bytes:
        return b"%b%b}" % (self._before_key, key)

    def written_value(self, value: bytes) -> bytes:
        payload = _rewritten(value, self._full) if self._full else value
        return b"%b%b}" % (self._before_value, payload)

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Nothing is needed: every record has its schema."""

    def read_key(self, key: bytes) -> bytes:
        return self.read_value(key)

    def read_value(self, value: bytes) -> bytes:
        try:
            envelope = _ENVELOPE.decode(value)
            decimals, payload = _decimals(bytes(envelope.schema)), bytes(envelope.payload)
            return _rewritten(payload, dict.fromkeys(decimals, _shortest)) if decimals else payload
        except (msgspec.MsgspecError, UnicodeDecodeError, ArithmeticError):
            raise LawViolated('a record is not of the format connect-json: {"schema":{..},"payload":{..}}') from None


def _rewritten(members: bytes, texts: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """A JSON object with the texts of some of its members written anew."""
    found = {name: bytes(text) for name, text in _MEMBERS.decode(members).items()}
    found |= {name: text(found[name]) for name, text in texts.items() if name in found}
    return b"{%b}" % b",".join([b"%b:%b" % (_name(name), text) for name, text in found.items()])


@lru_cache(TEXTS_MAX)
def _name(name: str) -> bytes:
    return msgspec.json.encode(name)


@lru_cache(TEXTS_MAX)
def _decimals(schema: bytes) -> tuple[str, ...]:
    """The columns of a schema that are decimals."""
    return tuple(one.field for one in msgspec.json.decode(schema, type=_Schema).fields if one.name == DECIMAL_NAME)


def _full_writer(scale: int) -> Callable[[bytes], bytes]:
    """A decimal's shortest text -> the one with all digits behind the point."""

    def full(text: bytes) -> bytes:
        whole, _, digits = text.partition(b".")
        return b"%b.%b" % (whole, digits.ljust(scale, b"0"))

    return lru_cache(TEXTS_MAX)(full)


@lru_cache(TEXTS_MAX)
def _shortest(text: bytes) -> bytes:
    return decimal_text(Decimal(text.decode())).encode()
