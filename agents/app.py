"""The Faust app: the service that reads the input, and one agent for every shard that it is given.

The rules of this file
----------------------
* Faust runs the agents, their supervision and the life of the services. A shard's agent is made when the shard is
  assigned (`agents.shard_agent`). Faust's own Kafka clients stay off, by its own switch (`BootStrategy`): they
  acknowledge what an agent failed on, cannot subscribe in an app without an agent on a topic, and at each of their
  rebalances empty the channels, batches of ours among them. `agents.ingest` reads, `streamer.kafka.outlet` writes.
* Its web server stays off as well: it would listen on every interface, and asks nobody for a password. `agents.web`
  listens if it is told.
* `app` is made when it is first asked for, from the environment (`faust -A agents.app worker`); importing this module
  needs nothing.
* SIGTERM and Ctrl-C end a worker in order, exit code 0: shards are given back, a step that has begun gets a moment. A
  call that hangs then is left; the next owner of the shard resolves it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

import faust
from faust.app.base import BootStrategy

from agents.ingest import Ingest
from agents.log import quiet_aiokafka
from agents.web.service import Web
from streamer.compiling import warm_in_background
from streamer.errors import EXIT_OK, StreamerError, needs_extra
from streamer.worker.settings import WorkerSettings

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


GARBAGE_THRESHOLD = 50_000
"""New objects between two looks for garbage: a batch makes many, and hardly any of them in circles."""

EMBEDDED_NOTE = """\
Kafka and Redis run inside this process: they keep nothing after it ends, and prove nothing about crashes.
  kafka  {kafka}
  redis  {redis}"""


def work(
    table: str,
    kafka: str,
    redis: str,
    embedded: bool,
    log_level: str,
    log_format: str,
    web: str | None,
    warnings: Iterable[str] = (),
) -> None:
    """Runs a worker with the options of `streamer worker` until it is stopped; warnings: what its log begins with."""
    with needs_extra("stream"):
        from agents.log import its_end_told, write_logs
        from streamer.worker.settings import WorkerSettings
    from streamer.kafka.registry import registry_from
    from streamer.table.yaml.loading import load_table
    from streamer.worker.options import read_address

    write_logs(log_level, log_format)
    for sentence in warnings:
        log.warning("%s", sentence)
    gc.set_threshold(GARBAGE_THRESHOLD)
    with its_end_told(log_format), ExitStack() as servers:
        settings = WorkerSettings(
            load_table(table),
            kafka,
            redis,
            schemas=registry_from(),
            web=read_address(web) if web else None,
            log_format=log_format,
        )
        if embedded:
            settings = _with_embedded_servers(settings, servers)
        asyncio.run(run(settings))


def _with_embedded_servers(settings: WorkerSettings, servers: ExitStack) -> WorkerSettings:
    from agents.log import tell_beside
    from streamer.kafka.embedded import embedded_servers

    found = servers.enter_context(embedded_servers(settings.table.name, settings.table.form))
    tell_beside(EMBEDDED_NOTE.format(kafka=found.kafka, redis=found.redis), settings.log_format)
    return replace(settings, kafka=found.kafka, redis=found.redis, embedded=True)


async def run(settings: WorkerSettings) -> None:
    """Runs one worker until a signal or an error ends it. Raises the StreamerError that ended it."""
    from agents.shard_thread import unexpected

    app = create_app(settings)
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    ends = [asyncio.ensure_future(signalled.wait()), asyncio.ensure_future(_live(app))]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await app.stop()
    for end in ends:
        end.cancel()
    await asyncio.wait(ends)
    if failure := app.failure:
        raise failure
    if app.crash_reason is not None:
        raise unexpected("the worker", app.crash_reason)
    if app.busy:
        logging.shutdown()
        os._exit(EXIT_OK)


async def _live(app: App) -> None:
    """The app's whole life, until it is stopped or crashes."""
    await app.start()
    await app.wait_until_stopped()
