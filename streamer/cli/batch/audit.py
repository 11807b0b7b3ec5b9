"""`streamer audit`: what a whole changelog gives away to somebody who keeps all of it (`streamer.audit`).

Three things are audited: the bytes of a `sealed` log against its laws; either kind of log against its source, by an
adversary who knows everything but sensitive values; and, with --compare, the ways to publish the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from streamer.audit.found import Found, bound_of, found_lines, judged
from streamer.audit.live import LiveAudit, require_sensitive
from streamer.audit.sealed_log import NOT_JSON, CohortSeen, SealedLaws, read_sealed, sealed_facts
from streamer.audit.sealed_source import SealedAudit, check_twice, read_members
from streamer.audit.source import members_of, row_changes
from streamer.cli.batch.reports import audit_report, require_report
from streamer.cli.batch.verify import known_secret, start_engine
from streamer.cli.stream.replay import Initially
from streamer.cli.support.options import TOPIC, command_named, json_option, kafka_option, optional_table_option
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import Line, figure, named, show
from streamer.errors import EXIT_LAW, ConfigError, ServerUnreachable, StreamerError, UsageError
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental import replay
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.tie_break import SECRET_BYTES
from streamer.incremental.events.changes import RowChange
from streamer.incremental.message_files import count_lines, read_files, read_messages
from streamer.incremental.topics import topic_name
from streamer.kafka.clients import open_consumer
from streamer.kafka.reading import last_position, shards_in
from streamer.progress import OnProgress
from streamer.reader import SealedSubscription
from streamer.shown import Grid
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import STDIN, atomic_writers, open_bytes
from streamer.table.schema import EpochLength, SealedRules, Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import files_of, load_table

LIVE, SEALED = "live", "sealed"

LAWFUL = "Every record of the sealed log holds every law that bytes alone can show."

END_UNKNOWN = "Whether epochs are missing at its end is not known: the topic of positions cannot be read."

NAIVE_BATCH = 1_000  # events that naive batching publishes at once


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of the command, and what it audits."""

    table: str | None
    kafka: str
    log: Path | None
    source: str | None
    initial: str | None
    secret: Path | None
    members: Path | None
    kind: str | None
    persistent: bool
    bound: float | None
    compare: bool
    page: Path | None
    force: bool
    raw: bool

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        of_source = self.compare or self.initial or self.members or self.persistent or self.bound is not None
        if self.source is None and of_source:
            raise UsageError("--compare, --initial, --members, --persistent and --bound need --source")
        if STDIN in map(str, (self.log, self.source, self.initial)):
            raise UsageError(f"an audit reads its files more than once: name files instead of {STDIN}")
        if (self.log is None) != self.compare:
            raise UsageError("name one LOG.jsonl, or --compare ways to publish --source")
        if self.compare and (self.page or self.members or self.kind or self.bound is not None):
            raise UsageError("--compare goes with none of --html, --members, --kind and --bound")


