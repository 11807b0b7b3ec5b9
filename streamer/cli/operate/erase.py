"""`streamer erase`: deletes a person's rows from a live table, waits until readers have that, and says what is left.

The rules of this file
----------------------
* A deletion is a message of the input like any other: no value, under the row's message key, in the partition of the
  shard that holds the row. To send it twice changes nothing, and a compacted input forgets the row's former messages
  by it.
* If a database feeds the input, it would send the row again: the deletion has to come from there. Then nothing is sent
  here (--no-send), and the command waits and reports.
* A row is gone if the deletion is read, Redis holds no record of the row, its QI group does not name it, and the
  position that is published is not older than that.
* The receipt names neither the key nor a value: the operator may give it a reference of his own. It names a release, so
  it tells whoever kept the releases which row went: it is as private as the index.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import click
import msgspec

from streamer.cli.support.options import examples, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import plural, say
from streamer.errors import EXIT_LAW, EventRefused, UsageError
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.events.decoder import ENVELOPE_OPS, Decoder, is_flattened
from streamer.incremental.events.json_messages import MessageReader
from streamer.incremental.events.key_form import AnyKeyForm, MessageKeys, shard_of
from streamer.incremental.events.registered_schemas import Schemas, schema_ids
from streamer.incremental.sealed.stored_state import IN_POOL
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import RedisClient, connect_now
from streamer.incremental.topics import CHANGES, SEALED, live_kinds, topic_name
from streamer.kafka.clients import open_admin, open_consumer, open_writer, reaching
from streamer.kafka.reading import Consumer, Place, Record, batches, last_position, records, shards_in, watermarks
from streamer.kafka.registry import registry_from
from streamer.kafka.topics import settings_of
from streamer.loading.key_form import OFFSETS_LOOKED_AT, assumed_form, key_form_seen
from streamer.progress import OnProgress
from streamer.table.encode import Encoder
from streamer.table.files import STDIN, atomic_writer
from streamer.table.schema import Table
from streamer.table.yaml.loading import files_of, load_table

LOOKED_AGAIN_SECONDS = 0.2
REFERENCE_CHARACTERS_MAX = 200

ROW_GONE, ROW_WAITING, ROW_THERE = "gone", "waiting", "there again"
PENDING_ROW, IN_GROUP = "pending", "in a QI group"
NEVER_SEALED, POOLED, IN_COHORT = "never", "in the pool", "in a cohort"

Settings = Mapping[str, Mapping[str, str]]
"""The settings of topics by name."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row that a shard held when the command began."""

    store: RedisLookups
    source_key: str = field(repr=False)
    qi_group: int
    sealed: str  # one of NEVER_SEALED, POOLED, IN_COHORT

    @property
    def shard(self) -> int:
        return self.store.shard


@dataclass(frozen=True, slots=True)
class ErasedRow:
    """What became of one row. Without a comment: of its shard when that was seen first."""

    shard: int
    was: str  # PENDING_ROW or IN_GROUP
    sealed: str  # as in `FoundRow`
    state: str = ROW_WAITING  # or ROW_GONE, or ROW_THERE
    offset: int | None = None  # of the deletion that this command wrote
    commit: int | None = None
    release: int | None = None
    group_is_left: bool = False  # whether its QI group is still there, without it
    why: str = ""  # it is not gone


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a row in one place, and who can do what about it; times in UTC, None: no setting says when."""

    where: str
    what: str
    who: str
    remedy: str
    not_before: str | None = None
    not_after: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was done, and what is left."""

    ok: bool
    table: str
    reference: str
    began: str
    ended: str
    rows: Sequence[ErasedRow]
    messages: int | None  # of these rows that are left in the input; None: not counted
    left: Sequence[Left]


