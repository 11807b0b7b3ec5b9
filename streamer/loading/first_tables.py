"""The first rows of every shard, from a file or from the input.

* Where workers will read on is decided before the source is read: what comes later is applied on top of it.
* Nothing is written here: a faulty source is reported before a shard is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from secrets import token_bytes

import numpy as np

from streamer.engines.pool import CallPool
from streamer.errors import EventRefused, UsageError
from streamer.incremental.engine.tie_break import SECRET_BYTES
from streamer.incremental.events.changes import NO_MESSAGES, Truncate
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.snapshot_marks import Mark, begins_a_snapshot, mark_of
from streamer.incremental.shard.bootstrap import known_secret
from streamer.incremental.shard.driver import read_again
from streamer.incremental.shard.first_commits import FirstTable
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import client_settings
from streamer.kafka.control import KafkaControl
from streamer.kafka.topics import Admin, is_compacted
from streamer.loading.key_form import routing_form
from streamer.loading.shards import Shards
from streamer.loading.waiting_rows import EMPTY_IT, OwnFile, Spill, WaitingRows, route_all
from streamer.progress import OnProgress, unheard
from streamer.table.data_warnings import (
    spelling_warnings,
    stray_warnings,
    unknown_category_warnings,
    warnings_of_writing,
)
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from streamer.table.stray_rows import judged

END, EARLIEST, STORED = "end", "earliest", "stored"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows that are loaded, and who hears of the work."""

    source: RowSource | None  # None: the input is read again
    from_offset: str = END  # where workers will read on
    although_trimmed: bool = False  # whether an input that has lost its beginning will do
    tell: Say = lambda _: None  # is called with lines about the work
    warn: Say = lambda _: None  # with warnings about the source
    step: Callable[[str], OnProgress] = lambda _: unheard  # with the name of each part of the work; hears its progress


def first_tables(
    shards: Shards, wanted: WantedRows, into: WaitingRows, executors: CallPool | None = None
) -> dict[int, FirstTable]:
    """The first tables of the shards that are loaded, without their rows, which are put into `into`."""
    if wanted.source is None:
        if wanted.from_offset != END:
            raise UsageError("--from-offset: not with topic: workers read on where this command ends reading")
        if len(shards.chosen) < len(shards):
            raise UsageError("--shards: not with topic: the inputs of all shards are read again, or none")
        if executors is not None:
            raise UsageError("--engine spark: not with topic, which is read from Kafka; give Parquet")
        return _of_all_topics(shards, wanted, into)
    next_ = _next(shards, wanted.from_offset)
    key_form, is_seen = routing_form(shards)
    route_all(into, wanted.source, key_form, len(shards), executors)
    name, counted = key_form.name if key_form else "", into.counted
    kept = "" if counted.n_read == counted.n_chosen else f", {counted.n_chosen:,} of these shards"
    wanted.tell(f"{counted.n_read:,} rows read{kept}")
    if not is_seen:
        wanted.tell(
            f"no message of the input shows how its keys are written, so {name} is assumed: messages with keys of "
            "another form will become dead letters"
        )
    _warn_of_unlisted(into.table, counted.unlisted, counted.n_read, "rows", wanted.warn)
    spelt = spelling_warnings(into.table, counted.spelt)
    strays = stray_warnings(judged(counted.stray, counted.n_read), counted.titles)
    for sentence in (*strays, *warnings_of_writing(counted.keys), *spelt):
        wanted.warn(sentence)
    return {shard: _first_table(shards, shard, next_[shard], key_form=name) for shard in shards.chosen}


def _of_all_topics(shards: Shards, wanted: WantedRows, into: WaitingRows) -> dict[int, FirstTable]:
    """The first tables of all shards, from all that is left of their inputs; rows are put into `into`."""
    settings, n = shards.settings, len(shards)
    remainders = [Remainder(settings.table, n, settings.schemas) for _ in range(n)]
    with closing(OwnFile()) as spill:
        first = {shard: _of_topic(shards, shard, remainders[shard], wanted.tell, spill) for shard in range(n)}
        if not wanted.although_trimmed:
            _check_whole(shards, remainders)
            _check_compacted(shards, list(first.values()))
        for shard in first:
            into.add(shard, next(spill.of(shard)))
    counts = sum((one.counts for one in first.values()), NO_MESSAGES)
    if not counts.messages:
        raise UsageError(f"the input holds no message, so the table would be empty; {EMPTY_IT}")
    _warn_of_unlisted(settings.table, counts.unlisted, counts.applied, "applied messages", wanted.warn)
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
    """The offset of each shard from which workers will read on. Raises UsageError if it is of no use."""
    if from_offset == END:
        return [state.end for state in shards.states]
    read = [shards.read_to(shard) for shard in range(len(shards))]
    if from_offset == STORED:
        if unread := [shard for shard in shards.chosen if not read[shard]]:
            raise UsageError(f"--from-offset stored: no worker has read shard {unread[0]} of this input yet")
        return read
    if from_offset == EARLIEST:
        next_ = [state.earliest for state in shards.states]
    elif len(shards) > 1:
        raise UsageError(
            f"--from-offset {from_offset}: the input has {len(shards)} shards, and an offset means something else in "
            "each: give end, stored or earliest"
        )
    else:
        next_ = [int(from_offset)]
    for shard in shards.chosen:
        _check_offset(shards, shard, next_[shard], read[shard])
    return next_


