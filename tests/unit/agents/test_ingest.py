"""Reading the input in batches, its errors as ours, and how the service that feeds the agents ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, time
from types import SimpleNamespace
from typing import Any, cast

import aiokafka.errors
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, TopicAuthorizationFailedError
from aiokafka.errors import KafkaError as ReaderError

from agents import ingest as ingest_of_shards
from agents.app import App
from agents.ingest import Ingest, Patience
from agents.input_reader import Batch, InputReader, failure_of, reader_access
from streamer.errors import ConfigError, ServerUnreachable, ShardRefused, StreamerError
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.ready import Messages
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.store.redis_lookups import Measured, Ownership
from streamer.kafka.control import News
from streamer.table.schema import Limits
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from streamer.worker.tenure import TenureState
from worlds.checkout import PATIENTS
from worlds.faust_loops import close_loops
from worlds.http_servers import Endpoint
from worlds.kafka_in_memory import NoKafka
from worlds.workers import wait_until

PLACE = TopicPartition("patients.changes", 0)
OTHER = TopicPartition("patients.changes", 1)
SETTINGS = WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0")


class Client:
    """A client that hands out the given answers, one per read, and then none: half as late as it may be."""

    def __init__(self, *answers: Sequence[bytes | None]) -> None:
        self.answers = [list(answer) for answer in answers]
        self.at = 0
        self.error: Exception | None = None
        self.committed: list[dict[TopicPartition, int]] = []
        self.calls: list[tuple[str, TopicPartition]] = []

    async def getmany(
        self, place: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        if self.error is not None:
            raise self.error
        if not self.answers:
            await asyncio.sleep(timeout_ms / 2000)  # earlier than who takes a batch gives up
            return {}
        await asyncio.sleep(0.02)
        if not self.answers:  # another partition has got it
            return {}
        values, rest = self.answers[0][:max_records], self.answers[0][max_records:]
        self.answers[:1] = [rest] if rest else []
        records = [
            SimpleNamespace(offset=self.at + n, key=b"7", value=value, timestamp=0) for n, value in enumerate(values)
        ]
        self.at += len(values)
        return {place: records}

    async def position(self, _place: TopicPartition) -> int:
        if self.error is not None:
            raise self.error
        return self.at

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        if self.error is not None:
            raise self.error
        self.committed.append(offsets)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.calls.append((f"seek {offset}", place))

    def pause(self, place: TopicPartition) -> None:
        self.calls.append(("pause", place))

    def resume(self, place: TopicPartition) -> None:
        self.calls.append(("resume", place))

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    async def stop(self) -> None: ...

    def highwater(self, place: TopicPartition) -> int | None:
        return 12 if place == PLACE else None


def reader(client: Client, limits: Limits = SETTINGS.table.limits) -> InputReader:
    one = InputReader(replace(SETTINGS, table=replace(SETTINGS.table, limits=limits)))
    one.consumer = client
    return one


def batches(client: Client, n: int, limits: Limits = SETTINGS.table.limits) -> list[Batch]:
    """So many batches, from offset 0 on; between two of them the shard is busy until no more comes."""

    async def taken() -> list[Batch]:
        one = reader(client, limits)
        one.read_from(PLACE, 0)
        found = []
        for _ in range(n):
            found.append(await one.next_batch(PLACE))
            await asyncio.sleep(0.001)
            while client.answers and client.calls[-1][0] != "pause":
                await asyncio.sleep(0.001)
        one.leave(PLACE)
        return found

    return asyncio.run(taken())


def offsets(batch: Batch) -> list[int]:
    return [message.offset for message in batch.messages]


def test_a_batch_begins_with_its_first_message_and_the_next_one_is_what_comes_meanwhile() -> None:
    first, second = batches(Client([b"a", b"b"], [b"c"], [None]), 2)
    assert (offsets(first), first.through) == ([0, 1], 2)
    assert (offsets(second), second.through) == ([2, 3], 4)


def test_nothing_is_a_batch_of_nothing_and_says_how_far_the_input_is_read() -> None:
    client = Client()
    client.at = 7  # behind messages that a transaction has taken back
    assert batches(client, 1) == [Batch([], 7)]


def test_a_partition_rests_while_two_full_batches_wait() -> None:
    client = Client([b"x"] * 9)
    found = batches(client, 5, replace(SETTINGS.table.limits, batch_events_max=2))
    assert [offsets(one) for one in found] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    assert [one.through for one in found] == [2, 4, 6, 8, 9]
    assert [call for call, _ in client.calls] == ["seek 0", "resume", *["pause", "resume"] * 2]


def test_what_is_left_is_neither_read_on_nor_kept() -> None:
    client = Client(*[[b"x"]] * 50)

    async def leave() -> list[int]:
        one = reader(client)
        one.read_from(PLACE, 0)
        await one.next_batch(PLACE)
        one.leave(PLACE)
        await asyncio.sleep(0)
        at = client.at
        await asyncio.sleep(0.01)
        assert client.at == at
        one.read_from(PLACE, 9)
        return offsets(await one.next_batch(PLACE))

    assert asyncio.run(leave())[0] == client.at - 1


def test_what_was_assigned_stands_still_until_its_shard_is_taken_over() -> None:
    client = Client()
    one = reader(client)
    one.hold(PLACE)
    assert client.calls == [("seek 0", PLACE), ("pause", PLACE)]

    async def taken_over() -> None:
        one.read_from(PLACE, 40)
        one.leave(PLACE)

    asyncio.run(taken_over())
    assert client.calls[2:] == [("seek 40", PLACE), ("resume", PLACE)]


def test_an_end_that_the_client_has_not_heard_of_is_none() -> None:
    one = reader(Client())
    assert (one.end(PLACE), one.end(OTHER)) == (12, 0)
    assert (one.is_assigned(PLACE), one.is_assigned(OTHER)) == (True, False)


def test_an_error_while_reading_says_what_was_read_and_how_kafka_answered() -> None:
    client = Client()
    client.error = NodeNotReadyError("7 has asthma")
    with pytest.raises(ServerUnreachable, match=r"^reading patients\.changes: Kafka answers NodeNotReadyError$"):
        batches(client, 1)


def test_a_missing_right_is_named() -> None:
    client = Client()
    client.error = TopicAuthorizationFailedError("patients.changes")
    with pytest.raises(StreamerError, match=r"(?i)read"):
        batches(client, 1)


def test_a_lag_that_kafka_does_not_take_stops_nothing() -> None:
    client = Client()
    asyncio.run(reader(client).commit_group_offsets({PLACE: 5}))
    asyncio.run(reader(client).commit_group_offsets({}))
    client.error = NodeNotReadyError()
    asyncio.run(reader(client).commit_group_offsets({PLACE: 6}))
    assert client.committed == [{PLACE: 5}]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TopicAuthorizationFailedError", ConfigError),
        ("GroupAuthorizationFailedError", ConfigError),
        ("UnsupportedVersionError", ShardRefused),
        ("UnknownTopicOrPartitionError", ServerUnreachable),
        ("NotLeaderForPartitionError", ServerUnreachable),
        ("KafkaConnectionError", ServerUnreachable),
        ("OffsetOutOfRangeError", ServerUnreachable),
    ],
)
def test_the_reading_client_tells_them_apart_too(name: str, kind: type[StreamerError]) -> None:
    error: ReaderError = getattr(aiokafka.errors, name)("patients.changes")
    assert type(failure_of("reading patients.changes", error, "patients.changes")) is kind


def test_a_provider_of_tokens_asks_the_endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "me", "KAFKA_SASL_PASSWORD": "secret",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert "sasl_oauth_token_provider" not in reader_access()
    with Endpoint(200, b'{"access_token": "given-to-a-worker", "expires_in": 60}') as endpoint:
        properties = tmp_path / "client.properties"
        properties.write_text(f"sasl.oauthbearer.token.endpoint.url={endpoint.url}")
        monkeypatch.setenv("KAFKA_CONFIG", str(properties))
        monkeypatch.setenv("KAFKA_SASL_MECHANISM", "OAUTHBEARER")
        assert asyncio.run(reader_access()["sasl_oauth_token_provider"].token()) == "given-to-a-worker"
    with pytest.raises(KafkaConnectionError, match="the endpoint does not answer"):  # the client tries again
        asyncio.run(reader_access()["sasl_oauth_token_provider"].token())


class SilentConsumer:
    """A consumer whose Kafka does not answer."""

    def __init__(self) -> None:
        self.paused: list[TopicPartition] = []

    def seek(self, place: TopicPartition, offset: int) -> None: ...

    def pause(self, place: TopicPartition) -> None:
        self.paused.append(place)

    async def stop(self) -> None:
        await asyncio.sleep(60)


@pytest.fixture
def ingest() -> Iterator[Ingest]:
    """The service between start and end, in a loop of its own; no server listens."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        reader = InputReader(SETTINGS, leave_seconds_max=0.05)
        reader.consumer = SilentConsumer()
        yield Ingest(SETTINGS, app=cast(Any, None), reader=reader)