@command_named(
    "audit",
    "streamer audit --table mine replayed/live.jsonl --source events.jsonl --initial rows.csv --html audit.html",
    "streamer audit --table mine replayed/sealed.jsonl --source events.jsonl --initial rows.csv",
    "streamer audit --table mine --compare --source events.jsonl --initial rows.csv",
)
@optional_table_option
@kafka_option
@click.argument("log", metavar="[LOG.jsonl|topic]", type=click.Path(path_type=Path), required=False)
@click.option("--source", metavar="EVENTS.jsonl", help="The events that the log was made of: finds out what it tells.")
@click.option("--initial", metavar="ROWS.csv|ROWS.parquet", help="The table before the first event; needs --source.")
@click.option(
    "--secret",
    metavar="SECRET.txt",
    type=click.Path(path_type=Path),
    help="The shard's secret as `replay` wrote it, for --source [default: secret.txt next to LOG.jsonl].",
)
@click.option(
    "--members",
    metavar="MEMBERS.jsonl",
    type=click.Path(path_type=Path),
    help="The private record of who is in which cohort, for a sealed log [default: as --secret puts them].",
)
@click.option("--kind", type=click.Choice([LIVE, SEALED]), help="What LOG.jsonl is [default: what its first line is].")
@click.option("--persistent", is_flag=True, help="Let a row that comes back with its value be known to have it still.")
@click.option(
    "--bound",
    metavar="CHANCE",
    type=click.FloatRange(0, 1, min_open=True),
    help="The largest chance of a right guess that is allowed [default: beta of table.yaml for a live log, if any].",
)
@click.option("--compare", is_flag=True, help="Compare ways to publish EVENTS.jsonl instead of auditing a log.")
@click.option("--html", "page", metavar="OUT.html", type=OutputPath(".html"), help="The audit as a page.")
@force_option
@click.option("--raw", is_flag=True, help="Show source keys and values in examples: for those who may see the rows.")
@json_option
def command(**given: Any) -> None:
    """Audits the history that LOG.jsonl tells: what follows from all of its releases together.

    LOG.jsonl is a changelog of one shard as `replay` writes it, from its first record on. A sealed one is checked
    against its laws without anything else. With --source the rows behind a log are known: an adversary who knows
    everything else about them looks for their sensitive values. Without --raw, no output has values.

    `topic` reads all shards of the sealed changelog from Kafka, and checks its laws, and by the positions that it has
    its end; with --source also that nobody is published twice, and no cohort withheld without need. No shard shows its
    secret there: replay the events to find out what their history tells.

    Ends with 1 if a law or the bound is broken: a value of a sealed log is known for certain, or a guess is right more
    often than --bound allows.
    """
    asked = AuditOptions(**given)
    asked.check()
    table, log = asked.table, asked.log
    schema = None if table is None else load_table(table)
    if log == Path(TOPIC):
        _audit_topic(_required(schema), asked)
        return
    if asked.page is not None:
        require_report()
        if table is None:
            raise UsageError("--html needs --table")
        read = (Path(name) for name in (log, asked.source, asked.initial) if name)
        require_writable([asked.page], asked.force, [*files_of(table), *read])
    if log is None:
        schema = _required(schema)
        with stages() as progress:
            ways = list(_compared(schema, asked, progress))
        show({"table": schema.name, "ways": ways}, _compared_lines(schema.name, ways))
        return
    with stages() as progress, atomic_writers([] if asked.page is None else [asked.page], text=True) as opened:
        facts, found = _audited(log, asked.kind or kind_of(log), schema, asked, progress)
        for file in opened:
            file.write(audit_report(facts, found, str(table), log))
    show(facts, _lines(facts, found))
    if not facts["ok"]:
        click.get_current_context().exit(EXIT_LAW)


def _audit_topic(schema: Table, asked: AuditOptions) -> None:
    """Checks the laws of the sealed changelog in Kafka. Raises LawViolated."""
    if asked.page or asked.members or asked.persistent or asked.bound is not None:
        raise UsageError("an audit of the topic goes with --source and --initial only: audit a replay of the events")
    laws, lines, cohorts = SealedLaws(schema), list[bytes](), list[CohortSeen]()
    published = _last_epochs(schema, asked.kafka)  # before the log is read: workers go on meanwhile
    with SealedSubscription(schema, asked.kafka) as subscription, stages() as progress:
        with progress.stage("read") as on_progress:
            for epochs in subscription.catching_up(on_progress):
                lines += [line for epoch in epochs for line in epoch.lines]
        with progress.stage("laws") as on_progress:
            for epoch in laws.follow(read_sealed(lines)):
                if asked.source is not None:
                    cohorts += epoch.adds.values()
                on_progress(laws.records / len(lines))
        laws.require_end(published or {})
        if asked.source is not None:
            changes = _changes(schema, asked, token_bytes(SECRET_BYTES), _first(schema, asked, progress))
            check_twice(cohorts, changes, schema)
    facts = {"table": schema.name, "kind": SEALED, "log": TOPIC, "sealed": sealed_facts(laws), "ok": True}
    facts["verdict"] = LAWFUL if published is not None else f"{LAWFUL} {END_UNKNOWN}"
    show(facts, _lines(facts, None))


def _last_epochs(schema: Table, kafka: str) -> dict[int, int] | None:
    """The last published epoch of each shard, by its position; None if this user may not read positions."""
    try:
        with open_consumer(kafka) as consumer:
            shards = shards_in(consumer, topic_name(schema.name, SEALED))
            positions = {one.partition: last_position(consumer, schema.name, one.partition) for one in shards}
    except ServerUnreachable:
        raise
    except StreamerError:
        return None
    return {shard: one.sealed.epoch for shard, one in positions.items() if one is not None and one.sealed is not None}


