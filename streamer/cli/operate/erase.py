"""`streamer erase`: deletes a person's rows from a live table, waits until readers have that, and says what is left.

The receipt names neither the key nor a value: the operator may give it a reference of his own. It names a release, so
it tells whoever kept the releases which row went: it is as private as the index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from streamer import erasure
from streamer.cli.support.options import command_named, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import plural, show
from streamer.errors import EXIT_LAW, UsageError
from streamer.incremental.engine.last_changes import REMEMBERED_MAX
from streamer.incremental.topics import CHANGES, SEALED, live_kinds, topic_name
from streamer.table.files import STDIN, atomic_writer
from streamer.table.schema import Table
from streamer.table.yaml.loading import files_of, load_table

REFERENCE_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Left:
    """A place that still has something of a row, and who can do what about it.

    Times are in UTC, None if no setting says when.
    """

    where: str
    what: str
    who: str
    remedy: str
    not_before: str | None = None
    not_after: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt: what was done, and what is left."""

    ok: bool
    table: str
    reference: str
    began: str
    ended: str
    rows: Sequence[erasure.ErasedRow]
    messages: int | None  # of these rows that are left in the input; None: not counted
    left: Sequence[Left]


@command_named(
    "erase",
    "streamer erase --table mine 71 --reference 'case 17' -o case-17.txt",
    "streamer erase --table mine --individual 4711 --count --json",
    "streamer erase --table mine 71 --no-send",
)
@table_option
@kafka_option
@redis_option
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@click.option("--individual", metavar="VALUE", help="All rows of an individual; every row in Redis is read for that.")
@click.option(
    "--no-send",
    is_flag=True,
    help="Send no deletion: the source sends it, or it was sent before. Only wait, and report.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="How long to wait until readers have the table without the rows.",
)
@click.option(
    "--count", is_flag=True, help="Count the messages of these rows that are left in the input; all of it is read."
)
@click.option("--reference", metavar="TEXT", default="", help="What the receipt calls the person; it never has KEY.")
@click.option(
    "-o",
    "--out",
    metavar="RECEIPT.txt|.json",
    type=OutputPath(".txt", ".json"),
    help="Write the receipt, if all is done.",
)
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    table: str,
    kafka: str,
    redis: str,
    keys: tuple[str, ...],
    individual: str | None,
    no_send: bool,
    timeout: float,
    count: bool,
    reference: str,
    out: Path | None,
    force: bool,
) -> None:
    """Deletes the rows with the source keys KEY from a live table; says what is left of them, and who has to act.

    It writes a deletion into the input, and waits until a worker has applied and published it: no record in Redis, no
    QI group with the row. If a database feeds the input, delete the row there and use --no-send. KEY is written as in
    the file that `streamer index` writes; - reads them from standard input, one a line, so that no history of a shell
    has them. It ends with 1 if a row is not gone in time; to repeat the call does no harm. The receipt is private: its
    release tells those who keep all releases which row went.
    """
    began = _now()
    keys = tuple(dict.fromkeys(sys.stdin.read().splitlines() if keys == (STDIN,) else keys))
    _check_asked(keys, individual, reference)
    require_writable([] if out is None else [out], force, files_of(table))
    schema = load_table(table)
    with stages() as progress:
        how = erasure.Erasure(keys, individual, not no_send, timeout, count)
        erased = erasure.erase(kafka, redis, schema, how, progress.stage)
    left = [*_left_in_kafka(schema, erased), *LEFT_ELSEWHERE]
    times = _text_of(began), _text_of(_now())
    receipt = Receipt(erased.ok, schema.name, reference, *times, erased.rows, erased.messages, left)
    _hand_out(receipt, out if erased.ok else None)
    if not erased.ok:
        ctx.exit(EXIT_LAW)


def _check_asked(keys: Sequence[str], individual: str | None, reference: str) -> None:
    """Raises UsageError for a call that cannot be meant."""
    if bool(keys) == (individual is not None):
        raise UsageError("name either rows by their KEYs, or all rows of a person by --individual")
    if "" in (*keys, individual):
        raise UsageError("a key is empty")
    if reference in (*keys, individual):
        raise UsageError("--reference: it stands in the receipt, which must not name the person: not the key itself")
    if len(reference) > REFERENCE_CHARACTERS_MAX:
        raise UsageError(f"--reference: at most {REFERENCE_CHARACTERS_MAX} characters")


# -- what is left -----------------------------------------------------------------------------------------------------


def _left_in_kafka(table: Table, erased: erasure.Erased) -> Iterator[Left]:
    """The topics that hold something until Kafka or the operator removes it.

    If no row was found, it may have been published.
    """
    if erased.messages != 0:
        yield left_in_input(topic_name(table.name, CHANGES), erased.settings, erased.messages)
    if not erased.rows or any(one.was == erasure.IN_GROUP for one in erased.rows):
        for kind in live_kinds(table):
            topic = topic_name(table.name, kind)
            yield compacted(topic, "the former record: intervals and published values, no key", erased.settings[topic])
    if table.sealed is not None and (not erased.rows or any(one.sealed == erasure.IN_COHORT for one in erased.rows)):
        yield Left(
            topic_name(table.name, SEALED),
            "if she was in a cohort, one of its rows, which says of nobody in particular that she was in it",
            "nobody",
            "cohorts are never altered",
        )


