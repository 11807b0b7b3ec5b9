"""One door to rows: files of every encoding, workbooks, databases; and no secret that comes back out of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pytest

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.table.sources import Source

CANARY = "Canary-7317"


def saved(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("written", "told"),
    [("cp1252", "windows-1252"), ("shift_jis", "shift_jis"), ("utf-16", None), ("utf-16-le", None), ("utf-32", None),
     ("utf-8-sig", "cp1252"), ("utf-8", "utf-8"), ("utf-16-be", None)],
)  # fmt: skip
def test_text_is_what_its_mark_says_or_what_is_told(tmp_path: Path, written: str, told: str | None) -> None:
    town = "東京" if written == "shift_jis" else "Köln"
    place = saved(tmp_path / "rows.csv", f"id,town\n7,{town}\n".encode(written))
    assert Source(place, told).rows().to_dict("records") == [{"id": "7", "town": town}]


@pytest.mark.parametrize(("told", "says"), [(None, "--encoding cp1252"), ("ascii", "is not ascii text, as --encoding")])
def test_text_of_another_encoding_is_refused_with_the_remedy(tmp_path: Path, told: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Source(saved(tmp_path / "rows.csv", "id,town\n7,Köln\n".encode("cp1252")), told).rows()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (("rows.csv", "rot13"), "is no encoding"),
        (("rows.parquet", "cp1252"), "is for CSV"),
        (("rows.csv", None, "People"), "is for a workbook"),
        (("rows.csv", None, None, "select 1"), "is for a database"),
        ((f"postgresql://me:{CANARY}@host/db",), "PGPASSWORD"),
        ((f"mysql://me@host/db?password={CANARY}",), "MYSQL_PWD"),
        ((f"postgresql://m/e:{CANARY}@host/db",), "@ as %40"),
        ((f"postgresql://me@host:{CANARY}/db",), "is not a URL such as"),
        ((f"oracle://me:{CANARY}@host/db",), "must begin with one of"),
    ],
)
def test_what_does_not_go_together_is_refused_without_a_secret(source: tuple[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        Source(*source)
    assert CANARY not in str(refused.value)


def test_a_table_of_sqlite_is_read_by_types(tmp_path: Path) -> None:
    place = tmp_path / "people.db"
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age REAL, name TEXT)")
        connection.execute("INSERT INTO people VALUES (1, NULL, ?)", [CANARY])
    connection.close()
    source = Source(f"sqlite:///{place}?table=people")
    assert source.rows().to_dict("records") == [{"id": 1, "age": None, "name": CANARY}]
    assert (source.stem, source.files) == ("people", [place])
    for query in ("DELETE FROM people", f"SELECT nothing FROM people WHERE name = '{CANARY}'"):
        with pytest.raises(ConfigError) as refused:
            Source(f"sqlite:///{place}", query=query).rows()
        assert CANARY not in str(refused.value)
    assert len(source.rows()) == 1


def test_a_query_of_duckdb_is_read_by_types(tmp_path: Path) -> None:
    place = tmp_path / "people.duckdb"
    with duckdb.connect(place) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT 1 AS id, DATE '2020-01-02' AS born, 1.50::DECIMAL(5,2) AS cost"
        )
    (row,) = Source(f"duckdb:///{place}", query="SELECT * FROM people").rows().to_dict("records")
    assert [str(value) for value in row.values()] == ["1", "2020-01-02", "1.50"]
    with pytest.raises(ConfigError, match="there is no such table"):
        Source(f"duckdb:///{place}?table=nobody").rows()


def test_a_url_in_a_variable_may_hold_a_password_that_never_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC", f"postgresql://me:{CANARY}@127.0.0.1:1/clinic?table=people&connect_timeout=2")
    source = Source("env:CLINIC")
    with pytest.raises(StreamerError, match="cannot be reached") as refused:
        source.rows()
    assert source.name == "postgresql://127.0.0.1:1/clinic table people"
    assert CANARY not in f"{refused.value}{source!r}{source}{source.words}"
