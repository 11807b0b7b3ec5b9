"""HTTP servers in memory: Kafka Connect as far as `check` asks it, and an endpoint that gives tokens."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
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


class Endpoint:
    """Answers every question with one answer, in a `with`, and keeps what it was asked."""

    def __init__(self, status: int, answer: bytes) -> None:
        self.asked: list[tuple[str, str]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked.append((self.headers["Authorization"], body))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer)

            def do_GET(self) -> None:
                asked.append((self.headers["Authorization"], ""))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def unsigned_token(user: str, seconds: int = 600) -> str:
    """A token that brokers of tests believe."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + seconds})
    return "".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)
