"""`streamer worker`: keeps shards of a table current until it is stopped."""

from __future__ import annotations

import os
from importlib import import_module

import click

from streamer.cli.support import options
from streamer.errors import needs_extra


@options.command_named(
    "worker",
    "streamer worker --table mine",
    "streamer worker --table mine --log-format json",
    "streamer worker --table mine --web 8080",
)
@options.table_option
@options.kafka_option
@options.redis_option
@click.option("--embedded", is_flag=True, help="Run Kafka and Redis inside this process, to try it out.")
@options.log_level_option
@options.log_format_option
@options.web_option
@options.instance_option
def command(
    table: str,
    kafka: str,
    redis: str,
    embedded: bool,
    log_level: str,
    log_format: str,
    web: str | None,
    instance: str | None,
) -> None:
    """Serves the shards of a table that Kafka assigns to this worker: keeps them current and publishes them, until it
    is stopped.

    Workers beyond the number of shards are idle. A supervisor should start a worker again after any error. Exit codes:
    1 a law is violated or an unexpected error, 2 the configuration or a shard's state is wrong, 3 a server or another
    worker is in the way, 4 a call hung.
    """
    with needs_extra("stream"):
        config, app = import_module("streamer.cli.support.config"), import_module("agents.app")
    warnings = [*config.misspelt_sentences(os.environ)]
    app.work(table, kafka, redis, embedded, log_level, log_format, web, instance, warnings)
