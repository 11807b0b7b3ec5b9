"""The Faust app: the service that reads the input, and one agent for every shard that it is given.

The rules of this file
----------------------
* Faust runs the agents, their supervision and the life of the services. A shard's agent is made when the shard is
  assigned (`agents.shard`). Faust's own Kafka clients stay off, by its own switch (`BootStrategy`): they acknowledge
  what an agent failed on, cannot subscribe in an app without an agent on a topic, and at each of their rebalances empty
  the channels, batches of ours among them. `agents.ingest` reads, `agents.outlet` writes.
* Its web server stays off as well: it would listen on every interface, and asks nobody for a password. `agents.web`
  listens where it is told.
* `app` is made when it is first asked for, from the environment (`faust -A agents.app worker`); importing this module
  needs nothing.
"""

from __future__ import annotations

import logging
import os

import faust
from faust.app.base import BootStrategy

from agents.ingest import Ingest
from agents.kafka_log import quiet_aiokafka
from agents.web.service import Web
from agents.worker_settings import WorkerSettings
from streamer.cli.config import misspelt_sentences
from streamer.compiling import warm_in_background
from streamer.errors import StreamerError

log = logging.getLogger(__name__)


class AgentsOnly(BootStrategy):
    """Starts agents and services, and none of Faust's Kafka clients, tables and web pages."""

    enable_kafka = False
    enable_web = False


class App(faust.App):
    """A Faust app whose channels flow without a Kafka consumer of Faust's."""

    BootStrategy = AgentsOnly
    logger = logging.getLogger("mode")
    ingest: Ingest
    pages: Web | None = None
    """What `--web` asks for; `web` is Faust's own."""

    @property
    def failure(self) -> StreamerError | None:
        """What ended the worker, if an error did."""
        return self.ingest.failure or (self.pages.failure if self.pages is not None else None)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work, which would keep the process from ending."""
        return self.ingest.busy or (self.pages is not None and self.pages.busy)

    def _create_directories(self) -> None:
        """Faust's place for the files of tables; there are none, and the directory we stand in may be read-only."""

    async def on_start(self) -> None:
        await super().on_start()
        self.flow_control.resume()  # else only an assignment of Faust's own consumer opens the channels


def create_app(settings: WorkerSettings) -> App:
    """The app of one worker."""
    quiet_aiokafka()
    for sentence in misspelt_sentences(os.environ):
        log.warning("%s", sentence)
    warm_in_background(settings.table)
    app = App(settings.app_id, broker=f"kafka://{settings.kafka}")
    app.ingest = Ingest(settings, app, beacon=app.beacon)
    if settings.web is not None:
        app.pages = Web(settings, settings.web, app.ingest, beacon=app.beacon)
        app.service(app.pages)  # first: it tells of the others how they start
    app.service(app.ingest)
    return app


def __getattr__(name: str) -> App:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    app = globals()["app"] = create_app(WorkerSettings.from_environment())
    return app
