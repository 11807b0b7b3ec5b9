"""Loading a table with all rows at once, for `load` and `reload`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from secrets import token_bytes
from threading import Event, Thread
from time import time

from streamer.cli.stream.key_form_probe import key_form_seen
from streamer.cli.support.options import TOPIC
from streamer.compiling import is_coming, wait_while_coming, warm_in_background
from streamer.errors import ConfigError, Conflict, ServerUnreachable, StreamerError, UsageError
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.events.key_form import AnyKeyForm, default_form, shard_of
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.formats.live_format import LiveFormat
from streamer.incremental.sealed.alpha import check_alpha
from streamer.incremental.shard.bootstrap import Begun, known_secret, reload, whole_table
from streamer.incremental.shard.driver import read_after_truncation, read_again
from streamer.incremental.shard.first_commits import FirstTable, Prepared, prepare
from streamer.incremental.shard.input import InputState, Remainder
from streamer.incremental.shard.ready import RowsRead
from streamer.incremental.shard.sealing import check_goes_on
from streamer.incremental.shard.truncations import last_truncation, skipped_in
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, forget_shard, shards_of
from streamer.incremental.store.redis_server import connect, connect_now, require_durable
from streamer.incremental.topics import CHANGES, published_kinds, topic_name
from streamer.kafka.clients import client_settings, open_consumer, reaching, require_answer
from streamer.kafka.control import KafkaControl
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput, KafkaReading, kafka_topics
from streamer.kafka.topics import Admin, is_compacted
from streamer.progress import OnProgress, unheard
from streamer.table.data_warnings import unknown_category_rows, unknown_category_warnings
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from streamer.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a table: their inputs and stores, and how to read and write their output."""

    settings: WorkerSettings
    claim: str  # of the command that loads them
    inputs: Sequence[KafkaInput]
    states: Sequence[InputState]
    stores: Sequence[RedisLookups]

    def __len__(self) -> int:
        return len(self.states)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(*self._output_of(shard))

    def former(self) -> list[int]:
        """Numbers of shards in Redis that the input no longer has, because it was recreated with fewer partitions."""
        held = shards_of(connect(self.settings.redis), self.settings.table.name)
        return [number for number in held if number >= len(self)]

    def reading(self, shard: int) -> KafkaReading:
        return KafkaReading(*self._output_of(shard))

    def _output_of(self, shard: int) -> tuple[str, str, int, Sequence[str], LiveFormat]:
        settings = self.settings
        return settings.kafka, settings.table.name, shard, published_kinds(settings.table), settings.live_format


LEASE_SECONDS, RENEWED_EVERY_SECONDS = 30.0, 5.0
"""A command that is killed keeps others out for so long: more than a failover of Redis takes, as a rule."""

ENDING_SECONDS_MAX = 1.0


@contextmanager
def claimed(settings: WorkerSettings, command: str) -> Iterator[str]:
    """In the block no other command loads the table; yields the claim.

    Raises Conflict if another command has it, ServerUnreachable. Only who looks at the table in the block may write by
    what it finds.
    """
    first = RedisLookups(connect_now(settings.redis), settings.table.name, 0)
    claim = first.claim(f"`{command}` ({settings.name})", LEASE_SECONDS)
    ended = Event()
    renewing = Thread(target=_renew, args=(first, claim, ended), name="claim", daemon=True)
    renewing.start()
    try:
        yield claim
    finally:
        ended.set()
        renewing.join(ENDING_SECONDS_MAX)  # if Redis does not answer, the claim ends by itself


def _renew(first: RedisLookups, claim: str, ended: Event) -> None:
    """Renews a claim until the command ends. If it cannot, and another command comes, no write will be taken."""
    with suppress(StreamerError):
        while not ended.wait(RENEWED_EVERY_SECONDS):
            with suppress(ServerUnreachable):
                first.renew(claim, LEASE_SECONDS)
        first.renew(claim, 0)


