"""`streamer dead-letters`: what was refused, where and why; never what it said. `retry` has it tried again.

Letters are printed and exported as they stand in the topic: what a letter is, and what they come to, is in
`streamer.status.collect`.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import chain
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from rich.table import Table as RichTable

from streamer.cli.operate.send_requests import ask_shards
from streamer.cli.support.options import examples, json_option, kafka_option, optional_table_option, table_option
from streamer.cli.support.tables import plural, print_table, say, shards_named
from streamer.errors import UsageError
from streamer.incremental.events.registered_schemas import schema_ids
from streamer.incremental.shard.answers import Retrial
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import RETRIES_MAX, Retry
from streamer.incremental.shard.steps import REFUSED_AGAIN, RETRIED, SUPERSEDED
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, topic_name
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import (
    Consumer,
    Place,
    Record,
    batches,
    coming,
    last_position,
    records,
    shards_in,
    watermarks,
)
from streamer.kafka.registry import registry_from
from streamer.kafka.topics import topic_id
from streamer.status.collect import Letter, LetterCount, Tallies, letter_of, row_of, standing_refused
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

# `streamer dead-letters retry`: has refused messages tried again, which can be applied by now.
#
# * What is asked for is a list of offsets, one record of the control topic per shard; no value of a message is read
#   here, but by --dry-run, nor kept anywhere. The worker that holds the shard reads the messages in the input, and
#   applies what is not superseded (`streamer.incremental.shard.answers`). Its answers are letters, too.
# * Only messages that are refused to this day are asked for: by their last letter, no matter how often they were tried.
# * What cannot be right is refused here, before anything is written: an offset that has no such letter, more messages
#   than a shard may have tried again.

Chosen = Mapping[int, Sequence[Letter]]
"""By shard, the letters whose messages are to be tried again, by offset."""


@click.command(
    name="retry",
    epilog=examples(
        "streamer dead-letters retry --table mine --dry-run",
        "streamer dead-letters retry --table mine --reason internal-error",
    ),
)
@table_option
@kafka_option
@click.option("--reason", help="Only what was refused for this reason.")
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option("--offset", "offsets", type=click.IntRange(min=0), multiple=True, help="Only this message of --shard.")
@click.option(
    "--dry-run", is_flag=True, help="Ask for nothing; say what is superseded, and what cannot be decoded now."
)
@json_option
def retry_command(
    table: str,
    kafka: str,
    reason: str | None,
    shard: int | None,
    offsets: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Has refused messages tried again, each applied once at most, and never over what came later for its row.

    For messages that another version of streamer can read, or that were passed over by an error or by `streamer skip`.
    What a change of table.yaml makes acceptable needs no retry: the table begins anew then, and reads everything again.
    """
    if offsets and shard is None:
        raise UsageError("--offset goes with --shard")
    schema = load_table(table)
    with open_consumer(kafka) as consumer:
        places = shards_in(consumer, topic_name(schema.name, DEAD_LETTERS))
        if shard is not None and shard >= len(places):
            raise UsageError(f"--shard {shard}: {schema.name} has the shards 0 to {len(places) - 1}")
        chosen = _chosen(consumer, [place for place in places if shard in (None, place.partition)], reason, offsets)
        if dry_run:
            _print_answers(_forecast(consumer, schema, chosen), as_json)
            return
    _send(kafka, schema.name, chosen)
    _print_sent(schema.name, chosen, as_json)


# -- which ones -----------------------------------------------------------------------------------------------------


def _chosen(consumer: Consumer, places: Sequence[Place], reason: str | None, offsets: Sequence[int]) -> Chosen:
    """The letters that stand, of these shards; raises UsageError where one that is named does not, or for too many."""
    chosen: dict[int, Sequence[Letter]] = {}
    for place in places:
        letters = map(letter_of, records(consumer, place, *watermarks(consumer, place)))
        standing = chosen_of(letters, reason, offsets)
        if missing := sorted(set(offsets) - {letter.offset for letter in standing}):
            raise UsageError(
                f"--offset {missing[0]}: no message at this offset of shard {place.partition} is refused"
                f"{f' for {reason}' if reason else ''}: `streamer dead-letters` lists those that are"
            )
        if len(standing) > RETRIES_MAX:
            raise UsageError(
                f"shard {place.partition}: {len(standing):,} messages, and {RETRIES_MAX:,} may be tried again at most: "
                "choose by --reason or --offset, or `streamer reload --from-source topic` reads all of them again"
            )
        if standing:
            chosen[place.partition] = standing
    return chosen


def chosen_of(letters: Iterable[Letter], reason: str | None, offsets: Sequence[int]) -> list[Letter]:
    """Of one shard's letters, in the order they were written, those that stand and are asked for, by offset."""
    named = (letter for letter in letters if not offsets or letter.offset in offsets)
    standing = standing_refused(named).values()
    return sorted((one for one in standing if reason in (None, one.reason)), key=lambda one: one.offset)


