"""A reader of the live topic sees complete releases only: on a real broker, and on the embedded one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from time import time

import duckdb
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

import streamer.reader
from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.errors import LawViolated, StreamerError, UsageError
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.records import OutboxEntry, PublishedGroup
from streamer.incremental.topics import LIVE, topic_name
from streamer.kafka.embedded import embedded_servers
from streamer.reader import Subscription
from streamer.table.published.rows import published_columns
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import expire, fresh_name, make_topics, transactional

TABLE_YAML = """
table: {name}
key: id
columns:
  age:     {{role: quasi-identifier, type: integer, domain: [1, 120], grid: 5}}
  problem: {{role: sensitive}}
privacy: {{k: 2}}
publish: {{live: {{form: rows}}}}
"""
TWO = PublishedGroup((4,), (4,), ((b'"flu"',), (b'"ulcer"',)))
THREE = PublishedGroup((4,), (4,), ((b'"flu"',), (b'"ulcer"',), (b'"flu"',)))
WIDER = PublishedGroup((4,), (5,), ((b'"flu"',), (b'"ulcer"',)))


@pytest.fixture
def table_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(TABLE_YAML.format(name=fresh_name()))
    return path


@pytest.fixture
def table(table_yaml: Path) -> Table:
    return load_table(table_yaml)


@pytest.fixture
def kafka(servers: Servers, table: Table) -> str:
    """A real broker with the topics of the table, of two shards."""
    make_topics(servers.kafka_bootstrap, table.name, shards=2)
    return servers.kafka_bootstrap


class ShardWriter:
    """Publishes releases of one shard as the worker does: one transaction each."""

    def __init__(self, kafka: str, table: Table, shard: int) -> None:
        self._changelog = Changelog(table, shard)
        self._topic, self._shard = f"{table.name}.live", shard
        self._groups: dict[int, PublishedGroup | None] = {}
        self.release = 0
        self._producer = transactional(kafka, f"{table.name}-{shard}")

    def diff(self, number: int, after: PublishedGroup | None) -> Sequence[OutboxEntry]:
        entries, _ = self._changelog.diff(number, self._groups.get(number), after)
        self._groups[number] = after
        return entries

    def begin(self, entries: Sequence[OutboxEntry], total: int | None = None, hours_ago: int = 0, **more: int) -> None:
        """Sends the records of the next release; `total`: what its headers say about their number; more: headers."""
        self.release += 1
        self._producer.begin_transaction()
        for i, entry in enumerate(entries, start=1):
            headers = {"release": self.release, "part": f"{i}/{total or len(entries)}", "through": 10 * self.release}
            texts = [(name, str(value).encode()) for name, value in {**headers, **more}.items()]
            where = {"partition": self._shard, "timestamp": int((time() - 3600 * hours_ago) * 1000)}
            self._producer.produce(self._topic, entry.value, entry.key, headers=texts, **where)
        self._producer.flush(20)

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)
        self.release -= 1

    def publish(self, number: int, after: PublishedGroup | None) -> None:
        self.begin(self.diff(number, after))
        self.commit()


def shown(subscription: Subscription) -> list[tuple[object, ...]]:
    return list(subscription.frame().itertuples(index=False, name=None))


def test_the_table_is_what_the_shards_have_published(kafka: str, table: Table) -> None:
    first, second = ShardWriter(kafka, table, 0), ShardWriter(kafka, table, 1)
    first.publish(1, THREE)
    first.publish(1, WIDER)
    second.publish(1, TWO)
    second.publish(1, None)
    second.publish(2, TWO)
    with Subscription(table, kafka) as people:
        assert shown(people) == []
        people.catch_up()
        assert shown(people) == [
            ("0-1", 21, 30, "flu"),
            ("0-1", 21, 30, "ulcer"),
            ("1-2", 21, 25, "flu"),
            ("1-2", 21, 25, "ulcer"),
        ]


def test_nothing_of_an_open_or_aborted_release_is_shown(kafka: str, table: Table) -> None:
    writer = ShardWriter(kafka, table, 0)
    writer.publish(1, TWO)
    writer.begin(Changelog(table, 0).diff(1, TWO, None)[0])
    writer.abort()
    writer.begin(writer.diff(1, WIDER))
    with Subscription(table, kafka) as people:
        people.catch_up()
        assert shown(people) == [("0-1", 21, 25, "flu"), ("0-1", 21, 25, "ulcer")]
        writer.commit()
        release = next(people.follow())
        assert (release.shard, release.number, release.through, len(release.records)) == (0, 2, 20, 2)
        assert shown(people) == [("0-1", 21, 30, "flu"), ("0-1", 21, 30, "ulcer")]


def test_an_empty_topic_is_an_empty_table_that_can_be_followed(kafka: str, table: Table) -> None:
    with Subscription(table, kafka) as people:
        people.catch_up()
        assert tuple(people.frame().columns) == published_columns(table)
        assert shown(people) == []
        ShardWriter(kafka, table, 1).publish(1, TWO)
        assert next(people.follow()).shard == 1
        assert len(people.frame()) == 2


def test_a_release_whose_last_removal_was_compacted_away_is_complete_after_a_silence(kafka: str, table: Table) -> None:
    writer = ShardWriter(kafka, table, 0)
    writer.begin(writer.diff(1, TWO), total=3, hours_ago=48)
    writer.commit()
    with Subscription(table, kafka) as people:
        people.poll()
        assert not people.caught_up
        assert shown(people) == []
        people.catch_up()
        assert len(people.frame()) == 2


def test_a_start_that_takes_longer_than_compaction_waits_is_not_trusted(
    kafka: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = ShardWriter(kafka, table, 0)
    writer.begin(writer.diff(1, TWO), total=3)
    writer.commit()
    monkeypatch.setattr(streamer.reader, "START_SECONDS_MAX", 0.0)
    with Subscription(table, kafka) as people, pytest.raises(StreamerError, match="start again"):
        people.catch_up()


def test_a_foreign_record_is_refused_without_its_value(kafka: str, table: Table) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(f"{table.name}.live", b'{"name":"canary"}', b"canary", partition=1)
    producer.flush(20)
    with (
        Subscription(table, kafka) as people,
        pytest.raises(LawViolated, match="partition 1, offset 0: a record without the headers") as found,
    ):
        people.catch_up()
    assert "canary" not in str(found.value)


def test_a_table_without_topics_is_a_usage_error(servers: Servers, table: Table) -> None:
    with pytest.raises(UsageError, match="streamer topics create"):
        Subscription(table, servers.kafka_bootstrap).__enter__()


def publish_in_both_shards(kafka: str, table: Table) -> None:
    """Three releases in each, of one QI group that grows and gets a wider box."""
    for shard in (0, 1):
        writer = ShardWriter(kafka, table, shard)
        for after in (TWO, THREE, WIDER):
            writer.publish(1, after)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_the_command_keeps_a_database_and_a_folder_of_changes(kafka: str, table_yaml: Path, table: Table) -> None:
    publish_in_both_shards(kafka, table)
    people, changes = table_yaml.with_name("people.duckdb"), table_yaml.with_name("changes")
    sql = f'SELECT problem, count(*) AS n FROM "{table.name}" GROUP BY 1 ORDER BY 1'
    for _ in range(2):
        copies = ("--duckdb", people, "--parquet", changes, "--sql", sql)
        result = run("subscribe", "--table", table_yaml, "--kafka", kafka, *copies, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.output) == {"rows": [{"problem": "flu", "n": 2}, {"problem": "ulcer", "n": 2}]}
    with duckdb.connect(str(people)) as connection:
        rows = connection.execute(f'SELECT age_lo, problem FROM "{table.name}"').fetchall()
        assert rows == 2 * [(21, "flu"), (21, "ulcer")]
        shown = connection.execute("SELECT shard, release FROM streamer_releases WHERE shard >= 0").fetchall()
        assert sorted(shown) == [(0, 3), (1, 3)]
    assert len(list(changes.rglob("*.parquet"))) == 2


def test_the_command_writes_the_table_and_a_changelog_that_verifies(kafka: str, table_yaml: Path, table: Table) -> None:
    publish_in_both_shards(kafka, table)
    csv, live = table_yaml.with_name("people.csv"), table_yaml.with_name("live.jsonl")
    result = run("subscribe", "--table", table_yaml, "--kafka", kafka, "--csv", csv, "--live", live, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["rows"], found["qi_groups"]) == (4, 2)
    assert found["table"][3] == {"qi_group": "1-1", "age_lo": 21, "age_hi": 30, "problem": "ulcer"}
    assert csv.read_text().splitlines()[:2] == ["qi_group,age_lo,age_hi,problem", "0-1,21,30,flu"]
    fold = Fold(table)
    for line in map(json.loads, live.read_text().splitlines()):
        key = json.dumps(line["key"], separators=(",", ":")).encode()
        value = None if line["value"] is None else json.dumps(line["value"]).encode()
        fold.apply(line["shard"], line["release"], line["through"], key, value)
    fold.finish()
    assert fold.to_frame().to_dict("records") == found["table"]
    assert run("verify", "--table", table_yaml, live).exit_code == 0


def test_a_topic_that_has_lost_its_beginning_is_no_table_until_the_whole_one_is_published_again(
    servers: Servers, table_yaml: Path, table: Table
) -> None:
    """Kafka deletes no record of a topic that is only compacted: somebody has set it to `compact,delete`."""
    kafka = servers.kafka_bootstrap
    make_topics(kafka, table.name, shards=2, config={LIVE: {"cleanup.policy": "compact,delete", "retention.ms": "-1"}})
    writer = ShardWriter(kafka, table, 0)
    writer.publish(1, TWO)
    writer.publish(1, WIDER)
    expire(kafka, topic_name(table.name, LIVE), {0: 3})
    result = run("subscribe", "--table", table_yaml, "--kafka", kafka)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{table.name}.live, partition 0, begins at offset 3" in " ".join(result.stderr.split())
    whole = Changelog(table, 0).diff(1, None, WIDER)[0]
    writer.begin(whole, whole=3, begins=3)
    writer.commit()
    result = run("subscribe", "--table", table_yaml, "--kafka", kafka, "--json")
    assert json.loads(result.stdout)["rows"] == 2


def test_on_the_embedded_broker_it_works_alike(table: Table) -> None:
    with embedded_servers(table.name) as embedded:
        writer = ShardWriter(embedded.kafka, table, 2)
        writer.publish(1, TWO)
        with Subscription(table, embedded.kafka) as people:
            people.catch_up()
            assert len(people.frame()) == 2
            writer.publish(1, THREE)
            assert next(people.follow()).number == 2
            assert len(people.frame()) == 3
