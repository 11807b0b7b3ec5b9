"""`streamer check`: what it says of a table, of a data file and of its costs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer import checking
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS, ROOT


def check(*arguments: str | Path) -> Result:
    return streamer("check", *arguments)


def checked(*arguments: str | Path) -> dict[str, Any]:
    return answer("check", *arguments)


# -- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "says"), [("0.2", "cohorts will withhold"), ("0.1", "set alpha to 0.2 or more")])
def test_whether_a_sealed_changelog_can_keep_its_alpha_is_judged_by_the_data(
    tmp_path: Path, alpha: str, says: str
) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    text = text.replace("k: 3", "k: 6").replace(
        "{form: rows}", f"{{form: rows}}\n  sealed: {{epoch: 1h, alpha: {alpha}}}"
    )
    (tmp_path / "table.yaml").write_text(text)
    warnings = checked("--table", tmp_path, "--data", PATIENTS / "rows.csv", "--no-costs")["data"]["warnings"]
    assert [says in warning for warning in warnings if "publish.sealed.alpha" in warning] == [True]


def test_the_rows_come_first_and_a_file_hears_nothing_of_a_sealed_changelog(tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    text = text.replace("  live: {form: rows}", "  sealed: {epoch: 1h}")
    assert "sealed" in text
    (tmp_path / "table.yaml").write_text(text)
    lines = [f"{i},x,30,14900,21.7,Male,{'sprain' if i % 3 else 'flu'}" for i in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,name,age,zip,bmi,sex,problem", *lines]))
    said = check("--table", tmp_path, "--data", tmp_path / "rows.csv", "--no-costs").stdout
    assert said.startswith("data: 40 of 40 rows would be accepted")
    assert "sealed" not in said
    assert "cohort" not in said
    assert "cohort" in check("--table", tmp_path).stdout


@pytest.mark.parametrize(("live", "warned"), [("  live: {form: rows}\n", True), ("", False)])
def test_readers_of_both_changelogs_are_warned_of(tmp_path: Path, live: str, warned: bool) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    head, rest = text.split("publish:\n")
    rest = rest[rest.index("form: rows}\n") + len("form: rows}\n") :]
    (tmp_path / "table.yaml").write_text(f"{head}publish:\n{live}  sealed: {{epoch: 1h}}\n{rest}")
    warnings = checked("--table", tmp_path)["warnings"]
    assert [warning.startswith("publish: live tells") for warning in warnings] == [True] * warned


def test_a_table_that_publishes_cohorts_alone_has_one_as_its_example(tmp_path: Path) -> None:
    shutil.copytree(PATIENTS, tmp_path / "people")
    file = tmp_path / "people" / "table.yaml"
    file.write_text(file.read_text().replace("  live: {form: rows}", "  sealed: {epoch: 10min}"))
    report = checked("--table", tmp_path / "people")
    assert report["publishes"] == ["sealed"]
    assert (report["example"]["n"], len(report["example"]["sensitive"])) == (3, 3)
    assert "a published cohort" in streamer("check", "--table", tmp_path / "people").output


def table_of(folder: Path, columns: str, privacy: str = "{k: 3}") -> Path:
    """A table.yaml with the columns, beside the example's hierarchies."""
    shutil.copytree(PATIENTS / "hierarchies", folder / "hierarchies")
    lines = ("table: t", "key: id", f"columns: {{{columns}}}", f"privacy: {privacy}", "publish: {live: {form: rows}}")
    (folder / "table.yaml").write_text("\n".join(lines) + "\n")
    return folder


FORM_COLUMNS = "age: {role: quasi-identifier, type: integer, domain: [0, 99]}, problem: {role: sensitive}"


def in_form(folder: Path, form: str, privacy: str) -> Path:
    path = table_of(folder, FORM_COLUMNS, privacy) / "table.yaml"
    path.write_text(path.read_text().replace("form: rows", f"form: {form}"))
    return folder


