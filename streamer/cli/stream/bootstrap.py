"""Loading a table with all rows at once, for `load` and `reload`."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_bytes
from threading import Event, Lock, Thread
from time import time
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from streamer.cli.stream.key_form_probe import key_form_seen
from streamer.cli.support.options import TOPIC, chosen_shards
from streamer.engines.pool import CallPool, written
from streamer.errors import ConfigError, Conflict, StreamerError, UsageError
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.events.key_form import AnyKeyForm, default_form, shard_of
from streamer.incremental.events.registered_schemas import NoSchemas
from streamer.incremental.formats.live_format import LiveFormat
from streamer.incremental.sealed.alpha import check_alpha, frequencies
from streamer.incremental.shard.bootstrap import Begun, known_secret, reload, whole_table
from streamer.incremental.shard.driver import read_again
from streamer.incremental.shard.first_commits import FirstTable, prepare
from streamer.incremental.shard.input import InputState, Remainder
from streamer.incremental.shard.ready import RowsRead
from streamer.incremental.shard.sealing import check_goes_on
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
from streamer.table.arrays import Ints
from streamer.table.data_warnings import unknown_category_rows, unknown_category_warnings
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import RowPart, is_parquet_source, parquet_parts, read_part
from streamer.table.schema import AVRO, Table
from streamer.table.sources import RowSource
from streamer.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a table: their inputs and stores, and how to read and write their output."""

    settings: WorkerSettings
    claims: Mapping[int, str]  # of the command that loads them, by shard; none if it only looks
    chosen: Sequence[int]  # the shards that it loads
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

OTHER_TOPICS = "the topics were recreated or have grown since the command started: call it again"


def _chosen(shards: str | None, n: int) -> list[int]:
    """The shards that a command loads, of n. Raises UsageError."""
    chosen = list(range(n)) if shards is None else chosen_shards(shards)
    if chosen[-1] >= n:
        raise UsageError(f"--shards: there is no shard {chosen[-1]}: the input has {n} partitions, 0 to {n - 1}")
    return chosen


def _loaded(claims: Mapping[int, str], shards: str | None, n: int) -> list[int]:
    """The same. Raises Conflict if the command has claims, and they are not those of these shards."""
    chosen = _chosen(shards, n)
    if claims and sorted(claims) != chosen:
        raise Conflict(OTHER_TOPICS)
    return chosen


@contextmanager
def claimed(settings: WorkerSettings, command: str, shards: str | None = None) -> Iterator[dict[int, str]]:
    """In the block no other command loads these shards, all without any; yields the claims by shard.

    Raises Conflict if another command has one of them, UsageError, ServerUnreachable. Only who looks at the shards in
    the block may write by what it finds.
    """
    client, table = connect_now(settings.redis), settings.table.name
    require_answer(settings.kafka)
    chosen = _chosen(shards, KafkaInput(settings.kafka, table, 0).state().shards)
    stores = [RedisLookups(client, table, shard) for shard in chosen]
    claims: dict[int, str] = {}
    ended = Event()
    renewing = Thread(target=_renew, args=(stores, claims, ended), name="claim", daemon=True)
    renewing.start()
    try:
        for store in stores:
            claims[store.shard] = store.claim(f"`{command}` ({settings.name})", LEASE_SECONDS)
        yield claims
    finally:
        ended.set()
        renewing.join(ENDING_SECONDS_MAX)  # if Redis does not answer, a claim ends by itself


def _renew(stores: Sequence[RedisLookups], claims: Mapping[int, str], ended: Event) -> None:
    """Renews claims until the command ends. If it cannot, and another command comes, no write will be taken."""
    while not ended.wait(RENEWED_EVERY_SECONDS):
        _renew_each(stores, claims, LEASE_SECONDS)
    _renew_each(stores, claims, 0)


def _renew_each(stores: Sequence[RedisLookups], claims: Mapping[int, str], seconds: float) -> None:
    for store in stores:
        if store.shard in claims:
            with suppress(StreamerError):  # another command came, or Redis does not answer now
                store.renew(claims[store.shard], seconds)


