"""Change data capture in Debezium's forms: envelopes, flattened rows, tombstones.

At least once: c (create), r (read by a snapshot) and u (update) say how a row is now, d (delete) and a tombstone that
it is gone. Saying it twice changes nothing, so these become `Upsert` and `Remove`. An update whose `before` has
another primary key carries the former key along. t (truncate) reaches one partition of the topic only. m (a logical
message) and the connector's notices (heartbeats, borders of transactions, schema changes) say nothing about rows. A
flattened row (`ExtractNewRecordState`) is one that has `__deleted` or `__op`. A value that the connector did not send
(an unchanged TOAST column of PostgreSQL) is refused: taking the placeholder for the value would lose it.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Change, Nothing, Remove, Truncate, Upsert
from streamer.incremental.events.key_form import source_key_in
from streamer.table.encode import Encoder
from streamer.table.row import Row
from streamer.table.schema import NumericAttribute, Table

Members = Mapping[str, object]

ENVELOPE_OPS = frozenset("crudtm")
UNAVAILABLE = "__debezium_unavailable_value"

_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"status", "id", "event_count"})
_SCHEMA_CHANGE = frozenset({"source", "ddl", "tableChanges"})


def is_flattened(message: Members) -> bool:
    """Whether the message is a row that `ExtractNewRecordState` left of an envelope."""
    return "__deleted" in message or "__op" in message


def is_notice(message: Members) -> bool:
    """Whether the message is one of the connector's own, about no row."""
    members = message.keys()
    if "ts_ms" in members and members <= _HEARTBEAT:
        return True
    return members >= _SCHEMA_CHANGE or (members >= _TRANSACTION and message["status"] in ("BEGIN", "END"))


class Capture:
    """The decoder of one table's captured changes; every method raises EventRefused for what it cannot accept."""

    def __init__(self, table: Table, encoder: Encoder) -> None:
        self._encoder = encoder
        self._key_columns = table.source_key
        self._named = tuple(column.name for column in (*table.attributes, *table.kept))
        self._numbers = frozenset(
            [attribute.name for attribute in table.attributes if isinstance(attribute, NumericAttribute)]
            + [column.name for column in table.kept if column.type in ("integer", "decimal")]
        )

    def tombstone(self, message_key: bytes | None) -> Remove:
        """A message without a value: the row of the message key is gone."""
        return Remove(source_key_in(message_key, self._encoder))

    def envelope(self, message: Members, message_key: bytes | None) -> Change:
        """A message with before, after and an op out of ENVELOPE_OPS."""
        match message["op"]:
            case "d":
                return self._removed(message.get("before"), message_key)
            case "t":
                return Truncate(whole_table_only=True)
            case "m":
                return Nothing()
        after = message.get("after")
        if not isinstance(after, dict):
            raise EventRefused("missing-row", "the envelope's after is not an object")
        was_there = message["op"] == "u"
        return self._upsert(after, self._key_of_row(message.get("before")) if was_there else None, was_there)

    def flattened(self, message: Members, message_key: bytes | None) -> Change:
        """A row beside `__deleted`, or `__op`, or both."""
        op = message.get("__op", "u")
        deleted = _as_bool(message.get("__deleted", op == "d"))
        if not isinstance(op, str) or op not in ENVELOPE_OPS or deleted is None:
            raise EventRefused("unknown-op", "flattened row: __deleted is neither true nor false, or __op is unknown")
        if op == "t":
            return Truncate(whole_table_only=True)
        if op == "m":
            return Nothing()
        if deleted or op == "d":
            return self._removed(message, message_key)
        return self._upsert(message, None, was_there=message.get("__op") == "u")

    def _upsert(self, fields: Members, former_key: str | None, was_there: bool) -> Upsert:
        source_key = self._encoder.source_key(fields)
        return Upsert(source_key, self._row(fields), None if former_key == source_key else former_key, was_there)

    def _row(self, fields: Members) -> Row:
        for name in self._named:
            if fields.get(name) == UNAVAILABLE:
                raise EventRefused(
                    "unavailable-value",
                    f"column {name!r} was not sent by the connector (unchanged TOAST column); set the table's REPLICA "
                    "IDENTITY to FULL and let the connector fill it in",
                    name,
                )
        try:
            return self._encoder.row(fields)
        except EventRefused as refused:
            if refused.reason == "wrong-type" and refused.column in self._numbers:
                detail = f"{refused.detail}; decimals need the connector's decimal.handling.mode=string (or double)"
                raise EventRefused(refused.reason, detail, refused.column) from None
            raise

    def _removed(self, row: object, message_key: bytes | None) -> Remove:
        source_key = self._key_of_row(row)
        source_key = source_key_in(message_key, self._encoder) if source_key is None else source_key
        return Remove(source_key, was_there=True)

    def _key_of_row(self, row: object) -> str | None:
        """The source key of a row that may be partial or absent; None where a column of the key is missing."""
        if not isinstance(row, dict) or any(row.get(name) is None for name in self._key_columns):
            return None
        return self._encoder.source_key(row)


def _as_bool(value: object) -> bool | None:
    """What `__deleted` says, a text or a boolean; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None
