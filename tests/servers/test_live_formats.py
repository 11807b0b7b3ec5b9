"""Formats of what is published, on real servers and a registry (a stub, for tests): workers write, readers fold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from servers.broker.servers import Servers
from servers.registry import StubRegistry
from streamer.cli.main import main
from streamer.incremental.message_files import read_messages
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.outlet import KafkaOutlet
from streamer.reader import Subscription
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, ROWS, Table
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.kafka_and_redis import SECONDS_MAX, fresh_name, make_topics, read, write
from worlds.patients import write_table
from worlds.workers import Worker, wait_until

USER_AND_PASSWORD = "writer:Canary-4711"


class FormattedTable:
    """The example's table in one shard, published in a format."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.servers, self.folder, self.name = servers, folder, fresh_name()
        self._yaml = write_table(folder, self.name)
        self._plain = self._yaml.read_text()
        self.registry = StubRegistry(USER_AND_PASSWORD)
        self.workers: list[Worker] = []
        self.messages = list(read_messages(str(PATIENTS / "events.jsonl")))
        make_topics(servers.kafka_bootstrap, self.name, 1)

    def write_yaml(self, form: str, format_: str) -> None:
        said = "" if format_ == JSON else f", format: {format_}"
        self._yaml.write_text(self._plain.replace("{form: rows}", f"{{form: {form}{said}}}"))

    @property
    def table(self) -> Table:
        return load_table(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        registry = {"SCHEMA_REGISTRY_URL": self.registry.url, "SCHEMA_REGISTRY_BASIC_AUTH": USER_AND_PASSWORD}
        return {"STREAMER_TABLE": str(self.folder), **self.servers.environment(), **registry}

    def send(self, first: int, last: int) -> None:
        records = [(0, message.key, message.value) for message in self.messages[first:last]]
        write(self.servers.kafka_bootstrap, f"{self.name}.changes", records)

    def work(self) -> Worker:
        self.workers.append(Worker(self.folder / f"worker-{len(self.workers)}.log", self.environment))
        return self.workers[-1]

    def until_published(self, through: int) -> None:
        outlet = KafkaOutlet(self.servers.kafka_bootstrap, self.name, 0)
        wait_until(lambda: (at := outlet.position()) is not None and at.next >= through, 60, self.logs)

    def logs(self) -> str:
        return "\n".join(worker.log.read_text() for worker in self.workers)

    def run(self, *command: str) -> Any:
        servers = ["--kafka", self.servers.kafka_bootstrap, "--redis", self.servers.redis_url]
        options = {"status": servers, "reload": servers, "subscribe": servers[:2]}.get(command[0], [])
        words = [*command, "--table", str(self.folder), *options, "--json"]
        return CliRunner().invoke(main, words, env=self.environment)

    def problems(self) -> str:
        return " ".join(json.loads(self.run("status").stdout)["problems"])

    def folded_by_bytes(self) -> dict[bytes, bytes]:
        """What any tool keeps of the topic: the last record of every key, by its bytes."""
        rows: dict[bytes, bytes] = {}
        for record in read(self.servers.kafka_bootstrap, self.name, "live", 0):
            rows[record.key() or b""] = record.value() or b""
        return {key: value for key, value in rows.items() if value}

    def as_json(self) -> dict[bytes, bytes]:
        """The table that Redis keeps, as plain records of it are written."""
        state = RedisStore(connect(self.servers.redis_url), self.name, 0).load()
        assert state is not None
        changelog = Changelog(self.table, 0)
        groups = {number: PublishedGroup(g.lo, g.hi, g.slots) for number, g in dict(state.kept.qi_groups).items()}
        records = [record for n, group in groups.items() for record in changelog.diff(n, None, group)[0]]
        return {record.key: record.value for record in records if record.value is not None}

    def as_others_read(self, data: bytes, format_: str) -> Any:
        """A key or value by fastavro and the registry's own schema, or as Connect's envelope has it."""
        if format_ == CONNECT_JSON:
            return json.loads(data, parse_float=Decimal)["payload"]
        text = str(self.registry.schemas[int.from_bytes(data[1:5], "big")]["schema"])
        return fastavro.schemaless_reader(BytesIO(data[5:]), json.loads(text), None)

    def make_live_anew(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers.kafka_bootstrap})
        for answer in admin.delete_topics([f"{self.name}.live"]).values():
            answer.result(SECONDS_MAX)
        others = dict.fromkeys(("changes", "positions", "dead-letters", "control"), 0)
        make_topics(self.servers.kafka_bootstrap, self.name, 1, others)


