"""Shows a worker over HTTP: its facts as JSON and as a page, its metrics, and whether it is healthy and ready.

The rules of this file
----------------------
* It only reads: commands change things. Nothing that fails here ends a worker, except an address that cannot be used.
* It answers in the event loop, because it reports on that loop: if the loop hangs, there is no answer.
* The facts of the whole table are collected only while somebody views the page.
* If it listens on loopback, it answers only requests to names of this machine: else a page of another site could let
  its own name point here (DNS rebinding) and read the answers.
* The number of connections is limited: the shards need the process' files for Kafka and Redis. Connections of others
  never keep a probe out: a new one is always accepted, and above the limit answered at /health and /ready only.
* A client learns what was wrong with its request. The log gets one line without the request's text, and a limited
  number of lines; of an unforeseen error it gets only the class.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from asyncio import Server
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from math import floor, log10
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

import faust
import msgspec
from aiohttp import web
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from agents.ingest import Ingest
from agents.web import watch
from streamer.errors import StreamerError, UsageError
from streamer.incremental.remedies import OF_DEAD_LETTERS
from streamer.incremental.shard.steps import told
from streamer.kafka.clients import AtMost
from streamer.status.collect import look
from streamer.status.facts import WorkerFacts
from streamer.status.verdict import ago, loss_told, not_ready, share, worker_problems
from streamer.worker.options import Address, host_in, is_loopback
from streamer.worker.settings import WorkerSettings

SENTENCES_MAX = 5  # the page folds further ones of the verdict, so that a hundred refused shards do not hide the rest

STATES = {
    watch.REFUSED_SHARD: ("✖", "red", "refused"),
    watch.NOBODY: ("✖", "red", "held by nobody"),
    watch.STANDING_STILL: ("✖", "red", "standing still"),
    watch.TAKING_OVER: ("◌", "amber", "being taken over"),
    watch.HELD: ("●", "green", "held"),
    watch.ELSEWHERE: ("○", "grey", "held elsewhere"),
}
"""Sign, colour and words of a shard's state, the worst first. A colour never says more than the words."""

NO_VALUE = "–"
LATER = "known once a shard is taken over"

# -- the page -----------------------------------------------------------------------------------------------------


def page(facts: Mapping[str, Any]) -> str:
    """Renders the object of `page_facts` as HTML."""
    shards, verdict, now = facts["shards"], facts["verdict"], datetime.fromisoformat(facts["now"])
    calm = list(STATES).index(watch.HELD)  # from this state on, shards stand by number
    silent = [server for server in facts["servers"] if server["silent"]]
    kind, word = _in_a_word(verdict, silent)
    return _template().render(
        facts=facts,
        kind=kind,
        word=word,
        sentences=[*verdict["problems"], *(f"warning: {one}" for one in verdict["warnings"])],
        sentences_max=SENTENCES_MAX,
        states=STATES,
        shards=sorted(shards, key=lambda one: (min(list(STATES).index(one["state"]), calm), one["shard"])),
        standing=_states_in_words(shards),
        silent=silent,
        old=min((server["answered"] for server in silent), default=None),
        tiles=_tiles(facts, now),
        charted=_charted(facts, now),
        unknown=_unknown(shards),
        account=_account(shards),
        letters=sorted(facts["dead_letters"].items(), key=lambda one: -one[1]),
        refused=_refused(shards, facts["dead_letters"]),
        remedy=lambda reason: OF_DEAD_LETTERS.get(reason, "`streamer dead-letters` says why"),
        rebuilds=_rebuilds(shards),
        ago=lambda at, unknown=NO_VALUE: f"{_lasting(at, now)} ago" if at else unknown,
        lasting=lambda at: _lasting(at, now),
        total=lambda name: _total(shards, name),
    )


@cache
def _source() -> str:
    return Path(__file__).with_name("page.html").read_text("utf-8")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"count": _count, "rate": _rate, "share": _share, "sentence": _sentence}
    return environment.from_string(_source())


