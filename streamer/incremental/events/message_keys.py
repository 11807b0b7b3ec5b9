"""The row that a message key names: a bare text, JSON with or without Kafka Connect's schema, or by a registry's."""

from __future__ import annotations

from collections.abc import Mapping

from streamer.errors import EventRefused
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.json_messages import MessageReader
from streamer.incremental.events.registered_schemas import Known, is_registered
from streamer.table.encode import Encoder

JSON_BEGINS = (b"{", b"[", b'"')


class MessageKeys:
    """Reads the message keys of one table."""

    def __init__(self, encoder: Encoder, schemas: Known | None = None) -> None:
        self._encoder = encoder
        self._reader = MessageReader(encoder.table, schemas)

    def source_key(self, message_key: bytes | None) -> str:
        """The source key that a message key names; raises EventRefused.

        A bare text, or a JSON text or object, with or without schema; a bare number is the text it is written as.
        """
        if not message_key:
            raise EventRefused("missing-key", "neither the value nor the message key says which row is gone")
        if is_registered(message_key) or message_key.lstrip()[:1] in JSON_BEGINS:
            said, readers = self._reader.read(message_key)
            return self._encoder.source_key_of(readers.own.key(said))
        try:
            text = message_key.decode().strip()
        except UnicodeDecodeError:
            raise EventRefused("malformed-json", "the message key is not UTF-8") from None
        return self._encoder.source_key_of(None if text == "null" else text)

    def types(self, message_key: bytes) -> Mapping[str, ConnectType]:
        """The types of the key's columns, as far as a message key has a schema; raises EventRefused."""
        has_types = is_registered(message_key) or message_key.lstrip()[:1] == b"{"
        return self._reader.read(message_key)[1].own.types if has_types else {}
