"""The whole way: people in Postgres, Debezium, the topics, workers, the JDBC sink, the view in Postgres.

`Parts` are the servers, started once for all tests; `Pipeline` is the way of one table through them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from click.testing import CliRunner

from drills.crew import Crew
from servers.broker.servers import NoServers, Servers
from servers.pipeline import connect, postgres
from servers.pipeline.configurations import SECRETS, Shape, sink_config, view_sql
from servers.pipeline.connect import Connect, ConnectRefused
from servers.pipeline.judge import Reader, Seen, faults
from servers.pipeline.people import NAME
from servers.pipeline.postgres import OWNER, PASSWORD, Postgres
from servers.pipeline.sources import PostgresSource, Source
from streamer.cli.main import main
from streamer.incremental.connect.connectors import Database
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect as connect_redis
from streamer.table.published.schemas import sink_table
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import fresh_name, make_topics, read
from worlds.patients import write_table
from worlds.workers import wait_until

START_SECONDS_MAX = 300.0
STEP_SECONDS = 100.0
"""How long a step of the way may take on a machine that has nothing else to do."""

INPUTS = {"bare": "input: {form: rows}\n"}
"""What table.yaml has to say of the input, by the shape's flattening."""


@dataclass(frozen=True)
class Access:
    """How the parts reach Kafka, where that is not as the tests themselves do.

    bootstrap: of the listener. client: settings of Connect's Kafka clients. worker, operator: variables of the workers
    and of those who call commands. grant: gives the users their rights to the topics of a table. secrets: never to be
    read in a log.
    """

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)
    operator: Mapping[str, str] = field(default_factory=dict)
    grant: Callable[[str], None] = lambda table_name: None
    secrets: tuple[str, ...] = ()


class Parts:
    """Postgres and Connect beside Kafka and Redis. plugins: of Connect's, beside Debezium's; told: to Connect."""

    def __init__(
        self,
        servers: Servers,
        directory: Path,
        access: Access | None = None,
        plugins: Sequence[Path] = (),
        told: Mapping[str, str] | None = None,
    ) -> None:
        postgres.provide()
        connect.provide()
        self.servers = servers
        self.access = access or Access(servers.kafka_bootstrap)
        self.postgres = Postgres(directory)
        environment = {**dict(zip(SECRETS, 2 * (OWNER, PASSWORD), strict=True)), **(told or {})}
        self.connect = Connect(directory, self.access.bootstrap, environment, self.access.client, plugins)

    @property
    def place(self) -> Database:
        """Where connectors find Postgres."""
        return Database("127.0.0.1", self.postgres.port, OWNER)

    def start(self) -> None:
        """Starts and awaits both; cheap when they already answer."""
        for name, server in (("Postgres", self.postgres), ("Kafka Connect", self.connect)):
            server.start()
            await_answer(server.answers, name, server.last_words)

    def stop(self) -> None:
        """Ends both; Postgres' data go with it."""
        try:
            self.connect.stop()
        finally:
            self.postgres.remove()


