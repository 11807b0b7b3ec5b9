"""The whole way out of a MariaDB and a MySQL, whose binlog Debezium reads: every type of theirs, and a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import NoServers, Servers
from servers.pipeline import binlog_servers
from servers.pipeline.binlog_servers import CONNECTOR, BinlogServer
from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Parts, Pipeline, await_answer
from servers.pipeline.sources import BinlogSource
from servers.pipeline.started import started
from streamer.incremental.connect.connectors import MARIADB, MYSQL
from streamer.incremental.events.snapshot_marks import Mark

pytestmark = [pytest.mark.servers, pytest.mark.drill, pytest.mark.timeout(1500)]

ROWS, CHANGES, LOOKS = 600, 600, 100


@pytest.fixture(scope="module")
def parts(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """Connect with the connectors of binlogs, and Postgres for the sink."""

    def made() -> Parts:
        binlog_servers.provide(MARIADB)
        told = {"SOURCE_USER": CONNECTOR}
        return Parts(servers, tmp_path_factory.mktemp("parts"), plugins=[binlog_servers.PLUGINS], told=told)

    with started(made) as parts:
        yield parts


@pytest.fixture(scope="module", params=[MARIADB, MYSQL])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BinlogServer]:
    try:
        binlog_servers.provide(request.param)
        found = BinlogServer(tmp_path_factory.mktemp(request.param), request.param)
    except NoServers as reason:
        pytest.skip(str(reason))
    try:
        found.start()
        await_answer(found.answers, request.param, found.last_words)
        yield found
    finally:
        found.remove()


@pytest.fixture
def pipeline(parts: Parts, server: BinlogServer, tmp_path: Path) -> Iterator[Pipeline]:
    parts.start()
    laid = Pipeline(parts, tmp_path / "pipeline", Shape(), origin=BinlogSource(server, parts.access.bootstrap))
    yield laid
    laid.end()


def test_every_change_of_a_binlog_arrives(pipeline: Pipeline) -> None:
    """Rows are read and change, the connector is killed, the table gets more rows and a column, and is read again."""
    pipeline.begin(ROWS)
    pipeline.until_released()
    assert Counter(mark for marks in pipeline.marks() for mark in marks) == {Mark.READ: ROWS - 1, Mark.LAST: 1}
    pipeline.until_source_reads()
    pipeline.people.change(CHANGES // 3)
    pipeline.parts.connect.kill()
    pipeline.parts.start()
    pipeline.people.change(CHANGES // 3)
    pipeline.until_arrived()
    pipeline.people.load(ROWS)
    pipeline.people.add_column()
    pipeline.people.read_again()
    pipeline.people.change(CHANGES // 3)
    pipeline.until_arrived()
    assert (pipeline.until_looked(LOOKS).broken, pipeline.status()["problems"]) == (0, [])
    pipeline.assert_nobody_was_named()
