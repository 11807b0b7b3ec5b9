"""One door to rows: files of every encoding, workbooks, databases; and no secret that comes back out of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.table.codes import KeptColumn
from streamer.table.encode import Encoder
from streamer.table.parquet_files import parquet_parts, read_part
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from worlds.calls import streamer
from worlds.checkout import PATIENTS

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
    assert RowSource(place, told).rows().to_dict("records") == [{"id": "7", "town": town}]


@pytest.mark.parametrize(("told", "says"), [(None, "--encoding cp1252"), ("ascii", "is not ascii text, as --encoding")])
def test_text_of_another_encoding_is_refused_with_the_remedy(tmp_path: Path, told: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RowSource(saved(tmp_path / "rows.csv", "id,town\n7,Köln\n".encode("cp1252")), told).rows()


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
        RowSource(*source)
    assert CANARY not in str(refused.value)


def test_a_table_of_sqlite_is_read_by_types(tmp_path: Path) -> None:
    place = tmp_path / "people.db"
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age REAL, name TEXT)")
        connection.execute("INSERT INTO people VALUES (1, NULL, ?)", [CANARY])
    connection.close()
    source = RowSource(f"sqlite:///{place}?table=people")
    assert source.rows().to_dict("records") == [{"id": 1, "age": None, "name": CANARY}]
    assert (source.stem, source.files) == ("people", [place])
    for query in ("DELETE FROM people", f"SELECT nothing FROM people WHERE name = '{CANARY}'"):
        with pytest.raises(ConfigError) as refused:
            RowSource(f"sqlite:///{place}", query=query).rows()
        assert CANARY not in str(refused.value)
    assert len(source.rows()) == 1


def test_a_query_of_duckdb_is_read_by_types(tmp_path: Path) -> None:
    place = tmp_path / "people.duckdb"
    with duckdb.connect(place) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT 1 AS id, DATE '2020-01-02' AS born, 1.50::DECIMAL(5,2) AS cost"
        )
    (row,) = RowSource(f"duckdb:///{place}", query="SELECT * FROM people").rows().to_dict("records")
    assert [str(value) for value in row.values()] == ["1", "2020-01-02", "1.50"]
    with pytest.raises(ConfigError, match="there is no such table"):
        RowSource(f"duckdb:///{place}?table=nobody").rows()
    for query in ("DROP TABLE people", f"COPY people TO '{tmp_path}/stolen.csv'"):
        with pytest.raises(ConfigError):
            RowSource(f"duckdb:///{place}", query=query).rows()
    assert (len(RowSource(f"duckdb:///{place}?table=people").rows()), list(tmp_path.glob("stolen*"))) == (1, [])


def test_parts_of_a_database_are_its_rows_in_their_order(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "n.duckdb") as connection:
        connection.execute("CREATE TABLE n AS SELECT range AS id FROM range(5000)")
    with sqlite3.connect(tmp_path / "n.db") as other:
        other.execute("CREATE TABLE n (id)")
        other.executemany("INSERT INTO n VALUES (?)", ((i,) for i in range(5000)))
    other.close()
    for url in (f"duckdb:///{tmp_path}/n.duckdb", f"sqlite:///{tmp_path}/n.db"):
        parts = list(RowSource(f"{url}?table=n").parts(2048))
        assert [len(part) for part in parts] == [2048, 2048, 904]
        assert [int(id_) for part in parts for id_ in part["id"]] == list(range(5000))
        assert sum(map(len, RowSource(url, query="SELECT * FROM n WHERE id < 0").parts(2048))) == 0


def test_a_value_that_duckdb_cannot_convert_in_a_later_part_is_not_quoted(tmp_path: Path) -> None:
    place = tmp_path / "people.duckdb"
    with duckdb.connect(place) as connection:
        wrong = f"CASE WHEN range = 290000 THEN '{CANARY}' ELSE range::VARCHAR END"
        connection.execute(f"CREATE TABLE people AS SELECT {wrong} AS age FROM range(300000)")
    parts = RowSource(f"duckdb:///{place}", query="SELECT age::INT AS age FROM people").parts(2048)
    with pytest.raises(ConfigError, match=r"people\.duckdb: cannot be read: the database refuses the query") as refused:
        list(parts)
    assert CANARY not in str(refused.value) and refused.value.__suppress_context__


def test_a_url_in_a_variable_may_hold_a_password_that_never_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC", f"postgresql://me:{CANARY}@127.0.0.1:1/clinic?table=people&connect_timeout=2")
    source = RowSource("env:CLINIC")
    with pytest.raises(StreamerError, match="cannot be reached") as refused:
        source.rows()
    assert source.name == "postgresql://127.0.0.1:1/clinic table people"
    assert CANARY not in f"{refused.value}{source!r}{source}{source.words}"


@pytest.mark.parametrize("is_folder", [False, True])
def test_timestamps_of_spark_and_hive_keep_their_years(tmp_path: Path, is_folder: bool) -> None:
    texts = ["9999-12-31T23:59:59", "1600-01-01T00:00:00", "0001-01-01T00:00:00", "2020-01-01T00:00:00.123456"]
    moments = pa.array(np.array(texts, dtype="datetime64[us]").astype(np.int64)).cast(pa.timestamp("us"))
    place = tmp_path / ("part" if is_folder else ".") / "rows.parquet"
    place.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"until": moments}), place, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(place).schema.column(0).physical_type == "INT96"
    source = RowSource(str(place.parent if is_folder else place))
    for frame in (source.rows(), *source.parts(10)):
        assert [cell.isoformat() for cell in frame["until"]] == texts


def test_a_column_that_is_not_wanted_is_there_and_was_not_read(tmp_path: Path) -> None:
    people = {"id": [1, 2], "a.b": ["x", "y"], "photo": [b"1", b"2"], "until": pa.array([2**31 - 1, 0], pa.int32())}
    columns = pa.table(people)
    pq.write_table(columns, tmp_path / "people.parquet")
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute("CREATE TABLE people AS FROM columns")
    with sqlite3.connect(tmp_path / "people.db") as other:
        other.execute('CREATE TABLE people (id, "a.b", photo, until TEXT)')
        other.executemany("INSERT INTO people VALUES (?, ?, ?, CAST(x'ff' AS TEXT))", [(1, "x", b"1"), (2, "y", b"2")])
    other.close()
    for place in ("people.parquet", "duckdb:///{}/people.duckdb?table=people", "sqlite:///{}/people.db?table=people"):
        source = RowSource(place.format(tmp_path) if ":" in place else str(tmp_path / place))
        for frame in (source.rows(["id", "a.b"]), pd.concat(source.parts(1, ["id", "a.b", "nowhere"]))):
            assert list(frame.columns) == [*people]
            assert (list(frame["id"]), list(frame["a.b"])) == ([1, 2], ["x", "y"])
            assert frame[["photo", "until"]].isna().all(axis=None)


@pytest.mark.parametrize("value", ["INTERVAL 1 YEAR", "union_value(a := 1)", "[1, 2]", "{'a': 1}", "'x'::BLOB"])
def test_a_column_that_nothing_here_can_hold_is_refused_by_its_name_and_closes_no_other(
    tmp_path: Path, value: str
) -> None:
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute(f"CREATE TABLE people AS SELECT range AS id, 40 AS age, {value} AS odd FROM range(4)")
    for query in ({"query": "SELECT * FROM people"}, {}):
        source = RowSource(f"duckdb:///{tmp_path}/people.duckdb" + ("" if query else "?table=people"), **query)
        whole, (part,) = source.rows(), source.parts(10)
        assert list(whole["age"]) == list(part["age"]) == [40] * 4
        for frame in (whole, part):
            with pytest.raises(ConfigError, match=r"column 'odd'.*neither text, number, boolean nor null"):
                Encoder(Table("people", ("id",), (), (KeptColumn("odd", sensitive=True),), k=2)).frame(frame)


def test_a_column_that_table_yaml_does_not_name_cannot_close_a_database(tmp_path: Path) -> None:
    place = tmp_path / "people.db"
    (tmp_path / "table.yaml").write_text(
        "table: people\nkey: id\ncolumns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5}\n"
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age INTEGER, name TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, 40, CAST(x'ff' AS TEXT))", [(1,), (2,)])
    connection.close()
    url = f"sqlite:///{place}?table=people"
    for words in (["check", "--data", url], ["anonymize", url, "-o", "-"]):
        done = streamer(words[0], "--table", tmp_path, *words[1:])
        assert done.exit_code == 0, done.stderr
    assert "columns that never leave: id, name" in streamer("check", "--table", tmp_path, "--data", url).stdout


# -- the commands -----------------------------------------------------------------------------------------------------


def test_the_same_rows_give_the_same_published_table_from_everywhere(tmp_path: Path) -> None:
    rows = PATIENTS / "rows.csv"
    with duckdb.connect(tmp_path / "p.duckdb") as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM read_csv('{rows}')")
    frame = pd.read_csv(rows)
    with sqlite3.connect(tmp_path / "p.db") as other:
        frame.to_sql("people", other, index=False)
    other.close()
    (tmp_path / "p.csv").write_text(rows.read_text(), encoding="utf-16")
    url, out = f"sqlite:///{tmp_path}/p.db", tmp_path / "out.csv"
    for words in ([rows], [f"duckdb:///{tmp_path}/p.duckdb?table=people"], [url, "--query", "select * from people"],
                  [tmp_path / "p.csv"]):  # fmt: skip
        more = ("-o", out, "--seed", 1, "--report", tmp_path / "r.html", "--force")
        said = streamer("anonymize", "--table", PATIENTS, *words, *more)
        assert said.exit_code == 0, said.output
        assert out.read_text() == streamer("anonymize", "--table", PATIENTS, rows, "-o", "-", "--seed", 1).stdout
    assert streamer("init", f"{url}?table=people", "-o", tmp_path / "mine").exit_code == 0
    said = streamer("check", "--table", PATIENTS, "--data", f"{url}?table=people", "--no-costs")
    assert said.exit_code == 0, said.output
    said = streamer(
        "anonymize", "--table", PATIENTS, f"{url}?table=people", "-o", tmp_path / "f", "--fragment-rows", 1000
    )
    assert (said.exit_code, "--fragment-rows reads CSV and Parquet" in said.output) == (2, True)


@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("name", ["b.parquet", "a.parquet"])
def test_a_file_that_vanishes_while_a_folder_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, when: str
) -> None:
    for each in ("a.parquet", "b.parquet"):
        pd.DataFrame({"id": ["1", "2"], "age": [30, 31]}).to_parquet(tmp_path / each)
    part = next(part for part in parquet_parts(tmp_path, 2) if part.file.endswith(name))
    opened = ds.dataset

    def vanishing(*words: Any, **more: Any) -> object:
        found = opened(*words, **more)
        (tmp_path / name).unlink(missing_ok=True)
        return found

    if when == "before":
        (tmp_path / name).unlink()
    else:
        monkeypatch.setattr(ds, "dataset", vanishing)
    with pytest.raises(ConfigError, match=f"{name if when == 'before' else tmp_path}.* was there .* and is gone"):
        list(read_part(part, 10))
