"""The same settings as each client library wants them; files that are not as they must be are said once, in one way."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from streamer.errors import ConfigError
from streamer.kafka.access import for_librdkafka, for_python_clients, kafka_settings, read_properties, tls_context
from streamer.kafka.settings import KafkaSettings

CANARY = "canary-7Q"


def python_clients(settings: KafkaSettings) -> dict[str, Any]:
    return for_python_clients(settings, lambda endpoint: endpoint)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, ca: trustme.CA) -> Path:
    """ca.pem, me.pem and what is neither."""
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    ca.issue_cert("me.example").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    (tmp_path / "other.txt").write_text(CANARY)
    return tmp_path


def test_nothing_said_asks_each_client_for_nothing() -> None:
    assert python_clients(KafkaSettings()) == {"security_protocol": "PLAINTEXT", "ssl_context": None}
    assert for_librdkafka(KafkaSettings()) == {"security.protocol": "plaintext"}


def test_password_and_tls_reach_all_clients(files: Path) -> None:
    settings = KafkaSettings("SASL_SSL", "SCRAM-SHA-512", "me", CANARY, ca_file=str(files / "ca.pem"))
    said = python_clients(settings)
    assert isinstance(said.pop("ssl_context"), ssl.SSLContext)
    assert said == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": CANARY,
    }
    assert for_librdkafka(settings) == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": CANARY,
        "ssl.ca.location": str(files / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "https",
    }


@pytest.mark.parametrize("checks_host", [True, False])
def test_the_name_in_the_certificate_is_compared_by_all_or_by_none(files: Path, checks_host: bool) -> None:
    settings = KafkaSettings("SSL", ca_file=str(files / "ca.pem"), checks_host=checks_host)
    context = tls_context(settings)
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (checks_host, ssl.CERT_REQUIRED)
    algorithm = for_librdkafka(settings)["ssl.endpoint.identification.algorithm"]
    assert algorithm == ("https" if checks_host else "none")


def test_a_certificate_of_ours_reaches_the_c_client_by_its_file(files: Path) -> None:
    said = for_librdkafka(KafkaSettings("SSL", keystore_file=str(files / "me.pem"), key_password="x"))
    assert said["ssl.certificate.location"] == said["ssl.key.location"] == str(files / "me.pem")


@pytest.mark.parametrize(
    ("ca_file", "keystore", "says"),
    [
        ("missing.pem", "", "KAFKA_SSL_CAFILE.*cannot be read"),
        ("other.txt", "", "KAFKA_SSL_CAFILE.*not certificates in PEM"),
        ("ca.pem", "missing.pem", "KAFKA_SSL_KEYSTORE.*cannot be read"),
        ("ca.pem", "ca.pem", "KAFKA_SSL_KEYSTORE.*not a key"),
        ("ca.pem", "other.txt", "KAFKA_SSL_KEYSTORE.*not a key"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_said_before_a_client_sees_it(
    files: Path, ca_file: str, keystore: str, says: str
) -> None:
    named = str(files / keystore) if keystore else ""
    settings = KafkaSettings("SSL", ca_file=str(files / ca_file), keystore_file=named, key_password=CANARY)
    for client in (python_clients, for_librdkafka):
        with pytest.raises(ConfigError, match=says) as refused:
            client(settings)
        assert CANARY not in str(refused.value)


def test_the_file_and_the_variables_of_the_environment_are_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism: PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'   username="me" \\\n   password="{CANARY}";\n'
    )
    said = kafka_settings({"KAFKA_CONFIG": str(file), "KAFKA_SASL_USERNAME": "you"})
    assert said == KafkaSettings("SASL_PLAINTEXT", "PLAIN", "you", CANARY)


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol={CANARY}\n")
    with pytest.raises(ConfigError, match=r"client\.properties: security\.protocol: expected") as refused:
        kafka_settings({"KAFKA_CONFIG": str(file)})
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("content", [None, CANARY.encode() + b"\xff", f"a=\\uzz{CANARY}".encode()])
def test_a_file_that_cannot_be_read_is_named_and_not_quoted(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"KAFKA_CONFIG: .*client\.properties") as refused:
        read_properties(str(file))
    assert CANARY not in str(refused.value)
