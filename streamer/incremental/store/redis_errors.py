"""What the errors of Redis and of its client mean, by whose fault they are.

Redis' own error texts may quote arguments, and those are people's values, or a login: only the error's code is passed
on, and what it means. What passes by itself, as a failover or a slot that moves does, is `ServerUnreachable`: after it
the shard is taken over again, and the take-over finds out what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.exceptions import RedisClusterException
from redis.sentinel import MasterNotFoundError

from streamer.errors import ConfigError, ServerUnreachable, ShardRefused, StreamerError

CERTIFICATE = "?ssl_certfile=FILE&ssl_keyfile=FILE in the URL name one"

FORBIDDEN = "NOPERM"

REFUSALS: dict[str, tuple[type[StreamerError], str]] = {
    "LOADING": (ServerUnreachable, "is still loading its data"),
    "READONLY": (ServerUnreachable, "is a replica and takes no writes"),
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
        "has a certificate that nobody vouches for, or another host's: ?ssl_ca_certs=FILE in the URL says who vouches",
    ),
    "WRONG_VERSION_NUMBER": (ConfigError, "does not speak TLS on this port: rediss is for TLS alone"),
    "auth:AuthenticationError": (
        ConfigError,
        "has sentinels that refuse the user or the password: REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD",
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (ConfigError, f"wants a certificate of ours: {CERTIFICATE}"),
    "TLSV1_ALERT_UNKNOWN_CA": (ConfigError, f"does not know who vouches for our certificate: {CERTIFICATE}"),
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
            raise ServerUnreachable(f"{address}: no sentinel answers that knows a master which does") from None
        if isinstance(error, redis.ConnectionError | redis.TimeoutError | RedisClusterException):
            raise ServerUnreachable(
                f"{address} does not answer: is it up, is --redis right, does it want TLS (rediss://)?"
            ) from None
        raise StreamerError(f"{address} refuses a command of this store ({type(error).__name__})") from None


def _code(error: BaseException | None) -> str | None:
    """The code of an error, or of one that it came from: a client that asks several nodes tells of the last one."""
    while error is not None:
        found = _CODE.search(f"{getattr(error, 'status_code', '')} {error}")
        if found:
            return found[1]
        hidden = error.__context__ if isinstance(error, RedisClusterException) else None
        error = error.__cause__ or hidden
    return None
