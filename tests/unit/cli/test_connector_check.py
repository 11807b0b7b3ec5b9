"""`streamer check --connector`: what is found, for people and programs, and the exit code that goes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamer.cli.connector_check import check_connectors
from streamer.cli.main import main
from streamer.errors import UsageError
from streamer.incremental.connectors.debezium_source import source_config
from streamer.incremental.connectors.jdbc_sink import sink_config
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.connect_worker import connect_worker

TABLE = load_table(PATIENTS)
SOURCE, SINK = source_config(TABLE, "postgres"), sink_config(TABLE)
SKIPPING = {name: value for name, value in SOURCE.items() if name != "skipped.operations"}
OTHER = {"connector.class": "x.Y", "topics": "beds.live"}
CANARY = "pw-Canary-7316"


def check(where: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["check", "--table", str(PATIENTS), "--connector", where, *more])


def written(folder: Path, config: dict[str, str], name: str = "mine") -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, "config": config}))
    return str(path)


def reported(result: Result) -> list[dict[str, Any]]:
    connectors: list[dict[str, Any]] = json.loads(result.stdout)["connectors"]
    return connectors


def test_a_sound_connector_ends_with_0_and_says_what_was_not_looked_at(tmp_path: Path) -> None:
    result = check(written(tmp_path, SOURCE))
    assert result.exit_code == 0, result.output
    assert "connector mine (source, io.debezium.connector.postgresql.PostgresConnector): nothing found" in result.stdout
    assert "not checked: keys of messages" in result.stdout
    assert "table patients, key id" in result.stdout, "the table is described as always"


def test_a_setting_that_loses_something_ends_with_1_and_its_mend(tmp_path: Path) -> None:
    result = check(written(tmp_path, SKIPPING))
    assert result.exit_code == 1
    assert "skipped.operations (not set): what is left out stays published" in result.stdout
    assert "set it to none" in result.stdout


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    result = check(written(tmp_path, SKIPPING), "--json")
    assert result.exit_code == 1
    (connector,) = reported(result)
    (found,) = connector["findings"]
    assert (connector["name"], connector["kind"]) == ("mine", "source")
    assert (found["setting"], found["mend"]) == ("skipped.operations", "set it to none")


def test_without_a_connector_the_report_has_none() -> None:
    result = CliRunner().invoke(main, ["check", "--table", str(PATIENTS), "--json"])
    assert result.exit_code == 0
    assert "connectors" not in json.loads(result.stdout)


def test_of_all_connectors_of_a_worker_those_of_the_table_are_looked_at() -> None:
    with connect_worker(source=SKIPPING, sink=SINK, other=OTHER) as worker:
        result = check(worker.url, "--json")
        assert result.exit_code == 1
        assert {one["name"]: len(one["findings"]) for one in reported(result)} == {"source": 1, "sink": 0}


def test_a_connector_that_does_not_run_is_found_and_its_trace_is_not_shown() -> None:
    with connect_worker(source=SOURCE) as worker:
        task = {"id": 0, "state": "FAILED", "trace": CANARY}
        worker.states = {"source": {"connector": {"state": "RUNNING"}, "tasks": [task]}}
        result = check(worker.url)
    assert result.exit_code == 1
    assert "state (task 0 FAILED): nothing moves" in result.stdout
    assert CANARY not in result.output


def test_a_worker_without_a_connector_of_the_table_is_refused_with_those_that_it_has() -> None:
    with connect_worker(other=OTHER, beds=OTHER) as worker, pytest.raises(UsageError) as refused:
        check_connectors(TABLE, worker.url)
    assert "none there is about patients.changes, patients.live; there is other, beds" in str(refused.value)


def test_a_connector_that_was_named_is_looked_at_whatever_it_is_about(tmp_path: Path) -> None:
    result = check(written(tmp_path, OTHER))
    assert result.exit_code == 1
    assert "topics (beds.live): what is read is not this table's output alone; set it to patients.live" in result.stdout


@pytest.mark.parametrize("config", [SKIPPING, SINK, {**SOURCE, "transforms": "x", "transforms.x.type": "a.MaskField"}])
def test_passwords_of_a_configuration_are_never_printed(tmp_path: Path, config: dict[str, str]) -> None:
    names = ("database.password", "connection.password", "connection.url", "ssl.key.password", "transforms.x.secret")
    result = check(written(tmp_path, {**config, **dict.fromkeys(names, CANARY)}))
    as_json = check(written(tmp_path, {**config, **dict.fromkeys(names, CANARY)}), "--json")
    assert CANARY not in result.output + as_json.output
