"""`streamer skip`: has one message of the input passed over, whatever it says.

The rules of this file
----------------------
* For a message that ends its worker again and again, by its memory or by its time. It becomes a dead letter `skipped`
  when the shard is taken over next. Errors that a worker survives become dead letters by themselves.
* What cannot be right is refused: a shard that does not exist, an offset that was not written yet or has expired, one
  that is published already.
"""

from __future__ import annotations

import click
import msgspec

from streamer.cli.operate.send_requests import ask_shards
from streamer.cli.support.options import examples, json_option, kafka_option, table_option
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.incremental.shard.requests import Skip
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import Consumer, last_position, shards_in, watermarks
from streamer.kafka.topics import topic_id
from streamer.table.yaml.loading import load_table


@click.command(name="skip", epilog=examples("streamer skip --table mine --shard 0 --offset 1234"))
@table_option
@kafka_option
@click.option("--shard", type=click.IntRange(min=0), required=True, help="The shard: the message's partition.")
@click.option("--offset", type=click.IntRange(min=0), required=True, help="The message's offset in the input topic.")
@json_option
def command(table: str, kafka: str, shard: int, offset: int, as_json: bool) -> None:
    """Has one message of the input passed over: it becomes a dead letter and is never applied.

    For a message that ends its worker each time it is read. Its row keeps what it had before; the shard reads the
    request when it is taken over next, that is when the worker has been started again.
    """
    table_name = load_table(table).name
    with open_admin(kafka) as admin:
        request = Skip(shard, offset, topic_id(admin, table_name, CHANGES))
    with open_consumer(kafka) as consumer:
        _check(consumer, table_name, request)
    ask_shards(kafka, table_name, "skip", [request])
    if as_json:
        click.echo(msgspec.json.encode({"table": table_name, "shard": shard, "offset": offset}))
    else:
        say(
            f"offset {offset} of shard {shard} will be passed over when the shard is taken over next: "
            "start its worker again where nothing else does"
        )


def _check(consumer: Consumer, table_name: str, request: Skip) -> None:
    """Raises UsageError for a request that cannot be right."""
    changes = topic_name(table_name, CHANGES)
    places = shards_in(consumer, changes)
    if request.shard >= len(places):
        raise UsageError(f"--shard {request.shard}: {changes} has the shards 0 to {len(places) - 1}")
    place = places[request.shard]
    first, end = watermarks(consumer, place)
    if not first <= request.offset < end:
        raise UsageError(
            f"--offset {request.offset}: shard {request.shard} of {changes} holds the offsets {first} to {end - 1}"
            if first < end
            else f"--offset {request.offset}: shard {request.shard} of {changes} is empty"
        )
    position = last_position(consumer, table_name, request.shard)
    reached = position.next if position else 0
    if request.offset < reached:
        raise UsageError(
            f"--offset {request.offset}: shard {request.shard} is published up to offset {reached - 1}; what was "
            "applied cannot be passed over any more"
        )
