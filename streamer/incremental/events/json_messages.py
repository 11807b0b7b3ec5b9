"""Bytes of a message -> its JSON value, and the readers of its columns.

* Reading is strict: UTF-8, one value, no NaN, no lone surrogates. Numbers with a point or an exponent become exact
  Decimals. If a member comes twice, the last one counts, as in Kafka Connect. Connect's wrapping, an object of
  exactly `schema` and `payload`, is taken off. A message whose schema is in a registry is read by it
  (`registered_schemas`). An error says nothing of the bytes.
* A connector writes its schema, thousands of bytes, before every payload. So the bytes before the payload of the last
  few messages are cached with their readers. A message that cannot be read by them is read whole: the cache decides
  nothing.
* Columns are read by the schema that the message carries, else by what table.yaml implies. Only columns that table.yaml
  names are read: quasi-identifiers, kept ones, the key's, the individual.
* With a schema, its types decide (`logical_types`). A column that the schema does not have is read as if there were
  none. In rows that Debezium has captured, Connect's Timestamp is a timestamp without time zone
  (`time.precision.mode=connect`). Elsewhere it is an instant, as Connect defines it; in every key, too, because rows'
  keys and message keys have the same reader.
* Without a schema, a captured text or number is read as table.yaml says only if nothing else can be meant. A text
  that may be the base64 of a decimal's bytes is refused in a column of decimals (`"1234"` is -26588.24 too), unless
  table.yaml says `input: {decimals: text}`. Bytes have 4n characters, no point and no minus, so most texts of numbers
  are clear. A number is never a date or a timestamp: it may count days, milliseconds or microseconds. A text with a Z
  is never a local timestamp: it may be an instant or a local time (IsoTimestamp).
* The plain form is this project's own: without a schema it means what it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from streamer.table.codes import read_decimal, type_of_column
from streamer.table.schema import Table

Fields = Mapping[str, object]
Named = tuple[tuple[str, Reader], ...]

PARTS = ("before", "after", "row", "key")
"""Members of a message that hold a row, or its key."""

CAPTURED, FLATTENED = ("before", "after"), ("__op", "__deleted")
"""Members that hold rows captured by Debezium, and marks in such a row itself."""

NUMBERS = ("integer", "decimal")
MOMENTS = ("date", "timestamp", "local-timestamp")

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})+|(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]=|==)", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf(inity)?)", re.ASCII | re.IGNORECASE)


def may_be_bytes(text: str) -> bool:
    """True for a text that may be the base64 of a decimal's bytes: `Infinity` is not meant so."""
    return len(text) % 4 == 0 and bool(_BASE64.fullmatch(text)) and not _NOT_FINITE.fullmatch(text)


@dataclass(frozen=True, slots=True)
class RowReaders:
    """The readers of a row's columns, or of a key that is one value; a column without a reader is taken as it is."""

    of_columns: Named = ()
    of_key: Named = ()
    types: Mapping[str, ConnectType] = field(default_factory=dict)  # of the key's columns, if a schema says them
    value: Reader | None = None  # of a key that is one value

    def row(self, fields: Fields) -> Fields:
        """The fields with every named column read. Raises EventRefused."""
        return _read(fields, self.of_columns) if self.of_columns else fields

    def key_columns(self, fields: Fields) -> Fields:
        """The fields with the primary key's columns read, and no others. Raises EventRefused."""
        return _read(fields, self.of_key) if self.of_key else fields

    def key(self, key: object) -> object:
        """A key, one value or an object, read. Raises EventRefused."""
        if self.value is not None:
            return None if key is None else self.value(key)
        return self.key_columns(key) if isinstance(key, Mapping) else key


def _read(fields: Fields, readers: Named) -> Fields:
    read = dict(fields)
    for name, reader in readers:
        if (value := fields.get(name)) is not None:
            read[name] = reader(value)
    return read


