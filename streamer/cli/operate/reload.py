"""`streamer reload`: loads a table again from its source, whatever Redis and the output hold.

This is the remedy for most of what a worker refuses: Redis is empty or old, table.yaml has changed, the input was
recreated or has more partitions. Readers of the output go on, and end with exactly the new table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

import click
import msgspec

from streamer.cli.stream.bootstrap import EARLIEST, END, Shards, begin, claimed, found_shards
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
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.signals import interruptible
from streamer.cli.support.tables import plural, say
from streamer.errors import UsageError
from streamer.incremental.shard.bootstrap import Begun
from streamer.kafka.registry import registry_from
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings

offset_option = click.option(
    "--from-offset",
    metavar="end|earliest|N",
    default=END,
    show_default=True,
    help="Where workers will read on in the input. end: its end when the command starts; everything before must be in"
    " the file, so nothing may be written between the file and the command. earliest: always right if messages may be"
    " applied twice, as Debezium's may. N: an offset, with one shard only.",
)


@click.command(
    name="reload",
    epilog=examples(
        "streamer reload --table mine --from-source now.csv --from-offset earliest",
        "streamer reload --table mine --from-source topic",
    ),
)
@table_option
@kafka_option
@redis_option
@click.option(
    "--from-source",
    "source",
    metavar=f"{ROWS_OR_URL}|{TOPIC}",
    required=True,
    help=f"A file or a database with all rows of the source table; or {TOPIC}: the whole input is read again.",
)
@offset_option
@click.option(
    "--although-trimmed",
    is_flag=True,
    help="Accept an input that has lost its beginning: rows that it no longer contains are removed.",
)
@json_option
@reads_rows("source")
def command(
    table: str, kafka: str, redis: str, source: RowSource, from_offset: str, although_trimmed: bool, as_json: bool
) -> None:
    """Loads the table again from its source; replaces what Redis and the output hold of it.

    Stop the workers first: a running one is shut out, and one that starts in the middle ends this command. The
    whole-table algorithm makes the QI groups. In the output, the releases that bring the new rows remove the old ones;
    they have the header `outside`. After any error, call the command again: it starts from the beginning. While it
    runs, another `load` or `reload` of the table is refused.
    """
    settings = WorkerSettings(load_table(table), kafka, redis, schemas=registry_from())
    check_offset(from_offset)
    if although_trimmed and str(source) != TOPIC:
        raise UsageError(f"--although-trimmed: goes with --from-source {TOPIC} only")
    with stages(as_json) as progress, claimed(settings, "streamer reload") as claim:
        look = partial(found_shards, settings, claim)
        done = carried_out(look, source, from_offset, as_json, progress, although_trimmed)
    show(done, as_json)
    say_next(["worker", "--table", table, KAFKA, REDIS])


class Done(NamedTuple):
    """What a command has done."""

    shards: list[Begun]
    warnings: list[str]  # about the source


def check_offset(text: str) -> None:
    """Raises UsageError unless it is a value of --from-offset."""
    if text not in (END, EARLIEST) and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError("--from-offset: end, earliest or the number of an offset")


def carried_out(
    look: Callable[[], Shards],
    source: RowSource,
    from_offset: str,
    as_json: bool,
    progress: Stages,
    although_trimmed: bool = False,
) -> Done:
    """Loads all shards that are found; if it fails, or a signal ends it, prints what was done until then."""
    done = Done([], [])

    def load() -> None:
        progress.next("look")
        shards, warn = look(), done.warnings.append
        for begun in begin(shards, source, from_offset, progress.say, progress.next, although_trimmed, warn):
            done.shards.append(begun)

    try:
        interruptible(load)
    except BaseException:
        if not as_json:
            show(done, as_json)
        raise
    return done


def show(done: Done, as_json: bool) -> None:
    """Prints what was done."""
    if as_json:
        shards = [asdict(begun) for begun in done.shards]
        click.echo(msgspec.json.encode({"shards": shards, "warnings": done.warnings}))
        return
    for begun in done.shards:
        say(
            f"shard {begun.shard}: {plural(begun.rows, 'row')} in {plural(begun.qi_groups, 'QI group')},"
            f" {begun.pending:,} pending; {begun.removed:,} old records removed; releases: {begun.releases};"
            f" the input is read on from {begun.next}"
        )
        if begun.cohorts:
            say(f"shard {begun.shard}: {plural(begun.cohorts, 'sealed cohort')} published")
        if begun.cohorts_lost:
            say(
                f"warning: shard {begun.shard}: Redis did not know what was published in {begun.cohorts_lost:,} sealed"
                " cohorts: they are retired, and whoever is in the table now is published in a new one only after a"
                " sensitive value of theirs has changed"
            )
    for warning in done.warnings:
        say(f"warning: {warning}")
