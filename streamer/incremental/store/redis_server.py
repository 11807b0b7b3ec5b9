"""The Redis server that stores speak to: the connection, what its errors mean, and whether it keeps what it confirms.

Redis' own error texts may quote arguments, and those are people's values: only the error's code is passed on. Redis
must not lose what it confirmed: `require_durable` says no before anything is published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from streamer.errors import ConfigError, NotDurable, ServerUnreachable, ShardRefused, StreamerError

TIMEOUT_S = 5.0
RETRIES_MAX = 3

DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}

REFUSALS: dict[str, tuple[type[StreamerError], str]] = {
    "LOADING": (ServerUnreachable, "is still loading its data"),
    "READONLY": (ServerUnreachable, "is a replica and takes no writes"),
    "MASTERDOWN": (ServerUnreachable, "is a replica without its master"),
    "NOREPLICAS": (ServerUnreachable, "has too few replicas to take a write"),
    "CLUSTERDOWN": (ServerUnreachable, "is a cluster that is down"),
    "TRYAGAIN": (ServerUnreachable, "is a cluster that is moving the shard"),
    "BUSY": (ServerUnreachable, "is busy with a long script"),
    "MISCONF": (ServerUnreachable, "cannot write its file: look at its log and its disk"),
    "OOM": (ServerUnreachable, "is full: raise maxmemory"),
    "NOAUTH": (ConfigError, "wants a user and a password: put them into the URL"),
    "WRONGPASS": (ConfigError, "refuses the user or the password of the URL"),
    "NOPERM": (ConfigError, "forbids this user a command or a key: allow scripts, hashes, lists, sorted sets, DEL"),
    "MOVED": (ConfigError, "is one node of a cluster and not this shard's: name that node"),
    "CROSSSLOT": (ConfigError, "does not keep the shard's keys together: a proxy must leave the hash tag {} alone"),
    "WRONGTYPE": (ShardRefused, "holds something else under a key of the shard: who else writes there?"),
}
_CODE = re.compile(rf"\b({'|'.join(REFUSALS)})\b")


def connect(url: str, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """A client for `redis://`, `rediss://` or `unix://`; connects at its first command, shared by all shards.

    timeout_s bounds every wait for Redis; a call without an answer is repeated `RETRIES_MAX` times. Raises ConfigError.
    """
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES_MAX),
            health_check_interval=30,
        )
        client.connection_pool.make_connection()  # connects to nobody; says TypeError to an option it does not know
    except (ValueError, TypeError):
        raise ConfigError("the Redis URL cannot be read: redis://[user:password@]host:port/0, or rediss://") from None
    return client


def address_of(client: redis.Redis) -> str:
    """Redis as messages name it: never the URL, which may hold a password."""
    where = client.connection_pool.connection_kwargs
    return f"Redis {where['path']}" if "path" in where else f"Redis {where.get('host')}:{where.get('port')}"


@contextmanager
def answers(address: str) -> Iterator[None]:
    """Turns what redis-py raises into this project's errors, without the text, which may quote people's values."""
    try:
        yield
    except redis.RedisError as error:
        code = next(iter(_CODE.findall(f"{error.status_code} {error}")), None)
        if code is not None:
            kind, text = REFUSALS[code]
            raise kind(f"{address} {text} ({code})") from None
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            raise ServerUnreachable(f"{address} does not answer") from None
        raise StreamerError(f"{address} refuses a command of this store ({type(error).__name__})") from None


def require_durable(client: redis.Redis, stated: bool) -> None:
    """Raises NotDurable where Redis could lose what it confirmed; `stated`: the operator vouches for it."""
    if stated:
        return
    state_it = "or say `durability: stated` in table.yaml if it keeps what it confirms by other means"
    for setting, wanted in DURABLE.items():
        with answers(address_of(client)):
            try:
                found = client.config_get(setting).get(setting)
            except redis.ResponseError:
                raise NotDurable(
                    f"{address_of(client)} does not show its settings: allow CONFIG GET, {state_it}"
                ) from None
        if found != wanted:
            raise NotDurable(f"{address_of(client)}: {setting} is {found}: set it to {wanted}, {state_it}")
