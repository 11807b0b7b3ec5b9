"""How an operator names Redis: a URL, and environment variables for what should not stand in one.

    redis://host:6379/0                                a server; unix:///path for one on this machine
    redis+sentinel://host:26379,host:26379/name/0      the master that Sentinel calls `name`
    redis+cluster://host:6379,host:6379                a Redis Cluster, by some of its nodes

With `rediss` in place of `redis` all connections are by TLS: `?ssl_ca_certs=FILE` names who vouches for the servers,
`ssl_certfile` and `ssl_keyfile` our own certificate; these and other options are those of redis-py. The user and the
password stand before the hosts (user:password@), or in REDIS_USERNAME and REDIS_PASSWORD, or in the file that
REDIS_PASSWORD_FILE names; those of the sentinels themselves in REDIS_SENTINEL_USERNAME and so on. What the URL says
counts more. No message shows anything of a URL but hosts.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from redis.connection import parse_url

from streamer.errors import ConfigError

UNREADABLE = (
    "the Redis URL cannot be read: redis://[user:password@]host:port/0, redis+sentinel://host:port,host:port/name or "
    "redis+cluster://host:port,host:port, and rediss for redis where it is by TLS; "
    "in a user, a password or a path @ is written as %40, : as %3A, / as %2F, ? as %3F and # as %23"
)
PORTS = {"sentinel": 26_379, "cluster": 6_379}


class Kind(Enum):
    """What sort of Redis it is."""

    SERVER = "one server"
    SENTINEL = "a master found by Sentinel"
    CLUSTER = "a cluster"


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A Redis as it was named.

    nodes: hosts and ports of a cluster's nodes or of sentinels. service: what Sentinel calls the master. options: for
    redis-py, user and password among them; sentinel_login: user and password of the sentinels.
    """

    kind: Kind
    tls: bool
    options: Mapping[str, Any] = field(repr=False)
    nodes: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel_login: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_url(url: str, environment: Mapping[str, str]) -> RedisUrl:
    """What a URL and the environment say. Raises ConfigError, whose text shows nothing of either."""
    try:
        found = _read(url)
    except ValueError:
        raise ConfigError(UNREADABLE) from None
    login = {} if "password" in found.options else _login(environment, "REDIS")
    _check_certificates(found.options)
    sentinel_login = _login(environment, "REDIS_SENTINEL") if found.kind is Kind.SENTINEL else {}
    return RedisUrl(found.kind, found.tls, {**login, **found.options}, found.nodes, found.service, sentinel_login)


def _read(url: str) -> RedisUrl:
    parts = urlsplit(url)
    if parts.fragment or "@" in parts.path + parts.query:  # the user would be taken for a host, digits for its port
        raise ValueError
    scheme, _, kind = parts.scheme.partition("+")
    tls = scheme == "rediss"
    if not kind:
        if scheme != "unix":
            _check_number(parts.path.removeprefix("/"))
        options = parse_url(url)
        options.pop("connection_class", None)
        return RedisUrl(Kind.SERVER, tls, options)
    nodes = _nodes(parts, PORTS.get(kind, 0))
    service, _, number = parts.path.strip("/").partition("/")
    if scheme not in ("redis", "rediss") or kind not in PORTS or bool(service) != (kind == "sentinel"):
        raise ValueError
    _check_number(number)
    login, at, _ = parts.netloc.rpartition("@")
    options = parse_url(f"redis://{login}{at}host/{number or 0}?{parts.query}")
    del options["host"]
    if kind == "cluster":
        if options.pop("db", 0):
            raise ValueError
        return RedisUrl(Kind.CLUSTER, tls, options, nodes)
    return RedisUrl(Kind.SENTINEL, tls, options, nodes, unquote(service))


def _check_number(database: str) -> None:
    """Raises ValueError where a database has no number: redis-py takes `/prod` for 0, and `/1/2` for 12."""
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError


def _nodes(parts: SplitResult, port: int) -> tuple[tuple[str, int], ...]:
    """Hosts and ports; `port` where none is said."""
    nodes = [urlsplit(f"//{node}") for node in parts.netloc.rpartition("@")[2].split(",")]
    if not all(node.hostname for node in nodes):
        raise ValueError
    return tuple((node.hostname or "", node.port or port) for node in nodes)


def _login(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """User and password by their variables, as far as they are there. Raises ConfigError."""
    user, password, file = (
        environment.get(f"{prefix}_{name}", "") for name in ("USERNAME", "PASSWORD", "PASSWORD_FILE")
    )
    if password and file:
        raise ConfigError(f"{prefix}_PASSWORD and {prefix}_PASSWORD_FILE are both set: say one of them")
    if file:
        try:
            password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError):
            raise ConfigError(f"{prefix}_PASSWORD_FILE names a file that cannot be read: {file}") from None
    return {name: text for name, text in (("username", user), ("password", password)) if text}


def _check_certificates(options: Mapping[str, Any]) -> None:
    """Raises ConfigError where the files of certificates are not what TLS needs: redis-py would call that an outage."""
    context, authority = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), options.get("ssl_ca_certs")
    ours = options.get("ssl_certfile"), options.get("ssl_keyfile")
    try:
        if authority is not None:
            context.load_verify_locations(authority)
    except (OSError, ValueError):
        raise ConfigError(f"no certificates can be read from ssl_ca_certs of the Redis URL: {authority}") from None
    try:
        if any(ours):
            context.load_cert_chain(ours[0] or "", ours[1], password=lambda: options.get("ssl_password", ""))
    except (OSError, ValueError):
        raise ConfigError(
            f"ssl_certfile and ssl_keyfile of the Redis URL are not a certificate and its key: {ours[0]}, {ours[1]}"
        ) from None
