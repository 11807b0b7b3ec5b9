"""A Redis by TLS with users of few rights, set up as `examples/security/redis` says, and secrets that nobody shows."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servers.broker.servers import NamedServer, Servers
from servers.redis_servers import running
from servers.secured_redis import SecuredRedis, granted
from streamer.cli.main import main
from streamer.errors import ConfigError, ServerUnreachable, StreamerError
from streamer.incremental.engine.stored_state import Origin, SimilarityList
from streamer.incremental.store.redis_lookups import RedisLookups, forget_shard, server_now, shards_of
from streamer.incremental.store.redis_server import connect, require_durable
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.checkout import ROOT
from worlds.store_contract import A_GROUP, commit_number, everything, live, record
from worlds.workers import WorkedTable

ASKED_NOW_AND_THEN = {"ping", "info"}
"""A connection that was idle is tried before it is used; without INFO a full Redis is not seen."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRedis]:
    with running(SecuredRedis(tmp_path_factory.mktemp("secured"))) as server:
        yield server


@pytest.fixture
def tester(secured: SecuredRedis) -> Iterator[Any]:
    with connect(secured.url_of(secured.login("tester"))) as client:
        yield client
        client.flushdb()


# -- the least that a user needs --------------------------------------------------------------------------------------


def everything_a_worker_does(secured: SecuredRedis) -> None:
    """A worker's way with a shard, that of `reload`, and what both leave for people to read."""
    client = connect(secured.url_of(secured.login("worker")))
    require_durable(client, stated=False)
    store = RedisLookups(client, "patients", 0)
    fence = store.take_over()
    rows = {str(i): record() for i in range(700)}
    lists = {1: SimilarityList(((2, 0.5), (3, 0.25)), 1)}
    outbox = live("x", "y")
    first = {"records": rows, "qi_groups": {1: A_GROUP}, "similarity": lists, "statement_ids": ["s"], "outbox": outbox}
    first["origins"] = {1: Origin("formed", 1)}
    store.commit(fence, 0, commit_number(1, **first))
    fewer = {1: SimilarityList(((3, 0.25),), 1)}
    store.commit(fence, 1, commit_number(2, records={"1": None}, similarity=fewer, outbox=outbox, origins={1: None}))
    store.check_fence(fence)
    store.trim(fence, 1)
    assert len(everything(store)[1]) == 699
    store.commit(fence, 2, commit_number(3, records={"a": record()}, similarity=lists, replaces=True, outbox=outbox))
    store.commit(fence, 3, commit_number(4, similarity={1: None}))
    store.trim(fence, 4)
    store.report_owner("alice")
    claim = store.claim("ann", 60)
    store.shut_out_older(claim)
    store.tell_beginning(claim)
    store.tell_begun(claim)
    store.renew(claim, 0)
    store.check_begun("shard 0")
    store.report_refusal("alice", "no reason")
    everything_somebody_looks_up(client, store)
    forget_shard(client, "patients", 0)


def everything_somebody_looks_up(client: Any, store: RedisLookups) -> None:
    """What status, groups, explain, index and rebuild --dry-run read of a shard."""
    assert shards_of(client, "patients") == [0]
    assert store.meta() is not None
    assert (store.sizes().records, store.custody().owner) == (1, "alice")
    assert store.snapshot() is not None
    assert store.index_table()[1] == [("a", 1)]
    assert len(store.read_records(["a"])) == 1
    store.read_group(1)
    store.read_similarity(1)
    store.origin(1)
    everything(store)
    server_now(client)


def operators_look(secured: SecuredRedis) -> None:
    client = connect(secured.url_of(secured.login("operator")))
    everything_somebody_looks_up(client, RedisLookups(client, "patients", 0))


def a_shard_to_look_at(tester: Any) -> None:
    store = RedisLookups(tester, "patients", 0)
    listed = {1: SimilarityList(((2, 0.5),), 1)}
    store.commit(store.take_over(), 0, commit_number(1, records={"a": record()}, similarity=listed, outbox=live("x")))
    store.report_owner("alice")


@pytest.mark.parametrize(
    ("user", "work"), [("worker", everything_a_worker_does), ("operator", operators_look)], ids=["worker", "operator"]
)
def test_the_recipe_grants_what_is_needed_and_no_command_more(
    secured: SecuredRedis, tester: Any, user: str, work: Callable[[SecuredRedis], None]
) -> None:
    needless = set()
    for command in ["nothing", *granted(user)]:
        tester.flushdb()
        tester.script_flush()
        if user == "operator":
            a_shard_to_look_at(tester)
        if command == "nothing":
            work(secured)
            continue
        tester.execute_command("ACL", "SETUSER", user, f"-{command}")
        try:
            work(secured)
            needless.add(command)
        except StreamerError:
            pass
        finally:
            tester.execute_command("ACL", "SETUSER", user, f"+{command}")
    assert needless == ASKED_NOW_AND_THEN


def test_an_operator_writes_nothing_and_nobody_reaches_another_table(secured: SecuredRedis, tester: Any) -> None:
    a_shard_to_look_at(tester)
    worker, operator = (connect(secured.url_of(secured.login(user))) for user in ("worker", "operator"))
    store = RedisLookups(operator, "patients", 0)
    for write in (store.take_over, store.refusal_is_over):
        with pytest.raises(ConfigError, match=r"forbids this user the command (evalsha|hdel)"):
            write()
    for client in (worker, operator):
        with pytest.raises(ConfigError, match="forbids this user a key"):
            RedisLookups(client, "others", 0).meta()


