"""The log of a worker, as text or as JSON: its format, its first line, and a line per minute and shard.

The rules of this file
----------------------
* Every line goes to stderr: as text, or with `--log-format json` as one JSON object, in which numbers are fields. Notes
  for the operator are objects there, too: a program that reads stderr finds nothing but objects.
* Our loggers write from the chosen level on, those of libraries from warnings on: libraries' debug lines hold whole
  messages with people's values. A client that repeats itself is limited to a few lines per period.
* The error that ends the worker is reported once: by the command, or as the last JSON object.
* Counts and names only. A server is shown without user, password and options.
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

log = logging.getLogger(__name__)

OURS = ("agents", "streamer")
REPEATING = (
    "aiokafka",
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)


def quiet_aiokafka() -> None:
    """Limits the log of the client that reads the input."""
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    for name in REPEATING:
        limited(name)


def write_logs(level: str, form: str = TEXT) -> None:
    """Sends the log to stderr: our lines from `level` on, those of libraries from warnings on."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    logging.getLogger("mode").setLevel(logging.CRITICAL)
    logging.captureWarnings(form == JSON)


@contextmanager
def fatal_error_logged(form: str) -> Iterator[None]:
    """With JSON, turns the error that ends the block into a log line and an exit code."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except Exception as error:
        if form != JSON:
            raise
        ours = error if isinstance(error, StreamerError) else unexpected("the worker", error)
        log.critical("%s", ours, extra={"kind": type(ours).__name__, "exit_code": ours.exit_code})
        raise click.exceptions.Exit(ours.exit_code) from None


def _formatter(form: str) -> logging.Formatter:
    if form == JSON:
        names = {"levelname": "level", "name": "logger", "timestamp": "time"}
        return JsonFormatter(["levelname", "name", "message"], rename_fields=names, timestamp=True)
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def print_note(text: str, form: str) -> None:
    """Prints a note on stderr, whatever the log level; no logger's handler gets it."""
    if form == JSON:
        text = _formatter(JSON).format(log.makeRecord(log.name, logging.INFO, "", 0, text, (), None))
    click.echo(text, err=True)


def log_start(settings: WorkerSettings, redis: str, shards: int) -> None:
    """Logs version, table and servers. redis: its address without password; shards: of the whole table."""
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


def log_minute(shard: str, done: StepReport, now: Mapping[str, int]) -> None:
    """Logs what a shard did since its last such line. now: its present rows, qi_groups, pending and lag, by name."""
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
