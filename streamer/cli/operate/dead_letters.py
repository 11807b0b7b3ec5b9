"""`streamer dead-letters`: which messages were refused, where and why, without their values. `retry` tries them again.

`acknowledge` says that they are seen to. Letters are printed and exported as they are in the topic;
`streamer.status.collect` says what a letter is.
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

import click
import msgspec
from click.core import ParameterSource
from rich.table import Table as Grid

from streamer.cli.operate.send_requests import ask_shards, require_shard
from streamer.cli.support.next_call import KAFKA, say_next
from streamer.cli.support.options import (
    command_named,
    examples,
    json_option,
    kafka_option,
    optional_table_option,
    table_option,
)
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.tables import Line, as_json, filled, plural, shards_named, show
from streamer.errors import UsageError
from streamer.incremental.events.registered_schemas import schema_ids
from streamer.incremental.remedies import OF_DEAD_LETTERS
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.requests import RETRIES_MAX, Retry
from streamer.incremental.shard.retrial import Retrial
from streamer.incremental.shard.steps import ACKNOWLEDGED, REFUSED_AGAIN, RETRIED, SUPERSEDED, Coordinates, acknowledged
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, topic_name
from streamer.kafka import reading
from streamer.kafka.clients import open_admin, open_consumer, open_writer
from streamer.kafka.reading import Consumer, Place, Record, shards_in, watermarks
from streamer.kafka.registry import registry_from
from streamer.kafka.topics import topic_id
from streamer.status.collect import TRUNCATION, Letter, LetterCount, Tallies, letter_of, row_of, standing_refused
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

# -- retry ------------------------------------------------------------------------------------------------------------
#
# * A request is a list of offsets, one record of the control topic per shard. The worker that holds the shard reads the
#   messages in the input and applies those that are not superseded (`streamer.incremental.shard.retrial`). Its answers
#   are letters, too. Only --dry-run reads messages here.
# * Only messages are chosen whose last letter is a refusal.
# * An offset without such a letter, and more messages than a shard may retry, are refused before anything is written.

Chosen = Mapping[int, Sequence[Letter]]  # letters whose messages are to be retried, by shard, sorted by offset


@command_named(
    "retry",
    "streamer dead-letters retry --table mine --dry-run",
    "streamer dead-letters retry --table mine --reason internal-error",
    short_help="Tries refused messages again.",
)
@table_option
@kafka_option
@click.option("--reason", help="Only messages refused for this reason.")
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option("--offset", "offsets", type=click.IntRange(min=0), multiple=True, help="Only this message of --shard.")
@click.option(
    "--dry-run", is_flag=True, help="Change nothing; say what is superseded, and what still cannot be decoded."
)
@json_option
def retry_command(
    table: str, kafka: str, reason: str | None, shard: int | None, offsets: tuple[int, ...], dry_run: bool
) -> None:
    """Tries refused messages again; each is applied at most once, and never over a later message of its row.

    For messages that this version of streamer can read, or that an error or `streamer skip` has skipped. After a change
    of table.yaml no retry is needed: `streamer reload --from-source topic` reads everything again.
    """
    if offsets and shard is None:
        raise UsageError("--offset goes with --shard")
    schema = load_table(table)
    with open_consumer(kafka) as consumer:
        partitions = shards_in(consumer, topic_name(schema.name, DEAD_LETTERS))
        require_shard(shard, len(partitions), schema.name)
        chosen = _chosen(consumer, [one for one in partitions if shard in (None, one.partition)], reason, offsets)
        if dry_run:
            _show_answers(_forecast(consumer, schema, chosen))
            if chosen:
                say_next(["dead-letters", "retry", "--table", table, KAFKA])
            return
    _send(kafka, schema.name, chosen)
    n, by_shard = sum(map(len, chosen.values())), {str(shard): _offsets(letters) for shard, letters in chosen.items()}
    said = (
        f"{plural(n, 'message')} will be retried by the workers that hold {shards_named(chosen)}: "
        "`streamer dead-letters` shows the results"
    )
    said = said if n else "there is no refused message to retry"
    show({"table": schema.name, "asked": n, "offsets": by_shard}, [said])


def _offsets(letters: Iterable[Letter]) -> tuple[int, ...]:
    return tuple(letter.offset for letter in letters)


def _chosen(consumer: Consumer, partitions: Sequence[Place], reason: str | None, offsets: Sequence[int]) -> Chosen:
    """The letters to retry. Raises UsageError if an offset has none, or if a shard has too many."""
    chosen: dict[int, Sequence[Letter]] = {}
    for partition in partitions:
        shard = partition.partition
        letters = map(letter_of, reading.records(consumer, partition, *watermarks(consumer, partition)))
        standing = chosen_of(letters, reason, offsets)
        if missing := sorted({*offsets} - {*_offsets(standing)}):
            raise UsageError(
                f"--offset {missing[0]}: shard {shard} has no refused message at this offset"
                f"{f' with reason {reason}' if reason else ''}; `streamer dead-letters` lists refused messages"
            )
        if len(standing) > RETRIES_MAX:
            raise UsageError(
                f"shard {shard}: {len(standing):,} messages, and at most {RETRIES_MAX:,} may be retried: choose by "
                "--reason or --offset, or let `streamer reload --from-source topic` read everything again"
            )
        if standing:
            chosen[shard] = standing
    return chosen


def chosen_of(letters: Iterable[Letter], reason: str | None, offsets: Sequence[int]) -> list[Letter]:
    """The letters of one shard that are the last of their message, refuse it and are asked for, sorted by offset.

    letters: in the order in which they were written.
    """
    named = (one for one in letters if not offsets or (one.offset in offsets and one.kind != ACKNOWLEDGED))
    standing = standing_refused(named).values()
    return sorted((one for one in standing if reason in (None, one.reason)), key=lambda one: one.offset)


def _send(kafka: str, table_name: str, chosen: Chosen) -> None:
    with open_admin(kafka) as admin:
        input_id = topic_id(admin, table_name, CHANGES)
    now = int(time())
    requests = (Retry(shard, token_hex(8), now, _offsets(letters), input_id) for shard, letters in chosen.items())
    ask_shards(kafka, table_name, "retry", requests)


def _forecast(consumer: Consumer, table: Table, chosen: Chosen) -> list[Letter]:
    """The answers that a worker would give, judged by the messages alone, without the worker's rows."""
    inputs = shards_in(consumer, topic_name(table.name, CHANGES))
    forecast, schemas = [], registry_from()
    for shard, letters in chosen.items():
        position = reading.last_position(consumer, table.name, shard)
        if position is None:
            raise UsageError(f"shard {shard} has published nothing since its topic of positions was recreated")
        meta = Meta(next=position.next, shards=len(inputs), skipped=position.skipped, retried=position.retried)
        retrial = Retrial(table, _offsets(letters), meta, schemas.known)
        begin = max(retrial.next, watermarks(consumer, inputs[shard])[0])
        found = reading.records(consumer, inputs[shard], begin, position.next)
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


