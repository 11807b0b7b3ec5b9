"""A table of people in PostgreSQL, and its messages as Debezium 3 writes them: keys, values and partitions."""

from __future__ import annotations

import json
import random
from typing import Any

from streamer.incremental.events.key_form import shard_of
from worlds.patients import random_values
from worlds.workers import WorkedTable

NAME = "Canary-7316"
"""Stands in a column that table.yaml does not name."""

FIRST_LSN = 26_713_864
KEY_SCHEMA = {"type": "struct", "fields": [{"type": "string", "optional": False, "field": "id"}], "name": "pg.Key"}
VALUE_SCHEMA: dict[str, Any] = {"type": "struct", "fields": []}
SOURCE = {
    "version": "3.3.1.Final", "connector": "postgresql", "name": "pg", "ts_ms": 1764000000000, "db": "clinic",
    "ts_us": 1764000000000000, "ts_ns": 1764000000000000000, "schema": "public", "table": "patients", "txId": 761,
    "xmin": None,
}  # fmt: skip
MOMENT = {"ts_ms": 1764000000123, "ts_us": 1764000000123456, "ts_ns": 1764000000123456789}


class Source:
    """The rows as they are now, and the messages about them that wait to be written."""

    def __init__(self, world: WorkedTable, schemas: bool = True) -> None:
        self.world, self.schemas = world, schemas
        self.rows: dict[str, dict[str, object]] = {}
        self.lsn = FIRST_LSN
        self.rng = random.Random(5)
        self.n_written = [0] * world.shards
        self._waiting: list[tuple[int, bytes | None, bytes | None]] = []

    def change(self, op: str, key: str, snapshot: str = "false") -> None:
        """A row is read (`r`), comes, changes or goes, the last with its tombstone."""
        before = self.rows.pop(key, None)
        if op != "d":
            self.rows[key] = {"id": key, "name": NAME, **random_values(self.rng)}
        value = self._envelope(op, before if op in "ud" else None, self.rows.get(key), snapshot)
        message_key = self.message_key(key)
        shard = shard_of(message_key, self.world.shards)
        self._waiting.append((shard, message_key, value))
        if op == "d":
            self._waiting.append((shard, message_key, None))

    def truncate(self, shard: int) -> None:
        """The connector has no key for it, so it lies in any partition."""
        self.rows.clear()
        self._waiting.append((shard, None, self._envelope("t", None, None, "false")))

    def write(self, *but: int) -> None:
        """Writes what waits, but for these partitions."""
        records = [one for one in self._waiting if one[0] not in but]
        self._waiting = [one for one in self._waiting if one[0] in but]
        for shard, _, _ in records:
            self.n_written[shard] += 1
        self.world.send(records)

    def message_key(self, key: str) -> bytes:
        return self._wrapped({"id": key}, KEY_SCHEMA)

    def _envelope(self, op: str, before: object, after: object, snapshot: str) -> bytes:
        if snapshot == "false":
            self.lsn += 56
        place = {"lsn": self.lsn, "sequence": json.dumps([None, str(self.lsn)]), "snapshot": snapshot}
        payload = {"before": before, "after": after, "source": SOURCE | place, "transaction": None, "op": op, **MOMENT}
        return self._wrapped(payload, VALUE_SCHEMA)

    def _wrapped(self, payload: dict[str, Any], schema: dict[str, Any]) -> bytes:
        said = {"schema": schema, "payload": payload} if self.schemas else payload
        return json.dumps(said, separators=(",", ":")).encode()
