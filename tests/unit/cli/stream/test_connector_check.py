"""`streamer check --connector`: what is found, for people and programs, and the exit code that goes with it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer.cli.stream.connector_check import check_connectors, read_connectors
from streamer.errors import ServerUnreachable, StreamerError, UsageError
from streamer.incremental.connect.connectors import sink_config, source_config
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.checkout import PATIENTS
from worlds.http_servers import ConnectWorker, connect_worker

TABLE = load_table(PATIENTS)
SOURCE, SINK = source_config(TABLE, "postgres"), sink_config(TABLE)
SKIPPING = {name: value for name, value in SOURCE.items() if name != "skipped.operations"}
OTHER = {"connector.class": "x.Y", "topics": "beds.live"}
CANARY = "pw-Canary-7316"


def check(where: str, *more: str) -> Result:
    return streamer("check", "--table", PATIENTS, "--connector", where, *more)


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
    assert "skipped.operations (not set): what is skipped stays published" in result.stdout
    assert "set it to none" in result.stdout


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    result = check(written(tmp_path, SKIPPING), "--json")
    assert result.exit_code == 1
    (connector,) = reported(result)
    (found,) = connector["findings"]
    assert (connector["name"], connector["kind"]) == ("mine", "source")
    assert (found["setting"], found["mend"]) == ("skipped.operations", "set it to none")


def test_without_a_connector_the_report_has_none() -> None:
    result = streamer("check", "--table", PATIENTS, "--json")
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
    assert "none is about patients.changes, patients.live; found: other, beds" in str(refused.value)


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


# -- connectors are read from files and from Connect ------------------------------------------------------------------

CONFIG = {"connector.class": "x.Y", "database.password": CANARY}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectWorker]:
    for name in ("CONNECT_USER", "CONNECT_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with connect_worker(one=CONFIG, two={"connector.class": "x.Z"}) as running:
        yield running


@pytest.mark.parametrize(("said", "name"), [({"name": "n", "config": CONFIG}, "n"), (CONFIG, "mine")])
def test_a_file_holds_a_configuration_with_or_without_its_name(
    tmp_path: Path, said: dict[str, object], name: str
) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(said))
    (read,) = read_connectors(str(tmp_path / "mine.json"))
    assert (read.name, read.config.connector_class) == (name, "x.Y")


@pytest.mark.parametrize("text", [None, f"{{{CANARY}", f'"{CANARY}"', f'{{"a": "{CANARY}"}}'])
def test_a_file_that_is_none_is_refused_and_not_quoted(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "mine.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        read_connectors(str(tmp_path / "mine.json"))
    assert CANARY not in str(refused.value)


def test_all_connectors_of_a_worker_are_read_with_what_does_not_run(worker: ConnectWorker) -> None:
    failed = {"id": 0, "state": "FAILED", "trace": CANARY}
    worker.states = {"two": {"connector": {"state": "RUNNING"}, "tasks": [failed]}}
    one, two = read_connectors(f"{worker.url}/")
    assert (one.name, one.halted) == ("one", ())
    assert (two.name, two.halted) == ("two", ("task 0 FAILED",))


@pytest.mark.parametrize("path", ["/connectors/two", "/connectors/two/config", "/connectors/two/"])
def test_an_address_may_name_one_connector(worker: ConnectWorker, path: str) -> None:
    assert [read.name for read in read_connectors(worker.url + path)] == ["two"]


def test_a_connector_that_is_not_there_is_said_with_those_that_are(worker: ConnectWorker) -> None:
    with pytest.raises(UsageError, match="it has one, two"):
        read_connectors(f"{worker.url}/connectors/three")


def test_a_connector_without_tasks_does_not_run(worker: ConnectWorker) -> None:
    worker.states = {"one": {"connector": {"state": "PAUSED"}, "tasks": []}}
    assert read_connectors(f"{worker.url}/connectors/one")[0].halted == ("connector PAUSED", "no task")


def test_user_and_password_for_connect_come_from_the_environment(
    worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_connectors(worker.url)
    assert "Authorization" not in worker.headers
    monkeypatch.setenv("CONNECT_USER", "me")
    monkeypatch.setenv("CONNECT_PASSWORD", CANARY)
    read_connectors(worker.url)
    assert worker.headers["Authorization"] == f"Basic {b64encode(f'me:{CANARY}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("status", "body", "error", "word"),
    [
        (401, CANARY.encode(), UsageError, "set CONNECT_USER"),
        (403, b"", UsageError, "set CONNECT_USER"),
        (500, CANARY.encode(), ServerUnreachable, "500"),
        (200, CANARY.encode(), UsageError, "not Kafka Connect"),
        (404, b"[]", UsageError, "not Kafka Connect"),
    ],
)
def test_what_connect_refuses_is_told_by_its_status_alone(
    worker: ConnectWorker,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: bytes,
    error: type[StreamerError],
    word: str,
) -> None:
    monkeypatch.setenv("CONNECT_USER", "me")
    monkeypatch.setenv("CONNECT_PASSWORD", CANARY)
    worker.status, worker.body = status, body
    with pytest.raises(error) as refused:
        read_connectors(worker.url)
    assert word in str(refused.value)
    assert CANARY not in str(refused.value)


def test_a_worker_that_does_not_answer_is_a_server_out_of_reach() -> None:
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1 does not answer \(ConnectError\)"):
        read_connectors("http://127.0.0.1:1")


@pytest.mark.parametrize(
    "where", [f"http://me:{CANARY}@127.0.0.1:1", f"http://{CANARY}@h/connectors/x", "http://", "http://h:x"]
)
def test_an_address_with_a_password_is_refused_and_not_repeated(where: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_connectors(where)
    assert CANARY not in str(refused.value)
