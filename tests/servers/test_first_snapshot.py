"""Debezium's first snapshot on workers, a real Kafka and Redis: held back, killed in the middle, released, and ended.

Messages are as Debezium 3 writes them, with the schemas of Connect's converter and without; keys and partitions too.
Here are the tests of streamer.cli.operate.end_snapshot, too.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import main
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.base import CHANGE, ELSEWHERE, LAST, OPERATOR, Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from worlds.kafka_and_redis import read, write
from worlds.patients import random_values
from worlds.workers import SHARDS, WorkedTable, wait_until

COLUMNS = ("id", "age", "zip", "bmi", "sex", "problem")
N_ROWS = 400
NAME = "Canary-7316"
"""Stands in a column that table.yaml does not name."""

_KEY_SCHEMA = {"type": "struct", "fields": [{"type": "string", "optional": False, "field": "id"}], "name": "pg.Key"}
_SOURCE = {
    "version": "3.3.1.Final",
    "connector": "postgresql",
    "name": "pg",
    "ts_ms": 1764000000000,
    "db": "clinic",
    "sequence": '[null,"26713864"]',
    "ts_us": 1764000000000000,
    "ts_ns": 1764000000000000000,
    "schema": "public",
    "table": "patients",
    "txId": 761,
    "lsn": 26713864,
    "xmin": None,
}


class Connector:
    """A table of people as a connector reads and follows it."""

    def __init__(self, world: WorkedTable, schemas: bool) -> None:
        self.world, self.schemas = world, schemas
        self.rows: dict[str, dict[str, object]] = {}
        self._rng = random.Random(5)

    def read(self, first: int, end: int) -> None:
        """Rows of the snapshot by their numbers: `first` for the very first one, `last` for the very last."""
        names = {0: "first", N_ROWS - 1: "last"}
        self._write([self._event("r", f"p{i}", names.get(i, "true")) for i in range(first, end)])

    def change(self, count: int) -> None:
        """Changes as the log says them: rows come, change and go, with the tombstones of those that go."""
        events = []
        for n in range(count):
            op = self._rng.choice("cudu")
            key = f"c{len(self.rows)}-{n}" if op == "c" else self._rng.choice(sorted(self.rows))
            events.append(self._event(op, key, "false"))
            if op == "d":
                events.append((*events[-1][:2], None))
        self._write(events)

    def change_one_of(self, shard: int) -> None:
        """One row of a shard changes."""
        key = next(key for key in self.rows if shard_of(self._message_key(key), SHARDS) == shard)
        self._write([self._event("u", key, "false")])

    def written(self, path: Path) -> Path:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows.values())
        return path

    def _event(self, op: str, key: str, snapshot: str) -> tuple[int, bytes, bytes | None]:
        before = self.rows.get(key) if op in "ud" else None
        after = None if op == "d" else self._row(key)
        if after is None:
            del self.rows[key]
        else:
            self.rows[key] = after
        source = {**_SOURCE, "snapshot": snapshot}
        moment = {"ts_ms": 1764000000123, "ts_us": 1764000000123456, "ts_ns": 1764000000123456789}
        payload = {"before": before, "after": after, "source": source, "transaction": None, "op": op, **moment}
        message_key = self._message_key(key)
        return shard_of(message_key, SHARDS), message_key, self._wrapped(payload, {"type": "struct", "fields": []})

    def _message_key(self, key: str) -> bytes:
        return self._wrapped({"id": key}, _KEY_SCHEMA)

    def _wrapped(self, payload: dict[str, Any], schema: dict[str, Any]) -> bytes:
        said = {"schema": schema, "payload": payload} if self.schemas else payload
        return json.dumps(said, separators=(",", ":")).encode()

    def _row(self, key: str) -> dict[str, object]:
        return {"id": key, "name": NAME, **random_values(self._rng)}

    def _write(self, records: list[tuple[int, bytes, bytes | None]]) -> None:
        write(self.world.bootstrap, f"{self.world.name}.changes", records)


class Operator:
    """What an operator sees and does."""

    def __init__(self, world: WorkedTable, folder: Path) -> None:
        self.world, self.folder = world, folder

    def run(self, command: str, *arguments: object) -> Result:
        kafka, redis = ["--kafka", self.world.bootstrap], ["--redis", self.world.environment["REDIS_URL"]]
        servers = {"index": redis, "verify": [], "subscribe": kafka}.get(command, [*kafka, *redis])
        return CliRunner().invoke(main, [command, "--table", str(self.world.table), *servers, *map(str, arguments)])

    def metas(self) -> list[Meta]:
        client = connect(self.world.environment["REDIS_URL"])
        return [RedisStore(client, self.world.name, shard).meta() or Meta() for shard in range(SHARDS)]

    def held(self) -> list[int]:
        """Rows of the snapshot that each shard has read and holds back."""
        return [m.snapshot.reads if m.snapshot and m.snapshot.holds else 0 for m in self.metas()]

    def ends(self) -> list[str]:
        """Why the snapshot of each shard ended, as far as it was released."""
        return [m.snapshot.ended for m in self.metas() if m.snapshot is not None and not m.snapshot.holds]

    def published(self) -> int:
        return sum(len(read(self.world.bootstrap, self.world.name, "live", shard)) for shard in range(SHARDS))

    def verify(self, connector: Connector) -> None:
        live, index = self.folder / "live.jsonl", self.folder / "index.csv"
        assert self.run("subscribe", "--live", live).exit_code == 0
        assert self.run("index", "--out", index).exit_code == 0
        source = connector.written(self.folder / "people.csv")
        verified = self.run("verify", live, "--source", source, "--index", index)
        assert verified.exit_code == 0, verified.output


@pytest.fixture
def operator(world: WorkedTable, tmp_path: Path) -> Iterator[Operator]:
    world.environment["NUMBA_DISABLE_JIT"] = "1"  # so few rows need no compiler, and nobody waits for one here
    yield Operator(world, tmp_path)
    assert NAME not in world.logs()


def until_applied(operator: Operator) -> None:
    """Until every message that was written is applied and published."""

    def done() -> bool:
        shown = json.loads(operator.run("status", "--json").stdout)
        return shown["total"]["lag"] == 0 and not shown["problems"]

    wait_until(done, 60, operator.world.logs)


@pytest.mark.parametrize("schemas", [False, True], ids=["flat", "with schemas"])
def test_a_snapshot_is_published_whole_although_its_worker_is_killed_twice(operator: Operator, schemas: bool) -> None:
    world, connector = operator.world, Connector(operator.world, schemas)
    worker = world.start()
    connector.read(0, 250)
    wait_until(lambda: sum(operator.held()) > 100, 60, world.logs)
    worker.kill()
    worker = world.start()
    wait_until(lambda: sum(operator.held()) == 250, 60, world.logs)
    assert operator.published() == 0
    shown = operator.run("status")
    assert "holds back" in shown.output.replace("\n", " "), shown.output
    connector.read(0, 120)  # the connector was started again: its snapshot begins anew, and rows have changed
    connector.read(120, N_ROWS)
    wait_until(lambda: "the snapshot is over" in world.logs(), 60, world.logs)
    worker.kill()
    world.start()
    wait_until(lambda: len(operator.ends()) == SHARDS, 90, world.logs)
    assert sorted(set(operator.ends())) == [ELSEWHERE, LAST]
    assert [meta.release for meta in operator.metas()] == [0] * SHARDS
    assert operator.published() == N_ROWS
    connector.change(150)
    until_applied(operator)
    operator.verify(connector)
    assert all(meta.counts.dead_letters == 0 for meta in operator.metas())
    assert operator.run("status").exit_code == 0


def test_a_change_in_one_shard_ends_a_snapshot_whose_last_row_nobody_sees_in_all(operator: Operator) -> None:
    world, connector = operator.world, Connector(operator.world, schemas=False)
    world.start()
    connector.read(0, N_ROWS - 1)
    wait_until(lambda: sum(operator.held()) == N_ROWS - 1, 60, world.logs)
    connector.change_one_of(shard=2)
    wait_until(lambda: CHANGE in operator.ends(), 60, world.logs)
    wait_until(lambda: len(operator.ends()) == SHARDS, 60, world.logs)
    assert sorted(operator.ends()) == [CHANGE, *[ELSEWHERE] * (SHARDS - 1)]
    until_applied(operator)
    operator.verify(connector)


@pytest.mark.gate("end-snapshot")
def test_an_operator_ends_a_snapshot_that_nobody_else_will(operator: Operator) -> None:
    world, connector = operator.world, Connector(operator.world, schemas=False)
    refused = operator.run("end-snapshot")
    assert refused.exit_code == 2
    assert "no shard holds back rows" in refused.output
    world.start()
    connector.read(0, 120)
    wait_until(lambda: sum(operator.held()) == 120, 60, world.logs)
    assert operator.run("end-snapshot", "--shard", SHARDS).exit_code == 2
    asked = operator.run("end-snapshot", "--shard", 1, "--json")
    assert (asked.exit_code, json.loads(asked.stdout)["shards"]) == (0, [1]), asked.output
    wait_until(lambda: operator.ends() == [OPERATOR], 60, world.logs)
    assert operator.run("end-snapshot").exit_code == 0
    wait_until(lambda: operator.ends() == [OPERATOR] * SHARDS, 60, world.logs)
    connector.read(120, 150)
    until_applied(operator)
    operator.verify(connector)
