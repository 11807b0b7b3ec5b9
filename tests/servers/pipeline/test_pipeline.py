"""People's changes arrive: Postgres, Debezium, two workers, the JDBC sink, Postgres; nothing of it is played."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import psycopg
import pytest

from servers.pipeline.configurations import Shape, source_sql
from servers.pipeline.pipeline import Laying, Parts, Pipeline
from servers.pipeline.readers import of_the_console, of_the_sink
from servers.pipeline.sources import PartitionedSource, PayingSource
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.incremental.remedies import OF_DEAD_LETTERS
from streamer.incremental.store.base import ELSEWHERE, LAST, QUIET
from streamer.table.published.schemas import sink_table
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.kafka_and_redis import read, write
from worlds.workers import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS, CHANGES, LOOKS = 2000, 2000, 400
FEW = 300


@pytest.fixture(scope="module")
def asked(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A way whose connector was asked for a snapshot between changes.

    Its rows are published after half a minute without any: so it is laid before all others, and looked at last.
    """
    shape = Shape(snapshot="no_data")
    pipeline = Pipeline(parts, tmp_path_factory.mktemp("asked"), shape)
    try:
        pipeline.begin(FEW, workers=1, looked_at=False)
        pipeline.until_source_reads()
        pipeline.people.read_again()
        yield pipeline
    finally:
        pipeline.end()


