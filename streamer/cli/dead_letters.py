"""`streamer dead-letters`: what was refused, where and why; never what it said.

A letter holds coordinates (shard and offset of the input), a reason and the column at fault. Of kind "refused": the
message was not applied. Of kind "partial": a statement was applied, and some of its rows kept their old values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

import click
import msgspec
from kafka import KafkaConsumer
from kafka.consumer.fetcher import ConsumerRecord
from rich.table import Table as RichTable

from streamer.cli.options import json_option, kafka_option, table_option
from streamer.cli.tables import print_table
from streamer.incremental.kafka_clients import open_consumer, records_until, shards_in
from streamer.table.yaml_loading import load_table

POLL_MS = 500


class Letter(msgspec.Struct, frozen=True):
    """One dead letter; partition and offset: where the message stands in the input topic."""

    kind: str
    reason: str
    detail: str
    partition: int
    offset: int
    column: str | None = None
    rows: int | None = None


@click.command(name="dead-letters")
@table_option
@kafka_option
@click.option("--follow", is_flag=True, help="Go on and print letters as they come, until interrupted.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Latest letters to print.")
@json_option
def command(table: str, kafka: str, follow: bool, limit: int, as_json: bool) -> None:
    """Counts the dead letters of a table by reason and prints the latest ones.

    With --json: one object; with --follow as well, one more object per line for every letter that comes.
    """
    topic = f"{load_table(table).name}.dead-letters"
    with open_consumer(kafka) as consumer:
        places = shards_in(consumer, topic)
        consumer.assign(places)
        consumer.seek_to_beginning()
        reasons: Counter[tuple[str, str]] = Counter()
        records = nlargest(limit, _counted(records_until(consumer, consumer.end_offsets(places)), reasons), key=_age)
        _print(topic, reasons, [_letter(record) for record in reversed(records)], as_json)
        if follow:
            _follow(consumer, as_json)


def _counted(records: Iterator[ConsumerRecord], reasons: Counter[tuple[str, str]]) -> Iterator[ConsumerRecord]:
    for record in records:
        letter = _letter(record)
        reasons[letter.kind, letter.reason] += 1
        yield record


def _age(record: ConsumerRecord) -> tuple[int, int, int]:
    """Order over all shards: by Kafka's time, then by place."""
    return record.timestamp, record.partition, record.offset


def _letter(record: ConsumerRecord) -> Letter:
    try:
        return msgspec.json.decode(record.value or b"", type=Letter)
    except msgspec.DecodeError:
        detail = "somebody else wrote this record of the dead-letters topic"
        return Letter("foreign", "not-a-dead-letter", detail, record.partition, record.offset)


def _follow(consumer: KafkaConsumer, as_json: bool) -> None:
    while True:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            for letter in map(_letter, records):
                click.echo(msgspec.json.encode(letter) if as_json else " ".join(_cells(letter)))


def _print(topic: str, reasons: Counter[tuple[str, str]], latest: list[Letter], as_json: bool) -> None:
    counts = [{"kind": kind, "reason": reason, "letters": n} for (kind, reason), n in reasons.most_common()]
    if as_json:
        click.echo(msgspec.json.encode({"topic": topic, "total": reasons.total(), "reasons": counts, "latest": latest}))
        return
    click.echo(f"{reasons.total():,} dead letters in {topic}")
    for count in counts:
        click.echo(f"{count['letters']:>10,}  {count['kind']}: {count['reason']}")
    if latest:
        letters = RichTable("shard", "offset", "kind", "reason", "column", "detail", title=f"the latest {len(latest)}")
        for letter in latest:
            letters.add_row(*_cells(letter))
        print_table(letters)


def _cells(letter: Letter) -> tuple[str, ...]:
    detail = letter.detail if letter.rows is None else f"{letter.detail} ({letter.rows} rows)"
    return str(letter.partition), str(letter.offset), letter.kind, letter.reason, letter.column or "-", detail
