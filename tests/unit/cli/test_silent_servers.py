"""Commands against servers that take a connection and say nothing, as frozen ones do: they end soon, with a name."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from time import monotonic

import pytest
from click.testing import CliRunner

from streamer import reader
from streamer.cli.main import main
from streamer.incremental.store import redis_server
from streamer.kafka import clients
from worlds.checkout import PATIENTS

ROWS = PATIENTS / "rows.csv"
COMMANDS = {
    "status": "Kafka",
    "groups": "Redis",
    "explain p1": "Redis",
    "index --out {out}": "Redis",
    "dead-letters": "Kafka",
    "dead-letters retry --reason wrong-type": "Kafka",
    "rebuild": "Kafka",
    "skip --shard 0 --offset 3": "Kafka",
    "end-snapshot": "Kafka",
    "topics check": "Kafka",
    "topics create --shards 2": "Kafka",
    "produce {rows}": "Kafka",
    "subscribe": "Kafka",
    "load {rows}": "Redis",
    "reload --from-source topic": "Redis",
}
"""Every command that asks a server, and the server that it asks first."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a port that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limits, shorter."""
    monkeypatch.setattr(clients, "WORD_SECONDS", 0.1)
    monkeypatch.setattr(clients, "CONNECT_SECONDS_MAX", 0.3)
    monkeypatch.setattr(redis_server, "REACH_SECONDS_MAX", 0.2)
    monkeypatch.setattr(reader, "WORD_MS", 100)
    monkeypatch.setattr(reader, "CONNECT_MS_MAX", 300)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_silent_server_ends_a_command_soon_and_by_its_name(command: str, silent: str, tmp_path: object) -> None:
    """Before: `groups`, `explain`, `load` and `reload` were silent for more than a minute."""
    words = command.format(rows=ROWS, out=f"{tmp_path}/index.csv").split()
    servers = {"KAFKA_BOOTSTRAP": silent, "REDIS_URL": f"redis://{silent}/0"}
    began = monotonic()
    said = CliRunner().invoke(main, [*words, "--table", str(PATIENTS)], env=servers)
    assert said.exit_code == 3, said.output
    assert f"{COMMANDS[command]} " in said.stderr
    assert silent in said.stderr
    assert monotonic() - began < 5


def test_all_limits_together_leave_a_command_ten_seconds() -> None:
    assert clients.CONNECT_SECONDS_MAX + redis_server.REACH_SECONDS_MAX <= 10
    assert (reader.WORD_MS + reader.CONNECT_MS_MAX) / 1000 <= 10


@pytest.mark.usefixtures("impatient")
def test_a_kafka_that_does_not_answer_yet_is_waited_for_with_a_word(
    silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for words in (["topics", "check"], ["subscribe"]):
            CliRunner().invoke(main, [*words, "--table", str(PATIENTS)], env={"KAFKA_BOOTSTRAP": silent})
    said = [line.getMessage() for line in caplog.records if line.name.startswith("streamer")]
    assert said == [f"waiting for Kafka at {silent}, which does not answer yet"] * 2