@pytest.fixture
def world(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FormattedTable]:
    world = FormattedTable(servers, tmp_path)
    for name, text in world.environment.items():
        monkeypatch.setenv(name, text)
    yield world
    for worker in world.workers:
        worker.kill()
    world.registry.shut()


@pytest.mark.parametrize(("form", "format_"), [(ROWS, CONNECT_JSON), (ROWS, AVRO), (GROUPS, AVRO)])
def test_every_reader_folds_to_the_table_that_plain_json_would_give(
    world: FormattedTable, form: str, format_: str
) -> None:
    """Through a worker that is killed and its successor; the laws are held to as ever."""
    world.registry.open()
    world.write_yaml(form, format_)
    half, end = len(world.messages) // 2, len(world.messages)
    world.send(0, half)
    world.work()
    world.until_published(half)
    world.workers[0].kill()
    world.send(half, end)
    world.work()
    world.until_published(end)
    expected = world.as_json()
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        reader.catch_up()
        assert dict(reader.stored()) == expected
    others = [
        (world.as_others_read(key, format_), world.as_others_read(value, format_))
        for key, value in world.folded_by_bytes().items()
    ]
    plain = [(json.loads(key), json.loads(value, parse_float=Decimal)) for key, value in expected.items()]
    assert sorted(others, key=str) == sorted(plain, key=str)
    changelog = world.folder / "live.jsonl"
    assert world.run("subscribe", "--live", str(changelog)).exit_code == 0
    verified = world.run("verify", str(changelog))
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["rows"] > 5
    assert "Canary" not in world.logs()
    if format_ == AVRO:
        assert set(world.registry.subjects) == {f"{world.name}.live-key", f"{world.name}.live-value"}


def test_nothing_is_published_before_the_registry_answers_and_later_none_is_needed(world: FormattedTable) -> None:
    world.write_yaml(ROWS, AVRO)
    world.send(0, 6)
    world.work()
    wait_until(lambda: "schema registry" in world.problems(), 30, world.logs)
    assert world.registry.url in world.problems()
    assert read(world.servers.kafka_bootstrap, world.name, "live", 0) == []
    world.registry.open()
    world.until_published(6)
    wait_until(lambda: "schema registry" not in world.problems(), 10, world.problems)
    world.registry.shut()
    world.send(6, len(world.messages))
    world.until_published(len(world.messages))
    assert "schema registry" not in world.problems()


def test_another_format_is_another_topic_and_begins_anew(world: FormattedTable) -> None:
    world.write_yaml(ROWS, JSON)
    world.send(0, len(world.messages))
    worker = world.work()
    world.until_published(len(world.messages))
    worker.terminate()
    plain = world.as_json()
    assert world.folded_by_bytes() == plain  # to the byte
    world.write_yaml(ROWS, AVRO)
    world.registry.open()
    assert world.work().ended() == 2
    assert "reload" in world.logs()
    refused = world.run("reload", "--from-source", "topic")
    assert refused.exit_code == 2
    assert f"{world.name}.live holds records of another format" in refused.output
    assert world.folded_by_bytes() == plain
    world.make_live_anew()
    begun = world.run("reload", "--from-source", "topic")
    assert begun.exit_code == 0, begun.output
    again = world.run("reload", "--from-source", "topic")  # which removes what it finds, in the same format
    assert again.exit_code == 0, again.output
    world.work()
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        reader.catch_up()
        assert dict(reader.stored()) == world.as_json()
    assert len(world.folded_by_bytes()) == len(world.as_json()) == len(plain)


def test_a_schema_that_the_registry_refuses_ends_the_worker_and_says_what_to_do(world: FormattedTable) -> None:
    world.registry.open()
    world.registry.refuses = 409
    world.write_yaml(ROWS, AVRO)
    assert world.work().ended() == 2
    assert f"does not take the schema of {world.name}.live-key (409)" in world.logs()
    assert "Canary" not in world.logs()


def test_another_id_of_the_same_schema_is_refused_before_anything_is_written(world: FormattedTable) -> None:
    world.registry.open()
    world.write_yaml(ROWS, AVRO)
    world.send(0, 6)
    world.work()
    world.until_published(6)
    world.workers[0].terminate()
    before = world.folded_by_bytes()
    world.registry.schemas = {number + 100: schema for number, schema in world.registry.schemas.items()}
    world.send(6, len(world.messages))
    assert world.work().ended() == 2
    assert f"{world.name}.live has other keys than would be written now" in world.logs()
    assert world.folded_by_bytes() == before