def found_shards(settings: WorkerSettings, claims: Mapping[int, str], shards: str | None = None) -> Shards:
    """Reads the state of all shards from Kafka and Redis; commands with earlier claims are shut out of the claimed.

    shards: which are looked at, if none is claimed.

    Raises ConfigError, ShardRefused, NotDurable, ServerUnreachable; Fenced if a later command has claimed one.
    """
    kafka, table = settings.kafka, settings.table
    if claims:  # else nothing is written, and no schema registered
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
    chosen = _loaded(claims, shards, len(stores))
    for shard, claim in claims.items():
        stores[shard].shut_out_older(claim)
    return Shards(settings, claims, chosen, inputs, states, stores)


def empty_shards(settings: WorkerSettings, claims: Mapping[int, str], shards: str | None = None) -> Shards:
    """As `found_shards`. Raises UsageError if one of the shards that are loaded holds something already."""
    found = found_shards(settings, claims, shards)
    filled = [shard for shard in found.chosen if not _is_empty(found, shard)]
    if filled := [*filled, *found.former()]:
        raise UsageError(
            f"shard {filled[0]} of {settings.table.name} is not empty, and `load` fills empty tables only; "
            "`streamer reload --from-source` replaces what is there"
        )
    return found


def _is_empty(shards: Shards, shard: int) -> bool:
    meta, position = shards.stores[shard].meta(), shards.outlet(shard).position()
    return (meta is None or not meta.commit) and position is None and not shards.states[shard].live_begun


# -- rows by shard, as long as they wait ------------------------------------------------------------------------------

EMPTY_IT = "`streamer produce --truncate` empties a table on purpose"

PART_ROWS = 100_000
"""Rows of the source that are in memory at the same time, before they lie in the files of their shards."""

SPILL_IN_MEMORY_BYTES = 16_000_000
"""What is smaller needs no file."""


class Spill(Protocol):
    """Where pieces of shards wait."""

    def add(self, shard: int, piece: object, at: int = 0) -> None:
        """Puts a piece there; at: the number of its first row. Raises ConfigError if there is no room."""

    def of(self, shard: int) -> Iterator[Any]:
        """The pieces of a shard, in the order of their rows."""


class OwnFile:
    """A file without a name: nobody else can open it, and it is gone with the process."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(SPILL_IN_MEMORY_BYTES)  # noqa: SIM115 - `close` closes it
        self._places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._lock = Lock()
        self.close = self._file.close

    def add(self, shard: int, piece: object, at: int = 0) -> None:
        """As in `Spill`; pieces must come in their order."""
        data = pickle.dumps(piece, pickle.HIGHEST_PROTOCOL)
        try:
            with self._lock:
                self._places[shard].append((self._file.seek(0, os.SEEK_END), len(data)))
                self._file.write(data)
                self._file.flush()
        except OSError as error:
            folder = tempfile.tempdir or "no folder for temporary files"  # `gettempdir` raises if there is none
            raise ConfigError(
                f"{folder}: cannot hold the rows that wait for their shard: {error.strerror}; give the variable TMPDIR "
                "a folder with more room"
            ) from None

    def of(self, shard: int) -> Iterator[Any]:
        """As in `Spill`."""
        for begin, length in self._places[shard]:
            with self._lock:
                self._file.seek(begin)
                data = self._file.read(length)
            yield pickle.loads(data)


@dataclass(frozen=True)
class SharedFolder:
    """A folder that other machines see under the same path; each piece is a file, whole or not there."""

    path: Path

    def add(self, shard: int, piece: object, at: int = 0) -> None:
        """As in `Spill`. The same piece may come again."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        written(self.path / f"{shard}-{at:018}", piece)

    def of(self, shard: int) -> Iterator[Any]:
        """As in `Spill`."""
        for path in sorted(self.path.glob(f"{shard}-*")):
            yield pickle.loads(path.read_bytes())


@dataclass
class RowCounts:
    """What was counted of rows on the way."""

    n_read: int = 0
    n_chosen: int = 0  # of the shards that are loaded
    frequencies: dict[int, Counter[bytes]] = field(default_factory=dict, repr=False)  # as `frequencies` has them
    unlisted: Counter[str] = field(default_factory=Counter)  # by column, rows with a category that only `other` takes

    def add(self, other: RowCounts) -> None:
        """Counts other rows, too."""
        self.n_read += other.n_read
        self.n_chosen += other.n_chosen
        self.unlisted.update(other.unlisted)
        for i, counts in other.frequencies.items():
            self.frequencies.setdefault(i, Counter()).update(counts)


