"""The Redis store on a real Redis: the contract, the memory store as its twin, and what only a server can do."""

from __future__ import annotations

import secrets
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import count
from typing import Any

import fakeredis
import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from servers.broker.servers import Servers
from streamer.errors import ConfigError, Conflict, Fenced, NotDurable, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.engine.stored_state import Origin, QIGroupState, SimilarityList
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.store.redis import FIELDS_PER_SCAN, RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups, Sizes, shards_of
from streamer.incremental.store.redis_server import DURABLE, connect, require_durable
from worlds.store_contract import A_GROUP, OpenStore, StoreContract, commit_number, everything, keys_of, live, record

OpenRedis = Callable[[str, int], RedisLookups]


@pytest.fixture
def client(servers: Servers) -> Iterator[Any]:
    with connect(servers.redis_url) as client:
        yield client


@pytest.fixture
def open_store(client: Any) -> Iterator[OpenRedis]:
    """Stores of tables with names of their own."""
    prefix = f"test-{secrets.token_hex(4)}-"
    yield lambda table_name, shard: RedisLookups(client, prefix + table_name, shard)
    for name in client.scan_iter(match=f"{{{prefix}*"):
        client.delete(name)


class TestRedisStore(StoreContract):
    @pytest.fixture
    def open_store(self, open_store: OpenRedis) -> OpenRedis:
        return open_store


class TestRedisStoreEmbedded(StoreContract):
    """The demonstration runs on fakeredis: its Lua must run our scripts."""

    rows_of_a_large_commit = 5_000  # already more than one slice of values; fakeredis is slow

    @pytest.fixture
    def open_store(self) -> OpenStore:
        server = fakeredis.FakeServer()
        return lambda table_name, shard: RedisStore(fakeredis.FakeRedis(server=server), table_name, shard)


# -- the same as in memory ------------------------------------------------------------------------------------------

NUMBERS = st.integers(1, 4)
CELLS = st.tuples(st.integers(0, 9), st.integers(0, 9))
VALUES = st.tuples(st.binary(max_size=3))
SOURCE_KEYS = st.text("ab\0é", max_size=2)
DEGREES = st.floats(0, 40, allow_nan=False)
GROUPS = st.builds(
    QIGroupState, CELLS, CELLS, st.lists(SOURCE_KEYS, max_size=3).map(tuple), st.lists(VALUES, max_size=3).map(tuple)
)
LISTS = st.builds(
    SimilarityList, st.dictionaries(NUMBERS, DEGREES, max_size=4).map(lambda d: tuple(d.items())), DEGREES
)
RECORDS = st.builds(record, NUMBERS, st.integers(0, 99), st.binary(max_size=3), st.none() | SOURCE_KEYS)
CHANGES = st.fixed_dictionaries(
    {
        "records": st.dictionaries(SOURCE_KEYS, st.none() | RECORDS, max_size=5),
        "qi_groups": st.dictionaries(NUMBERS, st.none() | GROUPS, max_size=3),
        "similarity": st.dictionaries(NUMBERS, st.none() | LISTS, max_size=3),
        "statement_ids": st.lists(SOURCE_KEYS, max_size=2),
        "outbox": st.lists(SOURCE_KEYS, max_size=3).map(lambda names: live(*names)),
    }
)