def test_a_qi_group_that_is_one_message_is_shown_as_one(tmp_path: Path) -> None:
    report = checked("--table", in_form(tmp_path, "groups", "{k: 3}"))
    assert list(report["example"]) == report["published_columns"] == ["qi_group", "age_lo", "age_hi", "size", "values"]
    assert report["example"]["values"] == [{"problem": "...", "count": 3}]
    assert report["warnings"] == []
    assert "a published QI group: {" in check("--table", tmp_path).stdout


def test_what_a_lossy_join_reveals_is_said_to_whoever_chooses_it(tmp_path: Path) -> None:
    report = checked("--table", in_form(tmp_path, "lossy-join", "{k: 3, l: 2}"))
    assert {name: list(row) for name, row in report["example"].items()} == report["published_columns"]
    assert report["example"]["qit"] == {"qi_group": "0-1", "age_lo": 0, "age_hi": 0}
    warnings = " ".join(report["warnings"])
    assert "publishes the exact quasi-identifiers" in warnings
    assert "anyone who sees the two topics change learns" in warnings


@pytest.mark.parametrize("privacy", ["{k: 3}", "{k: 3, alpha: 0.5}", "{k: 3, beta: 1}", "{k: 3, r: 0.5}"])
def test_a_lossy_join_is_refused_where_nothing_hides_the_sensitive_values(tmp_path: Path, privacy: str) -> None:
    result = check("--table", in_form(tmp_path, "lossy-join", privacy))
    assert result.exit_code == 2
    assert "set privacy.l, or privacy.beta below 1" in result.stderr


def test_columns_that_a_form_needs_for_itself_and_groups_too_large_for_a_message_are_refused(tmp_path: Path) -> None:
    folder = in_form(tmp_path, "groups", "{k: 100000}")
    path = folder / "table.yaml"
    path.write_text(path.read_text().replace("problem: {role: sensitive}", "count: {role: sensitive}"))
    faults = check("--table", folder).stderr
    assert "columns.count: publishes 'count', like publish.live.form: groups; rename one" in faults
    path.write_text(path.read_text().replace("count: {role: sensitive}", "problem: {role: sensitive}"))
    assert "limits.row_bytes_max: a message has to hold a QI group of 2k rows" in check("--table", folder).stderr


def test_a_format_is_said_and_a_table_without_types_has_none_but_json(tmp_path: Path) -> None:
    path = in_form(tmp_path, "groups", "{k: 3}") / "table.yaml"
    path.write_text(path.read_text().replace("form: groups", "form: groups, format: avro"))
    refused = check("--table", path)
    assert refused.exit_code == 2
    assert "columns.problem: its values may be of any type" in refused.stderr
    path.write_text(path.read_text().replace("problem: {role: sensitive}", "problem: {role: sensitive, type: text}"))
    assert checked("--table", path)["format"] == "avro"
    assert "it is written as avro, by a schema registry (SCHEMA_REGISTRY_URL)" in check("--table", path).stdout
    path.write_text(path.read_text().replace("format: avro", "format: xml"))
    assert "must be 'json', 'connect-json' or 'avro'" in check("--table", path).stderr


def test_the_model_is_said_in_words_and_which_algorithms_can_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unable = replace(ALGORITHMS[DEFAULT_ALGORITHM], name="unable", objections=lambda *_: ["it does not count problems"])
    monkeypatch.setitem(ALGORITHMS, "unable", unable)
    report = checked("--table", PATIENTS)
    assert report["model"] == "at least 3 rows"
    assert [algorithm["name"] for algorithm in report["algorithms"]] == list(ALGORITHMS)
    assert report["algorithms"][-1]["cannot"] == ["it does not count problems"]
    page = check("--table", PATIENTS).stdout
    assert "privacy: every QI group has at least 3 rows" in page
    assert "unable: cannot satisfy it: it does not count problems" in page


def test_with_individuals_readers_by_sql_are_warned_of(tmp_path: Path) -> None:
    age = "age: {role: quasi-identifier, type: integer, domain: [0, 99]}"
    table_of(tmp_path, age)
    with (tmp_path / "table.yaml").open("a") as file:
        file.write("individual: ssn\n")
    (warning,) = checked("--table", tmp_path)["warnings"]
    assert warning.startswith("k counts individuals (ssn)")
    assert "warning: k counts individuals (ssn)" in check("--table", tmp_path).stdout