def test_a_kafka_that_does_not_answer_does_not_hold_up_the_end(ingest: Ingest) -> None:
    asyncio.get_event_loop().run_until_complete(asyncio.wait_for(ingest.on_stop(), 5))


def test_what_is_assigned_on_the_way_out_is_not_begun(ingest: Ingest) -> None:
    asyncio.get_event_loop().run_until_complete(asyncio.wait_for(ingest.stop(), 5))
    ingest.on_partitions_assigned([PLACE])
    assert ingest.reader.consumer.paused == []
    assert ingest.held == []
    wait_until(lambda: not ingest.busy, 10, lambda: "a thread is still running")


def test_a_worker_that_gets_no_shard_says_so(ingest: Ingest, caplog: pytest.LogCaptureFixture) -> None:
    ingest.on_partitions_assigned([])
    assert [line.getMessage().split(":")[0] for line in caplog.records] == ["no shard is assigned to this worker"]


def test_a_worker_whose_shards_are_given_out_anew_has_not_got_them_yet(ingest: Ingest) -> None:
    loop = asyncio.get_event_loop()
    ingest.on_partitions_assigned([])
    assert ingest.joined
    loop.run_until_complete(ingest.on_partitions_revoked([]))
    assert not ingest.joined


# -- refused shards -----------------------------------------------------------------------------------------------


