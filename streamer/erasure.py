"""Deletes rows from a live table, and waits until readers have that, for `erase`.

The rules of this file
----------------------
* A deletion is a message of the input like any other: no value, under the row's message key, in the partition of the
  shard that holds the row. To send it twice changes nothing, and a compacted input forgets the row's former messages
  by it.
* If a database feeds the input, it would send the row again: the deletion has to come from there. Then nothing is sent
  here, and the rows are waited for.
* A row is gone if the deletion is read, Redis holds no record of the row, its QI group does not name it, and the
  position that is published is not older than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic, sleep

from streamer.errors import EventRefused, UsageError
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.events.decoder import ENVELOPE_OPS, Decoder, is_flattened
from streamer.incremental.events.json_messages import MessageReader
from streamer.incremental.events.key_form import AnyKeyForm, MessageKeys, shard_of
from streamer.incremental.events.registered_schemas import Schemas, schema_ids
from streamer.incremental.sealed.stored_state import IN_POOL
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import RedisClient, connect_now
from streamer.incremental.topics import CHANGES, live_kinds, topic_name
from streamer.kafka.clients import open_admin, open_consumer, open_writer, reaching
from streamer.kafka.reading import Consumer, Place, Record, batches_in, last_position, records, shards_in, watermarks
from streamer.kafka.registry import registry_from
from streamer.kafka.topics import settings_of
from streamer.loading.key_form import OFFSETS_LOOKED_AT, assumed_form, key_form_seen
from streamer.progress import OnProgress, Stage
from streamer.table.encode import Encoder
from streamer.table.schema import Table

LOOKED_AGAIN_SECONDS = 0.2

ROW_GONE, ROW_WAITING, ROW_THERE = "gone", "waiting", "there again"
PENDING_ROW, IN_GROUP = "pending", "in a QI group"
NEVER_SEALED, POOLED, IN_COHORT = "never", "in the pool", "in a cohort"

Settings = Mapping[str, Mapping[str, str]]  # of topics, by name


@dataclass(frozen=True, slots=True)
class Erasure:
    """The rows to delete, and how."""

    keys: Sequence[str] = field(repr=False)  # of rows
    individual: str | None = field(repr=False)  # or all rows of an individual
    sends: bool  # deletions are sent; else they were sent before, or the source does it
    seconds_max: float  # for which readers are waited for
    counts: bool  # all of the input is read, to count the messages that are left


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
    """The fate of one row. Fields without a comment: of its shard when that was seen first."""

    shard: int
    was: str  # PENDING_ROW or IN_GROUP
    sealed: str  # as in `FoundRow`
    state: str = ROW_WAITING  # or ROW_GONE, or ROW_THERE
    offset: int | None = None  # of the deletion that this command wrote
    commit: int | None = None
    release: int | None = None
    group_is_left: bool = False  # its QI group is still there, without it
    why: str = ""  # the row is not gone


@dataclass(frozen=True, slots=True)
class Erased:
    """The fate of all rows, and what Kafka keeps of them."""

    rows: Sequence[ErasedRow]
    messages: int | None  # of these rows that are left in the input; None: not counted
    settings: Settings  # of the topics that hold messages or published records of a row

    @property
    def ok(self) -> bool:
        return all(row.state == ROW_GONE for row in self.rows)


def erase(kafka: str, redis: str, table: Table, asked: Erasure, stage: Stage) -> Erased:
    """Deletes rows, and waits for that. Raises UsageError before anything is sent if it would be of no use."""
    stores = _stores(connect_now(redis), table)
    with reaching(kafka), open_consumer(kafka) as consumer:
        with stage("look"):
            rows = list(_found(table, stores, asked))
            settings = _settings(kafka, table)
        if asked.sends:
            _require_all(table, rows, asked.keys)
        offsets = _deletions_sent(kafka, consumer, table, rows) if asked.sends else [None] * len(rows)
        with stage("wait"):
            erased = _waited_for(consumer, table, stores, rows, offsets, asked.seconds_max)
        there = [row.source_key for row, one in zip(rows, erased, strict=False) if one.state != ROW_GONE]
        erased += came_since(_found(table, stores, asked), there)
        messages = None
        if asked.counts:
            keys = {*asked.keys, *(row.source_key for row in rows)}
            with stage("count") as on_progress:
                messages = _messages_left(consumer, table, keys, on_progress)
    return Erased(erased, messages, settings)


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


def _found(table: Table, stores: Iterable[RedisLookups], asked: Erasure) -> Iterator[FoundRow]:
    """The rows that are asked for, as far as shards hold them."""
    who = None if asked.individual is None else _individual(table, asked.individual)
    for store in stores:
        keys = asked.keys if who is None else sorted(store.keys_of(who, table.counted_text))
        for source_key, record in store.read_records(keys).items():
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
                f"Redis holds shard {shard}, and {topic} has {len(places):,} partition{'s' * (len(places) != 1)}: "
                "`streamer status` says what to do"
            )
        if table.input_rows or _is_captured(consumer, table, places[shard], schemas):
            raise UsageError(FROM_DATABASE.format(topic))
    known = [meta.key_form for row in rows if (meta := row.store.meta()) is not None]
    form = key_form_seen(consumer, topic, table, schemas) or assumed_form(table, known)
    keys = [_message_key(table, form, row, len(places)) for row in rows]
    with open_writer(kafka, topic) as writer:
        return [writer.write(None, key, row.shard) for key, row in zip(keys, rows, strict=True)]


def _is_captured(consumer: Consumer, table: Table, place: Place, schemas: Schemas) -> bool:
    """True if any of the last messages was captured from a database."""
    begin, end = watermarks(consumer, place)
    reader = MessageReader(table, schemas.known)
    for record in records(consumer, place, max(begin, end - OFFSETS_LOOKED_AT), end):
        value = record.value()
        schemas.learn(schema_ids([(record.key(), value)]))
        with suppress(EventRefused):
            message = None if value is None else reader.read(value)[0]
            if isinstance(message, dict) and (is_flattened(message) or message.get("op") in ENVELOPE_OPS):
                return True
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
    consumer: Consumer, table: Table, stores: Sequence[RedisLookups], rows: Sequence[FoundRow],
    offsets: Sequence[int | None], seconds_max: float,
) -> list[ErasedRow]:  # fmt: skip
    """Waits until the rows are gone, or the time is over; returns their fate.

    If no shard held one, its deletion may not be published yet: then shards that have not published all are returned.
    """
    erased = [_seen_first(row, offset) for row, offset in zip(rows, offsets, strict=True)]
    until = monotonic() + seconds_max
    while True:
        erased = [
            one if one.state == ROW_GONE else _looked_at(consumer, table, row, one)
            for row, one in zip(rows, erased, strict=True)
        ]
        behind = erased or [one for store in stores if (one := not_published(consumer, table, store))]
        if not any(one.state == ROW_WAITING for one in behind) or monotonic() > until:
            return behind
        sleep(LOOKED_AGAIN_SECONDS)


def _seen_first(row: FoundRow, offset: int | None = None) -> ErasedRow:
    was = PENDING_ROW if row.qi_group == PENDING else IN_GROUP
    return ErasedRow(row.shard, was, row.sealed, offset=offset)


def not_published(consumer: Consumer, table: Table, store: RedisLookups) -> ErasedRow | None:
    """A row that a shard may have held, if its last commit is not published yet."""
    meta = store.meta()
    why = _unpublished(consumer, table, store.shard, meta.commit) if meta is not None and meta.commit else ""
    return ErasedRow(store.shard, IN_GROUP, NEVER_SEALED, why=f"it is not in Redis, and {why}") if why else None


def _unpublished(consumer: Consumer, table: Table, shard: int, commit: int) -> str:
    """The reason why readers do not have a commit yet; "" if they have it."""
    position = last_position(consumer, table.name, shard)
    has = position is not None and position.commit >= commit
    return "" if has else f"commit {commit} is not published yet: is a worker running?"


def came_since(found: Iterable[FoundRow], there: Sequence[str]) -> list[ErasedRow]:
    """The rows that have come since the command began, or come back. there: source keys of the others."""
    why = "the row has come since the command began: stop who sends it, and call this again"
    return [replace(_seen_first(row), state=ROW_THERE, why=why) for row in found if row.source_key not in there]


def _looked_at(consumer: Consumer, table: Table, row: FoundRow, erased: ErasedRow) -> ErasedRow:
    store, meta = row.store, row.store.meta()
    if meta is None:
        return replace(erased, why="Redis has lost the shard")
    if erased.offset is not None and meta.next <= erased.offset:
        return replace(erased, why=_not_read(store, meta.next))
    if store.read_records([row.source_key]):
        if erased.offset is None:
            return replace(erased, why="no deletion of it has been applied yet")
        return replace(erased, state=ROW_THERE, why=REFUSED_OR_AGAIN)
    group = store.read_group(row.qi_group) if row.qi_group != PENDING else None
    after = store.meta()
    if after is None or (group is not None and row.source_key in group.members):
        return replace(erased, why="its QI group is being written")
    if why := _unpublished(consumer, table, row.shard, after.commit):
        return replace(erased, why=why)
    is_left = group is not None
    return replace(erased, state=ROW_GONE, commit=after.commit, release=after.release, group_is_left=is_left, why="")


REFUSED_OR_AGAIN = (
    "the deletion was read, and the row is there: it was refused (`streamer dead-letters`), or the source has sent the "
    "row again"
)


def _not_read(store: RedisLookups, next_: int) -> str:
    refusal = store.custody().refusal
    why = f"its worker refuses the shard: {refusal.reason}" if refusal else "is a worker running?"
    return f"the deletion is written, and the shard has read up to offset {next_}; {why}"


# -- what Kafka keeps -------------------------------------------------------------------------------------------------


def _settings(kafka: str, table: Table) -> Settings:
    """The settings of the topics that hold messages or published records of a row."""
    names = [topic_name(table.name, kind) for kind in (CHANGES, *live_kinds(table))]
    with open_admin(kafka) as admin:
        return {name: settings_of(admin, name) for name in names}


def _messages_left(consumer: Consumer, table: Table, keys: set[str], on_progress: OnProgress) -> int:
    """Counts the messages of the input that name one of these source keys. Reads all of it."""
    schemas = registry_from()
    decoder, message_keys = Decoder(table, schemas.known), MessageKeys(Encoder(table), schemas.known)
    reach = {one: watermarks(consumer, one) for one in shards_in(consumer, topic_name(table.name, CHANGES))}
    found, total = Counter[bool](), sum(end - begin for begin, end in reach.values())
    for batch in batches_in(consumer, reach):
        schemas.learn(schema_ids((record.key(), record.value()) for record in batch))
        found.update(not keys.isdisjoint(_named(record, decoder, message_keys)) for record in batch)
        on_progress(min(1.0, found.total() / max(1, total)))
    return found[True]


def _named(record: Record, decoder: Decoder, message_keys: MessageKeys) -> Iterator[str]:
    with suppress(EventRefused):
        yield message_keys.source_key(record.key())
    with suppress(EventRefused):
        change = decoder.decode(record.key(), record.value())
        yield from filter(None, (getattr(change, name, None) for name in ("source_key", "former_key")))
