"""Workers on real servers, whose input is Avro: keys and values by the schemas of a registry (a stub, for tests)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servers.broker.servers import Servers
from servers.registry import StubRegistry
from streamer.cli.main import main
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.outlet import KafkaOutlet
from streamer.reader import Subscription
from streamer.table.yaml.loading import load_table
from worlds.avro_messages import LOGGED, change, envelope, message, money, optional, record, unscaled
from worlds.kafka_and_redis import fresh_name, make_topics, read, write
from worlds.patients import write_table
from worlds.workers import Worker, wait_until

SHARDS, PEOPLE = 2, range(200)
USER_AND_PASSWORD = "reader:Canary-4711"

KEY = record("Key", {"id": "long"})
OTHER_KEY = {**KEY, "doc": "the same, registered anew"}
TEXTS = {"sex": "string", "problem": optional("string"), "name": optional("string")}
ROW = {"id": "long", "age": "int", "zip": optional("long"), "bmi": money(1), **TEXTS}
VALUE, LOGGED_VALUE = envelope(ROW), envelope(ROW, LOGGED)


class AvroTable:
    """A table of patients that a connector writes in Avro."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.registry = StubRegistry(USER_AND_PASSWORD)
        self.key, self.value, self.logged = (self.registry.add(said) for said in (KEY, VALUE, LOGGED_VALUE))
        self.name = fresh_name()
        self.servers, self.folder = servers, folder
        self.table = write_table(folder, self.name)
        self.workers: list[Worker] = []
        self.sent = [0] * SHARDS
        make_topics(servers.kafka_bootstrap, self.name, SHARDS)

    def send(self, number: int, said: Any, key_id: int | None = None, value_id: int | None = None) -> None:
        self._write([self._record(number, said, key_id or self.key, value_id or self.value)])

    def send_logged(self, numbers: Iterable[int], lsn: int) -> None:
        """Rows with their places in PostgreSQL's log."""
        self._write([self._logged(number, change("c", person(number)), lsn + number) for number in numbers])

    def send_truncation(self, shard: int, lsn: int) -> None:
        """It has no key, and lies in any one partition."""
        said = {**change("t", {}), "after": None}
        self._write([(shard, None, self._logged(0, said, lsn)[2])])

    def _logged(self, number: int, said: Any, lsn: int) -> tuple[int, bytes, bytes]:
        message_key, placed = message(self.key, KEY, {"id": number}), {**said["source"], "lsn": lsn, "ts_ms": 9}
        value = message(self.logged, LOGGED_VALUE, {**said, "source": placed})
        return shard_of(message_key, SHARDS), message_key, value

    def send_people(self) -> None:
        self._write([self._record(number, change("c", person(number)), self.key, self.value) for number in PEOPLE])

    def _record(self, number: int, said: Any, key_id: int, value_id: int) -> tuple[int, bytes, bytes | None]:
        message_key = message(key_id, KEY, {"id": number})
        value = None if said is None else message(value_id, VALUE, said)
        return shard_of(message_key, SHARDS), message_key, value

    def _write(self, records: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        for shard, _, _ in records:
            self.sent[shard] += 1
        write(self.servers.kafka_bootstrap, f"{self.name}.changes", records)

    def work(self, user_and_password: str = USER_AND_PASSWORD) -> Worker:
        environment = {
            "STREAMER_TABLE": str(self.table),
            **self.servers.environment(),
            "SCHEMA_REGISTRY_URL": self.registry.url,
            "SCHEMA_REGISTRY_BASIC_AUTH": user_and_password,
        }
        self.workers.append(Worker(self.folder / f"worker-{len(self.workers)}.log", environment))
        return self.workers[-1]

    def wait(self) -> None:
        wait_until(lambda: self.reached() == self.sent, 30, lambda: f"{self.reached()} of {self.sent}: {self.logs()}")

    def reached(self) -> list[int]:
        outlets = [KafkaOutlet(self.servers.kafka_bootstrap, self.name, shard) for shard in range(SHARDS)]
        return [position.next if (position := outlet.position()) else 0 for outlet in outlets]

    def logs(self) -> str:
        return "\n".join(worker.log.read_text() for worker in self.workers)

    def run(self, *command: str) -> Any:
        options = ["--table", str(self.table), "--kafka", self.servers.kafka_bootstrap]
        redis = [] if command[0] == "produce" else ["--redis", self.servers.redis_url]
        return CliRunner().invoke(main, [*command, *options, *redis, "--json"])

    def problems(self) -> str:
        return " ".join(json.loads(self.run("status").stdout)["problems"])

    def published(self) -> int:
        with Subscription(load_table(self.table), self.servers.kafka_bootstrap) as people:
            people.catch_up()
            return len(people.frame())

    def refused(self) -> Counter[str]:
        letters = [
            letter
            for shard in range(SHARDS)
            for letter in read(self.servers.kafka_bootstrap, self.name, "dead-letters", shard)
        ]
        return Counter(json.loads(letter.value())["reason"] for letter in letters)

    def key_forms(self) -> set[str]:
        client = connect(self.servers.redis_url)
        metas = [RedisStore(client, self.name, shard).meta() for shard in range(SHARDS)]
        return {meta.key_form for meta in metas if meta is not None}


def person(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "age": number % 90,
        "zip": None if number == 7 else 10000 + number * 7 % 10000,
        "bmi": unscaled(Decimal(205 + number % 200) / 10, 1),
        "sex": "Male" if number % 2 else "Female",
        "problem": "flu",
        "name": f"Canary-{number}",
    }


def lies_in(shard: int) -> Callable[[int], bool]:
    """Whether a person's row lies in a shard, where the key's schema is the first that was registered."""
    return lambda number: shard_of(message(1, KEY, {"id": number}), SHARDS) == shard


@pytest.fixture
def people(servers: Servers, tmp_path: Path) -> Iterator[AvroTable]:
    table = AvroTable(servers, tmp_path)
    yield table
    for worker in table.workers:
        worker.kill()
    table.registry.shut()


@pytest.mark.gate("Avro")
def test_avro_keys_and_values_in_two_shards(people: AvroTable, monkeypatch: pytest.MonkeyPatch) -> None:
    people.registry.open()
    people.send_people()
    other = people.registry.add(OTHER_KEY)
    people.send(1, change("d", person(1)), key_id=other)
    people.send(2, change("u", person(2)), value_id=999)
    people.send(3, change("d", person(3)))
    people.send(3, None)
    people.work()
    people.wait()
    assert people.published() == len(PEOPLE) - 2  # one has no zip, one was deleted
    assert people.refused() == {"null-not-allowed": 1, "message-key-form": 1, "unknown-schema": 1}
    assert people.key_forms() == {f"avro:{people.key}"}
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", people.registry.url)
    monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH", USER_AND_PASSWORD)
    _delete_by_produce(people, 4)
    people.wait()
    assert people.published() == len(PEOPLE) - 3
    assert "Canary" not in people.logs()


def _delete_by_produce(people: AvroTable, number: int) -> None:
    """What `produce` writes comes under the connector's key: else it would be refused."""
    events = people.folder / "events.jsonl"
    events.write_text(json.dumps({"op": "delete", "key": number}))
    told = people.run("produce", str(events))
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["key_form"] == f"avro:{people.key}"
    people.sent[shard_of(message(people.key, KEY, {"id": number}), SHARDS)] += 1


def test_a_truncation_in_avro_reaches_every_shard_at_its_place_in_the_sources_order(people: AvroTable) -> None:
    people.registry.open()
    people.send_logged(range(8, 108), lsn=1_000)
    worker = people.work()
    people.wait()
    assert people.published() == 100
    later = range(100, 140)
    people.send_logged(filter(lies_in(0), later), lsn=3_000)  # its partition is written first: the truncation is late
    people.wait()
    people.send_truncation(shard=1, lsn=2_000)
    people.send_logged(filter(lies_in(1), later), lsn=3_000)
    people.wait()
    wait_until(lambda: people.published() == 40, 30, people.logs)
    worker.terminate()
    people.send_logged(range(8, 20), lsn=1_000)  # a connector that was started again sends some once more
    people.send_logged(range(140, 150), lsn=3_000)
    people.work()
    people.wait()
    wait_until(lambda: people.published() == 50, 30, people.logs)
    assert people.refused() == {}


def test_a_registry_that_is_down_is_waited_for_and_status_says_so(people: AvroTable) -> None:
    people.send_people()
    people.work()
    wait_until(lambda: "does not answer" in people.problems(), 20, lambda: people.problems() + people.logs())
    assert people.registry.url in people.problems()
    assert people.reached() == [0] * SHARDS
    people.registry.open()
    people.wait()
    assert people.published() == len(PEOPLE) - 1
    assert people.refused() == {"null-not-allowed": 1}
    wait_until(lambda: "schema registry" not in people.problems(), 10, people.problems)


def test_a_wrong_password_is_told_and_nowhere_printed(people: AvroTable) -> None:
    people.registry.open()
    people.send(8, change("c", person(8)))
    people.work("reader:Canary-wrong")
    wait_until(lambda: "refuses us (401)" in people.problems(), 20, lambda: people.problems() + people.logs())
    assert people.reached() == [0] * SHARDS
    assert "Canary" not in people.logs() + people.problems()
