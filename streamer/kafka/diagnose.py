"""Finds the reason why a secured Kafka refuses the connection of this process.

The client libraries say little about it, or the wrong thing: after a wrong password one of them calls the broker too
old. So if a client gets no connection, this file tries one of its own and reports its error. It sends only the
beginning of every connection.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from time import monotonic

from kafka.conn import BrokerConnection, ConnectionStates, get_ip_port_afi
from kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.kafka.access import kafka_settings
from streamer.kafka.python_client import kafka_python_access
from streamer.kafka.settings import KafkaSettings

TRY_SECONDS_MAX, TRY_SECONDS_MIN = 5.0, 1.0
"""The time for all servers together, and the least for the last of them."""

_OTHER_NAME = (62, 64)
"""OpenSSL's error codes of a certificate for another host name or address."""

_GREETING = (ConnectionStates.HANDSHAKE, ConnectionStates.API_VERSIONS_SEND, ConnectionStates.API_VERSIONS_RECV)
"""The states of a connection before the login."""

_STEPS = (ConnectionStates.DISCONNECTED, ConnectionStates.CONNECTING, *_GREETING, ConnectionStates.AUTHENTICATING)


class _Attempt(BrokerConnection):  # type: ignore[misc]
    """One connection that remembers why it was closed.

    If a name has several addresses, they are tried in turn; the attempt that came farthest counts.
    """

    why: Exception | None = None
    reached = ConnectionStates.DISCONNECTED
    """The state in which it was closed."""

    def close(self, error: Exception | None = None) -> None:
        if error is not None and self.state in _STEPS and _STEPS.index(self.state) > _STEPS.index(self.reached):
            self.why, self.reached = error, self.state
        super().close(error)


def require_access(servers: Sequence[str]) -> None:
    """Raises the error that `shut_out` returns, if any."""
    error = shut_out(servers)
    if error is not None:
        raise error


def shut_out(servers: Sequence[str]) -> StreamerError | None:
    """The reason why a secured Kafka refuses our connection: the first server's error; None if no server gives one.

    ConfigError: no retry helps. ServerUnreachable: it may be an outage.
    """
    try:
        settings = kafka_settings()
        if not settings.is_secured:
            return None
        until = monotonic() + TRY_SECONDS_MAX
        return next(filter(None, (_refused(server, settings, until) for server in servers)), None)
    except StreamerError as error:  # the settings themselves
        return error


def _refused(server: str, settings: KafkaSettings, until: float) -> StreamerError | None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        host, port, family = get_ip_port_afi(server)  # as the library reads it: 9092 if there is no port
    except ValueError:
        return ConfigError(f"Kafka's servers: not host:port: {server}")
    attempt = _Attempt(host, port, family, **kafka_python_access(settings))
    try:
        attempt.connect_blocking(max(TRY_SECONDS_MIN, until - monotonic()))
        why = attempt.why
    except (KafkaError, OSError) as error:  # not every one closes the connection
        attempt.close(error)
        why = attempt.why or error
    except StreamerError as error:  # no token
        return error
    finally:
        attempt.close()
    return reason(f"Kafka at {server}", why, attempt.reached, settings)


def reason(
    where: str, why: Exception | None, reached: ConnectionStates, settings: KafkaSettings
) -> StreamerError | None:
    """Our error for a connection that was closed in the state `reached`; None if it may be a mere outage."""
    if isinstance(why, ssl.SSLCertVerificationError):
        return ConfigError(f"{where}: {_of_certificate(why)}")
    if isinstance(why, ssl.SSLError):
        return ConfigError(
            f"{where}: TLS was refused: the broker may want a certificate that it trusts: "
            "ssl.keystore.location (KAFKA_SSL_KEYSTORE)"
        )
    if isinstance(why, SaslAuthenticationFailedError):
        return ConfigError(f"{where}: {_of_user(settings)}")
    hung_up = isinstance(why, KafkaConnectionError | OSError) and "timeout" not in str(why)
    hangs_up_at_the_mechanism = hung_up and reached is ConnectionStates.AUTHENTICATING
    if isinstance(why, UnsupportedSaslMechanismError) or hangs_up_at_the_mechanism:  # both at once: the first is lost
        return ConfigError(f"{where}: this listener does not offer sasl.mechanism={settings.mechanism}")
    answers_in_tls = isinstance(why, InvalidReceiveError)  # an alert, before it hangs up: who reads it first, sees it
    if (hung_up or answers_in_tls) and reached in _GREETING:
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
