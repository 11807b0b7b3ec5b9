"""The demo's workers, as processes of their own, and the figures that they tell of themselves.

The workers are the real ones: `streamer worker` as anybody starts it, its log in a file. They are in a session of
their own, so that a Ctrl-C reaches the demo alone, which then ends them in order. A worker that ends by itself ends the
demo, with the last lines of its log; there are no people's values in a log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

from streamer.errors import StreamerError

END_SECONDS_MAX, ANSWER_SECONDS_MAX = 15, 10
LOG_LINES_SHOWN = 5
_FIGURE = re.compile(r'^streamer_(\w+)\{.*\bshard="\d+".*\} (\S+)$', re.M)


class Measured(Protocol):
    """What has metrics."""

    def metrics(self) -> str:
        """In Prometheus' text format."""


class Worker:
    """A `streamer worker` process."""

    def __init__(self, number: int, table: Path, kafka: str, redis: str) -> None:
        self._log = table.parent / f"worker-{number}.log"
        words = ["worker", "--table", str(table), "--kafka", kafka, "--redis", redis, "--web", "127.0.0.1:0"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agents.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=table.parent,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    @property
    def url(self) -> str:
        """Where it answers, as its log says; "" before it listens. Raises StreamerError if it has ended."""
        said = self._log.read_text("utf-8", "replace")
        if (code := self._process.poll()) is not None:
            last = said.splitlines()[-LOG_LINES_SHOWN:]
            raise StreamerError("\n  ".join([f"a worker ended by itself (exit code {code}); its last words:", *last]))
        found = re.search(r"web: (http://\S+)", said)
        return found[1] if found else ""

    def metrics(self) -> str:
        """What it answers at /metrics; "" before it listens."""
        if not (url := self.url):
            return ""
        try:
            with urlopen(f"{url.rstrip('/')}/metrics", timeout=ANSWER_SECONDS_MAX) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            return ""

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(number: int, table: Path, kafka: str, redis: str) -> Iterator[Worker]:
    """A worker that ends with the block."""
    worker = Worker(number, table, kafka, redis)
    try:
        yield worker
    finally:
        ends = (signal.SIGINT, signal.SIGTERM)
        handlers = [signal.signal(end, signal.SIG_IGN) for end in ends]  # ending is not interrupted: it has a limit
        worker.end()
        for end, handler in zip(ends, handlers, strict=True):
            signal.signal(end, handler)


def figures(workers: Iterable[Measured]) -> Counter[str]:
    """The sums of what all workers tell of their shards, by the name of the metric."""
    found: Counter[str] = Counter()
    for worker in workers:
        for name, value in _FIGURE.findall(worker.metrics()):
            found[name] += int(float(value))
    return found