@dataclass(frozen=True, slots=True)
class MessageReaders:
    """The readers of one message."""

    own: RowReaders  # of the message itself, if it is a row or a key
    parts: Mapping[str, RowReaders]  # of its members that are, by their names in PARTS


class TableReaders:
    """Makes the readers of one table's messages. schemaless: those without a schema."""

    def __init__(self, table: Table) -> None:
        columns = {column.name: type_of_column(column) for column in (*table.attributes, *table.kept)}
        names = (*table.source_key, table.individual, *columns)
        self._key_columns, self._of_rows = table.source_key, table.input_rows
        self._declared = {name: columns.get(name) for name in names if name is not None}
        words = {text.column: text.na for text in table.source_texts if text.na}
        self._words = words
        implied = {
            name: _unless_null(
                _implied(name, declared, table.decimals_are_text, in_texts=name in words), words.get(name)
            )
            for name, declared in columns.items()
        }
        captured, plain = RowReaders(_present(implied)), RowReaders()
        self.schemaless = MessageReaders(captured, dict(zip(PARTS, (captured, captured, plain, plain), strict=True)))

    def of(self, type_: ConnectType | None) -> MessageReaders:
        """The readers of messages whose value has this type; None: the type is not known."""
        if type_ is None:
            return self.schemaless
        parts = {
            name: self._of_part(type_.fields.get(name), self.schemaless.parts[name], captured=name in CAPTURED)
            for name in PARTS
        }
        is_flattened = self._of_rows or not type_.fields.keys().isdisjoint(FLATTENED)
        return MessageReaders(self._of_part(type_, self.schemaless.own, captured=is_flattened), parts)

    def _of_part(self, type_: ConnectType | None, otherwise: RowReaders, *, captured: bool) -> RowReaders:
        """The readers of a row or a key of this type; otherwise: of columns that the type does not have."""
        if type_ is None:
            return otherwise
        if type_.type != "struct" or type_.name == VARIABLE_SCALE_DECIMAL:
            column = self._key_columns[0]
            return replace(otherwise, types={column: type_}, value=self._of_type(column, type_, None))
        readers, known = self._by_types(type_.fields, otherwise), type_.fields
        of_key = {name: readers[name] for name in self._key_columns}
        types = {name: known[name] for name in self._key_columns if name in known}
        if captured:
            readers = self._by_types({name: _as_captured(one) for name, one in known.items()}, otherwise)
        return RowReaders(_present(readers), _present(of_key), types)

    def _by_types(self, types: Mapping[str, ConnectType], otherwise: RowReaders) -> Mapping[str, Reader | None]:
        implied = dict(otherwise.of_columns)
        return {
            name: self._of_type(name, types[name], declared) if name in types else implied.get(name)
            for name, declared in self._declared.items()
        }

    def _of_type(self, name: str, type_: ConnectType, declared: str | None) -> Reader | None:
        """The reader of a column with this type; of bytes, any text is their base64, and no word for a null."""
        reader = reader_of(type_, name, of_numbers=declared in NUMBERS)
        return reader if type_.type in ("bytes", "struct") else _unless_null(reader, self._words.get(name))


def _as_captured(type_: ConnectType) -> ConnectType:
    """The type as Debezium means it; both Timestamps count milliseconds."""
    return replace(type_, name=DEBEZIUM_TIME + "Timestamp") if type_.name == CONNECT_TIMESTAMP else type_


def _present(readers: Mapping[str, Reader | None]) -> Named:
    return tuple((name, reader) for name, reader in readers.items() if reader is not None)


def _implied(column: str, declared: str | None, decimals_are_text: bool, *, in_texts: bool) -> Reader | None:
    """The reader of a column without a schema; in_texts: whole numbers come as texts, which could be bytes too."""
    if (declared == "decimal" or (declared == "integer" and in_texts)) and not decimals_are_text:
        return _decimal(column)
    return _moment(column, declared) if declared in MOMENTS else None


