"""Bytes of a message -> values as JSON has them.

Reading is strict: UTF-8, one value, no NaN, no lone surrogates. Numbers with a point or an exponent become exact
Decimals. Of a member that comes twice the last one counts, as for Kafka Connect's own reader, and Connect's wrapping,
an object of exactly the two members `schema` and `payload`, is taken off. The text of an error says nothing of the
bytes. A message whose schema a registry keeps is read by that (`registered_schemas`). Who asks only how a message was
captured gets it as JSON without its wrapping (`capture_json`), whoever keeps its schema.

A connector writes its schema, thousands of bytes of it, before every payload. So the bytes before the payload of the
last few messages are remembered, with the readers that came of their schemas: where a message begins with the same
bytes, only the rest is read. What is remembered saves time and decides nothing: what cannot be read that way is read as
a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, DecimalException
from typing import TypeGuard

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.logical_types import (
    CONNECT_TIMESTAMP,
    DEBEZIUM_TIME,
    VARIABLE_SCALE_DECIMAL,
    ConnectType,
    Reader,
    connect_type_of,
    reader_of,
)
from streamer.incremental.events.registered_schemas import (
    HEAD_BYTES,
    Known,
    RegisteredSchema,
    is_registered,
    read_avro,
    schema_of,
)
from streamer.table.scalars import read_decimal
from streamer.table.schema import Table
from streamer.table.source_texts import type_said

# How the columns of a message are read: by the schema that it carries, else by what table.yaml implies.
#
# * Only columns that table.yaml names are read: quasi-identifiers, kept ones, the key's, the individual. What else a
#   message has is not looked at, whatever its type.
# * With a schema its types decide (`streamer.incremental.events.logical_types`). A column that the schema does not know
#   is read as if there were none.
# * In rows that Debezium has captured, Connect's Timestamp is a timestamp without time zone: that is all Debezium uses
#   it for (`time.precision.mode=connect`). In others it is an instant, as Connect says. In a key it stays what Connect
#   says: there it is a name, and one reader reads the rows' keys and the messages'.
# * Without one, a captured row's texts and numbers are taken for what table.yaml says only where nothing else can be
#   meant. A text that may be the base64 of a decimal's bytes is refused for a column of decimals (`"1234"` is -26588.24
#   too), unless table.yaml says `input: {decimals: text}`; bytes have a length of 4n and no point and no minus, so most
#   texts of numbers are none. A number is no date and no timestamp: it may count days, milliseconds or microseconds. A
#   text with a Z is no local timestamp: it may be an instant, or what a clock on the wall showed (IsoTimestamp).
# * The plain form is this project's own: without a schema it means what it says.

Fields = Mapping[str, object]
Named = tuple[tuple[str, Reader], ...]

PARTS = ("before", "after", "row", "key")
"""Members of a message that hold a row, or its key."""

CAPTURED, FLATTENED = ("before", "after"), ("__op", "__deleted")
"""Members that hold rows which Debezium has captured, and those that stand in such a row itself."""

NUMBERS = ("integer", "decimal")
MOMENTS = ("date", "timestamp", "local-timestamp")

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})+|(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]=|==)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RowReaders:
    """The readers of a row's columns, or of one value that is a key; a column without one is taken as it comes.

    types: of the key's columns, as far as a schema says them. value: the reader of one value.
    """

    of_columns: Named = ()
    of_key: Named = ()
    types: Mapping[str, ConnectType] = field(default_factory=dict)
    value: Reader | None = None

    def row(self, fields: Fields) -> Fields:
        """The fields with every named column read. Raises EventRefused."""
        return _read(fields, self.of_columns) if self.of_columns else fields

    def key_columns(self, fields: Fields) -> Fields:
        """The fields with the primary key's columns read, and no others. Raises EventRefused."""
        return _read(fields, self.of_key) if self.of_key else fields

    def key(self, said: object) -> object:
        """The same for a key, one value or an object."""
        if self.value is not None:
            return None if said is None else self.value(said)
        return self.key_columns(said) if isinstance(said, Mapping) else said


def _read(fields: Fields, readers: Named) -> Fields:
    read = dict(fields)
    for name, reader in readers:
        if (value := fields.get(name)) is not None:
            read[name] = reader(value)
    return read


@dataclass(frozen=True, slots=True)
class MessageReaders:
    """The readers of a message that is a row or a key itself, and of its members that are; parts: by name, of PARTS."""

    own: RowReaders
    parts: Mapping[str, RowReaders]


