"""`streamer check`, and what every command shares: the group, its errors and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import COMMANDS, main
from streamer.errors import LawViolated, ServerUnreachable, StreamerError, UsageError

ROOT = Path(__file__).resolve().parents[1]
PATIENTS = ROOT / "examples" / "patients"


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def checked(*arguments: str | Path) -> dict:  # type: ignore[type-arg]
    result = check(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


# -- the table ------------------------------------------------------------------------------------------------------


def test_a_valid_table_is_described() -> None:
    report = checked("--table", PATIENTS)
    assert (report["table"], report["key"], report["k"], report["individual"]) == ("patients", ["id"], 3, None)
    columns = {column["name"]: column for column in report["columns"]}
    assert list(columns) == ["age", "zip", "bmi", "sex", "problem"]
    assert columns["age"]["cells"] == 24
    assert (columns["bmi"]["domain"], columns["bmi"]["step"], columns["bmi"]["cells"]) == ([10, 59.9], 0.1, 20)
    assert (columns["sex"]["leaves"], columns["sex"]["levels"]) == (3, 2)
    assert (columns["problem"]["role"], columns["problem"]["leaves"]) == ("sensitive", 10)


def test_the_example_of_a_published_row_has_the_published_columns() -> None:
    report = checked("--table", PATIENTS)
    assert list(report["example"]) == report["published_columns"]
    assert report["example"] == {
        **{"qi_group": "0-1", "age_lo": 0, "age_hi": 9, "zip_lo": 10000, "zip_hi": 10999, "bmi_lo": 10, "bmi_hi": 14.9},
        **{"sex": "*", "problem": "flu"},
    }


def test_people_get_the_same_as_a_page() -> None:
    result = check("--table", PATIENTS, "--data", PATIENTS / "rows.csv")
    assert result.exit_code == 0
    for expected in (
        "table patients, key id, k = 3",
        "zip",
        "10000 to 19999 by 1",
        '"age_hi":9',
        "40 of 40 rows",
        "id, name",
    ):
        assert expected in result.stdout
    assert "Person 001" not in result.output


def test_a_broken_table_ends_with_code_2_and_every_fault(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text("table: t\nkey: id\ncolumns: {a: {role: keep}}\nprivacy: {k: 1}\n")
    result = check("--table", tmp_path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("streamer: ")
    assert "\n  privacy.k: " in result.stderr
    assert "\n  publish: " in result.stderr


# -- the data -------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(*lines: str) -> Path:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(("id,name,age,zip,bmi,sex,problem", *lines)) + "\n")
        return path

    return write


def test_data_is_tried_without_being_shown(rows) -> None:
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
def test_too_few_rows_for_k_are_warned_of(rows, n: int, warning: str | None) -> None:
    path = rows(*(f"{i},x,30,12000,21.5,Female,flu" for i in range(n)))
    warnings = checked("--table", PATIENTS, "--data", path)["data"]["warnings"]
    assert len(warnings) == (warning is not None)
    assert all(warning in line for line in warnings)


def test_individuals_are_what_k_is_compared_with(rows, tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    (tmp_path / "table.yaml").write_text(text + "individual: name\n")
    path = rows(*(f"{i},same,30,12000,21.5,Female,flu" for i in range(9)))
    (warning,) = checked("--table", tmp_path, "--data", path)["data"]["warnings"]
    assert warning.startswith("1 individuals are fewer than k = 3")


def test_data_that_cannot_be_read_or_lacks_a_column_is_said(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,age\n1,2\n")
    data = checked("--table", PATIENTS, "--data", tmp_path / "rows.csv")["data"]
    assert data["refused"] == [{"reason": "missing-column", "column": "zip", "rows": 1}]
    assert check("--table", PATIENTS, "--data", tmp_path / "none.csv").exit_code == 2


# -- the group ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "code"), [(UsageError, 2), (LawViolated, 1), (ServerUnreachable, 3)])
def test_an_error_is_one_line_and_the_exit_code_of_whose_fault_it_is(
    monkeypatch: pytest.MonkeyPatch, error: type[StreamerError], code: int
) -> None:
    @click.command()
    def failing() -> None:
        raise error("what is wrong, and what to do")

    monkeypatch.setitem(main.commands, "failing", failing)
    result = CliRunner().invoke(main, ["failing"])
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "streamer: what is wrong, and what to do\n"


def test_an_interrupt_is_no_violated_law(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def endless() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(main.commands, "endless", endless)
    assert CliRunner().invoke(main, ["endless"]).exit_code == 130


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_of_help_and_a_line_in_the_list(command: str) -> None:
    page = CliRunner().invoke(main, [command, "--help"])
    assert (page.exit_code, page.stdout.split()[:3]) == (0, ["Usage:", "streamer", command])
    assert f"\n  {command} " in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize("arguments", [["no-such-command"], ["check"], ["check", "--no-such-option"]])
def test_a_usage_error_ends_with_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage: streamer" in result.stderr


def test_check_needs_neither_kafka_nor_redis() -> None:
    script = (
        "import sys; from streamer.cli.main import main\n"
        f"main(['check', '--table', {str(PATIENTS)!r}, '--json'], standalone_mode=False)\n"
        "print(sorted({'kafka', 'redis', 'faust', 'confluent_kafka'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
