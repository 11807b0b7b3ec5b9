"""`streamer end-snapshot`: has shards publish what they hold back of a snapshot, as it is.

For a snapshot whose end nobody sees: its last row was filtered out on the way, or the connector was taken away in the
middle. A request is a record in the control topic that names the very snapshot, by its input and the offset at which it
began; the worker that holds the shard acts on it within seconds. What comes of the snapshot later is single changes.
"""

from __future__ import annotations

import click
import msgspec

from streamer.cli.operate.send_requests import ask_shards
from streamer.cli.support.options import examples, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.tables import say, shards_named
from streamer.errors import UsageError
from streamer.incremental.shard.requests import EndSnapshot
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_consumer
from streamer.kafka.reading import shards_in
from streamer.table.yaml.loading import load_table


@click.command(
    name="end-snapshot",
    epilog=examples("streamer end-snapshot --table mine", "streamer end-snapshot --table mine --shard 2"),
)
@table_option
@kafka_option
@redis_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all that hold rows back].")
@json_option
def command(table: str, kafka: str, redis: str, shard: int | None, as_json: bool) -> None:
    """Has shards publish what they hold back of a snapshot, as it is, and read on.

    For a snapshot whose last row nobody will see. `streamer status` says which shards hold rows back, and what they
    wait for. What comes of the snapshot later is applied as single changes: nothing is lost, intervals get wider.
    """
    table_name = load_table(table).name
    with open_consumer(kafka) as consumer:
        n_shards = len(shards_in(consumer, topic_name(table_name, CHANGES)))
    if shard is not None and shard >= n_shards:
        raise UsageError(f"--shard {shard}: {topic_name(table_name, CHANGES)} has the shards 0 to {n_shards - 1}")
    asked = _asked(redis, table_name, range(n_shards) if shard is None else [shard])
    if not asked:
        none = "no shard holds" if shard is None else f"shard {shard} does not hold"
        raise UsageError(f"{none} back rows of a snapshot; `streamer status` says how they stand")
    ask_shards(kafka, table_name, "end-snapshot", asked)
    numbers = [request.shard for request in asked]
    if as_json:
        click.echo(msgspec.json.encode({"ok": True, "table": table_name, "shards": numbers}))
    else:
        say(
            f"the end of its snapshot is told to {shards_named(numbers)} of {table_name}; its worker "
            "publishes what is held back; `streamer status` shows it"
        )


def _asked(redis: str, table_name: str, numbers: range | list[int]) -> list[EndSnapshot]:
    """The requests to those shards that hold rows back."""
    client, found = connect(redis), []
    for number in numbers:
        meta = RedisLookups(client, table_name, number).meta()
        if meta is not None and meta.snapshot is not None and holds_back(meta):
            found.append(EndSnapshot(number, meta.snapshot.since, meta.topic_ids.get(CHANGES, "")))
    return found
