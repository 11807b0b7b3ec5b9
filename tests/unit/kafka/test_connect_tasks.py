"""Which tasks of Kafka Connect do not run, as its REST interface tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from streamer.errors import ServerUnreachable, UsageError
from streamer.kafka.connect_tasks import connectors_at


@contextmanager
def answering(text: str, code: int = 200) -> Iterator[str]:
    """Something that gives this answer to every question."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/connectors?expand=status"
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(connector: str, *tasks: str) -> dict[str, object]:
    of_tasks = [{"id": n, "state": state, "worker_id": "w", "trace": "Canary: a row"} for n, state in enumerate(tasks)]
    return {"status": {"name": "n", "connector": {"state": connector, "worker_id": "w"}, "tasks": of_tasks}}


def test_each_task_that_does_not_run_is_named_with_the_call_that_helps() -> None:
    said = {
        "mine-source": status("RUNNING", "RUNNING"),
        "mine-sink": status("RUNNING", "RUNNING", "FAILED"),
        "a b": status("FAILED"),
        "idle": status("PAUSED", "PAUSED"),
        "moving": status("UNASSIGNED", "UNASSIGNED"),
        "empty": status("RUNNING"),
    }
    with answering(json.dumps(said)) as address:
        found = connectors_at(f"http://{address}/")
    at = f"http://{address}/connectors"
    assert found["mine-source"] == []
    assert found["mine-sink"] == [
        f"task 1 of mine-sink is FAILED: Connect's log says why; then `curl -X POST {at}/mine-sink/tasks/1/restart`"
    ]
    assert found["a b"] == [
        f"the connector of a b is FAILED: Connect's log says why; then `curl -X POST {at}/a%20b/restart`"
    ]
    assert [one.partition(": ")[2] for one in found["idle"]] == [
        f"if not on purpose, `curl -X PUT {at}/idle/resume`"
    ] * 2
    assert all(one.endswith("look again in a moment") for one in found["moving"])
    assert found["empty"] == [f"empty has no task: `curl -X POST '{at}/empty/restart?includeTasks=true'`"]
    assert "Canary" not in str(found)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("{}", 409, "refuses the request \\(409\\)"),
        ('["mine-sink"]', 200, "is not Kafka Connect's REST interface"),
        ("<html>", 200, "is not Kafka Connect's REST interface"),
    ],
    ids=["while its workers share the tasks out", "an older one", "another server"],
)
def test_other_answers_are_told(text: str, code: int, said: str) -> None:
    with answering(text, code) as address, pytest.raises(ServerUnreachable, match=said):
        connectors_at(address)


def test_an_address_that_is_none_is_refused_and_not_repeated() -> None:
    for address in ("http://me:Canary@here:8083", "ftp://Canary", "here:Canary", ""):
        with pytest.raises(UsageError, match="expected HOST:PORT") as refused:
            connectors_at(address)
        assert "Canary" not in str(refused.value)
    with pytest.raises(ServerUnreachable, match=r"Kafka Connect at http://127\.0\.0\.1:1 does not answer"):
        connectors_at("127.0.0.1:1")
