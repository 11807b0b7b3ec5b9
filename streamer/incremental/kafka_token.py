"""Tokens for SASL's OAUTHBEARER, by OAuth's client credentials: asked for once per connection, and never kept."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

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
    try:
        with urllib.request.urlopen(_request(endpoint), timeout=ANSWER_SECONDS_MAX) as answer:
            said = json.load(answer)
            return Token(str(said["access_token"]), float(said.get("expires_in", SECONDS_UNLESS_SAID)))
    except urllib.error.HTTPError as error:
        error.close()  # it is an answer, and holds its connection
        if error.code >= 500:
            raise ServerUnreachable(f"{_WHERE}: the endpoint answers {error.code}") from None
        raise ConfigError(f"{_WHERE}: the endpoint gives this client no token (HTTP {error.code})") from None
    except OSError:
        raise ServerUnreachable(f"{_WHERE}: the endpoint does not answer, or its certificate is not trusted") from None
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{_WHERE}: the endpoint's answer holds no access_token") from None


def _request(endpoint: TokenEndpoint) -> urllib.request.Request:
    who = f"{quote_plus(endpoint.client_id)}:{quote_plus(endpoint.client_secret)}"
    asked = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    headers = {"Authorization": f"Basic {b64encode(who.encode()).decode()}"}
    return urllib.request.Request(endpoint.url, urlencode(asked).encode(), headers)
