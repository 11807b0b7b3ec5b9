"""How this process gets into Kafka: its settings, as each of the three client libraries wants them.

The rules of this file
----------------------
* File and variables are read whenever a client is made: a password or certificate that was renewed is taken up by the
  next connection. Nothing is kept.
* Every file is opened here before any client sees its name, so that what is wrong with it is said once, in one way.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import javaproperties
from kafka.sasl.oauth import AbstractTokenProvider

from streamer.errors import ConfigError
from streamer.incremental.kafka_settings import CONFIG, KafkaSettings, TokenEndpoint, settings_of
from streamer.incremental.kafka_token import fetch_token


def read_properties(path: str) -> dict[str, str]:
    """A file of Java's properties. Raises ConfigError that says nothing of what is in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{CONFIG}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{CONFIG}: {path} is no text in UTF-8") from None
    try:
        return dict(javaproperties.loads(text))
    except ValueError:
        raise ConfigError(f"{CONFIG}: {path}: a backslash with u lacks its four digits") from None


def kafka_settings(environment: Mapping[str, str] = os.environ) -> KafkaSettings:
    """What the file that KAFKA_CONFIG names, and the variables, say right now. Raises ConfigError."""
    path = environment.get(CONFIG, "")
    try:
        return settings_of(read_properties(path) if path else {}, environment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path and path not in str(error) else str(error)) from None


def tls_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """What TLS is made with; None where there is none. Raises ConfigError for a file that is not as it must be."""
    if not settings.by_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ValueError) as error:
        raise _unusable("ssl.truststore.location (KAFKA_SSL_CAFILE)", error, "certificates in PEM") from None
    context.check_hostname = settings.checks_host
    if settings.keystore_file:
        try:
            context.load_cert_chain(settings.keystore_file, password=lambda: settings.key_password)
        except (OSError, ValueError) as error:
            needed = "a key (with ssl.key.password, where it has one) and its certificates, in PEM"
            raise _unusable("ssl.keystore.location (KAFKA_SSL_KEYSTORE)", error, needed) from None
    return context


def _unusable(setting: str, error: Exception, needed: str) -> ConfigError:
    """Of OpenSSL's errors nothing is told: a file that cannot be read is told from one that is something else."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return ConfigError(f"{setting}: the file cannot be read: {error.strerror}")
    return ConfigError(f"{setting}: the file is not {needed}")


# -- the three clients --------------------------------------------------------------------------------------------


def for_kafka_python(settings: KafkaSettings) -> dict[str, Any]:
    """Keywords of kafka-python's clients. Raises ConfigError."""
    said = {"security_protocol": settings.protocol, "ssl_context": tls_context(settings), **_sasl(settings)}
    if settings.endpoint is not None:
        said["sasl_oauth_token_provider"] = _Tokens(settings.endpoint)
    return said


def for_aiokafka(settings: KafkaSettings) -> dict[str, Any]:
    """Keywords of aiokafka's clients, but for the provider of tokens, which `agents` makes. Raises ConfigError."""
    sasl = _sasl(settings) or {"sasl_mechanism": "PLAIN"}  # its default, which it checks though it does not use it
    return {"security_protocol": settings.protocol, "ssl_context": tls_context(settings), **sasl}


def _sasl(settings: KafkaSettings) -> dict[str, Any]:
    if not settings.by_sasl:
        return {}
    mechanism = {"sasl_mechanism": settings.mechanism}
    if settings.endpoint is not None:
        return mechanism
    return {**mechanism, "sasl_plain_username": settings.username, "sasl_plain_password": settings.password}


def for_librdkafka(settings: KafkaSettings) -> dict[str, object]:
    """Settings of Kafka's C client. Raises ConfigError."""
    tls_context(settings)  # says what is wrong with a file
    said: dict[str, object] = {"security.protocol": settings.protocol.lower()}
    if settings.by_tls:
        said["ssl.endpoint.identification.algorithm"] = "https" if settings.checks_host else "none"
        said |= {"ssl.ca.location": settings.ca_file} if settings.ca_file else {}
    if settings.keystore_file:
        said |= {"ssl.certificate.location": settings.keystore_file, "ssl.key.location": settings.keystore_file}
        said |= {"ssl.key.password": settings.key_password} if settings.key_password else {}
    if settings.by_sasl:
        said["sasl.mechanism"] = settings.mechanism
    if settings.endpoint is not None:
        endpoint = settings.endpoint
        return {**said, "oauth_cb": lambda _: _token_until(endpoint)}
    if settings.by_sasl:
        said |= {"sasl.username": settings.username, "sasl.password": settings.password}
    return said


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens as kafka-python asks for them: one for every connection."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    def token(self) -> str:
        return fetch_token(self._endpoint).text


def _token_until(endpoint: TokenEndpoint) -> tuple[str, float]:
    """A token and the time in seconds since 1970 to which it is good, as the C client asks for them."""
    token = fetch_token(endpoint)
    return token.text, time.time() + token.seconds
