"""Messages of the input topic -> changes.

* A message says itself which form it has. The forms, in the order in which they are tried: no value, or JSON's
  null, which Kafka Connect's converter writes for no value (the row of the message key is gone); `__deleted` or
  `__op` (a flattened row); the columns of the primary key, if table.yaml says `input: {form: rows}` (a row); `op`
  insert, upsert, delete, modify or truncate (the plain form); `op` c, r, u, d, t or m (Debezium's envelope); a notice
  of the connector. Anything else is refused, never guessed.
* The plain form is strict in what it needs, and ignores everything else: a row may have columns that table.yaml
  does not name.
* The message key is read only if the value does not say whose row it is.
* A message of another make (CloudEvents, Maxwell, Canal, ...) is named, with what its producer has to be set to.
* A message that cannot be decoded raises `EventRefused`. Its text holds reasons and names of table.yaml, nothing of the
  message.

Change data capture is at-least-once: c (create), r (read by a snapshot) and u (update) say how a row is now, d (delete)
and a tombstone that it is gone. So these become `Upsert` and `Remove`. t (truncate) comes to one partition only. m (a
logical message) and the connector's notices are about no row. With the defaults of `ExtractNewRecordState` a flattened
row has no mark, and a deletion is a null whose row is named by the message key alone. So a row whose message key names
another row, or none, is refused: it could never be removed. A value that the connector did not send (an unchanged TOAST
column of PostgreSQL) is refused: to take the placeholder for the value would lose the value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial

from streamer.errors import EventRefused
from streamer.incremental.events import changes
from streamer.incremental.events.json_messages import MessageReader, MessageReaders, RowReaders, may_be_bytes
from streamer.incremental.events.key_form import MessageKeys
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.events.source_positions import SourcePosition, flattened_position, position_of
from streamer.incremental.events.statements import Condition, parse_assignments, parse_condition
from streamer.table.codes import read_decimal
from streamer.table.encode import Encoder
from streamer.table.row import Row
from streamer.table.schema import Table

Members = Mapping[str, object]

ENVELOPE_OPS = frozenset("crudtm")
UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLES = frozenset((UNAVAILABLE, base64.b64encode(UNAVAILABLE.encode()).decode(), UNAVAILABLE.encode()))
"""The placeholder in columns of text and of bytes, as JSON and Avro write it."""

_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"status", "id", "event_count"})
_SCHEMA_CHANGE = frozenset({"source", "ddl", "tableChanges"})


def is_flattened(message: Members) -> bool:
    """True if the message is a row of `ExtractNewRecordState`."""
    return "__deleted" in message or "__op" in message


def is_notice(message: Members) -> bool:
    """True if the message is the connector's own, about no row."""
    members = message.keys()
    if "ts_ms" in members and members <= _HEARTBEAT:
        return True
    return members >= _SCHEMA_CHANGE or (members >= _TRANSACTION and message["status"] in ("BEGIN", "END"))


# Messages of other makes. None is read: each is named by its members, with what its producer has to be set to.

_PLAIN_FORM = 'or let a transform write the plain form, {"op": "upsert", "row": {...}} and {"op": "delete", "key": ...}'
_CAPTURE = f"capture the table by Debezium, {_PLAIN_FORM}"
_MAKES: tuple[tuple[frozenset[str], str, str], ...] = (
    (
        frozenset(("specversion", "type")),
        "a CloudEvent",
        "set the connector's value.converter to org.apache.kafka.connect.json.JsonConverter instead of its"
        f" CloudEventsConverter, {_PLAIN_FORM}",
    ),
    (frozenset(("data", "type", "isDdl")), "a message of Canal", _CAPTURE),
    (frozenset(("mysqlType", "type", "data")), "a message of Canal", _CAPTURE),
    (frozenset(("database", "table", "type", "data")), "a message of Maxwell", _CAPTURE),
    (frozenset(("metadata", "data")), "a message of AWS DMS or Striim", _CAPTURE),
    (frozenset(("metadata", "control")), "a message of AWS DMS", _CAPTURE),
    (frozenset(("op_type", "table")), "a message of Oracle GoldenGate", _CAPTURE),
    (frozenset(("op_type", "op_ts")), "a message of Oracle GoldenGate", _CAPTURE),
    (frozenset(("magic", "headers")), "a message of Qlik Replicate", _CAPTURE),
    (frozenset(("headers", "beforeData")), "a message of Qlik Replicate", _CAPTURE),
    (frozenset(("action", "schema", "table")), "a message of wal2json", _CAPTURE),
    (frozenset(("change",)), "a message of wal2json", f"set format-version=2 for one message a row, and {_CAPTURE}"),
    (
        frozenset(("operationType", "ns")),
        "an event of MongoDB's own connector",
        "use Debezium's with the transform io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
        f" (delete.tombstone.handling.mode=rewrite), {_PLAIN_FORM}",
    ),
    (frozenset(("eventName", "dynamodb")), "a record of DynamoDB Streams", _CAPTURE),
    (frozenset(("modType", "mods")), "a change record of Spanner", _CAPTURE),
    (frozenset(("after", "updated")), "a message of a CockroachDB changefeed", _CAPTURE),
    (frozenset(("resolved",)), "a message of a CockroachDB changefeed", _CAPTURE),
)
"""The members that tell a make, its name, and what to set; the first that fits counts."""

