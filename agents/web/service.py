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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any, cast

import faust
import msgspec
from aiohttp import web
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST

from agents.ingest import Ingest
from agents.shard_metrics import ShardMetrics
from agents.web.watch import FactCollector, Probes, Seen, TableLook, exposed, registry_of
from streamer.errors import StreamerError, UsageError
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.shard.rebuild import losses
from streamer.incremental.shard.steps import told
from streamer.incremental.store.base import Meta, Progress
from streamer.kafka.clients import AtMost
from streamer.privacy.models import model_of, words
from streamer.status.collect import look
from streamer.status.facts import HeldFacts, ShardFacts, WorkerFacts, mean_over_rows
from streamer.status.verdict import Verdict, ago, held_problems, judge, not_ready, worker_problems
from streamer.table.data_warnings import unknown_category_warnings
from streamer.table.schema import Table
from streamer.table.space import Space
from streamer.worker.options import Address, host_in, is_loopback
from streamer.worker.settings import WorkerSettings

# The facts as one JSON object, and the page made of that object.
#
# * The worker's own shards are shown as it knows them now, others as the last look saw them. One verdict is over both.
# * Times are ISO 8601 in UTC; unknown values are null. No value of a row and no key. The page escapes all texts.
# * NCP is the mean over the published rows and the quasi-identifiers, 0 to 1 (`Space.mean_loss`). For a rebuild it is
#   that of the regions done.

POINTS_MAX = 360
"""Points of the history. Beyond that every second point goes, and new ones come half as often."""

SENTENCES_MAX = 5
"""The page folds further sentences of the verdict, so that a hundred refused shards do not hide the rest."""

HELD, TAKING_OVER, STANDING_STILL = "held", "taking over", "standing still"
REFUSED_SHARD, ELSEWHERE, NOBODY = "refused", "elsewhere", "nobody"

STATES = {
    REFUSED_SHARD: ("✖", "red", "refused"),
    NOBODY: ("✖", "red", "held by nobody"),
    STANDING_STILL: ("✖", "red", "standing still"),
    TAKING_OVER: ("◌", "amber", "being taken over"),
    HELD: ("●", "green", "held"),
    ELSEWHERE: ("○", "grey", "held elsewhere"),
}
"""Sign, colour and words of a shard's state, the worst first. A colour never says more than the words."""

NO_VALUE = "–"


class History:
    """Points of the whole time of the process, oldest first, the coarser the longer it runs."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.points: list[dict[str, Any]] = []
        self._points_max = points_max
        self._every = 1
        self._seen = 0

    def add(self, point: dict[str, Any]) -> None:
        """Takes the next of points at equal distances, or leaves it out."""
        if self._seen % self._every == 0:
            if len(self.points) == self._points_max:
                self.points, self._every = self.points[::2], 2 * self._every
            if self._seen % self._every == 0:
                self.points.append(point)
        self._seen += 1


# -- the object ---------------------------------------------------------------------------------------------------


def page_facts(
    table: Table, facts: WorkerFacts, metrics: Mapping[int, ShardMetrics], seen: Seen, history: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The object. metrics: of all shards that the worker ever had, by number."""
    shards = _shards(facts, seen)
    told = seen.facts is None or seen.facts.workers.told
    verdict = _verdict(table, facts, shards, seen)
    counts = sum((shard.held.counts if shard.held else _meta(shard).counts for shard in shards), NO_MESSAGES)
    letters = sum((one.done.reasons for one in metrics.values()), Counter[str]())
    return {
        "table": facts.table, "version": facts.version, "worker": facts.worker, "now": iso(facts.now),
        "k": table.k, "model": words(table, model_of(table)), "form": table.form,
        "verdict": {"ok": not verdict.problems, "problems": verdict.problems, "warnings": verdict.warnings},
        "shards": [
            _described(shard, facts, metrics[shard.number] if shard.held else ShardMetrics(), told, table.space)
            for shard in shards
        ],
        "dead_letters": dict(sorted(letters.items())),
        "unlisted": list(unknown_category_warnings(table, counts.unlisted, counts.applied, "applied messages")),
        "history": list(history),
    }  # fmt: skip


def point(facts: WorkerFacts) -> dict[str, Any]:
    """A point of the history: the sum of the worker's shards."""
    shards = facts.shards
    return {
        "at": iso(facts.now),
        "lag": sum(shard.lag for shard in shards),
        "messages_per_s": round(sum(shard.messages_per_s for shard in shards), 1),
        "records_per_s": round(sum(shard.records_per_s for shard in shards), 1),
        "ncp": mean_over_rows([(shard.ncp, shard.rows - shard.pending) for shard in shards]),
        "ncp_fresh": mean_over_rows([(shard.ncp_fresh, shard.rows - shard.pending) for shard in shards]),
        "pending": sum(shard.pending for shard in shards),
        "rows": sum(shard.rows for shard in shards),
    }