@cache
def security_policy() -> str:
    """The Content-Security-Policy: the page's own script and style, by their digests, and nothing else."""
    own = (
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind in ("script", "style")
        for text in re.findall(rf"<{kind}>(.*?)</{kind}>", _source(), re.S)
    )
    allowed = "default-src 'none'", "connect-src 'self'", "img-src data:", *own
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])


def _in_a_word(verdict: Mapping[str, Any], silent: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The colour and the words of the verdict. silent: the servers that do not answer."""
    problems, warnings = len(verdict["problems"]), len(verdict["warnings"])
    warned = f"{warnings:,} warning{'s' * (warnings != 1)}" if warnings else ""
    if problems:
        return "red", ", ".join(filter(None, [f"✖ {problems:,} problem{'s' * (problems != 1)}", warned]))
    if silent:
        return "grey", f"◌ Not known while {' and '.join(one['name'] for one in silent)} does not answer"
    if verdict["ok"] is None:
        return "grey", ", ".join(filter(None, ["◌ Looking at the whole table", warned]))
    return ("amber", f"▲ It works, with {warned}") if warned else ("green", "✔ Everything works")


def _states_in_words(shards: Sequence[Mapping[str, Any]]) -> str:
    if not shards:
        return "None: Kafka has not given any shard yet."
    counted = Counter(shard["state"] for shard in shards)  # "Of 6: 1 refused, 5 held."
    return f"Of {len(shards):,}: {', '.join(f'{counted[one]:,} {STATES[one][2]}' for one in STATES if counted[one])}."


class Curves(NamedTuple):
    """A chart from 0 to `top`: SVG paths, 100 wide and 30 high, of one scale; an unknown value is a gap."""

    paths: list[str]
    top: str


class Tile(NamedTuple):
    """A figure at the top of the page; chart: None before there are two points."""

    name: str
    value: str
    note: str
    chart: Curves | None


def _tiles(facts: Mapping[str, Any], now: datetime) -> list[Tile]:
    shards, history = facts["shards"], facts["history"]
    known = {name: _total(shards, name) for name in (*watch.COUNTED, "messages_per_s", "records_per_s")}
    later = "" if known["messages"] is not None else LATER
    last = next((one for one in reversed(history) if one["ncp"] is not None), {"ncp": None, "ncp_fresh": None})
    lost = loss_told(last["ncp"], last["ncp_fresh"], facts["drift"]).removeprefix(f"{_share(last['ncp'])} ")
    rows = f"in {_count(known['qi_groups'])} QI groups; {_pending(shards, now)}"
    messages = f"of {_count(known['messages'])} messages"
    curves = partial(_curves, history)
    flow = curves(_rate, "messages_per_s", "records_per_s")
    return [
        Tile("lag", _count(known["lag"]), later or "messages wait", curves(_count, "lag")),
        Tile("throughput", _rate(known["messages_per_s"]), _flow(known), flow),
        Tile("rows", _count(known["rows"]), later or rows, curves(_count, "rows", "pending")),
        Tile("information loss", _share(last["ncp"]), lost, curves(_share, "ncp", "ncp_fresh")),
        Tile("dead letters", _count(known["dead_letters"]), later or messages, curves(_count, "dead_letters")),
    ]


def _flow(known: Mapping[str, Any]) -> str:
    messages, records = known["messages_per_s"], known["records_per_s"]
    a_message = f", {records / messages:.1f} per message" if messages else ""
    return f"messages read per second; {_rate(records)} records published per second{a_message}"


def _pending(shards: Sequence[Mapping[str, Any]], now: datetime) -> str:
    oldest = min((one["pending_oldest"] for one in shards if one["pending_oldest"]), default=None)
    return f"{_count(_total(shards, 'pending'))} pending{f', the oldest for {_lasting(oldest, now)}' if oldest else ''}"


def _curves(history: Sequence[Mapping[str, Any]], in_words: Callable[[Any], str], *names: str) -> Curves | None:
    """Draws figures' histories over one scale that begins at 0, so that a small change looks small."""
    lines = [[one.get(name) for one in history] for name in names]
    most = max((value for line in lines for value in line if value is not None), default=None)
    if most is None or len(history) < 2:
        return None
    top = _round_up(most)
    return Curves([path for line in lines if (path := _path(line, top))], in_words(top))


def _path(line: Sequence[float | None], top: float) -> str:
    across, up, drawn, is_on = 100 / (len(line) - 1), 28 / top, [], False
    for i, value in enumerate(line):
        if value is not None:
            drawn.append(f"{'L' if is_on else 'M'}{across * i:.1f},{29 - up * value:.1f}{'' if is_on else 'h0'}")
        is_on = value is not None
    return "".join(drawn)


def _round_up(n: float) -> float:
    """
    >>> [_round_up(n) for n in (0, 0.18, 7, 1_237)]
    [1, 0.2, 10, 2000]
    """
    size = 10.0 ** floor(log10(n)) if n > 0 else 1.0
    top = next(times * size for times in (1, 2, 5, 10) if n <= times * size * 1.000001)
    return int(top) if top >= 1 else round(top, 12)


def _unknown(shards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Sentences that say when the gaps in the table of shards will be filled; those of losses stand above it."""
    if any(one["messages"] is None for one in shards):
        yield f"Lag and counts that are {NO_VALUE} are known once the shard is taken over."
    if any(not one["here"] for one in shards):
        yield f"If a figure of another worker's shard is {NO_VALUE}, that worker's page has it."


def _charted(facts: Mapping[str, Any], now: datetime) -> str:
    history, others = facts["history"], any(not one["here"] for one in facts["shards"])
    if len(history) < 2:
        return "The charts begin in a moment."
    whose = ", of this worker's shards alone" if others else ""
    dashed = "dashed: published records, pending rows, a fresh table"
    return f"The charts show the last {_lasting(history[0]['at'], now)}{whose}, each from 0; {dashed}."


def _account(shards: Sequence[Mapping[str, Any]]) -> str:
    """A sentence that accounts for every message that was read: applied, ignored or a dead letter."""
    read, *parts = (_total(shards, name) for name in ("messages", "applied", "ignored", "dead_letters"))
    if read is None:
        return f"{LATER.capitalize()}."
    applied, ignored, letters = map(_count, parts)
    adds = "it adds up" if read == sum(parts) else "it does NOT add up"
    return f"messages {_count(read)} = applied {applied} + ignored {ignored} + dead letters {letters}: {adds}"


def _refused(shards: Sequence[Mapping[str, Any]], letters: Mapping[str, int]) -> str:
    """How many of the table's dead letters this worker knows by reason: those since it began."""
    ever, own = _total(shards, "dead_letters"), sum(letters.values())
    of = "" if ever is None else f", of {ever:,} in the table's life" if ever >= own else ""
    return f"{own:,} since this worker began{of}"


def _rebuilds(shards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for shard in shards:
        if one := shard["rebuild"]:
            far = f"running, {one['done']:,} of {one['of']:,} regions, begun"
            unknown = {"ncp_before": None, "ncp_after": None, "rows_published": None}
            found.append({"shard": shard["shard"], **one, "at": one["began"], "ended": far, **unknown})
        found += ({"shard": shard["shard"], **one} for one in shard["rebuilds"])
    return sorted(found, key=lambda one: str(one["at"]), reverse=True)


def _total(shards: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The sum over the shards whose value is known; None if there is none."""
    known = [shard[name] for shard in shards if shard[name] is not None]
    return sum(known) if known else None


def _count(n: float | None) -> str:
    return NO_VALUE if n is None else f"{n:,}"


def _rate(n: float | None) -> str:
    """A number per second, with a decimal if it is small."""
    return NO_VALUE if n is None else f"{n:,.1f}" if 0 < n < 10 else f"{n:,.0f}"


def _share(n: float | None) -> str:
    return NO_VALUE if n is None else share(n)


def _lasting(at: str, now: datetime) -> str:
    return ago((now - datetime.fromisoformat(at)).total_seconds())


def _sentence(text: str) -> Markup:
    """An escaped sentence, with its commands (between backticks) as code."""
    parts = (
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


# -- HTTP -----------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 128
CONNECTIONS_OF_ONE_ADDRESS_MAX = 64
CONNECTIONS_FOR_PROBES = 16  # places beyond these two bounds, for connections that may only ask PROBES
PROBES = ("/health", "/ready")

LIVES_SECONDS_MAX = 300.0  # a connection that is open for longer is closed when a new one comes
SILENT_SECONDS_MAX = 15.0  # of a connection without a whole request
END_SECONDS_MAX = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers at the paths; all of them are cheap."""

    metrics: Callable[[], bytes]
    problems: Callable[[], list[str]]
    not_ready: Callable[[], list[str]]
    facts: Callable[[], Mapping[str, Any]]


def web_app(address: Address, answers: Answers) -> web.Application:
    paths: dict[str, Callable[[], web.Response]] = {
        "/": lambda: web.Response(text=page(answers.facts()), content_type="text/html"),
        "/facts": lambda: _json(answers.facts()),
        "/metrics": lambda: web.Response(body=answers.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST}),
        "/health": lambda: _reasons(answers.problems()),
        "/ready": lambda: _reasons(answers.not_ready()),
    }

    async def answer(request: web.Request) -> web.Response:
        return paths[request.path]()

    app = web.Application(middlewares=[_guarded(address)])
    app.on_response_prepare.append(_add_headers)
    for path in paths:
        app.router.add_get(path, answer)
    return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = security_policy()
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    response.headers.popall("Server", None)


def _guarded(address: Address) -> Any:
    """A middleware that checks the request's host, and turns errors into answers."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if address.is_loopback and not is_loopback(host_in(request.headers.get("Host", ""))):
            return _json({"error": "this worker answers to names of its own machine only, as 127.0.0.1"}, 421)
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return _json({"error": answer.reason}, answer.status)
        except Exception as error:
            resource = request.match_info.route.resource  # not the path that was sent, which may hold line ends
            log.error("%s was not answered: %s", resource.canonical if resource else "a request", told(error))
            return _json({"error": "an unforeseen error; the worker's log says where"}, 500)

    return guarded


def _reasons(reasons: list[str]) -> web.Response:
    return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


# -- connections --------------------------------------------------------------------------------------------------


class WithoutText(logging.Filter):
    """Logs an error's class, and no word of the request."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            of = record.exc_info[0]
            record.msg, record.args = f"{record.getMessage()}: {of.__name__ if of else 'an error'}", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class Connections:
    """The open connections of a server: since when, and which may only ask PROBES.

    A connection above the bounds is not rejected, since it may be a probe: it gets one of a few more places, is closed
    after one answer, and ends if it is the oldest there when another one needs its place.
    """

    def __init__(self) -> None:
        self._since: dict[web.RequestHandler, float] = {}  # the oldest first
        self.for_probes: set[web.RequestHandler] = set()

    def admit(self, server: web.Server, transport: asyncio.Transport, everywhere_max: int) -> None:
        """Gives a new connection its place."""
        now, open_now = monotonic(), set(server.connections)
        self._since = {one: at for one, at in self._since.items() if one in open_now}
        self.for_probes &= open_now
        for one, at in self._since.items():
            if now - at > LIVES_SECONDS_MAX + END_SECONDS_MAX:
                _abort(one)  # its client does not read the answer
            elif now - at > LIVES_SECONDS_MAX:
                one.force_close()  # an answer that is begun is sent to its end
        place = server()
        host = _host(transport.get_extra_info("peername"))
        of_host = sum(_host(one.peername) == host for one in open_now - self.for_probes)
        if len(open_now) - len(self.for_probes) >= everywhere_max or of_host >= CONNECTIONS_OF_ONE_ADDRESS_MAX:
            if len(self.for_probes) >= CONNECTIONS_FOR_PROBES:
                oldest = next(one for one in self._since if one in self.for_probes)
                self.for_probes.discard(oldest)
                _abort(oldest)
            self.for_probes.add(place)
        self._since[place] = now
        transport.set_protocol(place)
        place.connection_made(transport)


def _abort(connection: web.RequestHandler) -> None:
    if isinstance(connection.transport, asyncio.Transport):
        connection.transport.abort()


def _host(peer: Any) -> str:
    return str(peer[0]) if peer else ""


class Newcomer(asyncio.Protocol):
    """A connection whose other end is not known yet."""

    def __init__(self, admit: Callable[[asyncio.Transport], None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._admit(cast(asyncio.Transport, transport))


CONNECTIONS = web.AppKey("connections", Connections)


@web.middleware
async def _for_probes(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A middleware that answers nothing but probes where the places of others are taken."""
    if request.protocol not in request.app[CONNECTIONS].for_probes:
        return await handler(request)
    if request.path in PROBES:
        answer = await handler(request)
    else:
        answer = _json({"error": "too many connections; a new one is answered only at " + " and ".join(PROBES)}, 503)
    answer.force_close()
    return answer


def runner_of(app: web.Application, silent_seconds_max: float = SILENT_SECONDS_MAX) -> web.AppRunner:
    """Runs the application on the connections that `listen` accepts."""
    logger = logging.getLogger("aiohttp.server")
    if not logger.filters:
        logger.addFilter(WithoutText())
        logger.addFilter(AtMost())
    app[CONNECTIONS] = Connections()
    app.middlewares.append(_for_probes)
    return web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS_MAX, keepalive_timeout=silent_seconds_max)


async def listen(runner: web.AppRunner, address: Address, connections_max: int = CONNECTIONS_MAX) -> asyncio.Server:
    """Listens for a runner that is set up. Raises OSError; UnicodeError if the host is not a name."""
    server, connections = cast(web.Server, runner.server), runner.app[CONNECTIONS]

    def connected() -> asyncio.Protocol:
        return Newcomer(lambda transport: connections.admit(server, transport, connections_max))

    return await asyncio.get_running_loop().create_server(connected, address.host, address.port)


# -- the service ----------------------------------------------------------------------------------------------------

SAMPLE_SECONDS = 1.0
VIEWED_SECONDS = 12.0  # after the page's last request it counts as viewed; it refreshes itself every five seconds


class Web(faust.Service):
    """The HTTP service of a worker."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(
        self,
        settings: WorkerSettings,
        address: Address,
        ingest: Ingest,
        sample_seconds: float = SAMPLE_SECONDS,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.failure: StreamerError | None = None  # the error that ended the service, if one did
        self._table, self._address, self._metrics = settings.table, address, ingest.metrics
        self._collector = watch.FactCollector(settings, ingest)
        self._probes = watch.Probes(settings, ingest, self._collector)
        self._look = watch.TableLook(partial(look, settings.table, settings.kafka, settings.redis))
        self._history, self._sample_seconds = watch.History(), sample_seconds
        self._viewed_at = -VIEWED_SECONDS
        answers = Answers(
            metrics=partial(generate_latest, watch.registry_of(self.facts, ingest.metrics)),
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
        """True if a thread is still running, which would keep the process from ending."""
        return self._probes.busy or self._look.busy

    def facts(self) -> WorkerFacts:
        """The worker's facts now."""
        return self._collector.facts(self._probes.facts(), self._probes.refused, monotonic())

    def _page_facts(self) -> dict[str, Any]:
        self._viewed_at = monotonic()
        return watch.page_facts(self._table, self.facts(), self._metrics, self._look.seen, self._history.points)

    @Service.task
    async def _probe(self) -> None:
        await self._probes.run()

    @Service.task
    async def _sample(self) -> None:
        while not self.should_stop:
            try:
                self._history.add(watch.point(self.facts()))
            except Exception as error:
                log.error("web: the state of the worker could not be read: %s", told(error))
            await self.sleep(self._sample_seconds)

    @Service.task
    async def _look_on(self) -> None:
        """Looks at the whole table now and then, while the page is viewed."""
        while not self.should_stop:
            if monotonic() - self._viewed_at < VIEWED_SECONDS:
                await self._look.look()
            await self.sleep(self._sample_seconds)
