"""The Faust app of a worker: the service that reads the input, and one agent for every assigned shard.

The rules of this file
----------------------
* Faust runs the agents, supervises them, and starts and stops the services. A shard's agent is made when the shard is
  assigned (`agents.shard_agent`). Faust's own Kafka clients stay off (`BootStrategy`): they acknowledge an event on
  which an agent failed, cannot subscribe in an app without an agent on a topic, and empty the channels, with our
  batches, at each of their rebalances. `agents.ingest` reads, `streamer.kafka.outlet` writes.
* Faust's web server stays off, too: it would listen on every interface without a password. `agents.web` serves `--web`.
* `app` is made from the environment when it is first used (`faust -A agents.app worker`). To import this module needs
  no settings.
* SIGTERM and Ctrl-C end a worker in order, with exit code 0: shards are dropped, and a step that runs gets a moment. A
  call that hangs is left alone; the next owner of the shard resolves it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import faust
from faust.app.base import BootStrategy

from agents.ingest import Ingest
from agents.log import fatal_error_logged, print_note, quiet_aiokafka, write_logs
from agents.shard_thread import unexpected
from agents.web.service import Web
from streamer.errors import StreamerError
from streamer.incremental.topics import published_kinds
from streamer.kafka.embedded import embedded_servers
from streamer.kafka.registry import registry_from
from streamer.table.yaml.loading import load_table
from streamer.uninterrupted import abandoned, told_to_end
from streamer.worker.options import read_address
from streamer.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

IDLE_ENDS_SECONDS = 0.1
"""A thread that waits for nothing but its next call ends within this time."""


class Calls(ThreadPoolExecutor):
    """Calls beside the event loop. Nothing waits for their end: a silent server may keep one for minutes."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="call-beside-the-loop")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As that of any executor, which asyncio calls at its end; waits no longer than idle threads need."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        for thread in self._threads:
            thread.join(IDLE_ENDS_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            abandoned.set()


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
    """The service of `--web`; the attribute `web` is Faust's own."""

    @property
    def failure(self) -> StreamerError | None:
        """The error that ended the worker, if one did."""
        return self.ingest.failure or (self.pages.failure if self.pages is not None else None)

    @property
    def busy(self) -> bool:
        """True if a thread is still running, which would keep the process from ending."""
        return self.ingest.busy or (self.pages is not None and self.pages.busy)

    def _create_directories(self) -> None:
        """Not needed: Faust's tables have no files here, and the current directory may be read-only."""

    async def on_start(self) -> None:
        await super().on_start()
        self.flow_control.resume()  # else channels wait for an assignment of Faust's own consumer


def create_app(settings: WorkerSettings) -> App:
    """The app of one worker."""
    quiet_aiokafka()
    app = App(settings.app_id, broker=f"kafka://{settings.kafka}")
    app.ingest = Ingest(settings, app, beacon=app.beacon)
    if settings.web is not None:
        app.pages = Web(settings, settings.web, app.ingest, beacon=app.beacon)
        app.service(app.pages)  # first, so that it shows how the others start
    app.service(app.ingest)
    return app


def __getattr__(name: str) -> App:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    app = globals()["app"] = create_app(WorkerSettings.from_environment())
    return app


GARBAGE_THRESHOLD = 50_000
"""New objects between two garbage collections: a batch makes many, and hardly any in circles."""

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
    instance: str | None = None,
    warnings: Iterable[str] = (),
) -> None:
    """Runs a worker with the options of `streamer worker` until it is stopped. warnings: its first log lines."""
    write_logs(log_level, log_format)
    for sentence in warnings:
        log.warning("%s", sentence)
    gc.set_threshold(GARBAGE_THRESHOLD)
    with fatal_error_logged(log_format), ExitStack() as servers:
        settings = WorkerSettings(
            load_table(table),
            kafka,
            redis,
            schemas=registry_from(),
            web=read_address(web) if web else None,
            log_format=log_format,
            instance=instance,
        )
        if embedded:
            settings = _with_embedded_servers(settings, servers)
        asyncio.run(run(settings))


def _with_embedded_servers(settings: WorkerSettings, servers: ExitStack) -> WorkerSettings:
    found = servers.enter_context(embedded_servers(settings.table.name, published_kinds(settings.table)))
    print_note(EMBEDDED_NOTE.format(kafka=found.kafka, redis=found.redis), settings.log_format)
    return replace(settings, kafka=found.kafka, redis=found.redis, embedded=True)


async def run(settings: WorkerSettings) -> None:
    """Runs one worker until a signal or an error ends it. Raises the StreamerError that ended it."""
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    if told_to_end.is_set():
        return
    app = create_app(settings)
    asyncio.get_running_loop().set_default_executor(Calls())
    ends = [asyncio.ensure_future(signalled.wait()), asyncio.ensure_future(_live(app))]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await app.stop()
    for end in ends:
        end.cancel()
    await asyncio.wait(ends)
    if app.busy:
        abandoned.set()
    if failure := app.failure:
        raise failure
    if error := app.crash_reason or next((end.exception() for end in ends if not end.cancelled()), None):
        raise unexpected("the worker", error)


async def _live(app: App) -> None:
    await app.start()
    await app.wait_until_stopped()
