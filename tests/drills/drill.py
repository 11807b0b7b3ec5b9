"""One drill: a table under load on real servers, a crew of workers, faults, and a judgement when all is quiet again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from drills.crew import Crew
from drills.load import Load
from drills.oracle import Oracle, ServersRemains
from servers.broker.servers import Servers
from streamer.errors import ServerUnreachable
from streamer.incremental.store.redis_server import connect
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import copy_of, fresh_name, make_topics
from worlds.patients import CANARY, write_table

SHARDS, WORKERS = 4, 2
START_SECONDS_MAX, STALL_SECONDS_MAX, DRAIN_SECONDS_MAX = 180.0, 120.0, 180.0
"""What a machine with other work needs; how long it was is in the figures."""
LOOK_SECONDS = 0.5

KILLED, SERVER_OR_WORKER_IN_THE_WAY = -9, 3
EXITS_ALLOWED = {KILLED, SERVER_OR_WORKER_IN_THE_WAY}
"""How workers may end before they are told to; any other code is a fault of the worker."""

COLUMNS = "drill faults restarts events releases records refused stall drain"
LINE = "{:38} {:>6} {:>8} {:>7} {:>8} {:>8} {:>7} {:>6} {:>6}"


class Drill:
    """What is done to servers and workers, and what must hold at the end."""

    def __init__(self, name: str, servers: Servers, directory: Path) -> None:
        table_name = fresh_name()
        table = write_table(directory, table_name)
        make_topics(servers.kafka_bootstrap, table_name, SHARDS)
        environment = {**servers.environment(), "STREAMER_TABLE": str(table)}
        self.rng = random.Random(name)
        self.figures = ""
        """The drill in numbers, as a line of the table under `COLUMNS`."""
        self.table_name = table_name
        self._name = name
        self.servers = servers
        self._faults = 0
        self._load = Load(servers.kafka_bootstrap, f"{table_name}.changes", SHARDS, self.rng.randrange(1000))
        self._crew = Crew(environment, directory, WORKERS)
        remains = ServersRemains(servers.kafka_bootstrap, servers.redis_url, table_name)
        self._oracle = Oracle(load_table(table), SHARDS, remains)
        where = [(servers.kafka_bootstrap, table_name, shard) for shard in range(SHARDS)]
        self._outlets, self._inputs = [KafkaOutlet(*one) for one in where], [KafkaInput(*one) for one in where]

    # -- its course -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every shard publishes."""
        self._load.start()
        self._crew.start()
        self._wait_until_published([1] * SHARDS, START_SECONDS_MAX)

    def go_on(self, seconds_min: float, seconds_max: float | None = None) -> None:
        """Lets a while pass, of random length where two are given."""
        time.sleep(self.rng.uniform(seconds_min, seconds_max or seconds_min))

    def until_all_publish(self) -> None:
        """Returns when every shard has published something more."""
        self._wait_until_published([_published(outlet) + 1 for outlet in self._outlets], STALL_SECONDS_MAX)

    def finish(self) -> None:
        """Waits until all is published, and judges."""
        sent = self._load.stop()
        stopped = time.monotonic()
        self._wait_until_published([one.state().end for one in self._inputs], DRAIN_SECONDS_MAX)
        drain_seconds = time.monotonic() - stopped
        self._end_workers()
        verdict = self._oracle.judge()
        assert verdict.events == sent
        self._check_exits()
        assert CANARY not in self._crew.log()
        figures = [self._faults, self._crew.restarts, verdict.events, verdict.releases, verdict.records]
        seconds = [f"{verdict.stall_seconds:.1f}s", f"{drain_seconds:.1f}s"]
        self.figures = LINE.format(self._name, *figures, verdict.dead_letters, *seconds)

    def abandon(self) -> None:
        """Leaves nothing running, whatever has happened."""
        self._crew.abandon()
        self._load.abandon()

    def _end_workers(self) -> None:
        assert self._crew.stop() == [0] * WORKERS, self._crew.last_words()

    def _check_exits(self) -> None:
        assert set(self._crew.exits) <= EXITS_ALLOWED, f"{dict(self._crew.exits)}: {self._crew.last_words()}"

    def _wait_until_published(self, offsets: list[int], seconds_max: float) -> None:
        deadline = time.monotonic() + seconds_max
        for outlet, wanted in zip(self._outlets, offsets, strict=True):
            while (reached := _published(outlet)) < wanted:
                self._check_exits()
                message = f"{reached} of {wanted} after {seconds_max:.0f} s; {self._crew.last_words()}"
                assert time.monotonic() < deadline, message
                time.sleep(LOOK_SECONDS)

    # -- faults ---------------------------------------------------------------------------------------------------

    def strike(self, fault: Callable[[], object]) -> None:
        """Any other fault, as one of `servers`; returns with it."""
        self._faults += 1
        fault()

    def kill_worker(self) -> None:
        self._faults += 1
        self._crew.kill_one(self.rng)

    def end_workers(self) -> None:
        """SIGTERM to all workers; `start_workers` brings new ones."""
        self._faults += 1
        self._end_workers()

    def start_workers(self) -> None:
        self._crew.start()

    def freeze_worker(self, seconds: float) -> None:
        self._faults += 1
        self._crew.freeze_one(self.rng, seconds)

    def empty_redis(self) -> None:
        """Redis loses everything that it confirmed, under the workers."""
        self.strike(connect(self.servers.redis_url).flushall)

    def set_redis_back(self, seconds_min: float, seconds_max: float | None = None) -> None:
        """Redis loses what it confirmed meanwhile, and the workers are started again."""
        copy = copy_of(self.servers.redis_url)
        self.go_on(seconds_min, seconds_max)
        self.end_workers()
        copy.restore()
        self.start_workers()


def _published(outlet: KafkaOutlet) -> int:
    """The offset up to which a shard's input is published."""
    try:
        position = outlet.position()
    except ServerUnreachable:  # a topic that was made a moment ago has no leader yet
        return 0
    return position.next if position else 0
