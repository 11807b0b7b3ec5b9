"""Why a secured Kafka does not let this process in.

The client libraries tell little of it, each something else, and some the wrong thing: after a wrong password one of
them calls the broker too old. So where one gets no connection, one connection of our own is tried, and what becomes of
it is told. It sends nothing but what every connection begins with.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Sequence

from kafka.conn import BrokerConnection
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.incremental.kafka_access import for_kafka_python, kafka_settings
from streamer.incremental.kafka_settings import KafkaSettings

TRY_SECONDS_MAX, TRIES = 5.0, 3
_OTHER_NAME = (62, 64)
"""OpenSSL's numbers of a certificate for another host name, or another address."""

_HUNG_UP = ("socket disconnected", "closed by server")
"""What the library says of a broker that ends a connection which it did not understand."""


class _Attempt(BrokerConnection):  # type: ignore[misc]
    """One connection, which remembers why it was closed."""

    why: Exception | None = None

    def close(self, error: Exception | None = None) -> None:
        self.why = self.why or error
        super().close(error)


def require_access(servers: Sequence[str]) -> None:
    """Raises what `shut_out` tells, where it tells something."""
    error = shut_out(servers)
    if error is not None:
        raise error


def shut_out(servers: Sequence[str]) -> StreamerError | None:
    """Why a secured Kafka does not let us in, by the first of its servers that says so; None where none does.

    ConfigError: no repetition helps. ServerUnreachable: it may be an outage.
    """
    try:
        settings = kafka_settings()
        if not settings.is_secured:
            return None
        return next(filter(None, (_refused(server, settings) for server in servers)), None)
    except StreamerError as error:  # the settings themselves
        return error


def _refused(server: str, settings: KafkaSettings) -> StreamerError | None:
    """Tries again where the broker hung up: what it said before is lost where both came at once."""
    told: StreamerError | None = None
    for _ in range(TRIES):
        told = _tried(server, settings)
        if not isinstance(told, ServerUnreachable):
            break
    return told


def _tried(server: str, settings: KafkaSettings) -> StreamerError | None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    host, _, port = server.rpartition(":")
    attempt = _Attempt(host.strip("[]"), int(port), socket.AF_UNSPEC, **for_kafka_python(settings))
    try:
        attempt.connect_blocking(TRY_SECONDS_MAX)
        why = attempt.why
    except (KafkaError, OSError) as error:
        why = attempt.why or error
    except StreamerError as error:  # no token
        return error
    finally:
        attempt.close()
    return reason(f"Kafka at {server}", why, settings)


def reason(where: str, why: Exception | None, settings: KafkaSettings) -> StreamerError | None:
    """What closed a connection, in our words; None where nobody can be told from an outage."""
    if isinstance(why, ssl.SSLCertVerificationError):
        return ConfigError(f"{where}: {_of_certificate(why)}")
    if isinstance(why, ssl.SSLError):
        return ConfigError(
            f"{where}: TLS was refused: the broker may want a certificate that it trusts: "
            "ssl.keystore.location (KAFKA_SSL_KEYSTORE)"
        )
    if isinstance(why, UnsupportedSaslMechanismError):
        return ConfigError(f"{where}: this listener does not offer sasl.mechanism={settings.mechanism}")
    if isinstance(why, SaslAuthenticationFailedError):
        return ConfigError(f"{where}: {_of_user(settings)}")
    if isinstance(why, KafkaConnectionError) and any(words in str(why) for words in _HUNG_UP):
        return ServerUnreachable(
            f"{where} closes the connection: does this listener speak security.protocol={settings.protocol}?"
        )
    return None


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_NAME:
        return (
            "the broker's certificate is made for another name: call the broker by a name that stands in it, in "
            "--kafka as well as in the broker's advertised.listeners"
        )
    return (
        f"the broker's certificate is not trusted ({error.verify_message}): name the certificate of its authority in "
        "ssl.truststore.location (KAFKA_SSL_CAFILE)"
    )


def _of_user(settings: KafkaSettings) -> str:
    if settings.endpoint is not None:
        return "authentication failed: the broker does not accept the token that the endpoint gives this client"
    return (
        f"authentication failed: user and password are not the broker's, or the user has none for {settings.mechanism} "
        "(`kafka-configs --alter --entity-type users --entity-name USER --add-config 'SCRAM-SHA-512=[password=...]'` "
        "sets it); look at sasl.jaas.config, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD"
    )
