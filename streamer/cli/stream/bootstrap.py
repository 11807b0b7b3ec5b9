"""A table that begins with all rows at once, for `load` and `reload`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from secrets import token_bytes

from streamer.cli.stream.key_form_probe import key_form_seen
from streamer.compiling import is_coming, wait_while_coming, warm_in_background
from streamer.errors import ConfigError, Conflict, UsageError
from streamer.grouping import first_groups
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.events.key_form import AnyKeyForm, form_unless_told, shard_of
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.formats.live_format import LiveFormat
from streamer.incremental.shard.bootstrap import Begun, reload
from streamer.incremental.shard.driver import read_again, read_behind
from streamer.incremental.shard.first_commits import FirstTable, Prepared, prepare
from streamer.incremental.shard.input import InputState, Remainder
from streamer.incremental.shard.ready import RowsRead
from streamer.incremental.shard.truncations import last_truncation, passed_over_in
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, forget_shard, shards_of
from streamer.incremental.store.redis_server import connect, require_durable
from streamer.incremental.topics import CHANGES, outputs_of, topic_name
from streamer.kafka.clients import open_consumer, reaching
from streamer.kafka.control import KafkaControl
from streamer.kafka.diagnose import require_access
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.settings import servers_of
from streamer.kafka.shard_input import KafkaInput, KafkaReading, kafka_topics
from streamer.progress import OnProgress, unheard
from streamer.table.data_warnings import unlisted_rows, unlisted_sentences
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import read_table
from streamer.table.schema import Table
from streamer.worker.settings import WorkerSettings

# The shards of a table as a command finds them: their inputs, their stores, and how to write and read their output.


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a table as a command finds them."""

    settings: WorkerSettings
    inputs: Sequence[KafkaInput]
    states: Sequence[InputState]
    stores: Sequence[RedisLookups]

    def __len__(self) -> int:
        return len(self.states)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(*self._output_of(shard))

    def former(self) -> list[int]:
        """Numbers of the shards that Redis holds, and the input has not any more: it was made anew with fewer."""
        held = shards_of(connect(self.settings.redis), self.settings.table.name)
        return [number for number in held if number >= len(self)]

    def reading(self, shard: int) -> KafkaReading:
        return KafkaReading(*self._output_of(shard))

    def _output_of(self, shard: int) -> tuple[str, str, int, Sequence[str], LiveFormat]:
        settings = self.settings
        return settings.kafka, settings.table.name, shard, outputs_of(settings.table.form), settings.live_format


def found_shards(settings: WorkerSettings) -> Shards:
    """Looks at the servers, the schema registry too where one is needed.

    Raises ConfigError, ShardRefused, NotDurable, ServerUnreachable.
    """
    kafka, table = settings.kafka, settings.table
    settings.live_format.begin()
    require_access(servers_of(kafka))
    client, topics = connect(settings.redis), kafka_topics(kafka, table.name)
    require_durable(client, table.durability_stated or settings.embedded)
    outputs = outputs_of(table.form)
    inputs = [KafkaInput(kafka, table.name, 0, topics, outputs)]
    states = [inputs[0].state()]
    for shard in range(1, states[0].shards):
        inputs.append(KafkaInput(kafka, table.name, shard, topics, outputs))
        states.append(inputs[-1].state())
    stores = [RedisLookups(client, table.name, shard) for shard in range(len(states))]
    return Shards(settings, inputs, states, stores)


def require_empty(shards: Shards) -> None:
    """Raises UsageError where any shard has begun already."""
    begun = [shard for shard in range(len(shards)) if _has_begun(shards, shard)]
    if begun := [*begun, *shards.former()]:
        raise UsageError(
            f"shard {begun[0]} of {shards.settings.table.name} has begun already, and `load` fills empty tables only; "
            "`streamer reload --from-source` replaces what is there"
        )


def _has_begun(shards: Shards, shard: int) -> bool:
    meta, position = shards.stores[shard].meta(), shards.outlet(shard).position()
    return (meta is not None and bool(meta.commit)) or position is not None or shards.states[shard].live_begun


# The rows of a file that a table begins with, by the shard that the input would bring each of them to.

TOPIC = "topic"
"""In place of a file: the input is read again."""