def found_shards(settings: WorkerSettings, claim: str) -> Shards:
    """Reads the state of all shards from Kafka and Redis, where commands with earlier claims are shut out.

    Raises ConfigError, ShardRefused, NotDurable, ServerUnreachable; Fenced if a later command has claimed the table.
    """
    kafka, table = settings.kafka, settings.table
    settings.live_format.begin()
    client, topics = connect(settings.redis), kafka_topics(kafka, table.name)
    require_answer(kafka)
    require_durable(client, table.durability_stated or settings.embedded)
    outputs = published_kinds(table)
    inputs = [KafkaInput(kafka, table.name, 0, topics, outputs)]
    states = [inputs[0].state()]
    for shard in range(1, states[0].shards):
        inputs.append(KafkaInput(kafka, table.name, shard, topics, outputs))
        states.append(inputs[-1].state())
    stores = [RedisLookups(client, table.name, shard) for shard in range(len(states))]
    for store in stores:
        store.shut_out_older(claim)
    return Shards(settings, claim, inputs, states, stores)


def empty_shards(settings: WorkerSettings, claim: str) -> Shards:
    """As `found_shards`. Raises UsageError if any shard holds something already."""
    shards = found_shards(settings, claim)
    filled = [shard for shard in range(len(shards)) if not _is_empty(shards, shard)]
    if filled := [*filled, *shards.former()]:
        raise UsageError(
            f"shard {filled[0]} of {settings.table.name} is not empty, and `load` fills empty tables only; "
            "`streamer reload --from-source` replaces what is there"
        )
    return shards


def _is_empty(shards: Shards, shard: int) -> bool:
    meta, position = shards.stores[shard].meta(), shards.outlet(shard).position()
    return (meta is None or not meta.commit) and position is None and not shards.states[shard].live_begun


# -- the rows of a file, by shard -------------------------------------------------------------------------------------

