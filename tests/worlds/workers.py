"""Workers as processes on a table of their own, and what they must have published in the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from servers.broker.servers import Servers
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.outlet import KafkaOutlet
from worlds.checkout import ROOT
from worlds.kafka_and_redis import RedisCopy, copy_of, fresh_name, make_topics, read, write
from worlds.patients import CANARY, Changes, expected, folded, smallest_group, write_table

SHARDS = 4

PATIENCE = 8
"""What is waited for takes longer on a machine that has other work; one that is idle waits no longer for it."""

ENDS_SECONDS_MAX = 30.0 * PATIENCE

FRAGILE = """
import os
from streamer.cli.main import main
from streamer.incremental.engine.engine import Engine

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

WORKER_COMMANDS = {
    "streamer": [sys.executable, "-m", "streamer.cli.main", "worker", "--log-level", "debug"],
    "faust": [sys.executable, "-m", "faust", "-A", "agents.app", "worker", "--loglevel", "info"],
    "fragile": [sys.executable, "-c", FRAGILE, "worker"],
}


class Worker:
    """One worker process and its log. more: arguments that go behind the others."""

    def __init__(
        self, log: Path, environment: Mapping[str, str], command: str = "streamer", more: Sequence[str] = ()
    ) -> None:
        self.log = log
        arguments = WORKER_COMMANDS[command]
        if command != "faust":
            arguments = [*arguments, "--table", environment["STREAMER_TABLE"], *more]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, env={**os.environ, **environment}, stdout=file, stderr=subprocess.STDOUT
            )

    def ended(self) -> int:
        """Exit code of a worker that ends by itself."""
        return self.process.wait(ENDS_SECONDS_MAX)

    def terminate(self) -> tuple[int, float]:
        """Exit code after SIGTERM, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.ended(), time.monotonic() - began

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended()

    def taken_over(self) -> list[int]:
        """Numbers of the shards taken over so far, in order."""
        return [int(number) for number in re.findall(r"shard (\d+) of \S+ taken over", self.log.read_text())]


class WorkedTable:
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

    def copy_redis(self) -> RedisCopy:
        """What the table's shards keep, as an operator's backup holds it."""
        return copy_of(self.environment["REDIS_URL"], f"{{{self.name}:*")

    def assert_published_as_expected(self) -> None:
        client = connect(self.environment["REDIS_URL"])
        for shard, messages in enumerate(self.changes.messages):
            meta = RedisStore(client, self.name, shard).meta()
            assert meta is not None
            rows, n_letters = expected(self.table, shard, messages, SHARDS, meta.secret)
            records = read(self.bootstrap, self.name, "live", shard)
            assert folded([(record.key(), record.value()) for record in records]) == rows
            assert smallest_group(rows) >= 3
            letters = read(self.bootstrap, self.name, "dead-letters", shard)
            assert len({letter.key() for letter in letters}) == len(letters) == n_letters > 0
            assert meta.counts.messages == meta.next == len(messages)
            assert meta.counts.dead_letters == n_letters
            assert not any(CANARY.encode() in (letter.value() + letter.key()) for letter in letters)
            assert not any(CANARY.encode() in ((record.value() or b"") + record.key()) for record in records)
            self._assert_kept_secret(
                meta.secret, [*records, *letters, *read(self.bootstrap, self.name, "positions", shard)]
            )
        assert CANARY not in self.logs()

    def _assert_kept_secret(self, secret: bytes, records: Iterable[Message]) -> None:
        """Neither Kafka nor a log has the secret of a shard, however it would be written."""
        written = [secret, secret.hex().encode(), b64encode(secret), repr(secret)[2:-1].encode()]
        said = [self.logs().encode(), *(record.value() or b"" for record in records)]
        assert len(secret) >= 16
        assert not any(text in one for text in written for one in said)


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


def rows_of(world: WorkedTable, shard: int = 0) -> int:
    """Rows that readers of a shard see."""
    return len(folded([(record.key(), record.value()) for record in read(world.bootstrap, world.name, "live", shard)]))


def wait_until(holds: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE * seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {PATIENCE * seconds} s: {otherwise()}")
        time.sleep(0.2)