class TwoStores(RuleBasedStateMachine):
    """Both stores get the same calls; the older of two owners now and then tries to go on."""

    client: Any
    tables = count()
    run_id = secrets.token_hex(4)

    def __init__(self) -> None:
        super().__init__()
        name = f"test-twins-{self.run_id}-{next(self.tables)}"
        self.stores = (MemoryStore(MemoryServer(), name, 0), RedisStore(self.client, name, 0))
        self.fences: list[tuple[str, ...]] = []
        self.number = 0

    def both(self, call: Callable[[Any, str], object], fences: tuple[str, ...]) -> Any:
        """What both stores answer to one call: nothing, or the same kind of error."""
        answers: list[Any] = []
        for store, fence in zip(self.stores, fences, strict=True):
            try:
                answers.append(call(store, fence))
            except StreamerError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        return answers[0]

    @rule()
    def take_over(self) -> None:
        self.fences.append(tuple(store.take_over() for store in self.stores))

    @precondition(lambda self: self.fences)
    @rule(changes=CHANGES, repeat=st.booleans(), data=st.data())
    def commit(self, changes: dict[str, Any], repeat: bool, data: st.DataObject) -> None:
        fences = data.draw(st.sampled_from(self.fences[-2:]), label="fences")
        before = data.draw(st.sampled_from([self.number, self.number, self.number, self.number + 3]), label="before")
        commit = commit_number(before + 1, **changes)
        refused = self.both(lambda store, fence: store.commit(fence, before, commit), fences)
        if refused is None:
            self.number = before + 1
            if repeat:
                assert self.both(lambda store, fence: store.commit(fence, before, commit), fences) is None

    @precondition(lambda self: self.fences)
    @rule(back=st.integers(-1, 3), data=st.data())
    def trim(self, back: int, data: st.DataObject) -> None:
        fences = data.draw(st.sampled_from(self.fences[-2:]), label="fences")
        self.both(lambda store, fence: store.trim(fence, self.number - back), fences)

    @invariant()
    def they_hold_the_same(self) -> None:
        in_memory, in_redis = self.stores
        assert everything(in_memory) == everything(in_redis)

    def teardown(self) -> None:
        for name in self.client.scan_iter(match=f"{{test-twins-{self.run_id}*"):
            self.client.delete(name)


@pytest.mark.gate("the store of Redis")
def test_memory_and_redis_hold_the_same_after_any_calls(client: Any) -> None:
    machine = type("TwoStoresOnServers", (TwoStores,), {"client": client})
    run_state_machine_as_test(machine, settings=settings(settings.default, stateful_step_count=15))


# -- what operators see ---------------------------------------------------------------------------------------------


def test_the_keys_of_a_shard_share_one_hash_tag_and_say_what_they_hold(client: Any, open_store: OpenRedis) -> None:
    store = open_store("patients", 3)
    similar = SimilarityList(((4, 3.25), (18, 0.5)), 1)
    commit = commit_number(
        1,
        records={"7": record(17)},
        qi_groups={17: A_GROUP},
        similarity={17: similar},
        statement_ids=["s"],
        origins={17: Origin("formed", 1)},
    )
    store.commit(store.take_over(), 0, commit)
    names = [name.decode() for name in client.scan_iter(match="{*-patients:3}*")]
    tag = names[0].partition("}")[0] + "}"
    assert sorted(names) == sorted(
        f"{tag}:{name}" for name in ("meta", "records", "groups", "similarity", "statements", "origins")
    )
    assert client.hkeys(f"{tag}:records") == [b"7"]
    assert client.hkeys(f"{tag}:groups") == [b"17"]
    assert client.hkeys(f"{tag}:similarity") == [b"17"]
    assert client.hget(f"{tag}:meta", "commit") == b"1"


