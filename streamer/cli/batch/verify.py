"""`streamer verify`: checks a published changelog against its laws (`streamer.incremental.checks`).

With `--events` an engine replays the input. It stops at every release at its `through`, and the rows of the QI groups
that the release or the engine touched are compared. The engine needs the shard's secret, which breaks its ties: with
another one it would come to another table, as lawful as this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from streamer.cli.stream.replay import Initially
from streamer.cli.support.next_call import say_next
from streamer.cli.support.options import chosen_shards, command_named, json_option, shards_option, table_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import show
from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.incremental import replay
from streamer.incremental.checks.as_published import QIGroupId
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, laws_of, release_name
from streamer.incremental.checks.source import SOURCE_LAWS, IndexTable, SourceLaws, index_table
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.message_files import read_files, read_messages
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.replay import encode_initial
from streamer.incremental.shard.input import Message
from streamer.incremental.verification import EngineBehind, follow, require_records
from streamer.table.encode import Encoder
from streamer.table.published.rows import parse_qi_group
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table

INDEX_COLUMNS = ["key", "qi_group"]
LIVE_SECRET = (
    ". The secret of a live shard is not shown: check such a shard by --source and --index, or the changelog alone "
    "without --events"
)


@command_named(
    "verify",
    "streamer verify --table mine live.jsonl",
    "streamer verify --table mine live.jsonl --source now.csv --index private.csv",
    "streamer verify --table mine replayed/live.jsonl --initial rows.csv --events events.jsonl",
)
@table_option
@click.argument("live", metavar="LIVE.jsonl...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--source", metavar="ROWS.csv|ROWS.parquet", help="The source table as of the last release; needs --index."
)
@click.option("--index", metavar="INDEX.csv", help="The private index table (columns key, qi_group); needs --source.")
@click.option(
    "--events", metavar="EVENTS.jsonl", help="The input of a one-shard changelog: checks the rows of every release too."
)
@click.option("--initial", metavar="ROWS.csv|ROWS.parquet", help="The table before the first event; needs --events.")
@click.option(
    "--secret",
    metavar="SECRET.txt",
    type=click.Path(path_type=Path),
    help="The shard's secret as `replay` wrote it, for --events [default: secret.txt next to the first LIVE.jsonl].",
)
@shards_option(
    "Check only these shards, such as 0-15; every law is about a single shard, so processes may share the work."
)
@json_option
def command(
    table: str,
    live: tuple[Path, ...],
    source: str | None,
    index: str | None,
    events: str | None,
    initial: str | None,
    secret: Path | None,
    shards: str | None,
) -> None:
    """Checks the laws of the changelog LIVE.jsonl, release by release, from its first record on.

    Several files are one changelog: each may hold a shard, or continue the previous file.

    A line of LIVE.jsonl is {"shard":..,"release":..,"through":..,"key":{..},"value":{..}}, with a value of null for a
    removal, as `replay` and `subscribe --live` write it. If a law is violated, it prints the first violation and ends
    with 1.
    """
    if (source is None) != (index is None):
        raise UsageError("--source and --index belong together")
    if initial is not None and events is None:
        raise UsageError("--initial needs --events")
    if secret is not None and events is None:
        raise UsageError("--secret needs --events")
    chosen = None if shards is None else chosen_shards(shards)
    if chosen is not None and (source or events):
        raise UsageError("--shards: not with --source or --events, which are about the whole changelog")
    schema = load_table(table)
    laws = ChangelogLaws(schema)
    with stages() as progress:
        replayed = None
        if events is not None:
            path = secret or live[0].with_name(replay.NAME)
            engine = start_engine(schema, initial, known_secret(path, "--events", LIVE_SECRET), progress)
            replayed = EngineBeside(schema, laws, engine, read_messages(events))
        with progress.stage("verify"):
            verified = follow(laws, read_files(live, schema, chosen), replayed)
        require_records(verified, live)
        if source is not None and index is not None:
            with progress.stage("source"):
                _check_last(schema, laws, source, index)
    verified.laws = len(laws_of(schema)) + (len(SOURCE_LAWS) if source or events else 0)
    show({"ok": True, **asdict(verified)}, verified.lines())
    if events is not None:
        first = [] if initial is None else ["--initial", initial]
        say_next(["audit", "--table", table, *map(str, live), "--source", events, *first])


def _check_last(table: Table, laws: ChangelogLaws, source: str, index: str) -> None:
    encoded = Encoder(table).frame(read_rows(source, wanted=table.named))
    rows = dict(zip(encoded.source_keys, encoded.rows(), strict=True))
    source_laws = SourceLaws(table, laws, index_table(rows, read_index(index)))
    source_laws.check_all("the last release")


def known_secret(path: Path, option: str, otherwise: str = "") -> bytes:
    """The shard's secret from a file. Raises UsageError if there is none; otherwise: what can be done without it."""
    secret = replay.read_secret(path)
    if secret is None:
        raise UsageError(
            f"{option} needs the shard's secret, which breaks its ties, and there is no {path}: name it by --secret "
            f"(`replay --out` writes it next to live.jsonl){otherwise}"
        )
    return secret