def _check_offset(shards: Shards, shard: int, offset: int, read: int) -> None:
    """Raises UsageError if the input does not have an offset, or `sealed` would publish people twice from there on."""
    state = shards.states[shard]
    if not state.earliest <= offset <= state.end:
        raise UsageError(f"--from-offset {offset}: the input begins at {state.earliest} and ends at {state.end}")
    if shards.settings.table.sealed is not None and offset < read:
        raise UsageError(
            f"--from-offset: shard {shard} has read the input up to offset {read}, and who came since offset {offset} "
            "would be published twice in sealed cohorts: stop the workers, make the file, then call this with "
            "`--from-offset stored`"
        )


def _of_topic(shards: Shards, shard: int, remainder: Remainder, tell: Say, spill: Spill) -> FirstTable:
    """Reads a shard's input from beginning to end; its rows are put into the spill.

    remainder: judges an input that has lost its beginning.
    """
    settings, state = shards.settings, shards.states[shard]
    skips = KafkaControl(settings.kafka, settings.table.name, shard).skips(state.topic_ids.get(CHANGES, ""))
    skipped = _skipped(shards.metas[shard], state, skips)
    held = shards.reading(shard).messages(state)
    messages = remainder.read(held) if state.earliest else held
    read = read_again(settings.table, shard, len(shards), messages, state.end, skipped, schemas=settings.schemas)
    counts = read.counts
    tell(
        f"shard {shard}: {counts.messages:,} messages read again, {len(read.rows.source_keys):,} rows, "
        f"{counts.dead_letters:,} dead letters"
    )
    if state.earliest:
        still = "all rows follow there" if remainder.says_all else "rows that it no longer contains are removed"
        tell(f"shard {shard}: the input begins at offset {state.earliest}: {still}")
    for fault in read.faults:
        tell(f"shard {shard}: {fault}")
    kept = ("key_form", "counts", "letters", "statement_ids", "skipped")
    spill.add(shard, read.rows)
    return _first_table(shards, shard, read.next, **{name: getattr(read, name) for name in kept})


def _skipped(meta: Meta | None, state: InputState, skips: Iterable[int]) -> set[int]:
    """Offsets of this input that were skipped or are to be skipped, without those that were retried since."""
    if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
        return set(skips)
    return {*skips, *meta.skipped}.difference(offset for _, offset in meta.retried)


def _first_table(shards: Shards, shard: int, next_: int, **more: object) -> FirstTable:
    """A first table without its rows; with the shard's secret, or a new one if it has none."""
    secret = known_secret(shards.inputs[shard].secret(), shards.metas[shard]) or token_bytes(SECRET_BYTES)
    return FirstTable(NO_ROWS, (), secret, next_, **more)  # type: ignore[arg-type]


NO_ROWS = EncodedRows([], np.empty((0, 0), np.int64), [], [], [])


# Whether an input that has lost its beginning still says all rows. What expired may have been about rows of which
# nothing that is left says anything. That does not matter if a truncation follows, after which the table is empty, or
# if Debezium begins to read the whole table: then a row that was there is read. It does so where a message says
# `first`, or where rows that were read follow something else. Rows read between changes (`incremental`) are no whole
# table. A snapshot whose beginning is lost does not count: rows of it may be lost, too.

READ = (Mark.READ, Mark.LAST)


class Remainder:
    """The rest of a shard's input, looked at while the caller reads it. shards: of its table."""

    def __init__(self, table: Table, shards: int, schemas: Schemas | None = None) -> None:
        self._schemas = schemas or NoSchemas()
        self._decoder = Decoder(table, self._schemas.known)
        self._shards = shards
        self.says_all = False
        """True once a truncation or the beginning of a snapshot stands in what was read."""

    def read(self, batches: Iterable[Sequence[Message]]) -> Iterator[Sequence[Message]]:
        """The same batches; each is looked at after it was used, because its schemas are known then."""
        before: Mark | None = None
        for batch in batches:
            yield batch
            for message in () if self.says_all else batch:
                mark, known = mark_of(message.value, self._schemas.known), self._schemas.known
                begins = mark in READ and before not in (None, *READ)
                self.says_all |= begins or begins_a_snapshot(message.value, known) or self._truncates(message)
                before = mark

    def _truncates(self, message: Message) -> bool:
        """True if the shard is empty after the message; of several, a captured truncation empties none."""
        try:
            change = self._decoder.decode(message.key, message.value)
        except EventRefused:
            return False
        return isinstance(change, Truncate) and (self._shards == 1 or not change.whole_table_only)
