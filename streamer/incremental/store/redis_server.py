"""The Redis that stores speak to: the connection, its masters, and whether it keeps what it confirms.

The rules of this file
----------------------
* One server, a master that Sentinel finds, or a Redis Cluster (`redis_url`): who uses a store sees no difference. Only
  masters are read, because a replica is behind.
* Redis must not lose what it confirmed: `require_durable` says no before anything is published. What a failover may
  lose all the same, no setting of a server says; the take-over finds it out by the position that is published.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from streamer.errors import ConfigError, NotDurable
from streamer.incremental.store.redis_errors import answers
from streamer.incremental.store.redis_url import UNREADABLE, Kind, RedisUrl, read_url

TIMEOUT_S = 5.0
RETRIES_MAX = 3
HEALTH_CHECK_SECONDS = 30

DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}

STATE_IT = "or say `durability: stated` in table.yaml if it keeps what it confirms by other means"

RedisClient: TypeAlias = redis.Redis | RedisCluster


def connect(url: str, timeout_s: float = TIMEOUT_S) -> RedisClient:
    """A client for a URL (`redis_url` has the forms), shared by all shards.

    timeout_s bounds every wait for Redis; a call without an answer is repeated `RETRIES_MAX` times. Connects at its
    first command, but to a cluster at once, so ServerUnreachable may be raised. Raises ConfigError.
    """
    logging.getLogger("redis").setLevel(logging.WARNING)  # its debug lines have whole commands in them
    named = read_url(url, os.environ)
    retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES_MAX)
    settings = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": retry}
    if named.kind is Kind.CLUSTER:
        return _cluster(named, settings)
    settings["health_check_interval"] = HEALTH_CHECK_SECONDS
    try:
        client = _of_sentinel(named, settings) if named.kind is Kind.SENTINEL else _server(url, named, settings)
        client.connection_pool.make_connection()  # connects to nobody; says TypeError to an option it does not know
    except (ValueError, TypeError, redis.RedisError):
        raise ConfigError(UNREADABLE) from None
    return client


def _server(url: str, named: RedisUrl, settings: Mapping[str, Any]) -> redis.Redis:
    return redis.Redis.from_url(url, **settings, **named.options)


def _of_sentinel(named: RedisUrl, settings: Mapping[str, Any]) -> redis.Redis:
    """The master as the sentinels name it, asked anew at every connection."""
    tls = {name: value for name, value in named.options.items() if name.startswith("ssl_")}
    to_sentinels = {**settings, **tls, **named.sentinel_login, "ssl": named.tls, "retry": Retry(NoBackoff(), 0)}
    sentinel = Sentinel(
        list(named.nodes), sentinel_kwargs=to_sentinels
    )  # one that does not answer has others beside it
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
    """What sort of Redis a client speaks to."""
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


@dataclass(frozen=True, slots=True)
class Durability:
    """Whether a Redis keeps what it confirms, by its settings.

    shown: whether it shows them. lax: those by which it could lose something, each with its server. replicas_min: how
    many replicas a master wants to hear of before it takes a write, at the least careful master; a failover may lose
    what was confirmed in the last moments even so, and the take-over reads that again.
    """

    kind: Kind
    masters: int
    shown: bool = True
    lax: tuple[str, ...] = ()
    replicas_min: int = 0


def durability_of(client: RedisClient) -> Durability:
    """What the settings of all masters say. Raises ServerUnreachable."""
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
    """Raises NotDurable where Redis could lose what it confirmed; `stated`: the operator vouches for it."""
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
