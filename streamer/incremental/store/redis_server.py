"""The Redis that stores speak to: the connection, its masters, and whether it keeps what it confirms.

The rules of this file
----------------------
* One server, a master that Sentinel finds, or a Redis Cluster: the user of a store sees no difference. Only masters are
  read, because a replica lags.
* Redis must not lose what it confirmed: `require_durable` refuses before anything is published. No setting shows what a
  failover may lose all the same; the take-over finds it out by the published position.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import SplitResult, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from streamer.errors import ConfigError, NotDurable, ServerUnreachable, ShardRefused, StreamerError

# How an operator names Redis: a URL, and environment variables for what should not stand in one.
#
#     redis://host:6379/0                                a server; unix:///path for one on this machine
#     redis+sentinel://host:26379,host:26379/name/0      the master that Sentinel calls `name`
#     redis+cluster://host:6379,host:6379                a Redis Cluster, by some of its nodes
#
# With `rediss` in place of `redis` all connections are by TLS: `?ssl_ca_certs=FILE` names the authority of the servers'
# certificates, `ssl_certfile` and `ssl_keyfile` our own certificate; these and other options are those of redis-py.
# User and password are in the URL (user:password@host), or in REDIS_USERNAME and REDIS_PASSWORD, or in the file that
# REDIS_PASSWORD_FILE names; those of the sentinels in REDIS_SENTINEL_USERNAME and so on. The URL comes first. Messages
# show only hosts of a URL.

UNREADABLE = (
    "the Redis URL cannot be read: redis://[user:password@]host:port/0, redis+sentinel://host:port,host:port/name or "
    "redis+cluster://host:port,host:port, and rediss instead of redis for TLS; "
    "in a user, a password or a path @ is written as %40, : as %3A, / as %2F, ? as %3F and # as %23"
)
PORTS = {"sentinel": 26_379, "cluster": 6_379}


class Kind(Enum):
    """The kinds of Redis."""

    SERVER = "one server"
    SENTINEL = "a master found by Sentinel"
    CLUSTER = "a cluster"


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A Redis as it was named."""

    kind: Kind
    tls: bool
    options: Mapping[str, Any] = field(repr=False)  # for redis-py, user and password among them
    nodes: tuple[tuple[str, int], ...] = ()  # hosts and ports of a cluster's nodes, or of sentinels
    service: str = ""  # what Sentinel calls the master
    sentinel_login: Mapping[str, str] = field(default_factory=dict, repr=False)  # user and password


def read_url(url: str, environment: Mapping[str, str]) -> RedisUrl:
    """Reads a URL and the environment. Raises ConfigError, whose text shows nothing of either."""
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
    """Raises ValueError if a database is no number: redis-py takes `/prod` for 0, and `/1/2` for 12."""
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError


def _nodes(parts: SplitResult, port: int) -> tuple[tuple[str, int], ...]:
    """Hosts and ports; `port` if none is given."""
    nodes = [urlsplit(f"//{node}") for node in parts.netloc.rpartition("@")[2].split(",")]
    if not all(node.hostname for node in nodes):
        raise ValueError
    return tuple((node.hostname or "", node.port or port) for node in nodes)