class Pipeline:
    """The way of one table; nothing of it is shared with others but the servers."""

    def __init__(
        self, parts: Parts, directory: Path, shape: Shape, shards: int = 4, origin: Source | None = None
    ) -> None:
        name = fresh_name()
        directory.mkdir(exist_ok=True)
        self.parts = parts
        self.shards = shards
        self.origin = origin or PostgresSource(parts.place)
        self.path = write_table(directory, name)
        self.origin.add_columns(self.path)
        said = self.path.read_text().replace("{form: rows}", f"{{form: rows, format: {shape.live}}}")
        self.path.write_text(said + INPUTS.get(shape.flattening, ""))
        self.table = load_table(self.path)
        self.shape = shape
        self.database = parts.postgres.connect()
        self.people = self.origin.people(self.database, name)
        self.origin.prepare(self.database, self.table)
        self.database.execute(view_sql(self.table).encode())
        self.crew: Crew | None = None
        self.reader: Reader | None = None
        self._directory = directory
        self._redis = connect_redis(parts.servers.redis_url)
        make_topics(parts.servers.kafka_bootstrap, name, shards)
        parts.access.grant(name)

    # -- its course -------------------------------------------------------------------------------------------------

    def begin(self, rows: int, workers: int = 2, looked_at: bool = True) -> None:
        """Both connectors and so many workers begin; the source has so many rows, and someone reads the view or not."""
        self.people.load(rows)
        if looked_at:
            self.begin_to_look()
        self.start_sink()
        self.start_source()
        self.start_workers(workers)

    def start_workers(self, count: int = 2) -> None:
        """So many workers, each replaced when it ends."""
        servers, access = self.parts.servers.environment(), self.parts.access
        environment = {
            **servers, "KAFKA_BOOTSTRAP": access.bootstrap, **access.worker, "STREAMER_TABLE": str(self.path),
        }  # fmt: skip
        self.crew = Crew(environment, self._directory, count)
        self.crew.start()

    def start_source(self) -> None:
        self.parts.connect.put(self.source, self.origin.config(self.table, self.shape))

    def start_sink(self) -> None:
        self.parts.connect.put(self.sink, sink_config(self.table, self.parts.place))

    def until_source_reads(self) -> None:
        """Until Debezium follows the source's log, and Connect has kept that: no kill makes it read the table again.

        What had been deleted before a table is read again, no one tells.
        """
        self._until(lambda: self.parts.connect.follows_log(self.source), "the connector follows the log")

    @property
    def bootstrap(self) -> str:
        """Where the tests themselves find Kafka."""
        return self.parts.servers.kafka_bootstrap

    @property
    def source(self) -> str:
        return f"{self.table.name}-source"

    @property
    def sink(self) -> str:
        return f"{self.table.name}-sink"

    def begin_to_look(self) -> None:
        """From now on someone reads the view."""
        self.reader = Reader(self.parts.postgres.connect(), self.table)

    def until_connected(self) -> None:
        """Until both connectors run."""
        connect = self.parts.connect
        self._until(lambda: all(map(connect.runs, (self.source, self.sink))), "both connectors run")

    def until_released(self) -> list[Meta]:
        """Until every shard has published its first snapshot; what each keeps."""

        def released() -> bool:
            self._assert_nothing_refused()
            metas = self.metas()
            return all(m.snapshot is not None and not m.snapshot.holds for m in metas)

        self._until(released, "every shard publishes its first snapshot")
        return self.metas()

    def until_arrived(self) -> None:
        """Until the sink's table is the truth about the source's, by an independent judge."""

        def arrived() -> bool:
            self._assert_nothing_refused()
            self.parts.connect.restart_failed()
            return self._nothing_waits() and not self.wrong()

        self._until(arrived, "the sink tells the truth")

    def until_looked(self, looks: int) -> Seen:
        """Ends the reader once it has looked so often."""
        reader = self.reader
        assert reader is not None
        self._until(lambda: reader.seen.looks >= looks, "the reader looks")
        self.reader = None
        return reader.stop()

    def end(self) -> None:
        """Leaves nothing running."""
        if self.reader is not None:
            self.reader.stop()
        if self.crew is not None:
            self.crew.abandon()
        with contextlib.suppress(OSError, ConnectRefused):  # a test that failed may have left it dead
            for name in (self.source, self.sink):
                self.parts.connect.delete(name)
        self.database.close()

    # -- what is seen of it -----------------------------------------------------------------------------------------

    def metas(self) -> list[Meta]:
        return [RedisStore(self._redis, self.table.name, shard).meta() or Meta() for shard in range(self.shards)]

    def marks(self) -> list[list[Mark]]:
        """What the connector's messages have said of its snapshot so far, by shard."""
        written = [read(self.bootstrap, self.table.name, "changes", shard) for shard in range(self.shards)]
        return [[mark_of(message.value()) for message in messages] for messages in written]

    def status(self) -> dict[str, Any]:
        return self.told("status", "--redis", self.parts.servers.redis_url)

    def told(self, command: str, *more: str) -> dict[str, Any]:
        """What a command says as JSON."""
        access = self.parts.access
        words = [*command.split(), "--table", str(self.path), "--kafka", access.bootstrap, *more, "--json"]
        shown: dict[str, Any] = json.loads(CliRunner(env=access.operator).invoke(main, words).stdout)
        return shown

    def wrong(self) -> dict[str, int]:
        index = self._directory / "index.csv"
        words = ["--table", str(self.path), "--redis", self.parts.servers.redis_url, "--out", str(index), "--force"]
        made = CliRunner().invoke(main, ["index", *words])
        assert made.exit_code == 0, made.output
        self.origin.show(self.database, self.people)
        return faults(self.database, self.table, index)

    def log(self) -> str:
        return self.crew.log() if self.crew is not None else ""

    def assert_nobody_was_named(self) -> None:
        """Neither a worker nor Connect has written a person's name or a password into its log."""
        said = self.log() + self.parts.connect.log()
        assert NAME not in self.log()
        assert not [secret for secret in (PASSWORD, *self.parts.access.secrets) if secret in said]

    def _assert_nothing_refused(self) -> None:
        assert sum(meta.counts.dead_letters for meta in self.metas()) == 0, self._reasons()

    def _reasons(self) -> set[str]:
        """What the dead letters say."""
        letters = [one for n in range(self.shards) for one in read(self.bootstrap, self.table.name, "dead-letters", n)]
        return {json.loads(letter.value() or b"{}").get("detail", "") for letter in letters}

    def _nothing_waits(self) -> bool:
        """Cheap, and not enough: as many rows here and there."""
        there = _one(self.database, f"SELECT count(*) FROM {sink_table(self.table)}")
        return bool(there == self.people.count())

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(holds, STEP_SECONDS, lambda: f"{what}: {self._how_it_stands()}")

    def _how_it_stands(self) -> str:
        """For whoever reads a failure."""
        letters = [(meta.next, meta.counts.dead_letters, meta.snapshot) for meta in self.metas()]
        logs = "\n".join(self.log().splitlines()[-20:])
        return f"{self.parts.connect.faults()} {letters}\n{self.status().get('problems')}\n{logs}"


def _one(database: psycopg.Connection, question: str) -> Any:
    row = database.execute(question).fetchone()
    assert row is not None
    return row[0]


def await_answer(answers: Callable[[], bool], name: str, last_words: Callable[[], str]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not answers():
        if time.monotonic() > deadline:
            raise NoServers(f"{name} did not answer within {START_SECONDS_MAX} s; its last words: {last_words()}")
        time.sleep(0.1)


Laying = Callable[..., Pipeline]
"""What the fixture `lay` gives: a pipeline of a shape, with so many shards."""
