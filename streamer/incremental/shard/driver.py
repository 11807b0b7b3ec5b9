"""Drives a shard's machine: carries out what it asks of store, outlet and input, until nothing is left to be done.

The rules of this file
----------------------
* `drive` hands the machine one event from outside, and then the answers to whatever it asks for. `shard.commit.perform`
  writes, `read` reads.
* Any error of a server ends this, and the machine is idle then: the shard has to be taken over again.
* `read_again` reads the rows of an input with a machine of the same kind, so that every message is decided as the shard
  decides it: strictness, statements, the partition contract, what is skipped. But all rows stay pending, and nothing is
  published except dead letters. It serves a reload from the input, and a shard that hears late of a truncation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import lt
from typing import NamedTuple

from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
from streamer.incremental.events.source_position import OrderLost, SourcePosition, position_of
from streamer.incremental.release.records import OutboxEntry, Outgoing
from streamer.incremental.shard import ready
from streamer.incremental.shard.commit import perform
from streamer.incremental.shard.input import InputState, Message, ShardInput
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import DeafOutlet, Outlet, Position, found_records
from streamer.incremental.shard.preflight import message_read_last
from streamer.incremental.shard.ready import Event, Messages, Read, Ready
from streamer.incremental.shard.sealing import epoch_of
from streamer.incremental.shard.snapshot import has_seen_the_end
from streamer.incremental.shard.states import Holding
from streamer.incremental.shard.truncations import begin_of_run, order_lost
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import DEAD_LETTERS, SEALED
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table


class Servers(NamedTuple):
    """What a shard reads and writes."""

    store: Store
    outlet: Outlet
    input: ShardInput
    schemas: Schemas = NoSchemas()  # of a registry
    others: Sequence[Store] = ()  # of the table's other shards


def drive(machine: Machine, event: Event, servers: Servers) -> Ready:
    """Handles an event and carries out what it asks for, until all is done or waits for another event.

    Raises what the servers raise, and what the machine stops for.
    """
    if isinstance(event, Messages | ready.ApplyLate):
        servers.schemas.learn(_schemas_in(event))
    asked = machine.handle(event)
    del event  # its messages need not stay in memory
    while asked.stop is None and any(one is not None for one in _servers_asked(asked)):
        asked = machine.handle(_carried_out(machine, asked, servers))
    if asked.stop is not None:
        raise asked.stop
    return asked


def _servers_asked(asked: Ready) -> tuple[object, ...]:
    return asked.read, asked.keep, asked.commit, asked.publish, asked.trim


def _carried_out(machine: Machine, asked: Ready, servers: Servers) -> Event:
    """The answer to what is asked for. After any error the machine is idle."""
    try:
        if asked.read is not None:
            return read(machine, asked.read, servers)
        return perform(asked, servers.store, servers.outlet, servers.input)
    except BaseException:
        machine.handle(ready.Failed())
        raise


def _schemas_in(event: Messages | ready.ApplyLate) -> set[int]:
    messages = event.messages if isinstance(event, Messages) else (one.message for one in event.judged)
    return schema_ids((message.key, message.value) for message in messages if message is not None)


def read(machine: Machine, what: Read, servers: Servers) -> Event:
    """What is there, as the machine's next event. Raises ServerUnreachable, ShardRefused, Fenced."""
    store, outlet = servers.store, servers.outlet
    match what:
        case ready.Preflight():
            before, position, meta = store.meta(), outlet.position(), store.meta()
            return ready.Inspected(before, position, meta, _state(servers, meta, position), servers.input.secret())
        case ready.TakeFence():
            return ready.Taken(store.take_over(again=what.again))
        case ready.ReadOwned():
            outlet.fence()
            position, meta = outlet.position(), store.meta()
            state = _state(servers, meta, position)
            store.check_fence(what.fence)  # nobody wrote between these readings: they belong together
            placed = servers.input.placed() if position is not None and _lacks_placed(meta, position) else ()
            return ready.Owned(position, meta, state, placed, servers.input.secret())
        case ready.ReadOutbox():
            waiting = _waiting(store, what.commit)
            store.check_fence(what.fence)  # a store that fell back to before the commit has neither
            sealed = any(entry.topic == SEALED for entry in waiting)
            return ready.Outboxed(waiting, sealed and servers.input.holds_sealed(what.sealed_end))
        case ready.ReadOutput():
            there, waiting = found_records(outlet.published()), _waiting(store, what.commit)
            store.check_fence(what.fence)
            return ready.Output(there, waiting)
        case ready.ReadTable():
            if what.fence:
                store.check_fence(what.fence)
            return ready.Stored(store.load())
        case ready.ReadMessage():
            found, _ = servers.input.piece(what.offset, what.offset + 1)
            servers.schemas.learn(_schemas_in(Messages(found)))
            return ready.Fetched(found[0] if found else None)
        case ready.ReadPiece():
            messages, through = servers.input.piece(what.start, what.end)
            servers.schemas.learn(_schemas_in(Messages(messages)))
            return ready.RereadPiece(messages, through)
        case ready.ReadOthers():
            return ready.SeenElsewhere(any(has_seen_the_end(store.meta()) for store in servers.others))
        case ready.ReadAfter():
            servers.input.ask()
            first = servers.input.begins() if what.whole else what.end  # without rows there is nothing to tell apart
            of = machine.table, machine.shard, what.shards, first, what.end
            rows = read_after_truncation(what.source, *of, servers.input.messages, what.skips, servers.schemas)
            return ready.RowsAfter(what.request, what.source, rows)


