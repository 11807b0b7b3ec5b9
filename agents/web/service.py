"""The service that shows a worker over HTTP: it listens, samples, and looks at the whole table while somebody asks.

The rules of this file
----------------------
* It only looks. Nothing that fails here ends a worker, but an address at its start that cannot be had.
* It answers in the event loop, because that is what it reports on: if the loop stands still, nobody answers.
* What others than this worker know is looked up while somebody looks at the page, and not otherwise.
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
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.shard.steps import told
from streamer.incremental.store.base import Meta, Progress
from streamer.kafka.clients import AtMost
from streamer.privacy.models import model_of, words
from streamer.status.facts import HeldFacts, ShardFacts, WorkerFacts
from streamer.status.verdict import Verdict, ago, held_problems, judge, not_ready, worker_problems
from streamer.table.data_warnings import unlisted_sentences
from streamer.table.schema import Table
from streamer.worker.options import Address, host_in, is_loopback
from streamer.worker.settings import WorkerSettings

# The facts of a worker and its table as one JSON object, and that object as a page for people.
#
# * Pure, but for the template that is read once. The page says what the object says: /facts and / are one answer.
# * Of the worker's own shards it is what the worker knows now, of others what the last look saw. The verdict is that of
#   `streamer status`, over both together.
# * Times are ISO 8601 in UTC; what is not known is null. No value of a person, no key of a row. Whatever is shown is
#   escaped.
# * NCP is the mean of the published rows. For a rebuild it is given only if this process saw it end with all regions
#   done: else its sums are over rows whose number nobody knows.

POINTS_MAX = 360
"""How many moments of the past are kept; if there are more, every second one goes, and the next ones come half as
often: so the whole time is kept, ever more coarsely."""

SENTENCES_MAX = 5
"""More sentences of the verdict are folded away: a hundred refused shards must not hide the page."""

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
"""Sign, colour and words of a shard's state; the worst first. A colour says nothing that is not said otherwise."""

NOTHING_KNOWN = "–"


class History:
    """Points over time, oldest first."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.points: list[dict[str, Any]] = []
        self._points_max = points_max
        self._every = 1
        self._seen = 0

    def add(self, point: dict[str, Any]) -> None:
        """Takes one of the points that come at equal times, or leaves it out."""
        if self._seen % self._every == 0:
            if len(self.points) == self._points_max:
                self.points, self._every = self.points[::2], 2 * self._every
            if self._seen % self._every == 0:
                self.points.append(point)
        self._seen += 1


# -- the object ---------------------------------------------------------------------------------------------------


def page_facts(
    table: Table, facts: WorkerFacts, diaries: Mapping[int, ShardMetrics], seen: Seen, history: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """All that a page shows; diaries: of all shards that the worker ever had, by number."""
    shards = _shards(facts, seen)
    told = seen.facts is None or seen.facts.workers.told
    verdict = _verdict(table, facts, shards, seen)
    counts = sum((_counts_of(shard) for shard in shards), NO_MESSAGES)
    letters = sum((diary.done.reasons for diary in diaries.values()), Counter[str]())
    return {
        "table": facts.table, "version": facts.version, "worker": facts.worker, "now": iso(facts.now),
        "k": table.k, "model": words(table, model_of(table)), "form": table.form,
        "verdict": {"ok": not verdict.problems, "problems": verdict.problems, "warnings": verdict.warnings},
        "shards": [
            _described(shard, facts, diaries[shard.number] if shard.held else ShardMetrics(), told) for shard in shards
        ],
        "dead_letters": dict(sorted(letters.items())),
        "unlisted": list(unlisted_sentences(table, counts.unlisted, counts.applied, "applied messages")),
        "history": list(history),
    }  # fmt: skip


def point(facts: WorkerFacts) -> dict[str, Any]:
    """One point of the history: the worker's shards together."""
    shards = facts.shards
    return {
        "at": iso(facts.now),
        "lag": sum(shard.lag for shard in shards),
        "messages_per_s": round(sum(shard.messages_per_s for shard in shards), 1),
        "records_per_s": round(sum(shard.records_per_s for shard in shards), 1),
        "ncp": _mean([(shard.ncp, shard.rows - shard.pending) for shard in shards]),
        "ncp_fresh": _mean([(shard.ncp_fresh, shard.rows - shard.pending) for shard in shards]),
        "pending": sum(shard.pending for shard in shards),
        "rows": sum(shard.rows for shard in shards),
    }


