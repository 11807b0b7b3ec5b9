"""Drives a shard's machine: carries out what it asks of store, outlet and input, until nothing is left to be done.

The rules of this file
----------------------
* `drive` hands the machine one event from outside, and then the answers to whatever it asks for. `shard.commit.perform`
  writes, `read` reads.
* Any error of a server ends this, and the machine is idle then: the shard has to be taken over again.
* `read_again` reads the rows of an input with a machine of the same kind, so that every message is decided as the shard
  decides it: strictness, statements, the partition contract, what is skipped. But all rows stay pending, and nothing is
  published except dead letters. It serves a reload from the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
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
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import DEAD_LETTERS, SEALED
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table


class Servers(NamedTuple):
    """The servers that a shard reads and writes."""

    store: Store
    outlet: Outlet
    input: ShardInput
    schemas: Schemas = NoSchemas()  # of a registry
    others: Callable[[int], Sequence[Store]] = lambda _shards: ()  # of the table's other shards, by their number


def drive(machine: Machine, event: Event, servers: Servers) -> Ready:
    """Handles an event and carries out what it asks for, until all is done or waits for another event.

    Raises what the servers raise, and what the machine stops for.
    """
    if isinstance(event, Messages | ready.ApplyLate):
        servers.schemas.learn(_schemas_in(event))
    asked = machine.handle(event)
    del event  # its messages need not stay in memory
    while asked.stop is None and any(one is not None for one in asked.of_servers):
        try:
            answer: Event
            if asked.read is not None:
                answer = read(machine, asked.read, servers)
            else:
                answer = perform(asked, servers.store, servers.outlet, servers.input)
        except BaseException:
            machine.handle(ready.Failed())
            raise
        asked = machine.handle(answer)
        del answer  # it may be a whole table
    if asked.stop is not None:
        raise asked.stop
    return asked


def _schemas_in(event: Messages | ready.ApplyLate) -> set[int]:
    messages = event.messages if isinstance(event, Messages) else (one.message for one in event.judged)
    return schema_ids((message.key, message.value) for message in messages if message is not None)


def read(machine: Machine, what: Read, servers: Servers) -> Event:
    """Performs one read; returns the machine's next event. Raises ServerUnreachable, ShardRefused, Fenced."""
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
            lacks = position is not None and epoch_of(meta or Meta()) < epoch_of(position)
            epochs = servers.input.epochs_over() if lacks else ()
            return ready.Owned(position, meta, state, epochs, servers.input.secret())
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
            return ready.SeenElsewhere(
                any(has_seen_the_end(store.meta()) for store in servers.others(machine.meta.shards))
            )


def _waiting(store: Store, number: int) -> list[OutboxEntry]:
    return [entry for commit, entry in store.outbox() if commit == number]


def _state(servers: Servers, meta: Meta | None, position: Position | None) -> InputState:
    last = message_read_last(meta, position)
    return servers.input.state(None if last is None else last.offset)


# -- the rows of an input ---------------------------------------------------------------------------------------------


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
) -> ready.RowsRead:
    """Reads all messages below the offset `end`.

    skips: offsets that an operator named. schemas: of a registry. Raises ShardRefused if messages in a row cannot be
    applied, RegistryUnreachable.
    """
    letters, store = _Letters(), MemoryStore(MemoryServer(), table.name, shard)
    known = schemas or NoSchemas()
    servers = Servers(store, letters, InputState({}, shards, earliest=0, end=end), known)
    machine = Machine(table, shard, b"", Holding.ALL, known.known)
    drive(machine, ready.Assigned(frozenset(skips)), servers)
    faults: list[str] = []
    for batch in chain(map(Messages, batches), [Messages((), through=end)]):
        done = drive(machine, batch, servers)
        faults += done.report.faults if done.report is not None else ()
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
    )