class Redis:
    """What Redis knows of shards beside their tables; refuses: the numbers of shards that cannot be taken over."""

    def __init__(self, *refuses: int) -> None:
        self.refuses = set(refuses)
        self.tries: list[int] = []
        self.said: dict[int, str] = {}
        self.measured: dict[int, Measured] = {}
        self.custody = Ownership()
        self.asked: list[int] | None = None  # by whom, while it does not answer
        self.held: threading.Event | None = None  # no take-over goes on before it is set
        self.looks = 0  # whether something has changed that a refusal depends on

    def _sizes(self, number: int) -> bool:
        self.looks += 1
        return number in self.refuses

    def lookups(self, number: int) -> Any:
        if self.asked is not None:
            self.asked.append(number)
            raise ServerUnreachable("Redis does not answer")

        def check_begun(_name: str) -> None:
            self.tries.append(number)
            if self.held is not None:
                self.held.wait(10)
            if number in self.refuses:
                raise ShardRefused("its secret is lost")

        return SimpleNamespace(
            check_begun=check_begun,
            report_owner=lambda _owner, _process: float(bool(self.said.pop(number, ""))),
            report_measured=lambda measured: self.measured.update({number: measured}),
            report_refusal=lambda _owner, reason: self.said.update({number: reason}),
            meta=lambda: None,
            sizes=lambda: self._sizes(number),
            custody=lambda: self.custody,
        )


class HeldStore(MemoryStore):
    """A store that finishes no commit and no load while `held` is set."""

    held: threading.Event | None = None
    holds = False

    def commit(self, *given: Any, **named: Any) -> Any:
        self._hold()
        return super().commit(*given, **named)

    def load(self) -> Any:
        self._hold()
        return super().load()

    def _hold(self) -> None:
        if self.held is not None:
            self.holds = True
            self.held.wait(10)