EMPTY_IT = "`streamer produce --truncate` empties a table on purpose"


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of a file by shard."""

    rows: Sequence[EncodedRows] = field(repr=False)
    key_form: str  # by which they were routed; "" if there is one shard
    seen: bool = True  # whether messages of the input show this key form
    unlisted: Mapping[str, int] = field(default_factory=dict)  # by column, rows with a category that only `other` takes


def routed_file(
    table: Table,
    source: RowSource,
    kafka: str,
    shards: int,
    known: Collection[str] = (),
    schemas: Schemas | None = None,
) -> Routed:
    """The rows of a file, each in the shard that gets its messages. known: key forms that shards have learned.

    Raises ConfigError for a file or a row that is refused; UsageError if the shards of rows cannot be computed.
    """
    if shards > 1 and table.partitioner_stated:
        raise UsageError(
            "table.yaml says `input: {partitioner: stated}`, so only the rows' own producer knows their shards: let it "
            "send all rows, and give --from-source topic"
        )
    frame = source.rows()
    encoded = Encoder(table).frame(frame)
    if not encoded.source_keys:
        raise ConfigError(f"{source.name}: holds no rows, so the table would be empty; {EMPTY_IT}")
    unlisted = unknown_category_rows(table, frame)
    if shards == 1:
        return Routed([encoded], "", unlisted=unlisted)
    with reaching(kafka), open_consumer(kafka) as consumer:
        seen = key_form_seen(consumer, topic_name(table.name, CHANGES), table, schemas or NoSchemas())
    key_form = seen or assumed_form(table, known)
    return Routed(by_shard(encoded, key_form, shards), key_form.name, seen is not None, unlisted)


def assumed_form(table: Table, known: Collection[str]) -> AnyKeyForm:
    """The key form if no message of the input shows one. Raises UsageError if shards have learned another one."""
    key_form = default_form(table.source_key)
    if others := sorted({form for form in known if form} - {key_form.name}):
        raise UsageError(
            f"the shards know message keys as {others[0]}, and no message of the input shows any more how a row's key "
            "is written in this form: let the producer send one change, then call this again"
        )
    return key_form


def by_shard(encoded: EncodedRows, key_form: AnyKeyForm, shards: int) -> list[EncodedRows]:
    """Rows by the shard that murmur2 of their message keys gives. Raises ConfigError for a key without this form."""
    indexes: list[list[int]] = [[] for _ in range(shards)]
    for index, source_key in enumerate(encoded.source_keys):
        message_key = key_form.written(source_key)
        if message_key is None:
            raise ConfigError(
                f"data row {index + 1}: its key cannot be written as {key_form.name}, as the input's message keys are"
            )
        indexes[shard_of(message_key, shards)].append(index)
    return [_some(encoded, own) for own in indexes]


def _some(encoded: EncodedRows, indexes: Sequence[int]) -> EncodedRows:
    pick = itemgetter(*indexes) if len(indexes) > 1 else lambda column: tuple(column[index] for index in indexes)
    columns = (encoded.source_keys, encoded.values, encoded.exact, encoded.individuals)
    source_keys, values, exact, individuals = (list(pick(column)) for column in columns)
    nulls = list(pick(encoded.nulls)) if encoded.nulls else ()
    return EncodedRows(source_keys, encoded.codes[list(indexes)], values, exact, individuals, nulls)


# -- the first rows of every shard, from a file or from the input -----------------------------------------------------
#
# * Where workers will read on is decided before the source is read: what comes later is applied on top of it.
# * Nothing is written here: a faulty source is reported before a shard is touched.
# * The last truncation in any shard's input counts for all shards; requests in the control topic are history then.

END, EARLIEST = "end", "earliest"

Say = Callable[[str], None]


def first_tables(
    shards: Shards, source: RowSource, from_offset: str, tell: Say, although_trimmed: bool, warn: Say
) -> list[FirstTable]:
    """The first rows of every shard, not yet in QI groups."""
    table = shards.settings.table
    if str(source) == TOPIC:
        if from_offset != END:
            raise UsageError(f"--from-offset: not with {TOPIC}: workers read on where this command ends reading")
        remainders = [Remainder(table, len(shards), shards.settings.schemas) for _ in shards.states]
        read = [_of_topic(shards, shard, one, tell) for shard, one in enumerate(remainders)]
        if not although_trimmed:
            _check_whole(shards, remainders)
            _check_compacted(shards, read)
        first = _truncated(shards, read)
        if not any(one.counts.messages for one in first):
            raise UsageError(f"the input holds no message, so the table would be empty; {EMPTY_IT}")
        counts = sum((one.counts for one in first), NO_MESSAGES)
        _warn_of_unlisted(table, counts.unlisted, counts.applied, "applied messages", warn)
        return first
    next_ = _next(shards, from_offset)
    known = [meta.key_form for store in shards.stores if (meta := store.meta()) is not None]
    routed = routed_file(table, source, shards.settings.kafka, len(shards), known, shards.settings.schemas)
    _tell_routed(routed, tell)
    _warn_of_unlisted(table, routed.unlisted, sum(len(rows.source_keys) for rows in routed.rows), "rows", warn)
    return [_first_table(shards, n, rows, next_[n], key_form=routed.key_form) for n, rows in enumerate(routed.rows)]


def _check_whole(shards: Shards, remainders: Sequence[Remainder]) -> None:
    """Raises UsageError if what is left of an input cannot contain all rows."""
    lost = {n: state.earliest for n, state in enumerate(shards.states) if state.earliest and not remainders[n].says_all}
    if lost:
        listed = ", ".join(f"shard {n}: {earliest:,} offsets, 0 to {earliest - 1}" for n, earliest in lost.items())
        raise UsageError(
            f"the input has lost its beginning ({listed}), and no truncation and no beginning of a snapshot follows: "
            "rows that it no longer contains would be missing, and it is unknown which; give a file of all rows, or "
            "--although-trimmed if no row is missing"
        )


def _check_compacted(shards: Shards, read: Sequence[FirstTable]) -> None:
    """Raises UsageError if a refused message of a compacted input may have been the only one of its row."""
    topic, refused = topic_name(shards.settings.table.name, CHANGES), sum(one.counts.dead_letters for one in read)
    has_gaps = sum(one.counts.messages for one in read) < sum(state.end - state.earliest for state in shards.states)
    if refused and has_gaps and is_compacted(Admin(client_settings(shards.settings.kafka)), topic):
        raise UsageError(
            f"{topic} is compacted, and {refused:,} of its messages are refused (`streamer dead-letters`): each may be "
            "all that is left of its row. Correct these rows at their source, or give a file of all rows; "
            "--although-trimmed if no row is missing (a plain `delete` of a row that is gone is refused, too: in a "
            "compacted input a null removes a row)"
        )


def _tell_routed(routed: Routed, tell: Say) -> None:
    tell(f"{sum(len(rows.source_keys) for rows in routed.rows):,} rows read")
    if not routed.seen:
        tell(
            f"no message of the input shows how keys are written: {routed.key_form} is assumed, and messages with keys "
            "of another form will be refused"
        )


def _warn_of_unlisted(table: Table, unlisted: Mapping[str, int], of: int, what: str, warn: Say) -> None:
    for sentence in unknown_category_warnings(table, unlisted, of, what):
        warn(sentence)


def _next(shards: Shards, from_offset: str) -> list[int]:
    """The offset of each shard from which workers will read on. Raises UsageError if the input does not have it."""
    if from_offset in (END, EARLIEST):
        return [state.end if from_offset == END else state.earliest for state in shards.states]
    if len(shards) > 1:
        raise UsageError(
            f"--from-offset {from_offset}: the input has {len(shards)} shards, and an offset means something else in "
            "each: give end or earliest"
        )
    offset, state = int(from_offset), shards.states[0]
    if not state.earliest <= offset <= state.end:
        raise UsageError(f"--from-offset {offset}: the input begins at {state.earliest} and ends at {state.end}")
    return [offset]


def _of_topic(shards: Shards, shard: int, remainder: Remainder, tell: Say) -> FirstTable:
    """The rows of a shard's input from beginning to end; remainder: judges an input that has lost its beginning."""
    settings, state = shards.settings, shards.states[shard]
    skips = KafkaControl(settings.kafka, settings.table.name, shard).skips(state.topic_ids.get(CHANGES, ""))
    skipped = _skipped(shards.stores[shard].meta(), state, skips)
    held = shards.reading(shard).messages(state)
    messages = remainder.read(held) if state.earliest else held
    read = read_again(settings.table, shard, len(shards), messages, state.end, skipped, schemas=settings.schemas)
    _tell_read(shard, state, read, remainder.says_all, tell)
    kept = ("key_form", "counts", "letters", "statement_ids", "skipped", "truncated", "log_seen")
    return _first_table(shards, shard, read.rows, read.next, **{name: getattr(read, name) for name in kept})


