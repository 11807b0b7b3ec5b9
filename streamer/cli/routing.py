"""Where a message belongs: to the shard of one row, or to every shard.

What speaks about one row is sent under one message key, whatever form the message has: its source key in the key form
that the input has. The shard follows from that, so a row's insertion, its changes and its removal meet in one shard.
What speaks about all rows (a statement, a truncation) is for every shard. A message is read as far as that takes.
Whether it can be applied is the worker's question: what cannot be read here is passed on as it is, and comes out of
the worker as a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pandas as pd

from streamer.errors import EventRefused
from streamer.incremental.events.column_readers import MessageReaders, RowReaders
from streamer.incremental.events.json_messages import MessageReader
from streamer.incremental.events.key_form import AnyKeyForm, form_unless_told
from streamer.incremental.events.registered_schemas import Known
from streamer.table.encode import Encoder
from streamer.table.schema import Table

Body = Mapping[str, object]

_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class RowMessage:
    """A message about one row. message_key None: which row could not be told; value None: the row is gone."""

    message_key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A message about all rows, for every shard."""

    body: Body = field(repr=False)

    @property
    def statement_id(self) -> str | None:
        """The id that the statement carries itself."""
        own = self.body.get("statement_id")
        return own if isinstance(own, str) and own else None

    def value(self, statement_id: str) -> bytes:
        """The message: the statement under this id."""
        return _encoder.encode({**self.body, "statement_id": statement_id})


TRUNCATE = Statement({"op": "truncate"})


class Router:
    """Reads of rows and messages of one table what routing needs; None: an input that tells no key form yet."""

    def __init__(self, table: Table, key_form: AnyKeyForm | None = None, schemas: Known | None = None) -> None:
        self._encoder = Encoder(table)
        self._messages = MessageReader(table, schemas)
        self._key_form = key_form or form_unless_told(table.source_key)

    def rows(self, frame: pd.DataFrame, op: str = "insert") -> Iterator[RowMessage]:
        """Plain insertions, or upserts, of the rows of a CSV file: the columns that table.yaml names, typed as it says.

        Raises ConfigError at once where such a column is missing.
        """
        return self._rows(frame, op, self._encoder.named_columns(frame))

    def _rows(self, frame: pd.DataFrame, op: str, columns: list[str]) -> Iterator[RowMessage]:
        for texts in zip(*(frame[name].tolist() for name in columns), strict=True):
            row = self._encoder.fields(dict(zip(columns, texts, strict=True)))
            key = self._key_of(row, self._messages.schemaless.own)
            yield RowMessage(key, _encoder.encode({"op": op, "row": row}))

    def route(self, message_key: bytes | None, value: bytes | None) -> Iterator[RowMessage | Statement]:
        """What is to be sent for one message, in order: as a rule the message itself, under its row's message key."""
        if value is None:
            key = self._key_in(message_key)
            yield RowMessage(key, None if key else b"null")  # a removal of nothing: refused by the worker
            return
        body, readers = self._object(value)
        if _is_statement(body):
            yield Statement(body)
            return
        key = self._key_of_body(body, readers) or self._key_in(message_key)
        former = None
        if isinstance(body.get("after"), Mapping):
            former = self._key_of(body.get("before"), readers.parts["before"])
        if former not in (None, key):
            yield RowMessage(former, None)  # a changed primary key: the row leaves the shard of its former one
        yield RowMessage(key, value)

    def _object(self, value: bytes) -> tuple[Body, MessageReaders]:
        """The JSON object in a message, out of its schema/payload wrapping; empty where there is none."""
        try:
            body, readers = self._messages.read(value)
        except EventRefused:
            return {}, self._messages.schemaless
        return body if isinstance(body, dict) else {}, readers

    def _key_of_body(self, body: Body, readers: MessageReaders) -> bytes | None:
        """The key of the row that a plain event, a Debezium envelope or a flattened row is about."""
        if body.get("op") in ("delete", "modify"):
            return self._key_of(body.get("key"), readers.parts["key"])
        for member in ("row", "after", "before"):
            if isinstance(row := body.get(member), Mapping):
                return self._key_of(row, readers.parts[member])
        return self._key_of(body, readers.own)

    def _key_in(self, message_key: bytes | None) -> bytes | None:
        """The message key of the row that a JSON key names (with or without schema), else the key itself."""
        if message_key is None:
            return None
        try:
            said, readers = self._messages.read(message_key)
        except EventRefused:
            return message_key
        return self._key_of(said, readers.own) or message_key

    def _key_of(self, said: object, readers: RowReaders) -> bytes | None:
        """The message key for a row's fields or for a bare key; None where they hold none of the input's form."""
        try:
            return self._key_form.written(self._encoder.source_key_of(readers.key(said)))
        except EventRefused:
            return None


def _is_statement(body: Body) -> bool:
    return body.get("op") == "truncate" or (body.get("op") in ("delete", "modify") and "where" in body)
