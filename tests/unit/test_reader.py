"""A reader's client library: the ids that it cannot ask for by itself, and tickets of TLS that it takes for an end.

That the ids are those which workers see is tested on a real broker (servers/test_topic_ids.py).
"""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from selectors import EVENT_READ, EVENT_WRITE
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

from streamer.reader import METADATA, METADATA_VERSION, NO_ID, TicketsSkipped, topics_now

ID = bytes(range(16))
WRITTEN = "AAECAwQFBgcICQoLDA0ODw"
"""As the workers write it: base64 without the padding."""


class Admin:
    """An admin client whose broker has some topics; it answers in bytes, as brokers do."""

    def __init__(
        self, topics: dict[str, bytes], newest: int = METADATA_VERSION, cluster: str = "abc", hidden: str = ""
    ) -> None:
        self._client = SimpleNamespace(get_api_versions=lambda: {METADATA: (0, newest)})
        self._topics = topics
        self._cluster = cluster
        self._hidden = hidden
        self.asked: list[str] = []

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"topic": name, "partitions": [{}]} for name in names]

    def send_request(self, request: Any) -> Any:
        read = type(request).decode(BytesIO(request.encode()))
        assert (read.API_KEY, read.API_VERSION) == (METADATA, METADATA_VERSION)
        assert not read.creates, "to ask for a topic must not make it"
        assert {id_ for id_, _, _ in read.topics} == {NO_ID}
        self.asked = [name for _, name, _ in read.topics]
        told = [self._told(name) for name in self.asked]
        answer = read.RESPONSE_TYPE(0, [(1, "localhost", 9092, None, {})], self._cluster, 1, told, {})
        return read.RESPONSE_TYPE.decode(BytesIO(answer.encode()))

    def _told(self, name: str) -> tuple[Any, ...]:
        partition: tuple[Any, ...] = (0, 0, 1, 5, [1], [1], [], {})
        if name == self._hidden:
            return TopicAuthorizationFailedError.errno, name, NO_ID, False, [], 0, {}
        if name in self._topics:
            return 0, name, self._topics[name], False, [partition], 0, {}
        return UnknownTopicOrPartitionError.errno, name, NO_ID, False, [], 0, {}


NAMES = ("people.changes", "people.live")


def test_topics_have_ids_written_as_workers_write_them() -> None:
    admin = Admin({"people.changes": ID, "people.live": ID[::-1]})
    assert topics_now(admin, NAMES) == {"people.changes": (WRITTEN, 1), "people.live": ("Dw4NDAsKCQgHBgUEAwIBAA", 1)}
    assert b64decode(WRITTEN + "==") == ID
    assert admin.asked == list(NAMES)


def test_a_topic_that_does_not_exist_is_not_among_them() -> None:
    assert topics_now(Admin({"people.live": ID}), NAMES) == {"people.live": (WRITTEN, 1)}


def test_a_topic_that_is_kept_from_this_user_is_an_error_that_names_it() -> None:
    with pytest.raises(TopicAuthorizationFailedError, match=r"people\.live"):
        topics_now(Admin({"people.live": ID}, hidden="people.live"), NAMES)


@pytest.mark.parametrize(
    "admin",
    [Admin({"people.live": ID}, newest=METADATA_VERSION - 1), Admin({"people.live": ID}, cluster="mockCluster7")],
)
def test_a_broker_that_gives_no_ids_gives_none(admin: Admin) -> None:
    assert topics_now(admin, ["people.live"]) == {"people.live": ("", 1)}


# -- tickets ------------------------------------------------------------------------------------------------------

ARRIVES_SECONDS_MAX = 30.0


@dataclass
class Connection:
    """As much of kafka-python's as counts here."""

    _sock: ssl.SSLSocket | None = None
    is_up: bool = True
    in_flight_requests: dict[int, str] = field(default_factory=dict)

    def connected(self) -> bool:
        return self.is_up


@dataclass
class Wire:
    """The two ends of a connection by TLS 1.3 whose tickets lie unread at the client's."""

    client: ssl.SSLSocket
    server: ssl.SSLSocket
    connection: Connection
    selector: TicketsSkipped

    def told(self) -> list[int]:
        """What the client is told as soon as something has arrived."""
        assert select.select([self.client], [], [], ARRIVES_SECONDS_MAX)[0]
        return [events for _, events in self.selector.select(0)]


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the client, which trusts the server, and of the server."""
    ca, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("broker.example").configure_cert(server)
    client = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    return client, server


@pytest.fixture
def wire(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Wire]:
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as broker, TicketsSkipped() as selector:
        accepted = broker.submit(contexts[1].wrap_socket, theirs, server_side=True)
        selector.register(ours, EVENT_WRITE, Connection())  # as the library does it, before there is TLS
        client = contexts[0].wrap_socket(ours, server_hostname="broker.example")
        client.setblocking(False)
        with client, accepted.result() as server:
            connection = Connection(client)
            selector.modify(client, EVENT_READ, connection)
            yield Wire(client, server, connection, selector)


def test_a_ticket_alone_is_not_told(wire: Wire) -> None:
    assert wire.told() == []
    assert not select.select([wire.client], [], [], 0)[0], "it has been read"


def test_an_answer_behind_the_tickets_is_told_and_left_to_the_client(wire: Wire) -> None:
    wire.connection.in_flight_requests[1] = "a question"
    wire.server.send(b"answer")
    assert wire.told() == [EVENT_READ]
    assert wire.client.recv(10) == b"answer"


def test_the_end_of_a_connection_is_told(wire: Wire) -> None:
    wire.server.close()
    assert wire.told() == [EVENT_READ]


def test_a_connection_that_breaks_is_told(wire: Wire) -> None:
    with socket.socket(fileno=wire.server.detach()) as bare:
        bare.send(b"this is no TLS")
    assert wire.told() == [EVENT_READ]


def test_bytes_that_nobody_asked_for_are_told(wire: Wire) -> None:
    wire.server.send(b"unasked")
    assert wire.told() == [EVENT_READ]


def test_nothing_is_read_before_a_connection_is_made(wire: Wire) -> None:
    wire.connection.is_up = False
    assert wire.told() == [EVENT_READ]
    assert select.select([wire.client], [], [], 0)[0]


def test_what_can_be_written_to_is_told_beside_a_ticket(wire: Wire) -> None:
    wire.selector.modify(wire.client, EVENT_READ | EVENT_WRITE, wire.connection)
    assert wire.told() == [EVENT_WRITE]


def test_a_socket_without_tls_is_told_as_ever() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, TicketsSkipped() as selector:
        selector.register(ours, EVENT_READ, None)
        theirs.send(b"x")
        assert [events for _, events in selector.select(ARRIVES_SECONDS_MAX)] == [EVENT_READ]


# -- without a library in C ---------------------------------------------------------------------------------------


def test_a_reader_needs_no_client_in_c() -> None:
    code = "import sys; sys.modules['confluent_kafka'] = None; import streamer.cli.stream.subscribe"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
