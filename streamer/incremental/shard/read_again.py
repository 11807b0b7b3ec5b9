"""The rows of one shard as its input says them, read from its beginning, for a table that begins anew.

The very loop of a shard runs over the messages, so that everything is decided as it would be there: strictness,
statements, the partition contract, what is passed over. Only that no QI group is ever made: all rows are pending, and
none of the work on groups is done. What it would publish are its letters alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streamer.incremental.events.counts import Counts
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.release.records import Entry, Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.publisher import Publisher
from streamer.incremental.shard.taking_over import Holding
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class RowsRead:
    """The rows at an offset of the input, and what its messages came to; next: that offset."""

    rows: EncodedRows = field(repr=False)
    next: int
    counts: Counts
    letters: Sequence[Entry]
    key_form: str
    statement_ids: Sequence[str]
    skipped: tuple[int, ...]
    faults: Sequence[str]


class _Letters:
    """An outlet that keeps the letters."""

    def __init__(self) -> None:
        self.kept: list[Entry] = []

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        self.kept += [Entry(record.topic, record.key, record.value) for record in records]


def read_again(
    table: Table,
    shard: int,
    shards: int,
    batches: Iterable[Sequence[Message]],
    end: int,
    skips: Iterable[int] = (),
    advance: Callable[[int], None] = lambda count: None,
    schemas: Schemas | None = None,
) -> RowsRead:
    """Reads all messages below the offset `end`; skips: offsets that an operator named.

    schemas: of a registry. advance: told how many messages each step took. Raises ShardRefused where messages in a row
    cannot be applied, RegistryUnreachable.
    """
    letters, server = _Letters(), MemoryServer()
    store, of = MemoryStore(server, table.name, shard), Holding.ALL
    reader = Publisher(table, shard, store, letters, holding=of, schemas=schemas)
    reader.take_over(InputState({}, shards, earliest=0, end=end), skips)
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
    )
