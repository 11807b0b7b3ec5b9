"""The partition contract: the form of an input's message keys, and what follows for every message about one row.

* All messages of a row must come to one shard, and the bytes of the message key decide the shard. So these bytes must
  follow from the source key alone. The rule by which they do is the *key form*: the text itself (`bare`), a JSON text
  with the source key in it (`json:{"id":number}`, or a hash if this text is long), or that within Kafka Connect's
  schema (`json-schema:<hash of all but the source key>`). If the key's schema is in a registry, its id is in the
  bytes: `avro:<id>`, or `registry:<id>:` before a JSON text. The name of a form holds names of columns, never a
  value.
* A shard has one form, that of the first row change that it applied. Every later row change must be written in it,
  name the same row as its value, and be in the shard that murmur2 of its key gives. Anything else is refused: other
  messages of the row may be in another shard, and applying this one would make a second copy that nothing ever
  removes.
* Statements and notices are not row changes. A truncation, which reaches all shards, removes the rows and the form:
  so an input can change its form. With one shard nothing is required and nothing is remembered: all messages of a row
  meet in it.
* What a shard learns depends on the sequence of messages alone; the caches of this module only save time.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events import logical_types as logical
from streamer.incremental.events.changes import Change, Delete, Insert, Modify, Remove, Truncate, Upsert
from streamer.incremental.events.json_messages import MessageReader, read_json, unwrapped
from streamer.incremental.events.logical_types import ConnectType
from streamer.incremental.events.registered_schemas import HEAD_BYTES, Known, RegisteredSchema, is_registered, schema_of
from streamer.table.codes import read_decimal
from streamer.table.encode import Encoder
from streamer.table.schema import Table

# -- murmur2, by which Kafka's clients, and so Connect and Debezium, assign a message to a partition by default

_SEED, _FACTOR, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Java's `Utils.murmur2` as an unsigned number of 32 bits.

    >>> [murmur2(text) - (1 << 32) for text in (b"21", b"foobar", b"a-little-bit-long-string")]
    [-973932308, -790332482, -985981536]
    >>> murmur2(b"abc")
    479470107
    """
    n_words = len(data) // 4
    hashed = _SEED ^ len(data)
    for word in struct.unpack_from(f"<{n_words}I", data):
        word = word * _FACTOR & _MASK
        hashed = (hashed * _FACTOR ^ (word ^ word >> 24) * _FACTOR) & _MASK
    if rest := data[4 * n_words :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def shard_of(message_key: bytes, shards: int) -> int:
    """The shard of a message key among `shards`: Java's default partitioner.

    >>> [shard_of(b"7", shards) for shards in (1, 4, 7)]
    [0, 3, 1]
    """
    return (murmur2(message_key) & 0x7FFFFFFF) % shards


# -- parts of a message key with a logical type: the text of a source key -> the JSON that Connect's converter writes
#
# This is the inverse of `logical_types`, byte for byte. A *kind* names the way: `days`, `decimal(2)`,
# `instant(1000)`. A part without a kind is in the key as the number or the text of the source key. A
# VariableScaleDecimal has no kind: 1.5 and 1.50 are one source key, but two message keys.

_KIND = re.compile(r"(decimal|time|local|instant)\((-?\d+)\)")


_KINDS = {
    **dict.fromkeys(logical.DAYS, "days"),
    logical.ISO_DATE: "iso-date",
    logical.ISO_TIMESTAMP: "iso-timestamp",
    **{name: f"time({per_second})" for name, per_second in logical.TIMES.items()},
    **{name: f"local({per_second})" for name, per_second in logical.LOCAL_TIMESTAMPS.items()},
    **{name: f"instant({per_second})" for name, per_second in logical.INSTANTS.items()},
}


def kind_of(type_: ConnectType) -> str | None:
    """The kind of a part of this type in a message key; None: as in the source key.

    >>> kind_of(ConnectType("bytes", logical.DECIMAL, {"scale": "2"})), kind_of(ConnectType("int32"))
    ('decimal(2)', None)
    """
    if type_.name == logical.DECIMAL:
        return f"decimal({type_.parameters.get('scale')})"
    return _KINDS.get(type_.name or "")


def written_part(kind: str, text: str) -> bytes | None:
    """A part of a source key as JSON; None if no value of the kind has this text.

    >>> written_part("decimal(2)", "-26588.24"), written_part("days", "1980-01-31"), written_part("days", "today")
    (b'"1234"', b'3682', None)
    """
    if kind == "days":
        return _number(logical.day_count(text))
    if kind == "iso-date":
        return None if logical.day_count(text) is None else f'"{text}Z"'.encode()
    if kind == "iso-timestamp":
        return None if logical.timestamp_count(text, logical.NANO) is None else f'"{text}Z"'.encode()
    found = _KIND.fullmatch(kind)
    if found is None:
        raise ValueError(f"{kind} is not the kind of a message key's part")
    way, number = found[1], int(found[2])
    if way == "decimal":
        return _decimal(text, number)
    if way == "time":
        return _number(logical.time_count(text, number))
    if way == "instant":
        return _number(logical.timestamp_count(text[:-1], number)) if text.endswith("Z") else None
    return _number(logical.timestamp_count(text, number))


def _number(count: int | None) -> bytes | None:
    return None if count is None else b"%d" % count


def _decimal(text: str, scale: int) -> bytes | None:
    number = read_decimal(text)
    if number is None:
        return None
    sign, digits, exponent = number.as_tuple()
    shift = int(exponent) + scale
    unscaled = int(Decimal((sign, digits, 0)))
    if shift < 0:
        unscaled, rest = divmod(unscaled, 10**-shift)
        if rest:
            return None
    else:
        unscaled *= 10**shift
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return b'"%b"' % base64.b64encode(unscaled.to_bytes(bits // 8 + 1, "big", signed=True))


# -- message keys in Avro: the head with the schema's id, then the parts of the source key
#
# The id is in the bytes, and the bytes decide the shard. So each schema is a form of its own, even if two say the
# same: under another id the same row would come to another shard.

_INTEGERS = ("int8", "int16", "int32", "int64")
_json = msgspec.json.Decoder().decode
_parts = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True)
class AvroKeyForm:
    """One Avro schema of message keys. columns: of the source key, in order."""

    schema: RegisteredSchema
    columns: tuple[str, ...]
    types: Mapping[str, ConnectType] = field(repr=False)

    @property
    def name(self) -> str:
        return f"avro:{self.schema.id}"

    def written(self, source_key: str) -> bytes | None:
        """The message key of a row; None if the source key cannot be written so (a text for a number)."""
        texts = [source_key] if len(self.columns) == 1 else _parts(source_key)
        parts = {name: _value(self.types[name], text) for name, text in zip(self.columns, texts, strict=True)}
        if None in parts.values() or self.schema.avro is None:
            return None
        from fastavro import schemaless_writer  # installed, or this schema would not be known

        body = BytesIO()
        body.write(b"\0" + self.schema.id.to_bytes(HEAD_BYTES - 1, "big"))
        datum: object = parts if self.schema.type.type == "struct" else parts[self.columns[0]]
        try:
            schemaless_writer(body, self.schema.avro, datum)
        except Exception:  # of many classes: the value does not fit the schema
            return None
        return body.getvalue()


def avro_key_form(
    schema: RegisteredSchema, columns: tuple[str, ...], types: Mapping[str, ConnectType]
) -> AvroKeyForm | None:
    """The form of keys with exactly the columns of the source key; None for any other keys."""
    if schema.type.type == "struct" and set(schema.type.fields) != set(columns):
        return None
    return AvroKeyForm(schema, columns, types) if set(types) == set(columns) else None


def _value(type_: ConnectType, text: str) -> object:
    """A part of the source key for Avro; None if no value of the type has this text."""
    if (kind := kind_of(type_)) is not None:
        part = written_part(kind, text)
        value = None if part is None else _json(part)
        return base64.b64decode(value) if type_.type == "bytes" and isinstance(value, str) else value
    if type_.type in _INTEGERS:
        return int(text) if text.removeprefix("-").isdecimal() else None
    return text if type_.type == "string" else None


# -- the row that a message key names

JSON_BEGINS = (b"{", b"[", b'"')


class MessageKeys:
    """Reads the message keys of one table."""

    def __init__(self, encoder: Encoder, schemas: Known | None = None) -> None:
        self._encoder = encoder
        self._reader = MessageReader(encoder.table, schemas)

    def source_key(self, message_key: bytes | None) -> str:
        """The source key that a message key names; raises EventRefused.

        The key is a bare text (a number, too), or a JSON text or object with or without schema, or a registered one.
        """
        if not message_key:
            raise EventRefused("missing-key", "neither the value nor the message key says which row is gone")
        if is_registered(message_key) or message_key.lstrip()[:1] in JSON_BEGINS:
            key, readers = self._reader.read(message_key)
            return self._encoder.source_key_of(readers.own.key(key))
        try:
            text = message_key.decode().strip()
        except UnicodeDecodeError:
            raise EventRefused("malformed-json", "the message key is not UTF-8") from None
        return self._encoder.source_key_of(None if text == "null" else text)

    def types(self, message_key: bytes) -> Mapping[str, ConnectType]:
        """The types of the key's columns, if the message key has a schema; raises EventRefused."""
        has_types = is_registered(message_key) or message_key.lstrip()[:1] == b"{"
        return self._reader.read(message_key)[1].own.types if has_types else {}


RowChange = Insert | Delete | Modify | Upsert | Remove
ROW_CHANGES = (Insert, Delete, Modify, Upsert, Remove)

NAME_BYTES_MAX = 100
REGISTERED = ("avro:", "registry:")  # prefixes of forms with a schema's id
NOT_BARE = ("", "{", "[", '"', "\0")  # a bare text does not begin with these

_to_json = msgspec.json.Encoder().encode
_key_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*')
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """A way to write a source key as a message key."""

    name: str
    around: tuple[bytes, ...]  # the bytes around the parts: one more than parts
    parts: tuple[tuple[int, str], ...]  # number of the column, and "bare", "number", "text" (a JSON string) or a kind

    def written(self, source_key: str) -> bytes | None:
        """The message key of a row; None if the source key cannot be written so (a text for a number)."""
        if self is BARE:  # the fast path: nearly every producer, for every message
            return source_key.encode() if _is_bare(source_key) else _to_json(source_key)
        texts = [source_key] if len(self.parts) == 1 else _parts(source_key)
        written = self.around[0]
        for (number, kind), after in zip(self.parts, self.around[1:], strict=True):
            text = texts[number]
            part = _written(kind, text)
            if part is None:
                return None
            written += part + after
        return written


def _written(kind: str, text: str) -> bytes | None:
    if kind == "number":
        return text.encode() if _NUMBER.fullmatch(text) else None
    if kind == "text" or (kind == "bare" and not _is_bare(text)):
        return _to_json(text)
    return text.encode() if kind == "bare" else written_part(kind, text)


BARE = KeyForm("bare", (b"", b""), ((0, "bare"),))
JSON_TEXT = KeyForm("json:text", (b"", b""), ((0, "text"),))


AnyKeyForm = KeyForm | AvroKeyForm


def default_form(source_key: tuple[str, ...]) -> KeyForm:
    """The form for an input without a form: bare, for a composite key the JSON object of its texts.

    >>> default_form(("ward", "number")).written('["B","3"]')
    b'{"ward":"B","number":"3"}'
    """
    if len(source_key) == 1:
        return BARE
    names = [_to_json(name) + b":" for name in source_key]
    around = (b"{" + names[0], *(b"," + name for name in names[1:]), b"}")
    return _named(around, tuple((i, "text") for i in range(len(names))), has_schema=False)


class KeyContract:
    """The requirements of one shard on message keys."""

    def __init__(self, table: Table, shard: int, schemas: Known | None = None) -> None:
        self._columns = table.source_key
        self._shard = shard
        self._partitioner_stated = table.partitioner_stated
        self._schemas = schemas
        self._keys = MessageKeys(Encoder(table), schemas)
        self._last: AnyKeyForm = BARE

    def form_after(self, key_form: str, message_key: bytes | None, change: Change, shards: int) -> str:
        """The shard's key form after a change ("": not known yet); raises EventRefused if the key breaks the contract.

        shards: of the input. Reasons: message-key-missing, message-key-unreadable, message-key-form,
        message-key-of-other-row, wrong-partition, unknown-schema.
        """
        if isinstance(change, Truncate):
            return ""
        if shards == 1 or not isinstance(change, ROW_CHANGES):
            return key_form
        if not message_key:
            raise EventRefused("message-key-missing", _MISSING)
        if self._last.name != key_form or self._last.written(change.source_key) != message_key:
            key_form = self._checked(key_form, message_key, change.source_key)
        self.check_partition(message_key, shards)
        return key_form

    def check_partition(self, message_key: bytes, shards: int) -> None:
        """Raises EventRefused if murmur2 of the key gives another shard."""
        if not self._partitioner_stated and shard_of(message_key, shards) != self._shard:
            raise EventRefused("wrong-partition", _WRONG_PARTITION)

    def _checked(self, key_form: str, message_key: bytes, source_key: str) -> str:
        found = self.form_of(message_key, source_key)
        if found is None and key_form in ("", BARE.name, JSON_TEXT.name):
            return key_form
        form = found or JSON_TEXT
        if key_form not in ("", form.name):
            other_id = form.name.startswith(REGISTERED) and key_form.startswith(REGISTERED)
            remedy = _OTHER_ID if other_id else _OTHER_WRITER
            raise EventRefused("message-key-form", _OTHER_FORM.format(key_form, form.name, remedy))
        self._last = form
        return form.name

    def form_of(self, message_key: bytes, source_key: str) -> AnyKeyForm | None:
        """The form of a row's message key; None if two forms write it alike (a quoted text).

        Raises EventRefused: message-key-unreadable, message-key-of-other-row, unknown-schema.
        """
        try:
            named = self._keys.source_key(message_key)
        except EventRefused as refused:
            if refused.reason == "unknown-schema":
                raise
            raise self._unreadable(refused.detail) from None
        if named != source_key:
            raise EventRefused("message-key-of-other-row", _OTHER_ROW)
        if len(self._columns) == 1 and BARE.written(source_key) == message_key:
            return BARE if _is_bare(source_key) else None
        types = self._keys.types(message_key)
        if any(type_.name == logical.VARIABLE_SCALE_DECIMAL for type_ in types.values()):
            raise self._unreadable(_VARIABLE_SCALE)
        form = self._form(message_key, types)
        if form is None:
            raise self._unreadable("the message key has other columns, or comes before its schema")
        if form.written(source_key) != message_key:
            raise self._unreadable("the message key has spaces around it, or a part that can be shorter (7.0, \\u00e9)")
        return form

    def _form(self, message_key: bytes, types: Mapping[str, ConnectType]) -> AnyKeyForm | None:
        if not is_registered(message_key):
            return _json_form(message_key, self._columns, types)
        schema = schema_of(message_key, self._schemas)
        if schema.avro is not None:
            return avro_key_form(schema, self._columns, types)
        head, text = message_key[:HEAD_BYTES], message_key[HEAD_BYTES:]
        form = _json_form(text, self._columns, types)
        if form is None:
            return None
        return KeyForm(f"registry:{schema.id}:{form.name}", (head + form.around[0], *form.around[1:]), form.parts)

    def _unreadable(self, fault: str) -> EventRefused:
        return EventRefused("message-key-unreadable", _UNREADABLE.format(fault, ", ".join(self._columns)))


def _is_bare(text: str) -> bool:
    """True if a bare text reads back as the same source key."""
    return text == text.strip() != "null" and text[:1] not in NOT_BARE


def _json_form(message_key: bytes, columns: tuple[str, ...], types: Mapping[str, ConnectType]) -> KeyForm | None:
    """The form of a JSON key with exactly the columns of the source key; None for any other."""
    if message_key.lstrip()[:1] not in (b"{", b'"'):
        return None
    value, payload, has_schema = read_json(message_key), message_key, False
    if (inner := unwrapped(value)) is not value:
        value, payload, has_schema = inner, bytes(_key_members(message_key)["payload"]), True
    start = message_key.rindex(payload)
    end = start + len(payload)
    if has_schema and message_key[end:].strip() != b"}":
        return None
    tokens = list(_SCALAR.finditer(message_key, start, end))
    names = list(columns[:1])
    if isinstance(value, dict):
        names, tokens = list(value), tokens[1::2]
    if sorted(names) != sorted(columns) or len(tokens) != len(names):
        return None
    starts, ends = [token.start() for token in tokens], [token.end() for token in tokens]
    around = tuple(message_key[i:j] for i, j in zip([0, *ends], [*starts, None], strict=True))
    parts = ((columns.index(name), _kind(token[0], types.get(name))) for name, token in zip(names, tokens, strict=True))
    return _named(around, tuple(parts), has_schema)


def _kind(token: bytes, type_: ConnectType | None) -> str:
    """The kind of a part of the key; a Decimal may be a number (the converter's decimal.format)."""
    kind, is_text = kind_of(type_) if type_ else None, token.startswith(b'"')
    return kind if kind and (is_text or not kind.startswith("decimal")) else "text" if is_text else "number"


@lru_cache(64)
def _named(around: tuple[bytes, ...], parts: tuple[tuple[int, str], ...], has_schema: bool) -> KeyForm:
    text = around[0] + b"".join(kind.encode() + after for (_, kind), after in zip(parts, around[1:], strict=True))
    readable = not has_schema and len(text) <= NAME_BYTES_MAX
    name = text.decode() if readable else blake2b(text, digest_size=8).hexdigest()
    return KeyForm(f"json-schema:{name}" if has_schema else f"json:{name}", around, parts)


_VARIABLE_SCALE = (
    "one source key has several message keys if a decimal has no fixed scale (1.5, 1.50): set the connector's "
    "decimal.handling.mode=string, or give the column a scale"
)
_MISSING = (
    "there are several shards, and only the message key keeps a row's messages in one of them: let the producer write "
    "the primary key as message key (Debezium: message.key.columns, for a table without primary key)"
)
_UNREADABLE = (
    "{}; it must be the primary key of table.yaml ({}), as bare text or as JSON of exactly these columns in the "
    "shortest spelling: use a JSON key converter, and name the same columns in table.yaml and in the producer "
    "(Debezium: message.key.columns)"
)
_OTHER_FORM = (
    "this shard's message keys are written as {}, this one as {}: one row would come to two shards. {}; to change "
    "the form for good, empty the table with `streamer produce --truncate` and send all rows again"
)
_OTHER_WRITER = "Set the producer's key.converter back (`streamer produce` writes what the topic has)"
_OTHER_ID = (
    "The key's schema was registered again, with another id: undo what changed it (names and types of the primary "
    "key, the connector's topic.prefix, the converter's settings, the registry), and keep it with the key "
    "converter's auto.register.schemas=false and use.latest.version=true"
)
_OTHER_ROW = (
    "message key and value name different rows, so a row's messages would come to several shards: let the producer "
    "write the primary key as message key"
)
_WRONG_PARTITION = (
    "murmur2 of its message key gives another shard: set the producer's partitioner to that of Kafka's Java clients "
    "(librdkafka: partitioner=murmur2_random). Only if all messages of a row come to one shard anyway, say `input: "
    "{partitioner: stated}` in table.yaml and read the input again from the start"
)
