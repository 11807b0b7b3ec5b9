"""`streamer load` and `streamer reload` killed at random moments, called again, and held to the source.

A command has three phases: until its rows are read, until the first shard has its table, until the last one has. How
long each takes is measured by a call that no one kills; the moments are drawn within them, one phase after the other,
so that the short ones get their share.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from drills.models import ask_for_model
from drills.source import COLUMNS, SourceTable
from servers.broker.servers import Servers
from streamer.incremental import remedies
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import POSITIONS
from worlds.patients import write_csv
from worlds.workers import WorkedTable, wait_until

SHARDS = 3
PHASES = 3


class Killed:
    """One table whose beginning is killed; rng: decides the moments."""

    def __init__(self, servers: Servers, directory: Path, rng: random.Random, n_rows: int, model: str = "k") -> None:
        self.served = WorkedTable(servers, directory, SHARDS)
        ask_for_model(self.served.table, model)
        self.source = SourceTable(SHARDS, rng.randrange(1_000))
        self.first = self.source.come(n_rows)
        self._rng = rng

    # -- the command ------------------------------------------------------------------------------------------------

    def rows(self) -> Path:
        """The source as a file, as it is now."""
        return write_csv(self.served.folder / "rows.csv", self.source.rows.values(), COLUMNS)

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
        self.served.claim_ends()
        ended = "killed" if process.returncode < 0 else f"had ended with {process.returncode}"
        return f"{command[0]}: {ended} {moment:.2f} s into phase {phase + 1} of {PHASES}, which takes {seconds:.2f} s"

    def _begun(self, *command: object) -> subprocess.Popen[bytes]:
        return self.served.begun(*map(str, command), stderr=subprocess.PIPE)

    def is_full(self) -> bool:
        """True if the command had done all of its work when it was killed."""
        stores = [self.served.store(shard) for shard in range(SHARDS)]
        return all(store.meta() is not None and not store.custody().beginning for store in stores)

    # -- the input --------------------------------------------------------------------------------------------------

    def change(self, count: int) -> None:
        """So many changes of the source come to the input."""
        self.served.send([sent for _ in range(count) for sent in self.source.more()])

    # -- what must hold ---------------------------------------------------------------------------------------------

    def assert_lawful(self) -> None:
        """Whatever is published holds the model in every release, and no commit was published twice."""
        self.served.laws()
        for shard in range(SHARDS):
            commits = [Position.from_json(one.value()).commit for one in self.served.read(POSITIONS, shard)]
            assert commits == sorted(set(commits))

    def assert_holds(self) -> None:
        """The table is that of the source."""
        assert self.served.verify(self.source.rows.values(), COLUMNS)["rows"] == len(self.source.rows)
        assert all(list(self.served.store(shard).outbox()) == [] for shard in range(SHARDS))

    def serve(self, until: Callable[[], bool] = lambda: True) -> str:
        """A worker comes: it takes all shards over and serves them until that holds, or is refused with the remedy."""
        worker = self.served.start()

        def ready() -> bool:
            return set(worker.taken_over()) == set(range(SHARDS)) and until()

        try:
            wait_until(lambda: worker.process.poll() is not None or ready(), 40, worker.log.read_text)
            if worker.process.poll() is None:
                code, _ = worker.terminate()
                assert code == 0, f"ended with {code}: {worker.log.read_text()}"
                return "a worker served it"
            said = worker.log.read_text()
            assert remedies.reload(self.served.name) in said or remedies.PARTLY_LOADED in said
            return "a worker was refused"
        finally:
            worker.kill()

    def all_is_read(self) -> bool:
        return [meta.next for meta in self.served.metas()] == self.served.ends()


def _signs(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Waits for what the command says of itself, a phase's end each: its rows are read, a shard has its table."""
    for pipe in (process.stderr, process.stdout):
        assert pipe is not None
        yield pipe.readline()


def load_killed(servers: Servers, directory: Path, rng: random.Random, kills: int, n_rows: int) -> None:
    """A table of its own for each; called again, the command fills it, unless it was full already."""
    timed = Killed(servers, directory / "timed", rng, n_rows)
    seconds = timed.timed("load", timed.rows())
    for kill in range(kills):
        table = Killed(servers, directory / str(kill), rng, n_rows)
        said = table.kill(kill % PHASES, seconds[kill % PHASES], "load", table.rows())
        table.assert_lawful()
        was_full = table.is_full()
        again = table.served.call("load", table.rows())
        if was_full:
            assert "is not empty" in again.stderr, again.output
        else:
            assert again.exit_code == 0, again.output
        print(f"{said}; called again, it {'was full' if was_full else 'was filled'}", flush=True)
        table.assert_holds()
