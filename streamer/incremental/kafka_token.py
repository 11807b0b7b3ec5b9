"""Tokens for SASL's OAUTHBEARER, by OAuth's client credentials: asked for once per connection, and never kept.

A redirection is not followed: whoever it names would get the client's secret.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urlsplit

from streamer.errors import ConfigError, ServerUnreachable
from streamer.incremental.kafka_settings import TokenEndpoint

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
    _check_address(endpoint.url)
    try:
        with _OPENER.open(_request(endpoint), timeout=ANSWER_SECONDS_MAX) as answer:
            said = json.load(answer)
            return Token(str(said["access_token"]), float(said.get("expires_in", SECONDS_UNLESS_SAID)))
    except urllib.error.HTTPError as error:
        error.close()  # it is an answer, and holds its connection
        if 300 <= error.code < 400:
            raise ConfigError(f"{_WHERE}: the endpoint redirects (HTTP {error.code}): name the last address") from None
        if error.code >= 500:
            raise ServerUnreachable(f"{_WHERE}: the endpoint answers {error.code}") from None
        raise ConfigError(f"{_WHERE}: the endpoint gives this client no token (HTTP {error.code})") from None
    except http.client.HTTPException:  # its text is what the server sent
        raise ServerUnreachable(f"{_WHERE}: what answers does not speak HTTP, or stops in the middle") from None
    except OSError:
        raise ServerUnreachable(f"{_WHERE}: the endpoint does not answer, or its certificate is not trusted") from None
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{_WHERE}: the endpoint's answer holds no access_token") from None


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Leaves a redirection as the error that it is then."""

    def redirect_request(self, *_: object) -> None: ...


_OPENER = urllib.request.build_opener(_NoRedirection)


def _check_address(url: str) -> None:
    """Raises ConfigError where an address names no host, or a login, which belongs to the client's id and secret."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ConfigError(f"{_WHERE}: not an address: https://host:port/path, without user and password")


def _request(endpoint: TokenEndpoint) -> urllib.request.Request:
    who = f"{quote_plus(endpoint.client_id)}:{quote_plus(endpoint.client_secret)}"
    asked = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    headers = {"Authorization": f"Basic {b64encode(who.encode()).decode()}"}
    return urllib.request.Request(endpoint.url, urlencode(asked).encode(), headers)
