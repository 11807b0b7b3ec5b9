"""`streamer load`: loads the first rows of an empty table, all at once; and what `reload` shares with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from secrets import token_bytes
from threading import Lock
from typing import Any, NamedTuple

import click

from streamer.cli.support import options
from streamer.cli.support.next_call import KAFKA, REDIS, say_next
from streamer.cli.support.options import ROWS_OR_URL, TOPIC
from streamer.cli.support.progress import stages
from streamer.cli.support.signals import interruptible
from streamer.cli.support.tables import as_json, plural, say, show
from streamer.engines.pool import LOCAL, SPARK, SparkPool, private_folder
from streamer.errors import UsageError
from streamer.incremental.shard.bootstrap import Begun
from streamer.kafka.registry import registry_from
from streamer.loading.first_tables import EARLIEST, END, STORED, WantedRows
from streamer.loading.load import WRITE_STEP, begin
from streamer.loading.shards import Shards, claimed, empty_shards
from streamer.loading.waiting_rows import Workplace, at_executors
from streamer.progress import OnProgress
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table
from streamer.uninterrupted import Terminated
from streamer.worker.settings import WorkerSettings


class Loading(NamedTuple):
    """The options that `load` and `reload` share."""

    table: str
    kafka: str
    redis: str
    from_offset: str
    shards: str | None
    prepare: bool
    engine: str
    spark_master: str | None
    spill: Path | None


def loading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `load` and `reload`, which the command gets as one `Loading`."""

    @wraps(command)
    def with_loading(**given: Any) -> None:
        command(how=Loading(**{name: given.pop(name) for name in Loading._fields}), **given)

    shared = options.redis_option, options.kafka_option, options.table_option
    for option in (options.json_option, *_OPTIONS, *shared):
        with_loading = option(with_loading)
    return with_loading


_OPTIONS = (
    click.option(
        "--spill",
        metavar="FOLDER",
        type=click.Path(path_type=Path),
        help="Private folder for rows, which all executors of --engine spark see under this path; it is removed at the"
        " end.",
    ),
    click.option(
        "--engine",
        type=click.Choice((LOCAL, SPARK)),
        default=LOCAL,
        show_default=True,
        help="What reads the rows and makes the QI groups: this process, or Spark's executors (rows as Parquet). This"
        " process alone writes to Redis and Kafka.",
    ),
    options.spark_master_option,
    click.option(
        "--prepare",
        is_flag=True,
        help="Read and check all rows and make the QI groups, but write nothing and claim no shard.",
    ),
    options.shards_option(
        "Load only these shards, such as 0-15 or 0,2,5-7, so that several hosts share the work: each reads all rows and"
        " keeps its own. Hosts do not wait for each other, so try all rows with --prepare first."
    ),
    click.option(
        "--from-offset",
        metavar="end|stored|earliest|N",
        default=END,
        show_default=True,
        help="Where workers will read on in the input. end: its end when the command starts; everything before must be"
        " in the file, so nothing may be written between the file and the command. stored: where the workers were"
        " stopped; the file must be younger than that. earliest: always right if messages may be applied twice, as"
        " Debezium's may. N: an offset, with one shard only. Of a table with a sealed changelog nothing may be read"
        " twice.",
    ),
)


@options.command_named(
    "load", "streamer load rows.csv --table mine", "streamer load people.parquet --table mine --shards 0-15"
)
@click.argument("rows", metavar=ROWS_OR_URL)
@loading_options
@options.reads_rows("rows")
def command(how: Loading, rows: RowSource) -> None:
    """Loads all rows of a file or a database into an empty table; the whole-table algorithm makes the QI groups.

    Call it before the first worker is started: the rows go straight to Redis and the output, not through the input.
    Workers apply later what is written to the input in the meantime. A table that is not empty is refused; `reload`
    replaces one.
    """
    if str(rows) == TOPIC:
        raise UsageError(f"load reads a file or a database; `streamer reload --from-source {TOPIC}` reads the input")
    carry_out(how, "streamer load", empty_shards, rows)