def _login(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """User and password from the environment, if they are there. Raises ConfigError."""
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
    """Raises ConfigError if certificates cannot be read: redis-py would call that an outage."""
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


# What the errors of Redis and of its client mean. Redis' own texts may quote arguments, which are people's values, or a
# login: only the error's code is passed on, with its meaning. What passes by itself, like a failover or a slot that
# moves, is `ServerUnreachable`: then the shard is taken over again, and the take-over finds out what is stored.

CERTIFICATE = "?ssl_certfile=FILE&ssl_keyfile=FILE in the URL name one"

FORBIDDEN = "NOPERM"

REPLICA = "READONLY"
REFUSALS: dict[str, tuple[type[StreamerError], str]] = {
    "LOADING": (ServerUnreachable, "is still loading its data"),
    REPLICA: (ServerUnreachable, "is a replica and takes no writes"),
    "MASTERDOWN": (ServerUnreachable, "is a replica without its master"),
    "NOREPLICAS": (ServerUnreachable, "has too few replicas to take a write"),
    "CLUSTERDOWN": (ServerUnreachable, "is a cluster that is down"),
    "TRYAGAIN": (ServerUnreachable, "is a cluster that is moving the shard"),
    "TTL exhausted": (ServerUnreachable, "is a cluster that is moving the shard"),
    "BUSY": (ServerUnreachable, "is busy with a long script"),
    "UNBLOCKED": (ServerUnreachable, "is a replica now and takes no writes"),
    "MISCONF": (ServerUnreachable, "cannot write its file: look at its log and its disk"),
    "OOM": (ServerUnreachable, "is full: raise maxmemory"),
    "NOAUTH": (ConfigError, "wants a user and a password: put them into the URL, or REDIS_USERNAME, REDIS_PASSWORD"),
    "WRONGPASS": (ConfigError, "refuses the user or the password"),
    FORBIDDEN: (ConfigError, "forbids this user a key: docs/how-to/secured-servers.md says what a user needs"),
    "MOVED": (ConfigError, "is one node of a cluster: name it redis+cluster://host:port,host:port"),
    "cluster support disabled": (ConfigError, "is no cluster: name it redis://host:port"),
    "CROSSSLOT": (ConfigError, "does not keep the shard's keys together: a proxy must leave the hash tag {} alone"),
    "WRONGTYPE": (ShardRefused, "holds something else under a key of the shard: who else writes there?"),
    "CERTIFICATE_VERIFY_FAILED": (
        ConfigError,
        "has a certificate of an unknown authority or another host: ?ssl_ca_certs=FILE in the URL names the authority",
    ),
    "WRONG_VERSION_NUMBER": (ConfigError, "does not speak TLS on this port: rediss is for TLS alone"),
    "auth:AuthenticationError": (
        ConfigError,
        "has sentinels that refuse the user or the password: REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD",
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (ConfigError, f"wants a certificate of ours: {CERTIFICATE}"),
    "TLSV1_ALERT_UNKNOWN_CA": (ConfigError, f"does not know the authority of our certificate: {CERTIFICATE}"),
}
_COMMAND = re.compile(r"to run the '([a-z]+(?:\|[a-z-]+)?)' command")
_CODE = re.compile(rf"\b({'|'.join(REFUSALS)})\b")


@contextmanager
def answers(address: str) -> Iterator[None]:
    """Turns what redis-py raises into this project's errors, without the text, which may quote people's values."""
    try:
        yield
    except (redis.RedisError, RedisClusterException) as error:
        code = _code(error)
        if code is not None:
            kind, text = REFUSALS[code]
            if code == FORBIDDEN and (command := _COMMAND.search(str(error))):
                text = text.replace("a key", f"the command {command[1]}")
            raise kind(f"{address} {text} ({code})") from None
        if isinstance(error, MasterNotFoundError):
            raise ServerUnreachable(f"{address}: no sentinel knows a master that answers") from None
        if isinstance(error, redis.ConnectionError | redis.TimeoutError | RedisClusterException):
            raise ServerUnreachable(
                f"{address} does not answer: is it up, is --redis right, does it want TLS (rediss://)?"
            ) from None
        raise StreamerError(f"{address} refuses a command of this store ({type(error).__name__})") from None


def _code(error: BaseException | None) -> str | None:
    """The code of an error or of its cause: a client that asks several nodes raises another error for the last one."""
    while error is not None:
        found = _CODE.search(f"{getattr(error, 'status_code', '')} {error}")
        if found:
            return found[1]
        hidden = error.__context__ if isinstance(error, RedisClusterException) else None
        error = error.__cause__ or hidden
    return None


DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}

STATE_IT = "or say `durability: stated` in table.yaml if it keeps what it confirms by other means"

REACH_SECONDS_MAX = 4.0
"""The time for which a command waits for the first answer of a silent Redis."""

RedisClient: TypeAlias = redis.Redis | RedisCluster


def connect_now(url: str) -> RedisClient:
    """The client of `connect`, after a first answer: a silent Redis ends a command in seconds, not after all retries.

    Raises ConfigError, ServerUnreachable.
    """
    patience = REACH_SECONDS_MAX / max(1, len(read_url(url, os.environ).nodes))  # they are asked in turn
    first: Any = connect(url, patience, retries_max=0)
    with answers(address_of(first)):
        first.ping()
    first.close()
    return connect(url)


def connect(url: str, timeout_s: float = 5.0, retries_max: int = 3) -> RedisClient:
    """A client for a URL, shared by all shards.

    timeout_s bounds every wait for Redis; a call without an answer is repeated `retries_max` times. Connects
    at its first command, but to a cluster at once, so it may raise ServerUnreachable. Raises ConfigError.
    """
    logging.getLogger("redis").setLevel(logging.WARNING)  # its debug lines have whole commands in them
    named = read_url(url, os.environ)
    retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), retries_max)
    settings = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": retry}
    if named.kind is Kind.CLUSTER:
        return _cluster(named, settings)
    settings["health_check_interval"] = 30
    try:
        if named.kind is Kind.SENTINEL:
            client = _of_sentinel(named, settings)
        else:
            client = redis.Redis.from_url(url, **settings, **named.options)
        client.connection_pool.make_connection()  # connects to nobody; says TypeError to an option it does not know
    except (ValueError, TypeError, redis.RedisError):
        raise ConfigError(UNREADABLE) from None
    return client