def _truncated(shards: Shards, first: Sequence[FirstTable]) -> list[FirstTable]:
    """The rows left after the last truncation in any shard's input; most inputs do not contain it."""
    source = last_truncation([one.truncated for one in first], shards.settings.table.name)
    if source is None:
        return list(first)
    return [one if one.truncated == source else _after(shards, n, one, source) for n, one in enumerate(first)]


def _after(shards: Shards, shard: int, first: FirstTable, source: SourcePosition) -> FirstTable:
    """The rows of a shard that came after a truncation."""
    reading, bounds = shards.reading(shard), (shards.states[shard].earliest, first.next)
    table, skips, schemas = shards.settings.table, first.skipped, shards.settings.schemas
    later = read_after_truncation(source, table, shard, len(shards), *bounds, reading.between, skips, schemas)
    return replace(
        first,
        rows=later.rows,
        key_form=later.key_form,
        truncated=source,
        log_seen=later.log_seen,
        letters_from=first.next,
    )


def _skipped(meta: Meta | None, state: InputState, skips: Iterable[int]) -> set[int]:
    """Offsets of this input that were skipped or are to be skipped, without those that were retried since."""
    if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
        return set(skips)
    return set(skips).difference(offset for _, offset in meta.retried) | skipped_in(meta)


def _tell_read(shard: int, state: InputState, read: RowsRead, says_all: bool, tell: Say) -> None:
    counts = read.counts
    tell(
        f"shard {shard}: {counts.messages:,} messages read again, {len(read.rows.source_keys):,} rows, "
        f"{counts.dead_letters:,} dead letters"
    )
    if state.earliest:
        still = "all rows follow there" if says_all else "rows that it no longer contains are removed"
        tell(f"shard {shard}: the input begins at offset {state.earliest}: {still}")
    for fault in read.faults:
        tell(f"shard {shard}: {fault}")


def _first_table(shards: Shards, shard: int, rows: EncodedRows, next_: int, **more: object) -> FirstTable:
    """Rows that are not yet in QI groups, with the shard's secret, or a new one if it has none."""
    secret = known_secret(shards.inputs[shard].secret(), shards.stores[shard].meta()) or token_bytes(SECRET_BYTES)
    return FirstTable(rows, (), secret, next_, **more)  # type: ignore[arg-type]


