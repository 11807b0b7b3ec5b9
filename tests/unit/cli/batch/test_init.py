"""`streamer init`: a first table.yaml that loads, fits its data, and says what there is to check."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes import KeptColumn
from streamer.table.data_warnings import refused_rows
from streamer.table.encode import Encoder
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.checkout import PATIENTS, ROOT
from worlds.people_files import begun, init, write

# -- the whole way --------------------------------------------------------------------------------------------------


def test_what_it_writes_can_be_anonymized_at_once(tmp_path: Path) -> None:
    result = init(PATIENTS / "rows.csv", tmp_path / "mine")
    assert result.exit_code == 0, result.output
    table = load_table(tmp_path / "mine")
    assert (table.source_key, table.k) == (("id",), 5)
    assert [a.name for a in table.attributes] == ["age", "zip", "bmi", "sex"]
    assert table.kept == (KeptColumn("problem", sensitive=True, type="text"),)
    arguments = ("--table", tmp_path / "mine", PATIENTS / "rows.csv", "-o", tmp_path / "out.csv")
    anonymized = streamer("anonymize", *arguments)
    assert anonymized.exit_code == 0, anonymized.output
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 41


def test_names_are_nowhere_in_what_it_writes_or_says(tmp_path: Path) -> None:
    result = init(PATIENTS / "rows.csv", tmp_path / "mine")
    written = [path.read_text() for path in (tmp_path / "mine").rglob("*.*") if path.is_file()]
    assert len(written) == 2  # table.yaml and the hierarchy of sex
    assert not [text for text in (*written, result.output) if "Person 001" in text]
    assert "The values of the categories are in" in result.stdout
    assert "check every line" in result.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "hierarchies").mkdir()
    (tmp_path / "hierarchies" / "sex.csv").write_text("mine")
    result = init(PATIENTS / "rows.csv", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "sex.csv: exists already and is not overwritten" in result.stderr
    assert not (tmp_path / "table.yaml").exists()
    assert (tmp_path / "hierarchies" / "sex.csv").read_text() == "mine"


def test_adult_with_a_key_is_drafted_whole(adult: Path, tmp_path: Path) -> None:
    frame = read_rows(adult / "adult.csv").head(3000)
    table, _ = begun(tmp_path, **{name: frame[name].tolist() for name in frame.columns})
    assert len(table.attributes) == 8
    assert [column.name for column in table.kept] == ["salary-class"]
    assert len(Encoder(table).frame(read_rows(tmp_path / "rows.csv")).codes) == 3000


@given(st.data())
def test_whatever_the_columns_hold_it_loads_and_every_row_fits(data: st.DataObject) -> None:
    cells = st.one_of(
        st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999).map(str)),
        st.lists(st.integers(-(10**15), 10**15).map(str)),
        st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32).map(str)),
        st.lists(st.sampled_from(["", "x", "*", "(none)", " y", 'a"b', "a;b", "a,b", "true", "no", "é", "#"])),
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=6)),
        st.lists(st.dates().map(str)),
        st.lists(st.dates().map(lambda day: f"{day:%d.%m.}{day.year:04}")),
        st.lists(st.sampled_from(["1,234", "7", "?", "NA", "-", "12.5", "0", "1", "N/A", "none"])),
        st.lists(st.from_regex(r"[0-9]{5}", fullmatch=True)),
    )
    n = data.draw(st.integers(4, 12))
    names = st.one_of(st.text(max_size=8), st.sampled_from(["age", "age_lo", "zip", "qi_group", "income", "a: b", "é"]))
    columns = {"id": [str(i) for i in range(n)], "sure": ["1", "2"] * (n // 2) + ["1"] * (n % 2)}
    for name in data.draw(st.lists(names.filter(lambda name: "\r" not in name), max_size=4, unique=True)):
        some = data.draw(cells) or [""]
        columns.setdefault(name, [some[i * 7 % len(some)] for i in range(n)])
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder) / "rows.csv", columns)
        result = init(source, Path(folder) / "out")
        assert result.exit_code == 0, result.output
        table = load_table(Path(folder) / "out")
        assert len(Encoder(table).frame(read_rows(source)).codes) == n


def test_a_file_without_a_key_can_be_checked_compared_and_anonymized_but_not_streamed(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", {"age": ["31", "31", "44", "44"], "sex": ["f", "f", "m", "m"]})
    drafted = init(rows, tmp_path / "out")
    assert drafted.exit_code == 0, drafted.output
    assert "no column that can be a key is different in every row" in drafted.stdout
    table, out, index = ("--table", tmp_path / "out"), tmp_path / "anonymous.csv", tmp_path / "index.csv"
    for words in (("check", *table, "--data", rows), ("anonymize", *table, rows, "-o", out, "--index", index)):
        result = streamer(*words)
        assert result.exit_code == 0, result.output
    assert len(read_rows(out)) == 4
    assert read_rows(index)["key"].tolist() == ["1", "2", "3", "4"]
    streamed = streamer("produce", *table, rows)
    assert streamed.exit_code == 2
    assert "key: is missing; only `check`, `compare` and `anonymize` work without one" in streamed.stderr


# -- categories and what is left out --------------------------------------------------------------------------------


def test_two_columns_that_would_be_published_under_one_name_are_told_apart(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["1", "2", "3", "4"], age_lo=["x", "x", "y", "y"], qi_group=["a", "a", "b", "b"])
    assert [a.name for a in table.attributes] == ["age"]
    assert text.count("would be published under a name that is taken") == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["1"], "age": ["3"]}, "has 1 row; a table needs at least two"),
        ({"id": [], "age": []}, "has 0 rows"),
        (
            {"id": ["1", "2"], "name": ["x", "y"], "sex": ["m", "f"]},
            "no column looks like a quasi-identifier ('name': its name says that it identifies people, its",
        ),
        ({"1": ["2", "3"], "34": ["41", "7"], "m": ["f", "f"]}, "its first line looks like a row"),
    ],
)
def test_data_without_rows_or_quasi_identifier_is_refused(
    tmp_path: Path, columns: dict[str, list[str]], said: str
) -> None:
    result = init(write(tmp_path / "rows.csv", columns), tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not (tmp_path / "out").exists()


def german(folder: Path) -> Path:
    """An export of a German Excel: BOM, semicolons, decimal commas, dates, J and N, post codes with zeros in front."""
    lines = ["Nr;Alter;PLZ;Umsatz;Geburtsdatum;Raucher;Ort;Alter in Worten;Seit;Leer"]
    for i in range(40):
        day, city = f"{i % 28 + 1:02}", "K\u00f6ln" if i % 3 else "Ulm"
        seen = f"{day}.03.2020" if i % 3 else f"2020-03-{day}"
        numbers = f"{i};{20 + i};{i:02}067;{i % 4}.{i:03},50"
        lines.append(f"{numbers};{day}.12.19{40 + i};{'JN'[i % 2]};{city};{20 + i % 9} Jahre;{seen};")
    path = folder / "kunden.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8-sig")
    return path


def test_an_export_of_another_country_is_drafted_whole_and_what_is_not_read_says_what_would_help(
    tmp_path: Path,
) -> None:
    data, out = german(tmp_path), tmp_path / "out"
    result = init(data, out)
    table, written = load_table(out), (out / "table.yaml").read_text()
    assert refused_rows(table, read_rows(data)) == []
    said = {line.strip().partition(": ")[0]: line for line in result.stdout.splitlines()}
    assert "of 5 digits" in said["PLZ"] and 'written: "1.234,5"' in written and 'written: "DD.MM.YYYY"' in written
    assert 'written: "1234.5 Jahre"' in written and "not all written alike" in said["Seit"]
    assert "holds nothing" in said["Leer"]
    assert [a.name for a in table.attributes][:6] == ["Alter", "PLZ", "Umsatz", "Geburtsdatum", "Raucher", "Ort"]


def test_a_file_in_another_encoding_or_with_columns_without_a_name_is_refused_with_what_to_do(tmp_path: Path) -> None:
    data = german(tmp_path)
    data.write_bytes(data.read_text("utf-8-sig").encode("cp1252"))
    assert "such as by `iconv -f WINDOWS-1252 -t UTF-8`" in init(data, tmp_path / "out").stderr
    data.write_text("id;age;;\n1;2;;\n")
    assert "2 columns have no name in the header; name them, or remove them" in init(data, tmp_path / "out").stderr


def test_texts_in_messages_come_to_the_table_that_the_file_comes_to(tmp_path: Path) -> None:
    """Words, patterns, nulls and unknown categories of a messy file: drafted, replayed, verified against the file."""
    messy, later = ROOT / "examples" / "messy" / "crm.csv", ROOT / "examples" / "messy" / "crm-later.csv"
    assert init(messy, tmp_path / "crm").exit_code == 0
    draft = tmp_path / "crm" / "table.yaml"
    draft.write_text(draft.read_text().replace("  sealed:", "  # sealed:").replace("  # live: {", "  live: {"))
    rows = read_rows(later).to_dict("records")
    rows[0] |= {"in_arrears": "?", "since": "12/31/2019", "segment": "never heard of"}
    rows[1] |= {"in_arrears": ""}
    events, everybody = tmp_path / "events.jsonl", tmp_path / "now.csv"
    events.write_text("".join(json.dumps({"op": "insert", "row": row}) + "\n" for row in rows))
    whole = pd.concat([read_rows(messy), pd.DataFrame(rows)])
    whole.to_csv(everybody, index=False)
    out, table = tmp_path / "out", ("--table", tmp_path / "crm")
    calls = (
        ("replay", *table, events, "--initial", messy, "--out", out),
        ("verify", *table, out / "live.jsonl", "--source", everybody, "--index", out / "index.csv"),
        ("verify", *table, out / "live.jsonl", "--initial", messy, "--events", events),
    )
    for words in calls:
        result = streamer(*words)
        assert result.exit_code == 0, result.output
    assert (out / "dead-letters.jsonl").read_text() == ""
    assert len(read_rows(out / "table.csv")) == len(whole)