def _shards(facts: WorkerFacts, seen: Seen) -> list[ShardFacts]:
    """All known shards by number, each as the worker knows it and as the servers show it."""
    found = {shard.number: shard for shard in (seen.facts.shards if seen.facts is not None else ())}
    for held in facts.shards:
        found[held.shard] = replace(found.get(held.shard, ShardFacts(held.shard)), worker=facts.worker, held=held)
    return [found[number] for number in sorted(found)]


def _verdict(table: Table, facts: WorkerFacts, shards: Sequence[ShardFacts], seen: Seen) -> Verdict:
    """The verdict on worker and table; on the worker alone if the table could not be seen."""
    if seen.facts is None or seen.problem or seen.warning:
        return Verdict([*worker_problems(facts), *filter(None, [seen.problem])], [*filter(None, [seen.warning])])
    numbers = {shard.number for shard in shards}
    refused = {number: custody for number, custody in facts.refused.items() if number not in numbers}
    verdict = Verdict(worker_problems(replace(facts, refused=refused)))
    _, whole = judge(table, replace(seen.facts, shards=shards), table.limits.dead_letters_share_max)
    verdict.problems += [problem for problem in whole.problems if problem not in verdict.problems]
    verdict.warnings += whole.warnings
    return verdict


def _described(
    shard: ShardFacts, facts: WorkerFacts, metrics: ShardMetrics, told: bool, space: Space
) -> dict[str, Any]:
    """One shard. told: whether Kafka says who holds which shard."""
    here, custody = shard.held is not None, facts.refused.get(shard.number, shard.redis.custody)
    worker = shard.worker if here or told else custody.owner
    held = shard.held or _from_outside(shard, worker)
    refusal = held.refused or (custody.refusal.reason if custody.refusal and not held.taken_over else "")
    wrong = held_problems(held, worker) if here else []
    state = ELSEWHERE if worker else NOBODY
    if here:
        state = STANDING_STILL if wrong else HELD if held.taken_over else TAKING_OVER
    return {
        "shard": shard.number, "worker": worker or None, "here": here,
        "state": REFUSED_SHARD if refusal else state, "since": iso(held.since),
        "lag": held.lag, "rows": held.rows, "pending": held.pending, "pending_oldest": iso(held.pending_since),
        "qi_groups": held.qi_groups, "messages": held.counts.messages, "applied": held.counts.applied,
        "ignored": held.counts.ignored, "dead_letters": held.counts.dead_letters,
        "messages_per_s": round(held.messages_per_s, 1), "records_per_s": round(held.records_per_s, 1),
        "merges": metrics.done.merges, "splits": metrics.done.splits,
        "release": held.release or None, "last_commit": iso(held.committed_at or custody.committed_at),
        "ncp": _rounded(held.ncp), "ncp_fresh": _rounded(held.ncp_fresh),
        "reason": refusal or "; ".join(wrong) or None,
        "rebuild": _running(held.rebuild) if held.rebuild else None,
        "rebuilds": [_ended(one, space) for one in reversed(held.rebuilds) if not one.is_answer],
    }  # fmt: skip


def _from_outside(shard: ShardFacts, worker: str) -> HeldFacts:
    """A shard of another worker, as the last look saw it."""
    meta, sizes, custody = _meta(shard), shard.redis.sizes, shard.redis.custody
    return HeldFacts(
        shard.number,
        since=custody.taken_at if worker and worker == custody.owner else None,
        lag=shard.lag,
        rows=sizes.records,
        pending=sizes.pending,
        qi_groups=sizes.qi_groups,
        counts=meta.counts,
        release=meta.release,
        ncp=custody.measured.ncp,
        ncp_fresh=custody.measured.ncp_fresh,
        rebuild=meta.rebuild,
        rebuilds=meta.rebuilds,
    )


def _meta(shard: ShardFacts) -> Meta:
    return shard.redis.meta or Meta()


def _running(one: Progress) -> dict[str, Any]:
    began = {"algorithm": one.rebuild.algorithm, "why": one.why, "began": iso(one.began)}
    return {**began, "done": one.done, "of": one.total}