# -- the errors, and what they do not say -----------------------------------------------------------------------------


def failure(url: str) -> StreamerError:
    with pytest.raises(StreamerError) as failed:
        RedisLookups(connect(url, timeout_s=1), "patients", 0).meta()
    return failed.value


def said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_every_error_says_whose_fault_it_is_and_none_says_a_secret(secured: SecuredRedis) -> None:
    login, wrong = secured.login("worker"), "worker:canary-wrong@"
    other = {"ssl_ca_certs": secured.directory / "other-ca.crt"}
    cases: list[tuple[str, type[StreamerError], str]] = [
        (secured.url_of(wrong), ConfigError, "WRONGPASS"),
        (secured.url_of("canary-nobody:canary-wrong@"), ConfigError, "WRONGPASS"),
        (secured.url_of(), ConfigError, "NOAUTH"),
        (secured.url_of(login, **other), ConfigError, "CERTIFICATE_VERIFY_FAILED"),
        (secured.url_of(login, ssl_ca_certs=None), ConfigError, "CERTIFICATE_VERIFY_FAILED"),
        (secured.url_of(login).replace("localhost", "127.0.0.1"), ConfigError, "CERTIFICATE_VERIFY_FAILED"),
        (secured.url_of(login, ssl_ca_certs="/nowhere"), ConfigError, "no certificates can be read from ssl_ca_certs"),
        (secured.url_of(login, ssl_certfile=secured.ca), ConfigError, "not a certificate and its key"),
        (secured.url_of(login, ssl_cert_reqs="canary-x"), ConfigError, "the Redis URL cannot be read"),
        (secured.url_of(login, canary="canary-x"), ConfigError, "the Redis URL cannot be read"),
        (secured.url_of(login).replace("rediss", "canary-scheme"), ConfigError, "the Redis URL cannot be read"),
        (
            secured.url_of(login).replace(f":{secured.port}", ":canary-port"),
            ConfigError,
            "the Redis URL cannot be read",
        ),
        (f"redis://{login}localhost:{secured.port}/0", ServerUnreachable, "does not answer"),
        (f"rediss://{login}localhost:1/0", ServerUnreachable, "does not answer"),
        (f"rediss+cluster://{login}localhost:1", ServerUnreachable, "does not answer"),
        (f"rediss+sentinel://{login}localhost:1/main", ServerUnreachable, "no sentinel knows"),
    ]
    for url, kind, text in cases:
        error = failure(url)
        assert type(error) is kind, error
        assert text in str(error)
        assert "canary" not in said(error)


def test_no_repr_says_a_secret(secured: SecuredRedis) -> None:
    url = secured.url_of(secured.login("worker"))
    client = connect(url)
    store = RedisLookups(client, "patients", 0)
    settings = WorkerSettings(load_table(ROOT / "examples" / "patients"), "localhost:9092", url)
    assert "canary" not in repr((client, store, settings, vars(store)))


def test_a_server_that_wants_our_certificate_gets_it(secured: SecuredRedis, tester: Any) -> None:
    login = secured.login("worker")
    tester.config_set("tls-auth-clients", "yes")
    try:
        refused = failure(secured.url_of(login))
        RedisLookups(connect(secured.url_of(login, **secured.own_certificate())), "patients", 0).meta()
    finally:
        tester.config_set("tls-auth-clients", "optional")
    assert "CERTIFICATE_REQUIRED" in str(refused) or "does not answer" in str(refused)  # its alert may come too late


# -- a worker and every command ---------------------------------------------------------------------------------------


@pytest.fixture
def world(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkedTable]:
    """A table in a secured Redis; logins come by the environment."""
    beside = Servers("", servers.kafka_bootstrap, "", NamedServer(), NamedServer())
    world = WorkedTable(beside, tmp_path)
    with running(SecuredRedis(tmp_path, world.name)) as secured:
        password_file = tmp_path / "password"
        password_file.write_text(secured.passwords["worker"] + "\n")
        world.environment["REDIS_URL"] = secured.url_of()
        for name, text in {"USERNAME": "worker", "PASSWORD_FILE": str(password_file)}.items():
            monkeypatch.setenv(f"REDIS_{name}", text)
        yield world
        for worker in world.workers:
            worker.kill()
        assert not any(password in world.logs() for password in secured.passwords.values())


@pytest.mark.gate("a secured Redis")
def test_a_worker_and_all_commands_get_along_with_their_user(
    world: WorkedTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = ["--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]

    def run(command: str, *arguments: str, kafka: bool = True) -> str:
        told = servers if kafka else servers[2:]
        done = CliRunner().invoke(main, [command, "--table", str(world.table), *told, *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    world.start()
    world.write(400)
    world.wait_until_published(60)
    world.assert_published_as_expected()
    world.workers[0].terminate()
    begin_anew = ["reload", "--from-source", "topic", "--table", str(world.table), *servers]
    subprocess.run([sys.executable, "-m", "streamer.cli.main", *begin_anew], cwd=ROOT, check=True)
    operator = world.environment["REDIS_URL"].replace("://", "://operator:{}@")
    servers[3] = operator.format(_password(tmp_path, "operator"))
    assert "Redis: one server, does not show its settings" in run("status", "--dead-letters-max", "1")
    (group, *_) = re.findall(r"\b\d-\d+\b", run("groups", kafka=False))
    run("index", "--out", str(tmp_path / "index.csv"), kafka=False)
    run("explain", "--group", group, kafka=False)


def _password(directory: Path, user: str) -> str:
    lines = (directory / "users.acl").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"user {user} "))
    return line.split(">")[1].split()[0]
