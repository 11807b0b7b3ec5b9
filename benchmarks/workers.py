"""Workers as processes on a real Kafka and Redis: their input, and their commits as a reader sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from confluent_kafka import Consumer, Producer, TopicPartition

import adult
from streamer.incremental.topics import CHANGES, LIVE, POSITIONS, topic_name
from worlds import adult_people
from worlds.kafka_and_redis import fresh_name, make_topics, write

ROOT = Path(__file__).resolve().parents[1]
SHARDS = 4
EVENTS_PER_SECOND = 500
WAIT_SECONDS_MAX = 300.0

Placed = tuple[int, bytes, bytes]
"""Shard, key and value of a message."""


@dataclass
class World:
    """The servers, a folder for tables and logs, and the people of the initial load."""

    bootstrap: str
    redis_url: str
    directory: Path
    people: dict[str, adult_people.Person] = field(repr=False)
    shards: int = SHARDS
    checkout: Path = ROOT
    """Whose worker runs."""

    def new_table(self, shards: int) -> tuple[str, Path]:
        """Name and table.yaml of a table of its own, with its topics."""
        name = fresh_name()
        make_topics(self.bootstrap, name, shards)
        folder = self.directory / name
        folder.mkdir()
        return name, adult_people.write_table(folder, adult.folder(), name)

    @contextmanager
    def running(self, name: str, command: Sequence[str], **environment: str) -> Iterator[Worker]:
        """Runs a worker in a process of its own, and ends it in order."""
        servers = {"KAFKA_BOOTSTRAP": self.bootstrap, "REDIS_URL": self.redis_url}
        variables = {**os.environ, **servers, **environment, "PYTHONPATH": f"{self.checkout}:{ROOT / 'benchmarks'}"}
        log = self.directory / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=self.checkout,
                env=variables,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Worker(process, log)
        finally:
            process.terminate()
            process.wait(60)


@dataclass(frozen=True)
class Worker:
    """A worker process and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def must_go_on(self, deadline: float) -> None:
        """Ends the benchmark where the worker has ended or takes too long."""
        if self.process.poll() is not None or monotonic() > deadline:
            raise SystemExit(f"the worker does not get on; its last words: {self.log.read_text()[-2000:]}")


@dataclass(frozen=True, slots=True)
class Committed:
    """A position as a reader of committed records saw it: when (monotonic seconds), and the first offset not done."""

    at: float
    shard: int
    next: int


class Positions:
    """A reader of a table's positions, from the first one on."""

    def __init__(self, world: World, name: str) -> None:
        self.reached, self.records = [0] * world.shards, [0] * world.shards
        """By shard: the first offset not done, and how many records were published."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": world.bootstrap,
                "group.id": "benchmark",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,  # what a stopped server means is not logged by its clients
            }
        )
        self._consumer.assign([TopicPartition(topic_name(name, POSITIONS), shard, 0) for shard in range(world.shards)])

    def until(self, wanted: Sequence[int], worker: Worker) -> list[Committed]:
        """The commits after the last call until every shard has reached its offset."""
        seen = []
        deadline = monotonic() + WAIT_SECONDS_MAX
        while any(one < other for one, other in zip(self.reached, wanted, strict=True)):
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                shard, said = message.partition(), json.loads(message.value())
                seen.append(Committed(monotonic(), shard, said["next"]))
                self.reached[shard] = said["next"]
                ends, releases = said.get("ends", {}).get(LIVE, 0), said.get("release", 0)
                self.records[shard] = ends - releases  # each ends with a marker
            else:
                worker.must_go_on(deadline)
        return seen

    def seen_within(self, seconds: float) -> list[Committed]:
        """The commits within these seconds."""
        end, seen = monotonic() + seconds, []
        while (left := end - monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is not None and message.error() is None:
                seen.append(Committed(monotonic(), message.partition(), json.loads(message.value())["next"]))
        return seen


class Input:
    """The input topic of a table: what has been written to it so far, by shard."""

    def __init__(self, world: World, name: str) -> None:
        self.ends = [0] * world.shards
        self._bootstrap = world.bootstrap
        self._topic = topic_name(name, CHANGES)

    def write(self, messages: Sequence[Placed]) -> None:
        write(self._bootstrap, self._topic, messages)
        for shard, _, _ in messages:
            self.ends[shard] += 1

    def ends_after(self, messages: Sequence[Placed]) -> list[int]:
        """The ends of the shards after these messages."""
        return [end + sum(shard == one for one, _, _ in messages) for shard, end in enumerate(self.ends)]

    def write_paced(self, messages: Sequence[Placed], per_second: float = EVENTS_PER_SECOND) -> list[list[float]]:
        """One message after the other at an even pace; returns when each was produced, by shard."""
        self.ends = self.ends_after(messages)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0})
        sent_at: list[list[float]] = [[] for _ in self.ends]
        began = monotonic()
        for i, (shard, message_key, value) in enumerate(messages):
            sleep(max(0.0, began + i / per_second - monotonic()))
            sent_at[shard].append(monotonic())
            producer.produce(self._topic, value, message_key, partition=shard)
            producer.poll(0)
        producer.flush(20)
        return sent_at