def test_rows_whose_category_is_not_listed_are_counted_and_the_category_is_not_told(tmp_path: Path) -> None:
    sex = "sex: {role: quasi-identifier, hierarchy: hierarchies/sex.csv, other: '*'}, problem: {role: sensitive}"
    rows = tmp_path / "rows.csv"
    rows.write_text("id,sex,problem\n" + "".join(f"{i},{('Male', 'Mlae')[i % 4 == 0]},flu\n" for i in range(12)))
    table = table_of(tmp_path, sex)
    (warning,) = checked("--table", table, "--data", rows)["data"]["warnings"]
    assert warning.startswith("3 of 12 rows have a sex that its hierarchy does not list: `other` takes it as '(other)'")
    out = ["anonymize", rows, "--table", table, "-o", tmp_path / "out.csv"]
    said = streamer(*out).stdout
    assert f"warning: {warning}" in said
    assert "Mlae" not in said + check("--table", table, "--data", rows).stdout


def test_individuals_in_several_spellings_count_once_and_are_warned_of(tmp_path: Path) -> None:
    table = table_of(tmp_path, "age: {role: quasi-identifier, type: integer, domain: [0, 99]}")
    with (tmp_path / "table.yaml").open("a") as file:
        file.write("individual: ssn\n")
    rows = tmp_path / "rows.csv"
    rows.write_text("id,age,ssn\n" + "".join(f"{i},{i},{'Pp'[i % 2]}47{i // 2}{' ' * (i % 2)}\n" for i in range(12)))
    (warning,) = checked("--table", table, "--data", rows)["data"]["warnings"]
    assert warning.startswith("individual column ssn: 12 texts are 6 in several spellings")
    out = ["anonymize", rows, "--table", table, "-o", tmp_path / "out.csv"]
    said = streamer(*out).stdout
    assert f"warning: {warning}" in said
    assert "P47" not in said + warning


def test_labels_that_do_not_hold_their_leaf_are_one_warning_for_the_column(tmp_path: Path) -> None:
    age = "age: {role: quasi-identifier, type: integer, domain: [0, 3], hierarchy: hierarchies/age.csv}"
    table_of(tmp_path, age)
    (tmp_path / "hierarchies" / "age.csv").write_text("0;0-0;*\n1;0-0;*\n2;2-2;*\n3;2-2;*\n")
    report = checked("--table", tmp_path)
    (warning,) = report["warnings"]
    assert warning.startswith("columns.age.hierarchy: 2 labels do not contain their leaf, the first 1 under 0-0;")
    assert f"warning: {warning}" in check("--table", tmp_path).stdout


# -- the data -------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str) -> Path:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(("id,name,age,zip,bmi,sex,problem", *lines)) + "\n")
        return path

    return write


def test_data_is_tried_without_being_shown(rows: Callable[..., Path]) -> None:
    path = rows(
        "1,SECRET,30,12000,21.5,Female,flu",
        "1,SECRET,31,12000,21.5,Female,flu",
        "2,SECRET,777,12000,21.5,Female,flu",
        "3,SECRET,888,12000,21.5,Female,flu",
        "4,SECRET,30,12000,21.55,Female,flu",
        "5,SECRET,30,12000,21.5,SECRET,flu",
        "6,SECRET,30,12000,21.5,Male,SECRET",
        "7,SECRET,,12000,21.5,Male,",
        ",SECRET,30,12000,21.5,Male,",
        "8,SECRET,30,12000,21.5,Male,",
    )
    data = checked("--table", PATIENTS, "--data", path)["data"]
    refused = {(line["reason"], line["column"]): line["rows"] for line in data["refused"]}
    assert refused == {
        ("key-exists", "id"): 1,
        ("out-of-domain", "age"): 2,
        ("off-the-step", "bmi"): 1,
        ("unknown-category", "sex"): 1,
        ("unknown-category", "problem"): 1,
        ("null-not-allowed", "age"): 1,
        ("missing-key", "id"): 1,
    }
    assert (data["rows"], data["accepted"], data["hidden_columns"]) == (10, 2, ["id", "name"])
    for form in ([], ["--json"]):
        output = check("--table", PATIENTS, "--data", path, *form).output
        for secret in ("SECRET", "777", "888", "21.55"):
            assert secret not in output