class TableReaders:
    """Makes the readers of one table's messages.

    schemaless: those of messages without a schema.
    """

    def __init__(self, table: Table) -> None:
        columns = {column.name: type_said(column) for column in (*table.attributes, *table.kept)}
        names = (*table.source_key, table.individual, *columns)
        self._key_columns, self._of_rows = table.source_key, table.input_rows
        self._said = {name: columns.get(name) for name in names if name is not None}
        words = {text.column: frozenset(text.na) for text in table.source_texts}
        implied = {
            name: _unless_null(_implied(name, said, table.decimals_are_text, in_texts=name in words), words.get(name))
            for name, said in columns.items()
        }
        captured, plain = RowReaders(_present(implied)), RowReaders()
        self.schemaless = MessageReaders(captured, dict(zip(PARTS, (captured, captured, plain, plain), strict=True)))

    def of(self, type_: ConnectType | None) -> MessageReaders:
        """The readers of messages whose value has this type; None: nobody says it."""
        if type_ is None:
            return self.schemaless
        parts = {
            name: self._of_part(type_.fields.get(name), self.schemaless.parts[name], captured=name in CAPTURED)
            for name in PARTS
        }
        is_flattened = self._of_rows or not type_.fields.keys().isdisjoint(FLATTENED)
        return MessageReaders(self._of_part(type_, self.schemaless.own, captured=is_flattened), parts)

    def _of_part(self, type_: ConnectType | None, otherwise: RowReaders, *, captured: bool) -> RowReaders:
        """The readers of a row or a key of this type; `otherwise`: of the columns that it does not know.

        captured: it is a row of Debezium's.
        """
        if type_ is None:
            return otherwise
        if type_.type != "struct" or type_.name == VARIABLE_SCALE_DECIMAL:
            column = self._key_columns[0]
            return replace(otherwise, types={column: type_}, value=reader_of(type_, column, of_numbers=False))
        readers, known = self._by_types(type_.fields, otherwise), type_.fields
        of_key = {name: readers[name] for name in self._key_columns}
        types = {name: known[name] for name in self._key_columns if name in known}
        if captured:
            readers = self._by_types({name: _as_captured(one) for name, one in known.items()}, otherwise)
        return RowReaders(_present(readers), _present(of_key), types)

    def _by_types(self, types: Mapping[str, ConnectType], otherwise: RowReaders) -> Mapping[str, Reader | None]:
        implied = dict(otherwise.of_columns)
        return {
            name: reader_of(types[name], name, of_numbers=said in NUMBERS) if name in types else implied.get(name)
            for name, said in self._said.items()
        }


def _as_captured(type_: ConnectType) -> ConnectType:
    """What Debezium means by a type: both count milliseconds."""
    return replace(type_, name=DEBEZIUM_TIME + "Timestamp") if type_.name == CONNECT_TIMESTAMP else type_


def _present(readers: Mapping[str, Reader | None]) -> Named:
    return tuple((name, reader) for name, reader in readers.items() if reader is not None)


# -- without a schema -------------------------------------------------------------------------------------------------


def _implied(column: str, said: str | None, decimals_are_text: bool, *, in_texts: bool) -> Reader | None:
    """in_texts: texts of whole numbers are taken for numbers, so that they could be bytes, too."""
    if (said == "decimal" or (said == "integer" and in_texts)) and not decimals_are_text:
        return _decimal(column)
    return _moment(column, said) if said in MOMENTS else None


def _unless_null(reader: Reader | None, words: frozenset[str] | None) -> Reader | None:
    """The same, but for the words that are nulls (`na`), whatever else they could be."""
    if reader is None or not words:
        return reader
    return lambda value: value if type(value) is str and value in words else reader(value)


def _decimal(column: str) -> Reader:
    is_base64 = _BASE64.fullmatch

    def read(value: object) -> object:
        if type(value) is str and len(value) % 4 == 0 and is_base64(value):
            if read_decimal(value) is None:
                raise EventRefused("wrong-type", f"column {column!r}: not a number; {_BYTES}", column)
            raise EventRefused("ambiguous-decimal", f"column {column!r}: {_AMBIGUOUS}", column)
        return value

    return read


def _moment(column: str, said: str | None) -> Reader:
    def read(value: object) -> object:
        if type(value) is not str:
            mend = _OR_ISOSTRING if said == "date" else ""
            raise EventRefused("wrong-type", f"column {column!r}: {_UNCOUNTABLE.format(said)}{mend}", column)
        if said == "local-timestamp" and value.endswith("Z"):
            raise EventRefused("wrong-type", f"column {column!r}: {_CLOCK_OR_INSTANT}", column)
        return value.removesuffix("Z") if said == "date" else value  # Debezium's IsoDate ends with a Z

    return read


