"""Access to Kafka: the settings as each client library wants them, and OAuth tokens.

The rules of this file
----------------------
* File and variables are read for each new client, and not kept: the next connection uses a renewed password.
* Every file is opened here before a client gets its name, so that there is one message for a faulty file.
* Each connection asks for a token of its own. Redirects are not followed: their target would get the client's secret.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

import javaproperties

from streamer.errors import ConfigError, ServerUnreachable
from streamer.kafka.settings import CONFIG, KafkaSettings, TokenEndpoint, settings_of

if TYPE_CHECKING:
    import httpx


def read_properties(path: str) -> dict[str, str]:
    """Reads a Java properties file. Raises ConfigError, which quotes nothing of the file."""
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
    """The settings in the file that KAFKA_CONFIG names and in the variables, as of now. Raises ConfigError."""
    path = environment.get(CONFIG, "")
    try:
        return settings_of(read_properties(path) if path else {}, environment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path and path not in str(error) else str(error)) from None


def tls_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """The TLS context, None without TLS. Raises ConfigError if a file cannot be used."""
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
    """The error for a file that cannot be read, or is something else. OpenSSL's text is not repeated."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return ConfigError(f"{setting}: the file cannot be read: {error.strerror}")
    return ConfigError(f"{setting}: the file is not {needed}")


# -- the clients --------------------------------------------------------------------------------------------------


def for_python_clients(settings: KafkaSettings, tokens: Callable[[TokenEndpoint], object]) -> dict[str, Any]:
    """Keyword arguments of kafka-python's and aiokafka's clients. Raises ConfigError.

    tokens: makes the library's own token provider.
    """
    said: dict[str, Any] = {"security_protocol": settings.protocol, "ssl_context": tls_context(settings)}
    if settings.by_sasl:
        said["sasl_mechanism"] = settings.mechanism
    if settings.endpoint is not None:
        return {**said, "sasl_oauth_token_provider": tokens(settings.endpoint)}
    if settings.by_sasl:
        said |= {"sasl_plain_username": settings.username, "sasl_plain_password": settings.password}
    return said


def for_librdkafka(settings: KafkaSettings) -> dict[str, object]:
    """Settings of librdkafka's clients. Raises ConfigError."""
    tls_context(settings)  # raises if a file cannot be used
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

        def token_and_expiry(_: object) -> tuple[str, float]:
            token = fetch_token(endpoint)
            return token.text, time.time() + token.seconds

        return {**said, "oauth_cb": token_and_expiry}
    if settings.by_sasl:
        said |= {"sasl.username": settings.username, "sasl.password": settings.password}
    return said


# -- tokens -------------------------------------------------------------------------------------------------------

ANSWER_SECONDS_MAX = 10.0
SECONDS_UNLESS_SAID = 300.0
"""A token counts as valid for that time if the endpoint does not say."""

TOKEN_CHARS_MIN = 16
"""A shorter token could be guessed."""

_TOKEN = re.compile(rf"(?=.{{{TOKEN_CHARS_MIN}}})[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and for how many seconds it is valid."""

    text: str = field(repr=False)
    seconds: float


def fetch_token(endpoint: TokenEndpoint) -> Token:
    """Asks for a token. Raises ConfigError if it is refused, ServerUnreachable if the endpoint does not answer."""
    import httpx  # the import takes 0.1 s, and few commands need a token

    _check_address(endpoint.url)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    try:
        return _token_in(_answer(endpoint))
    except httpx.InvalidURL:
        raise _no_address() from None
    except (httpx.RemoteProtocolError, httpx.DecodingError):  # their texts are what the server sent
        raise ServerUnreachable(f"{_ENDPOINT}: what answers does not speak HTTP, or stops in the middle") from None
    except httpx.HTTPError:
        raise ServerUnreachable(
            f"{_ENDPOINT}: the endpoint does not answer, or its certificate is not trusted"
        ) from None


def _answer(endpoint: TokenEndpoint) -> httpx.Response:
    import httpx

    asked = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    return httpx.post(
        endpoint.url,
        data=asked,
        auth=(quote_plus(endpoint.client_id), quote_plus(endpoint.client_secret)),
        timeout=ANSWER_SECONDS_MAX,
        verify=ssl.create_default_context(),  # the system's authorities, not those that the library brings
        follow_redirects=False,
    )


def _token_in(answer: httpx.Response) -> Token:
    if answer.is_redirect:
        raise ConfigError(f"{_ENDPOINT}: the endpoint redirects (HTTP {answer.status_code}): name the last address")
    if answer.is_server_error:
        raise ServerUnreachable(f"{_ENDPOINT}: the endpoint answers {answer.status_code}")
    if not answer.is_success:
        raise ConfigError(f"{_ENDPOINT}: the endpoint gives this client no token (HTTP {answer.status_code})")
    try:
        said = answer.json()
        token = Token(said["access_token"], float(said.get("expires_in", SECONDS_UNLESS_SAID)))
        if not _TOKEN.fullmatch(token.text):
            raise ConfigError(
                f"{_ENDPOINT}: the endpoint's access_token is no bearer token of {TOKEN_CHARS_MIN} characters or more"
            )
        return token
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ConfigError(f"{_ENDPOINT}: the endpoint's answer holds no access_token") from None


def _check_address(url: str) -> None:
    """Raises ConfigError if the address names no host, or holds a login."""
    try:
        parts = urlsplit(url)
        is_address = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise _no_address()


def _no_address() -> ConfigError:
    return ConfigError(f"{_ENDPOINT}: not an address: https://host:port/path, without user and password")
