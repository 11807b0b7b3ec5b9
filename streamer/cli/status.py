"""`streamer status`: where every shard of a table stands, by what Redis, the output and the input say.

The rules of this file
----------------------
* Cheap: counts and last records only, no shard is loaded.
* Redis and Kafka cannot be read at one moment. What a shard holds is read before and after its published position: only
  where both readings agree are they compared, by the very rules a worker holds them to when it takes the shard over. A
  shard that moved meanwhile is at work.
* messages = applied + ignored + dead letters, and every message has an offset of its own below `next`; offsets
  without a message are markers of Kafka's transactions (statements are sent in transactions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import click
import msgspec
from kafka import KafkaConsumer, TopicPartition
from rich.table import Table as RichTable

from streamer.cli.options import json_option, kafka_option, redis_option, table_option
from streamer.cli.tables import print_table
from streamer.errors import ShardRefused
from streamer.incremental.kafka_clients import open_consumer, records_until, shards_in
from streamer.incremental.last_record import last_value
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.standing import Standing, compare
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, Sizes, shards_of
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, POSITIONS, topic_name
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table

COUNTS = ("lag", "rows", "pending", "qi_groups", "outbox", "messages", "applied", "ignored", "dead_letters")


@dataclass(frozen=True, slots=True)
class InRedis:
    """What Redis holds of one shard; meta None: it never committed."""

    meta: Meta | None
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class InKafka:
    """What Kafka holds of one shard; position None: it never published."""

    input_state: InputState
    position: Position | None


@click.command(name="status")
@table_option
@kafka_option
@redis_option
@json_option
def command(table: str, kafka: str, redis: str, as_json: bool) -> None:
    """Shows where every shard of a table stands, and what does not fit together."""
    schema = load_table(table)
    client = connect(redis)
    with open_consumer(kafka) as consumer:
        places = shards_in(consumer, topic_name(schema.name, CHANGES))
        stores = [RedisLookups(client, schema.name, place.partition) for place in places]
        before = [store.meta() for store in stores]
        in_kafka = _in_kafka(consumer, schema.name, places)
        in_redis = [InRedis(store.meta(), store.sizes()) for store in stores]
    shards = []
    for number, (was, now, kafka_says) in enumerate(zip(before, in_redis, in_kafka, strict=True)):
        problems = _problems(schema, number, now, kafka_says) if was == now.meta else []
        shards.append(_described(number, now, kafka_says, problems))
    foreign = sorted(set(shards_of(client, schema.name)) - set(range(len(places))))
    problems = [f"Redis holds a shard {number}, the input has {len(places)} partitions" for number in foreign]
    _print(schema.name, shards, problems, as_json)


# -- looking ------------------------------------------------------------------------------------------------------


def _in_kafka(consumer: KafkaConsumer, table_name: str, places: Sequence[TopicPartition]) -> list[InKafka]:
    positions = _last_positions(consumer, topic_name(table_name, POSITIONS))
    first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
    # The client library cannot ask for the topic's id: that it is still the one in Redis, the worker checks.
    return [
        InKafka(InputState({}, len(places), first[place], end[place]), positions.get(place.partition))
        for place in places
    ]


def _last_positions(consumer: KafkaConsumer, topic: str) -> dict[int, Position]:
    """The last committed position of every shard that has one."""
    partitions = shards_in(consumer, topic)
    first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    positions: dict[int, Position] = {}
    for one in partitions:
        value = last_value(first[one], end[one], partial(_values, consumer, one, end[one]))
        if value is not None:
            positions[one.partition] = Position.from_json(value)
    return positions


def _values(consumer: KafkaConsumer, one: TopicPartition, end: int, start: int) -> Iterator[bytes]:
    consumer.assign([one])
    consumer.seek(one, start)
    return (record.value for record in records_until(consumer, {one: end}))


# -- judging ------------------------------------------------------------------------------------------------------

_REMEDY = {
    Standing.AHEAD: "the next worker publishes it",
    Standing.BEHIND: "the next worker repeats them from the input",
    Standing.EMPTIED: "the next worker publishes it",
}


def _problems(table: Table, number: int, in_redis: InRedis, in_kafka: InKafka) -> list[str]:
    """What does not fit, of a shard at rest; empty where all is well."""
    meta, position, input_state = in_redis.meta, in_kafka.position, in_kafka.input_state
    if meta is None:
        return [] if position is None else [f"shard {number}: published up to {position.next}, but Redis holds nothing"]
    problems = []
    try:
        standing = compare(table, number, meta, position, input_state)
        if standing is not Standing.LEVEL:
            problems.append(f"shard {number}: {standing.value}; {_REMEDY[standing]}")
        elif in_redis.sizes.outbox:
            problems.append(f"shard {number}: {in_redis.sizes.outbox} records are published and still in the outbox")
    except ShardRefused as refused:
        problems.append(str(refused))
    if meta.counts.messages > meta.next:
        problems.append(
            f"shard {number}: counts {meta.counts.messages} messages, but only {meta.next} offsets were read"
        )
    return problems


# -- showing ------------------------------------------------------------------------------------------------------


def _described(number: int, in_redis: InRedis, in_kafka: InKafka, problems: list[str]) -> dict[str, Any]:
    meta, sizes, position = in_redis.meta or Meta(), in_redis.sizes, in_kafka.position
    return {
        "shard": number,
        "stored": in_redis.meta and {"commit": meta.commit, "next": meta.next, "release": meta.release},
        "published": position and {"commit": position.commit, "next": position.next, "release": position.release},
        "input_end": in_kafka.input_state.end,
        "lag": max(0, in_kafka.input_state.end - meta.next),
        "rows": sizes.records,
        "pending": 0 if sizes.qi_groups else sizes.records,  # rows wait only where there is no QI group to join
        "qi_groups": sizes.qi_groups,
        "outbox": sizes.outbox,
        "offsets_read": meta.next,
        "messages": meta.counts.messages,
        **asdict(meta.counts),
        "problems": problems,
    }


def _print(table_name: str, shards: list[dict[str, Any]], problems: list[str], as_json: bool) -> None:
    total = {name: sum(shard[name] for shard in shards) for name in (*COUNTS, "offsets_read")}
    problems = [*(problem for shard in shards for problem in shard["problems"]), *problems]
    if as_json:
        report = {"table": table_name, "shards": shards, "total": total, "problems": problems}
        click.echo(msgspec.json.encode(report))
        return
    columns = ("shard", "commit", "next", "release", "published", *(name.replace("_", " ") for name in COUNTS))
    lines = RichTable(*columns, title=table_name)
    for shard in shards:
        stored, published = shard["stored"] or {}, shard["published"] or {}
        standing = [str(stored.get(name, "-")) for name in ("commit", "next", "release")]
        lines.add_row(
            str(shard["shard"]), *standing, str(published.get("commit", "-")), *(f"{shard[name]:,}" for name in COUNTS)
        )
    lines.add_row("all", "", "", "", "", *(f"{total[name]:,}" for name in COUNTS))
    print_table(lines)
    click.echo(_account(total))
    for problem in problems or ["everything fits together"]:
        click.echo(problem)


def _account(total: dict[str, int]) -> str:
    """The checked line: every offset that was read is accounted for."""
    without = total["offsets_read"] - total["messages"]
    verdict = "ok" if without >= 0 else "DOES NOT ADD UP"
    markers = f"; {without:,} more offsets hold no message (transaction markers)" if without > 0 else ""
    return (
        f"messages in: {total['messages']:,} = applied {total['applied']:,} + ignored {total['ignored']:,} + dead "
        f"letters {total['dead_letters']:,}: {verdict}{markers}"
    )