class InMemory:
    """The servers of a worker: this Redis, and an empty Kafka."""

    busy = False

    def __init__(self, redis: Redis) -> None:
        self.lookups = redis.lookups
        self.memory = MemoryServer()
        self.news: Any = NoNews()
        self.clock: Any = SimpleNamespace(now=time)
        self.stores: list[HeldStore] = []
        self.held: threading.Event | None = None  # by which a store is held from its beginning on

    def store(self, number: int) -> MemoryStore:
        self.stores.append(HeldStore(self.memory, SETTINGS.table.name, number))
        self.stores[-1].held = self.held
        return self.stores[-1]

    def store_to_read(self, number: int) -> MemoryStore:
        return MemoryStore(self.memory, SETTINGS.table.name, number)

    def other_stores(self, number: int, shards: int) -> list[MemoryStore]:
        return [self.store_to_read(other) for other in range(shards) if other != number]

    def input(self, _number: int) -> Any:
        return NoKafka()

    outlet = input

    def close(self) -> None: ...


class NoNews:
    """A control topic without a record."""

    def since(self, _shard: int, offset: int) -> Future[News]:
        answer: Future[News] = Future()
        answer.set_result(News((), offset))
        return answer


@asynccontextmanager
async def a_worker(
    redis: Redis, servers: InMemory | None = None, settings: WorkerSettings = SETTINGS
) -> AsyncIterator[tuple[Ingest, Client]]:
    """With two shards; in the end it has left nothing that waits."""
    client = Client()
    app = App("a-test", broker="kafka://127.0.0.1:1", loop=asyncio.get_running_loop())
    app.flow_control.resume()
    given: Any = servers or InMemory(redis)
    ingest = Ingest(settings, app, reader(client), given, Patience(end_of_step=0.05, look=0.01))
    ingest.on_partitions_assigned([PLACE, OTHER])
    try:
        yield ingest, client
    finally:
        await asyncio.wait_for(ingest.on_stop(), 5)
        close_loops()
    await until(lambda: not any("Ingest." in task.get_name() for task in asyncio.all_tasks()))


async def until(reached: Callable[[], object]) -> None:
    for _ in range(1000):
        if reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was waited for ten seconds")


async def test_a_refused_shard_is_dropped_and_said_and_tried_again_when_something_changed() -> None:
    """Before: the worker ended, and its healthy shards with it."""
    redis = Redis(0)
    async with a_worker(redis) as (ingest, client):
        refused, healthy = ingest.held
        await until(lambda: redis.said and healthy.tenure.is_owner)
        assert (ingest.failure, redis.said) == (None, {0: "its secret is lost"})
        assert redis.tries.count(0) == 2  # asked once more, to be sure
        assert [call for call, place in client.calls if place == PLACE][-1] == "pause"
        assert not refused.tenure.is_owner
        await until(lambda: redis.looks > 0)
        redis.refuses.clear()
        await until(lambda: refused.tenure.is_owner and not refused.tenure.refused)
        assert [call for call, place in client.calls if place == PLACE][-1] == "resume"
        assert redis.said == {}


async def test_what_is_measured_of_the_shards_that_are_served_is_left_for_status() -> None:
    redis = Redis(0)
    async with a_worker(redis) as (ingest, _):
        refused, healthy = ingest.held
        await until(lambda: refused.tenure.refused and healthy.tenure.is_owner)
        healthy.metrics.done = StepReport(Counts(applied=4), published=6)
        healthy.facts = healthy.facts._replace(ncp=0.3, ncp_fresh=0.2)
        ingest.report_measured()
        assert redis.measured == {1: Measured(0.3, 0.2, messages=4, records=6)}


async def test_a_silent_redis_is_waited_for_once_not_for_every_shard() -> None:
    redis = Redis()
    async with a_worker(redis) as (ingest, _):
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        redis.asked = []
        ingest.report_measured()
        assert redis.asked == [0]
        redis.asked = None


async def test_a_worker_of_which_all_shards_are_refused_ends_with_the_reason() -> None:
    redis = Redis(0, 1)
    async with a_worker(redis) as (ingest, _):
        await until(lambda: ingest.failure)
        assert str(ingest.failure) == "its secret is lost"
        await until(lambda: redis.said == {0: "its secret is lost", 1: "its secret is lost"})


async def test_what_was_wrong_for_a_moment_only_refuses_no_shard() -> None:
    redis = Redis(0)
    async with a_worker(redis) as (ingest, _):
        await until(lambda: redis.tries.count(0) == 1)
        redis.refuses.clear()
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        assert redis.said == {}