def _show_answers(answers: Sequence[Letter]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for letter in answers:
        counts[letter.kind][letter.reason] += 1
    lines: list[Line] = [", ".join(f"{kind}: {of.total():,}" for kind, of in counts.items()) or "nothing to retry"]
    if answers:
        cells = ((str(one.partition), str(one.offset), one.kind, one.reason, one.detail) for one in answers)
        lines.append(filled(Grid("shard", "offset", "answer", "reason", "detail"), cells))
    show({kind: counts[kind].total() for kind in (RETRIED, SUPERSEDED, REFUSED_AGAIN)} | {"messages": answers}, lines)


# -- acknowledge ------------------------------------------------------------------------------------------------------
#
# An acknowledgement is a letter, too, written here: so `status` needs no other topic, and no worker has to run.


@command_named(
    "acknowledge",
    "streamer dead-letters acknowledge --table mine",
    short_help="Says that refused messages are seen to.",
)
@table_option
@kafka_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@json_option
def acknowledge_command(table: str, kafka: str, shard: int | None) -> None:
    """Says that what was refused until now is seen to: `status` counts only what is refused from now on.

    Call it once the published table is right again, or what it lacks is known. It changes no row. `retry --offset` can
    still try an acknowledged message. A truncation stays until the rows of before are gone.
    """
    schema = load_table(table)
    topic, seen = topic_name(schema.name, DEAD_LETTERS), dict[int, list[int]]()
    with open_consumer(kafka) as consumer:
        partitions = shards_in(consumer, topic)
        require_shard(shard, len(partitions), schema.name)
        for one in partitions:
            letters = map(letter_of, reading.records(consumer, one, *watermarks(consumer, one)))
            standing = [offset for offset, of in standing_refused(letters).items() if of.reason != TRUNCATION]
            if standing and shard in (None, one.partition):
                seen[one.partition] = standing
    if seen:
        with open_writer(kafka, topic) as writer:
            for number, standing in seen.items():
                letter = acknowledged(Coordinates(topic_name(schema.name, CHANGES), number, max(standing) + 1))
                writer.write(letter.value, letter.key, number)
    n = sum(map(len, seen.values()))
    said = f"{plural(n, 'refused message')} of {shards_named(seen)} acknowledged: `status` speaks of later ones"
    said = said if n else "there is no refused message to acknowledge"
    show({"table": schema.name, "acknowledged": n, "shards": sorted(seen)}, [said])


# -- list -------------------------------------------------------------------------------------------------------------

FOLLOWING_MS = 500
EXPORTED = ("at", *Letter.__struct_fields__)  # the columns of an exported file


@click.group(
    name="dead-letters",
    invoke_without_command=True,
    epilog=examples("streamer dead-letters --table mine", "streamer dead-letters --table mine --follow"),
)
@optional_table_option
@kafka_option
@click.option("--follow", is_flag=True, help="Go on and print new letters, until interrupted.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Latest letters to print.")
@click.option(
    "--export",
    "file",
    metavar="FILE",
    type=OutputPath(".csv", ".jsonl"),
    help="Write all letters to a file, .csv or .jsonl.",
)
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, table: str | None, kafka: str, follow: bool, limit: int, file: Path | None, force: bool
) -> None:
    """Counts the dead letters of a table by kind, reason and column, and prints the latest ones.

    --json prints one object; with --follow, also one object per line for every new letter.
    """
    if ctx.invoked_subcommand is not None:
        if ctx.get_parameter_source("table") is ParameterSource.COMMANDLINE:
            raise UsageError(f"the options of `{ctx.invoked_subcommand}` come after its name")
        return
    if table is None:
        raise click.MissingParameter(ctx=ctx, param_hint="'--table'", param_type="option")
    topic = f"{load_table(table).name}.dead-letters"
    require_writable([] if file is None else [file], force)
    with open_consumer(kafka, FOLLOWING_MS if follow else 10) as consumer, _exporting(file) as export:
        found = {one: watermarks(consumer, one) for one in shards_in(consumer, topic)}
        tallies = Tallies()
        passing = _counted(chain.from_iterable(reading.batches_in(consumer, found)), tallies, export)
        latest = [letter_of(record) for record in reversed(nlargest(limit, passing, key=_age))]
        reasons = tallies.most_common()
        values = {"topic": topic, "total": tallies.total, "reasons": reasons, "latest": latest}
        show(values, _lines(topic, tallies.total, reasons, latest))
        if follow:
            _follow(consumer, {one: end for one, (_, end) in found.items()}, export)


