"""Workers as processes on a real Kafka and Redis: what they publish is what a quiet replay of the same events gives."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from agents.outlet import KafkaOutlet
from agents.publish import Batch, publish
from agents.shard import EXIT_HUNG, EXIT_LOST, HeldShard, Unexpected
from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.errors import Fenced, ServerUnreachable
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS, ROOT
from worlds.kafka_side import fresh_name, make_topics, read, write
from worlds.patients import CANARY, Changes, expected, folded, smallest_group, write_table

SHARDS = 4
WORKER_COMMANDS = {
    "streamer": [sys.executable, "-m", "agents.cli", "worker", "--log-level", "debug"],
    "faust": [sys.executable, "-m", "faust", "-A", "agents.app", "worker", "--loglevel", "info"],
}


FRAGILE = """
import os
from agents.cli import main
from streamer.incremental.groups.engine import Engine

apply = Engine.apply

def fragile(self, change):
    outcome = apply(self, change)
    source_key = getattr(change, "source_key", "")
    if source_key.startswith("killer"):
        os._exit(9)
    if source_key.startswith("poison"):
        raise KeyError(source_key)
    return outcome

Engine.apply = fragile
main()
"""
"""A worker whose engine some source keys break, and some end the process, as a lack of memory would."""

WORKER_COMMANDS["fragile"] = [sys.executable, "-c", FRAGILE, "worker"]


class Worker:
    """One worker process and its log."""

    def __init__(self, log: Path, environment: Mapping[str, str], command: str = "streamer") -> None:
        self.log = log
        arguments = WORKER_COMMANDS[command]
        if command != "faust":
            arguments = [*arguments, "--table", environment["STREAMER_TABLE"]]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, env={**os.environ, **environment}, stdout=file, stderr=subprocess.STDOUT
            )

    def terminate(self) -> tuple[int, float]:
        """Exit code after SIGTERM, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30), time.monotonic() - began

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)

    def taken_over(self) -> list[int]:
        """Numbers of the shards taken over so far, in order."""
        return [int(number) for number in re.findall(r"shard (\d+) of \S+ taken over", self.log.read_text())]


class World:
    """A table on the servers, the changes written to it, and its workers."""

    def __init__(self, servers: Servers, directory: Path) -> None:
        self.name = fresh_name()
        self.bootstrap = servers.kafka_bootstrap
        self.table = write_table(directory, self.name)
        self.changes = Changes(SHARDS)
        self.workers: list[Worker] = []
        self.environment = {
            "STREAMER_TABLE": str(self.table),
            "KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
            "REDIS_URL": servers.redis_url,
        }
        self._directory = directory
        make_topics(self.bootstrap, self.name, SHARDS)

    def start(self, command: str = "streamer") -> Worker:
        worker = Worker(self._directory / f"worker-{len(self.workers)}.log", self.environment, command)
        self.workers.append(worker)
        return worker

    def write(self, count: int) -> None:
        write(self.bootstrap, f"{self.name}.changes", self.changes.more(count))

    def reached(self) -> list[int]:
        """The published `next` of every shard."""
        positions = [KafkaOutlet(self.bootstrap, self.name, shard).position() for shard in range(SHARDS)]
        return [position.next if position else 0 for position in positions]

    def lag(self) -> int:
        """Messages written and not read, as Kafka's tools see it by the group's offsets."""
        group = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"streamer-{self.name}"})
        places = [TopicPartition(f"{self.name}.changes", shard) for shard in range(SHARDS)]
        told = [max(place.offset, 0) for place in group.committed(places, timeout=20)]
        group.close()
        return sum(len(messages) for messages in self.changes.messages) - sum(told)

    def wait_until_published(self, seconds: float = 40.0) -> None:
        wanted = [len(messages) for messages in self.changes.messages]
        wait_until(lambda: self.reached() == wanted, seconds, lambda: f"{self.reached()} of {wanted}: {self.logs()}")

    def logs(self) -> str:
        return "\n".join(worker.log.read_text() for worker in self.workers)

    def assert_published_as_expected(self) -> None:
        client = connect(self.environment["REDIS_URL"])
        for shard, messages in enumerate(self.changes.messages):
            rows, n_letters = expected(self.table, shard, messages, SHARDS)
            records = read(self.bootstrap, self.name, "live", shard)
            assert folded([(record.key(), record.value()) for record in records]) == rows
            assert smallest_group(rows) >= 3
            letters = read(self.bootstrap, self.name, "dead-letters", shard)
            assert len({letter.key() for letter in letters}) == len(letters) == n_letters > 0
            meta = RedisStore(client, self.name, shard).meta()
            assert meta.counts.messages == meta.next == len(messages)
            assert meta.counts.dead_letters == n_letters
            assert not any(CANARY.encode() in (letter.value() + letter.key()) for letter in letters)
            assert not any(CANARY.encode() in ((record.value() or b"") + record.key()) for record in records)
        assert CANARY not in self.logs()


