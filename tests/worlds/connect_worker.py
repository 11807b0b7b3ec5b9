"""Kafka Connect's REST interface as far as `check` asks it, answered out of memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

RUNNING = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}


@dataclass
class ConnectWorker:
    """A worker with connectors; `headers` are those of the last request, `status` the HTTP status of every answer."""

    configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def answer(self, path: str) -> bytes:
        if self.body is not None:
            return self.body
        if path != "/connectors?expand=info&expand=status":
            raise AssertionError(f"Connect was asked {path}")
        return json.dumps(
            {
                name: {
                    "info": {"name": name, "config": dict(config)},
                    "status": {"name": name, **self.states.get(name, RUNNING)},
                }
                for name, config in self.configs.items()
            }
        ).encode()


@contextmanager
def connect_worker(**configs: Mapping[str, str]) -> Iterator[ConnectWorker]:
    """A worker on a port of its own, with connectors by their names."""
    worker = ConnectWorker(dict(configs))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            worker.headers = dict(self.headers)
            body = worker.answer(self.path)
            self.send_response(worker.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    worker.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield worker
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
