"""`streamer anonymize`: what is written, what is printed, and that an error leaves no file."""

from __future__ import annotations

import csv
import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamer.recoding.metrics.measures import WHAT_JOINED
from streamer.table.published.rows import published_columns
from streamer.table.yaml.loading import load_table
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS

ROWS = PATIENTS / "rows.csv"


def anonymized(*arguments: str | Path) -> dict[str, Any]:
    return answer("anonymize", "--table", PATIENTS, *arguments)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def source_rows() -> list[dict[str, str]]:
    return read(ROWS)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def table_with(folder: Path, privacy: str) -> Path:
    """The example's table with another line on privacy."""
    shutil.copytree(PATIENTS / "hierarchies", folder / "hierarchies")
    text = (PATIENTS / "table.yaml").read_text().replace("privacy: {k: 3}", f"privacy: {privacy}")
    (folder / "table.yaml").write_text(text)
    return folder / "table.yaml"


# -- what is written ------------------------------------------------------------------------------------------------


def test_every_row_is_published_in_the_columns_of_the_changelog_and_every_group_holds_k(tmp_path: Path) -> None:
    anonymized(ROWS, "-o", tmp_path / "out.csv")
    rows = read(tmp_path / "out.csv")
    assert tuple(rows[0]) == published_columns(load_table(PATIENTS))
    assert Counter(row["problem"] for row in rows) == Counter(row["problem"] for row in source_rows())
    sizes = Counter(row["qi_group"] for row in rows)
    assert min(sizes.values()) >= 3
    assert set(sizes) == {f"0-{number}" for number in range(1, len(sizes) + 1)}


def test_a_spreadsheet_that_opens_the_table_runs_nobodys_text(tmp_path: Path) -> None:
    formula = "=HYPERLINK(A1)"
    table = table_with(tmp_path, "{k: 3}")
    (tmp_path / "hierarchies" / "problem.csv").write_text(f"{formula};*\nflu;*\n")
    data = write(tmp_path / "rows.csv", [row | {"problem": formula} for row in source_rows()])
    out = tmp_path / "out.csv"
    for chosen, written in (((), f"'{formula}"), (("--formulas", "keep"), formula)):
        assert streamer("anonymize", "--table", table, data, "-o", out, *chosen, "--force").exit_code == 0
        assert {row["problem"] for row in read(out)} == {written}
    refused = streamer("anonymize", "--table", table, data, "-o", tmp_path / "none.csv", "--formulas", "refuse")
    assert (refused.exit_code, (tmp_path / "none.csv").exists()) == (2, False)
    assert formula not in refused.output


def test_the_index_says_which_group_a_row_is_in_and_the_group_holds_it(tmp_path: Path) -> None:
    anonymized(ROWS, "-o", tmp_path / "out.csv", "--index", tmp_path / "index.csv")
    boxes = {row["qi_group"]: row for row in read(tmp_path / "out.csv")}
    index = read(tmp_path / "index.csv")
    assert list(index[0]) == ["key", "qi_group"]
    assert [line["key"] for line in index] == sorted(row["id"] for row in source_rows())
    group_of = {line["key"]: line["qi_group"] for line in index}
    for row in source_rows():
        box = boxes[group_of[row["id"]]]
        for name in ("age", "zip", "bmi"):
            assert float(box[f"{name}_lo"]) <= float(row[name]) <= float(box[f"{name}_hi"])
        assert box["sex"] in (row["sex"], "*")


def test_the_same_groups_replayed_give_the_same_file_to_the_byte(tmp_path: Path) -> None:
    """`replay` with these QI groups as its initial table, and no change, writes the same table.csv."""
    anonymized(ROWS, "-o", tmp_path / "out.csv", "--index", tmp_path / "index.csv")
    group_of = {line["key"]: line["qi_group"] for line in read(tmp_path / "index.csv")}
    rows = [row | {"qi_group": group_of[row["id"]]} for row in source_rows()]
    rows.sort(key=lambda row: int(row["qi_group"].partition("-")[2]))  # replay numbers groups as they appear
    initial, events = write(tmp_path / "initial.csv", rows), tmp_path / "events.jsonl"
    events.write_text("")
    done = streamer("replay", "--table", PATIENTS, events, "--initial", initial, "--out", tmp_path / "replayed")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "replayed" / "table.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    assert (tmp_path / "replayed" / "index.csv").read_bytes() == (tmp_path / "index.csv").read_bytes()


