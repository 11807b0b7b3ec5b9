"""The reading client takes the same settings; its tokens are awaited."""

from __future__ import annotations

import asyncio

import pytest

from agents import reader_access as module
from agents.reader_access import reader_access
from streamer.incremental.kafka_settings import TokenEndpoint
from streamer.incremental.kafka_token import Token


def test_a_provider_of_tokens_asks_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TokenEndpoint] = []

    def fetch(endpoint: TokenEndpoint) -> Token:
        asked.append(endpoint)
        return Token("given", 60)

    monkeypatch.setattr(module, "fetch_token", fetch)
    for name, value in {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "me", "KAFKA_SASL_PASSWORD": "secret",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert "sasl_oauth_token_provider" not in reader_access()
    provider = module._Tokens(TokenEndpoint("http://a.example", "me", "secret"))
    assert asyncio.run(provider.token()) == "given"
    assert [endpoint.url for endpoint in asked] == ["http://a.example"]
