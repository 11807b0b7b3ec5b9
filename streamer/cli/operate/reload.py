"""`streamer reload`: a table begun from its source, whatever Redis and the output hold of it.

Where Redis is empty or behind, where table.yaml has changed, where the input was made anew or has other partitions:
what a worker refuses, this command mends. Who reads the output goes on, and ends with exactly the new table.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

import click
import msgspec

from streamer.cli.stream.bootstrap import EARLIEST, END, TOPIC, Shards, begin, found_shards
from streamer.cli.support.options import examples, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import plural, say
from streamer.errors import UsageError
from streamer.incremental.shard.bootstrap import Begun
from streamer.kafka.registry import registry_from
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings

offset_option = click.option(
    "--from-offset",
    metavar="end|earliest|N",
    default=END,
    show_default=True,
    help="Where the input goes on. The end is the one that it has when the command begins: what was written before must"
    " be in the file, so nobody may write between the file and the command. Where the input repeats what the file says"
    " (Debezium's changes do no harm twice), earliest is always right. N: one shard only.",
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
    metavar=f"ROWS.csv|ROWS.parquet|{TOPIC}",
    required=True,
    help=f"All rows of the source table; or {TOPIC}: what the input says from its beginning to its end.",
)
@offset_option
@click.option(
    "--although-trimmed",
    is_flag=True,
    help="Takes an input that has lost its beginning for all that there is: rows of which it says no more are gone.",
)
@json_option
def command(
    table: str, kafka: str, redis: str, source: str, from_offset: str, although_trimmed: bool, as_json: bool
) -> None:
    """Loads the table again from its source, in place of all that Redis and the output hold of it.

    Stop the workers first: one that runs is shut out, and one that comes back in the middle ends this command. Every
    row is put into QI groups by the whole-table algorithm. In the output the old rows are removed in the same releases
    that bring the new ones; these have the header `outside`. Called again after any error, it begins again.
    """
    settings = WorkerSettings(load_table(table), kafka, redis, schemas=registry_from())
    check_offset(from_offset)
    if although_trimmed and source != TOPIC:
        raise UsageError(f"--although-trimmed: speaks of an input that is read again, with --from-source {TOPIC}")
    with stages(as_json) as progress:
        progress.next("look")
        done = carried_out(found_shards(settings), source, from_offset, as_json, progress, although_trimmed)
    show(done, as_json)


class Done(NamedTuple):
    """What a command has done, shard by shard, and what there is to say of the source."""

    shards: list[Begun]
    warnings: list[str]


def check_offset(text: str) -> None:
    """Raises UsageError for what --from-offset does not know."""
    if text not in (END, EARLIEST) and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError("--from-offset: end, earliest or the number of an offset")


def carried_out(
    shards: Shards, source: str, from_offset: str, as_json: bool, progress: Stages, although_trimmed: bool = False
) -> Done:
    """What was done, shard by shard; where it ends with an error, what was done until then is said."""
    done = Done([], [])
    try:
        for begun in begin(
            shards, source, from_offset, progress.say, progress.next, although_trimmed, done.warnings.append
        ):
            done.shards.append(begun)
    except BaseException:
        if not as_json:
            show(done, as_json)
        raise
    return done


def show(done: Done, as_json: bool) -> None:
    """What was done."""
    if as_json:
        shards = [asdict(begun) for begun in done.shards]
        click.echo(msgspec.json.encode({"shards": shards, "warnings": done.warnings}))
        return
    for begun in done.shards:
        say(
            f"shard {begun.shard}: {plural(begun.rows, 'row')} in {plural(begun.qi_groups, 'QI group')},"
            f" {begun.pending:,} pending;"
            f" {begun.removed:,} records of before removed; releases: {begun.releases}; the input goes on at"
            f" {begun.next}"
        )
    for warning in done.warnings:
        say(f"warning: {warning}")