def _ended(one: Progress, space: Space) -> dict[str, Any]:
    """A rebuild that ended."""
    before, after = losses(one, space)
    return {
        "algorithm": one.rebuild.algorithm, "why": one.why, "at": iso(one.at), "ended": one.state,
        "ncp_before": _rounded(before), "ncp_after": _rounded(after),
        "rows_published": one.rows_published_again,
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def iso(seconds: float | None) -> str | None:
    """A time in seconds since 1970, for programs.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- the page -----------------------------------------------------------------------------------------------------


def page(facts: Mapping[str, Any]) -> str:
    """The object of `page_facts` as HTML."""
    shards, verdict, now = facts["shards"], facts["verdict"], datetime.fromisoformat(facts["now"])
    calm = list(STATES).index(HELD)  # from this state on, shards stand by number
    kind, word = _in_a_word(verdict)
    return _template().render(
        facts=facts,
        kind=kind,
        word=word,
        sentences=[*verdict["problems"], *(f"warning: {one}" for one in verdict["warnings"])],
        sentences_max=SENTENCES_MAX,
        states=STATES,
        shards=sorted(shards, key=lambda one: (min(list(STATES).index(one["state"]), calm), one["shard"])),
        standing=_states_in_words(shards),
        figures=_figures(facts, now),
        account=_account(shards),
        letters=sorted(facts["dead_letters"].items(), key=lambda one: -one[1]),
        rebuilds=_rebuilds(shards),
        ago=lambda at: f"{_lasting(at, now)} ago" if at else NO_VALUE,
        lasting=lambda at: _lasting(at, now),
        total=lambda name: _total(shards, name),
    )


@cache
def _source() -> str:
    return Path(__file__).with_name("page.html").read_text("utf-8")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"count": _count, "rate": _rate, "loss": _loss, "sentence": _sentence}
    return environment.from_string(_source())


@cache
def security_policy() -> str:
    """The Content-Security-Policy: the page's own script and style, by their digests, and nothing else."""
    own = (
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind in ("script", "style")
        for text in re.findall(rf"<{kind}>(.*?)</{kind}>", _source(), re.S)
    )
    return "; ".join(["default-src 'none'", "connect-src 'self'", "img-src data:", *own, *CONTENT_POLICY])


CONTENT_POLICY = ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")


def _in_a_word(verdict: Mapping[str, Any]) -> tuple[str, str]:
    problems, warnings = len(verdict["problems"]), len(verdict["warnings"])
    warned = f"{warnings:,} warning{'s' * (warnings != 1)}" if warnings else ""
    if problems:
        return "red", ", ".join(filter(None, [f"✖ {problems:,} problem{'s' * (problems != 1)}", warned]))
    return ("amber", f"▲ It works, with {warned}") if warned else ("green", "✔ Everything works")


def _states_in_words(shards: Sequence[Mapping[str, Any]]) -> str:
    """As "Of 6: 1 refused, 5 held."."""
    if not shards:
        return "None: Kafka has not given any shard yet."
    counted = Counter(shard["state"] for shard in shards)
    return f"Of {len(shards):,}: {', '.join(f'{counted[one]:,} {STATES[one][2]}' for one in STATES if counted[one])}."


def _per_message(shards: Sequence[Mapping[str, Any]]) -> str:
    """
    >>> _per_message([{"records_per_s": 30.0, "messages_per_s": 10.0}])
    'records a second, 3.0 a message'
    """
    messages = _total(shards, "messages_per_s")
    return (
        f"records a second, {_total(shards, 'records_per_s') / messages:.1f} a message"
        if messages
        else "records a second"
    )


def _figures(facts: Mapping[str, Any], now: datetime) -> list[tuple[str, str, str, str]]:
    """The figures at the top: name, value, a note, and the line of its history."""
    shards, history = facts["shards"], facts["history"]
    oldest = min((one["pending_oldest"] for one in shards if one["pending_oldest"]), default=None)
    pending = f"rows, the oldest since {_lasting(oldest, now)} ago" if oldest else "rows that cannot be published yet"
    last = next((one for one in reversed(history) if one["ncp"] is not None), {"ncp": None, "ncp_fresh": None})
    fresh = "a fresh table's is not known yet"
    if last["ncp_fresh"]:
        fresh = f"a fresh table has {_loss(last['ncp_fresh'])} ({last['ncp'] / last['ncp_fresh'] - 1:+.1%} here)"
    figures = [
        ("lag", "lag", _count(_total(shards, "lag")), "messages wait"),
        ("read", "messages_per_s", _rate(_total(shards, "messages_per_s")), "messages a second"),
        ("published", "records_per_s", _rate(_total(shards, "records_per_s")), _per_message(shards)),
        ("rows", "rows", _count(_total(shards, "rows")), f"in {_count(_total(shards, 'qi_groups'))} QI groups"),
        ("pending", "pending", _count(_total(shards, "pending")), pending),
        ("loss", "ncp", _loss(last["ncp"]), fresh),
    ]
    letters, messages = _count(_total(shards, "dead_letters")), _count(_total(shards, "messages"))
    figures.append(("dead letters", "", letters, f"of {messages} messages"))
    return [(name, value, note, _line(history, of)) for name, of, value, note in figures]


def _line(history: Sequence[Mapping[str, Any]], name: str) -> str:
    """A figure's history as the points of an SVG line, 100 wide and 20 high; "" for fewer than two points."""
    known = [(i, one[name]) for i, one in enumerate(history) if one.get(name) is not None]
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    across, up = 100 / (len(history) - 1), 18 / ((high - low) or 1)
    return " ".join(f"{across * i:.1f},{19 - up * (value - low):.1f}" for i, value in known)


def _account(shards: Sequence[Mapping[str, Any]]) -> str:
    """Whether every message that was read is counted as applied, ignored or a dead letter."""
    read, *parts = (_total(shards, name) for name in ("messages", "applied", "ignored", "dead_letters"))
    applied, ignored, letters = map(_count, parts)
    adds = "it adds up" if read == sum(parts) else "it does NOT add up"
    return f"messages {_count(read)} = applied {applied} + ignored {ignored} + dead letters {letters}: {adds}"


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
    return sum(shard[name] or 0 for shard in shards)


def _count(n: int | None) -> str:
    return NO_VALUE if n is None else f"{n:,}"


def _rate(n: float) -> str:
    """A number per second, with a decimal if it is small."""
    return f"{n:,.1f}" if 0 < n < 10 else f"{n:,.0f}"


def _loss(n: float | None) -> str:
    return NO_VALUE if n is None else f"{n:.4f}" if n else "0"


def _lasting(at: str, now: datetime) -> str:
    """How long ago a time was, by the worker's clock."""
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
CONNECTIONS_FOR_PROBES = 16
"""Places beyond these two bounds, for connections that may only ask PROBES."""

PROBES = ("/health", "/ready")

LIVES_SECONDS_MAX = 300.0
"""A connection that is open for longer is closed when a new one comes."""

SILENT_SECONDS_MAX = 15.0
"""How long a connection may be open without a whole request."""

END_SECONDS_MAX = 1.0

SERVER_LOG = "aiohttp.server"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Answers:
    """What the paths answer; all of it is cheap."""

    metrics: Callable[[], bytes]
    problems: Callable[[], list[str]]
    not_ready: Callable[[], list[str]]
    facts: Callable[[], Mapping[str, Any]]


def web_app(address: Address, answers: Answers) -> web.Application:
    """The application at an address."""
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
    logger = logging.getLogger(SERVER_LOG)
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
VIEWED_SECONDS = 12.0
"""How long after its last request the page counts as viewed; it refreshes itself every five seconds."""


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
        self.failure: StreamerError | None = None
        """The error that ended the service, if one did."""
        self._table, self._address, self._metrics = settings.table, address, ingest.metrics
        self._collector = FactCollector(settings, ingest)
        self._probes = Probes(settings, ingest, self._collector)
        self._look = TableLook(partial(look, settings.table, settings.kafka, settings.redis))
        self._history, self._sample_seconds = History(), sample_seconds
        self._viewed_at = -VIEWED_SECONDS
        answers = Answers(
            metrics=partial(exposed, registry_of(self.facts, ingest.metrics)),
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
        """Whether a thread is still running, which would keep the process from ending."""
        return self._probes.busy or self._look.busy

    def facts(self) -> WorkerFacts:
        """The worker's facts now."""
        return self._collector.facts(self._probes.facts(), self._probes.refused, monotonic())

    def _page_facts(self) -> dict[str, Any]:
        self._viewed_at = monotonic()
        return page_facts(self._table, self.facts(), self._metrics, self._look.seen, self._history.points)

    @Service.task
    async def _probe(self) -> None:
        await self._probes.run()

    @Service.task
    async def _sample(self) -> None:
        while not self.should_stop:
            try:
                self._history.add(point(self.facts()))
            except Exception as error:
                log.error("web: the worker could not be looked at: %s", told(error))
            await self.sleep(self._sample_seconds)

    @Service.task
    async def _look_on(self) -> None:
        """Looks at the whole table now and then, while the page is viewed."""
        while not self.should_stop:
            if monotonic() - self._viewed_at < VIEWED_SECONDS:
                await self._look.look()
            await self.sleep(self._sample_seconds)