def _required(schema: Table | None) -> Table:
    if schema is None:
        raise UsageError("an audit with --source, and that of a live log, needs --table")
    return schema


def kind_of(log: Path) -> str:
    """The kind of a log, by its first line. Raises ConfigError."""
    with open_bytes(log) as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        members = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    except NOT_JSON:
        members = {}
    if {"release", "key"} <= members.keys():
        return LIVE
    if {"partition", "key"} <= members.keys():
        return SEALED
    raise ConfigError(f"{log}: its first line is no record of a live or sealed changelog; if it is one, give --kind")


# -- one log ----------------------------------------------------------------------------------------------------------


def _audited(
    log: Path, kind: str, schema: Table | None, asked: AuditOptions, progress: Stages
) -> tuple[dict[str, Any], Found | None]:
    """Audits one log; returns facts for people and programs, and what was found out if there is a source."""
    facts: dict[str, Any] = {"table": schema.name if schema else "", "kind": kind, "log": log.name}
    if kind == SEALED and asked.source is None:
        laws = SealedLaws(schema)
        with progress.stage("laws") as on_progress, open_bytes(log) as file:
            lines = read_sealed(file)
            _watched((laws.records for _ in laws.follow(lines)), count_lines(log), on_progress)
        facts |= {"sealed": sealed_facts(laws), "ok": True}
        return facts | {"verdict": LAWFUL}, None
    schema = _required(schema)
    require_sensitive(schema)
    if asked.source is None:
        raise UsageError("what a live log gives away shows only beside its events: name them by --source")
    if kind == SEALED:
        audit, found = _sealed(log, schema, asked, progress)
        waits = {"waiting": audit.waiting, "most_epochs_waited": audit.waited_max}
        facts |= {"sealed": sealed_facts(audit.laws) | waits, "alpha": audit.laws.alpha}
    else:
        found = _live(log, schema, asked, progress)[1]
    bound = asked.bound or (bound_of(schema) if kind == LIVE else None)
    facts |= judged(found, bound, none_known=kind == SEALED)
    return facts | {"verdict": facts["verdict"] + _links(schema)}, found


def _links(schema: Table) -> str:
    names = ", ".join(schema.pseudonyms)
    return f" Not counted: by the pseudonyms in {names} alone, readers can link rows." if names else ""


def _live(log: Path, schema: Table, asked: AuditOptions, progress: Stages) -> tuple[LiveAudit, Found]:
    secret = known_secret(asked.secret or log.with_name(replay.NAME), "--source")
    engine = start_engine(schema, asked.initial, secret, progress)
    audit = LiveAudit(schema, engine, read_messages(str(asked.source)), asked.persistent)
    with progress.stage("audit") as on_progress:
        _watched(audit.follow(read_files([log], schema)), count_lines(log), on_progress)
    with progress.stage("count"):
        return audit, audit.found(_token(secret), asked.raw)


def _sealed(log: Path, schema: Table, asked: AuditOptions, progress: Stages) -> tuple[SealedAudit, Found]:
    if schema.sealed is None:
        raise UsageError(f"table.yaml of {schema.name} has no publish.sealed, so this is not its log")
    first = _first(schema, asked, progress)
    path = asked.secret or log.with_name(replay.NAME)
    secret = known_secret(path, "--source") if asked.members is None or path.exists() else b""
    changes = partial(_changes, schema, asked, secret, first)
    audit = SealedAudit(schema, asked.persistent, starts_full=first is not None)
    with progress.stage("audit") as on_progress, open_bytes(log) as file, ExitStack() as opened:
        if asked.members is not None:
            members = read_members(opened.enter_context(open_bytes(asked.members)))
        else:
            n = None if first is None else len(first.codes)
            begins = next(read_messages(str(asked.source)), None)
            seconds = begins.timestamp // 1_000 if begins else 0
            members = members_of(schema, cohort_formation(schema), secret, n, changes(), seconds)
        _watched(audit.follow(read_sealed(file), changes(), members), count_lines(log), on_progress)
    with progress.stage("count"):
        return audit, audit.found(_token(token_bytes(SECRET_BYTES)), asked.raw)


