"""`streamer produce`: rows, messages and statements into the table's input topic.

Message keys are written in the form that the input has; what an input in doubt would refuse is not sent. A file is
what its name says, or --format; what is neither is refused, not sent line by line. Messages of one file keep their
order within a shard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain, islice
from time import monotonic, sleep

import click
import msgspec
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamer.cli.key_form_seen import key_form_seen
from streamer.cli.options import json_option, kafka_option, table_option
from streamer.cli.routing import TRUNCATE, Router, RowMessage, Statement
from streamer.cli.sender import Sender, Sent
from streamer.errors import UsageError
from streamer.incremental.events.decoder import STATEMENT_ID_CHARS_MAX
from streamer.incremental.events.key_form import form_unless_told
from streamer.incremental.kafka_clients import reaching
from streamer.incremental.message_files import read_messages_of_objects
from streamer.incremental.schema_registry import registry_from
from streamer.incremental.shard.input import Message
from streamer.table.files import STDIN, is_named, read_rows
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table

BURST_MESSAGES_MAX = 500
BURSTS_PER_SECOND = 50
ROW_FILES, MESSAGE_FILES = (".csv", ".tsv"), (".jsonl", ".ndjson")
ROWS_LIE_ELSEWHERE = (
    "table.yaml says `input: {partitioner: stated}`, so rows lie where their own producer places them, and not where "
    "murmur2 would: send them through that producer; statements can be sent"
)

Messages = Iterator[RowMessage | Statement]


def _send_all(
    sender: Sender, messages: Iterator[RowMessage | Statement], rate: float | None, advance: Callable[[int], None]
) -> None:
    """Sends all messages, at most `rate` a second, in bursts of equal distance."""
    burst = BURST_MESSAGES_MAX if rate is None else max(1, int(rate / BURSTS_PER_SECOND))
    started, done = monotonic(), 0
    while some := list(islice(messages, burst)):
        for message in some:
            sender.send(message)
        done += len(some)
        advance(len(some))
        if rate is not None:
            sleep(max(0.0, started + done / rate - monotonic()))
    sender.flush()


@click.command(name="produce")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@table_option
@kafka_option
@click.option(
    "--format", "said_format", type=click.Choice(["csv", "jsonl"]), help="What FILE holds, whatever its name."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages per second [default: no limit].")
@click.option("--limit", type=click.IntRange(min=0), help="Send the first N rows or lines of FILE only.")
@click.option("--statement-id", metavar="ID", help="Id of the statement; repeats one that was sent before.")
@click.option("--truncate", is_flag=True, help="First remove all rows, in every shard.")
@json_option
def command(
    file: str | None,
    table: str,
    kafka: str,
    said_format: str | None,
    rate: float | None,
    limit: int | None,
    statement_id: str | None,
    truncate: bool,
    as_json: bool,
) -> None:
    """Sends FILE to the input topic of a table.

    FILE is a CSV file of rows (.csv or .tsv; they become insertions), or JSON lines (.jsonl or .ndjson): plain or
    Debezium events, statements, or {"key": ..., "value": ...}. Either may be packed (.gz); "-" is stdin, JSON lines
    unless --format csv says otherwise. Message keys are written as the topic's other messages have them.
    """
    if file is None and not truncate:
        raise UsageError("nothing to send: name a FILE, or say --truncate")
    if statement_id is not None and not 0 < len(statement_id) <= STATEMENT_ID_CHARS_MAX:
        raise UsageError(f"--statement-id: a text of 1 to {STATEMENT_ID_CHARS_MAX} characters")
    schema = load_table(table)
    said = None if file is None else _read(file, said_format, limit)
    hidden = as_json or not sys.stderr.isatty()
    columns = (TextColumn("produce"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    started = monotonic()
    with reaching(kafka), ExitStack() as connections:
        sender = Sender(kafka, f"{schema.name}.changes", statement_id, connections)
        messages = chain((TRUNCATE,) if truncate else (), () if said is None else _routed(said, schema, sender))
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
            task = progress.add_task("produce", total=None)
            _send_all(sender, messages, rate, lambda count: progress.advance(task, count))
        sender.sent.seconds = round(monotonic() - started, 3)
    _print(sender.sent, as_json)


def _read(file: str, said_format: str | None, limit: int | None) -> pd.DataFrame | Iterator[Message]:
    """What FILE holds, up to `limit` rows or lines of it."""
    if _format_of(file, said_format) == "jsonl":
        return islice(read_messages_of_objects(file), limit)
    rows = read_rows(file)
    return rows if limit is None else rows.head(limit)


def _format_of(file: str, said_format: str | None) -> str:
    if said_format is not None:
        return said_format
    if is_named(file, *ROW_FILES):
        return "csv"
    if file == STDIN or is_named(file, *MESSAGE_FILES):
        return "jsonl"
    names = ", ".join(ROW_FILES + MESSAGE_FILES)
    raise UsageError(f"{file}: its name says not what it holds ({names}, also with .gz): say --format csv or jsonl")


def _routed(said: pd.DataFrame | Iterator[Message], table: Table, sender: Sender) -> Messages:
    """What is to be sent, under message keys as the input has them."""
    schemas = registry_from()
    key_form = key_form_seen(sender.consumer, sender.sent.topic, table, schemas)
    sender.sent.key_form = (key_form or form_unless_told(table.source_key)).name
    sender.sent.key_form_seen = key_form is not None
    router = Router(table, key_form, schemas.known)
    rows_lie_elsewhere = table.partitioner_stated and sender.sent.shards > 1
    if isinstance(said, pd.DataFrame):
        if rows_lie_elsewhere:
            raise UsageError(ROWS_LIE_ELSEWHERE)
        return router.insertions(said)
    messages = chain.from_iterable(router.route(line.key, line.value) for line in said)
    return _statements_only(messages) if rows_lie_elsewhere else messages


def _statements_only(messages: Messages) -> Messages:
    for message in messages:
        if isinstance(message, RowMessage):
            raise UsageError(ROWS_LIE_ELSEWHERE)
        yield message


def _print(sent: Sent, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(asdict(sent)))
        return
    per_second = sent.messages / sent.seconds if sent.seconds else 0.0
    click.echo(f"{sent.messages:,} messages to {sent.topic} in {sent.seconds:.1f} s ({per_second:,.0f} a second)")
    click.echo(f"  about rows: {sent.rows:,}; statements, to {sent.shards} shards each: {sent.statements:,}")
    if sent.key_form:
        told = "" if sent.key_form_seen else ", as no message of the topic tells another form"
        click.echo(f"  message keys: {sent.key_form}{told}")
    if sent.unrouted:
        click.echo(f"  whose row could not be told, or not in this form (they become dead letters): {sent.unrouted:,}")
    for statement_id in sent.statement_ids:
        click.echo(f"  statement id: {statement_id}")
