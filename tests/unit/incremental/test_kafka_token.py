"""Tokens: asked for as OAuth says, and nothing of the client's secret or the token in a message."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

import pytest

from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.incremental.kafka_settings import TokenEndpoint
from streamer.incremental.kafka_token import fetch_token
from worlds.token_endpoint import Endpoint

CANARY = "canary:7Q"


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with Endpoint(*request.param) as endpoint:
        yield endpoint


@pytest.mark.parametrize("endpoint", [(200, b'{"access_token": "canary-token", "expires_in": 60}')], indirect=True)
def test_a_token_is_asked_for_by_the_clients_credentials(endpoint: Endpoint) -> None:
    token = fetch_token(TokenEndpoint(endpoint.url, "me", CANARY, "kafka"))
    assert (token.text, token.seconds) == ("canary-token", 60.0)
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