_CLOUD_EVENT = _MAKES[0][0] | {"source", "id"}
_OP_WORDS = frozenset(("insert", "upsert", "update", "delete", "modify", "truncate", "create", "read", *ENVELOPE_OPS))
_NO_FORM = (
    "op is none of insert, upsert, delete, modify, truncate (plain) and none of c, r, u, d, t, m (Debezium), and the"
    " message is of no other known form"
)
_UNMARKED = (
    "a row without a mark: if the messages are flattened rows, say `input: {form: rows}` in table.yaml (a message is a"
    " row as it is now, null a row that is gone) and read the input again from the start, or set the transform's"
    " delete.tombstone.handling.mode=rewrite"
)


def _unknown_op(message: Members, key_columns: tuple[str, ...]) -> EventRefused:
    """The refusal of a message of no form that is read."""
    for members, make, remedy in _MAKES:
        if message.keys() >= members:
            return EventRefused("unknown-op", f"{make}, not Debezium's form: {remedy}")
    op = message.get("op")
    if isinstance(op, str) and op.strip().lower() in _OP_WORDS:
        detail = "op must be one of insert, upsert, delete, modify, truncate (plain) in small letters; a change of some"
        return EventRefused("unknown-op", f"{detail} columns is modify, of a whole row upsert")
    is_row = "op" not in message and all(name in message for name in key_columns)
    return EventRefused("unknown-op", _UNMARKED if is_row else _NO_FORM)


