"""`streamer dead-letters`: what was refused, where and why; never what it said. `retry` has it tried again.

Letters are printed and exported as they stand in the topic: what a letter is, and what they come to, is in
`streamer.cli.letters_seen`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nlargest
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from rich.table import Table as RichTable

from streamer.cli.completion import tables
from streamer.cli.letters_seen import Letter, Tallies, Tally, letter_of, row_of
from streamer.cli.options import examples, json_option, kafka_option
from streamer.cli.retry import command as retry
from streamer.cli.tables import print_table, say, shards_named, so_many
from streamer.errors import UsageError
from streamer.kafka.clients import open_consumer
from streamer.kafka.reading import Consumer, Place, Record, batches, coming, shards_in, watermarks
from streamer.table.yaml_loading import load_table

FOLLOWING_MS = 500
EXPORTED = ("at", *Letter.__struct_fields__)
"""The columns of an exported file."""


@click.group(
    name="dead-letters",
    invoke_without_command=True,
    epilog=examples("streamer dead-letters --table mine", "streamer dead-letters --table mine --follow"),
)
@click.option(
    "--table",
    metavar="TABLE",
    envvar="STREAMER_TABLE",
    show_envvar=True,
    shell_complete=tables,
    help="The table.yaml, or a directory that holds one.",
)
@kafka_option
@click.option("--follow", is_flag=True, help="Go on and print letters as they come, until interrupted.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Latest letters to print.")
@click.option(
    "--export",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all letters into a file, .csv or .jsonl.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context, table: str | None, kafka: str, follow: bool, limit: int, file: Path | None, as_json: bool
) -> None:
    """Counts the dead letters of a table by kind, reason and column, and prints the latest ones.

    With --json: one object; with --follow as well, one more object per line for every letter that comes.
    """
    if ctx.invoked_subcommand is not None:
        if ctx.get_parameter_source("table") is ParameterSource.COMMANDLINE:
            raise UsageError(f"the options of `{ctx.invoked_subcommand}` come behind its name")
        return
    if table is None:
        raise click.MissingParameter(ctx=ctx, param_hint="'--table'", param_type="option")
    topic = f"{load_table(table).name}.dead-letters"
    with open_consumer(kafka, FOLLOWING_MS if follow else 10) as consumer, _exporting(file) as export:
        reach = {place: watermarks(consumer, place) for place in shards_in(consumer, topic)}
        starts = [Place(place.topic, place.partition, first) for place, (first, _) in reach.items()]
        ends = {place: end for place, (_, end) in reach.items()}
        tallies = Tallies()
        passing = _counted(chain.from_iterable(batches(consumer, starts, ends)), tallies, export)
        latest = [letter_of(record) for record in reversed(nlargest(limit, passing, key=_age))]
        _print(topic, tallies, latest, as_json)
        if follow:
            _follow(consumer, ends, export, as_json)


command.add_command(retry)

Export = Callable[[Letter, int], None]
"""Takes a letter, and when it was written, in milliseconds since 1970."""


@contextmanager
def _exporting(path: Path | None) -> Iterator[Export]:
    """Writes letters into a file, by its suffix; without one, nowhere. Raises UsageError."""
    if path is None:
        yield lambda letter, at: None
        return
    if path.suffix not in (".csv", ".jsonl"):
        raise UsageError(f"--export {path}: the suffix says the format, and is .csv or .jsonl")
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"--export {path}: cannot be written: {error.strerror}") from None
    with file:
        write = _csv_lines(file) if path.suffix == ".csv" else _json_lines(file)
        yield lambda letter, at: write(row_of(letter, at))


def _csv_lines(file: Any) -> Callable[[dict[str, Any]], None]:
    lines = csv.DictWriter(file, EXPORTED)
    lines.writeheader()
    return lines.writerow


def _json_lines(file: Any) -> Callable[[dict[str, Any]], None]:
    def write(row: dict[str, Any]) -> None:
        file.write(msgspec.json.encode(row).decode() + "\n")
        file.flush()

    return write


def _counted(records: Iterator[Record], tallies: Tallies, export: Export) -> Iterator[Record]:
    for record in records:
        letter = letter_of(record)
        tallies.add(letter, _at(record))
        export(letter, _at(record))
        yield record


def _age(record: Record) -> tuple[int, int, int]:
    """Order over all shards: by Kafka's time, then by place."""
    return _at(record), record.partition(), record.offset()


def _at(record: Record) -> int:
    """When it was written, in milliseconds since 1970."""
    return int(record.timestamp()[1])


def _follow(consumer: Consumer, ends: Mapping[Place, int], export: Export, as_json: bool) -> None:
    for record in chain.from_iterable(coming(consumer, ends)):
        letter = letter_of(record)
        export(letter, _at(record))
        click.echo(msgspec.json.encode(letter) if as_json else " ".join(_cells(letter)))


def _print(topic: str, tallies: Tallies, latest: list[Letter], as_json: bool) -> None:
    counts = tallies.most_common()
    if as_json:
        click.echo(msgspec.json.encode({"topic": topic, "total": tallies.total, "reasons": counts, "latest": latest}))
        return
    say(f"{so_many(tallies.total, 'dead letter')} in {topic}")
    for one in counts:
        say(f"  {_told(one)}")
    if latest:
        letters = RichTable("shard", "offset", "kind", "reason", "column", "detail", title=f"the latest {len(latest)}")
        for letter in latest:
            letters.add_row(*_cells(letter))
        print_table(letters)


def _told(one: Tally) -> str:
    """A tally in a sentence: in a table, its two times alone would fill a line of a terminal."""
    column = f", column {one.column}" if one.column else ""
    when = one.first if one.first == one.last else f"{one.first} to {one.last}"
    example = f"offset {one.example['offset']} of shard {one.example['partition']}"
    return f"{one.letters:,} {one.kind}: {one.reason}{column}; {shards_named(one.shards)}; {when}; one is {example}"


def _cells(letter: Letter) -> tuple[str, ...]:
    detail = letter.detail if letter.rows is None else f"{letter.detail} ({so_many(letter.rows, 'row')})"
    return str(letter.partition), str(letter.offset), letter.kind, letter.reason, letter.column or "-", detail