def start_engine(table: Table, initial: str | None, secret: bytes, progress: Stages) -> Engine:
    """The engine as it was before the first event."""
    engine = Engine(table, secret=secret)
    if initial is not None:
        first = Initially(initial, progress, table)
        with progress.stage("begin"):
            encoded, qi_groups = encode_initial(table, first.rows(), first.groups, secret)
            progress.next("load")
            engine.load_initial(encoded.source_keys, encoded.rows(), encoded.codes, qi_groups)
    return engine


class EngineBeside:
    """An engine that replays the input of one shard, and the source laws between it and the changelog."""

    def __init__(self, table: Table, laws: ChangelogLaws, engine: Engine, messages: Iterable[Message]) -> None:
        self._behind = EngineBehind(table, engine, messages)
        self._source_laws = SourceLaws(table, laws, IndexTable())

    def check(self, release: FoldedRelease, touched: set[QIGroupId]) -> None:
        """Replays up to the release, and compares."""
        self._behind.require_shard(release.shard, "--events")
        for _ in self._behind.up_to(release.through):
            pass
        self._source_laws.check(touched | self._drain(), release_name(release), self._withheld)

    def check_release(self, release: FoldedRelease, touched: set[QIGroupId], remaining: Iterable[LiveRecord]) -> None:
        """Checks a release against its events. A changelog of several shards is a UsageError, not a violation."""
        if release.outside:
            raise UsageError(
                f"{release_name(release)} did not come from events, so --events cannot say what it should hold: check "
                "the last release by --source and --index"
            )
        try:
            self.check(release, touched)
        except LawViolated as broken:
            for record in remaining:
                self._behind.require_shard(record.shard, "--events")
            raise LawViolated(f"{broken} (or the secret is not that of this changelog)") from None

    def check_end(self) -> None:
        """Checks that the events after the last release have changed nothing that is published."""
        for _ in self._behind.up_to(None):
            pass
        self._source_laws.check(self._drain(), "the end of the events, after the last release", self._withheld)

    @property
    def _withheld(self) -> set[QIGroupId]:
        engine = self._behind.engine
        return {(engine.shard, number) for number in engine.withheld}

    def _drain(self) -> set[QIGroupId]:
        """Moves the engine's changes into the index table; returns the QI groups they touched."""
        index, engine = self._source_laws.index, self._behind.engine
        shard = engine.shard
        touched: set[QIGroupId] = set()
        for source_key, record in engine.drain().records.items():
            if record is None:
                touched |= index.remove(source_key)
            else:
                qi_group = None if record.qi_group == PENDING else (shard, record.qi_group)
                touched |= index.put(source_key, record.row, qi_group)
        return touched


def read_index(path: str) -> list[tuple[str, QIGroupId | None]]:
    """The lines of an index table: source key and QI group, None while pending. Raises ConfigError."""
    frame = read_rows(path)
    if list(frame.columns) != INDEX_COLUMNS:
        raise ConfigError(f"{path}: the header of an index table is {','.join(INDEX_COLUMNS)}")
    try:
        qi_groups = {name: parse_qi_group(name) if name else None for name in set(frame["qi_group"])}
    except LawViolated as error:
        raise ConfigError(f"{path}: {error}") from None
    return [(source_key, qi_groups[name]) for source_key, name in zip(frame["key"], frame["qi_group"], strict=True)]