EMPTY_IT = "`streamer produce --truncate` empties a table on purpose"


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of a file by shard, and the form of message keys by which they were routed; "" where there is one shard.

    seen: whether messages of the input told the form. unlisted: how many rows, by column, have a category
    that only `other` takes.
    """

    rows: Sequence[EncodedRows] = field(repr=False)
    key_form: str
    seen: bool = True
    unlisted: Mapping[str, int] = field(default_factory=dict)


def routed_file(
    table: Table,
    path: str,
    kafka: str,
    shards: int,
    known: Collection[str] = (),
    schemas: Schemas | None = None,
) -> Routed:
    """The rows of a file, each in the shard to which its messages come. known: forms that shards have learned;
    schemas: of a registry.

    Raises ConfigError for a file or a row that is refused; UsageError where nobody can tell a row's shard.
    """
    if shards > 1 and table.partitioner_stated:
        raise UsageError(
            "table.yaml says `input: {partitioner: stated}`, so nobody but the rows' own producer can tell their "
            "shards: let it send all rows, and say --from-source topic"
        )
    frame = read_table(path)
    encoded = Encoder(table).frame(frame)
    if not encoded.source_keys:
        raise ConfigError(f"{path}: holds no rows, so nobody would be published any more; {EMPTY_IT}")
    unlisted = unlisted_rows(table, frame)
    if shards == 1:
        return Routed([encoded], "", unlisted=unlisted)
    with reaching(kafka), open_consumer(kafka) as consumer:
        seen = key_form_seen(consumer, topic_name(table.name, CHANGES), table, schemas or NoSchemas())
    key_form = seen or form_unless_told(table.source_key)
    if others := sorted({form for form in known if form} - {key_form.name}) if seen is None else []:
        raise UsageError(
            f"the shards know message keys as {others[0]}, and the input holds no message any more that shows how a "
            "row's key is written so: let the producer send one change, then call this again"
        )
    return Routed(by_shard(encoded, key_form, shards), key_form.name, seen is not None, unlisted)


def by_shard(encoded: EncodedRows, key_form: AnyKeyForm, shards: int) -> list[EncodedRows]:
    """Rows by the shard that murmur2 of their message keys gives. Raises ConfigError where one cannot be written so."""
    places: list[list[int]] = [[] for _ in range(shards)]
    for place, source_key in enumerate(encoded.source_keys):
        message_key = key_form.written(source_key)
        if message_key is None:
            raise ConfigError(
                f"data row {place + 1}: its key cannot be written as {key_form.name}, as the input's message keys are"
            )
        places[shard_of(message_key, shards)].append(place)
    return [_some(encoded, own) for own in places]


def _some(encoded: EncodedRows, places: Sequence[int]) -> EncodedRows:
    pick = itemgetter(*places) if len(places) > 1 else lambda column: tuple(column[place] for place in places)
    columns = (encoded.source_keys, encoded.values, encoded.exact, encoded.individuals)
    source_keys, values, exact, individuals = (list(pick(column)) for column in columns)
    nulls = list(pick(encoded.nulls)) if encoded.nulls else ()
    return EncodedRows(source_keys, encoded.codes[list(places)], values, exact, individuals, nulls)


# The rows that every shard begins with, as its source says them: those of a file, or of the input read again.
#
# * Where the input goes on is decided first, before the source is read: what comes later is applied on top of it.
# * Nothing is written here. Whatever is wrong with the source is said before a shard is touched.
# * The last truncation that any shard's input holds counts for all of them: a table that begins anew takes what the
#   control topic asked for as history.

END, EARLIEST = "end", "earliest"

Tell = Callable[[str], None]


def first_tables(
    shards: Shards, source: str, from_offset: str, tell: Tell, although_trimmed: bool, warn: Tell
) -> list[FirstTable]:
    """What every shard begins with, in no QI groups yet."""
    table = shards.settings.table
    if source == TOPIC:
        if from_offset != END:
            raise UsageError("--from-offset: where the input is read again, it goes on where that reading ended")
        remainders = [Remainder(table, len(shards), shards.settings.schemas) for _ in shards.states]
        read = [_of_topic(shards, shard, one, tell) for shard, one in enumerate(remainders)]
        if not although_trimmed:
            _check_whole(shards, remainders)
        first = _truncated(shards, read)
        if not any(one.counts.messages for one in first):
            raise UsageError(f"the input holds no message, so nobody would be published any more; {EMPTY_IT}")
        counts = sum((one.counts for one in first), NO_MESSAGES)
        _warn_of_unlisted(table, counts.unlisted, counts.applied, "applied messages", warn)
        return first
    next_ = _next(shards, from_offset)
    known = [meta.key_form for store in shards.stores if (meta := store.meta()) is not None]
    routed = routed_file(table, source, shards.settings.kafka, len(shards), known, shards.settings.schemas)
    _tell_routed(routed, tell)
    _warn_of_unlisted(table, routed.unlisted, sum(len(rows.source_keys) for rows in routed.rows), "rows", warn)
    return [_first_table(rows, next_[shard], key_form=routed.key_form) for shard, rows in enumerate(routed.rows)]


def _check_whole(shards: Shards, remainders: Sequence[Remainder]) -> None:
    """Raises UsageError where what is left of an input cannot say all rows."""
    lost = {n: state.earliest for n, state in enumerate(shards.states) if state.earliest and not remainders[n].says_all}
    if lost:
        told = ", ".join(f"shard {n}: {earliest:,} offsets, 0 to {earliest - 1}" for n, earliest in lost.items())
        raise UsageError(
            f"the input has lost its beginning ({told}), and no truncation and no beginning of a snapshot follows: "
            "rows of which it says no more would be missing, and nobody can tell which; give a file of all rows, or "
            "say --although-trimmed where none is missed"
        )


def _tell_routed(routed: Routed, tell: Tell) -> None:
    tell(f"{sum(len(rows.source_keys) for rows in routed.rows):,} rows read")
    if not routed.seen:
        tell(
            f"no message of the input tells how its keys are written: taken for {routed.key_form}, and messages with "
            "keys of another form will be refused"
        )


def _warn_of_unlisted(table: Table, unlisted: Mapping[str, int], of: int, what: str, warn: Tell) -> None:
    for sentence in unlisted_sentences(table, unlisted, of, what):
        warn(sentence)


def _next(shards: Shards, from_offset: str) -> list[int]:
    """Where the input goes on, shard by shard. Raises UsageError for an offset that the input does not have."""
    if from_offset in (END, EARLIEST):
        return [state.end if from_offset == END else state.earliest for state in shards.states]
    if len(shards) > 1:
        raise UsageError(
            f"--from-offset {from_offset}: the input has {len(shards)} shards, and an offset means something else in "
            "each: say end or earliest"
        )
    offset, state = int(from_offset), shards.states[0]
    if not state.earliest <= offset <= state.end:
        raise UsageError(f"--from-offset {offset}: the input begins at {state.earliest} and ends at {state.end}")
    return [offset]


def _of_topic(shards: Shards, shard: int, remainder: Remainder, tell: Tell) -> FirstTable:
    """The rows that a shard's input says from its beginning to its end; remainder: looks at one that has lost some."""
    settings, state = shards.settings, shards.states[shard]
    skips = KafkaControl(settings.kafka, settings.table.name, shard).skips(state.topic_ids.get(CHANGES, ""))
    passed_over = _passed_over(shards.stores[shard].meta(), state, skips)
    said = shards.reading(shard).messages(state)
    messages = remainder.read(said) if state.earliest else said
    read = read_again(settings.table, shard, len(shards), messages, state.end, passed_over, schemas=settings.schemas)
    _tell_read(shard, state, read, remainder.says_all, tell)
    return _first_table(
        read.rows,
        read.next,
        key_form=read.key_form,
        counts=read.counts,
        letters=read.letters,
        statement_ids=read.statement_ids,
        skipped=read.skipped,
        truncated=read.truncated,
        log_seen=read.log_seen,
    )


