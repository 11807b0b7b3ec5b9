"""An HTTP server in memory: an endpoint that gives tokens."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType


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