def wait_until(holds: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {otherwise()}")
        time.sleep(0.2)


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[World]:
    world = World(servers, tmp_path)
    yield world
    for worker in world.workers:
        worker.kill()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["streamer", "faust"])
def test_a_worker_publishes_everything_ends_on_sigterm_and_goes_on(world: World, command: str) -> None:
    world.write(1000)
    first = world.start(command)
    world.wait_until_published()
    wait_until(lambda: world.lag() == 0, 15, world.logs)
    code, seconds = first.terminate()
    assert (code, seconds < 4) == (0, True), world.logs()
    world.write(1000)
    world.start(command)
    world.wait_until_published()
    world.assert_published_as_expected()


@pytest.mark.slow
def test_two_workers_share_the_shards_and_one_goes_on_alone_after_the_other_was_killed(world: World) -> None:
    first = world.start()
    wait_until(lambda: len(first.taken_over()) == SHARDS, 20, world.logs)
    second = world.start()
    wait_until(lambda: len(second.taken_over()) == SHARDS // 2, 20, world.logs)
    world.write(1500)
    wait_until(lambda: min(world.reached()) > 0, 20, world.logs)
    first.kill()
    world.write(500)
    world.wait_until_published()
    assert set(second.taken_over()) == set(range(SHARDS))
    world.assert_published_as_expected()


@pytest.mark.slow
def test_a_worker_that_slept_past_its_session_publishes_nothing_any_more(world: World) -> None:
    sleeper = world.start()
    wait_until(lambda: len(sleeper.taken_over()) == SHARDS, 20, world.logs)
    world.write(500)
    wait_until(lambda: min(world.reached()) > 0, 20, world.logs)
    sleeper.process.send_signal(signal.SIGSTOP)
    world.write(500)
    world.start()
    world.wait_until_published()
    sleeper.process.send_signal(signal.SIGCONT)
    world.write(500)
    world.wait_until_published()
    world.assert_published_as_expected()


@pytest.mark.slow
def test_a_shard_whose_redis_keys_are_gone_is_dropped_and_read_again_after_a_new_start(world: World) -> None:
    dropper = world.start()
    world.write(1000)
    world.wait_until_published()
    client = connect(world.environment["REDIS_URL"])
    client.delete(*client.scan_iter(f"{{{world.name}:*"))
    world.write(400)
    assert dropper.process.wait(20) == EXIT_LOST, world.logs()
    world.start()
    world.wait_until_published()
    world.assert_published_as_expected()


def inserts(names: Iterable[str], shard: int = 0) -> list[tuple[int, bytes, bytes]]:
    """One insert per name, each under a source key of that beginning that belongs to the shard."""
    records = []
    for name in names:
        numbered = (f"{name}-{number}" for number in range(1000))
        source_key = next(one for one in numbered if shard_of(one.encode(), SHARDS) == shard)
        row = {"id": source_key, "age": 30, "zip": 12345, "bmi": 20.5, "sex": "Female", "problem": "flu"}
        value = json.dumps({"op": "insert", "row": row}).encode()
        records.append((shard, source_key.encode(), value))
    return records


def letters_of(world: World, shard: int = 0) -> list[tuple[str, int]]:
    """Reason and offset of a shard's dead letters."""
    letters = [json.loads(letter.value() or b"") for letter in read(world.bootstrap, world.name, "dead-letters", shard)]
    return [(letter["reason"], letter["offset"]) for letter in letters]


def rows_of(world: World, shard: int = 0) -> int:
    """Rows that readers of a shard see."""
    return len(folded([(record.key(), record.value()) for record in read(world.bootstrap, world.name, "live", shard)]))


def test_a_message_that_breaks_the_engine_does_not_end_its_worker(world: World) -> None:
    """Before: the worker ended with an unexpected error, was started again, read the same message, and so for ever."""
    write(world.bootstrap, f"{world.name}.changes", inserts(["a", "b", "c", "poison", "d"]))
    worker = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 5, 40, world.logs)
    assert worker.process.poll() is None
    assert (letters_of(world), rows_of(world)) == ([("internal-error", 3)], 4)
    assert re.search(r"ERROR.*shard 0 of .*offset 3 is passed over: KeyError in <string>, line \d+", world.logs())
    assert "poison" not in world.logs()


