"""Workers as processes, and a supervisor that replaces each that ends, as a container's restart policy does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from worlds.checkout import ROOT

LOOK_SECONDS = 0.2
RESTART_SECONDS = 0.5
"""How long the supervisor waits before it starts a worker again."""

END_SECONDS_MAX = 30.0
"""How long a worker may take to end after SIGTERM, whatever its servers do, on a machine with other work. That it ends
in less than a container is given is tested where there is none (servers/test_worker.py)."""


class Crew:
    """A fixed number of places for workers, each filled again after its worker has ended; each place has its log."""

    def __init__(self, environment: Mapping[str, str], directory: Path, size: int) -> None:
        self._logs = [directory / f"worker-{place}.log" for place in range(size)]
        self.exits: Counter[int] = Counter()
        """Exit codes of the workers that ended before they were told to; -9: killed."""
        self.restarts = 0
        self._environment = {**os.environ, **environment}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stopped = threading.Event()
        self._supervisor: threading.Thread | None = None

    def start(self) -> None:
        self._workers = [self._new_worker(place) for place in range(len(self._logs))]
        self._stopped.clear()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._supervisor.start()

    def stop(self, seconds_max: float = END_SECONDS_MAX) -> list[int]:
        """Ends all workers by SIGTERM, and the supervision; returns their exit codes. `start` begins again."""
        self._end_supervision()
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        return [worker.wait(seconds_max) for worker in self._workers]

    def abandon(self) -> None:
        """Kills what still runs."""
        self._end_supervision()
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()

    def kill_one(self, rng: random.Random) -> None:
        """kill -9 of a worker that runs."""
        self._one_that_runs(rng).kill()

    def freeze_one(self, rng: random.Random, seconds: float) -> None:
        """SIGSTOP of a worker that runs, and SIGCONT after a while."""
        worker = self._one_that_runs(rng)
        worker.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        worker.send_signal(signal.SIGCONT)

    def log(self) -> str:
        """What all workers have said, place after place."""
        return "".join(log.read_text(errors="replace") for log in self._logs if log.exists())

    def last_words(self) -> str:
        """The last lines of each place: a worker that is silent is as telling as one that is not."""
        lines = {log.name: log.read_text(errors="replace").splitlines()[-25:] for log in self._logs if log.exists()}
        return "\n".join(line for name, some in lines.items() for line in (f"-- {name}:", *some))

    def _one_that_runs(self, rng: random.Random) -> subprocess.Popen[bytes]:
        while True:
            running = [worker for worker in self._workers if worker.poll() is None]
            if running:
                return rng.choice(running)
            time.sleep(LOOK_SECONDS)

    def _supervise(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            for place, worker in enumerate(self._workers):
                code = worker.poll()
                if code is not None and not self._stopped.wait(RESTART_SECONDS):
                    self.exits[code] += 1
                    self.restarts += 1
                    self._workers[place] = self._new_worker(place)

    def _end_supervision(self) -> None:
        self._stopped.set()
        if self._supervisor is not None:
            self._supervisor.join()

    def _new_worker(self, place: int) -> subprocess.Popen[bytes]:
        table = self._environment["STREAMER_TABLE"]
        command = [sys.executable, "-m", "streamer.cli.main", "worker", "--table", table]
        with self._logs[place].open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=log, stderr=subprocess.STDOUT)
