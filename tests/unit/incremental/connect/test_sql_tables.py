"""The view shows what a reader of rows may show, and nothing of a release that is half there: run in SQLite.

By hand the same statements ran in Postgres 15; those for MySQL were parsed by sqlglot.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.incremental.connect.connectors import MYSQL, POSTGRES
from streamer.incremental.connect.sql_tables import DIALECTS, FLINK, KSQLDB, alike_columns, sql_warnings, view_sql
from streamer.table.codes import Diversity, KeptColumn
from streamer.table.published.schemas import BOOLEAN, DECIMAL, FLOAT, INTEGER, TEXT, PublishedColumn
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, LOSSY_JOIN, Table
from worlds.published_forms import AGE, CITY, published_as
from worlds.small_tables import YEARS, table

# Who may count rows in the published table, and who is warned not to.


def test_where_k_counts_individuals_a_reader_that_counts_rows_is_warned_of() -> None:
    (warning,) = sql_warnings(table(YEARS, individual="ssn"))
    assert "k counts individuals (ssn)" in warning
    assert "`streamer subscribe`" in warning, "the mend"
    assert "HAVING count(*)" in warning


def test_where_k_counts_rows_every_reader_can() -> None:
    assert list(sql_warnings(table(YEARS))) == []


@pytest.mark.parametrize(("form", "word"), [("rows", "individuals"), ("groups", None), ("lossy-join", "two topics")])
def test_what_a_reader_in_sql_must_know_depends_on_the_form(form: str, word: str | None) -> None:
    said = list(sql_warnings(replace(table(YEARS, k=2, individual="ssn"), form=form)))
    assert len(said) == (word is not None)
    assert word is None or word in said[0]


@pytest.mark.parametrize("names", [("problem", "Problem"), ("caf\u00e9", "CAF\u00c9"), ("born_LO", "other")])
def test_names_that_differ_in_capitals_only_are_warned_of(names: tuple[str, str]) -> None:
    kept = tuple(KeptColumn(name, sensitive=True) for name in names)
    said = list(alike_columns(replace(table(replace(YEARS, name="born")), kept=kept)))
    assert len(said) == 1
    assert all(repr(name) in said[0] for name in names if name != "other")
    assert list(alike_columns(replace(table(YEARS), kept=kept[:1]))) == []


# How each SQL says names and types.


@pytest.mark.parametrize(
    ("dialect", "types"),
    [
        (POSTGRES, ["text", "bigint", "numeric(5, 2)", "numeric", "boolean"]),
        (MYSQL, ["mediumtext", "bigint", "decimal(5, 2)", "double", "boolean"]),
        (FLINK, ["STRING", "BIGINT", "DECIMAL(5, 2)", "DOUBLE", "BOOLEAN"]),
        (KSQLDB, ["VARCHAR", "BIGINT", "DECIMAL(5, 2)", "DOUBLE", "BOOLEAN"]),
    ],
)
def test_every_type_has_a_name_in_every_dialect(dialect: str, types: list[str]) -> None:
    columns = [PublishedColumn("c", kind, whole_digits=3, scale=2) for kind in (TEXT, INTEGER, DECIMAL, FLOAT, BOOLEAN)]
    assert [DIALECTS[dialect].type(column) for column in columns] == types


def test_a_name_may_have_the_quote_in_it() -> None:
    assert DIALECTS[POSTGRES].name('a"b') == '"a""b"'
    assert DIALECTS[MYSQL].name("a`b") == "`a``b`"


PROBLEM = KeptColumn("problem", sensitive=True, type="text")
SMALL = Table("people", ("id",), (AGE, CITY), (PROBLEM,), k=2)

Published = tuple[str, int, int, str, str | None]
"""A row without its slot."""


def shown(table: Table, rows: list[Published]) -> Counter[Published]:
    """What the view shows of rows in the sink's table."""
    database = sqlite3.connect(":memory:")
    database.executescript(view_sql(table, POSTGRES))
    slotted = [(group, slot, *rest) for slot, (group, *rest) in enumerate(rows)]
    database.executemany("INSERT INTO people_live VALUES (?, ?, ?, ?, ?, ?)", slotted)
    found = Counter(database.execute("SELECT * FROM people_anonymous").fetchall())
    database.close()
    return found


ROW = st.tuples(
    st.sampled_from(["0-1", "0-2", "1-1"]),
    st.sampled_from([0, 5]),
    st.just(9),
    st.sampled_from(["west", "West"]),
    st.sampled_from(["flu", "cough", None]),
)