def _send(kafka: str, table_name: str, chosen: Chosen) -> None:
    with open_admin(kafka) as admin:
        input_id = topic_id(admin, table_name, CHANGES)
    requests = [
        Retry(shard, token_hex(8), int(time()), tuple(letter.offset for letter in letters), input_id)
        for shard, letters in chosen.items()
    ]
    ask_shards(kafka, table_name, "retry", requests)


# -- what becomes of them -------------------------------------------------------------------------------------------


def _forecast(consumer: Consumer, table: Table, chosen: Chosen) -> list[Letter]:
    """What a worker would answer, as far as the messages tell: what its rows say, only the worker knows."""
    inputs = shards_in(consumer, topic_name(table.name, CHANGES))
    forecast, schemas = [], registry_from()
    for shard, letters in chosen.items():
        position = _position(consumer, table.name, shard)
        meta = Meta(next=position.next, shards=len(inputs), skipped=position.skipped, retried=position.retried)
        retrial = Retrial(table, [letter.offset for letter in letters], meta, schemas.known)
        place = inputs[shard]
        found = records(consumer, place, max(retrial.next, watermarks(consumer, place)[0]), position.next)
        messages = [Message(one.offset() or 0, one.key(), one.value()) for one in found]
        schemas.learn(schema_ids((message.key, message.value) for message in messages))
        retrial.see(messages, position.next)
        for judged in retrial.judged():
            why = judged.refusal
            kind = RETRIED if why is None else SUPERSEDED if why.reason == SUPERSEDED else REFUSED_AGAIN
            detail = why.detail if why else "it would be applied, if its row allows it"
            column = why.column if why else None
            forecast.append(Letter(kind, why.reason if why else RETRIED, detail, shard, judged.offset, column))
    return forecast


def _position(consumer: Consumer, table_name: str, shard: int) -> Position:
    """The last position of a shard that has written letters."""
    position = last_position(consumer, table_name, shard)
    if position is None:
        raise UsageError(f"shard {shard} has not published anything since its positions were made anew")
    return position


# -- for people -------------------------------------------------------------------------------------------------------


def _print_sent(table_name: str, chosen: Chosen, as_json: bool) -> None:
    n = sum(map(len, chosen.values()))
    if as_json:
        shards = {str(shard): [letter.offset for letter in letters] for shard, letters in chosen.items()}
        click.echo(msgspec.json.encode({"table": table_name, "asked": n, "offsets": shards}))
    elif not n:
        say("no message is refused that could be tried again")
    else:
        say(
            f"{plural(n, 'message')} will be tried again by the workers that hold {shards_named(chosen)}: "
            "`streamer dead-letters` says what became of them"
        )


def _print_answers(answers: Sequence[Letter], as_json: bool) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for letter in answers:
        counts[letter.kind][letter.reason] += 1
    if as_json:
        said: dict[str, Any] = {kind: counts[kind].total() for kind in (RETRIED, SUPERSEDED, REFUSED_AGAIN)}
        click.echo(msgspec.json.encode({**said, "messages": answers}))
        return
    say(", ".join(f"{kind}: {of.total():,}" for kind, of in counts.items()) or "nothing to be tried again")
    if answers:
        lines = RichTable("shard", "offset", "answer", "reason", "detail")
        for letter in answers:
            lines.add_row(str(letter.partition), str(letter.offset), letter.kind, letter.reason, letter.detail)
        print_table(lines)


FOLLOWING_MS = 500
EXPORTED = ("at", *Letter.__struct_fields__)
"""The columns of an exported file."""


@click.group(
    name="dead-letters",
    invoke_without_command=True,
    epilog=examples("streamer dead-letters --table mine", "streamer dead-letters --table mine --follow"),
)
@optional_table_option
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


command.add_command(retry_command)

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
    say(f"{plural(tallies.total, 'dead letter')} in {topic}")
    for one in counts:
        say(f"  {_told(one)}")
    if latest:
        letters = RichTable("shard", "offset", "kind", "reason", "column", "detail", title=f"the latest {len(latest)}")
        for letter in latest:
            letters.add_row(*_cells(letter))
        print_table(letters)


def _told(one: LetterCount) -> str:
    """A tally in a sentence: in a table, its two times alone would fill a line of a terminal."""
    column = f", column {one.column}" if one.column else ""
    when = one.first if one.first == one.last else f"{one.first} to {one.last}"
    example = f"offset {one.example['offset']} of shard {one.example['partition']}"
    return f"{one.letters:,} {one.kind}: {one.reason}{column}; {shards_named(one.shards)}; {when}; one is {example}"


def _cells(letter: Letter) -> tuple[str, ...]:
    detail = letter.detail if letter.rows is None else f"{letter.detail} ({plural(letter.rows, 'row')})"
    return str(letter.partition), str(letter.offset), letter.kind, letter.reason, letter.column or "-", detail