def _lacks_placed(meta: Meta | None, position: Position) -> bool:
    """Whether a store lacks truncations or epochs that are published."""
    mine, published = ((one.truncations, epoch_of(one)) for one in (meta or Meta(), position))
    return any(map(lt, mine, published))


def _waiting(store: Store, number: int) -> list[OutboxEntry]:
    return [entry for commit, entry in store.outbox() if commit == number]


def _state(servers: Servers, meta: Meta | None, position: Position | None) -> InputState:
    last = message_read_last(meta, position)
    return servers.input.state(None if last is None else last.offset)


# -- the rows of an input ---------------------------------------------------------------------------------------------

Between = Callable[[int, int], Iterator[Sequence[Message]]]
"""Reads the messages of an input from an offset to another, some at a time."""


class _Letters(DeafOutlet):
    """An outlet that keeps the letters."""

    def __init__(self) -> None:
        self.kept: list[OutboxEntry] = []

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        letters = (record for record in records if record.topic == DEAD_LETTERS)
        self.kept.extend(OutboxEntry(letter.topic, letter.key, letter.value) for letter in letters)


def read_again(
    table: Table,
    shard: int,
    shards: int,
    batches: Iterable[Sequence[Message]],
    end: int,
    skips: Iterable[int] = (),
    schemas: Schemas | None = None,
    behind: SourcePosition | None = None,
    log_seen: bool = False,
) -> ready.RowsRead:
    """Reads all messages below the offset `end`.

    skips: offsets that an operator named. schemas: of a registry. behind, log_seen: a truncation that is known before
    the first message, and whether a message of its log came before, as in `Meta`. Raises ShardRefused if messages in a
    row cannot be applied, RegistryUnreachable.
    """
    letters, store = _Letters(), MemoryStore(MemoryServer(), table.name, shard)
    known = schemas or NoSchemas()
    servers = Servers(store, letters, InputState({}, shards, earliest=0, end=end), known)
    machine = Machine(table, shard, b"", Holding.ALL, known.known)
    drive(machine, ready.Assigned(frozenset(skips), behind, log_seen), servers)
    faults: list[str] = []
    for batch in batches:
        faults += _faults_of(drive(machine, Messages(batch), servers))
    faults += _faults_of(drive(machine, Messages((), through=end), servers))
    state, meta = store.load(), machine.meta
    rows, ids = ({}, ()) if state is None else ({k: r.row for k, r in state.kept.records}, state.kept.statement_ids)
    return ready.RowsRead(
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


def _faults_of(done: Ready) -> list[str]:
    return done.report.faults if done.report is not None else []


def read_after_truncation(
    source: SourcePosition,
    table: Table,
    shard: int,
    shards: int,
    earliest: int,
    end: int,
    read: Between,
    skips: Iterable[int],
    schemas: Schemas | None = None,
) -> ready.RowsRead:
    """Reads the messages below the offset `end` that came after a truncation in the source's order.

    earliest: where the input begins. Raises ShardRefused if the input does not tell which these are,
    RegistryUnreachable.
    """
    name, schemas = f"shard {shard} of {table.name}", schemas or NoSchemas()
    place_of = partial(position_of, schemas=schemas.known)
    try:
        begin = begin_of_run(
            name, table.name, source, earliest, end, lambda start: _learned(schemas, read(start, end)), place_of
        )
    except OrderLost:
        raise order_lost(name, table.name) from None
    log_seen = begin > earliest  # the message before it names the truncation's log
    return read_again(table, shard, shards, read(begin, end), end, skips, schemas, source, log_seen)


def _learned(schemas: Schemas, batches: Iterable[Sequence[Message]]) -> Iterator[Sequence[Message]]:
    """The same batches, each when its schemas are known."""
    for batch in batches:
        schemas.learn(schema_ids((None, message.value) for message in batch))
        yield batch