@pytest.mark.usefixtures("asked")
def test_every_change_arrives_and_no_look_sees_less_than_k(lay: Laying) -> None:
    """Rows come, change and go, some get another primary key, a column is added, all is read again in between."""
    pipeline = lay(Shape())
    pipeline.begin(ROWS)
    metas = pipeline.until_released()
    assert [meta.release for meta in metas] == [0] * pipeline.shards
    assert {meta.snapshot.ended for meta in metas if meta.snapshot} == {LAST, ELSEWHERE}
    assert Counter(mark for marks in pipeline.marks() for mark in marks) == {Mark.READ: ROWS - 1, Mark.LAST: 1}
    pipeline.people.change(CHANGES // 2)
    pipeline.people.read_again()
    pipeline.people.add_column()
    pipeline.people.change(CHANGES // 2)
    pipeline.until_arrived()
    seen = pipeline.until_looked(LOOKS)
    assert (seen.broken, pipeline.status()["problems"]) == (0, [])
    assert of_the_console(pipeline.bootstrap, pipeline.table, pipeline.shards) == of_the_sink(
        pipeline.database, pipeline.table
    )
    pipeline.assert_nobody_was_named()


def test_every_change_of_a_partitioned_table_arrives_with_moves_between_partitions(lay: Laying, parts: Parts) -> None:
    """Before: changes came under the partitions' names, which the connector leaves out: none arrived, in silence."""
    pipeline = lay(Shape(), origin=PartitionedSource(parts.place))
    pipeline.begin(FEW, workers=1, looked_at=False)
    pipeline.until_released()
    pipeline.until_source_reads()
    pipeline.people.change(2 * FEW)
    pipeline.people.read_again()
    pipeline.until_arrived()
    assert pipeline.status()["problems"] == []
    identities = pipeline.database.execute(
        "SELECT relreplident FROM pg_class WHERE relname LIKE %s AND relkind = 'r'", (f"{pipeline.table.name}_%",)
    ).fetchall()
    assert [*identities][:3] == [("f",)] * 3


def test_a_table_that_others_inherit_from_is_refused_by_the_printed_sql(parts: Parts) -> None:
    parts.start()
    with parts.postgres.connect() as database:
        database.execute("CREATE TABLE old_people (id integer PRIMARY KEY)")
        database.execute("CREATE TABLE young_people () INHERITS (old_people)")
        table = replace(load_table(PATIENTS), name="old_people")
        with pytest.raises(psycopg.Error, match=r'tables inherit from "public"\."old_people"'):
            database.execute(source_sql(table).encode())


def test_a_column_that_was_renamed_heals_by_the_printed_row_and_a_dead_sink_by_the_printed_call(
    lay: Laying, parts: Parts
) -> None:
    """Long numbers arrive with all their digits."""
    pipeline = lay(Shape(), shards=1, origin=PayingSource(parts.place))
    pipeline.begin(FEW, workers=1, looked_at=False)
    pipeline.until_released()
    pipeline.until_source_reads()
    pipeline.until_arrived()
    name, database = pipeline.table.name, pipeline.database
    database.execute(f"ALTER TABLE {name} RENAME age TO years".encode())
    database.execute(f"UPDATE {name} SET zip = 10000 WHERE id <= 50".encode())
    database.execute(f"DELETE FROM {name} WHERE id <= 5".encode())
    wait_until(lambda: pipeline.metas()[0].counts.dead_letters == 50, 60, pipeline.log)
    (told,) = pipeline.status()["problems"]
    assert "50 of the latest" in told or "of the last minutes were refused" in told
    (reason,) = pipeline.told("dead-letters")["reasons"]
    assert reason["reason"] == "missing-column" and "execute-snapshot" in OF_DEAD_LETTERS["missing-column"]
    database.execute(f"ALTER TABLE {name} RENAME years TO age".encode())
    (printed,) = re.findall(r"(?m)^-- (INSERT INTO .*);$", source_sql(pipeline.table))
    database.execute(printed.encode())
    wait_until(lambda: not pipeline.wrong(), 60, pipeline.log)
    assert pipeline.status()["problems"] != []
    assert pipeline.told("dead-letters acknowledge")["acknowledged"] == 50
    status = pipeline.status()
    assert (status["problems"], [one for one in status["warnings"] if "did not have" in one]) == ([], [])
    sink = sink_table(pipeline.table)
    database.execute(f"ALTER TABLE {sink} RENAME TO {sink}_away".encode())
    database.execute(f"DELETE FROM {name} WHERE id = 100".encode())
    doctor = partial(pipeline.told, "doctor", "--redis", parts.servers.redis_url, "--connect")
    address = f"127.0.0.1:{parts.connect.port}"
    wait_until(lambda: not doctor(address)["ok"], 60, pipeline.log)
    (part,) = [one for one in doctor(address)["parts"] if one["ok"] is False]
    database.execute(f"ALTER TABLE {sink}_away RENAME TO {sink}".encode())
    assert f"of {pipeline.sink} is FAILED" in part["said"]
    for call in re.findall(r"`curl (-X POST [^`]+)`", part["said"]):
        subprocess.run(["curl", "-sSf", *call.replace("'", "").split()], check=True)
    wait_until(lambda: not pipeline.wrong(), 60, pipeline.log)


def test_a_snapshot_whose_messages_come_a_second_time_publishes_nobody_again_who_was_deleted(lay: Laying) -> None:
    """As from a copy of the topic; the messages are Debezium's own, with its own positions."""
    pipeline = lay(Shape(), shards=2)
    pipeline.begin(FEW, workers=1, looked_at=False)
    pipeline.until_released()
    pipeline.until_source_reads()
    pipeline.people.change(2 * FEW)
    pipeline.until_arrived()
    name, table = pipeline.bootstrap, pipeline.table.name
    snapshot = [
        (shard, message.key(), message.value())
        for shard in range(2)
        for message in read(name, table, "changes", shard)
        if mark_of(message.value()) in (Mark.READ, Mark.LAST)
    ]
    assert len(snapshot) == FEW
    write(name, f"{table}.changes", snapshot)
    wait_until(lambda: sum(meta.counts.old_reads for meta in pipeline.metas()) > FEW // 2, 60, pipeline.log)
    pipeline.database.execute(f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})".encode())
    pipeline.until_arrived()
    assert pipeline.status()["problems"] == []


def test_a_truncated_table_of_one_shard_is_empty_and_fills_again(lay: Laying) -> None:
    pipeline = lay(Shape(schemas=False), shards=1)
    pipeline.begin(FEW, workers=1)
    (meta,) = pipeline.until_released()
    assert meta.release == 0
    assert meta.snapshot is not None and meta.snapshot.ended == LAST
    assert pipeline.marks() == [[*[Mark.READ] * (FEW - 1), Mark.LAST]]
    pipeline.people.truncate()
    pipeline.people.load(FEW)
    pipeline.people.change(FEW)
    pipeline.until_arrived()
    assert pipeline.status()["problems"] == []
    (marks,) = pipeline.marks()
    assert set(marks[FEW:]) == {Mark.CHANGE, Mark.NOTHING}


def test_a_snapshot_between_changes_is_published_whole_after_it_was_quiet(asked: Pipeline) -> None:
    """The connector begins without a snapshot; an operator asks it for an incremental one."""
    metas = asked.until_released()
    assert [meta.release for meta in metas] == [0] * asked.shards
    assert {meta.snapshot.ended for meta in metas if meta.snapshot} == {QUIET}
    assert {mark for marks in asked.marks() for mark in marks} == {Mark.INCREMENTAL}
    asked.until_arrived()
