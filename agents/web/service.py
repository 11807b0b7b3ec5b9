"""The service that shows a worker over HTTP: it listens, samples, and looks at the whole table while somebody asks.

The rules of this file
----------------------
* It only looks. Nothing that fails here ends a worker, but an address at its start that cannot be had.
* It answers in the event loop, because that is what it reports on: if the loop stands still, nobody answers.
* What others than this worker know is looked up while somebody looks at the page, and not otherwise.
"""

from __future__ import annotations

import logging
from asyncio import Server
from functools import partial
from time import monotonic
from typing import Any

import faust
from mode import Service

from agents.ingest import Ingest
from agents.web.exposition import exposed, registry_of
from agents.web.page import History, page_facts, point
from agents.web.server import Answers, listen, runner_of, web_app
from agents.web.watch import Probes, TableLook, Watch
from agents.worker_settings import WorkerSettings
from streamer.cli.web_address import Address
from streamer.errors import StreamerError, UsageError
from streamer.incremental.shard.passed_over import told
from streamer.incremental.status.facts import WorkerFacts
from streamer.incremental.status.verdict import not_ready, worker_problems

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 1.0
LOOKED_AT_SECONDS = 12.0
"""How long after the page was asked for last somebody is taken to look at it; it asks anew every five."""


class Web(faust.Service):
    """What a worker shows of itself at an address."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(self, settings: WorkerSettings, address: Address, ingest: Ingest, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.failure: StreamerError | None = None
        """What ended the service, if an error did."""
        self._table, self._address, self._diaries = settings.table, address, ingest.diaries
        self._watch = Watch(settings, ingest)
        self._probes = Probes(settings, ingest, self._watch)
        self._look = TableLook(settings.table, settings.kafka, settings.redis)
        self._history = History()
        self._asked_at = -LOOKED_AT_SECONDS
        answers = Answers(
            metrics=partial(exposed, registry_of(self.facts, ingest.diaries)),
            problems=lambda: worker_problems(self.facts()),
            not_ready=lambda: not_ready(self.facts()),
            facts=self._page_facts,
        )
        self._runner = runner_of(web_app(address, answers))
        self._listening: Server | None = None

    async def on_start(self) -> None:
        await self._runner.setup()
        try:
            self._listening = await listen(self._runner, self._address)
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "is no address"
            self.failure = UsageError(f"--web {self._address.host}:{self._address.port}: {why}")
            await self.crash(self.failure)
            return
        url = self._address._replace(port=self._listening.sockets[0].getsockname()[1]).url
        log.info("web: %s", url)
        if not self._address.is_loopback:
            log.warning("web: %s can be reached from other machines, without a password", url)

    async def on_stop(self) -> None:
        self._probes.close()
        self._look.close()
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work, which would keep the process from ending."""
        return self._probes.busy or self._look.busy

    def facts(self) -> WorkerFacts:
        """What the worker knows of itself now."""
        return self._watch.facts(self._probes.facts(), self._probes.refused)

    def _page_facts(self) -> dict[str, Any]:
        self._asked_at = monotonic()
        return page_facts(self._table, self.facts(), self._diaries, self._look.seen, self._history.points)

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
        """A look at the whole table now and then, while somebody asks for the page."""
        while not self.should_stop:
            if monotonic() - self._asked_at < LOOKED_AT_SECONDS:
                await self._look.look()
            await self.sleep(SAMPLE_SECONDS)