@pytest.mark.parametrize("error", [MemoryError("canary"), RuntimeError("can't start new thread")])
@pytest.mark.parametrize("where", ["a step", "an assignment"])
async def test_a_worker_that_lacks_memory_ends(monkeypatch: pytest.MonkeyPatch, error: Exception, where: str) -> None:
    """Before: its shards were refused, or had nobody, and it stayed."""
    ended = list[tuple[int, str]]()
    monkeypatch.setattr(ingest_of_shards, "end_process", lambda *said: ended.append(said))

    def lacking(*_given: object, **_named: object) -> None:
        raise error

    servers = InMemory(Redis())
    if where == "an assignment":
        servers.store = lacking  # type: ignore[method-assign, assignment]
    else:
        monkeypatch.setattr(HeldStore, "take_over", lacking)
    async with a_worker(Redis(), servers):
        await until(lambda: ended)
    assert {(code, why.partition(": ")[2].partition(";")[0]) for code, why in ended} == {
        (2, "the system gives no more memory or threads")
    }


# -- rebalances ---------------------------------------------------------------------------------------------------


async def test_a_shard_that_is_given_back_and_assigned_again_loads_nothing() -> None:
    """Before: whoever joined or left the group had every worker load all its shards anew."""
    redis = Redis()
    async with a_worker(redis) as (ingest, client):
        kept, other = ingest.held
        await until(lambda: kept.tenure.is_owner and other.tenure.is_owner)
        await ingest.on_partitions_revoked([PLACE, OTHER])
        assert (kept.tenure.state, other.tenure.state) == (TenureState.RESTING, TenureState.RESTING)
        seen = len(client.calls)
        await asyncio.sleep(0.1)
        assert client.calls[seen:] == []  # nothing is read meanwhile
        ingest.on_partitions_assigned([PLACE])
        await until(lambda: ("resume", PLACE) in client.calls[seen:])
        assert ingest.held == [kept]
        assert other.tenure.lost
        assert not kept.tenure.lost
        assert redis.tries == [0, 1]
        await until(lambda: not other.thread.busy)


async def test_a_shard_that_another_worker_had_meanwhile_is_taken_over_again() -> None:
    redis = Redis()
    servers = InMemory(redis)
    async with a_worker(redis, servers) as (ingest, _):
        kept, other = ingest.held
        await until(lambda: kept.tenure.is_owner and other.tenure.is_owner)
        await ingest.on_partitions_revoked([PLACE, OTHER])
        servers.store_to_read(0).take_over()
        ingest.on_partitions_assigned([PLACE, OTHER])
        await until(lambda: redis.tries.count(0) == 2)
        await until(lambda: ingest.held[0].tenure.is_owner)
        assert ingest.held[0] is not kept
        assert (ingest.held[1], redis.tries.count(1)) == (other, 1)


@pytest.mark.parametrize("other", ["an older run", "a younger run", "another worker"])
async def test_of_two_runs_under_one_name_that_take_a_shard_from_each_other_the_older_one_ends(other: str) -> None:
    """Before: both could end, each because of the other one."""
    redis, settings = Redis(), replace(SETTINGS, instance="a")
    servers = InMemory(redis)
    process = "f" * 16 if other == "a younger run" else "0"
    assert "0" < settings.process < WorkerSettings(SETTINGS.table, SETTINGS.kafka, SETTINGS.redis).process < "f" * 16
    async with a_worker(redis, servers, settings) as (ingest, client):
        first = ingest.held[0]
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        redis.custody = Ownership("b" if other == "another worker" else "a", process=process)
        servers.store_to_read(0).take_over()
        servers.store_to_read(1).take_over()
        client.answers.append([b"{}"])
        await until(lambda: any(shard.tenure.lost for shard in ingest.held) or ingest.held[0] is not first)
        await asyncio.sleep(0.3)
        assert isinstance(ingest.failure, ConfigError) is (other == "a younger run")
        assert any(shard.tenure.lost for shard in ingest.held) is (other != "an older run")


