"""`streamer worker`: keeps shards of a table current until it is stopped.

What runs agents is imported by its name when a worker starts, so that no other command waits for it.
"""

from __future__ import annotations

import os
from importlib import import_module

import click

from streamer.cli.support.options import (
    examples,
    kafka_option,
    log_format_option,
    log_level_option,
    redis_option,
    table_option,
    web_option,
)


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
    from streamer.cli.support.config import misspelt_sentences

    warnings = [*misspelt_sentences(os.environ)]
    import_module("agents.app").work(table, kafka, redis, embedded, log_level, log_format, web, warnings)