def test_parts_of_a_shard_are_read_without_loading_it(open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    similar = SimilarityList(((4, 3.25),), 1)
    commit = commit_number(
        1, records={"7": record(17)}, qi_groups={17: A_GROUP}, similarity={17: similar}, outbox=live("x", "y")
    )
    assert store.sizes() == Sizes(0, 0, 0, 0)
    store.commit(store.take_over(), 0, commit)
    assert store.sizes() == Sizes(records=1, qi_groups=1, similarity_lists=1, outbox=1)
    assert (store.read_group(17), store.read_group(18)) == (A_GROUP, None)
    assert (store.read_similarity(17), store.read_similarity(18)) == (similar, None)


def test_the_shards_of_a_table_are_found(client: Any, open_store: OpenRedis) -> None:
    for table_name, shard in (("patients", 10), ("patients", 2), ("patients2", 5), ("patients", 0)):
        open_store(table_name, shard).take_over()
    (name,) = client.scan_iter(match="{test-*-patients2:5}:meta")
    prefix = name.decode()[1:].removesuffix("patients2:5}:meta")
    assert shards_of(client, f"{prefix}patients") == [0, 2, 10]
    assert shards_of(client, f"{prefix}nobody") == []


def test_writes_are_counted_by_kind(open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    commit = commit_number(
        1,
        records={"a": record(), "b": None},
        qi_groups={1: A_GROUP},
        similarity={1: SimilarityList(((2, 0.5), (3, 0.25)), 1), 2: None},
        outbox=live("x", "y", "z"),
    )
    fence = store.take_over()
    store.commit(fence, 0, commit)
    store.commit(fence, 0, commit)  # a repeated call writes nothing
    kinds = ("calls", "records", "groups", "similarity", "outbox", "statements", "meta")
    assert [store.writes[kind] for kind in kinds] == [1, 2, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("replaces", [False, True], ids=["a worker goes on", "the table is loaded again"])
def test_the_sorted_sets_of_an_older_streamer_are_no_hints_and_go_with_the_next_commit(
    client: Any, open_store: OpenRedis, replaces: bool
) -> None:
    store = open_store("patients", 0)
    fence, listed = store.take_over(), SimilarityList(((2, 0.5),), 1)
    store.commit(fence, 0, commit_number(1, similarity={1: listed, 2: listed}))
    (meta,) = client.scan_iter(match="{test-*-patients:0}:meta")
    similarity = meta.decode().replace("meta", "similarity")
    for number in (2, 7):
        client.hset(similarity, number, "0.25")
        client.zadd(f"{similarity}:{number}", {"1": 0.5})
    if not replaces:
        state = store.load()
        assert state is not None
        assert dict(state.kept.similarity) == {1: listed}
    store.commit(fence, 1, commit_number(2, similarity={7: listed}, replaces=replaces))
    assert list(client.scan_iter(match=f"{similarity}:*")) == []
    state = store.load()
    assert state is not None
    assert dict(state.kept.similarity) == ({7: listed} if replaces else {1: listed, 7: listed})


def test_reading_a_shard_that_changes_meanwhile_is_noticed(open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record()}))
    state = store.load()
    assert state is not None
    store.commit(fence, 1, commit_number(2, records={"b": record()}))
    assert dict(state.kept.qi_groups) == {}
    for read in (state.kept.records, state.kept.similarity):
        with pytest.raises(Conflict, match="being read"):
            list(read)


def test_an_outbox_trimmed_while_it_is_read_skips_nothing(open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, outbox=live(*map(str, range(900)))))
    store.commit(fence, 1, commit_number(2, outbox=live(*map(str, range(900)))))
    entries = store.outbox()
    first = next(entries)
    store.trim(fence, 1)
    assert keys_of([first, *entries])[900:] == [(2, str(i)) for i in range(900)]


# -- a server that refuses, fails, or is not what it should be ------------------------------------------------------


@contextmanager
def setting(client: Any, name: str, value: str) -> Iterator[None]:
    """The server with one setting changed."""
    before = client.config_get(name)[name]
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before)


def test_a_full_server_takes_nothing_of_a_commit_not_even_its_removals(client: Any, open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record()}, qi_groups={1: A_GROUP}))
    held = everything(store)
    commit = commit_number(2, records={"a": None}, qi_groups={1: None}, outbox=live("x"))
    with setting(client, "maxmemory", "1"), pytest.raises(ServerUnreachable, match="full: raise maxmemory"):
        store.commit(fence, 1, commit)
    assert everything(store) == held
    store.commit(fence, 1, commit)
    assert keys_of(store.outbox()) == [(2, "x")]


@pytest.mark.parametrize("name", ["groups", "outbox", "statements", "origins", "similarity"])
def test_a_key_of_another_type_stops_the_commit_before_it_begins(client: Any, open_store: OpenRedis, name: str) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    (meta,) = client.scan_iter(match="{test-*-patients:0}:meta")
    client.set(meta.decode().replace("meta", name), "canary")
    commit = commit_number(1, records={"a": record()}, similarity={1: SimilarityList(((2, 0.5),), 1)})
    with pytest.raises(ShardRefused, match="WRONGTYPE"):
        store.commit(fence, 0, commit)
    assert store.meta() is None
    assert client.hlen(meta.decode().replace("meta", "records")) == 0