async def test_a_step_that_is_longer_than_a_rebalance_is_read_on_after() -> None:
    redis, ends = Redis(), threading.Event()
    servers = InMemory(redis)
    async with a_worker(redis, servers) as (ingest, client):
        first, other = ingest.held
        await until(lambda: first.tenure.is_owner and other.tenure.is_owner)
        for store in servers.stores:
            store.held = ends
        client.answers.append([b"{}"])
        await until(lambda: any(store.holds for store in servers.stores))
        await ingest.on_partitions_revoked([PLACE, OTHER])
        await ingest.on_partitions_revoked([])  # the rebalance begins anew
        assert first.thread.busy or other.thread.busy
        seen = len(client.calls)
        ingest.on_partitions_assigned([PLACE, OTHER])
        ends.set()
        await until(lambda: {place for call, place in client.calls[seen:] if call == "resume"} == {PLACE, OTHER})
        assert ingest.held == [first, other]
        assert redis.tries == [0, 1]


@pytest.mark.parametrize("ends_first", [True, False])
async def test_a_take_over_that_a_rebalance_interrupts_goes_on_and_is_the_only_one(ends_first: bool) -> None:
    """Before: its table was dropped and loaded anew, for ever if rebalances came more often than a load takes."""
    redis, ends = Redis(), threading.Event()
    servers = InMemory(redis)
    servers.held = ends
    async with a_worker(redis, servers) as (ingest, client):
        held = ingest.held
        await until(lambda: all(store.holds for store in servers.stores))
        for _ in range(3):
            began = monotonic()
            await ingest.on_partitions_revoked([PLACE, OTHER])
            assert monotonic() - began < 0.04  # nobody waits for what may take minutes
            assert {shard.tenure.state for shard in held} == {TenureState.RESTING}
            if ends_first:
                ends.set()
                await until(lambda: not any(shard.thread.busy for shard in held))
            ingest.on_partitions_assigned([PLACE, OTHER])
        assert ends_first or all(shard.thread.busy for shard in held)
        ends.set()
        await until(lambda: {place for call, place in client.calls if call == "resume"} == {PLACE, OTHER})
        assert ingest.held == held
        assert redis.tries == [0, 1]


async def test_a_take_over_that_has_shut_out_nobody_before_a_rebalance_shuts_out_nobody_in_it() -> None:
    redis = Redis()
    servers = InMemory(redis)
    redis.held = threading.Event()
    async with a_worker(redis, servers) as (ingest, _):
        first, other = ingest.held
        await until(lambda: sorted(redis.tries) == [0, 1])
        await ingest.on_partitions_revoked([PLACE, OTHER])
        elsewhere = servers.store_to_read(0)
        fence = elsewhere.take_over()
        redis.held.set()
        await until(lambda: first.tenure.lost and other.tenure.lost)
        elsewhere.check_fence(fence)
        ingest.on_partitions_assigned([OTHER])
        await until(lambda: [shard.tenure.is_owner for shard in ingest.held] == [True])
        elsewhere.check_fence(fence)


async def test_a_take_over_that_another_worker_had_an_end_of_is_begun_again() -> None:
    redis, ends = Redis(), threading.Event()
    servers = InMemory(redis)
    servers.held = ends
    async with a_worker(redis, servers) as (ingest, _):
        first, other = ingest.held
        await until(lambda: all(store.holds for store in servers.stores))
        await ingest.on_partitions_revoked([PLACE, OTHER])
        servers.store_to_read(0).take_over()
        ingest.on_partitions_assigned([PLACE, OTHER])
        ends.set()
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        assert ingest.held[0] is not first
        assert (ingest.held[1], redis.tries) == (other, [0, 1, 0])


async def test_a_refused_shard_does_not_rest() -> None:
    redis = Redis(0)
    async with a_worker(redis) as (ingest, _):
        refused, healthy = ingest.held
        await until(lambda: refused.tenure.refused and healthy.tenure.is_owner)
        await ingest.on_partitions_revoked([PLACE, OTHER])
        assert ingest.held == [healthy]
        redis.refuses.clear()
        ingest.on_partitions_assigned([PLACE, OTHER])
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        assert ingest.held[0] is not refused


