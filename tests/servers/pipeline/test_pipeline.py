"""People's changes arrive: Postgres, Debezium, two workers, the JDBC sink, Postgres; nothing of it is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from servers.pipeline.configurations import Shape, source_sql
from servers.pipeline.pipeline import Laying, Parts, Pipeline
from servers.pipeline.readers import of_the_console, of_the_sink
from servers.pipeline.sources import PartitionedSource
from streamer.incremental.events.snapshot_marks import Mark
from streamer.incremental.store.base import ELSEWHERE, LAST, QUIET
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS

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
