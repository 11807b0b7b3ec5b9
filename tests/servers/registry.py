"""A stub of a schema registry's REST interface, written for tests: no registry's own code runs here.

It knows what the project asks for (`GET /subjects`, `GET /schemas/ids/<id>`, `POST /subjects/<subject>/versions`),
answers as Confluent's does, and asks for user and password where it is given them.
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from servers.broker.servers import free_ports


class StubRegistry:
    """Schemas by id, behind a URL that can be shut and opened again."""

    def __init__(self, user_and_password: str | None = None) -> None:
        self.schemas: dict[int, dict[str, object]] = {}
        self.subjects: dict[str, int] = {}
        self.asked: list[str] = []
        self.refuses: int | None = None
        """The answer to whoever registers a schema; None: it is taken."""
        self._wanted = user_and_password and "Basic " + b64encode(user_and_password.encode()).decode()
        (self._port,) = free_ports(1)
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def add(self, schema: object, kind: str = "AVRO", schema_id: int | None = None) -> int:
        """Keeps a schema, as a producer has it registered; returns its id."""
        number = len(self.schemas) + 1 if schema_id is None else schema_id
        self.schemas[number] = {"schema": json.dumps(schema), **({} if kind == "AVRO" else {"schemaType": kind})}
        return number

    def open(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def shut(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, path: str, authorization: str | None, body: bytes) -> tuple[int, object]:
        self.asked.append(f"{method} {path}")
        if self._wanted is not None and authorization != self._wanted:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.partition("?")[0].strip("/").split("/")
        if method == "GET" and parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
        if method == "GET" and parts == ["subjects"]:
            return 200, [*self.subjects]
        if method == "POST" and parts[0] == "subjects" and self.refuses is not None:
            return self.refuses, {"error_code": self.refuses, "message": "Canary: the schema"}
        if method == "POST" and parts[0] == "subjects" and parts[2:] == ["versions"]:
            said = json.loads(body)
            same = [number for number, schema in self.schemas.items() if schema == said]
            self.subjects[parts[1]] = same[0] if same else len(self.schemas) + 1
            self.schemas[self.subjects[parts[1]]] = said
            return 200, {"id": self.subjects[parts[1]]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, said = registry.answer(self.command, self.path, self.headers.get("Authorization"), body)
                answer = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = _serve

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on stderr."""

        return Handler


@contextmanager
def stub_registry(user_and_password: str | None = None) -> Iterator[StubRegistry]:
    """A registry that is open, for the time of a `with`."""
    registry = StubRegistry(user_and_password)
    registry.open()
    try:
        yield registry
    finally:
        registry.shut()
