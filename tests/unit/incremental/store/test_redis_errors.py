"""Whose fault an error of Redis is, told without its text."""

from __future__ import annotations

import pytest
import redis
from redis.exceptions import ClusterError, MovedError, RedisClusterException, ResponseError
from redis.sentinel import MasterNotFoundError

from streamer.errors import ConfigError, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.store.redis_errors import answers


def told(error: Exception) -> StreamerError:
    with pytest.raises(StreamerError) as failed, answers("Redis a:1"):
        raise error
    return failed.value


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (redis.ConnectionError("Error 111 connecting to canary"), ServerUnreachable, "does not answer"),
        (redis.TimeoutError("canary"), ServerUnreachable, "does not answer"),
        (RedisClusterException("cannot be connected: canary"), ServerUnreachable, "does not answer"),
        (ClusterError("TTL exhausted."), ServerUnreachable, "is moving the shard"),
        (ResponseError("NOREPLICAS Not enough good replicas to write: canary"), ServerUnreachable, "too few replicas"),
        (MasterNotFoundError("No master found for 'canary'"), ServerUnreachable, "no sentinel answers"),
        (MasterNotFoundError("a - auth:AuthenticationError"), ConfigError, "REDIS_SENTINEL_PASSWORD"),
        (MovedError("7 a:1", status_code="MOVED"), ConfigError, "redis+cluster://"),
        (ResponseError("canary WRONGTYPE of a script"), ShardRefused, "who else writes there"),
        (redis.ConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED] canary"), ConfigError, "nobody vouches for"),
        (ResponseError("unknown command canary"), StreamerError, "refuses a command"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_says_who_has_to_act_and_nothing_of_its_text(
    error: Exception, kind: type[StreamerError], text: str
) -> None:
    failed = told(error)
    assert type(failed) is kind
    assert text in str(failed)
    assert "canary" not in str(failed)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("User canary has no permissions to run the 'hset' command", "the command hset"),
        ("ACL failure in script: User canary has no permissions to run the 'hset' command", "the command hset"),
        ("this user has no permissions to run the 'config|get' command or its subcommand", "the command config|get"),
        ("No permissions to access a key", "a key"),
        ("User canary has no permissions to access the 'canary' key", "a key"),
        ("no permissions to run the 'canary of somebody' command", "a key"),
    ],
)
def test_who_lacks_a_command_is_told_which(said: str, what: str) -> None:
    failed = told(redis.exceptions.NoPermissionError(said, status_code="NOPERM"))
    assert f"forbids this user {what}: " in str(failed)
    assert "canary" not in str(failed)


def test_a_cluster_that_cannot_be_asked_is_told_by_what_its_last_node_said() -> None:
    refused = RedisClusterException("Redis Cluster cannot be connected")
    refused.__cause__ = redis.AuthenticationError("invalid username-password pair", status_code="WRONGPASS")
    assert "refuses the user or the password (WRONGPASS)" in str(told(refused))


def test_an_error_is_not_told_by_one_that_was_being_handled_before() -> None:
    lost = redis.ConnectionError("gone")
    lost.__context__ = ResponseError("OOM command not allowed")
    assert "does not answer" in str(told(lost))


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), answers("Redis a:1"):
        raise KeyError("a bug of ours")