def _unless_null(reader: Reader | None, words: Sequence[str] | None) -> Reader | None:
    """The reader, except that the words for null (`na`) are taken as they are; also as a binary float, such as NaN."""
    if reader is None or not words:
        return reader
    floats = {str(float(word)): word for word in words if _NOT_FINITE.fullmatch(word)}
    texts = frozenset(words)

    def read(value: object) -> object:
        if type(value) is str and value in texts:
            return value
        return floats[str(value)] if type(value) is float and str(value) in floats else reader(value)

    return read


def _decimal(column: str) -> Reader:
    def read(value: object) -> object:
        if type(value) is str and may_be_bytes(value):
            if read_decimal(value) is None:
                raise EventRefused("wrong-type", f"column {column!r}: not a number; {_BYTES}", column)
            raise EventRefused("ambiguous-decimal", f"column {column!r}: {_AMBIGUOUS}", column)
        return value

    return read


def _moment(column: str, declared: str | None) -> Reader:
    def read(value: object) -> object:
        if type(value) is not str:
            remedy = _OR_ISOSTRING if declared == "date" else ""
            raise EventRefused("wrong-type", f"column {column!r}: {_UNCOUNTABLE.format(declared)}{remedy}", column)
        if declared == "local-timestamp" and value.endswith("Z"):
            raise EventRefused("wrong-type", f"column {column!r}: {_CLOCK_OR_INSTANT}", column)
        return value.removesuffix("Z") if declared == "date" else value  # Debezium's IsoDate ends with a Z

    return read


_BYTES = (
    "decimals as bytes cannot be read without a schema: set the connector's decimal.handling.mode=string (or double), "
    "or its converter's schemas.enable=true or decimal.format=NUMERIC; if it is a word for a null, list it in `na`"
)
_AMBIGUOUS = (
    "without a schema, digits may be a number or the base64 of other numbers' bytes: let the converter say which "
    "(schemas.enable=true, or decimal.format=NUMERIC), or, if the connector has decimal.handling.mode=string, say "
    "`input: {decimals: text}` in table.yaml and read the input again from the start"
)
_UNCOUNTABLE = (
    "without a schema, a number may count days, milliseconds or microseconds, and a {} cannot be read from it: set the "
    "converter's schemas.enable=true"
)
_OR_ISOSTRING = ", or the connector's time.precision.mode=isostring"
_CLOCK_OR_INSTANT = (
    "without a schema, a text with a Z may be an instant or a local time (time.precision.mode=isostring adds a Z to "
    "both): set the converter's schemas.enable=true, which tells them apart"
)


SCHEMAS_CACHED = 8

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
    """The value of a message whose schema is in a registry; raises EventRefused: malformed-avro, malformed-json."""
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
    """A message as JSON without Connect's wrapping; if its schema is in a registry, only the members about its capture.

    Bytes that are not JSON are returned as they are. Raises EventRefused as `MessageReader.read`, for registered ones.

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
    wanted = {name: of for name, of in message.items() if name in ("op", "source") or name[:2] == "__"}
    return msgspec.json.encode(wanted)


def _is_wrapped(value: object) -> TypeGuard[dict[str, object]]:
    return type(value) is dict and len(value) == 2 and "payload" in value and "schema" in value


class MessageReader:
    """Reads messages of one table. schemas: of a registry."""

    def __init__(self, table: Table, schemas: Known | None = None) -> None:
        self._of_table = TableReaders(table)
        self._schemas = schemas
        self._registered: dict[int, tuple[RegisteredSchema, MessageReaders]] = {}
        self.schemaless = self._of_table.schemaless
        self._known: list[tuple[bytes, MessageReaders]] = []

    def read(self, data: bytes) -> tuple[object, MessageReaders]:
        """The value of a message, and the readers of its columns; raises EventRefused.

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
        """Caches the bytes up to the payload, if they are as Connect writes them."""
        head = b'{"schema":' + bytes(_members(data)["schema"]) + b',"payload":'
        if data.startswith(head) and all(head != known for known, _ in self._known):
            self._known = [(head, readers), *self._known[: SCHEMAS_CACHED - 1]]
