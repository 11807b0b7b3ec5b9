"""How each SQL says names and types."""

from __future__ import annotations

import pytest

from streamer.incremental.connectors.database import MYSQL, POSTGRES
from streamer.incremental.connectors.sql_dialects import DIALECTS, FLINK, KSQLDB
from streamer.table.published_types import BOOLEAN, DECIMAL, FLOAT, INTEGER, TEXT, PublishedColumn


@pytest.mark.parametrize(
    ("dialect", "types"),
    [
        (POSTGRES, ["text", "bigint", "numeric(5, 2)", "double precision", "boolean"]),
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