@dataclass(frozen=True)
class WaitingRows:
    """The rows of shards, which wait for their turn in a spill; those of other shards are only counted."""

    table: Table
    chosen: frozenset[int]
    spill: Spill
    counted: RowCounts = field(default_factory=RowCounts)

    def add(self, shard: int, rows: EncodedRows, numbers: Ints | None = None) -> None:
        """Some rows of a shard. numbers: of their rows in a file, (n,), if a key may come again."""
        n, is_chosen = len(rows.source_keys), shard in self.chosen
        self.counted.add(RowCounts(n, n * is_chosen, dict(frequencies(self.table, rows.values))))
        if is_chosen and n:
            self.spill.add(shard, (rows, numbers), 0 if numbers is None else int(numbers[0]))

    def route(self, frame: pd.DataFrame, first_row: int, key_form: AnyKeyForm | None, shards: int) -> None:
        """Puts rows of a file into the shards that get their messages. key_form: None with one shard.

        Raises ConfigError for a row that is refused.
        """
        rows = Encoder(self.table).columns(frame, first_row).by_row()
        numbers = np.arange(first_row, first_row + len(frame))
        self.counted.unlisted.update(unknown_category_rows(self.table, frame))
        for shard, indexes in enumerate(by_shard(rows.source_keys, key_form, shards, first_row)):
            self.add(shard, rows if shards == 1 else rows.some(indexes), numbers[indexes])

    def of(self, shard: int) -> EncodedRows:
        """All rows of a shard. Raises ConfigError if two have one key."""
        pieces = list(self.spill.of(shard))
        rows = EncodedRows.joined([rows for rows, _ in pieces], self.table.space.d)
        if len(pieces) > 1 and len(set(rows.source_keys)) < len(rows.source_keys):
            again = int(np.argmax(pd.Series(rows.source_keys, dtype=object).duplicated()))
            number = np.concatenate([numbers for _, numbers in pieces])[again]
            key = ", ".join(self.table.source_key)
            raise ConfigError(f"data row {number}: an earlier row has the same key ({key})")
        return rows


class Executors(NamedTuple):
    """Spark's executors, which read, route and group rows over a folder that all see. They write to no server."""

    pool: CallPool
    folder: Path

    @property
    def rows(self) -> Spill:
        return SharedFolder(self.folder / "pieces")

    @property
    def prepared(self) -> Spill:
        return SharedFolder(self.folder / "prepared")


def route_all(
    into: WaitingRows, source: RowSource, key_form: AnyKeyForm | None, shards: int, executors: Executors | None = None
) -> None:
    """Puts the rows of a file into their shards, part by part.

    Raises ConfigError for a file or a row that is refused.
    """
    if executors is not None:
        if not is_parquet_source(file := source.file("--engine spark")):
            raise UsageError(f"{source.name}: --engine spark reads rows in parts: give Parquet, a file or a folder")
        parts = parquet_parts(file, PART_ROWS)
        calls = [(into.table, into.chosen, into.spill, part, key_form, shards) for part in parts]
        for counted in executors.pool.map("route", _routed, calls):
            into.counted.add(counted)
    else:
        first_row = 1
        for frame in source.parts(PART_ROWS):
            into.route(frame, first_row, key_form, shards)
            first_row += len(frame)
    if not into.counted.n_read:
        raise ConfigError(f"{source.name}: holds no rows, so the table would be empty; {EMPTY_IT}")


def _routed(
    table: Table, chosen: frozenset[int], spill: Spill, part: RowPart, key_form: AnyKeyForm | None, shards: int
) -> RowCounts:
    """What was counted of a part of a file whose rows were put into their shards."""
    rows = WaitingRows(table, chosen, spill)
    for first_row, frame in read_part(part, PART_ROWS):
        rows.route(frame, first_row, key_form, shards)
    return rows.counted


