"""Which Redis a URL and the environment name, and what is refused without showing any of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from redis.exceptions import ClusterError, MovedError, RedisClusterException, ResponseError
from redis.sentinel import MasterNotFoundError

from streamer.errors import ConfigError, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.store.redis_server import Kind, answers, read_url


def test_a_server_is_what_redis_py_makes_of_its_url() -> None:
    found = read_url("rediss://alice:pass%20word@host:7000/3?ssl_check_hostname=no", {})
    assert (found.kind, found.tls) == (Kind.SERVER, True)
    assert found.options == {
        "host": "host", "port": 7000, "db": 3, "username": "alice", "password": "pass word",
        "ssl_check_hostname": False,
    }  # fmt: skip


def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    found = read_url("redis+cluster://alice:word@one:7000,two,[::1]:7002?socket_keepalive=yes", {})
    assert (found.kind, found.tls) == (Kind.CLUSTER, False)
    assert found.nodes == (("one", 7000), ("two", 6379), ("::1", 7002))
    assert found.options == {"username": "alice", "password": "word", "socket_keepalive": True}


@pytest.mark.parametrize(("path", "number"), [("/main", 0), ("/main/2", 2)])
def test_a_master_is_named_as_its_sentinels_call_it(path: str, number: int) -> None:
    found = read_url(f"rediss+sentinel://one,two:7000{path}", {})
    assert (found.kind, found.tls, found.service) == (Kind.SENTINEL, True, "main")
    assert found.nodes == (("one", 26379), ("two", 7000))
    assert found.options == {"db": number}


def test_a_login_comes_by_the_environment_where_the_url_has_no_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    by_file = {"REDIS_USERNAME": "alice", "REDIS_PASSWORD_FILE": str(tmp_path / "password")}
    found = read_url("redis://host", by_file).options
    assert (found["username"], found["password"]) == ("alice", "from a file")
    assert read_url("redis://bob@host", {"REDIS_PASSWORD": "p"}).options["username"] == "bob"
    assert "alice" not in read_url("redis://:own@host", by_file).options.values()


def test_sentinels_have_a_login_of_their_own() -> None:
    logins = {"REDIS_PASSWORD": "of Redis", "REDIS_SENTINEL_USERNAME": "eve", "REDIS_SENTINEL_PASSWORD": "of them"}
    found = read_url("redis+sentinel://host/main", logins)
    assert (found.options["password"], found.sentinel_login) == ("of Redis", {"username": "eve", "password": "of them"})
    assert read_url("redis://host", logins).sentinel_login == {}


@pytest.mark.parametrize(
    "url",
    [
        "canary", "http://canary@host", "redis+canary://host", "redis+cluster://", "redis+cluster://canary@",
        "redis+cluster://host:canary", "redis+cluster://host,,canary", "redis+cluster://host/1canary",
        "redis+cluster://host/2", "redis+sentinel://canary", "redis+sentinel://host/main/canary",
        "unix+cluster://canary:1", "redis+cluster://host?db=canary", "redis://host/canary", "rediss://host/1/2",
        "redis://host/-1", "redis+sentinel://host/main/-1",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="the Redis URL cannot be read") as refused:
        read_url(url, {})
    assert "canary" not in str(refused.value)


def test_two_passwords_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    missing = {"REDIS_PASSWORD_FILE": str(tmp_path / "missing")}
    with pytest.raises(ConfigError, match="REDIS_PASSWORD_FILE names a file that cannot be read"):
        read_url("redis://host", missing)
    with pytest.raises(ConfigError, match="REDIS_PASSWORD and REDIS_PASSWORD_FILE are both set") as refused:
        read_url("redis://host", {**missing, "REDIS_PASSWORD": "canary"})
    assert "canary" not in str(refused.value)


def test_no_login_is_in_a_repr() -> None:
    assert "canary" not in repr(read_url("redis+sentinel://u:canary@h/m", {"REDIS_SENTINEL_PASSWORD": "canary"}))


@pytest.mark.parametrize("url", ["redis://user:123#4@host", "redis://user:12/34@host/0", "redis+cluster://u:12#4@host"])
def test_no_part_of_a_password_is_taken_for_a_port(url: str) -> None:
    with pytest.raises(ConfigError, match="the Redis URL cannot be read"):
        read_url(url, {})


# Whose fault an error of Redis is, told without its text.


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
        (MasterNotFoundError("No master found for 'canary'"), ServerUnreachable, "no sentinel knows"),
        (MasterNotFoundError("a - auth:AuthenticationError"), ConfigError, "REDIS_SENTINEL_PASSWORD"),
        (MovedError("7 a:1", status_code="MOVED"), ConfigError, "redis+cluster://"),
        (ResponseError("canary WRONGTYPE of a script"), ShardRefused, "who else writes there"),
        (redis.ConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED] canary"), ConfigError, "of an unknown authority"),
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