@click.command(
    name="erase",
    epilog=examples(
        "streamer erase --table mine 71 --reference 'case 17' -o case-17.txt",
        "streamer erase --table mine --individual 4711 --count --json",
        "streamer erase --table mine 71 --no-send",
    ),
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
    as_json: bool,
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
    client = connect_now(redis)
    stores = _stores(client, schema)
    with stages(as_json) as progress, reaching(kafka), open_consumer(kafka) as consumer:
        with progress.stage("look"):
            rows = list(_found(schema, stores, keys, individual))
            settings = _settings(kafka, schema)
        if not no_send:
            _require_all(schema, rows, keys)
        offsets = [None] * len(rows) if no_send else _deletions_sent(kafka, consumer, schema, rows)
        erased = _waited_for(consumer, schema, stores, rows, offsets, timeout, progress)
        there = [row.source_key for row, one in zip(rows, erased, strict=False) if one.state != ROW_GONE]
        erased += _came_since(_found(schema, stores, keys, individual), there)
        messages = None
        if count:
            with progress.stage("count") as on_progress:
                messages = _messages_left(consumer, schema, {*keys, *(row.source_key for row in rows)}, on_progress)
    left = [*_left_in_kafka(schema, settings, erased, messages), *LEFT_ELSEWHERE]
    ok = all(one.state == ROW_GONE for one in erased)
    receipt = Receipt(ok, schema.name, reference, _text_of(began), _text_of(_now()), erased, messages, left)
    _hand_out(receipt, out if ok else None, as_json)
    if not ok:
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


def _require_all(table: Table, rows: Sequence[FoundRow], keys: Sequence[str]) -> None:
    """Raises UsageError if a row was not found: nothing is sent if a key may be mistyped."""
    missing = len(keys) - len({row.source_key for row in rows}) if keys else int(not rows)
    if missing:
        of = f"{missing} of {len(keys)} keys: " if len(keys) > 1 else ""
        raise UsageError(
            f"{of}no shard of {table.name} holds such a row: is the key written as in the index? If the row is gone "
            "already, --no-send writes the receipt"
        )


# -- the rows ---------------------------------------------------------------------------------------------------------


def _stores(client: RedisClient, table: Table) -> list[RedisLookups]:
    """The shards of the table. Raises UsageError if there is none, ShardRefused if they are of another table.yaml."""
    stores = [RedisLookups(client, table.name, shard) for shard in shards_of(client, table.name)]
    held = [(store, meta) for store in stores if (meta := store.meta()) is not None]
    if not held:
        raise UsageError(f"Redis holds no shard of {table.name}: is --redis right, has a worker run?")
    for store, meta in held:
        check_written_for(table, store.shard, meta)
    return [store for store, _ in held]


def _found(
    table: Table, stores: Iterable[RedisLookups], keys: Sequence[str], individual: str | None
) -> Iterator[FoundRow]:
    """The rows that are asked for, as far as shards hold them."""
    who = None if individual is None else _individual(table, individual)
    for store in stores:
        asked = keys if who is None else sorted(store.keys_of(who))
        for source_key, record in store.read_records(asked).items():
            yield FoundRow(store, source_key, record.qi_group, _sealed(store, source_key))


def _individual(table: Table, text: str) -> str:
    """The individual as rows name it. Raises UsageError."""
    if table.individual is None:
        raise UsageError("--individual: table.yaml names no column of individuals; give the KEYs of the rows")
    try:
        return Encoder(table).individual({table.individual: text}) or ""
    except EventRefused as refused:
        raise UsageError(f"--individual: {refused.detail}") from None


def _sealed(store: RedisLookups, source_key: str) -> str:
    place = store.sealed_place(source_key)
    return NEVER_SEALED if place is None else POOLED if place.cohort == IN_POOL else IN_COHORT


# -- sending ----------------------------------------------------------------------------------------------------------

FROM_DATABASE = (
    "{} is fed from a database (Debezium, or rows of Kafka Connect), which still has the row and would send it again: "
    "delete it there, then call this with --no-send"
)
OTHER_SHARD = (
    "the input's message keys are written in another way than {} (the row is in shard {}, and its key would come to "
    "shard {}): let the row's own producer delete it, then call this with --no-send"
)


def _deletions_sent(kafka: str, consumer: Consumer, table: Table, rows: Sequence[FoundRow]) -> list[int | None]:
    """Writes a deletion of each row; returns their offsets. Raises UsageError if it would be of no use."""
    topic, schemas = topic_name(table.name, CHANGES), registry_from()
    places = shards_in(consumer, topic)
    for shard in sorted({row.shard for row in rows}):
        if shard >= len(places):
            raise UsageError(
                f"Redis holds shard {shard}, and {topic} has {plural(len(places), 'partition')}: `streamer status` "
                "says what to do"
            )
        if table.input_rows or _is_captured(consumer, table, places[shard], schemas):
            raise UsageError(FROM_DATABASE.format(topic))
    known = [meta.key_form for row in rows if (meta := row.store.meta()) is not None]
    form = key_form_seen(consumer, topic, table, schemas) or assumed_form(table, known)
    keys = [_message_key(table, form, row, len(places)) for row in rows]
    with open_writer(kafka, topic) as writer:
        return [writer.write(None, key, row.shard) for key, row in zip(keys, rows, strict=True)]


def _is_captured(consumer: Consumer, table: Table, place: Place, schemas: Schemas) -> bool:
    """Whether any of the last messages was captured from a database."""
    begin, end = watermarks(consumer, place)
    reader = MessageReader(table, schemas.known)
    return any(
        _says_capture(reader, record, schemas)
        for record in records(consumer, place, max(begin, end - OFFSETS_LOOKED_AT), end)
    )


def _says_capture(reader: MessageReader, record: Record, schemas: Schemas) -> bool:
    value = record.value()
    schemas.learn(schema_ids([(record.key(), value)]))
    with suppress(EventRefused):
        message = None if value is None else reader.read(value)[0]
        return isinstance(message, dict) and (is_flattened(message) or message.get("op") in ENVELOPE_OPS)
    return False


def _message_key(table: Table, form: AnyKeyForm, row: FoundRow, shards: int) -> bytes:
    """The row's message key. Raises UsageError if messages under it would not come to its shard."""
    written = form.written(row.source_key)
    if written is None:
        raise UsageError(f"the key cannot be written as {form.name}, as the input's message keys are")
    if not table.partitioner_stated and (other := shard_of(written, shards)) != row.shard:
        raise UsageError(OTHER_SHARD.format(form.name, row.shard, other))
    return written


# -- waiting ----------------------------------------------------------------------------------------------------------


def _waited_for(
    consumer: Consumer,
    table: Table,
    stores: Sequence[RedisLookups],
    rows: Sequence[FoundRow],
    offsets: Sequence[int | None],
    seconds_max: float,
    progress: Stages,
) -> list[ErasedRow]:
    """What became of the rows until they are gone, or the time is over.

    If no shard held one, its deletion may not be published yet: then shards that have not published all are returned.
    """
    erased = [_seen_first(row, offset) for row, offset in zip(rows, offsets, strict=True)]
    until = monotonic() + seconds_max
    with progress.stage("wait"):
        while True:
            erased = [
                one if one.state == ROW_GONE else _looked_at(consumer, table, row, one)
                for row, one in zip(rows, erased, strict=True)
            ]
            behind = erased or [one for store in stores if (one := _behind(consumer, table, store))]
            if not any(one.state == ROW_WAITING for one in behind) or monotonic() > until:
                return behind
            sleep(LOOKED_AGAIN_SECONDS)


def _seen_first(row: FoundRow, offset: int | None = None) -> ErasedRow:
    was = PENDING_ROW if row.qi_group == PENDING else IN_GROUP
    return ErasedRow(row.shard, was, row.sealed, offset=offset)


def _behind(consumer: Consumer, table: Table, store: RedisLookups) -> ErasedRow | None:
    """A row that a shard may have held, if its last commit is not published yet."""
    meta = store.meta()
    why = _unpublished(consumer, table, store.shard, meta.commit) if meta is not None and meta.commit else ""
    return ErasedRow(store.shard, IN_GROUP, NEVER_SEALED, why=f"it is not in Redis, and {why}") if why else None


def _unpublished(consumer: Consumer, table: Table, shard: int, commit: int) -> str:
    """Why readers do not have a commit yet; "" if they have."""
    position = last_position(consumer, table.name, shard)
    has = position is not None and position.commit >= commit
    return "" if has else f"commit {commit} is not published yet: is a worker running?"


def _came_since(found: Iterable[FoundRow], there: Sequence[str]) -> list[ErasedRow]:
    """Rows that were not there when the command began, or that were gone since. there: source keys of the others."""
    why = "the row has come since the command began: stop who sends it, and call this again"
    return [replace(_seen_first(row), state=ROW_THERE, why=why) for row in found if row.source_key not in there]


def _looked_at(consumer: Consumer, table: Table, row: FoundRow, erased: ErasedRow) -> ErasedRow:
    """How it stands with a row now."""
    store, meta = row.store, row.store.meta()
    if meta is None:
        return replace(erased, why="Redis has lost the shard")
    if erased.offset is not None and meta.next <= erased.offset:
        return replace(erased, why=_not_read(store, meta.next))
    if store.read_records([row.source_key]):
        if erased.offset is None:
            return replace(erased, why="no deletion of it has been applied yet")
        return replace(
            erased,
            state=ROW_THERE,
            why="the deletion was read, and the row is there: it was refused (`streamer dead-letters`), or the source "
            "has sent the row again",
        )
    group = store.read_group(row.qi_group) if row.qi_group != PENDING else None
    after = store.meta()
    if after is None or (group is not None and row.source_key in group.members):
        return replace(erased, why="its QI group is being written")
    if why := _unpublished(consumer, table, row.shard, after.commit):
        return replace(erased, why=why)
    is_left = group is not None
    return replace(erased, state=ROW_GONE, commit=after.commit, release=after.release, group_is_left=is_left, why="")


def _not_read(store: RedisLookups, next_: int) -> str:
    refusal = store.custody().refusal
    why = f"its worker refuses the shard: {refusal.reason}" if refusal else "is a worker running?"
    return f"the deletion is written, and the shard has read up to offset {next_}; {why}"


# -- what is left -----------------------------------------------------------------------------------------------------


def _settings(kafka: str, table: Table) -> Settings:
    """The settings of the topics that hold messages or published records of a row."""
    names = [topic_name(table.name, kind) for kind in (CHANGES, *live_kinds(table))]
    with open_admin(kafka) as admin:
        return {name: settings_of(admin, name) for name in names}


def _messages_left(consumer: Consumer, table: Table, keys: set[str], on_progress: OnProgress) -> int:
    """How many messages of the input name one of these source keys. Reads all of it."""
    schemas = registry_from()
    decoder, message_keys = Decoder(table, schemas.known), MessageKeys(Encoder(table), schemas.known)
    reach = {one: watermarks(consumer, one) for one in shards_in(consumer, topic_name(table.name, CHANGES))}
    starts = [Place(one.topic, one.partition, begin) for one, (begin, _) in reach.items()]
    ends = {one: end for one, (_, end) in reach.items()}
    found, total = Counter[bool](), sum(end - begin for begin, end in reach.values())
    for batch in batches(consumer, starts, ends):
        schemas.learn(schema_ids((record.key(), record.value()) for record in batch))
        found.update(not keys.isdisjoint(_named(record, decoder, message_keys)) for record in batch)
        on_progress(min(1.0, found.total() / max(1, total)))
    return found[True]


def _named(record: Record, decoder: Decoder, message_keys: MessageKeys) -> Iterator[str]:
    """The source keys that a message names."""
    with suppress(EventRefused):
        yield message_keys.source_key(record.key())
    with suppress(EventRefused):
        change = decoder.decode(record.key(), record.value())
        yield from filter(None, (getattr(change, name, None) for name in ("source_key", "former_key")))


def _left_in_kafka(
    table: Table, settings: Settings, erased: Sequence[ErasedRow], messages: int | None
) -> Iterator[Left]:
    """What topics hold until Kafka or the operator removes it. If no row was found, it may have been published."""
    if messages != 0:
        yield _left_in_input(topic_name(table.name, CHANGES), settings, messages)
    if not erased or any(one.was == IN_GROUP for one in erased):
        for kind in live_kinds(table):
            topic = topic_name(table.name, kind)
            yield _compacted(topic, "the former record: intervals and published values, no key", settings[topic])
    if table.sealed is not None and (not erased or any(one.sealed == IN_COHORT for one in erased)):
        yield Left(
            topic_name(table.name, SEALED),
            "if she was in a cohort, one of its rows, which says of nobody in particular that she was in it",
            "nobody",
            "cohorts are never altered",
        )


def _left_in_input(topic: str, settings: Settings, messages: int | None) -> Left:
    what = "messages" if messages is None else f"{plural(messages, 'message')}, the deletion included,"
    what, own = f"{what} with the key and raw values", settings[topic]
    if "compact" in own["cleanup.policy"]:
        return _compacted(topic, what, own)
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
    number = int(milliseconds)
    return (
        plural(number // DAY_MILLISECONDS, "day")
        if number and number % DAY_MILLISECONDS == 0
        else f"{number / 1000:,g} s"
    )


def _compacted(topic: str, what: str, settings: Mapping[str, str]) -> Left:
    """What Kafka removes by itself, and when, by the topic's settings."""
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
"""What no command here can see."""


# -- the receipt ------------------------------------------------------------------------------------------------------


def _now() -> datetime:
    return datetime.now(UTC)


def _text_of(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _hand_out(receipt: Receipt, out: Path | None, as_json: bool) -> None:
    """Prints the receipt, and writes it into a file."""
    encoded = msgspec.json.format(msgspec.json.encode(asdict(receipt)))
    lines = list(_lines(receipt))
    if out is not None:
        with atomic_writer(out, text=True) as file:
            file.write(encoded.decode() + "\n" if out.suffix.lower() == ".json" else "\n".join(lines) + "\n")
    if as_json:
        click.echo(msgspec.json.encode(asdict(receipt)))
        return
    for line in lines:
        say(line)
    if out is not None:
        say(f"the receipt is in {out}, which is private")


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
    gone = sum(row.state == ROW_GONE for row in receipt.rows)
    return f"{plural(gone, 'row')} erased" if receipt.ok else f"{gone} of {plural(len(receipt.rows), 'row')} erased"


def _row_line(row: ErasedRow) -> str:
    written = "" if row.offset is None else f"deletion at offset {row.offset} of the input; "
    if row.state != ROW_GONE:
        repeat = "; call this again with --no-send for the receipt" if row.state == ROW_WAITING else ""
        return f"shard {row.shard}: {written}{row.state}: {row.why}{repeat}"
    if row.was == PENDING_ROW:
        became = "it was pending, and never published"
    elif row.group_is_left:
        became = "its QI group was published again without it"
    else:
        became = "its QI group is dissolved: the other rows are in other groups"
    sealed = "" if row.sealed == NEVER_SEALED else f"; sealed: it was {row.sealed}, and nothing names it there any more"
    return f"shard {row.shard}: {written}gone by commit {row.commit} and release {row.release}: {became}{sealed}"
