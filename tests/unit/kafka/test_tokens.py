"""Tokens: asked for as OAuth says, and nothing of the client's secret or the token in a message."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

import pytest

from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.kafka.access import fetch_token
from streamer.kafka.settings import TokenEndpoint
from worlds.http_servers import Endpoint

CANARY = "canary:7Q"


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with Endpoint(*request.param) as endpoint:
        yield endpoint


@pytest.mark.parametrize("endpoint", [(200, b'{"access_token": "canary-token-0001", "expires_in": 60}')], indirect=True)
def test_a_token_is_asked_for_by_the_clients_credentials(endpoint: Endpoint) -> None:
    token = fetch_token(TokenEndpoint(endpoint.url, "me", CANARY, "kafka"))
    assert (token.text, token.seconds) == ("canary-token-0001", 60.0)
    assert "canary" not in repr(token)
    ((authorization, body),) = endpoint.asked
    assert b64decode(authorization.removeprefix("Basic ")) == b"me:canary%3A7Q"
    assert body == "grant_type=client_credentials&scope=kafka"


@pytest.mark.parametrize(
    ("endpoint", "kind", "says"),
    [
        ((401, b"canary"), ConfigError, "no token .HTTP 401."),
        ((503, b"canary"), ServerUnreachable, "answers 503"),
        ((200, b"canary"), ConfigError, "holds no access_token"),
        ((200, b'{"error": "canary"}'), ConfigError, "holds no access_token"),
        ((200, b'["canary"]'), ConfigError, "holds no access_token"),
        ((200, b"[" * 100_000), ConfigError, "holds no access_token"),
        ((200, b'{"access_token": "x", "expires_in": 1%s}' % (b"0" * 400)), ConfigError, "holds no access_token"),
        ((200, b'{"access_token": null, "detail": "canary"}'), ConfigError, "holds no access_token"),
        ((200, b'{"access_token": "x", "detail": "canary"}'), ConfigError, "no bearer token of 16 characters or more"),
        ((200, b'{"access_token": "canary canary canary"}'), ConfigError, "no bearer token of 16 characters or more"),
    ],
    indirect=["endpoint"],
)
def test_what_is_no_token_is_told_without_the_answer(endpoint: Endpoint, kind: type[StreamerError], says: str) -> None:
    with pytest.raises(kind, match=says) as told:
        fetch_token(TokenEndpoint(endpoint.url, "me", CANARY))
    assert "canary" not in str(told.value)


def test_an_endpoint_that_is_away_is_an_outage() -> None:
    with pytest.raises(ServerUnreachable, match="does not answer"):
        fetch_token(TokenEndpoint("http://127.0.0.1:1/token", "me", CANARY))


def test_the_clients_secret_goes_to_nobody_whom_a_redirection_names() -> None:
    with Endpoint(200, b'{"access_token": "of somebody else"}') as thief, Redirecting(thief.url) as endpoint:
        with pytest.raises(StreamerError):
            fetch_token(TokenEndpoint(endpoint.url, "me", CANARY))
        assert thief.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:canary/x", "http://no host/x", "https://me:canary@id/t", "https:///t", "https://id/canary t",
        "https://id:99999/canary", "ftp://id/canary",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_an_error_of_the_settings(url: str) -> None:
    endpoint = TokenEndpoint(url, "me", CANARY)
    with pytest.raises(ConfigError, match="not an address") as told:
        fetch_token(endpoint)
    assert "canary" not in f"{told.value} {endpoint}"


@pytest.mark.parametrize("answer", [b"canary answer\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{canary"])
def test_what_does_not_speak_http_is_an_outage_told_without_its_answer(answer: bytes) -> None:
    with Blurting(answer) as endpoint, pytest.raises(ServerUnreachable, match="does not speak HTTP") as told:
        fetch_token(TokenEndpoint(endpoint.url, "me", CANARY))
    assert "canary" not in str(told.value)


class Blurting(Endpoint):
    """An endpoint that answers with these bytes and no others."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(200, b"")
        handler = self._server.RequestHandlerClass

        class Handler(handler):  # type: ignore[misc, valid-type]
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.wfile.write(answer)

        self._server.RequestHandlerClass = Handler


class Redirecting(Endpoint):
    """An endpoint that names another one."""

    def __init__(self, url: str) -> None:
        super().__init__(302, b"")
        handler = self._server.RequestHandlerClass

        class Handler(handler):  # type: ignore[misc, valid-type]
            def end_headers(self) -> None:
                self.send_header("Location", url)
                super().end_headers()

        self._server.RequestHandlerClass = Handler