def test_a_message_that_ends_its_worker_is_passed_over_once_an_operator_says_so(world: World) -> None:
    write(world.bootstrap, f"{world.name}.changes", inserts(["a", "b", "c", "killer", "d"]))
    for _ in range(2):
        assert world.start("fragile").process.wait(30) == 9
    options = ["--table", str(world.table), "--kafka", world.bootstrap, "--shard", "0"]
    skip = CliRunner().invoke(main, ["skip", *options, "--offset", "3", "--json"])
    assert (skip.exit_code, json.loads(skip.output)["offset"]) == (0, 3), skip.output
    worker = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 5, 40, world.logs)
    assert (letters_of(world), rows_of(world)) == ([("skipped", 3)], 4)
    assert "an operator has these offsets passed over: [3]" in world.logs()
    worker.terminate()
    meta = RedisStore(connect(world.environment["REDIS_URL"]), world.name, 0).meta()
    assert meta is not None
    assert (meta.skipped, meta.counts.dead_letters) == ((3,), 1)


def test_a_worker_with_a_changed_table_leaves_the_healthy_one_alone(world: World, tmp_path: Path) -> None:
    """Before: it shut the healthy worker out first, and ended then: nobody served the shards."""
    healthy = world.start()
    wait_until(lambda: len(healthy.taken_over()) == SHARDS, 30, world.logs)
    write(world.bootstrap, f"{world.name}.changes", [r for shard in range(SHARDS) for r in inserts("abc", shard)])
    wait_until(lambda: world.reached() == [3] * SHARDS, 30, world.logs)
    (tmp_path / "other").mkdir()
    changed = write_table(tmp_path / "other", world.name)
    changed.write_text(changed.read_text().replace("k: 3", "k: 4"))
    assert "k: 4" in changed.read_text()
    intruder = Worker(tmp_path / "intruder.log", {**world.environment, "STREAMER_TABLE": str(changed)})
    world.workers.append(intruder)
    assert intruder.process.wait(40) == 2
    assert re.search(r"table\.yaml has changed", intruder.log.read_text())
    write(world.bootstrap, f"{world.name}.changes", [r for shard in range(SHARDS) for r in inserts("def", shard)])
    wait_until(lambda: world.reached() == [6] * SHARDS, 40, world.logs)
    assert healthy.process.poll() is None
    assert "Fenced" not in healthy.log.read_text()


def test_an_input_that_expired_up_to_its_end_is_gone_on_with_after_a_restart(world: World) -> None:
    """The last offset held the marker of a transaction: nothing that could have been read has expired."""
    topic = f"{world.name}.changes"
    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": f"{world.name}-source"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for shard, source_key, value in inserts("abcde"):
        producer.produce(topic, value, source_key, partition=shard)
    producer.commit_transaction(20)
    first = world.start()
    wait_until(lambda: world.reached()[0] == 6, 40, world.logs)
    first.terminate()
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for answer in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        answer.result(20)
    second = world.start()
    write(world.bootstrap, topic, inserts("f"))
    wait_until(lambda: world.reached()[0] == 7, 40, world.logs)
    assert second.process.poll() is None
    assert rows_of(world) == 6


def test_a_redis_that_forgets_is_refused(servers: Servers, world: World) -> None:
    client = connect(servers.redis_url)
    client.config_set("appendfsync", "everysec")
    try:
        assert world.start().process.wait(20) == 2
    finally:
        client.config_set("appendfsync", "always")
    assert "appendfsync" in world.logs()


def test_an_input_that_expired_before_it_was_read_is_refused(world: World) -> None:
    world.write(200)
    topic = f"{world.name}.changes"
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for answer in admin.delete_records([TopicPartition(topic, shard, 5) for shard in range(SHARDS)]).values():
        answer.result(20)
    assert world.start().process.wait(20) == 2
    assert re.search(r"needed from offset 0 on, but begins at 5.*expired", world.logs())


def test_topics_that_are_missing_are_named(world: World, tmp_path: Path) -> None:
    path = world.table
    path.write_text(path.read_text().replace(f"table: {world.name}", "table: never-made"))
    assert world.start().process.wait(20) == 2
    assert "never-made.changes" in world.logs()
    assert "streamer topics create" in world.logs()


def test_a_redis_that_is_not_there_ends_the_worker_with_the_servers_code(world: World) -> None:
    world.environment["REDIS_URL"] = "redis://127.0.0.1:1/0"
    assert world.start().process.wait(30) == 3
    assert "Redis 127.0.0.1:1" in world.logs()


# -- one held shard, without servers ----------------------------------------------------------------------------------


