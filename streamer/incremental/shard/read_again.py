"""The rows of one shard as its input says them, read from its beginning, for a table that begins anew.

The very loop of a shard runs over the messages, so that everything is decided as it would be there: strictness,
statements, the partition contract, what is passed over. Only that no QI group is ever made: all rows are pending, and
none of the work on groups is done. What it would publish are its letters alone. In the same way a part of the input is
read: what stands behind a truncation that a shard hears of late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from streamer.incremental.events.counts import Counts
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
from streamer.incremental.events.source_position import OrderLost, SourcePosition, position_of
from streamer.incremental.release.records import Entry, Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.publisher import Publisher
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.shard.taking_over import Holding
from streamer.incremental.shard.truncations import begin_of_run, order_lost, passed_over_in
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import DEAD_LETTERS
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table

Read = Callable[[int, int], Iterator[Sequence[Message]]]
"""Reads the messages of an input from an offset to another, some at a time."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """The rows at an offset of the input, and what its messages came to; next: that offset.

    truncated: the last truncation that is known of it, where there are several shards; log_seen: as in `Meta`.
    """

    rows: EncodedRows = field(repr=False)
    next: int
    counts: Counts
    letters: Sequence[Entry]
    key_form: str
    statement_ids: Sequence[str]
    skipped: tuple[int, ...]
    faults: Sequence[str]
    truncated: SourcePosition | None = None
    log_seen: bool = False


class _Letters:
    """An outlet that keeps the letters."""

    def __init__(self) -> None:
        self.kept: list[Entry] = []

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        letters = (record for record in records if record.topic == DEAD_LETTERS)
        self.kept += [Entry(letter.topic, letter.key, letter.value) for letter in letters]


def read_again(
    table: Table,
    shard: int,
    shards: int,
    batches: Iterable[Sequence[Message]],
    end: int,
    skips: Iterable[int] = (),
    advance: Callable[[int], None] = lambda count: None,
    schemas: Schemas | None = None,
    behind: SourcePosition | None = None,
    log_seen: bool = False,
) -> RowsRead:
    """Reads all messages below the offset `end`; skips: offsets that an operator named.

    schemas: of a registry. advance: told how many messages each step took. behind: a truncation that is known before;
    log_seen: whether a message of its log came before, too. Raises ShardRefused where messages in a row cannot be
    applied, RegistryUnreachable.
    """
    letters, server = _Letters(), MemoryServer()
    store, of = MemoryStore(server, table.name, shard), Holding.ALL
    reader = Publisher(table, shard, store, letters, holding=of, schemas=schemas)
    reader.take_over(InputState({}, shards, earliest=0, end=end), skips)
    if behind is not None:
        reader.begin_behind(behind, log_seen)
    faults: list[str] = []
    for batch in batches:
        faults += reader.step(batch).faults
        advance(len(batch))
    faults += reader.step((), through=end).faults
    state = MemoryStore(server, table.name, shard).load()
    rows, ids = ({}, ()) if state is None else ({k: r.row for k, r in state.kept.records}, state.kept.statement_ids)
    meta = reader.meta
    return RowsRead(
        EncodedRows.of_rows(rows, len(table.attributes)),
        max(meta.next, end),
        meta.counts,
        letters.kept,
        meta.key_form,
        ids,
        meta.skipped,
        faults,
        meta.truncated,
        meta.log_seen,
    )


def read_behind(
    source: SourcePosition,
    table: Table,
    shard: int,
    shards: int,
    earliest: int,
    end: int,
    read: Read,
    skips: Iterable[int],
    schemas: Schemas | None = None,
) -> RowsRead:
    """Reads the messages below the offset `end` that stand behind a truncation; earliest: the first one that is there.

    schemas: of a registry. Raises ShardRefused where the input does not tell which these are, RegistryUnreachable.
    """
    name, schemas = f"shard {shard} of {table.name}", schemas or NoSchemas()
    place_of = partial(position_of, schemas=schemas.known)
    try:
        begin = begin_of_run(
            name, table.name, source, earliest, end, lambda start: _learned(schemas, read(start, end)), place_of
        )
    except OrderLost:
        raise order_lost(name, table.name) from None
    told_before = begin > earliest  # it lies behind a message of the truncation's log
    rest = read(begin, end)
    return read_again(table, shard, shards, rest, end, skips, schemas=schemas, behind=source, log_seen=told_before)


def _learned(schemas: Schemas, batches: Iterable[Sequence[Message]]) -> Iterator[Sequence[Message]]:
    """The same batches, each when its schemas are known."""
    for batch in batches:
        schemas.learn(schema_ids((None, message.value) for message in batch))
        yield batch


def place_truncation(
    publisher: Publisher, request: int, source: SourcePosition, earliest: int, read: Read
) -> StepReport:
    """Has a truncation that another shard read take effect, between two messages of this one.

    request: the offset of its record in the control topic. earliest: the first offset of the input. Raises ShardRefused
    where the input does not tell which rows came later.
    """
    meta = publisher.meta
    first = earliest if publisher.engine.n_rows else meta.next  # where no row is, nothing has to be told apart
    place = publisher.table, publisher.shard, meta.shards
    later = read_behind(source, *place, first, meta.next, read, passed_over_in(meta), publisher.schemas)
    return publisher.place_truncation(request, source, later.rows, later.key_form, later.log_seen)
