"""`streamer skip`: skips one message of the input, whatever it says.

Refused: a shard that does not exist, and an offset that is not written yet, has expired or is published already.
"""

from __future__ import annotations

import click

from streamer.cli.operate.send_requests import ask_shards, require_shard
from streamer.cli.support.options import command_named, json_option, kafka_option, table_option
from streamer.cli.support.tables import show
from streamer.errors import UsageError
from streamer.incremental.shard.requests import Skip
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import Consumer, last_position, shards_in, watermarks
from streamer.kafka.topics import topic_id
from streamer.table.yaml.loading import load_table


@command_named("skip", "streamer skip --table mine --shard 0 --offset 1234")
@table_option
@kafka_option
@click.option("--shard", type=click.IntRange(min=0), required=True, help="The shard: the message's partition.")
@click.option("--offset", type=click.IntRange(min=0), required=True, help="The message's offset in the input topic.")
@json_option
def command(table: str, kafka: str, shard: int, offset: int) -> None:
    """Skips one message of the input: it becomes a dead letter `skipped` and is not applied.

    For a message that ends its worker each time it is read, because it takes too much memory or time. Other errors
    become dead letters by themselves. The row keeps its former values. The shard reads the request when a worker takes
    it over, that is after the worker is started again.
    """
    table_name = load_table(table).name
    with open_admin(kafka) as admin:
        request = Skip(shard, offset, topic_id(admin, table_name, CHANGES))
    with open_consumer(kafka) as consumer:
        _check(consumer, table_name, request)
    ask_shards(kafka, table_name, "skip", [request])
    said = (
        f"offset {offset} of shard {shard} will be skipped at the next take-over of the shard: start its worker again, "
        "unless a supervisor does"
    )
    show({"table": table_name, "shard": shard, "offset": offset}, [said])


def _check(consumer: Consumer, table_name: str, request: Skip) -> None:
    """Raises UsageError for a message that cannot be skipped."""
    changes = topic_name(table_name, CHANGES)
    partitions = shards_in(consumer, changes)
    require_shard(request.shard, len(partitions), changes)
    of = f"--offset {request.offset}: shard {request.shard}"
    first, end = watermarks(consumer, partitions[request.shard])
    if not first <= request.offset < end:
        holds = f"holds the offsets {first} to {end - 1}" if first < end else "is empty"
        raise UsageError(f"{of} of {changes} {holds}")
    position = last_position(consumer, table_name, request.shard)
    if position is not None and request.offset < position.next:
        raise UsageError(f"{of} is published up to offset {position.next - 1}; an applied message cannot be skipped")
