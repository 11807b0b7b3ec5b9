"""A source that truncates its table, on two workers, a real Kafka and Redis: every shard loses what came before.

So it is beside dead letters that are tried again: nobody comes back who is gone, and nobody is missing.

Messages are as Debezium 3 writes them for PostgreSQL. The partitions are written apart, as far from the source's order
as a slow partition leader could have it.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamer.cli.main import main
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from worlds.kafka_and_redis import read, write
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

    def reload(self) -> None:
        self._run("reload", "--from-source", "topic", kafka=True, redis=True)

    def verify(self, source: Source) -> None:
        live, index = self.folder / "live.jsonl", self.folder / "index.csv"
        self._run("subscribe", "--live", str(live), kafka=True)
        self._run("index", "--out", str(index), redis=True)
        people = source.file(self.folder / "people.csv")
        self._run("verify", str(live), "--source", str(people), "--index", str(index))

    def skip_some(self, source: Source, begins: list[int]) -> None:
        """Has three rows of each shard passed over, of those that are written from these offsets on."""
        for shard, begin in enumerate(begins):
            for offset in range(begin, source.n_written[shard], max(1, (source.n_written[shard] - begin) // 3))[:3]:
                self._run("skip", "--shard", str(shard), "--offset", str(offset), kafka=True)

    def retry(self) -> None:
        self._run("dead-letters retry", kafka=True)

    def letters(self) -> list[dict[tuple[int, str], int]]:
        """By shard, how many letters of each kind there are about each offset."""
        found = []
        for shard in range(SHARDS):
            letters = [
                json.loads(one.value() or b"")
                for one in read(self.world.bootstrap, self.world.name, "dead-letters", shard)
            ]
            found.append(dict(Counter((letter["offset"], letter["kind"]) for letter in letters)))
        return found

    def until_answered(self) -> None:
        """Until it is said of every refused message what became of it."""

        def answered() -> bool:
            return all(
                {offset for offset, kind in of if kind == "refused"}
                == {offset for offset, kind in of if kind != "refused"}
                for of in self.letters()
            )

        wait_until(answered, 60, self.world.logs)

    def until_any_is_truncated(self) -> None:
        wait_until(lambda: any(meta.truncated for meta in self.metas()), 60, self.world.logs)

    def _run(self, command: str, *arguments: str, kafka: bool = False, redis: bool = False) -> None:
        servers = [*(("--kafka", self.world.bootstrap) if kafka else ())]
        servers += ["--redis", self.world.environment["REDIS_URL"]] if redis else []
        result = CliRunner().invoke(main, [*command.split(), "--table", str(self.world.table), *servers, *arguments])
        assert result.exit_code == 0, result.output


@pytest.fixture
def operator(world: WorkedTable, tmp_path: Path) -> Iterator[Operator]:
    world.environment["NUMBA_DISABLE_JIT"] = "1"  # so few rows need no compiler, and nobody waits for one here
    yield Operator(world, tmp_path)
    assert NAME not in world.logs()


@pytest.mark.gate("a truncated source")
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
    operator.reload()
    operator.verify(source)


def test_letters_tried_again_beside_a_truncation_and_killed_workers_come_to_what_the_source_holds(
    operator: Operator,
) -> None:
    world, source = operator.world, Source(operator.world)
    everywhere = set(range(SHARDS))
    source.come(0, 80)
    source.written(everywhere)
    operator.skip_some(source, [0] * SHARDS)
    world.start()
    operator.until_applied(source)
    former = world.copy_redis()

    # the worker dies between what is tried again and the truncation, in whatever order each shard hears of them
    source.truncate(shard=2)
    source.come(60, 120)
    source.written(everywhere - {2})
    operator.retry()
    source.written({2})
    operator.until_any_is_truncated()
    world.workers[-1].kill()
    world.start()
    operator.until_truncated(1, everywhere)
    operator.until_applied(source)
    operator.until_answered()
    operator.verify(source)

    # letters of after it, some of them about rows that come once more
    world.workers[-1].terminate()
    begins = source.n_written.copy()
    source.come(120, 180)
    source.written(everywhere)
    operator.skip_some(source, begins)
    world.start()
    source.come(150, 200)
    source.written(everywhere)
    operator.until_applied(source)
    operator.retry()
    world.workers[-1].kill()
    world.start()
    operator.until_answered()
    operator.verify(source)
    letters, metas = operator.letters(), operator.metas()
    assert all(number == 1 for of in letters for number in of.values()), "nothing is applied, or answered, twice"
    kinds = Counter(kind for of in letters for _, kind in of)
    assert kinds["refused"] == 6 * SHARDS == kinds["retried"] + kinds["superseded"]
    assert min(kinds["retried"], kinds["superseded"]) >= SHARDS
    applied = [sorted(offset for offset, kind in of if kind == "retried") for of in letters]
    assert [sorted(offset for _, offset in meta.retried) for meta in metas] == applied

    # a store that falls back repeats both; it has forgotten its answers, and gives them again, applying nothing
    def come_to() -> list[object]:
        return [(meta.next, meta.truncations, meta.retried, meta.digest) for meta in operator.metas()]

    published, before = operator.n_published(), come_to()
    world.workers[-1].terminate()
    former.restore()
    world.start()
    wait_until(lambda: come_to() == before, 60, world.logs)
    assert operator.n_published() == published, "what is published is not published again"
    operator.verify(source)


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
