"""The forms of publication on real servers: what a reader folds is what Redis keeps, through a take-over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.checks.source import SourceLaws, index_table
from streamer.incremental.engine.stored_state import HOW, PENDING
from streamer.incremental.estimate import Query
from streamer.incremental.message_files import read_messages
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.topics import POSITIONS, QIT, STT, outputs_of
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.loading.first_tables import WantedRows
from streamer.loading.load import begin
from streamer.loading.shards import claimed, found_shards
from streamer.reader import Subscription
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.shards import Driven
from worlds.workers import WorkedTable

FORMS = pytest.mark.parametrize("world", [GROUPS, LOSSY_JOIN], indirect=True)


class PublishedTable:
    """The example's events in one shard of real servers, published in a form."""

    def __init__(self, servers: Servers, folder: Path, form: str) -> None:
        self.served = WorkedTable(servers, folder, 1, form)
        if form == LOSSY_JOIN:  # which publishes exact quasi-identifiers, and needs sensitive values that differ
            self.served.edit_yaml("{k: 3}", "{k: 3, l: 2}")
        self.messages = list(read_messages(str(folder / "events.jsonl")))
        self.served.send((0, message.key, message.value) for message in self.messages)

    @property
    def table(self) -> Table:
        return load_table(self.served.table)

    def subscription(self) -> Subscription:
        return Subscription(self.table, self.served.bootstrap)

    def publisher(self) -> Driven:
        """Takes the shard over."""
        where, outputs = (self.served.bootstrap, self.served.name, 0), outputs_of(self.table.form)
        publisher = Driven(self.table, 0, self.served.store(), KafkaOutlet(*where, outputs))
        publisher.take_over(KafkaInput(*where, outputs=outputs).state())
        return publisher

    def publish(self, first: int = 0, last: int = 1_000_000, batch: int = 4) -> None:
        publisher, last = self.publisher(), min(last, len(self.messages))
        for start in range(first, last, batch):
            publisher.step(self.messages[start : min(start + batch, last)])

    def assert_a_reader_has_what_redis_keeps(self, releases: list[FoldedRelease]) -> None:
        """By the laws, and against the source behind them."""
        laws = ChangelogLaws(self.table)
        records = [LiveRecord(*one[:3], *record, whole=one.whole) for one in releases for record in one.records]
        for release in in_releases(records):
            laws.check(release)
        kept = dict(self.served.state(0).kept.records)
        lines = [(key, None if one.qi_group == PENDING else (0, one.qi_group)) for key, one in kept.items()]
        index = index_table({key: record.row for key, record in kept.items()}, lines)
        SourceLaws(self.table, laws, index).check_all("the end")
        assert laws.n_rows > 5