def test_neither_the_order_of_the_rows_nor_their_keys_can_be_seen(tmp_path: Path) -> None:
    rows = source_rows()
    random.Random(1).shuffle(rows)
    other = write(tmp_path / "other.csv", [row | {"id": str(1000 - i)} for i, row in enumerate(rows)])
    anonymized(ROWS, "-o", tmp_path / "one.csv")
    anonymized(other, "-o", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_lossy_join_publishes_exact_cells_and_values_in_two_files(tmp_path: Path) -> None:
    anonymized(ROWS, "-o", tmp_path / "rows.csv", "--index", tmp_path / "index.csv", "--seed", "1")
    report = ("--report", tmp_path / "report.html")
    said = anonymized(ROWS, "-o", tmp_path / "out.csv", "--form", "lossy-join", "--seed", "1", *report)
    assert list(said["measures"]) == list(WHAT_JOINED)
    page = (tmp_path / "report.html").read_text()
    assert all(f"<th>{name}</th>" in page for name in WHAT_JOINED)
    assert "ncp" not in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 2
    assert said["files"][:2] == [str(tmp_path / f"out-{part}.csv") for part in ("qit", "stt")]
    assert not (tmp_path / "out.csv").exists()
    group_of = {line["key"]: line["qi_group"] for line in read(tmp_path / "index.csv")}
    qit, stt = read(tmp_path / "out-qit.csv"), read(tmp_path / "out-stt.csv")
    assert {(row["qi_group"], row["age_lo"], row["age_hi"], row["sex"]) for row in qit} == {
        (group_of[row["id"]], str(int(row["age"]) // 5 * 5), str(int(row["age"]) // 5 * 5 + 4), row["sex"])
        for row in source_rows()
    }
    assert list(stt[0]) == ["qi_group", "individual", "problem"]
    assert sorted((row["qi_group"], row["problem"]) for row in stt) == sorted(
        (row["qi_group"], row["problem"]) for row in read(tmp_path / "rows.csv")
    )


def without_time(page: str) -> str:
    """A page but for when it was made."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page)


def test_the_names_of_columns_are_text_to_the_report(tmp_path: Path) -> None:
    column, value = "年龄 $x_1$", "<script>"
    age = f'"{column}": {{role: quasi-identifier, type: integer, domain: [0, 99]}}'
    (tmp_path / "table.yaml").write_text(
        f'table: t\nkey: id\ncolumns: {{{age}, "<b>": {{role: sensitive}}}}\n'
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    data = write(tmp_path / "rows.csv", [{"id": str(i), column: str(i), "<b>": value} for i in range(4)])
    outputs = ("-o", tmp_path / "out.csv", "--report", tmp_path / "report.html")
    result = streamer("anonymize", "--table", tmp_path, data, *outputs)
    assert (result.exit_code, result.stderr) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert column in page
    assert "<b>" not in page
    assert value not in page


def test_a_seed_repeats_every_byte_and_stands_in_no_file(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        report = folder / "report.html"
        anonymized(ROWS, "-o", folder / "out.csv", "--report", report, "--seed", "987654321")
        written.append([without_time(path.read_text()) for path in (folder / "out.csv", report)])
    assert written[0] == written[1]
    assert "987654321" not in "".join(written[0])


def test_parquet_a_folder_of_it_and_csv_give_the_same_bytes(tmp_path: Path) -> None:
    pa, pq = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    typed = pd.read_csv(ROWS).astype({"problem": "category"})
    typed.set_index("id").to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows").mkdir()
    whole = pa.Table.from_pandas(typed)
    for name, part in (("b", whole.slice(4)), ("a", whole.slice(0, 4)), ("c", whole.slice(0, 0))):
        pq.write_table(part, tmp_path / "rows" / f"{name}.parquet")
    written = []
    for data in (ROWS, tmp_path / "rows.parquet", tmp_path / "rows"):
        index = tmp_path / "index.csv"
        said = anonymized(data, "-o", tmp_path / "out.csv", "--index", index, "--seed", "7", "--force")
        checked = answer("check", "--table", PATIENTS, "--data", data, "--no-costs")["data"]
        written.append(((tmp_path / "out.csv").read_bytes(), index.read_bytes(), said["measures"], checked))
    assert written[0] == written[1] == written[2]


def test_refused_rows_of_parquet_are_listed_by_number_and_reason(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    typed = pd.read_csv(ROWS, dtype={"age": "Int64"})
    typed.loc[2, "age"] = None
    typed.to_parquet(tmp_path / "rows.parquet")
    left_out = tmp_path / "left-out.csv"
    anonymized(tmp_path / "rows.parquet", "-o", tmp_path / "out.csv", "--skip-refused", left_out)
    assert [(row["data_row"], row["column"]) for row in read(left_out)] == [("3", "age")]


@pytest.mark.parametrize("keep", [False, True])
def test_no_two_groups_publish_the_same_values_unless_that_is_asked_for(keep: bool, tmp_path: Path) -> None:
    alike = "".join(f"{i},30,14900,21.7,Male,sprain\n" for i in range(40))
    (tmp_path / "rows.csv").write_text("id,age,zip,bmi,sex,problem\n" + alike)
    how = ["--keep-equal-boxes"] * keep
    said = anonymized(tmp_path / "rows.csv", "-o", tmp_path / "out.csv", "--k", "2", *how)
    assert said["options"]["keep_equal_boxes"] is keep
    rows = read(tmp_path / "out.csv")
    boxes = {tuple(value for name, value in row.items() if name not in ("qi_group", "problem")) for row in rows}
    assert said["measures"]["groups"] == len({row["qi_group"] for row in rows})
    assert (len(boxes), said["measures"]["groups"] > 1) == (1, keep)
    assert said["measures"]["prosecutor_mean"] == 1 / 40, "nobody knows which of the groups is hers"


def test_the_curves_are_left_out_of_a_page_on_request(tmp_path: Path) -> None:
    for i, how in enumerate([[], ["--no-costs"]]):
        page = tmp_path / f"{i}.html"
        anonymized(ROWS, "-o", tmp_path / f"{i}.csv", "--report", page, *how)
        assert ("What more privacy would cost" in page.read_text()) == (not how)
    costly = streamer("compare", "--table", PATIENTS, ROWS, "--report", tmp_path / "c.html", "--no-costs")
    assert costly.exit_code == 0, costly.output
    assert "What more privacy would cost" not in (tmp_path / "c.html").read_text()


# -- what is said ---------------------------------------------------------------------------------------------------


# -- errors ---------------------------------------------------------------------------------------------------------

HEADER = "id,name,age,zip,bmi,sex,problem"
GOOD = [f"{i},x,30,12000,21.5,Female,flu" for i in range(6)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["1,x,30,12000,21.5,Female,flu"], "1 row is fewer than k = 3"),
        ([*GOOD, "7,x,30,12000,21.5,SECRET,flu"], "data row 7: column 'sex': not a leaf of its hierarchy"),
        ([*GOOD, "7,x,30,12000,21.5,Male,SECRET"], "data row 7: column 'problem': not a leaf of its hierarchy"),
        ([*GOOD, "7,x,3e9,12000,21.5,Male,flu"], "data row 7: column 'age': outside the domain"),
        ([*GOOD, "7,x,,12000,21.5,Male,flu"], "data row 7: column 'age' is null"),
        ([*GOOD, GOOD[0]], "data row 7: an earlier row has the same key (id)"),
        ([*GOOD, "7,x,30"], "line 8: has 3 cells; the header has 7"),
        ([], "the data has no rows"),
    ],
)
def test_data_that_cannot_be_used_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("\n".join((HEADER, *lines)) + "\n")
    outputs = ("-o", tmp_path / "out.csv", "--index", tmp_path / "index.csv", "--report", tmp_path / "report.html")
    result = streamer("anonymize", "--table", PATIENTS, data, *outputs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "SECRET" not in result.stderr
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.csv", "-o", "out.csv"], "no-such.csv: cannot be read"),
        (["empty.csv", "-o", "out.csv"], "empty.csv: is empty"),
        (["rows.csv", "-o", "none/out.csv"], "none/out.csv: cannot be written"),
        (["rows.csv", "-o", "out.csv", "--index", "none/index.csv"], "none/index.csv: cannot be written"),
        (["rows.csv", "-o", "."], "--out .: a folder is written with --fragment-rows"),
        (["rows.csv", "-o", "rows.csv"], "rows.csv: is an input, or is to be written twice"),
        (["rows.csv", "-o", str(PATIENTS / "hierarchies" / "sex.csv")], "sex.csv: is an input, or is to be written"),
        (["rows.csv", "-o", "link.csv"], "link.csv: is an input, or is to be written twice"),
        (["rows.csv", "-o", "out.csv", "--index", "out.csv"], "out.csv: is an input, or is to be written twice"),
        (["rows.csv", "-o", "out.csv", "--algorithm", "magic"], "there is no algorithm 'magic'"),
        (["rows.csv", "-o", "out.csv", "--k", "41"], "40 rows are fewer than k = 41"),
        (["rows.csv", "-o", "out.csv", "--k", "1"], "Invalid value for '--k'"),
        (["rows.csv", "-o", "out.csv", "--suppression", "1"], "Invalid value for '--suppression'"),
        (
            ["rows.csv", "-o", "out.csv", "--algorithm", "mondrian", "--suppression", "0.1"],
            "mondrian cannot do this: it publishes every row",
        ),
    ],
)
def test_a_command_line_that_cannot_be_followed_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROWS, "rows.csv")
    Path("empty.csv").touch()
    Path("link.csv").symlink_to("rows.csv")
    before = sorted(tmp_path.rglob("*"))
    result = streamer("anonymize", "--table", PATIENTS, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("rows.csv").read_bytes() == ROWS.read_bytes()


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        ("{k: 2, alpha: 0.01}", "40 rows are fewer than k = 100"),
        ("{k: 2, l: 11}", "problem has 10 values, so no QI group has 11 distinct ones"),
        ("{k: 2, beta: 0.1}", "values of problem"),
    ],
)
def test_a_model_that_cannot_hold_is_refused_with_the_reason(tmp_path: Path, privacy: str, said: str) -> None:
    table = table_with(tmp_path, privacy)
    result = streamer("anonymize", "--table", table, ROWS, "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "out.csv").exists()


# -- what is left out -----------------------------------------------------------------------------------------------


def test_refused_rows_are_left_out_where_that_is_asked_for_and_listed_without_their_values(tmp_path: Path) -> None:
    rows = source_rows()
    rows[3]["age"], rows[7]["sex"] = "777", "SECRET"
    data, left_out = write(tmp_path / "rows.csv", rows), tmp_path / "left-out.csv"
    refused = streamer("anonymize", "--table", PATIENTS, data, "-o", tmp_path / "out.csv")
    assert (refused.exit_code, (tmp_path / "out.csv").exists()) == (2, False)
    facts = anonymized(data, "-o", tmp_path / "out.csv", "--skip-refused", left_out)
    assert facts["left_out"]["rows"] == 2
    assert len(read(tmp_path / "out.csv")) == len(rows) - 2
    assert left_out.read_text().splitlines() == [
        "data_row,reason,column",
        "4,out-of-domain,age",
        "8,unknown-category,sex",
    ]
    outputs = ("-o", tmp_path / "out.csv", "--skip-refused", left_out, "--force")
    shown = streamer("anonymize", "--table", PATIENTS, data, *outputs)
    assert (
        f"2 of {len(rows)} rows, listed in {left_out}: 1 out-of-domain (age), 1 unknown-category (sex)" in shown.stdout
    )
    assert "777" not in shown.output and "SECRET" not in shown.output


def test_a_file_without_the_key_column_is_anonymized_and_its_index_counts_rows(tmp_path: Path) -> None:
    rows = [{name: text for name, text in row.items() if name != "id"} for row in source_rows()]
    data = write(tmp_path / "rows.csv", rows)
    anonymized(data, "-o", tmp_path / "out.csv", "--index", tmp_path / "index.csv")
    assert len(read(tmp_path / "out.csv")) == len(rows)
    assert {row["key"] for row in read(tmp_path / "index.csv")} == {str(n) for n in range(1, len(rows) + 1)}
