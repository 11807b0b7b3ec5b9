"""`streamer worker`, and where the command `streamer` is found by the name of this package.

Faust is imported when a worker starts, so that the other commands need not wait for it. SIGTERM and Ctrl-C end the
worker in order, exit code 0: shards are given back, a step that has begun gets a moment. A call that hangs then is left
behind; the next owner of the shard resolves it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from streamer.cli.main import main
from streamer.cli.options import (
    examples,
    kafka_option,
    log_format_option,
    log_level_option,
    redis_option,
    table_option,
    web_option,
)
from streamer.errors import EXIT_OK, needs_extra

if TYPE_CHECKING:
    from agents.app import App
    from agents.worker_settings import WorkerSettings

__all__ = ["main"]

GARBAGE_THRESHOLD = 50_000
"""New objects between two looks for garbage: a batch makes many, and hardly any of them in circles."""

EMBEDDED_NOTE = """\
Kafka and Redis run inside this process: they keep nothing after it ends, and prove nothing about crashes.
  kafka  {kafka}
  redis  {redis}"""


@click.command(
    name="worker",
    epilog=examples(
        "streamer worker --table mine",
        "streamer worker --table mine --log-format json",
        "streamer worker --table mine --web 8080",
    ),
)
@table_option
@kafka_option
@redis_option
@click.option("--embedded", is_flag=True, help="Run Kafka and Redis inside this process, for a first look.")
@log_level_option
@log_format_option
@web_option
def command(
    table: str, kafka: str, redis: str, embedded: bool, log_level: str, log_format: str, web: str | None
) -> None:
    """Keeps the shards of a table that Kafka gives to this worker, and publishes them, until it is stopped.

    Start as many workers as there are shards at most. A worker that ends by an error is to be started again by what
    supervises it: exit code 1 a law is violated or an error was not foreseen, 2 the configuration or a shard's state is
    wrong, 3 a server or another worker is in the way, 4 a call hung.
    """
    with needs_extra("stream"):
        from agents.worker_log import its_end_told, write_logs
        from agents.worker_settings import WorkerSettings
    from streamer.cli.web_address import read_address
    from streamer.kafka.registry import registry_from
    from streamer.table.yaml_loading import load_table

    write_logs(log_level, log_format)
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
    from agents.embedded import embedded_servers
    from agents.worker_log import tell_beside

    found = servers.enter_context(embedded_servers(settings.table.name, settings.table.form))
    tell_beside(EMBEDDED_NOTE.format(kafka=found.kafka, redis=found.redis), settings.log_format)
    return replace(settings, kafka=found.kafka, redis=found.redis, embedded=True)


async def run(settings: WorkerSettings) -> None:
    """Runs one worker until a signal or an error ends it. Raises the StreamerError that ended it."""
    from agents.app import create_app
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


if __name__ == "__main__":
    main()
