"""`streamer load`: loads the first rows of an empty table, all at once."""

from __future__ import annotations

from functools import partial

import click

from streamer.cli.operate.reload import carried_out, check_offset, offset_option, show
from streamer.cli.stream.bootstrap import claimed, empty_shards
from streamer.cli.support.next_call import KAFKA, REDIS, say_next
from streamer.cli.support.options import (
    ROWS_OR_URL,
    TOPIC,
    examples,
    json_option,
    kafka_option,
    reads_rows,
    redis_option,
    table_option,
)
from streamer.cli.support.progress import stages
from streamer.errors import UsageError
from streamer.kafka.registry import registry_from
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings


@click.command(name="load", epilog=examples("streamer load rows.csv --table mine"))
@click.argument("rows", metavar=ROWS_OR_URL)
@table_option
@kafka_option
@redis_option
@offset_option
@json_option
@reads_rows("rows")
def command(rows: RowSource, table: str, kafka: str, redis: str, from_offset: str, as_json: bool) -> None:
    """Loads all rows of a file or a database into an empty table; the whole-table algorithm makes the QI groups.

    Call it before the first worker is started: the rows go straight to Redis and the output, not through the input.
    Workers apply later what is written to the input in the meantime. A table that is not empty is refused; `reload`
    replaces one.
    """
    if str(rows) == TOPIC:
        raise UsageError(f"load reads a file or a database; `streamer reload --from-source {TOPIC}` reads the input")
    settings = WorkerSettings(load_table(table), kafka, redis, schemas=registry_from())
    check_offset(from_offset)
    with stages(as_json) as progress, claimed(settings, "streamer load") as claim:
        done = carried_out(partial(empty_shards, settings, claim), rows, from_offset, as_json, progress)
    show(done, as_json)
    say_next(["worker", "--table", table, KAFKA, REDIS])
