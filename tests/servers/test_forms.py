"""The forms of publication on real servers: what a reader folds is what Redis keeps, through a take-over."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.cli.stream.bootstrap import begin, found_shards
from streamer.errors import ShardRefused
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.checks.source import SourceLaws, index_table
from streamer.incremental.engine.stored_state import HOW, PENDING
from streamer.incremental.estimate import Query
from streamer.incremental.message_files import read_messages
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import outputs_of, topic_name
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.reader import Subscription
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.checkout import PATIENTS
from worlds.kafka_and_redis import SECONDS_MAX, fresh_name, make_topics, write
from worlds.shards import Driven
from worlds.workers import Worker, wait_until

FORMS = pytest.mark.parametrize("world", [GROUPS, LOSSY_JOIN], indirect=True)


class PublishedTable:
    """The example's events in one shard of real servers, published in a form, and whoever publishes them."""

    def __init__(self, servers: Servers, folder: Path, form: str) -> None:
        self.servers, self.folder, self.name = servers, folder, fresh_name()
        shutil.copytree(PATIENTS, folder, dirs_exist_ok=True)
        text = (folder / "table.yaml").read_text().replace("table: patients", f"table: {self.name}")
        (folder / "table.yaml").write_text(text)
        self.table: Table = replace(load_table(folder), form=form)
        make_topics(servers.kafka_bootstrap, self.name, 1, form=form)
        self.messages = list(read_messages(str(folder / "events.jsonl")))
        records = [(0, message.key, message.value) for message in self.messages]
        write(servers.kafka_bootstrap, f"{self.name}.changes", records)

    def publisher(self) -> Driven:
        """Takes the shard over."""
        where, outputs = (self.servers.kafka_bootstrap, self.name, 0), outputs_of(self.table.form)
        store = RedisStore(connect(self.servers.redis_url), self.name, 0)
        publisher = Driven(self.table, 0, store, KafkaOutlet(*where, outputs))
        publisher.take_over(KafkaInput(*where, outputs=outputs).state())
        return publisher

    def publish(self, first: int, last: int, batch: int = 4) -> None:
        publisher = self.publisher()
        for start in range(first, last, batch):
            publisher.step(self.messages[start : min(start + batch, last)])

    def assert_a_reader_has_what_redis_keeps(self, releases: list[FoldedRelease]) -> None:
        """By the laws, and against the source behind them."""
        laws = ChangelogLaws(self.table)
        records = [LiveRecord(*release[:3], *record) for release in releases for record in release.records]
        for release in in_releases(records):
            laws.check(release)
        state = RedisStore(connect(self.servers.redis_url), self.name, 0).load()
        assert state is not None
        kept = dict(state.kept.records)
        lines = [(key, None if one.qi_group == PENDING else (0, one.qi_group)) for key, one in kept.items()]
        index = index_table({key: record.row for key, record in kept.items()}, lines)
        SourceLaws(self.table, laws, index).check_all("the end")
        assert laws.n_rows > 5

    def make_anew(self, *kinds: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers.kafka_bootstrap})
        names = [topic_name(self.name, kind) for kind in kinds]
        for answer in admin.delete_topics(names).values():
            answer.result(SECONDS_MAX)
        counts = {kind: 1 if kind in kinds else 0 for kind in ("changes", "live", "qit", "stt", "positions")}
        rest = {"dead-letters": 0, "control": 0}
        make_topics(self.servers.kafka_bootstrap, self.name, 1, {**counts, **rest}, form=self.table.form)

    def run(self, command: str, *arguments: str) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*command.split(), "--table", str(self.folder), *arguments, "--json"])
        assert result.exit_code == 0, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        return report


