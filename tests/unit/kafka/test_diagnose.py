"""Why a connection to a secured Kafka was closed, told so that an operator can mend it; an outage stays an outage."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import kafka.conn
import pytest
import trustme
from kafka.conn import ConnectionStates as States
from kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.kafka.diagnose import reason, require_access, shut_out
from streamer.kafka.settings import KafkaSettings

CANARY = "canary-7Q"
SETTINGS = KafkaSettings("SASL_SSL", "PLAIN", "me", CANARY)


@pytest.mark.parametrize(
    ("why", "reached", "kind", "says"),
    [
        (
            SaslAuthenticationFailedError(CANARY),
            States.AUTHENTICATING,
            ConfigError,
            "authentication failed: user and password",
        ),
        (
            UnsupportedSaslMechanismError(CANARY),
            States.AUTHENTICATING,
            ConfigError,
            "does not offer sasl.mechanism=PLAIN",
        ),
        (KafkaConnectionError(CANARY), States.AUTHENTICATING, ConfigError, "does not offer sasl.mechanism"),
        (ssl.SSLError(1, CANARY), States.HANDSHAKE, ConfigError, "TLS was refused"),
        (
            KafkaConnectionError(CANARY),
            States.API_VERSIONS_RECV,
            ServerUnreachable,
            "does this listener speak .*SASL_SSL",
        ),
        (
            InvalidReceiveError(CANARY),
            States.API_VERSIONS_RECV,
            ServerUnreachable,
            "does this listener speak .*SASL_SSL",
        ),
    ],
)
def test_each_cause_has_its_sentence(why: Exception, reached: States, kind: type[StreamerError], says: str) -> None:
    told = reason("Kafka at a:1", why, reached, SETTINGS)
    assert isinstance(told, kind)
    assert str(told).startswith("Kafka at a:1") and CANARY not in str(told)
    with pytest.raises(kind, match=says):
        raise told


@pytest.mark.parametrize(
    ("why", "reached"),
    [
        (None, States.API_VERSIONS_RECV),
        (KafkaConnectionError("111 ECONNREFUSED"), States.CONNECTING),
        (KafkaConnectionError("timeout"), States.AUTHENTICATING),
    ],
)
def test_what_may_be_an_outage_is_none_of_them(why: Exception | None, reached: States) -> None:
    assert reason("Kafka at a:1", why, reached, SETTINGS) is None


@pytest.fixture
def tls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server whose certificate, for the name localhost, is by the authority in ca.pem."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SSL")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, context), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _serve(server: socket.socket, context: ssl.SSLContext) -> None:
    """Ends every connection after its handshake."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()


@pytest.mark.parametrize(
    ("host", "ca", "says"),
    [
        ("localhost", "other.pem", "certificate is not trusted .*KAFKA_SSL_CAFILE"),
        ("127.0.0.1", "ca.pem", "certificate is made for another name"),
        ("localhost", "missing.pem", "KAFKA_SSL_CAFILE.*cannot be read"),
    ],
)
def test_a_certificate_that_does_not_hold_is_told(
    tls_server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, ca: str, says: str
) -> None:
    monkeypatch.setenv("KAFKA_SSL_CAFILE", str(tmp_path / ca))
    with pytest.raises(ConfigError, match=says):
        require_access([f"{host}:{tls_server}"])


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x03\x00\x02\x02\x16"], ids=["hangs up", "alert of TLS"])
def test_a_listener_of_another_protocol_is_told_however_it_ends_the_connection(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "me")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer, args=(server, answer), daemon=True)
        thread.start()
        told = shut_out([f"127.0.0.1:{server.getsockname()[1]}"])
        thread.join(5)
    assert isinstance(told, ServerUnreachable) and "does this listener speak" in str(told)


def _answer(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    connection.recv(1024)
    connection.sendall(answer)
    connection.close()


def test_of_a_name_with_two_addresses_the_one_that_came_farther_is_told(
    tls_server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first, where nobody listens, refuses the connection."""
    monkeypatch.setenv("KAFKA_SSL_CAFILE", str(tmp_path / "other.pem"))
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, tls_server)) for host in ("127.0.0.9", "127.0.0.1")]
    monkeypatch.setattr(kafka.conn, "dns_lookup", lambda *_: list(addresses))
    with pytest.raises(ConfigError, match="certificate is not trusted"):
        require_access([f"localhost:{tls_server}"])


@pytest.mark.parametrize("server", ["localhost", "[::1]", "127.0.0.1"])
def test_a_server_without_a_port_is_asked_where_the_library_asks_it(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is read first; no connection is made, since the certificates cannot be read."""
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("KAFKA_SSL_CAFILE", str(tmp_path / "missing.pem"))
    assert "cannot be read" in str(shut_out([server]))


@pytest.mark.parametrize("server", ["localhost:port", "[::1"])
def test_a_server_that_is_no_address_is_an_error_of_the_settings(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SSL")
    told = shut_out([server])
    assert isinstance(told, ConfigError) and server in str(told)


def test_a_kafka_that_asks_nobody_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_SECURITY_PROTOCOL", raising=False)
    assert shut_out(["nowhere.invalid:1"]) is None
