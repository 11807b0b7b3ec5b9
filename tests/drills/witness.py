"""A reader beside the workers: it follows the output and holds every release that it sees to the laws."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from streamer.errors import StreamerError
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.reader import POLL_SECONDS, Subscription
from streamer.table.yaml.loading import load_table

READ_SECONDS_MAX = 120.0


class Witness(threading.Thread):
    """Reads by the reader's rule until it is stopped; outside: releases that did not come from the input."""

    def __init__(self, table: Path, kafka: str) -> None:
        super().__init__(name="witness", daemon=True)
        self._table, self._kafka = load_table(table), kafka
        self._stopped = threading.Event()
        self._failed = ""
        self.releases = self.outside = 0

    def run(self) -> None:
        laws = ChangelogLaws(self._table)
        try:
            with Subscription(self._table, self._kafka) as subscription:
                while not self._stopped.is_set():
                    for release in subscription.poll():
                        laws.check(release)
                        self.releases += 1
                        self.outside += release.outside
        except StreamerError as error:
            self._failed = str(error)

    def stop(self, releases: int) -> None:
        """Raises AssertionError where a reader saw what is not lawful, or has not come to see so many releases."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        while self.is_alive() and self.releases < releases and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._stopped.set()
        self.join()
        assert not self._failed, self._failed
        assert self.releases == releases

    def abandon(self) -> None:
        self._stopped.set()
