"""`streamer end-snapshot`: shards publish what they hold back of a snapshot whose last row never arrives.

A request names the snapshot by its input and the offset at which it began.
"""

from __future__ import annotations

import click

from streamer.cli.operate.send_requests import ask_shards, shards_asked
from streamer.cli.support.options import command_named, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.tables import shards_named, show
from streamer.errors import UsageError
from streamer.incremental.shard.requests import EndSnapshot
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect_now
from streamer.incremental.topics import CHANGES
from streamer.table.yaml.loading import load_table


@command_named("end-snapshot", "streamer end-snapshot --table mine", "streamer end-snapshot --table mine --shard 2")
@table_option
@kafka_option
@redis_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all that hold rows back].")
@json_option
def command(table: str, kafka: str, redis: str, shard: int | None) -> None:
    """Publishes the rows that shards hold back of an unfinished snapshot, as they are; the shards read on.

    For a snapshot whose last row never arrives: it was filtered out on the way, or the connector was removed in the
    middle. `streamer status` says which shards hold rows back, and what they wait for. Later rows of the snapshot are
    applied as single changes: nothing is lost, intervals get wider.
    """
    table_name = load_table(table).name
    asked = _requests(redis, table_name, shards_asked(kafka, table_name, shard))
    if not asked:
        none = "no shard holds" if shard is None else f"shard {shard} does not hold"
        raise UsageError(f"{none} back rows of a snapshot; `streamer status` shows the state of every shard")
    ask_shards(kafka, table_name, "end-snapshot", asked)
    numbers = [request.shard for request in asked]
    said = (
        f"{shards_named(numbers)} of {table_name} will publish what is held back of the snapshot, within seconds; "
        "`streamer status` shows it"
    )
    show({"ok": True, "table": table_name, "shards": numbers}, [said])


def _requests(redis: str, table_name: str, numbers: list[int]) -> list[EndSnapshot]:
    """Requests to those shards that hold rows back."""
    client, found = connect_now(redis), []
    for number in numbers:
        meta = RedisLookups(client, table_name, number).meta()
        if meta is not None and meta.snapshot is not None and holds_back(meta):
            found.append(EndSnapshot(number, meta.snapshot.since, meta.topic_ids.get(CHANGES, "")))
    return found
