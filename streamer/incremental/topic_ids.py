"""The ids of topics, which tell one topic from another of the same name, for readers and the operator's commands.

The client library speaks an older form of the question, whose answer has no ids: here is the newer one (Metadata,
version 12: Kafka 3.1 and later), sent by the library's own connection. The ids are written as the workers write them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from io import BytesIO

from kafka import KafkaAdminClient
from kafka.errors import NoError
from kafka.protocol.api import Request, Response
from kafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from streamer.incremental.topics import topic_name, topics_of

METADATA, VERSION = 3, 12
NO_ID = bytes(16)
"""In place of an id where a topic is asked for by its name."""

EMBEDDED_CLUSTER = "mockCluster"
"""How the id of the embedded broker's cluster begins. Workers cannot ask it for ids, so nobody goes by them there."""


class _Uuid(AbstractType):  # type: ignore[misc]  # the library has no types
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_NUMBERS = CompactArray(Int32)
_TAGS = ("tags", TaggedFields)
_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", _NUMBERS),
    ("isr", _NUMBERS),
    ("offline_replicas", _NUMBERS),
    _TAGS,
)
_TOPIC = (
    ("error_code", Int16),
    ("topic", CompactString("utf-8")),
    ("topic_id", _Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("authorized_operations", Int32),
    _TAGS,
)
_BROKER = (
    ("node_id", Int32),
    ("host", CompactString("utf-8")),
    ("port", Int32),
    ("rack", CompactString("utf-8")),
    _TAGS,
)


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = METADATA, VERSION, True
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        _TAGS,
    )


class _MetadataRequest(Request):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = METADATA, VERSION, True
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("topic", CompactString("utf-8")), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


def topic_ids(admin: KafkaAdminClient, table_name: str) -> dict[str, str]:
    """The ids of a table's topics by kind; without those that do not exist, empty where the broker gives no ids."""
    names = {topic.name: topic.kind for topic in topics_of(table_name)}
    return {names[name]: id_ for name, id_ in _ids(admin, names).items()}


def topic_id(admin: KafkaAdminClient, table_name: str, kind: str) -> str:
    """The id of one topic; empty where it does not exist or the broker gives no ids."""
    return _ids(admin, [topic_name(table_name, kind)]).get(topic_name(table_name, kind), "")


def _ids(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, str]:
    _, newest = (admin._client.get_api_versions() or {}).get(METADATA, (0, 0))
    if newest < VERSION:
        return {}
    asked: list[tuple[bytes, str, dict[int, bytes]]] = [(NO_ID, name, {}) for name in names]
    said = admin.send_request(_MetadataRequest(asked, False, False, {})).to_object()
    if (said["cluster_id"] or "").startswith(EMBEDDED_CLUSTER):
        return {}
    return {
        topic["topic"]: b64encode(topic["topic_id"]).decode().rstrip("=")
        for topic in said["topics"]
        if topic["error_code"] == NoError.errno
    }