async def test_an_assignment_that_no_withdrawal_came_before_reads_on_where_the_shard_stands() -> None:
    """Before: the partition was paused, and the shard, which was served, waited for its messages for ever."""
    redis = Redis()
    async with a_worker(redis) as (ingest, client):
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        ingest.on_partitions_assigned([PLACE, OTHER])
        client.answers.append([b"{}"])
        await until(lambda: any(shard.meta.next for shard in ingest.held))
        assert redis.tries == [0, 1]


async def test_what_is_measured_of_a_shard_that_rests_is_for_the_next_owner_to_say() -> None:
    redis = Redis()
    async with a_worker(redis) as (ingest, _):
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        await ingest.on_partitions_revoked([PLACE])
        ingest.report_measured()
        assert list(redis.measured) == [1]


async def test_a_shard_that_stays_lost_ends_the_process_but_not_while_a_rebalance_has_not_said_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: a resting shard that failed ended the process if the rebalance took longer than a few seconds."""
    redis, ended, ends = Redis(), list[str](), threading.Event()
    servers = InMemory(redis)
    async with a_worker(redis, servers) as (ingest, client):
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        for store in servers.stores:
            store.held = ends
        client.answers.append([b"{}"])
        await until(lambda: any(store.holds for store in servers.stores))
        lost = next(shard for shard, store in zip(ingest.held, servers.stores, strict=True) if store.holds)
        await ingest.on_partitions_revoked([PLACE, OTHER])
        servers.store_to_read(lost.number).take_over()
        ends.set()
        await until(lambda: lost.tenure.lost)
        monkeypatch.setattr(ingest_of_shards, "end_process", lambda _code, why: ended.append(why))
        monkeypatch.setattr(ingest_of_shards, "monotonic", lambda: monotonic() + 3600)
        monkeypatch.setattr(client, "assignment", lambda: {PLACE, OTHER})
        ingest.end_if_lost()
        assert ended == []
        ingest.joined = True
        ingest.end_if_lost()
        assert [why.split(" (")[0] for why in ended] == [f"{lost.name} was lost and is still assigned to this worker"]


async def test_nothing_waits_for_a_shard_that_was_given_back_in_the_middle_of_a_step() -> None:
    """Before: whoever had an event in the mailbox behind that step waited for its answer until the worker ended."""
    redis, ends = Redis(), threading.Event()
    servers = InMemory(redis)
    async with a_worker(redis, servers) as (ingest, _):
        first = ingest.held[0]
        await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        servers.stores[0].held = ends
        await first.post(Messages([Message(0, b"7", b"{}")], 1))
        await until(lambda: servers.stores[0].holds)
        await asyncio.sleep(0.2)  # the next tick is in the mailbox
        await ingest.on_partitions_revoked([PLACE, OTHER])
        ingest.on_partitions_assigned([])
        await asyncio.sleep(0.2)
        ends.set()
        await until(lambda: not ingest.busy)
        await until(lambda: not any("Ingest." in task.get_name() for task in asyncio.all_tasks()))


@pytest.mark.parametrize("state", TenureState, ids=lambda state: state.value)
async def test_a_worker_ends_at_once_whatever_its_shards_are(state: TenureState) -> None:
    """While a shard is taken over or served, a call is under way that does not end."""
    redis, ends = Redis(), threading.Event()
    servers = InMemory(redis)
    redis.asked = [] if state is TenureState.ASSIGNED else None
    redis.refuses = {0} if state in (TenureState.DOUBTED, TenureState.REFUSED) else set()
    redis.held = ends if state is TenureState.TAKING_OVER else None
    async with a_worker(redis, servers) as (ingest, _):
        first = ingest.held[0]
        if state in (TenureState.SERVING, TenureState.RESTING, TenureState.LOST):
            await until(lambda: all(shard.tenure.is_owner for shard in ingest.held))
        if state is TenureState.RESTING:
            await ingest.on_partitions_revoked([PLACE])
        elif state in (TenureState.SERVING, TenureState.LOST):
            servers.stores[0].held = ends if state is TenureState.SERVING else None
            servers.store_to_read(0).take_over()
            await first.post(Messages([Message(0, b"7", b"{}")], 1))
        await until(lambda: servers.stores[0].holds if state is TenureState.SERVING else first.is_in(state))
    ends.set()