_BYTES = (
    "decimals as bytes cannot be read without a schema: set the connector's decimal.handling.mode=string (or double), "
    "or its converter's schemas.enable=true or decimal.format=NUMERIC"
)
_AMBIGUOUS = (
    "without a schema, digits may be a number or the base64 of other numbers' bytes: let the converter say which "
    "(schemas.enable=true, or decimal.format=NUMERIC), or, where the connector has decimal.handling.mode=string, say "
    "`input: {decimals: text}` in table.yaml and read the input again from the start"
)
_UNCOUNTABLE = (
    "what a number counts as a {} is said by no one (days, milliseconds, microseconds): set the converter's "
    "schemas.enable=true"
)
_OR_ISOSTRING = ", or the connector's time.precision.mode=isostring"
_CLOCK_OR_INSTANT = (
    "without a schema, a text with a Z may be an instant, or what a clock on the wall showed "
    "(time.precision.mode=isostring puts a Z to it): set the converter's schemas.enable=true, which tells them apart"
)


SCHEMAS_REMEMBERED = 8

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_json = msgspec.json.Decoder(float_hook=Decimal)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, DecimalException, RecursionError)


def read_json(data: bytes | memoryview) -> object:
    """One JSON value; raises EventRefused: malformed-json.

    >>> read_json(b'{"bmi": 21.50}')
    {'bmi': Decimal('21.50')}
    """
    try:
        value: object = _json.decode(data)
    except _UNREADABLE:
        raise EventRefused("malformed-json", "not one valid JSON value in UTF-8") from None
    return value


def read_registered(data: bytes, schema: RegisteredSchema) -> object:
    """The value of a message whose schema a registry keeps; raises EventRefused: malformed-avro, malformed-json."""
    return read_json(memoryview(data)[HEAD_BYTES:]) if schema.avro is None else read_avro(data, schema)


def unwrapped(value: object) -> object:
    """The value without Kafka Connect's `{"schema", "payload"}` around it.

    >>> unwrapped({"schema": None, "payload": 7}), unwrapped(7)
    (7, 7)
    """
    return value["payload"] if _is_wrapped(value) else value


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_wrapped = msgspec.json.Decoder(_Wrapped).decode


def capture_json(data: bytes, schemas: Known | None = None) -> bytes | msgspec.Raw:
    """A message out of Kafka Connect's wrapping, as JSON; where a registry keeps its schema, the telling members alone.

    Nothing is said of bytes that are no JSON. Raises EventRefused where `MessageReader.read` does for registered ones.

    >>> bytes(capture_json(b'{"schema": null, "payload": {"op": "c"}}')), capture_json(b'{"payload": 7}')
    (b'{"op": "c"}', b'{"payload": 7}')
    """
    if not is_registered(data):
        try:
            return _wrapped(data).payload
        except _UNREADABLE:
            return data
    message = read_registered(data, schema_of(data, schemas))
    if not isinstance(message, dict):
        return b""
    return msgspec.json.encode({name: of for name, of in message.items() if name in _OF_CAPTURE or name[:2] == "__"})


_OF_CAPTURE = ("op", "source")


def _is_wrapped(value: object) -> TypeGuard[dict[str, object]]:
    return type(value) is dict and len(value) == 2 and "payload" in value and "schema" in value


class MessageReader:
    """Reads messages of one table, and the types of what they say. schemas: those of a registry."""

    def __init__(self, table: Table, schemas: Known | None = None) -> None:
        self._of_table = TableReaders(table)
        self._schemas = schemas
        self._registered: dict[int, tuple[RegisteredSchema, MessageReaders]] = {}
        self.schemaless = self._of_table.schemaless
        self._known: list[tuple[bytes, MessageReaders]] = []

    def read(self, data: bytes) -> tuple[object, MessageReaders]:
        """The value of a message out of its wrapping, and how its columns are read; raises EventRefused.

        schema-registry, unknown-schema, malformed-avro, malformed-json.
        """
        if is_registered(data):
            schema, readers = self._readers_of(data)
            return read_registered(data, schema), readers
        for head, readers in self._known:
            if data.startswith(head) and data.endswith(b"}"):
                try:
                    return _json.decode(memoryview(data)[len(head) : -1]), readers
                except _UNREADABLE:
                    break
        message = read_json(data)
        if not _is_wrapped(message):
            return message, self.schemaless
        readers = self._of_table.of(connect_type_of(message["schema"]))
        self._remember(data, readers)
        return message["payload"], readers

    def _readers_of(self, data: bytes) -> tuple[RegisteredSchema, MessageReaders]:
        schema = schema_of(data, self._schemas)
        if schema.id not in self._registered:
            self._registered[schema.id] = schema, self._of_table.of(schema.type)
        return self._registered[schema.id]

    def _remember(self, data: bytes, readers: MessageReaders) -> None:
        """The bytes up to the payload, if they are as Connect writes them."""
        head = b'{"schema":' + bytes(_members(data)["schema"]) + b',"payload":'
        if data.startswith(head) and all(head != known for known, _ in self._known):
            self._known = [(head, readers), *self._known[: SCHEMAS_REMEMBERED - 1]]