def routing_form(shards: Shards) -> tuple[AnyKeyForm | None, bool]:
    """How the input writes the keys of rows, None with one shard; and whether its messages show it.

    Raises UsageError if the shards of rows cannot be computed.
    """
    settings, table = shards.settings, shards.settings.table
    if len(shards) == 1:
        return None, True
    if table.partitioner_stated:
        raise UsageError(
            "table.yaml says `input: {partitioner: stated}`, so only the rows' own producer knows their shards: let it "
            "send all rows, and give --from-source topic"
        )
    with reaching(settings.kafka), open_consumer(settings.kafka) as consumer:
        seen = key_form_seen(consumer, topic_name(table.name, CHANGES), table, settings.schemas or NoSchemas())
    known = [meta.key_form for store in shards.stores if (meta := store.meta()) is not None]
    key_form = seen or assumed_form(table, known)
    _check_one_form(shards, key_form.name)
    return key_form, seen is not None


def _check_one_form(shards: Shards, name: str) -> None:
    """Raises Conflict if shards that are not loaded have their rows by another key form: some rows would be in none.

    A shard of a former input has to be loaded again anyway.
    """
    for shard, (store, state) in enumerate(zip(shards.stores, shards.states, strict=True)):
        meta = None if shard in shards.chosen else store.meta()
        if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
            continue
        if meta.key_form not in ("", name):
            raise Conflict(
                f"shard {shard} has its rows by message keys written as {meta.key_form}, and the others would get "
                f"theirs by {name}, so that some rows would be in two shards and some in none: call `streamer reload` "
                "without --shards"
            )


def assumed_form(table: Table, known: Collection[str]) -> AnyKeyForm:
    """The key form if no message of the input shows one. Raises UsageError if shards have learned another one."""
    key_form = default_form(table.source_key)
    if others := sorted({form for form in known if form} - {key_form.name}):
        raise UsageError(
            f"the shards know message keys as {others[0]}, and no message of the input shows any more how a row's key "
            "is written in this form: let the producer send one change, then call this again"
        )
    return key_form


def by_shard(source_keys: Sequence[str], key_form: AnyKeyForm | None, shards: int, first_row: int = 1) -> list[Ints]:
    """The numbers of rows, from 0, by the shard that murmur2 of their message keys gives.

    Raises ConfigError for a key without this form; first_row: the data row of the first one.
    """
    if key_form is None:
        return [np.arange(len(source_keys))]
    placed = np.empty(len(source_keys), np.int64)
    for index, source_key in enumerate(source_keys):
        message_key = key_form.written(source_key)
        if message_key is None:
            raise ConfigError(
                f"data row {first_row + index}: its key cannot be written as {key_form.name}, as the input's message"
                " keys are"
            )
        placed[index] = shard_of(message_key, shards)
    return [np.flatnonzero(placed == shard) for shard in range(shards)]


# -- the first rows of every shard, from a file or from the input -----------------------------------------------------
#
# * Where workers will read on is decided before the source is read: what comes later is applied on top of it.
# * Nothing is written here: a faulty source is reported before a shard is touched.

END, EARLIEST = "end", "earliest"

Say = Callable[[str], None]


def first_tables(
    shards: Shards,
    source: RowSource,
    from_offset: str,
    tell: Say,
    although_trimmed: bool,
    warn: Say,
    into: WaitingRows,
    executors: Executors | None = None,
) -> dict[int, FirstTable]:
    """What is known of the shards that are loaded but their rows, which are put into `into`."""
    table = shards.settings.table
    if str(source) == TOPIC:
        if from_offset != END:
            raise UsageError(f"--from-offset: not with {TOPIC}: workers read on where this command ends reading")
        if len(shards.chosen) < len(shards):
            raise UsageError(f"--shards: not with {TOPIC}: the inputs of all shards are read again, or none")
        if executors is not None:
            raise UsageError(f"--engine spark: not with {TOPIC}, which is read from Kafka; give Parquet")
        return _of_all_topics(shards, tell, although_trimmed, warn, into)
    next_ = _next(shards, from_offset)
    key_form, is_seen = routing_form(shards)
    route_all(into, source, key_form, len(shards), executors)
    name, counted = key_form.name if key_form else "", into.counted
    kept = "" if counted.n_read == counted.n_chosen else f", {counted.n_chosen:,} of these shards"
    tell(f"{counted.n_read:,} rows read{kept}")
    if not is_seen:
        tell(
            f"no message of the input shows how keys are written: {name} is assumed, and messages with keys of another "
            "form will be refused"
        )
    _warn_of_unlisted(table, counted.unlisted, counted.n_read, "rows", warn)
    return {shard: _first_table(shards, shard, next_[shard], key_form=name) for shard in shards.chosen}