def left_in_input(topic: str, settings: erasure.Settings, messages: int | None) -> Left:
    what = "messages" if messages is None else f"{plural(messages, 'message')}, the deletion included,"
    what, own = f"{what} with the key and raw values", settings[topic]
    if "compact" in own["cleanup.policy"]:
        return compacted(topic, what, own)
    kept = "for ever" if own["retention.ms"] == "-1" else f"for {_span(own['retention.ms'])}"
    return Left(
        topic,
        f"{what}, kept {kept}",
        "you",
        "delete the records up to the shard's `next`, or have the topic compacted (`streamer topics create --adopt "
        "--compact-changes`); docs/operations.md says what each gives up",
    )


DAY_MILLISECONDS = 24 * 60 * 60 * 1000
UNBOUNDED_MS = (1 << 63) - 1


def _span(milliseconds: str) -> str:
    """A setting in milliseconds, as days or seconds.

    >>> _span("604800000"), _span("100")
    ('7 days', '0.1 s')
    """
    days, rest = divmod(int(milliseconds), DAY_MILLISECONDS)
    return plural(days, "day") if days and not rest else f"{int(milliseconds) / 1000:,g} s"


def compacted(topic: str, what: str, settings: Mapping[str, str]) -> Left:
    """A record that Kafka removes by itself, and when, by the topic's settings."""
    now = int(_now().timestamp() * 1000)
    least, most = int(settings["min.compaction.lag.ms"]), int(settings["max.compaction.lag.ms"])
    bound = f"at most {_span(settings['max.compaction.lag.ms'])} after it was written (max.compaction.lag.ms)"
    if most >= UNBOUNDED_MS:
        ratio, closed = settings["min.cleanable.dirty.ratio"], _span(settings["segment.ms"])
        bound = f"once a share of {ratio} of the log is new (min.cleanable.dirty.ratio; segment.ms is {closed})"
    return Left(
        topic,
        what,
        "Kafka",
        f"compacts it {bound}, but never in the segment that is being written, which a later record closes; the "
        f"tombstone goes {_span(settings['delete.retention.ms'])} after that (delete.retention.ms)",
        _text_of(datetime.fromtimestamp((now + least) / 1000, UTC)),
        None if most >= UNBOUNDED_MS else _text_of(datetime.fromtimestamp((now + most) / 1000, UTC)),
    )


LEFT_ELSEWHERE = (
    Left("Redis", "the former row, in its append-only file and its slow log", "you", "BGREWRITEAOF, SLOWLOG RESET"),
    Left(
        "Redis",
        "if the source says positions, a keyed hash of the key: no old snapshot brings the row again",
        "workers",
        f"forget it after {REMEMBERED_MAX:,} changes of other rows",
    ),
    Left("copies of Redis", "the row, raw", "you", "delete those that are older than this receipt"),
    Left(
        "files",
        "what `load`, `reload` and `produce` were given, and what `index`, `replay` and `subscribe` wrote",
        "you",
        "delete them, or write them again",
    ),
    Left(
        "readers",
        "their copies of former releases; two releases tell whoever kept them which row went",
        "they",
        "make fresh copies, delete the former ones; nothing takes back what they know",
    ),
    Left("the source", "the row in its backups and its log, and in other topics of its connector", "its operator", ""),
    Left("dead letters, positions, logs, metrics", "no key and no value", "nobody", ""),
)
"""Places that no command here can see."""


# -- the receipt ------------------------------------------------------------------------------------------------------


def _now() -> datetime:
    return datetime.now(UTC)


def _text_of(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _hand_out(receipt: Receipt, out: Path | None) -> None:
    values, lines = asdict(receipt), list(_lines(receipt))
    if out is not None:
        encoded = msgspec.json.format(msgspec.json.encode(values)).decode()
        with atomic_writer(out, text=True) as file:
            file.write(encoded + "\n" if out.suffix.lower() == ".json" else "\n".join(lines) + "\n")
        lines.append(f"the receipt is in {out}, which is private")
    show(values, lines)


def _lines(receipt: Receipt) -> Iterator[str]:
    named = f", reference {receipt.reference}" if receipt.reference else ""
    yield f"{receipt.table}{named}: {_outcome(receipt)}; {receipt.began} to {receipt.ended}"
    for row in receipt.rows:
        yield f"  {_row_line(row)}"
    yield "what is left, and who has to act:"
    for left in receipt.left:
        when = f"; not before {left.not_before}" if left.not_before else ""
        when += f"; due by {left.not_after}" if left.not_after else ""
        yield f"  {left.where}: {left.what} -> {left.who}{left.remedy and f': {left.remedy}'}{when}"


def _outcome(receipt: Receipt) -> str:
    if not receipt.rows:
        return (
            "no shard held such a row when the command began: it had gone before, or its key is written in another way "
            "(`streamer index` shows how; --count counts its messages)"
        )
    gone = sum(row.state == erasure.ROW_GONE for row in receipt.rows)
    return f"{plural(gone, 'row')} erased" if receipt.ok else f"{gone} of {plural(len(receipt.rows), 'row')} erased"


def _row_line(row: erasure.ErasedRow) -> str:
    written = "" if row.offset is None else f"deletion at offset {row.offset} of the input; "
    if row.state != erasure.ROW_GONE:
        repeat = "; call this again with --no-send for the receipt" if row.state == erasure.ROW_WAITING else ""
        return f"shard {row.shard}: {written}{row.state}: {row.why}{repeat}"
    if row.was == erasure.PENDING_ROW:
        became = "it was pending, and never published"
    elif row.group_is_left:
        became = "its QI group was published again without it"
    else:
        became = "its QI group is dissolved: the other rows are in other groups"
    was_sealed = row.sealed != erasure.NEVER_SEALED
    sealed = f"; sealed: it was {row.sealed}, and nothing names it there any more" if was_sealed else ""
    return f"shard {row.shard}: {written}gone by commit {row.commit} and release {row.release}: {became}{sealed}"
