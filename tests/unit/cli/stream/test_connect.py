"""`streamer connect`: what it prints can be piped as it is, and nothing secret is in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from streamer.incremental.connect.connectors import MYSQL, POSTGRES, Database, sink_config, source_config
from streamer.incremental.connect.sql_tables import view_sql
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.checkout import PATIENTS


def connect(*arguments: str, table: Path = PATIENTS) -> Result:
    command, *more = arguments
    return streamer("connect", command, "--table", table, *more)


def test_a_source_is_one_json_object_as_connect_takes_it_and_remarks_are_beside_it() -> None:
    printed = connect("source", "--database", "db:5433/ward", "--relation", "clinic.people", "--no-schemas")
    assert printed.exit_code == 0, printed.output
    expected = source_config(
        load_table(PATIENTS), POSTGRES, schemas=False, database=Database("db", 5433, "ward"), relation="clinic.people"
    )
    assert json.loads(printed.stdout) == {"name": "patients-source", "config": expected}
    assert "`streamer topics create`" in printed.stderr
    assert "replace HOST" not in printed.stderr
    assert "`input: {decimals: text}`" in printed.stderr


def test_the_sql_that_the_source_needs_is_printed_alone() -> None:
    printed = connect("source", "--sql")
    assert printed.exit_code == 0
    assert 'ALTER TABLE "public"."patients" REPLICA IDENTITY FULL;' in printed.stdout
    assert printed.stderr == ""


def test_mysql_s_connector_is_told_the_servers_of_kafka() -> None:
    printed = connect("source", "--connector", "mysql", "--kafka", "broker:9092")
    config = json.loads(printed.stdout)["config"]
    assert config["schema.history.internal.kafka.bootstrap.servers"] == "broker:9092"
    assert "schema.history.internal.producer.*" in printed.stderr


@pytest.mark.parametrize("words", [("connect", "sink"), ("connect", "view")])
def test_cohorts_have_no_rows_for_a_sink_and_it_is_said_what_keeps_them(tmp_path: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(PATIENTS, tmp_path / "people")
    file = tmp_path / "people" / "table.yaml"
    file.write_text(file.read_text().replace("  live: {form: rows}", "  sealed: {epoch: 10min}"))
    done = streamer(*words, "--table", tmp_path / "people")
    assert done.exit_code == 2
    assert "publishes a sealed changelog alone" in done.output and "subscribe --sealed --duckdb" in done.output


def test_a_sink_is_one_json_object_and_what_it_needs_is_said() -> None:
    printed = connect("sink", "--system", "mysql", "--database", "db/ward")
    expected = sink_config(load_table(PATIENTS), MYSQL, database=Database("db", name="ward"))
    assert json.loads(printed.stdout) == {"name": "patients-sink", "config": expected}
    assert "Connect 4.2" in printed.stderr
    assert "connect view --dialect mysql" in printed.stderr


def test_what_cannot_be_sunk_is_said_plainly(tmp_path: Path) -> None:
    printed = connect("sink", table=mine(tmp_path, "form: groups"))
    assert printed.exit_code == 0
    assert "not written: values" in printed.stderr
    refused = connect("sink", table=mine(tmp_path, "form: lossy-join", l=2))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "two moments" in refused.stderr


@pytest.mark.parametrize("dialect", ["postgres", "mysql", "flink", "ksqldb"])
def test_a_view_is_sql_and_nothing_else(dialect: str) -> None:
    printed = connect("view", "--dialect", dialect, "--kafka", "broker:9092")
    assert printed.stdout == view_sql(load_table(PATIENTS), dialect, "broker:9092")
    assert ("no test runs it" in printed.stderr) == (dialect == "ksqldb")


def test_where_k_counts_individuals_whoever_prints_the_view_is_warned(tmp_path: Path) -> None:
    printed = connect("view", table=mine(tmp_path, "form: rows", "individual: ssn\n"))
    assert "protects no one" in printed.stderr
    assert "-- k counts individuals" in printed.stdout


PASSWORD = "pw-Canary-7316"


@pytest.mark.parametrize(
    "arguments",
    [
        ["source", "--database", f"me:{PASSWORD}@db"],
        ["sink", "--database", f"postgres://{PASSWORD}@db"],
        ["source", "--relation", PASSWORD],
        ["source", "--sql", "--relation", "public.people\nDROP TABLE people; -- "],
        ["source", "--sql", "--relation", "public.people\rDROP TABLE people; -- "],
        ["source", "--sql", "--database", "db/ward\nDROP TABLE people; -- ", "--connector", "mysql"],
        ["view", "--kafka", f"me:{PASSWORD}@broker:9092"],
    ],
)
def test_what_is_not_an_address_is_refused_and_never_repeated(arguments: list[str]) -> None:
    refused = connect(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert PASSWORD not in refused.output


def mine(folder: Path, form: str, more: str = "", l: int | None = None) -> Path:  # noqa: E741
    """The example with another form of what is published."""
    shutil.copytree(PATIENTS, folder, dirs_exist_ok=True)
    text = (PATIENTS / "table.yaml").read_text("utf-8").replace("form: rows", form)
    text = text if l is None else text.replace("{k: 3}", f"{{k: 3, l: {l}}}")
    (folder / "table.yaml").write_text(more + text, "utf-8")
    return folder
