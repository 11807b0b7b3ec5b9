"""Where the demo plays: servers, topics, and workers as processes of their own.

The workers are the real ones: `streamer worker` as anybody starts it, one process each, its log in a file. They are in
a session of their own, so that a Ctrl-C reaches the demo alone, which then ends them in order. A worker that ends by
itself ends the demo, with the last lines of its log; there are no people's values in a log.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.demo.survey import write_table
from agents.embedded import embedded_servers
from streamer.errors import StreamerError
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table

WORKERS_REAL = 2
END_SECONDS_MAX = 15
LOG_LINES_SHOWN = 5


@dataclass(frozen=True)
class Stage:
    """A table, the servers it lives on, and the workers that keep it. `directory` takes the demo's files."""

    directory: Path
    table: Table
    kafka: str
    redis: str = field(repr=False)  # may hold a password
    real: bool
    workers: list[Worker]

    @property
    def table_path(self) -> str:
        return str(self.directory / "table.yaml")

    def start_workers(self, stack: ExitStack) -> None:
        for number in range(WORKERS_REAL if self.real else 1):
            self.workers.append(stack.enter_context(_running(self, number + 1)))

    def check_workers(self) -> None:
        """Raises StreamerError when a worker has ended."""
        for worker in self.workers:
            worker.check()


class Worker:
    """A `streamer worker` process."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.log = stage.directory / f"worker-{number}.log"
        command = ["worker", "--table", stage.table_path, "--kafka", stage.kafka, "--redis", stage.redis]
        command += ["--web", "127.0.0.1:0"]
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agents.cli", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=stage.directory,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    @property
    def url(self) -> str:
        """Where its page is, as its log says; "" before it listens."""
        found = re.search(r"web: (http://\S+)", self.log.read_text("utf-8", "replace"))
        return found[1] if found else ""

    def check(self) -> None:
        if self._process.poll() is not None:
            last = self.log.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:]
            code = self._process.returncode
            raise StreamerError("\n  ".join([f"a worker ended by itself (exit code {code}); its last words:", *last]))

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def _running(stage: Stage, number: int) -> Iterator[Worker]:
    worker = Worker(stage, number)
    try:
        yield worker
    finally:
        for interruption in (signal.SIGINT, signal.SIGTERM):
            signal.signal(interruption, signal.SIG_IGN)  # ending is not interrupted: it has a limit
        worker.end()


def embedded_stage(directory: Path, stack: ExitStack) -> Stage:
    """Kafka and Redis inside this process."""
    path = write_table(directory, "fair", embedded=True)
    servers = stack.enter_context(embedded_servers("fair"))
    return Stage(directory, load_table(path), servers.kafka, servers.redis, False, [])


def real_stage(directory: Path, kafka: str, redis: str) -> Stage:
    """Servers that run somewhere; the table gets a name that nobody has used there."""
    path = write_table(directory, f"fair-{secrets.token_hex(4)}", embedded=False)
    return Stage(directory, load_table(path), kafka, redis, True, [])