class Done(NamedTuple):
    """The work that a command has done."""

    shards: list[Begun]
    warnings: list[str]  # about the source
    written: bool


Find = Callable[[WorkerSettings, Mapping[int, str], Sequence[int] | None], Shards]


def carry_out(how: Loading, name: str, find: Find, source: RowSource | None, although_trimmed: bool = False) -> None:
    """Loads the shards that are found, and prints what was done, also if it fails or a signal ends it.

    source: None if the input is read again.
    """
    settings = WorkerSettings(load_table(how.table), how.kafka, how.redis, schemas=registry_from())
    if how.from_offset not in (END, EARLIEST, STORED) and not re.fullmatch("[0-9]{1,18}", how.from_offset):
        raise UsageError("--from-offset: end, stored, earliest or the number of an offset")
    chosen = None if how.shards is None else options.chosen_shards(how.shards)
    done, going, begun_steps = Done([], [], not how.prepare), Lock(), list[str]()
    with stages() as progress, ExitStack() as closing:
        executors = _executors(how, source, closing)
        claims = {} if how.prepare else closing.enter_context(claimed(settings, name, chosen))

        def step(name: str) -> OnProgress:
            with going:
                begun_steps.append(name)
            return progress.next(name)

        def load() -> None:
            step("look")
            told = progress.say, done.warnings.append, step
            wanted = WantedRows(source, how.from_offset, although_trimmed, *told)
            for begun in begin(find(settings, claims, chosen), wanted, executors):
                done.shards.append(begun)

        try:
            interruptible(load)
        except BaseException as error:
            if isinstance(error, (Terminated, KeyboardInterrupt)):
                going.acquire()  # for good: the thread begins no other step, so that what is said stays true
                wrote = done.written and WRITE_STEP in begun_steps
                say(f"stopped{' while it wrote' if wrote else '; nothing was published'}: call it again", err=True)
            if not as_json():  # it would be followed by the error's object
                _show(done)
            raise
    _show(done)
    if not how.prepare:
        say_next(["worker", "--table", how.table, KAFKA, REDIS])


def _executors(how: Loading, source: RowSource | None, closing: ExitStack) -> Workplace | None:
    """The place of Spark's executors, if they are asked for."""
    if (how.engine == SPARK) != (how.spill is not None):
        raise UsageError("--engine spark and --spill belong together: executors share rows by way of that folder")
    if how.spill is None:
        return None
    from streamer.spark import session  # needs Spark

    spill = how.spill.absolute()  # executors are in other folders
    closing.enter_context(private_folder(spill, token_bytes(16)))
    shared = [] if source is None else [path.absolute() for path in source.files]
    return at_executors(closing.enter_context(SparkPool(spill, session(how.spark_master), shared)), spill)


def _show(done: Done) -> None:
    shards = [asdict(begun) for begun in done.shards]
    show({"shards": shards, "warnings": done.warnings, "written": done.written}, _lines(done))


def _lines(done: Done) -> Iterator[str]:
    for begun in done.shards:
        groups = f"{plural(begun.rows, 'row')} in {plural(begun.qi_groups, 'QI group')}, {begun.pending:,} pending"
        if not done.written:
            yield f"shard {begun.shard}: {groups}; nothing was written"
            continue
        yield (
            f"shard {begun.shard}: {groups}; {begun.removed:,} old records removed; releases: {begun.releases};"
            f" the input is read on from {begun.next}"
        )
        if begun.cohorts:
            yield f"shard {begun.shard}: {plural(begun.cohorts, 'sealed cohort')} published"
        if begun.cohorts_lost:
            yield (
                f"warning: shard {begun.shard}: Redis did not know what was published in {begun.cohorts_lost:,} sealed"
                " cohorts: they are retired, and whoever is in the table now is published in a new one only after a"
                " sensitive value of theirs has changed"
            )
    yield from (f"warning: {warning}" for warning in done.warnings)
