"""The service that answers browsers, Prometheus and probes, beside the one that reads: as a part of the worker's app.

The rules of this file
----------------------
* It only looks. Nothing that fails here ends a worker, but an address at its start that cannot be had.
* It answers in the event loop, because that is what it tells of: where the loop stands still, nobody answers.
* What others than this worker know is looked up while a page listens, and not otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any

import faust
import msgspec
from aiohttp import web
from mode import Service

from agents.ingest import Ingest
from agents.web.connections import listen, runner_of
from agents.web.exposition import exposed, registry_of
from agents.web.facts import WorkerFacts
from agents.web.health import reasons, waits_for
from agents.web.history import History
from agents.web.page_facts import page_facts, point
from agents.web.probes import Probes
from agents.web.rebuild_requests import Wanted, new_token, send
from agents.web.server import Answers, web_app
from agents.web.table_look import TableLook
from agents.web.watch import Watch
from agents.worker_log import tell_beside
from agents.worker_settings import WorkerSettings
from streamer.cli.options import WEB_TOKEN
from streamer.cli.web_address import Address
from streamer.errors import StreamerError, UsageError
from streamer.incremental.shard.passed_over import told

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 1.0
LISTENED_SECONDS = 10.0
"""How long after a page asked last it is taken to listen."""


class Web(faust.Service):
    """What a worker shows of itself at an address."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(self, settings: WorkerSettings, address: Address, ingest: Ingest, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.failure: StreamerError | None = None
        """What ended the service, if an error did."""
        self._settings, self._address = settings, address
        self._watch = Watch(settings, ingest)
        self._probes = Probes(settings, ingest, self._watch)
        self._look = TableLook(settings.table, settings.kafka, settings.redis)
        self._history = History[dict[str, Any]]()
        self._registry = registry_of(self.facts)
        self._cancelled: set[str] = set()
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="rebuild-request")  # not one that shards wait for
        self._asked: Future[None] | None = None
        self._listened_at = -LISTENED_SECONDS
        self._token = settings.web_token or new_token()
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    # -- start and end --------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        answers = Answers(
            metrics=partial(exposed, self._registry),
            reasons=lambda: reasons(self.facts()),
            waits_for=lambda: waits_for(self.facts()),
            page_facts=self._page_facts,
            ask=self._ask,
            stopping=self._stopping,
        )
        app = web_app(self._address, self._token, answers)
        self._runner = runner_of(app)
        await self._runner.setup()
        try:
            self._listening = await listen(self._runner, self._address)
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "is no address"
            self.failure = UsageError(f"--web {self._address.host}:{self._address.port}: {why}")
            await self.crash(self.failure)
            return
        self._tell_start(self._listening.sockets[0].getsockname()[1])

    def _tell_start(self, port: int) -> None:
        address = self._address._replace(port=port)
        log.info("web: %s", address.url)
        if not self._address.is_loopback:
            log.warning("web: %s can be reached from other machines, without a password", address.url)
        if not self._settings.web_token:  # beside the log, whose handlers may lead to many readers
            said = f"{address.url}, token for rebuilds from the page: {self._token} ({WEB_TOKEN} sets one)"
            tell_beside(said, self._settings.log_format)

    async def on_stop(self) -> None:
        self._stopping.set()
        self._probes.close()
        self._look.close()
        self._asking.shutdown(wait=False, cancel_futures=True)
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work, which would keep the process from ending."""
        asking = self._asked is not None and not self._asked.done()
        return asking or self._probes.busy or self._look.busy

    # -- what is told ---------------------------------------------------------------------------------------------

    def facts(self) -> WorkerFacts:
        """What the worker knows of itself now."""
        return self._watch.facts(self._probes.facts(), self._probes.refused)

    def _page_facts(self) -> bytes:
        self._listened_at = monotonic()
        said = page_facts(self._settings.table, self.facts(), self._look.seen, self._history.points, self._cancelled)
        return msgspec.json.encode(said)

    async def _ask(self, wanted: Wanted, cancel: bool) -> None:
        self._asked = self._asking.submit(send, self._settings, wanted, cancel)
        await asyncio.wrap_future(self._asked)
        running = {shard.shard: shard.rebuild.rebuild.id for shard in self.facts().shards if shard.rebuild is not None}
        self._cancelled &= set(running.values())
        if cancel:
            self._cancelled |= {id_ for number, id_ in running.items() if wanted.shard in (None, number)}

    # -- beside ---------------------------------------------------------------------------------------------------

    @Service.task
    async def _probe(self) -> None:
        await self._probes.run()

    @Service.task
    async def _sample(self) -> None:
        """A point of the history every second."""
        while not self.should_stop:
            try:
                self._history.add(point(self.facts()))
            except Exception as error:
                log.error("web: the worker could not be looked at: %s", told(error))
            await self.sleep(SAMPLE_SECONDS)

    @Service.task
    async def _look_on(self) -> None:
        """A look at the whole table now and then, while a page listens."""
        while not self.should_stop:
            if monotonic() - self._listened_at < LISTENED_SECONDS:
                await self._look.look()
            await self.sleep(SAMPLE_SECONDS)