@pytest.fixture
def world(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[PublishedTable]:
    world = PublishedTable(servers, tmp_path, request.param)
    yield world
    world.served.kill()


def read_all(reader: Subscription) -> list[FoldedRelease]:
    releases = []
    while not reader.caught_up:
        releases += reader.poll()
    return releases


@FORMS
def test_a_reader_folds_what_is_kept_through_a_take_over_and_follows(world: PublishedTable) -> None:
    half, end = len(world.messages) // 2, len(world.messages)
    world.publish(0, half)
    with world.subscription() as reader:
        releases = read_all(reader)
        world.publish(half, end)
        while not releases or releases[-1].through < end:
            releases += reader.poll()
    assert [release.number for release in releases] == list(range(1, len(releases) + 1))
    world.assert_a_reader_has_what_redis_keeps(releases)


@FORMS
@pytest.mark.parametrize("also", [[], [POSITIONS]])
def test_a_recreated_output_gets_the_whole_table(world: PublishedTable, also: list[str]) -> None:
    world.publish()
    world.served.recreate_topics(*outputs_of(world.table.form), *also)
    assert world.publisher().published_anew
    with world.subscription() as reader:
        releases = read_all(reader)
    assert [release.number for release in releases] == [1]
    world.assert_a_reader_has_what_redis_keeps(releases)


@pytest.mark.parametrize("world", [LOSSY_JOIN], indirect=True)
@pytest.mark.parametrize("kind", [QIT, STT])
def test_one_of_two_outputs_recreated_gets_its_part_with_the_whole_table(world: PublishedTable, kind: str) -> None:
    """And no reader shows what only the other one still holds of before."""
    world.publish()
    world.served.recreate_topics(kind)
    assert world.publisher().published_anew
    with world.subscription() as reader:
        releases = read_all(reader)
    assert [release.is_whole for release in releases] == [True]
    world.assert_a_reader_has_what_redis_keeps(releases)


@FORMS
def test_a_table_is_reloaded_in_its_form_and_readers_of_before_go_on(world: PublishedTable) -> None:
    world.publish()
    redis = world.served.environment["REDIS_URL"]
    settings = WorkerSettings(world.table, world.served.bootstrap, redis, embedded=True)
    with world.subscription() as reader, claimed(settings, "streamer reload") as claim:
        releases = read_all(reader)
        wanted = WantedRows(RowSource(str(world.served.folder / "rows.csv")))
        (begun,) = begin(found_shards(settings, claim), wanted)
        while not releases[-1].outside:
            releases += reader.poll()
    assert begun.removed
    assert begun.rows > 5
    world.assert_a_reader_has_what_redis_keeps(releases)
    world.publisher()


@pytest.mark.parametrize("world", [LOSSY_JOIN], indirect=True)
def test_a_worker_publishes_a_lossy_join(world: PublishedTable) -> None:
    worker = world.served.start()
    world.served.wait_until_published(60, [len(world.messages)])
    assert worker.terminate()[0] == 0
    with world.subscription() as reader:
        releases = read_all(reader)
    world.assert_a_reader_has_what_redis_keeps(releases)


@pytest.mark.parametrize("world", [GROUPS], indirect=True)
def test_the_commands_know_the_form(world: PublishedTable, tmp_path: Path) -> None:
    world.publish()
    served, changelog, index = world.served, tmp_path / "live.jsonl", tmp_path / "index.csv"
    shown = served.report("subscribe", "--live", changelog, "--csv", tmp_path / "table.csv")
    assert sum(row["count"] for row in shown["table"]) == shown["rows"] > 5
    assert served.report("verify", changelog)["rows"] == shown["rows"]
    answer = served.report("subscribe", "--query", "age >= 0 and problem = 'flu'")
    flu = sum(row["count"] for row in shown["table"] if row["problem"] == "flu")
    assert (answer["estimate"], answer["at_least"], answer["at_most"], answer["rows"]) == (flu, flu, flu, shown["rows"])
    assert {topic["topic"] for topic in served.report("topics check")["topics"]} >= {f"{served.name}.live"}
    served.must("index", "--out", index)
    key, group = index.read_text().splitlines()[1].split(",")
    explained = served.report("explain", key)
    assert explained["qi_group"]["name"] == explained["similarity"][0]["qi_group"] == group
    assert explained["similarity"][0]["contains"]
    assert explained["qi_group"]["origin"]["how"] in HOW
    assert 0 < explained["qi_group"]["origin"]["commit"] <= explained["commit"]
    assert explained["next_loss"]["nearest"][0]["qgssd"] > 0


@pytest.mark.parametrize("world", [LOSSY_JOIN], indirect=True)
def test_a_query_is_answered_from_two_topics(world: PublishedTable) -> None:
    world.publish()
    with world.subscription() as reader:
        reader.catch_up()
        frames = reader.frames()
    assert list(frames) == ["qit", "stt"]
    answer = Query(world.table, "age < 50 and problem = 'flu'").answer(frames)
    rows = [record.row for _, record in world.served.state(0).kept.records if record.qi_group != PENDING]
    truth = sum(row.codes[0] < 50 and row.values == (b'"flu"',) for row in rows)
    assert answer.at_least <= truth <= answer.at_most <= answer.rows == len(rows)
