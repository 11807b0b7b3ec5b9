"""Connectors are read from files and from Connect; what goes wrong is said without a word of what was answered."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.cli.connector_check import read_connectors
from streamer.errors import ServerUnreachable, StreamerError, UsageError
from worlds.connect_worker import ConnectWorker, connect_worker

CANARY = "pw-Canary-7316"
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