@pytest.mark.parametrize(("n", "warning"), [(2, "fewer than k = 3"), (3, "fewer than 2k = 6"), (6, None)])
def test_too_few_rows_for_k_are_warned_of(rows: Callable[..., Path], n: int, warning: str | None) -> None:
    path = rows(*(f"{i},x,30,12000,21.5,Female,flu" for i in range(n)))
    warnings = checked("--table", PATIENTS, "--data", path)["data"]["warnings"]
    assert len(warnings) == (warning is not None)
    assert all(warning in line for line in warnings)


def test_individuals_are_what_k_is_compared_with(rows: Callable[..., Path], tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    (tmp_path / "table.yaml").write_text(text + "individual: name\n")
    path = rows(*(f"{i},same,30,12000,21.5,Female,flu" for i in range(9)))
    (warning,) = checked("--table", tmp_path, "--data", path)["data"]["warnings"]
    assert warning.startswith("1 individual is fewer than k = 3")


def test_rows_that_do_not_hold_the_model_even_together_are_warned_of(rows: Callable[..., Path], tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    (tmp_path / "table.yaml").write_text(re.sub(r"privacy: \{(.*)\}", r"privacy: {\1, l: 2}", text))
    path = rows(*(f"{i},x,30,12000,21.5,Female,flu" for i in range(9)))
    (warning,) = checked("--table", tmp_path, "--data", path)["data"]["warnings"]
    assert warning == (
        "all rows together, as one QI group: 1 distinct value of problem other than null is fewer than 2;"
        " they can hold no l: nothing would be published"
    )


def test_of_each_column_that_forbids_a_model_the_strongest_that_it_can_hold_is_said(
    rows: Callable[..., Path], tmp_path: Path
) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    text = re.sub(r"privacy: \{(.*)\}", r"privacy: {\1, l: 3, beta: 0.5}", text)
    text = text.replace("  problem:", "  name: {role: sensitive, l: 2, beta: 0.7}\n  problem:")
    (tmp_path / "table.yaml").write_text(text)
    problems = ["flu", "asthma", "ulcer", "gastritis", "fracture", "sprain", "burn", "flu", "asthma"]
    path = rows(*(f"{i},{'yes' if i < 7 else 'no'},30,12000,21.5,Female,{problems[i]}" for i in range(9)))
    elsewhere = ", and `columns` can ask for more of other columns alone: nothing would be published"
    assert checked("--table", tmp_path, "--data", path)["data"]["warnings"] == [
        "all rows together, as one QI group: 2 distinct values of name other than null are fewer than 3;"
        f" l = 2 is the most they can hold{elsewhere}",
        "all rows together, as one QI group: one of the values of name has 7 of 9 rows (0.778); the largest share"
        f" allowed is 0.5; beta = 0.778 is the least they can hold{elsewhere}",
    ]
    (tmp_path / "table.yaml").write_text(text.replace("l: 3, beta: 0.5}", "l: 2}").replace("beta: 0.7", "beta: 0.8"))
    assert checked("--table", tmp_path, "--data", path)["data"]["warnings"] == []
    none = rows(*(f"{i},no,30,12000,21.5,Female,none of these" for i in range(9)))
    assert "0 rows are fewer than k = 3" in check("--table", tmp_path, "--data", none).output


def test_data_that_cannot_be_read_or_lacks_a_column_is_said(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,age\n1,2\n")
    lacking = check("--table", PATIENTS, "--data", tmp_path / "rows.csv")
    assert lacking.exit_code == 2
    assert "has no column 'zip', which table.yaml names; it has 'id', 'age'" in lacking.output
    assert check("--table", PATIENTS, "--data", tmp_path / "none.csv").exit_code == 2


# -- what k and grids cost ------------------------------------------------------------------------------------------


def costs_of(*arguments: str | Path) -> dict[str, Any]:
    return checked(*arguments)["data"]["costs"]


def test_a_k_that_cannot_hold_says_why_and_refused_rows_are_not_tried(rows: Callable[..., Path]) -> None:
    good = [f"{i},x,{20 + i},12000,21.5,Female,flu" for i in range(7)]
    data = rows(*good, "9,x,777,12000,21.5,Female,flu")
    tried = costs_of("--table", PATIENTS, "--data", data)
    assert tried["rows"] == 7
    assert [line.get("cannot") for line in tried["k"]] == [
        None,
        None,
        "7 rows are fewer than k = 10",
        "7 rows are fewer than k = 20",
    ]
    assert "7 rows are fewer than k = 10" in check("--table", PATIENTS, "--data", data).stdout


@pytest.mark.parametrize(
    "lines", [["1,x,777,12000,21.5,Female,flu"], ["1,x,30,12000,21.5,f,flu", ",x,30,12000,21.5,Female,flu"], []]
)
def test_if_no_row_would_be_accepted_a_script_is_told_so(rows: Callable[..., Path], lines: list[str]) -> None:
    words = ("--table", PATIENTS, "--data", rows(*lines))
    shown, told = check(*words), check(*words, "--json")
    assert (shown.exit_code, told.exit_code) == (2, 2)
    assert f"0 of {len(lines)} row" in shown.stdout
    assert "next:" not in shown.output
    said = json.loads(told.stdout)
    assert (said["ok"], said["data"]["accepted"], said["data"]["costs"]) == (False, 0, None)


def test_too_few_rows_are_said(rows: Callable[..., Path]) -> None:
    tried = costs_of("--table", PATIENTS, "--data", rows("1,x,30,12000,21.5,Female,flu"))
    assert all("cannot" in line for line in tried["k"])
    assert tried["attributes"] == []


def test_of_a_large_file_the_first_rows_are_tried_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "ROWS_TRIED_MAX", 30)
    assert costs_of("--table", PATIENTS, "--data", PATIENTS / "rows.csv")["rows"] == 30
    assert "the first 30 accepted rows" in check("--table", PATIENTS, "--data", PATIENTS / "rows.csv").stdout


def test_costs_can_be_left_out() -> None:
    data = ("--table", PATIENTS, "--data", PATIENTS / "rows.csv")
    report = checked(*data, "--no-costs")["data"]
    assert (report["accepted"], report["costs"]) == (40, None)
    assert "what k costs" not in check(*data, "--no-costs").stdout


def test_costs_are_left_out_of_what_is_tried_with_a_data_file_alone() -> None:
    refused = check("--table", PATIENTS, "--no-costs")
    assert refused.exit_code == 2
    assert "give one by --data" in refused.output


def test_data_without_the_key_is_tried_as_anonymize_takes_it_and_that_is_said(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    row = "30,12000,21.5,Female,flu"
    data.write_text("\n".join(["age,zip,bmi,sex,problem", *[row] * 4, "777,12000,21.5,Female,flu"]) + "\n")
    report = checked("--table", PATIENTS, "--data", data)["data"]
    assert (report["rows"], report["accepted"]) == (5, 4)
    assert report["refused"] == [{"reason": "out-of-domain", "column": "age", "rows": 1}]
    assert "the data has no column id, the key: `check` and `anonymize` tell rows apart" in report["warnings"][0]
    assert report["costs"]["rows"] == 4


def test_check_needs_neither_kafka_nor_redis() -> None:
    script = (
        "import sys; from streamer.cli.main import main\n"
        f"main(['check', '--table', {str(PATIENTS)!r}, '--json'], standalone_mode=False)\n"
        "print(sorted({'kafka', 'redis', 'faust', 'confluent_kafka'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


# -- dates ----------------------------------------------------------------------------------------------------------

DATES = (
    "born: {role: quasi-identifier, type: date, domain: [1930-01-01, 2009-12-31], grid: 1 year},"
    " seen: {role: quasi-identifier, type: timestamp, domain: [2024-01-01, 2025-01-01], grid: 7 days},"
    " since: {role: sensitive, type: local-timestamp}"
)


def test_dates_are_described_in_their_own_words_and_tried(tmp_path: Path) -> None:
    report = checked("--table", table_of(tmp_path, DATES))
    born = report["columns"][0]
    assert (born["type"], born["domain"], born["grid"]) == ("date", ["1930-01-01", "2009-12-31"], "1 year")
    assert (born["cells"], born["levels"], born["unit"], born["step"]) == (80, 3, 16, None)
    assert report["example"] == {
        "qi_group": "0-1", "born_lo": "1930-01-01", "born_hi": "1931-12-31",
        "seen_lo": "2024-01-01T00:00:00Z", "seen_hi": "2024-01-15T00:00:00Z", "since": "1980-01-31T08:00:00",
    }  # fmt: skip
    rows = [f"{i},19{30 + i}-05-17,2024-0{i % 9 + 1}-01T08:00Z,2024-01-01T00:00" for i in range(40)]
    rows += ["40,17.05.1960,2024-01-01T08:00Z,", "41,1929-12-31,2024-01-01T08:00Z,", "42,1960-01-01,2024-01-01T08:00,"]
    (tmp_path / "rows.csv").write_text("\n".join(["id,born,seen,since", *rows]) + "\n")
    data = checked("--table", tmp_path, "--data", tmp_path / "rows.csv")["data"]
    assert data["accepted"] == 40
    assert sorted((fault["reason"], fault["column"]) for fault in data["refused"]) == [
        ("out-of-domain", "born"), ("wrong-type", "born"), ("wrong-type", "seen")
    ]  # fmt: skip
    assert [line["name"] for line in data["costs"]["attributes"]] == ["born", "seen"]
    page = check("--table", tmp_path, "--data", tmp_path / "rows.csv").stdout
    assert "1930-01-01 to 2009-12-31" in page
    assert "1960" not in page


def test_refused_rows_are_listed_by_their_numbers(rows: Callable[..., Path], tmp_path: Path) -> None:
    path = rows("1,x,30,12000,21.5,Female,flu", "2,x,777,12000,21.5,Female,flu", "1,x,30,12000,21.5,Male,flu")
    result = check("--table", PATIENTS, "--data", path, "--skip-refused", tmp_path / "list.csv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "list.csv").read_text().split() == [
        "data_row,reason,column", "2,out-of-domain,age", "3,key-exists,id",
    ]  # fmt: skip
    alone = check("--table", PATIENTS, "--skip-refused", tmp_path / "list.csv")
    assert (alone.exit_code, "give one by --data" in alone.stderr) == (2, True)


def test_nulls_that_are_published_among_values_are_warned_of(rows: Callable[..., Path], tmp_path: Path) -> None:
    shutil.copytree(PATIENTS, tmp_path / "mine")
    text = (PATIENTS / "table.yaml").read_text().replace("grid: 5}", "grid: 5, null_as: 0}", 1)
    (tmp_path / "mine" / "table.yaml").write_text(text)
    path = rows("1,x,,12000,21.5,Female,flu", "2,x,3,12000,21.5,Female,flu", "3,x,31,12000,21.5,Male,flu")
    page = check("--table", tmp_path / "mine", "--data", path)
    assert "nulls of age are published as 0 to 4" in page.stdout
    assert "columns.age.null_as: nulls are published as 0 to 4, as are 1 rows with such a value" in page.stdout


def test_values_that_nobody_else_has_are_counted_with_what_helps(rows: Callable[..., Path]) -> None:
    path = rows(*(f"{i},x,{30 + i},12000,21.5,Female,{'flu' if i else 'burn'}" for i in range(8)))
    table = ("--table", PATIENTS, "--data", path, "--no-costs")
    said = " ".join(check(*table).stdout.split())
    assert "in 1 of 8 rows (12.5 %) has a value that nobody else has" in said
    assert "whose `other` takes rare values together" in said
    assert "burn" not in said
