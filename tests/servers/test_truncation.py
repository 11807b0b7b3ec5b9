"""A source that truncates its table, on two workers, a real Kafka and Redis: every shard loses what came before.

Messages are as Debezium 3 writes them for PostgreSQL. The partitions are written apart, as far from the source's order
as a slow partition leader could have it.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.cli import main
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from worlds.kafka_side import read, write
from worlds.patients import random_values
from worlds.workers import SHARDS, WorkedTable, wait_until

COLUMNS = ("id", "age", "zip", "bmi", "sex", "problem")
NAME = "Canary-7316"
"""Stands in a column that table.yaml does not name."""

Record = tuple[int, bytes | None, bytes | None]


class Source:
    """A table of people in a database, and its log as a connector writes it, some partitions later than others."""

    def __init__(self, world: WorkedTable) -> None:
        self.world = world
        self.rows: dict[str, dict[str, object]] = {}
        self.waiting: list[Record] = []
        self.n_written = [0] * SHARDS
        self._rng = random.Random(5)
        self._lsn = 26_713_864

    def come(self, first: int, end: int) -> None:
        """Rows come, some of them twice, and some go."""
        for number in range(first, end):
            key = f"p{number}"
            self._change("c", key)
            if number % 5 == 0:
                self._change("u", key)
            if number % 7 == 0:
                self._change("d", key)
                self.waiting.append((self.waiting[-1][0], self.waiting[-1][1], None))

    def truncate(self, shard: int) -> None:
        """The connector has no key for it, so it lies in any partition."""
        self.rows.clear()
        self.waiting.append((shard, None, self._envelope("t", None, None)))

    def written(self, shards: set[int]) -> None:
        """What waits for these partitions is written."""
        records = [one for one in self.waiting if one[0] in shards]
        write(self.world.bootstrap, f"{self.world.name}.changes", records)
        for shard, _, _ in records:
            self.n_written[shard] += 1
        self.waiting = [one for one in self.waiting if one[0] not in shards]

    def file(self, path: Path) -> Path:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows.values())
        return path

    def _change(self, op: str, key: str) -> None:
        before = self.rows.pop(key, None)
        after = None if op == "d" else self._row(key)
        if after is not None:
            self.rows[key] = after
        message_key = json.dumps({"schema": {"type": "struct"}, "payload": {"id": key}}).encode()
        self.waiting.append((shard_of(message_key, SHARDS), message_key, self._envelope(op, before, after)))

    def _envelope(self, op: str, before: object, after: object) -> bytes:
        self._lsn += 56
        source = {
            "version": "3.3.1.Final",
            "connector": "postgresql",
            "ts_ms": 1_764_000_000_000 + self._lsn % 1000,
            "snapshot": "false",
            "sequence": json.dumps([None, str(self._lsn)]),
            "schema": "public",
            "table": "patients",
            "txId": 761,
            "lsn": self._lsn,
        }
        payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_764_000_000_123}
        return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()

    def _row(self, key: str) -> dict[str, object]:
        return {"id": key, "name": NAME, **random_values(self._rng)}


class Operator:
    """What an operator sees."""

    def __init__(self, world: WorkedTable, folder: Path) -> None:
        self.world, self.folder = world, folder

    def metas(self) -> list[Meta]:
        client = connect(self.world.environment["REDIS_URL"])
        return [RedisStore(client, self.world.name, shard).meta() or Meta() for shard in range(SHARDS)]

    def until_applied(self, source: Source) -> None:
        """Until everything that was written is applied and published."""
        wait_until(lambda: self.world.reached() == source.n_written, 60, self.world.logs)

    def until_truncated(self, place: int, shards: set[int]) -> None:
        """Until these shards know of a truncation there, or of a later one."""

        def known() -> bool:
            metas = self.metas()
            return all(m.truncated is not None and m.truncated.place >= (place,) for m in (metas[i] for i in shards))

        wait_until(known, 60, self.world.logs)

    def n_published(self) -> int:
        return sum(len(read(self.world.bootstrap, self.world.name, "live", shard)) for shard in range(SHARDS))

    def start_anew(self) -> None:
        self._run("start-anew", "--from-source", "topic", kafka=True, redis=True)

    def verify(self, source: Source) -> None:
        live, index = self.folder / "live.jsonl", self.folder / "index.csv"
        self._run("subscribe", "--live", str(live), kafka=True)
        self._run("index", "--out", str(index), redis=True)
        people = source.file(self.folder / "people.csv")
        self._run("verify", str(live), "--source", str(people), "--index", str(index))

    def _run(self, command: str, *arguments: str, kafka: bool = False, redis: bool = False) -> None:
        servers = [*(("--kafka", self.world.bootstrap) if kafka else ())]
        servers += ["--redis", self.world.environment["REDIS_URL"]] if redis else []
        result = CliRunner().invoke(main, [command, "--table", str(self.world.table), *servers, *arguments])
        assert result.exit_code == 0, result.output


@pytest.fixture
def operator(world: WorkedTable, tmp_path: Path) -> Iterator[Operator]:
    world.environment["NUMBA_DISABLE_JIT"] = "1"  # so few rows need no compiler, and nobody waits for one here
    yield Operator(world, tmp_path)
    assert NAME not in world.logs()


@pytest.mark.timeout(600)
def test_rows_that_came_before_go_in_every_shard_and_rows_that_came_after_stay(operator: Operator) -> None:
    world, source = operator.world, Source(operator.world)
    everywhere = set(range(SHARDS))
    workers = [world.start(), world.start()]
    source.come(0, 120)
    source.written(everywhere)
    operator.until_applied(source)
    assert operator.n_published() > 60
    former = world.copy_redis()

    # late: later rows are applied in three shards before the fourth, which has the truncation, is written
    source.truncate(shard=2)
    source.come(100, 180)  # some keys are those of before
    source.written(everywhere - {2})
    operator.until_applied(source)
    workers[0].kill()
    source.written({2})
    workers[0] = world.start()
    operator.until_truncated(1, everywhere)
    operator.until_applied(source)
    operator.verify(source)

    # early: rows of before come to a shard that has heard of the truncation already
    source.come(180, 230)
    source.written(everywhere - {3})
    source.truncate(shard=0)
    second = source._lsn
    source.written({0})
    operator.until_truncated(second, everywhere)
    workers[1].kill()
    source.come(220, 260)
    source.written({3})
    source.written(everywhere)
    workers[1] = world.start()
    operator.until_applied(source)
    operator.verify(source)
    metas = operator.metas()
    assert [meta.counts.dead_letters for meta in metas] == [0] * SHARDS
    assert [meta.truncations for meta in metas] == [1, 2, 1, 2]

    # a store that falls back comes to the same, and so does a table that begins anew from its input
    published = operator.n_published()
    for worker in workers:
        worker.terminate()
    former.restore()
    world.start()
    wait_until(lambda: [meta.next for meta in operator.metas()] == [meta.next for meta in metas], 60, world.logs)
    wait_until(lambda: [meta.commit for meta in operator.metas()] == [meta.commit for meta in metas], 60, world.logs)
    assert operator.n_published() == published, "what is published is not published again"
    operator.verify(source)
    world.workers[-1].terminate()
    operator.start_anew()
    operator.verify(source)


@pytest.mark.timeout(600)
def test_a_truncation_that_names_no_place_stops_the_table_with_a_sentence(operator: Operator) -> None:
    world, source = operator.world, Source(operator.world)
    source.come(0, 40)
    source.written(set(range(SHARDS)))
    write(world.bootstrap, f"{world.name}.changes", [(1, None, b'{"op": "t", "source": {"connector": "oracle"}}')])
    worker = world.start()
    wait_until(lambda: worker.process.poll() is not None, 60, world.logs)
    assert worker.process.returncode == 2
    assert "does not say where in the source's order" in world.logs()
    assert "pause the connector, run `streamer produce --truncate`" in world.logs()
