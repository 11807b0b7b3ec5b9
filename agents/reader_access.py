"""How the reading client gets into Kafka: as the others do, but for tokens, for which it asks within its event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from streamer.incremental.kafka_access import for_aiokafka, kafka_settings
from streamer.incremental.kafka_settings import TokenEndpoint
from streamer.incremental.kafka_token import fetch_token


def reader_access() -> dict[str, Any]:
    """Keywords of an AIOKafkaConsumer. Raises ConfigError."""
    settings = kafka_settings()
    said = for_aiokafka(settings)
    if settings.endpoint is not None:
        said["sasl_oauth_token_provider"] = _Tokens(settings.endpoint)
    return said


class _Tokens(AbstractTokenProvider):
    """A token for every connection."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._endpoint)).text