def _of_all_topics(
    shards: Shards, tell: Say, although_trimmed: bool, warn: Say, into: WaitingRows
) -> dict[int, FirstTable]:
    """What is left of the inputs from beginning to end; rows are put into `into`."""
    settings, n, spill = shards.settings, len(shards), OwnFile()
    remainders = [Remainder(settings.table, n, settings.schemas) for _ in range(n)]
    first = {shard: _of_topic(shards, shard, remainders[shard], tell, spill) for shard in range(n)}
    if not although_trimmed:
        _check_whole(shards, remainders)
        _check_compacted(shards, list(first.values()))
    for shard in first:
        into.add(shard, next(spill.of(shard)))
    spill.close()
    counts = sum((one.counts for one in first.values()), NO_MESSAGES)
    if not counts.messages:
        raise UsageError(f"the input holds no message, so the table would be empty; {EMPTY_IT}")
    _warn_of_unlisted(settings.table, counts.unlisted, counts.applied, "applied messages", warn)
    return first


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


def _of_topic(shards: Shards, shard: int, remainder: Remainder, tell: Say, spill: Spill) -> FirstTable:
    """A shard's input from beginning to end; its rows are put into the spill.

    remainder: judges an input that has lost its beginning.
    """
    settings, state = shards.settings, shards.states[shard]
    skips = KafkaControl(settings.kafka, settings.table.name, shard).skips(state.topic_ids.get(CHANGES, ""))
    skipped = _skipped(shards.stores[shard].meta(), state, skips)
    held = shards.reading(shard).messages(state)
    messages = remainder.read(held) if state.earliest else held
    read = read_again(settings.table, shard, len(shards), messages, state.end, skipped, schemas=settings.schemas)
    _tell_read(shard, state, read, remainder.says_all, tell)
    kept = ("key_form", "counts", "letters", "statement_ids", "skipped")
    spill.add(shard, read.rows)
    return _first_table(shards, shard, read.next, **{name: getattr(read, name) for name in kept})


def _skipped(meta: Meta | None, state: InputState, skips: Iterable[int]) -> set[int]:
    """Offsets of this input that were skipped or are to be skipped, without those that were retried since."""
    if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
        return set(skips)
    return {*skips, *meta.skipped}.difference(offset for _, offset in meta.retried)


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


def _first_table(shards: Shards, shard: int, next_: int, **more: object) -> FirstTable:
    """A first table without its rows, with the shard's secret, or a new one if it has none."""
    secret = known_secret(shards.inputs[shard].secret(), shards.stores[shard].meta()) or token_bytes(SECRET_BYTES)
    return FirstTable(NO_ROWS, (), secret, next_, **more)  # type: ignore[arg-type]


NO_ROWS = EncodedRows([], np.empty((0, 0), np.int64), [], [], [])


# -- all shards -------------------------------------------------------------------------------------------------------
#
# * Nothing is written before all rows are read, checked and put into QI groups: a faulty source is reported while the
#   workers still serve the table.
# * Rows are in memory part by part, then shard by shard; meanwhile they wait in a `Spill`, and so do finished shards.
# * One command at a time loads a shard: it claims it before it looks at anything, and renews its claim. A command that
#   was away for longer than the lease, and comes back after another one, is shut out.
# * Then shards are written as `streamer.incremental.shard.bootstrap` says. A command that ends in the middle must be
#   called again: until all its shards have their rows, no worker serves one of them, and `status` says why.
# * Shards are independent, so some are loaded at once. If one fails, the others finish first.

AT_ONCE_MAX = 4
"""Shards in memory at the same time: more threads wait for Python's lock."""

Step = Callable[[str], OnProgress]


