"""Tickets of TLS 1.3 that come while no answer is waited for: the client hears nothing of them, and of all else."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE

import pytest
import trustme

from streamer.incremental.kafka_tickets import TicketsPassedOver

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
    selector: TicketsPassedOver

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
    with ThreadPoolExecutor(1) as broker, TicketsPassedOver() as selector:
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
    with ours, theirs, TicketsPassedOver() as selector:
        selector.register(ours, EVENT_READ, None)
        theirs.send(b"x")
        assert [events for _, events in selector.select(ARRIVES_SECONDS_MAX)] == [EVENT_READ]
