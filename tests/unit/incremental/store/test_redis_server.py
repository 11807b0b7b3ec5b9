"""Which Redis a URL and the environment name, and what is refused without showing any of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.cluster import RedisCluster
from redis.exceptions import ClusterError, MovedError, RedisClusterException, ResponseError
from redis.sentinel import MasterNotFoundError

from streamer.errors import ConfigError, NotDurable, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.store import redis_server
from streamer.incremental.store.redis_server import (
    Durability,
    Kind,
    address_of,
    answers,
    connect,
    connect_now,
    durability_of,
    kind_of,
    master_of,
    masters,
    name_of_master,
    read_url,
    require_durable,
)


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


# How a Redis is spoken to, without one: a client connects at its first command.


def settings_of(client: Any) -> dict[str, Any]:
    settings: dict[str, Any] = client.connection_pool.connection_kwargs
    return settings


def test_a_silent_redis_is_waited_for_five_seconds_and_asked_three_times_more() -> None:
    client = connect("redis://host:7000/3")
    settings = settings_of(client)
    assert (settings["host"], settings["port"], settings["db"]) == ("host", 7000, 3)
    assert settings["socket_timeout"] == settings["socket_connect_timeout"] == 5.0
    assert settings["retry"].get_retries() == 3
    assert (kind_of(client), address_of(client)) == (Kind.SERVER, "Redis host:7000")
    assert address_of(connect("unix:///run/redis")) == "Redis /run/redis"
    assert (masters(client), master_of(client, "key"), name_of_master(client, "key")) == ([client], client, "")


def test_a_sentinel_that_does_not_answer_is_not_asked_again_as_there_are_others() -> None:
    client = connect("rediss+sentinel://two:7000,one/main/2?ssl_check_hostname=no")
    assert kind_of(client) is Kind.SENTINEL
    assert address_of(client) == "Redis main of the sentinels one:26379,two:7000"
    pool: Any = client.connection_pool  # type: ignore[union-attr]
    asked = [settings_of(one) for one in pool.sentinel_manager.sentinels]
    assert [one["retry"].get_retries() for one in asked] == [0, 0]
    assert [one["socket_timeout"] for one in asked] == [5.0, 5.0]
    assert settings_of(client)["retry"].get_retries() == 3
    assert settings_of(client)["db"] == 2


@pytest.mark.parametrize(("url", "seconds"), [("redis://host", 4.0), ("redis+sentinel://a,b/main", 2.0)])
def test_a_command_waits_four_seconds_for_the_first_answer_of_all_that_are_asked_in_turn(
    url: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    class Answers(Told):
        def ping(self, **_kwargs: Any) -> bool:
            return True

    def connected(*how: object, **more: object) -> Told:
        asked.append((*how, *more.items()))
        return Answers({})

    monkeypatch.setattr(redis_server, "connect", connected)
    connect_now(url)
    assert asked == [(url, seconds, ("retries_max", 0)), (url,)]


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_certificates_that_cannot_be_read_are_no_outage(option: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{'ssl_ca_certs' if 'ca' in option else 'a certificate and its key'}"):
        read_url(f"rediss://host?{option}={tmp_path / 'missing'}", {})


def test_an_option_that_nobody_knows_is_refused_before_anything_is_asked() -> None:
    for url in ("redis://host?canary=1", "redis+sentinel://host/main?canary=1", "redis+cluster://host?canary=1"):
        with pytest.raises(ConfigError, match="the Redis URL cannot be read"):
            connect(url)


# Whether Redis keeps what it confirms.


class Told(redis.Redis):
    """A server that shows these settings; None: it shows none."""

    def __init__(self, settings: Mapping[str, str] | None, port: int = 1) -> None:
        super().__init__(host="a", port=port)
        self.settings = settings

    def config_get(self, pattern: Any = "*", *_patterns: Any, **_kwargs: Any) -> Any:
        if self.settings is None:
            raise ResponseError("unknown command")
        return {pattern: self.settings[pattern]} if pattern in self.settings else {}


class Fleet(RedisCluster):
    """A cluster of such masters."""

    def __init__(self, *nodes: Told) -> None:
        self.nodes = nodes

    def get_primaries(self) -> Any:
        return self.nodes

    def get_redis_connection(self, node: Any) -> Any:
        return node

    def __del__(self) -> None: ...


KEEPS = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


def test_a_redis_that_could_lose_what_it_confirmed_is_refused_unless_an_operator_says_that_it_cannot() -> None:
    require_durable(Told(KEEPS), stated=False)
    require_durable(Fleet(Told(KEEPS), Told(KEEPS)), stated=False)
    for setting, wanted in KEEPS.items():
        lax = Told({**KEEPS, setting: "other"}, port=2)
        for client in (lax, Fleet(Told(KEEPS), lax)):
            with pytest.raises(NotDurable, match=f"Redis a:2: {setting} is other: set it to {wanted}, or say"):
                require_durable(client, stated=False)
            require_durable(client, stated=True)
    with pytest.raises(NotDurable, match="does not show its settings"):
        require_durable(Told(None), stated=False)


def test_what_is_said_of_a_redis_is_that_of_its_least_careful_master() -> None:
    careful, none = Told({**KEEPS, "min-replicas-to-write": "2"}), Told({**KEEPS, "appendonly": "no"}, port=2)
    assert durability_of(careful) == Durability(Kind.SERVER, 1, True, (), 2)
    assert durability_of(none) == Durability(Kind.SERVER, 1, True, ("Redis a:2: appendonly is no",), 0)
    more = Told({**KEEPS, "min-replicas-to-write": "1"}, port=3)
    assert durability_of(Fleet(careful, more)) == Durability(Kind.CLUSTER, 2, True, (), 1)
    assert durability_of(Fleet(careful, none)).lax == ("Redis a:2: appendonly is no",)
    assert durability_of(Told(None)) == Durability(Kind.SERVER, 1, False, (), 0)
    assert Durability(Kind.SERVER, 1) == Durability(Kind.SERVER, 1, True, (), 0)