class Capture:
    """Decodes the captured changes of one table. Every method raises EventRefused."""

    def __init__(self, table: Table, encoder: Encoder, schemas: Known | None = None) -> None:
        self._encoder = encoder
        self._keys = MessageKeys(encoder, schemas)
        self._key_columns = table.source_key
        self._of_rows = table.input_rows
        self._named = table.named

    def is_row(self, message: Members) -> bool:
        """True if the message is a row without a mark, if table.yaml says that the input has such rows."""
        return all(name in message for name in self._key_columns)

    def tombstone(self, message_key: bytes | None) -> changes.Remove:
        """A message without a value: the row of the message key is gone."""
        return changes.Remove(self._keys.source_key(message_key), was_there=self._of_rows)

    def envelope(self, message: Members, readers: MessageReaders, message_key: bytes | None) -> changes.Change:
        """A message with before, after and one of ENVELOPE_OPS."""
        if message["op"] == "m":
            return changes.Nothing()
        position = position_of(message.get("source"))
        match message["op"]:
            case "d":
                return self._removed(message.get("before"), readers.parts["before"], message_key, position)
            case "t":
                return changes.Truncate(whole_table_only=True, position=position)
        after = message.get("after")
        if not isinstance(after, dict):
            raise EventRefused("missing-row", _no_after(message))
        was_there = message["op"] == "u"
        former_key = self._key_of_row(message.get("before"), readers.parts["before"]) if was_there else None
        return self._upsert(after, readers.parts["after"], former_key, was_there, position, message["op"] == "r")

    def flattened(self, message: Members, readers: RowReaders, message_key: bytes | None) -> changes.Change:
        """A row with `__deleted`, `__op` or both."""
        op = message.get("__op", "u")
        deleted = _as_bool(message.get("__deleted", op == "d"))
        if not isinstance(op, str) or op not in ENVELOPE_OPS or deleted is None:
            raise EventRefused("unknown-op", "flattened row: __deleted is neither true nor false, or __op is unknown")
        if op == "m":
            return changes.Nothing()
        position = flattened_position(message)
        if op == "t":
            return changes.Truncate(whole_table_only=True, position=position)
        if deleted or op == "d":
            return self._removed(message, readers, message_key, position)
        upsert = self._upsert(message, readers, None, message.get("__op") == "u", position, op == "r")
        return upsert if "__deleted" in message else self._removable(upsert, message_key)

    def row(self, message: Members, readers: RowReaders, message_key: bytes | None) -> changes.Upsert:
        """A row without a mark (`is_row`)."""
        return self._removable(self._upsert(message, readers, None, was_there=False), message_key)

    def _removable(self, upsert: changes.Upsert, message_key: bytes | None) -> changes.Upsert:
        """Refuses the row unless a message with this key and no value would remove it: nothing else removes it."""
        named = self._keys.source_key(message_key) if message_key else None if self._of_rows else upsert.source_key
        if named != upsert.source_key:
            raise EventRefused("message-key-of-other-row", _OTHER_ROW)
        return upsert

    def _upsert(
        self,
        fields: Members,
        readers: RowReaders,
        former_key: str | None,
        was_there: bool,
        position: SourcePosition | None = None,
        is_read: bool = False,
    ) -> changes.Upsert:
        source_key = self._encoder.source_key(readers.key_columns(fields))
        row, former_key = self._row(fields, readers, source_key), None if former_key == source_key else former_key
        return changes.Upsert(source_key, row, former_key, was_there, position, is_read)

    def _row(self, fields: Members, readers: RowReaders, source_key: str) -> Row:
        for name in self._named:
            value = fields.get(name)
            if (type(value) is str or type(value) is bytes) and value in UNAVAILABLES:
                raise EventRefused(
                    "unavailable-value",
                    f"column {name!r} was not sent by the connector (unchanged TOAST column); set the table's REPLICA "
                    "IDENTITY to FULL and let the connector fill it in",
                    name,
                )
        try:
            return self._encoder.row(readers.row(fields), source_key)
        except EventRefused as refused:
            remedy = _NUMBERS.get(refused.detail.rpartition(": ")[2]) if refused.reason == "wrong-type" else None
            if remedy is None:
                raise
            value = fields.get(refused.column or "")
            if type(value) is str and not may_be_bytes(value) and read_decimal(value) is None:
                remedy = _WORD
            raise EventRefused(refused.reason, f"{refused.detail}; {remedy}", refused.column) from None

    def _removed(
        self, row: object, readers: RowReaders, message_key: bytes | None, position: SourcePosition | None
    ) -> changes.Remove:
        source_key = self._key_of_row(row, readers)
        if source_key is None:
            source_key = self._keys.source_key(message_key)
        return changes.Remove(source_key, True, position)

    def _key_of_row(self, row: object, readers: RowReaders) -> str | None:
        """The source key of a row; None if the row or a column of the key is missing."""
        if not isinstance(row, dict) or any(row.get(name) is None for name in self._key_columns):
            return None
        return self._encoder.source_key(readers.key_columns(row))


def _no_after(message: Members) -> str:
    """The fault of an envelope without a row."""
    if isinstance(message.get("after"), str):
        return (
            "the envelope's after is a text, as of Debezium's connector for MongoDB: set its transform"
            " io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
            " (delete.tombstone.handling.mode=rewrite)"
        )
    if "row" in message:
        return "the envelope's after is not an object; a plain message with a row has op insert, upsert or modify"
    return "the envelope's after is not an object"