# -- all shards -------------------------------------------------------------------------------------------------------
#
# * Nothing is written before all rows of all shards are read, checked and put into QI groups: a faulty source is
#   reported while the workers still serve the table.
# * One command at a time: it claims the table before it looks at anything, and renews its claim. A command that was
#   away for longer than the lease, and comes back behind another one, is shut out of every shard.
# * Then shards are written as `streamer.incremental.shard.bootstrap` says. A command that ends in the middle must be
#   called again: until all shards have their rows, no worker serves one of them, and `status` says why.
# * Shards are independent, so as many as there are cores are loaded at once. If one fails, the others finish first.

UNCOMPILED_ROWS_MAX = 5_000
"""With more rows, it is faster to compile the core first."""

Step = Callable[[str], OnProgress]


def begin(
    shards: Shards,
    source: RowSource,
    from_offset: str,
    tell: Say,
    step: Step = lambda _: unheard,
    although_trimmed: bool = False,
    warn: Say = lambda _: None,
) -> Iterator[Begun]:
    """Loads every shard from the source; yields what was done, shard by shard.

    tell: called with lines about the work; warn: with warnings about the source. step: called with the name of each
    part of the work; returns the callback for its progress. although_trimmed: accept an input that has lost its
    beginning. In the end, shards that the input no longer has are removed from Redis.
    """
    table, n = shards.settings.table, len(shards)
    for shard in range(n):
        shards.reading(shard).check_format()
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="shard") as threads:
        step("read")
        read = first_tables(shards, source, from_offset, tell, although_trimmed, warn)
        _check_sealed(shards, read, warn)
        first = list(threads.map(partial(_in_groups, table), read, _for_each(read, step("anonymize"))))
        del read
        step("compile")
        _have_compiled(table, sum(len(one.rows.source_keys) for one in first), tell)
        step("load")
        prepared = list(threads.map(partial(prepare, table), range(n), repeat(n), first))
        step("write")
        with whole_table(shards.stores, shards.claim):
            begun = threads.map(partial(_begun, shards), range(n), prepared)
            del first, prepared  # the iterator frees each with its shard
            yield from begun
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        tell(f"shard {shard}: removed from Redis, as the input has {n} partitions")


def _begun(shards: Shards, shard: int, prepared: Prepared) -> Begun:
    """One shard, in a thread of its own."""
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict("the topics were recreated or have grown since the command started: call it again")
    table, store, secret = shards.settings.table, shards.stores[shard], shards.inputs[shard].secret
    form = cohort_formation(table) if table.sealed is not None else None
    outlet = shards.outlet(shard)
    return reload(table, shard, store, outlet, state, prepared, read_secret=secret, form=form, now=time())


def _check_sealed(shards: Shards, first: Sequence[FirstTable], warn: Say) -> None:
    """Raises ConfigError or ShardRefused if these rows cannot be published in sealed cohorts."""
    for shard, store in enumerate(shards.stores):
        check_goes_on(shards.settings.table, shard, store.meta(), shards.states[shard])
    for warning in check_alpha(shards.settings.table, [values for one in first for values in one.rows.values]):
        warn(warning)


def _for_each(shards: Sequence[FirstTable], on_progress: OnProgress) -> list[OnProgress]:
    """A progress callback for each shard; `on_progress` gets their mean."""
    shares = [0.0] * len(shards)

    def set_share(shard: int, share: float) -> None:
        shares[shard] = share
        on_progress(sum(shares) / len(shares))

    return [partial(set_share, shard) for shard in range(len(shards))]


def _in_groups(table: Table, first: FirstTable, on_progress: OnProgress) -> FirstTable:
    """The rows in the QI groups that the default algorithm makes."""
    return replace(first, qi_groups=first_groups(table, first.rows, seed(first.secret), on_progress))


def _have_compiled(table: Table, n_rows: int, tell: Say) -> None:
    """Waits until the core is compiled, if that is faster than loading uncompiled."""
    compiler = warm_in_background(table)
    if n_rows > UNCOMPILED_ROWS_MAX and is_coming(table, compiler):
        tell("compiling first: once per machine and version of streamer")
        wait_while_coming(table, compiler)