def _mean(parts: Sequence[tuple[float | None, int]]) -> float | None:
    """The mean over all rows; None if that of some rows is not known."""
    parts = [(value, rows) for value, rows in parts if rows]
    if not parts or any(value is None for value, _ in parts):
        return None
    rows = sum(rows for _, rows in parts)
    return round(sum((value or 0.0) * rows for value, rows in parts) / rows, 6)


def _shards(facts: WorkerFacts, seen: Seen) -> list[ShardFacts]:
    """All shards that are known, by number, each from both sides."""
    found = {shard.number: shard for shard in (seen.facts.shards if seen.facts is not None else ())}
    for held in facts.shards:
        found[held.shard] = replace(found.get(held.shard, ShardFacts(held.shard)), worker=facts.worker, held=held)
    return [found[number] for number in sorted(found)]


def _verdict(table: Table, facts: WorkerFacts, shards: Sequence[ShardFacts], seen: Seen) -> Verdict:
    """What is wrong with the worker and with the table; with the worker alone if the table could not be looked at."""
    if seen.facts is None or seen.problem or seen.warning:
        return Verdict([*worker_problems(facts), *filter(None, [seen.problem])], [*filter(None, [seen.warning])])
    numbers = {shard.number for shard in shards}
    refused = {number: custody for number, custody in facts.refused.items() if number not in numbers}
    verdict = Verdict(worker_problems(replace(facts, refused=refused)))
    _, whole = judge(table, replace(seen.facts, shards=shards), table.limits.dead_letters_share_max)
    verdict.problems += [problem for problem in whole.problems if problem not in verdict.problems]
    verdict.warnings += whole.warnings
    return verdict


def _described(shard: ShardFacts, facts: WorkerFacts, diary: ShardMetrics, told: bool) -> dict[str, Any]:
    """One shard; diary: what became of it in this process; told: Kafka says who holds which shard."""
    here, custody = shard.held is not None, facts.refused.get(shard.number, shard.redis.custody)
    worker = shard.worker if here or told else custody.owner
    held = shard.held or _from_outside(shard, worker)
    refusal = None if held.taken_over else custody.refusal
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
        "merges": diary.done.merges, "splits": diary.done.splits,
        "release": held.release or None, "last_commit": iso(held.committed_at or custody.committed_at),
        "ncp": _rounded(held.ncp), "ncp_fresh": _rounded(held.ncp_fresh),
        "reason": refusal.reason if refusal else "; ".join(wrong) or None,
        "rebuild": _running(held.rebuild),
        "rebuilds": _ended(held.rebuilds, diary.rows_rebuilt),
    }  # fmt: skip


def _from_outside(shard: ShardFacts, worker: str) -> HeldFacts:
    """What the last look saw of a shard that is not here, in place of what its worker knows."""
    meta, sizes, custody = shard.redis.meta or Meta(), shard.redis.sizes, shard.redis.custody
    return HeldFacts(
        shard.number,
        since=custody.taken_at if worker and worker == custody.owner else None,
        lag=shard.lag,
        rows=sizes.records,
        pending=sizes.pending,
        qi_groups=sizes.qi_groups,
        counts=meta.counts,
        release=meta.release,
        rebuild=meta.rebuild,
        rebuilds=meta.rebuilds,
    )


def _counts_of(shard: ShardFacts) -> Counts:
    """What a shard has counted, of all times."""
    return shard.held.counts if shard.held is not None else (shard.redis.meta or Meta()).counts


def _running(rebuild: Progress | None) -> dict[str, Any] | None:
    if rebuild is None:
        return None
    return {
        "algorithm": rebuild.rebuild.algorithm,
        "why": rebuild.why,
        "began": iso(rebuild.began),
        "done": rebuild.done,
        "of": rebuild.total,
    }