@pytest.fixture
def world(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> PublishedTable:
    return PublishedTable(servers, tmp_path, request.param)


def read_all(world: PublishedTable, reader: Subscription) -> list[FoldedRelease]:
    releases = []
    while not reader.caught_up:
        releases += reader.poll()
    return releases


@FORMS
def test_a_reader_folds_what_is_kept_through_a_take_over_and_follows(world: PublishedTable) -> None:
    half, end = len(world.messages) // 2, len(world.messages)
    world.publish(0, half)
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        releases = read_all(world, reader)
        world.publish(half, end)
        while not releases or releases[-1].through < end:
            releases += reader.poll()
    assert [release.number for release in releases] == list(range(1, len(releases) + 1))
    world.assert_a_reader_has_what_redis_keeps(releases)


@FORMS
def test_an_output_made_anew_gets_the_whole_table_and_one_of_two_alone_is_refused(world: PublishedTable) -> None:
    world.publish(0, len(world.messages))
    outputs = outputs_of(world.table.form)
    if len(outputs) > 1:
        world.make_anew(outputs[1])
        with pytest.raises(ShardRefused, match="they are one table"):
            world.publisher()
        world.make_anew(*outputs, "positions")
    else:
        world.make_anew(*outputs)
    assert world.publisher().published_anew
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        releases = read_all(world, reader)
    assert [release.number for release in releases] == [1]
    world.assert_a_reader_has_what_redis_keeps(releases)


@FORMS
def test_a_table_begins_anew_in_its_form_and_readers_of_before_go_on(world: PublishedTable) -> None:
    world.publish(0, len(world.messages))
    settings = WorkerSettings(world.table, world.servers.kafka_bootstrap, world.servers.redis_url, embedded=True)
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        releases = read_all(world, reader)
        (begun,) = begin(found_shards(settings), str(PATIENTS / "rows.csv"), "end", lambda _: None)
        while not releases[-1].outside:
            releases += reader.poll()
    assert begun.removed
    assert begun.rows > 5
    world.assert_a_reader_has_what_redis_keeps(releases)
    world.publisher()


@pytest.mark.parametrize("world", [LOSSY_JOIN], indirect=True)
def test_a_worker_publishes_a_lossy_join_that_asks_for_different_values(world: PublishedTable) -> None:
    path = world.folder / "table.yaml"
    path.write_text(path.read_text().replace("form: rows", "form: lossy-join").replace("{k: 3}", "{k: 3, l: 2}"))
    world.table = load_table(path)
    servers = {"KAFKA_BOOTSTRAP": world.servers.kafka_bootstrap, "REDIS_URL": world.servers.redis_url}
    worker = Worker(world.folder / "worker.log", {"STREAMER_TABLE": str(path), **servers})
    outlet = KafkaOutlet(world.servers.kafka_bootstrap, world.name, 0, outputs_of(world.table.form))
    try:
        wait_until(lambda: reached(outlet) == len(world.messages), 60, worker.log.read_text)
        assert worker.terminate()[0] == 0
    finally:
        worker.kill()
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        releases = read_all(world, reader)
    world.assert_a_reader_has_what_redis_keeps(releases)


def reached(outlet: KafkaOutlet) -> int:
    """The published `next`."""
    position = outlet.position()
    return position.next if position else 0


@pytest.mark.parametrize("world", [GROUPS], indirect=True)
def test_the_commands_know_the_form(world: PublishedTable, tmp_path: Path) -> None:
    path = world.folder / "table.yaml"
    path.write_text(path.read_text().replace("form: rows", "form: groups"))
    assert load_table(path).fingerprint == world.table.fingerprint
    kafka, redis = ["--kafka", world.servers.kafka_bootstrap], ["--redis", world.servers.redis_url]
    world.publish(0, len(world.messages))
    changelog = tmp_path / "live.jsonl"
    shown = world.run("subscribe", *kafka, "--live", str(changelog), "--csv", str(tmp_path / "table.csv"))
    assert sum(row["count"] for row in shown["table"]) == shown["rows"] > 5
    assert world.run("verify", str(changelog))["rows"] == shown["rows"]
    answer = world.run("subscribe", *kafka, "--query", "age >= 0 and problem = 'flu'")
    flu = sum(row["count"] for row in shown["table"] if row["problem"] == "flu")
    assert (answer["estimate"], answer["at_least"], answer["at_most"], answer["rows"]) == (flu, flu, flu, shown["rows"])
    assert {topic["topic"] for topic in world.run("topics check", *kafka)["topics"]} >= {f"{world.name}.live"}
    world.run("index", *redis, "--out", str(tmp_path / "index.csv"))
    key, group = (tmp_path / "index.csv").read_text().splitlines()[1].split(",")
    explained = world.run("explain", *redis, key)
    assert explained["qi_group"]["name"] == explained["similarity"][0]["qi_group"] == group
    assert explained["similarity"][0]["contains"]
    assert explained["qi_group"]["origin"]["how"] in HOW
    assert 0 < explained["qi_group"]["origin"]["commit"] <= explained["commit"]
    assert explained["next_loss"]["nearest"][0]["qgssd"] > 0


@pytest.mark.parametrize("world", [LOSSY_JOIN], indirect=True)
def test_a_query_is_answered_from_two_topics(world: PublishedTable) -> None:
    world.publish(0, len(world.messages))
    with Subscription(world.table, world.servers.kafka_bootstrap) as reader:
        reader.catch_up()
        frames = reader.frames()
    assert list(frames) == ["qit", "stt"]
    answer = Query(world.table, "age < 50 and problem = 'flu'").answer(frames)
    state = RedisStore(connect(world.servers.redis_url), world.name, 0).load()
    assert state is not None
    rows = [record.row for _, record in state.kept.records if record.qi_group != PENDING]
    truth = sum(row.codes[0] < 50 and row.values == (b'"flu"',) for row in rows)
    assert answer.at_least <= truth <= answer.at_most <= answer.rows == len(rows)
