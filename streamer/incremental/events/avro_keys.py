"""Message keys in Avro, as a key form: the head with the schema's id, then the parts of the source key.

The id stands in the bytes, and the shard follows from the bytes. So each schema of a key is a form of its own, although
two may say the same: under another id the same row would come to another shard.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

import msgspec

from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_keys import kind_of, written_part
from streamer.incremental.events.registered_schemas import HEAD_BYTES, RegisteredSchema

_INTEGERS = ("int8", "int16", "int32", "int64")
_members = msgspec.json.Decoder().decode
_parts = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True)
class AvroKeyForm:
    """One schema of message keys. columns: of the source key, in its order."""

    schema: RegisteredSchema
    columns: tuple[str, ...]
    types: Mapping[str, ConnectType] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the form."""
        return f"avro:{self.schema.id}"

    def written(self, source_key: str) -> bytes | None:
        """The message key of a row; None where the source key cannot be written so (a text where numbers stand)."""
        texts = [source_key] if len(self.columns) == 1 else _parts(source_key)
        parts = {name: _value(self.types[name], text) for name, text in zip(self.columns, texts, strict=True)}
        if None in parts.values() or self.schema.avro is None:
            return None
        from fastavro import schemaless_writer  # there, or this schema would not be known

        body = BytesIO()
        body.write(b"\0" + self.schema.id.to_bytes(HEAD_BYTES - 1, "big"))
        said: object = parts if self.schema.type.type == "struct" else parts[self.columns[0]]
        try:
            schemaless_writer(body, self.schema.avro, said)
        except Exception:  # of many kinds: the value is none of the schema's
            return None
        return body.getvalue()


def avro_key_form(
    schema: RegisteredSchema, columns: tuple[str, ...], types: Mapping[str, ConnectType]
) -> AvroKeyForm | None:
    """The form of keys that have exactly the columns of the source key; None for any other."""
    if schema.type.type == "struct" and set(schema.type.fields) != set(columns):
        return None
    return AvroKeyForm(schema, columns, types) if set(types) == set(columns) else None


def _value(type_: ConnectType, text: str) -> object:
    """A part of the source key as Avro has it; None where no value of this type has that text."""
    if (kind := kind_of(type_)) is not None:
        part = written_part(kind, text)
        said = None if part is None else _members(part)
        return base64.b64decode(said) if type_.type == "bytes" and isinstance(said, str) else said
    if type_.type in _INTEGERS:
        return int(text) if text.removeprefix("-").isdecimal() else None
    return text if type_.type == "string" else None
