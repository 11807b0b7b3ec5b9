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

from servers.broker.servers import Servers
from servers.registry import StubRegistry
from streamer.incremental.message_files import read_messages
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.reader import Subscription
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, ROWS
from streamer.table.yaml.loading import load_table
from worlds.workers import WorkedTable, wait_until

USER_AND_PASSWORD = "writer:Canary-4711"


class FormattedTable:
    """The example's table in one shard, published in a format."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.served = WorkedTable(servers, folder, 1)
        self._plain = self.served.table.read_text()
        self.registry = StubRegistry(USER_AND_PASSWORD)
        self.served.environment |= {
            "SCHEMA_REGISTRY_URL": self.registry.url,
            "SCHEMA_REGISTRY_BASIC_AUTH": USER_AND_PASSWORD,
        }
        self.messages = list(read_messages(str(folder / "events.jsonl")))

    def write_yaml(self, form: str, format_: str) -> None:
        said = "" if format_ == JSON else f", format: {format_}"
        self.served.table.write_text(self._plain.replace("{form: rows}", f"{{form: {form}{said}}}"))

    def send(self, first: int = 0, last: int | None = None) -> None:
        self.served.send((0, message.key, message.value) for message in self.messages[first:last])

    def until_published(self, through: int | None = None) -> None:
        self.served.wait_until_published(60, [len(self.messages) if through is None else through])

    def problems(self) -> str:
        return " ".join(self.served.status()["problems"])

    def folded_by_bytes(self) -> dict[bytes, bytes]:
        """What any tool keeps of the topic: the last record of every key, by its bytes."""
        rows = {record.key() or b"": record.value() or b"" for record in self.served.read("live", 0)}
        return {key: value for key, value in rows.items() if value}

    def as_read(self) -> dict[bytes, bytes]:
        """The table as our own reader folds it."""
        with Subscription(load_table(self.served.table), self.served.bootstrap) as reader:
            reader.catch_up()
            return dict(reader.stored())

    def as_json(self) -> dict[bytes, bytes]:
        """The table that Redis keeps, as plain records of it are written."""
        changelog = Changelog(load_table(self.served.table), 0)
        groups = {n: PublishedGroup(g.lo, g.hi, g.slots) for n, g in self.served.state(0).kept.qi_groups}
        records = [record for n, group in groups.items() for record in changelog.diff(n, None, group)[0]]
        return {record.key: record.value for record in records if record.value is not None}

    def as_others_read(self, data: bytes, format_: str) -> Any:
        """A key or value by fastavro and the registry's own schema, or as Connect's envelope has it."""
        if format_ == CONNECT_JSON:
            return json.loads(data, parse_float=Decimal)["payload"]
        text = str(self.registry.schemas[int.from_bytes(data[1:5], "big")]["schema"])
        return fastavro.schemaless_reader(BytesIO(data[5:]), json.loads(text), None)


@pytest.fixture
def world(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FormattedTable]:
    world = FormattedTable(servers, tmp_path)
    for name, text in world.served.environment.items():
        monkeypatch.setenv(name, text)
    yield world
    world.served.kill()
    world.registry.shut()


@pytest.mark.parametrize(("form", "format_"), [(ROWS, CONNECT_JSON), (ROWS, AVRO), (GROUPS, AVRO)])
def test_every_reader_folds_to_the_table_that_plain_json_would_give(
    world: FormattedTable, form: str, format_: str
) -> None:
    """Through a worker that is killed and its successor; the laws hold as ever."""
    world.registry.open()
    world.write_yaml(form, format_)
    half = len(world.messages) // 2
    world.send(0, half)
    world.served.start()
    world.until_published(half)
    world.served.kill()
    world.send(half)
    world.served.start()
    world.until_published()
    expected = world.as_json()
    assert world.as_read() == expected
    others = [
        (world.as_others_read(key, format_), world.as_others_read(value, format_))
        for key, value in world.folded_by_bytes().items()
    ]
    plain = [(json.loads(key), json.loads(value, parse_float=Decimal)) for key, value in expected.items()]
    assert sorted(others, key=str) == sorted(plain, key=str)
    changelog = world.served.folder / "live.jsonl"
    world.served.must("subscribe", "--live", changelog)
    assert world.served.report("verify", changelog)["rows"] > 5
    assert "Canary" not in world.served.logs()
    if format_ == AVRO:
        assert set(world.registry.subjects) == {f"{world.served.name}.live-{side}" for side in ("key", "value")}


def test_nothing_is_published_before_the_registry_answers_and_later_none_is_needed(world: FormattedTable) -> None:
    world.write_yaml(ROWS, AVRO)
    world.send(0, 6)
    world.served.start()
    wait_until(lambda: "schema registry" in world.problems(), 30, world.served.logs)
    assert world.registry.url in world.problems()
    assert world.served.ends("live") == [0]
    world.registry.open()
    world.until_published(6)
    wait_until(lambda: "schema registry" not in world.problems(), 10, world.problems)
    world.registry.shut()
    world.send(6)
    world.until_published()
    assert "schema registry" not in world.problems()


def test_another_format_needs_another_topic_and_a_reload(world: FormattedTable) -> None:
    served = world.served
    world.write_yaml(ROWS, JSON)
    world.send()
    served.start()
    world.until_published()
    served.stop()
    plain = world.as_json()
    assert world.folded_by_bytes() == plain  # to the byte
    world.write_yaml(ROWS, AVRO)
    world.registry.open()
    assert "reload" in served.refusal()
    reload = ("reload", "--from-source", "topic")
    assert f"{served.name}.live holds records of another format" in served.refused(*reload)
    assert world.folded_by_bytes() == plain
    served.recreate_topics("live")
    served.must(*reload)
    served.must(*reload)  # which removes what it finds, in the same format
    served.start()
    assert world.as_read() == world.as_json()
    assert len(world.folded_by_bytes()) == len(world.as_json()) == len(plain)


def test_a_schema_that_the_registry_refuses_ends_the_worker_and_says_what_to_do(world: FormattedTable) -> None:
    world.registry.open()
    world.registry.refuses = 409
    world.write_yaml(ROWS, AVRO)
    said = world.served.refusal()
    assert f"does not take the schema of {world.served.name}.live-key (409)" in said
    assert "Canary" not in said


def test_another_id_of_the_same_schema_is_refused_before_anything_is_written(world: FormattedTable) -> None:
    world.registry.open()
    world.write_yaml(ROWS, AVRO)
    world.send(0, 6)
    world.served.start()
    world.until_published(6)
    world.served.stop()
    before = world.folded_by_bytes()
    world.registry.schemas = {number + 100: schema for number, schema in world.registry.schemas.items()}
    world.send(6)
    assert f"{world.served.name}.live has other keys than would be written now" in world.served.refusal()
    assert world.folded_by_bytes() == before