@given(st.lists(ROW, max_size=14), st.sampled_from([2, 3]), st.sampled_from([None, 2]), st.booleans())
def test_a_row_is_shown_where_enough_rows_have_its_group_and_box(
    rows: list[Published], k: int, distinct: int | None, null_counts: bool
) -> None:
    table = replace(SMALL, k=k, diversity=Diversity(l=distinct, null_counts=null_counts))

    def is_held(row: Published) -> bool:
        alike = [other for other in rows if other[:4] == row[:4]]
        values = {other[4] for other in alike if null_counts or other[4] is not None}
        return len(alike) >= k and len(values) >= (distinct or 0)

    assert shown(table, rows) == Counter(row for row in rows if is_held(row))


def test_what_rows_cannot_tell_is_said_in_the_sql_itself() -> None:
    table = replace(SMALL, individual="ssn", diversity=Diversity(beta=Decimal("0.5"), r=Decimal("0.7")))
    remarks = [line for line in view_sql(table, POSTGRES).splitlines() if line.startswith("--")]
    assert "Not counted here: beta, r." in remarks[0]
    column = replace(SMALL.kept[0], diversity=Diversity(l=3, beta=Decimal("0.5")))
    sql = view_sql(replace(SMALL, kept=(column,), diversity=Diversity(l=2)), POSTGRES)
    assert "Not counted here: beta." in sql
    assert re.findall(r"count\(DISTINCT \S+\) >= (\d)", sql) == ["3"]
    assert "k counts individuals" in remarks[1]
    assert "CREATE VIEW" in view_sql(table, POSTGRES)


def test_whole_groups_are_all_shown_and_hold_the_model_by_themselves() -> None:
    sql = view_sql(published_as(GROUPS, individual="ssn"), POSTGRES)
    assert "HAVING" not in sql
    assert "k counts individuals" not in sql
    assert 'SELECT "qi_group", "age_lo", "age_hi", "bmi_lo", "bmi_hi", "city", "size" FROM "people_live";' in sql
    assert 'PRIMARY KEY ("qi_group")' in sql


def test_mysql_compares_texts_by_their_bytes_and_has_keys_of_a_length() -> None:
    sql = view_sql(SMALL, MYSQL)
    assert "`qi_group` varchar(37) NOT NULL" in sql
    assert ") CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin;" in sql


def test_flink_reads_committed_records_of_the_topic_and_has_nested_values() -> None:
    sql = view_sql(published_as(GROUPS), FLINK, "broker:9092")
    assert "'topic' = 'people.live'" in sql
    assert "'properties.bootstrap.servers' = 'broker:9092'" in sql
    assert "'properties.isolation.level' = 'read_committed'" in sql
    assert "'value.fields-include' = 'EXCEPT_KEY'" in sql
    members = "`problem` STRING, `cost` DOUBLE, `visits` BIGINT, `smokes` BOOLEAN, `count` BIGINT"
    assert f"`values` ARRAY<ROW<{members}>>" in sql
    assert "PRIMARY KEY (`qi_group`) NOT ENFORCED" in sql


def test_ksqldb_gets_a_table_over_the_topic_and_the_rule_as_a_remark() -> None:
    sql = view_sql(SMALL, KSQLDB)
    assert "`qi_group` VARCHAR PRIMARY KEY,\n  `slot` BIGINT PRIMARY KEY,\n  `age_lo` BIGINT," in sql
    assert "WITH (KAFKA_TOPIC = 'people.live', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');" in sql
    assert "show only boxes with 2 rows or more" in sql
    assert "exactly_once_v2" in sql
    assert "CREATE VIEW" not in sql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_lossy_join_has_no_view(dialect: str) -> None:
    with pytest.raises(UsageError, match="two moments"):
        view_sql(published_as(LOSSY_JOIN), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_parenthesis_is_closed(dialect: str) -> None:
    sql = view_sql(published_as(), dialect)
    assert sql.count("(") == sql.count(")")
    assert not re.search(r"[{}]", sql), "a place that nobody filled"


def test_stream_processors_read_avro_by_a_registry_and_no_envelope() -> None:
    avro, enveloped = replace(SMALL, format=AVRO), replace(SMALL, format=CONNECT_JSON)
    flink = view_sql(avro, FLINK)
    for line in ("'key.format' = 'avro-confluent'", "'value.avro-confluent.url' = 'http://REGISTRY:8081'"):
        assert f"  {line},\n" in flink
    assert "'json'" not in flink
    assert "KEY_FORMAT = 'AVRO', VALUE_FORMAT = 'AVRO')" in view_sql(avro, KSQLDB)
    for dialect in (FLINK, KSQLDB):
        with pytest.raises(UsageError, match="publish `format: json` or `format: avro`"):
            view_sql(enveloped, dialect)
    for dialect in (POSTGRES, MYSQL):
        assert view_sql(enveloped, dialect) == view_sql(avro, dialect) == view_sql(SMALL, dialect)