def test_damaged_bytes_are_refused_without_showing_them(client: Any, open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    store.commit(store.take_over(), 0, commit_number(1, records={"a": record()}))
    (records,) = client.scan_iter(match="{test-*-patients:0}:records")
    client.hset(records, "a", b"canary")
    state = store.load()
    assert state is not None
    with pytest.raises(ShardRefused, match="row of the index table is damaged") as refused:
        list(state.kept.records)
    assert "canary" not in "".join(traceback.format_exception(refused.value))


class WithoutEvalsha(redis.Redis):
    """A client of a Redis whose operator has renamed EVALSHA."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        return super().execute_command("NOSUCHCOMMAND" if args[0] == "EVALSHA" else args[0], *args[1:], **options)  # type: ignore[no-untyped-call]


def test_no_value_of_a_person_is_in_an_error_of_the_server(client: Any) -> None:
    """Redis quotes the arguments of a command it does not know."""
    canary = secrets.token_hex(8)
    store = RedisStore(WithoutEvalsha(connection_pool=client.connection_pool), "patients", 0)
    with pytest.raises(StreamerError, match="refuses a command") as refused:
        store.commit("1-a", 0, commit_number(1, records={canary: record(problem=canary.encode())}))
    assert canary not in "".join(traceback.format_exception(refused.value))


def test_a_server_that_is_not_there_is_unreachable_and_no_password_is_shown() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        store = RedisStore(connect(f"redis://someone:hunter2@127.0.0.1:{port}/0", timeout_s=0.2), "patients", 0)
        for call in (store.take_over, store.load):
            with pytest.raises(ServerUnreachable, match=rf"Redis 127.0.0.1:{port} does not answer") as unreachable:
                call()
            assert "hunter2" not in "".join(traceback.format_exception(unreachable.value))


@pytest.mark.parametrize(
    "url",
    ["localhost:6379", "http://someone:hunter2@localhost", "redis://localhost:hunter2", "redis://localhost?x=hunter2"],
)
def test_a_url_that_cannot_be_read_is_the_operators_fault_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="Redis URL") as refused:
        connect(url)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


@contextmanager
def user(client: Any, *rules: str) -> Iterator[str]:
    """The URL parts of a user with these access rules."""
    name = f"test-{secrets.token_hex(4)}"
    client.execute_command("ACL", "SETUSER", name, "on", ">secret", *rules)
    try:
        yield f"{name}:secret@"
    finally:
        client.execute_command("ACL", "DELUSER", name)


def client_of(servers: Servers, login: str) -> Any:
    return connect(servers.redis_url.replace("redis://", f"redis://{login}"))


def as_user(servers: Servers, login: str) -> RedisStore:
    return RedisStore(client_of(servers, login), "patients", 0)


def test_a_user_without_the_right_to_a_command_is_told_so(servers: Servers, client: Any) -> None:
    with user(client, "~*", "+@read") as login, pytest.raises(ConfigError, match="NOPERM"):
        as_user(servers, login).take_over()
    with pytest.raises(ConfigError, match="WRONGPASS"):
        as_user(servers, "nobody:wrong@").meta()


def test_a_server_that_keeps_what_it_confirms_is_accepted(client: Any) -> None:
    require_durable(client, stated=False)


@pytest.mark.parametrize(
    ("name", "value"), [("appendfsync", "everysec"), ("appendonly", "no"), ("maxmemory-policy", "allkeys-lru")]
)
def test_a_server_that_may_lose_what_it_confirms_is_refused_unless_stated(
    client: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr(client, "config_get", lambda asked: {asked: value if asked == name else DURABLE[asked]})
    with pytest.raises(NotDurable, match=f"{name} is {value}: set it to {DURABLE[name]}, or say `durability: stated`"):
        require_durable(client, stated=False)
    require_durable(client, stated=True)


def test_a_server_that_does_not_show_its_settings_is_accepted_only_when_stated(servers: Servers, client: Any) -> None:
    with user(client, "~*", "+@all", "-config") as login:
        someone = client_of(servers, login)
        with pytest.raises(NotDurable, match="does not show its settings"):
            require_durable(someone, stated=False)
        require_durable(someone, stated=True)


def meta_key(client: Any) -> str:
    """The key of the only shard that there is."""
    (found,) = client.scan_iter(match="{test-*-patients:0}:meta")
    return str(found.decode())


def impatient_store(servers: Servers) -> RedisStore:
    """A store of the only shard, which does not wait long for an answer."""
    client = connect(servers.redis_url, timeout_s=0.2)
    return RedisStore(client, meta_key(client)[1:].partition(":0}")[0], 0)


def test_a_commit_whose_answer_was_lost_is_done_once(servers: Servers, open_store: OpenRedis) -> None:
    """The client sends it again by itself, the frozen server runs every copy when it thaws, and we send it again."""
    owner = open_store("patients", 0)
    fence = owner.take_over()
    impatient = impatient_store(servers)
    impatient.check_fence(fence)
    commit = commit_number(1, records={"a": record()}, statement_ids=["s"], outbox=live("x", "y"))
    servers.freeze_redis()
    try:
        with pytest.raises(ServerUnreachable):
            impatient.commit(fence, 0, commit)
    finally:
        servers.thaw_redis()
    deadline = time.monotonic() + 10
    while owner.meta() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert owner.meta() == commit.meta
    owner.commit(fence, 0, commit)
    assert keys_of(owner.outbox()) == [(1, "x"), (1, "y")]
    state = owner.load()
    assert state is not None
    assert list(state.kept.statement_ids) == ["s"]


def test_a_take_over_whose_answer_was_lost_gives_one_fence(client: Any, open_store: OpenRedis) -> None:
    """The client sends the same call again, and must not be fenced by its own first call."""
    store = open_store("patients", 0)
    store.take_over()
    take_over = client.register_script(files("streamer.incremental.store").joinpath("take_over.lua").read_text("utf-8"))
    fences = {take_over(keys=[meta_key(client), "custody"], args=["the-token", ""]) for _ in range(3)}
    assert fences == {b"2-the-token"}
    assert store.take_over().startswith("3-")


def test_a_repeated_take_over_whose_answer_was_lost_does_not_look_like_another_worker(
    servers: Servers, open_store: OpenRedis
) -> None:
    open_store("patients", 0).take_over()
    store = impatient_store(servers)
    fence = store.take_over()
    servers.freeze_redis()
    try:
        with pytest.raises(ServerUnreachable):
            store.take_over(again=True)
    finally:
        servers.thaw_redis()
    deadline = time.monotonic() + 10
    with pytest.raises(Fenced):
        while time.monotonic() < deadline:  # until the frozen server has done what was asked
            store.check_fence(fence)
            time.sleep(0.02)
    store.check_fence(store.take_over(again=True))


@pytest.mark.gate("a killed Redis")
def test_what_was_confirmed_is_there_after_the_server_was_killed(servers: Servers, open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    store.commit(fence, 0, commit_number(1, records={"a": record()}, outbox=live("x")))
    held = everything(store)
    servers.kill_redis()
    with pytest.raises(ServerUnreachable):
        store.meta()
    servers.start_redis()
    assert everything(store) == held
    store.check_fence(fence)
    store.commit(fence, 1, commit_number(2, records={"a": None}))  # the server has forgotten the script
    assert store.meta() == commit_number(2).meta


def test_a_scan_does_not_go_on_at_a_server_that_was_started_again(servers: Servers, open_store: OpenRedis) -> None:
    """Its hashes are in another order then: a fifth of the rows was missing, in silence."""
    store = open_store("patients", 0)
    rows = {str(number): record() for number in range(3 * FIELDS_PER_SCAN)}
    store.commit(store.take_over(), 0, commit_number(1, records=rows))
    state = store.load()
    assert state is not None
    reading = iter(state.kept.records)
    next(reading)
    servers.kill_redis()
    servers.start_redis()
    with pytest.raises(ServerUnreachable):
        list(reading)
    again = store.load()
    assert again is not None
    assert dict(again.kept.records) == rows


def test_a_shard_whose_keys_are_lost_is_fenced_and_its_old_fence_stays_dead(client: Any, open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    old = store.take_over()
    for name in client.scan_iter(match="{test-*-patients:0}:*"):
        client.delete(name)
    new = store.take_over()
    assert old.partition("-")[0] == new.partition("-")[0] == "1"
    assert old != new


def test_lost_keys_are_not_told_as_another_workers_doing(client: Any, open_store: OpenRedis) -> None:
    store = open_store("patients", 0)
    fence = store.take_over()
    (meta,) = client.scan_iter(match="{test-*-patients:0}:meta")
    client.delete(meta)
    calls: tuple[Callable[[], None], ...] = (
        lambda: store.check_fence(fence),
        lambda: store.trim(fence, 1),
        lambda: _commit_one(store, fence),
    )
    for call in calls:
        with pytest.raises(Fenced, match="Redis has lost the shard's keys"):
            call()
    open_store("patients", 0).take_over()
    with pytest.raises(Fenced, match="another worker has taken over"):
        store.check_fence(fence)


def _commit_one(store: RedisStore, fence: str) -> None:
    store.commit(fence, 0, commit_number(1))
