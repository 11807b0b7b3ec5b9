"""`streamer load` and `streamer reload` killed at random moments, called again, and held to the source.

A command has three phases: until its rows are read, until the first shard has its table, until the last one has. How
long each takes is measured by a call that nobody kills; the moments are drawn within them, one phase after the other,
so that the short ones get their share.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from drills.commands import Commands
from drills.models import write_model_table
from drills.source import Sent, SourceTable
from servers.broker.servers import Servers
from streamer.incremental import remedies
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.release.fold import parse_part
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, LIVE, POSITIONS, topic_name
from streamer.table.yaml.loading import load_table
from worlds.checkout import ROOT
from worlds.kafka_and_redis import fresh_name, make_topics, read, write
from worlds.workers import Worker, wait_until

SHARDS = 3
PHASES = 3


class Killed:
    """One table whose beginning is killed; rng: decides the moments."""

    def __init__(self, servers: Servers, directory: Path, rng: random.Random, n_rows: int, model: str = "k") -> None:
        directory.mkdir(exist_ok=True)
        self.name, self.kafka = fresh_name(), servers.kafka_bootstrap
        self.table = write_model_table(directory, self.name, model)
        make_topics(self.kafka, self.name, SHARDS)
        self.commands = Commands(self.table, servers)
        self.source = SourceTable(SHARDS, rng.randrange(1_000))
        self.first = self.source.come(n_rows)
        self._directory = directory
        self._rng = rng
        self._workers = 0
        self._redis = connect(servers.redis_url)
        self._environment = {**servers.environment(), "STREAMER_TABLE": str(self.table)}

    # -- the command ------------------------------------------------------------------------------------------------

    def rows(self) -> Path:
        """The source as a file, as it is now."""
        return self.source.written(self._directory / "rows.csv")

    def timed(self, *command: object) -> list[float]:
        """The command, to its end; how many seconds each of its phases took."""
        seconds: list[float] = []
        began = time.monotonic()
        with self._begun(*command) as process:
            for _ in _signs(process):
                seconds.append(time.monotonic() - began - sum(seconds))
            assert process.wait() == 0
        return [*seconds, time.monotonic() - began - sum(seconds)]

    def kill(self, phase: int, seconds: float, *command: object) -> str:
        """Kills the command at a random moment of a phase that takes so many seconds; returns what was done."""
        moment = self._rng.uniform(0, seconds)
        with self._begun(*command) as process:
            for _ in zip(range(phase), _signs(process), strict=False):
                pass
            time.sleep(moment)
            process.kill()
        ended = "killed" if process.returncode < 0 else f"had ended with {process.returncode}"
        return f"{command[0]}: {ended} {moment:.2f} s into phase {phase + 1} of {PHASES}, which takes {seconds:.2f} s"

    def _begun(self, command: object, *arguments: object) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "streamer.cli.main", *self.commands.words(str(command), *arguments)]
        return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    # -- the input --------------------------------------------------------------------------------------------------

    def write(self, sent: list[Sent]) -> None:
        write(self.kafka, topic_name(self.name, CHANGES), sent)

    def change(self, count: int) -> None:
        """So many changes of the source come to the input."""
        self.write([sent for _ in range(count) for sent in self.source.more()])

    # -- what must hold ---------------------------------------------------------------------------------------------

    def assert_lawful(self) -> None:
        """Whatever is published holds the model in every release, and no commit was published twice."""
        laws = ChangelogLaws(load_table(self.table))
        for shard in range(SHARDS):
            for release in in_releases(self._records(shard)):
                laws.check(release)
            told = [Position.from_json(one.value()) for one in read(self.kafka, self.name, POSITIONS, shard)]
            assert [one.commit for one in told] == sorted({one.commit for one in told})

    def assert_holds(self) -> None:
        """The table is that of the source."""
        verified = self.commands.verify(self.source, self._directory)
        assert verified["rows"] == len(self.source.rows)
        assert all(list(self._store(shard).outbox()) == [] for shard in range(SHARDS))

    def serve(self, until: Callable[[], bool] = lambda: True) -> str:
        """A worker comes: it takes all shards over and serves them until that holds, or is refused with the mend."""
        self._workers += 1
        worker = Worker(self._directory / f"worker-{self._workers}.log", self._environment)

        def ready() -> bool:
            return set(worker.taken_over()) == set(range(SHARDS)) and until()

        try:
            wait_until(lambda: worker.process.poll() is not None or ready(), 40, worker.log.read_text)
            if worker.process.poll() is None:
                code, _ = worker.terminate()
                assert code == 0, f"ended with {code}: {worker.log.read_text()}"
                return "a worker served it"
            said = worker.log.read_text()
            assert remedies.begin_anew(self.name) in said or remedies.BEGUN_IN_PART in said
            return "a worker was refused"
        finally:
            worker.kill()

    def all_is_read(self) -> bool:
        ends = [len(read(self.kafka, self.name, CHANGES, shard)) for shard in range(SHARDS)]
        return [self._meta(shard).next for shard in range(SHARDS)] == ends

    def _records(self, shard: int) -> list[LiveRecord]:
        found = []
        for record in read(self.kafka, self.name, LIVE, shard):
            headers = dict(record.headers())
            numbers = int(headers["release"]), int(headers["through"])
            part = parse_part(headers["part"])
            outside = OUTSIDE in headers
            found.append(LiveRecord(shard, *numbers, record.key(), record.value(), part, outside=outside))
        return found

    def _store(self, shard: int) -> RedisStore:
        return RedisStore(self._redis, self.name, shard)

    def _meta(self, shard: int) -> Meta:
        return self._store(shard).meta() or Meta()


def _signs(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Waits for what the command says of itself, a phase's end each: its rows are read, a shard has its table."""
    for pipe in (process.stderr, process.stdout):
        assert pipe is not None
        yield pipe.readline()


def load_killed(servers: Servers, directory: Path, rng: random.Random, kills: int, n_rows: int) -> None:
    """A table of its own for each; called again, the command fills it, or names the one that does."""
    timed = Killed(servers, directory / "timed", rng, n_rows)
    seconds = timed.timed("load", timed.rows())
    for kill in range(kills):
        table = Killed(servers, directory / str(kill), rng, n_rows)
        said = table.kill(kill % PHASES, seconds[kill % PHASES], "load", table.rows())
        table.assert_lawful()
        again = table.commands.run("load", table.rows())
        if again.exit_code:
            assert "streamer reload --from-source" in again.stderr, again.output
            table.commands.report("reload", "--from-source", table.rows())
        print(f"{said}; called again, it {'named reload' if again.exit_code else 'filled the table'}", flush=True)
        table.assert_holds()