command.add_command(retry_command)
command.add_command(acknowledge_command)

Export = Callable[[Letter, int], None]  # takes a letter, and the milliseconds since 1970 when it was written


@contextmanager
def _exporting(path: Path | None) -> Iterator[Export]:
    """Writes letters to a file, in the format of its suffix; path None: nowhere. Raises UsageError."""
    if path is None:
        yield lambda letter, at: None
        return
    try:
        file = path.open("w", buffering=1, encoding="utf-8", newline="")  # whole lines, for those who follow it
    except OSError as error:
        raise UsageError(f"--export {path}: cannot be written: {error.strerror}") from None
    with file:
        if path.suffix.lower() == ".csv":
            lines = csv.DictWriter(file, EXPORTED)
            lines.writeheader()
            yield lambda letter, at: lines.writerow(row_of(letter, at))
        else:
            yield lambda letter, at: print(msgspec.json.encode(row_of(letter, at)).decode(), file=file)


def _counted(records: Iterator[Record], tallies: Tallies, export: Export) -> Iterator[Record]:
    for record in records:
        letter = letter_of(record)
        tallies.add(letter, _at(record))
        export(letter, _at(record))
        yield record


def _age(record: Record) -> tuple[int, int, int]:
    """The order of records of all shards: by Kafka's time, then by partition and offset."""
    return _at(record), record.partition(), record.offset()


def _at(record: Record) -> int:
    """Milliseconds since 1970 when it was written."""
    return int(record.timestamp()[1])


def _follow(consumer: Consumer, ends: Mapping[Place, int], export: Export) -> None:
    for record in chain.from_iterable(reading.coming(consumer, ends)):
        letter = letter_of(record)
        export(letter, _at(record))
        click.echo(msgspec.json.encode(letter) if as_json() else " ".join(_cells(letter)))


def _lines(topic: str, total: int, reasons: list[LetterCount], latest: list[Letter]) -> Iterator[Line]:
    yield f"{plural(total, 'dead letter')} in {topic}"
    for one in reasons:
        yield f"  {_sentence(one)}"
        if one.reason in OF_DEAD_LETTERS and one.kind not in (RETRIED, SUPERSEDED, ACKNOWLEDGED):
            yield f"    {OF_DEAD_LETTERS[one.reason]}"
    if latest:
        headings = ("shard", "offset", "kind", "reason", "column", "detail")
        yield filled(Grid(*headings, title=f"the latest {len(latest)}"), map(_cells, latest))


def _sentence(one: LetterCount) -> str:
    """A count as a sentence: in a table, its two times alone would fill a line of a terminal."""
    column = f", column {one.column}" if one.column else ""
    when = one.first if one.first == one.last else f"{one.first} to {one.last}"
    example = f"offset {one.example['offset']} of shard {one.example['partition']}"
    return (
        f"{one.letters:,} {one.kind}: {one.reason}{column}; {shards_named(one.shards)}; {when}; for example {example}"
    )


def _cells(letter: Letter) -> tuple[str, ...]:
    detail = letter.detail if letter.rows is None else f"{letter.detail} ({plural(letter.rows, 'row')})"
    return str(letter.partition), str(letter.offset), letter.kind, letter.reason, letter.column or "-", detail
