"""What a worker writes to its log, and what its libraries may: enough to see a fault, not one line twenty times a
second.

aiokafka's debug lines have whole messages in them, people's values too: they are never written, whatever the level.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

import click
from pythonjsonlogger.json import JsonFormatter

from agents.shard_thread import unexpected
from streamer.errors import StreamerError
from streamer.incremental.shard.steps import StepReport
from streamer.kafka.clients import limited
from streamer.worker.options import JSON, TEXT
from streamer.worker.settings import WorkerSettings

REPEATING = (
    "aiokafka",
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)


def quiet_aiokafka() -> None:
    """Limits what the consumer's client writes."""
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    for name in REPEATING:
        limited(name)


# What a worker writes to its log, for people or for programs: how, its first line, and a line a minute of every shard.
#
# * Everything goes to stderr, one line each: as text, or as one JSON object by `--log-format json`, where the numbers
#   are fields of their own. What is said to whoever starts the worker, and to no logger, is an object there, too: who
#   reads that stream reads objects alone.
# * Ours from the chosen level on, those of libraries from warnings on; an error that ends the worker is told once: by
#   the command, or as the last JSON object. The libraries' debug lines hold whole messages, people's values with them,
#   and are never written.
# * Counts and names only; a server is shown without user, password and options.

log = logging.getLogger(__name__)

OURS = ("agents", "streamer")

MINUTE_SECONDS = 60.0


def write_logs(level: str, form: str = TEXT) -> None:
    """Sends log lines to stderr: ours from `level` on, those of libraries from warnings on."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    logging.getLogger("mode").setLevel(logging.CRITICAL)
    logging.captureWarnings(form == JSON)


@contextmanager
def its_end_told(form: str) -> Iterator[None]:
    """Has the error that ends the block be a line of a log of JSON objects, and the exit code what is left of it."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except Exception as error:
        if form != JSON:
            raise
        told = error if isinstance(error, StreamerError) else unexpected("the worker", error)
        log.critical("%s", told, extra={"kind": type(told).__name__, "exit_code": told.exit_code})
        raise click.exceptions.Exit(told.exit_code) from None


def _formatter(form: str) -> logging.Formatter:
    if form == JSON:
        names = {"levelname": "level", "name": "logger", "timestamp": "time"}
        return JsonFormatter(["levelname", "name", "message"], rename_fields=names, timestamp=True)
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def tell_beside(text: str, form: str) -> None:
    """Says something on stderr beside the log: whatever the level, and heard by no logger's handlers."""
    if form == JSON:
        text = _formatter(JSON).format(log.makeRecord(log.name, logging.INFO, "", 0, text, (), None))
    click.echo(text, err=True)


def tell_start(settings: WorkerSettings, redis: str, shards: int) -> None:
    """Which version begins on which table and servers; redis: in words; shards: of the whole table."""
    table = settings.table
    said = {
        "version": version("streamer"), "table": table.name, "fingerprint": table.fingerprint, "k": table.k,
        "shards": shards, "kafka": settings.kafka, "redis": redis, "worker": settings.name,
    }  # fmt: skip
    log.info(
        "streamer %(version)s, worker %(worker)s: table %(table)s (k = %(k)d, %(shards)d shards, fingerprint "
        "%(fingerprint)s), Kafka at %(kafka)s, %(redis)s",
        said,
        extra=said,
    )


def tell_minute(shard: str, done: StepReport, now: Mapping[str, int]) -> None:
    """What a shard did since the last such line; now: where it stands, by name: rows, qi_groups, pending, lag."""
    counts = done.counts
    said: dict[str, object] = {
        "shard": shard, "messages": counts.messages, "applied": counts.applied, "ignored": counts.ignored,
        "dead_letters": counts.dead_letters, "records": done.published, "commits": done.commits,
        "merges": done.merges, "splits": done.splits, "unlisted": dict(counts.unlisted), **now,
    }  # fmt: skip
    log.info(
        "%(shard)s: %(messages)d messages (%(applied)d applied, %(ignored)d ignored, %(dead_letters)d dead letters), "
        "%(records)d records in %(commits)d commits, %(merges)d merges, %(splits)d splits; %(rows)d rows "
        "(%(pending)d pending), %(qi_groups)d QI groups, lag %(lag)d%(drifted)s",
        {**said, "drifted": _drifted(counts.unlisted)},
        extra=said,
    )


def _drifted(unlisted: Mapping[str, int]) -> str:
    columns = ", ".join(f"{column} {count}" for column, count in unlisted.items())
    return f"; categories that table.yaml does not list: {columns}" if unlisted else ""
