"""One door to rows: files of every encoding, workbooks, databases; and no secret that comes back out of it."""

from __future__ import annotations

import sqlite3
import zipfile
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.table.sources import RowSource
from worlds.calls import streamer
from worlds.checkout import PATIENTS

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OF_DOCUMENTS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OF_PACKAGES = "http://schemas.openxmlformats.org/package/2006/relationships"

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


# -- workbooks --------------------------------------------------------------------------------------------------------


def workbook(path: Path, **sheets: str) -> str:
    """A workbook of Excel, with sheets as Excel writes them; cells of style 1 are days."""
    numbered = list(enumerate(sheets.items(), start=1))
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, (name, _) in numbered)
    related = "".join(
        f'<Relationship Id="r{n}" Type="{_OF_DOCUMENTS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n, _ in numbered
    )
    related += f'<Relationship Id="s" Type="{_OF_DOCUMENTS}/styles" Target="styles.xml"/>'
    days = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs>'
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{_OF_PACKAGES}"><Relationship Id="b"'
        f' Type="{_OF_DOCUMENTS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OF_DOCUMENTS}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_OF_PACKAGES}">{related}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}">{days}</styleSheet>',
    }
    for n, (_, rows) in numbered:
        parts[f"xl/worksheets/sheet{n}.xml"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return str(path)


def cells(number: int, *written: str) -> str:
    """A row of a sheet; a text in quotation marks is one, d12 a day, ! an error, empty no cell, others are numbers."""
    row = ""
    for letter, text in zip("ABCDEFG", written, strict=False):
        at = f'r="{letter}{number}"'
        if text.startswith("'"):
            row += f'<c {at} t="inlineStr"><is><t>{text[1:]}</t></is></c>'
        elif text.startswith("d"):
            row += f'<c {at} s="1"><v>{text[1:]}</v></c>'
        elif text == "!":
            row += f'<c {at} t="e"><v>#N/A</v></c>'
        elif text:
            row += f"<c {at}><v>{text}</v></c>"
    return f'<row r="{number}">{row}</row>'


def test_a_sheet_of_a_workbook_is_read_by_types(tmp_path: Path) -> None:
    people = (
        cells(1, "'id", "'born", "'cost", "'town")
        + cells(2, "7", "d43832", "1.5", "'Köln")
        + cells(3, "8", "", "!", "'0123")
    )
    source = RowSource(workbook(tmp_path / "clinic.xlsx", people=people))
    frame = source.rows()
    assert frame.to_dict("list") == {
        "id": [7, 8], "born": [date(2020, 1, 2), None], "cost": [1.5, None], "town": ["Köln", "0123"],
    }  # fmt: skip
    assert source.stem == "clinic"


def test_of_several_sheets_one_must_be_named(tmp_path: Path) -> None:
    place = workbook(tmp_path / "clinic.xlsx", old=cells(1, "'id") + cells(2, "1"), new=cells(1, "'id") + cells(2, "2"))
    with pytest.raises(UsageError, match="say which sheet by --sheet: 'old', 'new'"):
        RowSource(place).rows()
    assert RowSource(place, sheet="new").rows().to_dict("list") == {"id": [2]}
    with pytest.raises(ConfigError, match="cannot be read as a workbook"):
        RowSource(saved(tmp_path / "none.xlsx", b"PK"), sheet="new").rows()


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