def _ended(rebuilds: Sequence[Progress], rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Those that were rebuilds, newest first; rows: published when one ended, by its id, as far as that is known."""
    return [
        {
            "algorithm": one.rebuild.algorithm,
            "why": one.why,
            "at": iso(one.at),
            "ended": one.state,
            "ncp_before": _of_rebuild(one, one.ncp_before, rows),
            "ncp_after": _of_rebuild(one, one.ncp_now, rows),
            "rows_published": one.rows_published_again,
        }
        for one in reversed(rebuilds)
        if not one.is_answer
    ]


def _of_rebuild(rebuild: Progress, loss: float, rows: Mapping[str, int]) -> float | None:
    published = rows.get(rebuild.rebuild.id, 0)
    return _rounded(loss / published) if published and rebuild.done == rebuild.total else None


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
    """HTML of the facts of a page."""
    shards, verdict, now = facts["shards"], facts["verdict"], datetime.fromisoformat(facts["now"])
    calm = list(STATES).index(HELD)  # from here on by number alone
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
        ago=lambda at: f"{_lasting(at, now)} ago" if at else NOTHING_KNOWN,
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
    """The Content-Security-Policy of the page: its own script and style by their digests, and nothing of others."""
    kinds = ("script", "style")
    (script, style) = (re.search(rf"<{kind}>(.*?)</{kind}>", _source(), re.S) for kind in kinds)
    digests = [base64.b64encode(hashlib.sha256(one[1].encode()).digest()).decode() for one in (script, style) if one]
    own = "; ".join(f"{kind}-src 'sha256-{digest}'" for kind, digest in zip(kinds, digests, strict=True))
    return f"default-src 'none'; connect-src 'self'; img-src data:; {own}; {'; '.join(CONTENT_POLICY)}"


CONTENT_POLICY = ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")


def _in_a_word(verdict: Mapping[str, Any]) -> tuple[str, str]:
    """Colour and headline of a verdict."""
    problems, warnings = len(verdict["problems"]), len(verdict["warnings"])
    warned = f"{warnings:,} warning{'s' * (warnings != 1)}" if warnings else ""
    if problems:
        return "red", ", ".join(filter(None, [f"✖ {problems:,} problem{'s' * (problems != 1)}", warned]))
    return ("amber", f"▲ It works, with {warned}") if warned else ("green", "✔ Everything works")


def _states_in_words(shards: Sequence[Mapping[str, Any]]) -> str:
    """Of 6: 1 refused, 5 held."""
    if not shards:
        return "None: Kafka has not given any shard yet."
    counted = Counter(shard["state"] for shard in shards)
    return f"Of {len(shards):,}: {', '.join(f'{counted[one]:,} {STATES[one][2]}' for one in STATES if counted[one])}."


def _figures(facts: Mapping[str, Any], now: datetime) -> list[tuple[str, str, str, str]]:
    """Name, value, what it means, and its line over time, of the figures that stand first."""
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
        ("published", "records_per_s", _rate(_total(shards, "records_per_s")), "records a second"),
        ("rows", "rows", _count(_total(shards, "rows")), f"in {_count(_total(shards, 'qi_groups'))} QI groups"),
        ("pending", "pending", _count(_total(shards, "pending")), pending),
        ("loss", "ncp", _loss(last["ncp"]), fresh),
        (
            "dead letters",
            "",
            _count(_total(shards, "dead_letters")),
            f"of {_count(_total(shards, 'messages'))} messages",
        ),
    ]
    return [(name, value, note, _line(history, of)) for name, of, value, note in figures]


def _line(history: Sequence[Mapping[str, Any]], name: str) -> str:
    """One figure of this worker over time, as the points of a line 100 wide and 20 high; "" before there are two."""
    known = [(i, one[name]) for i, one in enumerate(history) if one.get(name) is not None]
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    across, up = 100 / (len(history) - 1), 18 / ((high - low) or 1)
    return " ".join(f"{across * i:.1f},{19 - up * (value - low):.1f}" for i, value in known)


def _account(shards: Sequence[Mapping[str, Any]]) -> str:
    """The checked line: every message that was read is accounted for."""
    read, *parts = (_total(shards, name) for name in ("messages", "applied", "ignored", "dead_letters"))
    applied, ignored, letters = map(_count, parts)
    adds = "it adds up" if read == sum(parts) else "it does NOT add up"
    return f"messages {_count(read)} = applied {applied} + ignored {ignored} + dead letters {letters}: {adds}"


def _rebuilds(shards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those that run and those that ended, the newest first."""
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
    return NOTHING_KNOWN if n is None else f"{n:,}"


def _rate(n: float) -> str:
    """Something a second: tenths if they say something."""
    return f"{n:,.1f}" if 0 < n < 10 else f"{n:,.0f}"


def _loss(n: float | None) -> str:
    return NOTHING_KNOWN if n is None else f"{n:.4f}" if n else "0"


def _lasting(at: str, now: datetime) -> str:
    """How long ago a time is, by the worker's clock."""
    return ago((now - datetime.fromisoformat(at)).total_seconds())


def _sentence(text: str) -> Markup:
    """A sentence, escaped; the commands in it, between backticks, as code."""
    parts = (
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


# A worker over HTTP: what may be asked, by whom, how many may ask, and what the answers carry.
#
# * Everything only reads. Nothing here changes anything: who wants a rebuild uses the command.
# * If it listens for this machine alone, it answers only to names of this machine: else a page of another site could
#   have its name point here (DNS rebinding) and read on.
# * Whoever reaches the port may take only so many of the process' files: the shards need theirs for Kafka and Redis.
# * What a client sent wrongly is answered to it. The log gets one line without its text, and only so many of them; of
#   what nobody foresaw, only the class of the error.

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 128

SILENT_SECONDS_MAX = 15.0
"""How long a connection may be open without a whole request: after the last one, or before the first."""

END_SECONDS_MAX = 1.0

SERVER_LOG = "aiohttp.server"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Answers:
    """What the paths answer, each when it is asked; all of them are cheap."""

    metrics: Callable[[], bytes]
    problems: Callable[[], list[str]]
    not_ready: Callable[[], list[str]]
    facts: Callable[[], Mapping[str, Any]]


def web_app(address: Address, answers: Answers) -> web.Application:
    """The application that answers at an address."""

    async def index(_request: web.Request) -> web.Response:
        return web.Response(text=page(answers.facts()), content_type="text/html")

    async def facts(_request: web.Request) -> web.Response:
        return _json(answers.facts())

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=answers.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(_request: web.Request) -> web.Response:
        return _said_healthy(answers.problems())

    async def ready(_request: web.Request) -> web.Response:
        return _said_healthy(answers.not_ready())

    app = web.Application(middlewares=[_guarded(address)])
    app.on_response_prepare.append(_add_headers)
    for path, handler in {"": index, "facts": facts, "metrics": metrics, "health": health, "ready": ready}.items():
        app.router.add_get(f"/{path}", handler)
    return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = security_policy()
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    response.headers.popall("Server", None)


def _guarded(address: Address) -> Any:
    """What is looked at before any answer, and what becomes of errors."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if address.is_loopback and not is_loopback(host_in(request.headers.get("Host", ""))):
            return _refused(421, "this worker answers to names of its own machine only, as 127.0.0.1")
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return _refused(answer.status, answer.reason)
        except Exception as error:
            log.error("%s was not answered: %s", _route_of(request), told(error))
            return _refused(500, "an error that nobody foresaw; the worker's log says where")

    return guarded


def _route_of(request: web.Request) -> str:
    """Which of our paths it came to: the path itself is whatever somebody sent, line ends too."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "a request"


def _refused(status: int, sentence: str) -> web.Response:
    return _json({"error": sentence}, status)


def _said_healthy(reasons: list[str]) -> web.Response:
    return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


# -- connections --------------------------------------------------------------------------------------------------


class TextLeftOut(logging.Filter):
    """Leaves of an error its class, and no word of what was sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            of = record.exc_info[0]
            record.msg, record.args = f"{record.getMessage()}: {of.__name__ if of else 'an error'}", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class TurnedAway(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def runner_of(app: web.Application) -> web.AppRunner:
    """What answers on every connection; `listen` says where they come from."""
    logger = logging.getLogger(SERVER_LOG)
    if not logger.filters:
        logger.addFilter(TextLeftOut())
        logger.addFilter(AtMost())
    return web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS_MAX, keepalive_timeout=SILENT_SECONDS_MAX)


async def listen(runner: web.AppRunner, address: Address) -> asyncio.Server:
    """Listens, once the runner is set up. Raises OSError, or UnicodeError if the host is no name."""
    answering = cast(web.Server, runner.server)  # there is one after its setup

    def connected() -> asyncio.Protocol:
        return answering() if len(answering.connections) < CONNECTIONS_MAX else TurnedAway()

    return await asyncio.get_running_loop().create_server(connected, address.host, address.port)


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
        self._watch = FactCollector(settings, ingest)
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