def _of_sentinel(named: RedisUrl, settings: Mapping[str, Any]) -> redis.Redis:
    """The master as the sentinels name it; they are asked at every connection."""
    tls = {name: value for name, value in named.options.items() if name.startswith("ssl_")}
    to_sentinels = {**settings, **tls, **named.sentinel_login, "ssl": named.tls, "retry": Retry(NoBackoff(), 0)}
    # Without retries: one that does not answer has others beside it.
    sentinel = Sentinel(list(named.nodes), sentinel_kwargs=to_sentinels)
    pool: Any = SentinelConnectionPool(named.service, sentinel, **settings, **named.options, ssl=named.tls)
    return redis.Redis.from_pool(pool)


def _cluster(named: RedisUrl, settings: Mapping[str, Any]) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in named.nodes]
    try:
        redis.ConnectionPool(
            connection_class=redis.SSLConnection if named.tls else redis.Connection, **named.options
        ).make_connection()  # a cluster's client passes over an option that it does not know
        with answers(f"Redis Cluster {_hosts(named.nodes)}"):
            return RedisCluster(startup_nodes=nodes, ssl=named.tls, **settings, **named.options)
    except (ValueError, TypeError, redis.RedisError):
        raise ConfigError(UNREADABLE) from None


def kind_of(client: RedisClient) -> Kind:
    if isinstance(client, RedisCluster):
        return Kind.CLUSTER
    return Kind.SENTINEL if isinstance(client.connection_pool, SentinelConnectionPool) else Kind.SERVER


def address_of(client: RedisClient) -> str:
    """Redis as messages name it: never the URL, which may hold a password."""
    if isinstance(client, RedisCluster):
        return f"Redis Cluster {_hosts(sorted((node.host, node.port) for node in client.get_primaries()))}"
    pool: Any = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        asked = (one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels)
        return f"Redis {pool.service_name} of the sentinels {_hosts(sorted((o['host'], o['port']) for o in asked))}"
    where = pool.connection_kwargs
    return f"Redis {where['path']}" if "path" in where else f"Redis {where.get('host')}:{where.get('port')}"


def _hosts(nodes: Any) -> str:
    return ",".join(f"{host}:{port}" for host, port in nodes)


def masters(client: RedisClient) -> list[redis.Redis]:
    """A client for every server that takes writes."""
    if isinstance(client, RedisCluster):
        return [client.get_redis_connection(node) for node in client.get_primaries()]
    return [client]


def master_of(client: RedisClient, name: str) -> redis.Redis:
    """A client for the one server that has a key, as far as is known: of a cluster it follows no redirection."""
    if isinstance(client, RedisCluster):
        return client.get_redis_connection(client.get_node_from_key(name))
    return client


def name_of_master(client: RedisClient, name: str) -> str:
    """The server of a cluster that has a key, as far as is known; "" if it is no cluster."""
    if isinstance(client, RedisCluster):
        node = client.get_node_from_key(name)
        return "" if node is None else f"{node.host}:{node.port}"
    return ""


@dataclass(frozen=True, slots=True)
class Durability:
    """The settings of a Redis by which it keeps what it confirms, or could lose it."""

    kind: Kind
    masters: int
    shown: bool = True  # it shows its settings
    lax: tuple[str, ...] = ()  # settings by which it could lose something, each with its server
    # How many replicas the least careful master needs before it takes a write. Even so a failover may lose what was
    # confirmed in the last moments; the take-over reads that again.
    replicas_min: int = 0


def durability_of(client: RedisClient) -> Durability:
    """Reads the settings of all masters. Raises ServerUnreachable."""
    found, kind = masters(client), kind_of(client)
    lax: list[str] = []
    replicas: list[int] = []
    try:
        for master in found:
            lax += (f"{address_of(master)}: {name} is {value}" for name, value in _lax(master))
            replicas.append(int(_setting(master, "min-replicas-to-write") or 0))
    except NotDurable:
        return Durability(kind, len(found), shown=False)
    return Durability(kind, len(found), True, tuple(lax), min(replicas, default=0))


def require_durable(client: RedisClient, stated: bool) -> None:
    """Raises NotDurable if Redis could lose what it confirmed; stated: the operator says that it cannot."""
    if stated:
        return
    for master in masters(client):
        for name, found in _lax(master):
            raise NotDurable(f"{address_of(master)}: {name} is {found}: set it to {DURABLE[name]}, {STATE_IT}")


def _lax(master: redis.Redis) -> Iterator[tuple[str, str | None]]:
    """The settings by which a server could lose what it confirmed, as they are."""
    for name, wanted in DURABLE.items():
        found = _setting(master, name)
        if found != wanted:
            yield name, found


def _setting(master: redis.Redis, name: str) -> str | None:
    address, asked = address_of(master), cast("Any", master)  # redis-py types every answer as "or an awaitable"
    with answers(address):
        try:
            found: str | None = asked.config_get(name).get(name)
        except redis.ResponseError:
            raise NotDurable(f"{address} does not show its settings: allow CONFIG GET, {STATE_IT}") from None
    return found