class NoKafka:
    """An empty input, and an outlet that takes everything; `wait` is called at every publish."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait

    def state(self) -> InputState:
        return InputState({}, 1, 0, 1000)

    def check(self, *kinds: str) -> None: ...

    def skips(self) -> frozenset[int]:
        return frozenset()

    def fence(self) -> None: ...

    def position(self) -> None: ...

    def publish(self, records: object, position: object) -> None:
        self._wait()


def held(wait: Callable[[], None] = lambda: None, turn: threading.Lock | None = None) -> HeldShard:
    kafka = NoKafka(wait)
    store = MemoryStore(MemoryServer(), "patients", 0)
    return HeldShard(load_table(PATIENTS), 0, store, kafka, kafka, kafka, turn or threading.Lock())


MESSAGES = [Message(0, None, b"not JSON")]


async def stepped(shard: HeldShard) -> StepReport:
    await shard.take_over()
    return await shard.step(MESSAGES)


def test_a_held_shard_is_taken_over_and_stepped_in_its_thread() -> None:
    threads: list[str] = []
    report = asyncio.run(stepped(held(lambda: threads.append(threading.current_thread().name))))
    assert (report.counts.messages, report.counts.dead_letters) == (1, 1)
    assert threads == ["shard-0_0"]


def fail_with_a_value() -> None:
    raise KeyError(CANARY)


def test_the_text_of_an_unforeseen_error_stays_inside() -> None:
    with pytest.raises(Unexpected, match=r"KeyError in test_worker\.py") as caught:
        asyncio.run(stepped(held(fail_with_a_value)))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


class AsyncHeld:
    """A held shard that another one of the same worker keeps waiting."""

    def __init__(self, seconds: float) -> None:
        self.turn = threading.Lock()
        self.seconds = seconds

    async def step(self) -> StepReport:
        shard = held(turn=self.turn)
        await shard.take_over()
        self.turn.acquire()
        asyncio.get_running_loop().call_later(self.seconds, self.turn.release)
        return await shard.step(MESSAGES)


def test_waiting_for_other_shards_of_the_same_worker_is_not_taken_for_a_hang(
    ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: seven shards that ran one large statement, one after the other, ended the process."""
    monkeypatch.setattr("agents.shard.STEP_SECONDS_MAX", 0.3)
    report = asyncio.run(AsyncHeld(1.5).step())
    assert (report.counts.messages, ended) == (1, [])


def test_a_shard_that_was_lost_meanwhile_shuts_nobody_out() -> None:
    async def lose_then_take_over() -> None:
        shard = held()
        shard.lose("given back")
        with pytest.raises(Fenced, match="given back"):
            await shard.take_over()

    asyncio.run(lose_then_take_over())


def test_a_shard_that_is_given_back_lets_go_of_its_table() -> None:
    """Not when somebody collects garbage: tens of megabytes stayed at every take-over, for ever once frozen."""

    async def give_back() -> tuple[bool, int]:
        shard = held()
        await shard.take_over()
        table = weakref.ref(shard._publisher.engine)
        shard.close()
        shard._thread.shutdown(wait=True)
        return table() is None, gc.get_freeze_count()

    gc.disable()
    try:
        assert asyncio.run(give_back()) == (True, 0)
    finally:
        gc.enable()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr("agents.shard.end_process", lambda code, why: codes.append(code))
    return codes


def test_a_call_that_hangs_ends_the_process(ended: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.shard.STEP_SECONDS_MAX", 0.05)
    go_on = threading.Event()

    async def hang() -> bool:
        shard = held(lambda: go_on.wait(10) and None)
        with pytest.raises(Unexpected):
            await stepped(shard)
        was_busy = shard.busy
        go_on.set()
        shard.close()
        return was_busy

    assert asyncio.run(hang()), "nobody waits for the call any more, but its thread is at work"
    assert ended == [EXIT_HUNG]


def fail_by_a_timeout() -> None:
    raise TimeoutError


def test_a_call_that_fails_by_a_timeout_of_its_own_does_not_hang(ended: list[int]) -> None:
    with pytest.raises(Unexpected):
        asyncio.run(stepped(held(fail_by_a_timeout)))
    assert ended == []


# -- the agent, without servers ---------------------------------------------------------------------------------------


class FakeShard:
    """A held shard whose step takes a moment, or fails."""

    def __init__(self, lost: str = "", error: Exception | None = None) -> None:
        self.lost = lost
        self.error = error
        self.stepped = 0

    async def step(self, messages: list[object], through: int) -> int:
        self.stepped += 1
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        return len(messages)


async def through_the_agent(*shards: FakeShard) -> list[asyncio.Future[int]]:
    async def stream(batches: list[Batch]):
        for batch in batches:
            yield batch

    loop = asyncio.get_running_loop()
    batches = [Batch(shard, ["m"], 1, loop.create_future()) for shard in shards]
    await publish(stream(batches))
    return [batch.done for batch in batches]


def test_an_error_of_one_shard_travels_to_its_sender_and_the_agent_goes_on() -> None:
    bad, good = asyncio.run(through_the_agent(FakeShard(error=ServerUnreachable("away")), FakeShard()))
    assert isinstance(bad.exception(), ServerUnreachable)
    assert good.result() == 1


def test_a_batch_of_a_lost_shard_is_not_begun() -> None:
    lost = FakeShard(lost="given back")
    (done,) = asyncio.run(through_the_agent(lost))
    assert done.cancelled()
    assert lost.stepped == 0
