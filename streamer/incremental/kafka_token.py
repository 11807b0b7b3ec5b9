"""Tokens for SASL's OAUTHBEARER, by OAuth's client credentials: asked for once per connection, and never kept.

A redirection is not followed: whoever it names would get the client's secret.
"""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, urlsplit

from streamer.errors import ConfigError, ServerUnreachable
from streamer.incremental.kafka_settings import TokenEndpoint

if TYPE_CHECKING:
    import httpx

ANSWER_SECONDS_MAX = 10.0
SECONDS_UNLESS_SAID = 300.0
"""How long a token is good of which the endpoint does not say it."""

_WHERE = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and for how many seconds it is good."""

    text: str = field(repr=False)
    seconds: float


def fetch_token(endpoint: TokenEndpoint) -> Token:
    """Asks for a token. Raises ConfigError where it is refused, ServerUnreachable where nobody answers."""
    import httpx  # a tenth of a second of every command, where few ask for tokens

    _check_address(endpoint.url)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    try:
        return _token_in(_answer(endpoint))
    except httpx.InvalidURL:
        raise _no_address() from None
    except (httpx.RemoteProtocolError, httpx.DecodingError):  # their texts are what the server sent
        raise ServerUnreachable(f"{_WHERE}: what answers does not speak HTTP, or stops in the middle") from None
    except httpx.HTTPError:
        raise ServerUnreachable(f"{_WHERE}: the endpoint does not answer, or its certificate is not trusted") from None


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
        raise ConfigError(f"{_WHERE}: the endpoint redirects (HTTP {answer.status_code}): name the last address")
    if answer.is_server_error:
        raise ServerUnreachable(f"{_WHERE}: the endpoint answers {answer.status_code}")
    if not answer.is_success:
        raise ConfigError(f"{_WHERE}: the endpoint gives this client no token (HTTP {answer.status_code})")
    try:
        said = answer.json()
        return Token(str(said["access_token"]), float(said.get("expires_in", SECONDS_UNLESS_SAID)))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(f"{_WHERE}: the endpoint's answer holds no access_token") from None


def _check_address(url: str) -> None:
    """Raises ConfigError where an address names no host, or a login, which belongs to the client's id and secret."""
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
    return ConfigError(f"{_WHERE}: not an address: https://host:port/path, without user and password")