def _as_bool(value: object) -> bool | None:
    """A text or a boolean as a boolean; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None


_OTHER_ROW = (
    "only the message key says which flattened row is removed, and this row's message key is missing or names "
    "another row: let the primary key be the message key, and both converters write it alike (schemas.enable for "
    "key and value, or for neither)"
)
_NUMBERS = {
    "not a number": "for decimals, set the connector's decimal.handling.mode=string (or double), or its converter's "
    "schemas.enable=true",
    "not an integer": "for a decimal column of the source, set its converter's schemas.enable=true or "
    "decimal.format=NUMERIC, or let the column's type be decimal",
}
"""The encoder's words about a column of numbers -> a remedy on the connector's side."""

_WORD = "if it is a word for a null, such as NaN, list it in `na`; if it is a number, say how it is `written`"

STATEMENT_ID_CHARS_MAX = 200


class Decoder:
    """Decodes the messages of one table. schemas: of a registry; None: there is none.

    >>> from decimal import Decimal
    >>> from streamer.table.codes import NumericAttribute
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
        self._plain: dict[str, Callable[[Members, MessageReaders], changes.Change]] = {
            "insert": partial(self._row, changes.Insert),
            "upsert": partial(self._row, changes.Upsert),
            "delete": self._delete,
            "modify": self._modify,
            "truncate": lambda message, _: changes.Truncate(_statement_id(message)),
        }

    @property
    def unlisted(self) -> Mapping[str, int]:
        """The columns of the last message whose category only `other` takes, once each."""
        return self._encoder.unlisted

    def decode(self, message_key: bytes | None, value: bytes | None) -> changes.Change:
        """The change that a message says; raises EventRefused with one of these reasons.

        oversized, schema-registry, unknown-schema, malformed-avro, malformed-json, not-an-object, unknown-op;
        missing-key, missing-individual, missing-row, missing-column; wrong-type, null-not-allowed, out-of-domain,
        off-the-step, unknown-category, unavailable-value, unknown-type, ambiguous-decimal; message-key-of-other-row;
        key-changed; bad-statement.
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
        detail = (
            "a list: send a message of its own for each row" if type(message) is list else "JSON, but not an object"
        )
        raise EventRefused("not-an-object", f"the message is {detail}")

    def _of_object(self, message: Members, readers: MessageReaders, message_key: bytes | None) -> changes.Change:
        if is_flattened(message):
            return self._capture.flattened(message, readers.own, message_key)
        if self._table.input_rows and self._capture.is_row(message) and not message.keys() >= _CLOUD_EVENT:
            return self._capture.row(message, readers.own, message_key)
        op = message.get("op")
        if isinstance(op, str):
            plain = self._plain.get(op)
            if plain is not None:
                return plain(message, readers)
            if op in ENVELOPE_OPS:
                return self._capture.envelope(message, readers, message_key)
        elif "op" not in message and is_notice(message):
            return changes.Nothing()
        raise _unknown_op(message, self._table.source_key)

    def _row(self, make: Callable[[str, Row], changes.Change], message: Members, of: MessageReaders) -> changes.Change:
        row = of.parts["row"].row(_row_of(message))
        source_key = self._encoder.source_key(row)
        return make(source_key, self._encoder.row(row, source_key))

    def _delete(self, message: Members, readers: MessageReaders) -> changes.Change:
        if "where" in message:
            return changes.DeleteWhere(self._condition(message), _statement_id(message))
        if "key" not in message:
            raise EventRefused("missing-key", _NO_KEY, self._table.source_key[0])
        return changes.Delete(self._encoder.source_key_of(readers.parts["key"].key(message.get("key"))))

    def _modify(self, message: Members, readers: MessageReaders) -> changes.Change:
        if "where" in message:
            assignments = parse_assignments(_expressions(message), self._table)
            return changes.ModifyWhere(self._condition(message), assignments, _statement_id(message))
        if "key" not in message:
            raise EventRefused("missing-key", _NO_KEY, self._table.source_key[0])
        key = readers.parts["key"].key(message.get("key"))
        source_key, row = self._encoder.source_key_of(key), readers.parts["row"].row(_row_of(message))
        self._check_same_key(source_key, key, row)
        individual = self._encoder.individual(row) if self._table.individual in row else None
        whose = source_key if self._table.individual is None else individual
        codes, exact, values, nulls = self._encoder.some(row, whose)
        return changes.Modify(source_key, codes, exact, values, individual, nulls)

    def _check_same_key(self, source_key: str, key: object, row: Members) -> None:
        """A row may repeat columns of the primary key, with the same values."""
        repeated = {name: row[name] for name in self._table.source_key if name in row}
        if not repeated:
            return
        fields = {**key, **repeated} if isinstance(key, Mapping) else repeated
        if self._encoder.source_key(fields) != source_key:
            raise EventRefused("key-changed", "a modify may not change the primary key: send a delete and an insert")

    def _condition(self, message: Members) -> Condition:
        where = message["where"]
        if "key" in message:
            raise EventRefused("bad-statement", "the message has both key and where: send one of them")
        if not isinstance(where, str):
            raise EventRefused("bad-statement", "where is not a text")
        return parse_condition(where, self._table)


_NO_KEY = "a plain delete or modify names its row in `key`; a message key without a value removes a row"


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
