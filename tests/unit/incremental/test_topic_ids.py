"""The ids of topics: the question that the client library cannot ask, and where there are none.

That they are the ids which workers see is tested on a real broker (servers/test_topic_ids.py).
"""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from streamer.incremental.topic_ids import METADATA, NO_ID, VERSION, topic_id, topic_ids

ID = bytes(range(16))
WRITTEN = "AAECAwQFBgcICQoLDA0ODw"
"""As the workers write it: base64 without the padding."""


class Admin:
    """An admin client whose broker has some topics; it answers in bytes, as brokers do."""

    def __init__(self, topics: dict[str, bytes], newest: int = VERSION, cluster: str = "abc") -> None:
        self._client = SimpleNamespace(get_api_versions=lambda: {METADATA: (0, newest)})
        self._topics = topics
        self._cluster = cluster
        self.asked: list[str] = []

    def send_request(self, request: Any) -> Any:
        read = type(request).decode(BytesIO(request.encode()))
        assert (read.API_KEY, read.API_VERSION) == (METADATA, VERSION)
        assert not read.allow_auto_topic_creation, "to ask for a topic must not make it"
        assert {id_ for id_, _, _ in read.topics} == {NO_ID}
        self.asked = [name for _, name, _ in read.topics]
        told = [self._told(name) for name in self.asked]
        answer = read.RESPONSE_TYPE(0, [(1, "localhost", 9092, None, {})], self._cluster, 1, told, {})
        return read.RESPONSE_TYPE.decode(BytesIO(answer.encode()))

    def _told(self, name: str) -> tuple[Any, ...]:
        partition: tuple[Any, ...] = (0, 0, 1, 5, [1], [1], [], {})
        if name in self._topics:
            return 0, name, self._topics[name], False, [partition], 0, {}
        return UnknownTopicOrPartitionError.errno, name, NO_ID, False, [], 0, {}


def test_the_ids_of_a_tables_topics_are_told_by_kind_and_written_as_workers_write_them() -> None:
    admin = Admin({"people.changes": ID, "people.live": ID[::-1]})
    assert topic_ids(admin, "people") == {"changes": WRITTEN, "live": "Dw4NDAsKCQgHBgUEAwIBAA"}
    assert b64decode(WRITTEN + "==") == ID
    assert set(admin.asked) >= {"people.changes", "people.live", "people.positions", "people.dead-letters"}


def test_a_topic_that_does_not_exist_has_no_id() -> None:
    assert topic_ids(Admin({}), "people") == {}
    assert topic_id(Admin({}), "people", "live") == ""


def test_one_topic_is_asked_for_alone() -> None:
    admin = Admin({"people.live": ID})
    assert topic_id(admin, "people", "live") == WRITTEN
    assert admin.asked == ["people.live"]


@pytest.mark.parametrize(
    "admin", [Admin({"people.live": ID}, newest=VERSION - 1), Admin({"people.live": ID}, cluster="mockCluster7")]
)
def test_a_broker_that_gives_no_ids_gives_none(admin: Admin) -> None:
    assert topic_ids(admin, "people") == {}
    assert topic_id(admin, "people", "live") == ""
