"""Twelve files of six countries become anonymous CSV files without an edit of table.yaml, and nobody is lost."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

import pytest

from streamer.engines import local
from streamer.table.codes import TemporalAttribute
from streamer.table.yaml.loading import load_table
from worlds.calls import answer, streamer
from worlds.national_files import FILES, ROWS, NationalFile, people

FALSE_REASONS = ("free text", "a unit", "not all written alike", "a text of another form", "no number", "free text")


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_draft(file: NationalFile, said: str) -> None:
    """Asserts that each column is drafted with its reason, and rows that are no people are named."""
    for line in said.splitlines():
        name = next((name for name in file.columns if line.startswith(f"  {name}: ")), None)
        if name is not None:
            assert ("left out" in line) == (name in file.left_out), line
            assert name in file.left_out or not any(reason in line for reason in FALSE_REASONS), line
    warned = next((line for line in said.splitlines() if line.startswith("warning: data row")), "")
    assert [int(word) for word in warned.split() if word.isdigit()] == list(file.strays)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_as_people_have_it_becomes_an_anonymous_csv(tmp_path: Path, name: str) -> None:
    file, mine, left, out = FILES[name], tmp_path / "mine", tmp_path / "left.csv", tmp_path / "out.csv"
    data, told = file.write(tmp_path, name), ["--encoding", file.told] if file.told else []
    drafted = streamer("init", data, "-o", mine, *told)
    assert drafted.exit_code == 0, drafted.output
    check_draft(file, drafted.output)

    found = answer("check", "--table", mine, "--data", data, "--no-costs", *told)["data"]
    assert (found["rows"], found["accepted"]) == (ROWS + len(file.strays), ROWS)
    assert any("to be no data" in warning for warning in found["warnings"]) == bool(file.strays)

    words = ["--table", mine, data, "-o", out, "--skip-refused", left, "--index", tmp_path / "index.csv", *told]
    done = answer("anonymize", *words)
    assert done["measures"]["rows"] == ROWS
    assert [int(row["data_row"]) for row in rows_of(left)] == list(file.strays)
    assert not any("to be no data" in warning for warning in done["warnings"])  # those are left out
    check_birthdays(file, mine, out, tmp_path / "index.csv")


def check_birthdays(file: NationalFile, table: Path, out: Path, index: Path) -> None:
    """Asserts that the published box of each person holds the birthday, if the file says it."""
    (born, *_) = (a for a in load_table(table).attributes if isinstance(a, TemporalAttribute))
    group_of = {row["key"]: row["qi_group"] for row in rows_of(index)}
    box_of = {row["qi_group"]: (row[f"{born.name}_lo"], row[f"{born.name}_hi"]) for row in rows_of(out)}
    known, key = list(file.columns).index(born.name), next(iter(file.columns))
    people_of, known_rows = people(len(file.columns)), 0
    for person, row in zip(people_of, file.rows(), strict=True):
        if any(map(str.isdigit, row[known])):
            lo, hi = (date.fromisoformat(end) for end in box_of[group_of[row[0]]])
            assert lo <= person.born <= hi, (key, person.number)
            known_rows += 1
    assert known_rows > ROWS * 0.8


def test_a_row_that_is_no_data_is_said_where_it_is_refused_and_where_it_is_accepted(tmp_path: Path) -> None:
    rows = "".join(f"{i},{20 + i % 50},{'fm'[i % 2]}\n" for i in range(60))
    data = tmp_path / "people.csv"
    data.write_text(f"id,age,sex\n{rows}")
    assert streamer("init", data, "-o", tmp_path / "mine").exit_code == 0
    for line, what in {"id,age,sex": "the header again", "Total,,": "a total", "Total,45,f": "a total"}.items():
        data.write_text(f"id,age,sex\n{rows}{line}\n")
        done = streamer("anonymize", "--table", tmp_path / "mine", data, "-o", tmp_path / "out.csv", "--force")
        accepted = line.endswith("f")
        assert done.exit_code == (0 if accepted else 2)
        said = f"data row 61 ({what}) seems to be no data" if accepted else f"the row seems to be {what}: remove it"
        assert said in " ".join(done.output.split())


TITLED = "line 1 was skipped as a title, and line 2 was taken for the header"


@pytest.mark.usefixtures("calls_here")
def test_the_same_is_said_of_a_table_in_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CHUNK_ROWS", 400)  # each part ends with words alone, and one begins with units
    rows = [f"{i},{20 + i % 50},{'fm'[i % 2]}\n" for i in range(1500)]
    rows[395:400], rows[400] = ["Source: ward 7,,\n"] * 5, "[years],,\n"
    data = tmp_path / "people.csv"
    data.write_text(f"Visits 2024,,\nid,age,sex\n{''.join(rows)}Summe,45,f\n")
    assert streamer("init", data, "-o", tmp_path / "mine").exit_code == 0
    (tmp_path / "mine" / "table.yaml").write_text(TABLE)
    words = ["--table", tmp_path / "mine", data, "--fragment-rows", 1000, "--workers", 1]
    found = answer("anonymize", *words, "-o", tmp_path / "out")
    whole = answer("anonymize", *words[:3], "-o", tmp_path / "out.csv")
    assert found["measures"]["rows"] == whole["measures"]["rows"] == 1501
    said = "data row 1501 (a total) seems to be no data: remove it from the source"
    assert found["warnings"] == whole["warnings"] == [TITLED, said]


TABLE = (
    "table: people\ncolumns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 1, null_as: 0}\n"
    "  sex: {role: sensitive}\nprivacy: {k: 5}\npublish: {live: {form: rows}}\n"
)


def test_titles_above_the_header_are_said_by_every_command_that_takes_the_file(tmp_path: Path) -> None:
    """Before: they were skipped, and nobody was told."""
    rows = "".join(f"{i},{20 + i % 50},{'fm'[i % 2]}\n" for i in range(60))
    data, plain = tmp_path / "people.csv", tmp_path / "plain.csv"
    data.write_text(f"Patients of 2025\nid,age,sex\n{rows}")
    plain.write_text(f"id,age,sex\n{rows}")
    drafted = streamer("init", data, "-o", tmp_path / "mine")
    assert f"warning: {TITLED}" in " ".join(drafted.output.split())
    table = ["--table", tmp_path / "mine"]
    for file, said in ((data, [TITLED]), (plain, [])):
        checked = answer("check", *table, "--data", file, "--no-costs")["data"]["warnings"]
        done = answer("anonymize", *table, file, "-o", tmp_path / "out.csv", "--force")["warnings"]
        assert [[one for one in warnings if "header" in one] for warnings in (checked, done)] == [said, said]


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize(
    ("line", "why"),
    [("60,k. A.,f", "not an integer"), ("7,33,m", "has the same key"), ("60,200,f", "out-of-domain")],
)
@pytest.mark.parametrize("how", [["-o", "out.csv"], ["-o", "out", "--fragment-rows", 1000, "--workers", 1]])
def test_a_refusal_names_the_way_past_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str, how: list[object]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{20 + i % 50},{'fm'[i % 2]}\n" for i in range(60))
    Path("people.csv").write_text(f"id,age,sex\n{rows}")
    assert streamer("init", "people.csv", "-o", "mine").exit_code == 0
    Path("people.csv").write_text(f"id,age,sex\n{rows}{line}\n")
    refused = streamer("anonymize", "--table", "mine", "people.csv", *how)
    assert refused.exit_code == 2
    words = " ".join(refused.output.split())
    assert why in words
    assert "`--skip-refused LIST.csv` leaves out all refused rows" in words
    assert streamer("anonymize", "--table", "mine", "people.csv", *how, "--skip-refused", "out.txt.csv").exit_code == 0
    Path("people.csv").write_text("id,sex\n1,f\n")  # no row is at fault
    assert "--skip-refused" not in streamer("anonymize", "--table", "mine", "people.csv", *how, "--force").output
