"""Drives a shard's machine: carries out what it asks of store, outlet and input, until nothing is left to be done.

The rules of this file
----------------------
* `drive` hands over one event from outside, and whatever follows from it. Writing is `shard.commit.perform`, reading is
  `read`; both answer with the machine's next event.
* Any error of a server ends it, and the machine is idle then: the shard has to be taken over again.
* The rows of an input are read by a machine of the same kind, so that everything is decided as a shard decides it:
  strictness, statements, the partition contract, what is skipped. Only that no QI group is ever made: all rows are
  pending. What it would publish are its letters alone. So a table begins anew from its input, and so the part of an
  input is read that came after a truncation of which a shard hears late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
from streamer.incremental.events.source_position import OrderLost, SourcePosition, position_of
from streamer.incremental.release.records import OutboxEntry, Outgoing
from streamer.incremental.shard.commit import perform
from streamer.incremental.shard.input import InputState, Message, ShardInput
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.ready import (
    ApplyLate,
    Assigned,
    Event,
    Failed,
    Fetched,
    Inspected,
    Messages,
    Outboxed,
    Owned,
    Preflight,
    Read,
    ReadBehind,
    ReadMessage,
    ReadOthers,
    ReadOutbox,
    ReadOwned,
    ReadPiece,
    ReadTable,
    Ready,
    RereadPiece,
    RowsAfter,
    RowsRead,
    SeenElsewhere,
    Stored,
    TakeFence,
    Taken,
)
from streamer.incremental.shard.snapshot import has_seen_the_end
from streamer.incremental.shard.states import Holding
from streamer.incremental.shard.truncations import begin_of_run, order_lost
from streamer.incremental.store.base import Store
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import DEAD_LETTERS
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table


class Servers(NamedTuple):
    """What a shard reads and writes. schemas: of a registry. others: the stores of the table's other shards."""

    store: Store
    outlet: Outlet
    input: ShardInput
    schemas: Schemas = NoSchemas()
    others: Sequence[Store] = ()


def drive(machine: Machine, event: Event, servers: Servers) -> Ready:
    """Handles an event, and carries out what it asks for, until that is done or waits for something else.

    Raises what the servers raise, and what the machine stops for.
    """
    if isinstance(event, Messages | ApplyLate):
        servers.schemas.learn(_schemas_in(event))
    ready = machine.handle(event)
    del event
    while ready.stop is None and (ready.read, ready.commit, ready.publish, ready.trim) != (None, None, None, None):
        ready = machine.handle(_carried_out(machine, ready, servers))
    if ready.stop is not None:
        raise ready.stop
    return ready


def _carried_out(machine: Machine, ready: Ready, servers: Servers) -> Event:
    """What comes of what is asked for. After any error the machine is idle."""
    try:
        if ready.read is not None:
            return read(machine, ready.read, servers)
        return perform(ready, servers.store, servers.outlet, servers.input)
    except BaseException:
        machine.handle(Failed())
        raise


def _schemas_in(event: Messages | ApplyLate) -> set[int]:
    messages = event.messages if isinstance(event, Messages) else (one.message for one in event.judged)
    return schema_ids((message.key, message.value) for message in messages if message is not None)


def read(machine: Machine, what: Read, servers: Servers) -> Event:
    """What is there, as the machine's next event. Raises ServerUnreachable, ShardRefused, Fenced."""
    store, outlet = servers.store, servers.outlet
    match what:
        case Preflight():
            before, position, meta = store.meta(), outlet.position(), store.meta()
            return Inspected(before, position, meta, servers.input.state())
        case TakeFence():
            return Taken(store.take_over(again=what.again))
        case ReadOwned():
            return _read_owned(what, servers)
        case ReadOutbox():
            waiting = [entry for commit, entry in store.outbox() if commit == what.commit]
            store.check_fence(what.fence)  # a store that fell back to before the commit has neither
            return Outboxed(waiting)
        case ReadTable():
            if what.fence:
                store.check_fence(what.fence)
            return Stored(store.load())
        case ReadMessage():
            found, _ = servers.input.piece(what.offset, what.offset + 1)
            servers.schemas.learn(_schemas_in(Messages(found)))
            return Fetched(found[0] if found else None)
        case ReadPiece():
            messages, through = servers.input.piece(what.start, what.end)
            servers.schemas.learn(_schemas_in(Messages(messages)))
            return RereadPiece(messages, through)
        case ReadOthers():
            return SeenElsewhere(any(has_seen_the_end(store.meta()) for store in servers.others))
        case ReadBehind():
            return _read_after(machine, what, servers)


def _read_owned(what: ReadOwned, servers: Servers) -> Owned:
    servers.outlet.fence()
    position, meta = servers.outlet.position(), servers.store.meta()
    servers.store.check_fence(what.fence)  # nobody wrote between the two readings: they belong together
    state = servers.input.state()
    is_behind = position is not None and position.truncations > (meta.truncations if meta else 0)
    return Owned(position, meta, state, servers.input.placed() if is_behind else ())


def _read_after(machine: Machine, what: ReadBehind, servers: Servers) -> RowsAfter:
    servers.input.ask()
    first = servers.input.begins() if what.whole else what.end  # if no row is there, nothing has to be told apart
    of = machine.table, machine.shard, what.shards
    rows = read_behind(what.source, *of, first, what.end, servers.input.messages, what.skips, servers.schemas)
    return RowsAfter(what.request, what.source, rows)


# -- the rows of an input ---------------------------------------------------------------------------------------------

Between = Callable[[int, int], Iterator[Sequence[Message]]]
"""Reads the messages of an input from an offset to another, some at a time."""


class _Letters:
    """An outlet that keeps the letters."""

    def __init__(self) -> None:
        self.kept: list[OutboxEntry] = []

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        letters = (record for record in records if record.topic == DEAD_LETTERS)
        self.kept += [OutboxEntry(letter.topic, letter.key, letter.value) for letter in letters]


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
    log_seen: whether a message of its log came before, too. Raises ShardRefused if messages in a row cannot be
    applied, RegistryUnreachable.
    """
    letters, store = _Letters(), MemoryStore(MemoryServer(), table.name, shard)
    known = schemas or NoSchemas()
    servers = Servers(store, letters, InputState({}, shards, earliest=0, end=end), known)
    machine = Machine(table, shard, b"", Holding.ALL, known.known)
    drive(machine, Assigned(frozenset(skips), behind, log_seen), servers)
    faults: list[str] = []
    for batch in batches:
        faults += _faults_of(drive(machine, Messages(batch), servers))
        advance(len(batch))
    faults += _faults_of(drive(machine, Messages((), through=end), servers))
    state, meta = store.load(), machine.meta
    rows, ids = ({}, ()) if state is None else ({k: r.row for k, r in state.kept.records}, state.kept.statement_ids)
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


def _faults_of(ready: Ready) -> list[str]:
    return ready.report.faults if ready.report is not None else []


def read_behind(
    source: SourcePosition,
    table: Table,
    shard: int,
    shards: int,
    earliest: int,
    end: int,
    read: Between,
    skips: Iterable[int],
    schemas: Schemas | None = None,
) -> RowsRead:
    """Reads the messages below the offset `end` that came after a truncation; earliest: the first one that is there.

    schemas: of a registry. Raises ShardRefused if the input does not tell which these are, RegistryUnreachable.
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
