"""kafka-python as its readers need it: access to a secured Kafka, TLS 1.3, and the ids of topics.

The library has neither of the last two, so this file reaches into it: the socket of a connection (`_sock`), the client
of an admin client (`_client`), and the classes of its protocol.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from selectors import EVENT_READ, DefaultSelector, SelectorKey
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import TopicAuthorizationFailedError
from kafka.protocol.api import Request, Response
from kafka.protocol.types import AbstractType, Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields
from kafka.sasl.oauth import AbstractTokenProvider

from streamer.kafka.access import fetch_token, for_python_clients
from streamer.kafka.settings import EMBEDDED_CLUSTER, KafkaSettings, TokenEndpoint


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python's token provider: a new token for every connection."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    def token(self) -> str:
        return fetch_token(self._endpoint).text


def kafka_python_access(settings: KafkaSettings) -> dict[str, Any]:
    """Keyword arguments of kafka-python's clients. Raises ConfigError."""
    return for_python_clients(settings, _Tokens)


class TicketsSkipped(DefaultSelector):
    """A selector for kafka-python's connections under TLS 1.3; `data` of a registered socket is its connection.

    After the handshake the server sends session tickets: the socket becomes readable without a request, and the library
    takes that for the end of the connection. So tickets are read here if no answer is awaited.
    """

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """The sockets that are ready; as with any selector, maybe none before the time is over."""
        ready = []
        for registered, events in super().select(timeout):
            left = events & ~EVENT_READ if events & EVENT_READ and _brings_nothing(registered) else events
            if left:
                ready.append((registered, left))
        return ready


def _brings_nothing(registered: SelectorKey) -> bool:
    """True if a readable socket has neither data nor its end for the client."""
    connection = registered.data
    socket = getattr(connection, "_sock", None)  # the registered one may be the socket from before TLS
    if not isinstance(socket, ssl.SSLSocket) or not connection.connected() or connection.in_flight_requests:
        return False
    try:
        socket.recv(1)  # a byte would be unexpected, and an error for the client to raise
    except ssl.SSLWantReadError:
        return True
    except OSError:  # the client finds it, too
        return False
    return False


METADATA, METADATA_VERSION = 3, 12
"""The request that returns ids (Kafka 3.1 and later); the library itself has older versions only."""

NO_ID = bytes(16)
"""The id in a request for a topic by its name."""


class _Uuid(AbstractType):  # type: ignore[misc]  # the library has no types
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


def _struct(**fields: Any) -> tuple[Any, ...]:
    return (*fields.items(), ("tags", TaggedFields))


_NUMBERS, _TEXT = CompactArray(Int32), CompactString("utf-8")
_PARTITION = _struct(
    error=Int16, n=Int32, leader=Int32, epoch=Int32, replicas=_NUMBERS, in_sync=_NUMBERS, offline=_NUMBERS
)
_TOPIC = _struct(
    error=Int16, name=_TEXT, id=_Uuid, internal=Boolean, partitions=CompactArray(*_PARTITION), operations=Int32
)
_BROKER = _struct(number=Int32, host=_TEXT, port=Int32, rack=_TEXT)


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = METADATA, METADATA_VERSION, True
    SCHEMA = Schema(
        *_struct(
            wait=Int32, brokers=CompactArray(*_BROKER), cluster=_TEXT, controller=Int32, topics=CompactArray(*_TOPIC)
        )
    )


class _MetadataRequest(Request):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = METADATA, METADATA_VERSION, True
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(*_struct(topics=CompactArray(*_struct(id=_Uuid, name=_TEXT)), creates=Boolean, operations=Boolean))


Topics = Mapping[str, tuple[str, int]]
"""Id and number of partitions of the topics that exist, by name; the id is "" if the broker gives none."""


def topics_now(admin: KafkaAdminClient, names: Sequence[str]) -> Topics:
    """The existing ones of some topics. Raises KafkaError, also for a topic that is hidden from this user."""
    _, newest = (admin._client.get_api_versions() or {}).get(METADATA, (0, 0))
    if newest < METADATA_VERSION:
        return {said["topic"]: ("", len(said["partitions"])) for said in admin.describe_topics(list(names))}
    asked: list[tuple[bytes, str, dict[int, bytes]]] = [(NO_ID, name, {}) for name in names]
    said = admin.send_request(_MetadataRequest(asked, False, False, {})).to_object()
    if hidden := {one["name"] for one in said["topics"] if one["error"] == TopicAuthorizationFailedError.errno}:
        raise TopicAuthorizationFailedError(hidden)
    gives_ids = not (said["cluster"] or "").startswith(EMBEDDED_CLUSTER)
    return {
        one["name"]: (b64encode(one["id"]).decode().rstrip("=") if gives_ids else "", len(one["partitions"]))
        for one in said["topics"]
        if one["error"] == 0
    }
