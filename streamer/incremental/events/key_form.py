"""How an input writes its message keys, and what that asks of every message about one row: the partition contract.

The rules of this file
----------------------
* A row's messages must all come to one shard, and the shard follows from the bytes of the message key. So these bytes
  must follow from the source key alone. How they do is the *key form*: the text itself (`bare`), a JSON text with the
  source key in it (`json:{"id":number}`, or the hash of so long a text), or that within Kafka Connect's schema
  (`json-schema:<hash of all but the source key>`). Where a registry keeps the key's schema, its id stands in the bytes:
  `avro:<id>`, and before a JSON text `registry:<id>:`. A form's name holds names of columns and never a value.
* A shard has one form: that of the first row change which it applied. Every later row change must be written so, name
  the same row as its value, and lie in the shard that murmur2 of its key gives. Anything else is refused: the row's
  other messages may lie in another shard, and applying it would make a second copy that nobody ever removes.
* Statements and notices are not row changes. A truncation, which reaches all shards, forgets the form with the rows: so
  an input may change its form. Where there is one shard nothing is asked and nothing is learned: all messages of a row
  meet there, whatever their keys.
* What is learned depends on the sequence of messages alone; what this file remembers beside it only saves time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.avro_keys import AvroKeyForm, avro_key_form
from streamer.incremental.events.changes import Change, Delete, Insert, Modify, Remove, Truncate, Upsert
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.json_messages import read_json, unwrapped
from streamer.incremental.events.logical_keys import kind_of, written_part
from streamer.incremental.events.logical_types import VARIABLE_SCALE_DECIMAL
from streamer.incremental.events.message_keys import MessageKeys
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.events.registered_schemas import HEAD_BYTES, Known, is_registered, schema_of
from streamer.table.encode import Encoder
from streamer.table.schema import Table

RowChange = Insert | Delete | Modify | Upsert | Remove
ROW_CHANGES = (Insert, Delete, Modify, Upsert, Remove)

NAME_BYTES_MAX = 100
REGISTERED = ("avro:", "registry:")  # how the names of forms begin that hold a schema's id
NOT_BARE = ("", "{", "[", '"', "\0")  # what a message key that is a bare text does not begin with

_to_json = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_parts = msgspec.json.Decoder(list[str]).decode
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*')
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """One way to write a source key as a message key.

    around: what stands around the parts of the source key, one text more than parts. parts: number of the column in the
    source key, and how it is written: "bare", "number", "text" (a JSON string) or a kind of logical type
    (`streamer.incremental.events.logical_keys`).
    """

    name: str
    around: tuple[bytes, ...]
    parts: tuple[tuple[int, str], ...]

    def written(self, source_key: str) -> bytes | None:
        """The message key of a row; None where the source key cannot be written so (a text where numbers stand)."""
        if self is BARE:  # what nearly every producer writes, asked for every message
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


def form_unless_told(source_key: tuple[str, ...]) -> KeyForm:
    """The form for an input that tells none yet: bare, and for a composite key the JSON object of its texts.

    >>> form_unless_told(("ward", "number")).written('["B","3"]')
    b'{"ward":"B","number":"3"}'
    """
    if len(source_key) == 1:
        return BARE
    names = [_to_json(name) + b":" for name in source_key]
    around = (b"{" + names[0], *(b"," + name for name in names[1:]), b"}")
    return _named(around, tuple((i, "text") for i in range(len(names))), has_schema=False)


class KeyContract:
    """What one shard of a table asks of the keys of its messages."""

    def __init__(self, table: Table, shard: int, schemas: Known | None = None) -> None:
        self._columns = table.source_key
        self._shard = shard
        self._partitioner_stated = table.partitioner_stated
        self._schemas = schemas
        self._keys = MessageKeys(Encoder(table), schemas)
        self._last: AnyKeyForm = BARE

    def form_after(self, key_form: str, message_key: bytes | None, change: Change, shards: int) -> str:
        """The shard's key form ("": not known yet) once a change is applied; raises EventRefused where it may not be.

        shards: how many the input has.
        message-key-missing, message-key-unreadable, message-key-form, message-key-of-other-row, wrong-partition,
        unknown-schema.
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
        """Raises EventRefused where the message lies in another shard than murmur2 of its key gives."""
        if not self._partitioner_stated and shard_of(message_key, shards) != self._shard:
            raise EventRefused("wrong-partition", _WRONG_PARTITION)

    def _checked(self, key_form: str, message_key: bytes, source_key: str) -> str:
        told = self.form_told(message_key, source_key)
        if told is None and key_form in ("", BARE.name, JSON_TEXT.name):
            return key_form
        form = told or JSON_TEXT
        if key_form not in ("", form.name):
            mend = _OTHER_ID if form.name.startswith(REGISTERED) and key_form.startswith(REGISTERED) else _OTHER_WRITER
            raise EventRefused("message-key-form", _OTHER_FORM.format(key_form, form.name, mend))
        self._last = form
        return form.name

    def form_told(self, message_key: bytes, source_key: str) -> AnyKeyForm | None:
        """The form of a row's message key; None for one that is written the same in two forms (a quoted text).

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
        if any(type_.name == VARIABLE_SCALE_DECIMAL for type_ in types.values()):
            raise self._unreadable(_VARIABLE_SCALE)
        form = self._form(message_key, types)
        if form is None:
            raise self._unreadable("the message key has other columns, or stands before its schema")
        if form.written(source_key) != message_key:
            raise self._unreadable("the message key has spaces around it, or a part longer than need be (7.0, \\u00e9)")
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
    """Whether a bare text reads back as the same source key."""
    return text == text.strip() != "null" and text[:1] not in NOT_BARE


def _json_form(message_key: bytes, columns: tuple[str, ...], types: Mapping[str, ConnectType]) -> KeyForm | None:
    """The form of a JSON key out of which exactly the columns of the source key can be read; None for any other."""
    if message_key.lstrip()[:1] not in (b"{", b'"'):
        return None
    value, payload, has_schema = read_json(message_key), message_key, False
    if (inner := unwrapped(value)) is not value:
        value, payload, has_schema = inner, bytes(_members(message_key)["payload"]), True
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
    """How a part of the key is written; a Decimal may stand there as a number (the converter's decimal.format)."""
    kind, is_text = kind_of(type_) if type_ else None, token.startswith(b'"')
    return kind if kind and (is_text or not kind.startswith("decimal")) else "text" if is_text else "number"


@lru_cache(64)
def _named(around: tuple[bytes, ...], parts: tuple[tuple[int, str], ...], has_schema: bool) -> KeyForm:
    text = around[0] + b"".join(kind.encode() + after for (_, kind), after in zip(parts, around[1:], strict=True))
    told = text.decode() if not has_schema and len(text) <= NAME_BYTES_MAX else blake2b(text, digest_size=8).hexdigest()
    return KeyForm(f"json-schema:{told}" if has_schema else f"json:{told}", around, parts)


_VARIABLE_SCALE = (
    "one source key has several message keys where a decimal has no scale of its own (1.5, 1.50): set the connector's "
    "decimal.handling.mode=string, or give the column a scale"
)
_MISSING = (
    "there are several shards, and only its message key keeps a row's messages in one of them: let the producer write "
    "the primary key as message key (Debezium: message.key.columns, for a table without primary key)"
)
_UNREADABLE = (
    "{}; it has to be the primary key of table.yaml ({}), as bare text or as JSON of exactly these columns in the "
    "shortest spelling: use a JSON key converter, and name the same columns in table.yaml and in the producer "
    "(Debezium: message.key.columns)"
)
_OTHER_FORM = (
    "this shard's message keys are written as {}, this one as {}: the same row would come to two shards. {}; if the "
    "form is to change for good, empty the table with `streamer produce --truncate` and send all rows again"
)
_OTHER_WRITER = "Set the producer's key.converter back (`streamer produce` writes what the topic has)"
_OTHER_ID = (
    "The key's schema was registered anew, under another id: set back what changed it (names and types of the primary "
    "key, the connector's topic.prefix, the converter's settings, the registry), and keep it with the key converter's "
    "auto.register.schemas=false and use.latest.version=true"
)
_OTHER_ROW = (
    "message key and value name different rows, so that a row's messages would not meet in one shard: let the producer "
    "write the primary key as message key"
)
_WRONG_PARTITION = (
    "murmur2 of its message key gives another shard: set the producer's partitioner to that of Kafka's Java clients "
    "(librdkafka: partitioner=murmur2_random). Only where every message of a row is known to come to one shard all the "
    "same, say `input: {partitioner: stated}` in table.yaml and read the input again from the start"
)
