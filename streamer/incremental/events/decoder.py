"""Messages of the input topic -> changes.

The rules of this file
----------------------
* A message says itself which form it has, and is asked in this order: no value, or JSON's null, which Kafka Connect's
  converter writes for none (the row of the message key is gone); `__deleted` or `__op` (a flattened row); the columns
  of the primary key, where table.yaml says `input: {form: rows}` (a row); `op` insert, upsert, delete, modify or
  truncate (the plain form); `op` c, r, u, d, t or m (Debezium's envelope); a notice of the connector. Anything else is
  refused, never guessed.
* The plain form is strict in what it needs and does not look at what it does not know: a row may have columns that
  table.yaml does not name.
* The message key is read only where the value does not say whose row it is.
* What cannot be decoded raises `EventRefused`. Its text holds reasons and names of table.yaml, nothing that came in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamer.errors import EventRefused
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Nothing,
    Truncate,
    Upsert,
)
from streamer.incremental.events.column_readers import MessageReaders
from streamer.incremental.events.debezium import ENVELOPE_OPS, Capture, is_flattened, is_notice
from streamer.incremental.events.json_messages import MessageReader
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.events.statements import Condition, parse_assignments, parse_condition
from streamer.table.encode import Encoder
from streamer.table.schema import Table

Members = Mapping[str, object]

STATEMENT_ID_CHARS_MAX = 200


class Decoder:
    """The decoder of one table's messages. schemas: those of a registry; None: there is none.

    >>> from decimal import Decimal
    >>> from streamer.table.attributes import NumericAttribute
    >>> age = NumericAttribute("age", (Decimal(0), Decimal(119)), Decimal(5), Decimal(1), Decimal(24))
    >>> decoder = Decoder(Table("people", ("id",), (age,), (), k=2))
    >>> change = decoder.decode(None, b'{"op": "insert", "row": {"id": 7, "age": 42, "name": "not looked at"}}')
    >>> change.source_key, change.row.codes
    ('7', (42,))
    """

    def __init__(self, table: Table, schemas: Known | None = None) -> None:
        self._table = table
        self._bytes_max = table.limits.event_bytes_max
        self._encoder = Encoder(table)
        self._capture = Capture(table, self._encoder, schemas)
        self._messages = MessageReader(table, schemas)
        self._plain: dict[str, Callable[[Members, MessageReaders], Change]] = {
            "insert": self._insert,
            "upsert": self._upsert,
            "delete": self._delete,
            "modify": self._modify,
            "truncate": lambda message, _: Truncate(_statement_id(message)),
        }

    @property
    def unlisted(self) -> Mapping[str, int]:
        """The columns of the message that was decoded last with a category that only `other` takes, once each."""
        return self._encoder.unlisted

    def decode(self, message_key: bytes | None, value: bytes | None) -> Change:
        """The change a message says; raises EventRefused with one of the codes below as its reason.

        oversized, schema-registry, unknown-schema, malformed-avro, malformed-json, not-an-object, unknown-op;
        missing-key, missing-individual,
        missing-row, missing-column; wrong-type, null-not-allowed, out-of-domain, off-the-step, unknown-category,
        unavailable-value, unknown-type, ambiguous-decimal; message-key-of-other-row; key-changed; bad-statement.
        """
        self._encoder.unlisted.clear()
        if value is None:
            return self._capture.tombstone(message_key)
        if len(value) > self._bytes_max:
            raise EventRefused("oversized", f"more than {self._bytes_max} bytes (limits.event_bytes_max)")
        message, readers = self._messages.read(value)
        if type(message) is dict:
            return self._of_object(message, readers, message_key)
        if message is None:
            return self._capture.tombstone(message_key)
        raise EventRefused("not-an-object", "the message is JSON, but not an object")

    def _of_object(self, message: Members, readers: MessageReaders, message_key: bytes | None) -> Change:
        if is_flattened(message):
            return self._capture.flattened(message, readers.own, message_key)
        if self._table.input_rows and self._capture.is_row(message):
            return self._capture.row(message, readers.own, message_key)
        op = message.get("op")
        if isinstance(op, str):
            plain = self._plain.get(op)
            if plain is not None:
                return plain(message, readers)
            if op in ENVELOPE_OPS:
                return self._capture.envelope(message, readers, message_key)
        elif "op" not in message and is_notice(message):
            return Nothing()
        raise EventRefused(
            "unknown-op",
            "op is none of insert, upsert, delete, modify, truncate (plain) and none of c, r, u, d, t, m (Debezium); "
            "where the messages are flattened rows without a mark, say `input: {form: rows}` in table.yaml (a message "
            "is how its row is, null that it is gone) and read the input again from the start, or set the transform's "
            "delete.tombstone.handling.mode=rewrite",
        )

    # -- the plain form -------------------------------------------------------------------------------------------

    def _insert(self, message: Members, readers: MessageReaders) -> Change:
        row = readers.parts["row"].row(_row_of(message))
        return Insert(self._encoder.source_key(row), self._encoder.row(row))

    def _upsert(self, message: Members, readers: MessageReaders) -> Change:
        row = readers.parts["row"].row(_row_of(message))
        return Upsert(self._encoder.source_key(row), self._encoder.row(row))

    def _delete(self, message: Members, readers: MessageReaders) -> Change:
        if "where" in message:
            return DeleteWhere(self._condition(message), _statement_id(message))
        return Delete(self._encoder.source_key_of(readers.parts["key"].key(message.get("key"))))

    def _modify(self, message: Members, readers: MessageReaders) -> Change:
        if "where" in message:
            assignments = parse_assignments(_expressions(message), self._table)
            return ModifyWhere(self._condition(message), assignments, _statement_id(message))
        said = readers.parts["key"].key(message.get("key"))
        source_key, row = self._encoder.source_key_of(said), readers.parts["row"].row(_row_of(message))
        self._check_same_key(source_key, said, row)
        individual = self._encoder.individual(row) if self._table.individual in row else None
        codes, exact, values, nulls = self._encoder.some(row)
        return Modify(source_key, codes, exact, values, individual, nulls)

    def _check_same_key(self, source_key: str, said: object, row: Members) -> None:
        """A column of the primary key may stand in the row, with the value it has in the key."""
        names = self._table.source_key
        repeated = {name: row[name] for name in names if name in row}
        if not repeated:
            return
        fields = {**said, **repeated} if isinstance(said, Mapping) else repeated
        if self._encoder.source_key(fields) != source_key:
            raise EventRefused("key-changed", "a modify may not change the primary key: delete and insert say it")

    def _condition(self, message: Members) -> Condition:
        where = message["where"]
        if "key" in message:
            raise EventRefused("bad-statement", "key and where in one message: which one is meant?")
        if not isinstance(where, str):
            raise EventRefused("bad-statement", "where is not a text")
        return parse_condition(where, self._table)


def _row_of(message: Members) -> Members:
    row = message.get("row")
    if not isinstance(row, dict):
        raise EventRefused("missing-row", "row is missing or not an object")
    return row


def _expressions(message: Members) -> dict[str, str]:
    expressions = message.get("set")
    if not isinstance(expressions, dict) or not all(isinstance(text, str) for text in expressions.values()):
        raise EventRefused("bad-statement", "set is not an object of texts, one expression per column")
    return expressions


def _statement_id(message: Members) -> str | None:
    statement_id = message.get("statement_id")
    if statement_id is None or (isinstance(statement_id, str) and 0 < len(statement_id) <= STATEMENT_ID_CHARS_MAX):
        return statement_id
    raise EventRefused("bad-statement", f"statement_id is not a text of 1 to {STATEMENT_ID_CHARS_MAX} characters")