def begin(
    shards: Shards,
    source: RowSource,
    from_offset: str,
    tell: Say,
    step: Step = lambda _: unheard,
    although_trimmed: bool = False,
    warn: Say = lambda _: None,
    executors: Executors | None = None,
) -> Iterator[Begun]:
    """Loads shards from the source, if this command has claimed them; yields what was done, shard by shard.

    tell: called with lines about the work; warn: with warnings about the source. step: called with the name of each
    part of the work; returns the callback for its progress. although_trimmed: accept an input that has lost its
    beginning. executors: what reads and groups the rows instead of this process, which alone writes to servers. Without
    claims nothing is written; what would be done is yielded. In the end, shards that the input no longer has are
    removed from Redis.
    """
    table, chosen = shards.settings.table, shards.chosen
    for shard in chosen if shards.claims or table.format != AVRO else ():
        shards.reading(shard).check_format()
    with ExitStack() as closing:
        waiting, prepared = _spills(closing, executors)
        rows = WaitingRows(table, frozenset(chosen), waiting)
        at_once = min(os.cpu_count() or 1, AT_ONCE_MAX)
        threads = closing.enter_context(ThreadPoolExecutor(at_once, thread_name_prefix="shard"))
        step("read")
        first = first_tables(shards, source, from_offset, tell, although_trimmed, warn, rows, executors)
        _check_sealed(shards, rows.counted, warn)
        given = (table, len(shards), rows, prepared)
        if executors is not None:
            calls = [(*given, first[shard], shard) for shard in chosen]
            made = executors.pool.map("prepare", _prepared, calls, step("anonymize"))
        else:
            heard = _for_each(chosen, step("anonymize"))
            made = list(threads.map(lambda shard: _prepared(*given, first[shard], shard, heard[shard]), chosen))
        if not shards.claims:
            yield from made
            return
        step("write")
        with whole_table([(shards.stores[shard], claim) for shard, claim in shards.claims.items()]):
            yield from threads.map(partial(_begun, shards, prepared), chosen)
            _check_one_form(shards, first[chosen[0]].key_form)  # another host may have loaded the others meanwhile
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        tell(f"shard {shard}: removed from Redis, as the input has {len(shards)} partitions")


def _spills(closing: ExitStack, executors: Executors | None) -> tuple[Spill, Spill]:
    """Where rows wait, and where finished shards do."""
    if executors is not None:
        return executors.rows, executors.prepared
    own = OwnFile(), OwnFile()
    for one in own:
        closing.callback(one.close)
    return own


def _prepared(
    table: Table,
    shards: int,
    rows: WaitingRows,
    prepared: Spill,
    first: FirstTable,
    shard: int,
    on_progress: OnProgress = unheard,
) -> Begun:
    """Puts one shard's rows into the QI groups of the default algorithm; what is stored of them waits in `prepared`."""
    whole = replace(first, rows=rows.of(shard))
    whole = replace(whole, qi_groups=first_groups(table, whole.rows, seed(first.secret), on_progress))
    made = prepare(table, shard, shards, whole)
    if table.sealed is None:
        made = replace(made, first=replace(first, qi_groups=()))  # nobody asks for the rows again
    prepared.add(shard, made)
    return Begun(shard, len(made.records), made.n_pending, len(made.qi_groups), 0, 0, first.next)


def _begun(shards: Shards, prepared: Spill, shard: int) -> Begun:
    """One shard, in a thread of its own."""
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict(OTHER_TOPICS)
    table, store, secret = shards.settings.table, shards.stores[shard], shards.inputs[shard].secret
    form = cohort_formation(table) if table.sealed is not None else None
    outlet, (made,) = shards.outlet(shard), prepared.of(shard)
    return reload(table, shard, store, outlet, state, made, read_secret=secret, form=form, now=time())


def _check_sealed(shards: Shards, counted: RowCounts, warn: Say) -> None:
    """Raises ConfigError or ShardRefused if these rows cannot be published in sealed cohorts."""
    for shard in shards.chosen:
        check_goes_on(shards.settings.table, shard, shards.stores[shard].meta(), shards.states[shard])
    for warning in check_alpha(shards.settings.table, counted.frequencies):
        warn(warning)


def _for_each(chosen: Sequence[int], on_progress: OnProgress) -> dict[int, OnProgress]:
    """A progress callback for each shard; `on_progress` gets their mean."""
    shares = dict.fromkeys(chosen, 0.0)

    def set_share(shard: int, share: float) -> None:
        shares[shard] = share
        on_progress(sum(shares.values()) / len(shares))

    return {shard: partial(set_share, shard) for shard in chosen}