def _first(schema: Table, asked: AuditOptions, progress: Stages) -> EncodedRows | None:
    """The table before the first event; None if there was none."""
    if asked.initial is None:
        return None
    with progress.stage("read"):
        return Encoder(schema).frame(read_rows(asked.initial, wanted=schema.named))


def _changes(schema: Table, asked: AuditOptions, secret: bytes, first: EncodedRows | None) -> Iterator[RowChange]:
    """The changes of rows behind a sealed log. secret: orders the rows of a statement."""
    engine = Engine(schema, secret=secret, gathers=True)
    return row_changes(schema, engine, read_messages(str(asked.source)), first)


def _watched(steps: Iterable[int], total: int, on_progress: OnProgress) -> None:
    """Does all steps; each says how many records are done."""
    for done in steps:
        on_progress(min(1.0, done / max(1, total)))


def _token(secret: bytes) -> Callable[[str], str]:
    """Names rows for a report: the same name for the same row, which is not its source key."""
    return lambda source_key: blake2b(source_key.encode(), key=secret, digest_size=6, person=b"audit").hexdigest()


# -- ways to publish --------------------------------------------------------------------------------------------------


def _compared(schema: Table, asked: AuditOptions, progress: Stages) -> Iterator[dict[str, Any]]:
    """Replays and audits the same events published at once, in batches and sealed.

    Sealed as table.yaml says, by default in epochs of as many row changes as a batch has events.
    """
    require_sensitive(schema)
    schema = schema if schema.sealed else replace(schema, sealed=SealedRules(EpochLength(events=NAIVE_BATCH)))
    secret = known_secret(asked.secret, "--source") if asked.secret else token_bytes(SECRET_BYTES)
    asked = replace(asked, secret=None, members=None)
    with TemporaryDirectory() as folder:
        for name, batch in ((LIVE, 1), (f"batches of {NAIVE_BATCH:,}", NAIVE_BATCH)):
            out = Path(folder, name)
            _replayed(replace(schema, live=True), asked, batch, secret, out, progress.stage(f"replay {name}"), progress)
            yield _way(name, *_live(out / replay.LIVE_FILE, schema, asked, progress))
        yield _way(SEALED, *_sealed(out / replay.SEALED_FILE, schema, asked, progress))


def _replayed(
    schema: Table, asked: AuditOptions, batch: int, secret: bytes, out: Path,
    stage: AbstractContextManager[object], progress: Stages,
) -> None:  # fmt: skip
    """Replays the events into a folder; secret: the same for all ways, so that they break ties alike."""
    initially = None if asked.initial is None else Initially(asked.initial, progress, schema)
    rows, groups = (None, first_groups) if initially is None else (initially.rows, initially.groups)
    given = schema, read_messages(str(asked.source)), rows, groups, batch, out
    with stage:
        for _ in replay.replay_files(*given, form=cohort_formation(schema), secret=secret):
            pass


def _way(name: str, audit: LiveAudit | SealedAudit, found: Found) -> dict[str, Any]:
    kept = ("episodes", "pinned", "worst", "mean", "linked_rows", "published_rows", "kinds")
    costs = {"delay": round(audit.delay, 1), "loss": audit.loss, "records": audit.records}
    return {"way": name, **{key: found.as_dict()[key] for key in kept}, **costs}


def _compared_lines(table_name: str, ways: Iterable[dict[str, Any]]) -> Iterator[Line]:
    yield f"table {table_name}: the same events, published in different ways"
    grid = Grid("way", "values", "known", "share", "worst", "mean", "delay", "loss", "records", bare=True)
    for way in ways:
        known = figure(way["episodes"]), figure(way["pinned"]), f"{way['pinned'] / max(1, way['episodes']):.1%}"
        grid.add_row(way["way"], *known, *(figure(way[name]) for name in ("worst", "mean", "delay", "loss", "records")))
    yield grid
    yield (
        "known: values for certain, a lower bound. worst, mean: chance of the best guess. delay: events until published"
    )


def _lines(facts: dict[str, Any], found: Found | None) -> Iterator[Line]:
    yield named(facts.get("sealed", {}))
    if found is not None:
        yield from found_lines(found)
    yield facts["verdict"]
