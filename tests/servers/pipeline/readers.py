"""Readers of the changelog that are no one's of this project: each folds `live` to a table, as its users would.

A row of such a table is what its record said, under QI group and slot. All of them read committed records alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from servers.broker.processes import JARS, SHORT_LIVED, fetch, install, is_present
from servers.pipeline.connect import CLASSES, LOGGING
from streamer.incremental.connect.sql_tables import FLINK, view_sql
from streamer.incremental.topics import LIVE, topic_name
from streamer.table.published.rows import published_columns
from streamer.table.published.schemas import sink_table
from streamer.table.schema import Table
from worlds.kafka_and_redis import read

HERE = Path(__file__).parent / "readers"
READERS = JARS.parent / "readers-1.20.1"
READ_SECONDS_MAX = 300
QUIET_MS = 60_000
"""How long the console consumer waits for a record before it gives up."""

OPENED = ("java.util", "java.lang", "java.time", "java.nio", "java.util.concurrent.atomic")
"""Packages of Java's that Flink looks into."""

Rows = Mapping[tuple[str, int], Mapping[str, Any]]


def provide() -> None:
    """Sees that a Java compiler and the jars of Kafka Streams and Flink are there; raises NoServers."""
    if not is_present("javac"):
        install(["default-jdk-headless"], "a Java compiler is needed: install default-jdk-headless (Debian's name)")
    fetch("the jars of Kafka Streams and Flink", HERE / "pom.xml", READERS)


def of_the_sink(database: psycopg.Connection, table: Table) -> Rows:
    """The sink's table in Postgres."""
    columns = ("slot", *published_columns(table))
    told = database.execute(f"SELECT {', '.join(columns)} FROM {sink_table(table)}").fetchall()
    rows = [dict(zip(columns, map(_exact, row), strict=True)) for row in told]
    return {(row["qi_group"], row.pop("slot")): row for row in rows}


def of_the_console(bootstrap: str, table: Table, shards: int) -> Rows:
    """Kafka's console consumer, whose lines are folded as a script would."""
    count = sum(len(read(bootstrap, table.name, LIVE, shard)) for shard in range(shards))
    options = {
        "bootstrap-server": bootstrap,
        "topic": topic_name(table.name, LIVE),
        "isolation-level": "read_committed",
        "formatter-property": "print.key=true",
        "max-messages": str(count),
        "timeout-ms": str(QUIET_MS),
    }
    told = [word for name, value in options.items() for word in (f"--{name}", value)]
    lines = _java(f"{CLASSES}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--from-beginning", *told)
    rows: dict[tuple[str, int], Mapping[str, Any]] = {}
    for line in lines:
        record_key, _, value = line.partition("\t")
        if value == "null":
            rows.pop(_place(record_key), None)
        else:
            rows[_place(record_key)] = _row(value)
    return rows


def of_kafka_streams(bootstrap: str, table: Table, state: Path) -> Rows:
    """A KTable, with exactly-once processing."""
    source = str(HERE / "FoldInKafkaStreams.java")
    lines = _java(f"{READERS}/*", source, bootstrap, topic_name(table.name, LIVE), str(state))
    told = (line.partition("\t") for line in lines)
    return {_place(record_key): _row(value) for record_key, _, value in told}


def of_flink(bootstrap: str, table: Table, folder: Path) -> Rows:
    """Flink's upsert-kafka by its Table API; the changes that Flink makes of it are folded by primary key."""
    statement = folder / "live.sql"
    statement.write_text(flink_sql(table, bootstrap))
    rows: dict[tuple[str, int], Mapping[str, Any]] = {}
    for line in _java(f"{READERS}/*", str(HERE / "FoldInFlink.java"), str(statement), sink_table(table)):
        kind, _, value = line.partition("\t")
        row = _row(value)
        place = row["qi_group"], row.pop("slot")
        if kind in ("+I", "+U"):
            rows[place] = row
        elif kind == "-D":
            del rows[place]
    return rows


def flink_sql(table: Table, bootstrap: str) -> str:
    """Flink's CREATE TABLE as `streamer connect view` prints it, read up to the end that the topic has now."""
    made, _, _ = view_sql(table, FLINK, bootstrap).partition(";\n")
    return f"{made[: made.rindex(')')].rstrip()},\n  'scan.bounded.mode' = 'latest-offset'\n)"


def _row(value: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(value, parse_float=Decimal)
    return said


def _exact(value: Any) -> Any:
    """The same, a binary float as the shortest decimal that it stands for."""
    return Decimal(repr(value)) if isinstance(value, float) else value


def _place(record_key: str) -> tuple[str, int]:
    named = json.loads(record_key)
    return named["qi_group"], named["slot"]


def _java(classes: str, *words: str) -> list[str]:
    """Lines that a Java program prints; a source file is compiled on the way."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
    java = ["java", "-Xmx512m", *SHORT_LIVED, *opened, f"-Dlog4j2.configurationFile={LOGGING}"]
    command = [*java, "-cp", classes, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READ_SECONDS_MAX)
    assert done.returncode == 0, done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "\t" in line and line[0] in "{+-"]  # the rest is their logs