def _truncated(shards: Shards, first: Sequence[FirstTable]) -> list[FirstTable]:
    """What is left by the last truncation that any shard's input holds; most shards' inputs do not hold it."""
    source = last_truncation([one.truncated for one in first], shards.settings.table.name)
    if source is None:
        return list(first)
    return [one if one.truncated == source else _behind(shards, n, one, source) for n, one in enumerate(first)]


def _behind(shards: Shards, shard: int, first: FirstTable, source: SourcePosition) -> FirstTable:
    """The rows of a shard that came later than a truncation."""
    reading, bounds = shards.reading(shard), (shards.states[shard].earliest, first.next)
    table, skips, schemas = shards.settings.table, first.skipped, shards.settings.schemas
    later = read_behind(source, table, shard, len(shards), *bounds, reading.between, skips, schemas)
    return replace(
        first,
        rows=later.rows,
        key_form=later.key_form,
        truncated=source,
        log_seen=later.log_seen,
        letters_from=first.next,
    )


def _passed_over(meta: Meta | None, state: InputState, skips: Iterable[int]) -> set[int]:
    """What was passed over in this very input, and is to be, by an operator's word; not what was applied after all."""
    if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
        return set(skips)
    return set(skips).difference(offset for _, offset in meta.retried) | passed_over_in(meta)


def _tell_read(shard: int, state: InputState, read: RowsRead, says_all: bool, tell: Tell) -> None:
    counts = read.counts
    tell(
        f"shard {shard}: {counts.messages:,} messages read again, {len(read.rows.source_keys):,} rows, "
        f"{counts.dead_letters:,} dead letters"
    )
    if state.earliest:
        still = "all rows are told behind it" if says_all else "rows of which it says no more are gone"
        tell(f"shard {shard}: the input begins at offset {state.earliest}: {still}")
    for fault in read.faults:
        tell(f"shard {shard}: {fault}")


def _first_table(rows: EncodedRows, next_: int, **more: object) -> FirstTable:
    """Rows in no QI groups yet, with a secret of their own."""
    return FirstTable(rows, (), token_bytes(SECRET_BYTES), next_, **more)  # type: ignore[arg-type]


# A table begun from its source, all shards: what `reload` and `load` have in common.
#
# * Nothing is touched before all rows of all shards are read, checked and put into QI groups: whatever is wrong with
#   the source is said while the workers still serve the table.
# * Then shard by shard, as `streamer.incremental.shard.bootstrap` says. What ends in the middle is to be called again:
#   until all shards have their rows, no worker serves one of them, and `status` says why.
# * Shards have nothing to do with each other, so as many are at work as there are cores: the algorithm and the core run
#   beside one another, and one shard's rows become bytes while servers answer another's. What a shard comes to does not
#   depend on that. Where one fails, those that were begun are ended first.

UNCOMPILED_ROWS_MAX = 5_000
"""More rows are put into the core faster when the core is compiled first."""

Step = Callable[[str], OnProgress]


def begin(
    shards: Shards,
    source: str,
    from_offset: str,
    tell: Tell,
    step: Step = lambda _: unheard,
    although_trimmed: bool = False,
    warn: Tell = lambda _: None,
) -> Iterator[Begun]:
    """Gives every shard its table from the source; yields what was done, shard by shard.

    step: is told which part of the work begins, and answers what to tell of its share. although_trimmed: an input that
    has lost its beginning is taken for all that there is. warn: is told what nobody should overlook in the end.

    In the end Redis forgets the shards that the input has not any more.
    """
    table, n = shards.settings.table, len(shards)
    for shard in range(n):
        shards.reading(shard).check_format()
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="shard") as threads:
        step("read")
        read = first_tables(shards, source, from_offset, tell, although_trimmed, warn)
        first = list(threads.map(partial(_in_groups, table), read, _for_each(read, step("anonymize"))))
        del read
        step("compile")
        _have_compiled(table, sum(len(one.rows.source_keys) for one in first), tell)
        step("load")
        prepared = list(threads.map(partial(prepare, table), range(n), repeat(n), first))
        for store in shards.stores:
            store.tell_beginning()
        step("write")
        begun = threads.map(partial(_begun, shards), range(n), prepared)
        del first, prepared  # each goes with its shard
        yield from begun
    for store in shards.stores:
        store.tell_begun()
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        tell(f"shard {shard}: removed from Redis, as the input has {n} partitions")


def _begun(shards: Shards, shard: int, prepared: Prepared) -> Begun:
    """One shard, in a thread of its own."""
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict("the topics were made anew or have grown since the command began: call it again")
    outlet, reading = shards.outlet(shard), shards.reading(shard)
    return reload(shards.settings.table, shard, shards.stores[shard], outlet, reading, state, prepared)


def _for_each(shards: Sequence[FirstTable], on_progress: OnProgress) -> list[OnProgress]:
    """A callback for each shard, which together say how much of all is done."""
    shares = [0.0] * len(shards)

    def told(shard: int, share: float) -> None:
        shares[shard] = share
        on_progress(sum(shares) / len(shares))

    return [partial(told, shard) for shard in range(len(shards))]


def _in_groups(table: Table, first: FirstTable, on_progress: OnProgress) -> FirstTable:
    """The same in the QI groups that the default algorithm makes."""
    return replace(first, qi_groups=first_groups(table, first.rows, seed(first.secret), on_progress))


def _have_compiled(table: Table, n_rows: int, tell: Tell) -> None:
    """Waits until the core is compiled where that is quicker than to go on without."""
    compiler = warm_in_background(table)
    if n_rows > UNCOMPILED_ROWS_MAX and is_coming(table, compiler):
        tell("compiling first: once for a machine and a version of streamer")
        wait_while_coming(table, compiler)
