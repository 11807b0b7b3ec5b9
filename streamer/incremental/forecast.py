"""The cost of a table's changes, found by running a shard's machine over changes made of the table's own rows.

The rules of this file
----------------------
* The rows are the table's own. An insertion brings one that is not there, a deletion takes one that is, a modification
  gives a row another row's value of one quasi-identifier. A seed draws which.
* Nothing is foreseen that can be counted: records are those that the machine publishes, stored bytes are those that the
  store's codec writes. What servers add to these bytes varies: it is said from the least to the most, and tests hold
  that to real ones.
* A change is counted after as many others as there are rows: the QI groups of a fresh table are not those of one that
  has been kept for a while.
* No value of a row gets into a figure.
"""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from math import inf, log2
from time import thread_time
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from streamer.errors import LawViolated
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.key_form import default_form
from streamer.incremental.events.registered_schemas import Known, NoSchemas
from streamer.incremental.formats.live_format import live_format
from streamer.incremental.release.records import Outgoing
from streamer.incremental.replay import WHOLE_FILE, FirstGroups, NoOutlet, secret_of_seed
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.ready import Assigned, Event, FirstRows, Messages
from streamer.incremental.shard.sealing import taken_over
from streamer.incremental.store.memory import MemoryServer, MemoryStore, ShardBytes
from streamer.incremental.topics import DEAD_LETTERS, OUTPUTS, POSITIONS
from streamer.progress import OnProgress, part_of, unheard
from streamer.table.codes import source_cells
from streamer.table.encode import Encoder
from streamer.table.schema import EpochLength, Table

INSERT, DELETE, MODIFY = "insert", "delete", "modify"
MIX = {INSERT: 35, DELETE: 35, MODIFY: 30}
"""Of a hundred changes: as many come as go, so that the table keeps its size."""

WAITING_SHARE = 0.1
"""Of the rows, those that are not in the table at first: they can be inserted."""

CHANGES_PER_BATCH = 500
"""Changes of a batch, if they come faster than they are committed."""

SINGLE_CHANGES, CHANGES_TOGETHER, CHANGES_OF_A_ROW = 3_000, 5_000, 20
"""The changes that are counted one by one, and in batches; and the most for each row, which limits small tables."""

EPOCHS = 4
"""The epochs of a sealed changelog that end within the changes that are tried, at least."""

# -- bytes that servers add -------------------------------------------------------------------------------------------


class Added(NamedTuple):
    """The bytes that servers add to each thing that they keep: the least or the most, as seen at real ones."""

    record: int  # Kafka, to key, value and headers
    entry: int  # Redis, to key and value


LEAST, MOST = Added(record=7, entry=55), Added(record=22, entry=80)

COMMIT_BYTES = 139
"""Of a commit, on each topic: the head of Kafka's batch of records, and the marker that ends the transaction."""

TOPIC_ID_CHARACTERS = 22


def entries(shard: ShardBytes) -> Iterator[int]:
    """The bytes of each entry of a shard in its store, without the outbox, which is empty between two commits."""
    for kept in (shard.records, shard.sealed):
        yield from (len(key) + len(value) for key, value in kept.items())
    for numbered in (shard.qi_groups, shard.similarity, shard.origins, shard.cohorts):
        yield from (len(str(number)) + len(value) for number, value in numbered.items())


# -- records ----------------------------------------------------------------------------------------------------------


class NumberedSchemas(NoSchemas):
    """A registry in memory: every schema gets a number, which is all that a record holds of it."""

    def __init__(self) -> None:
        self.known: Known | None = {}

    def register(self, subject: str, schema: str) -> int:
        return 1 + subject.endswith("-value")


@dataclass
class ChangeTally:
    """The cost of some changes; records and bytes by kind of topic, bytes without Kafka's own of each record."""

    changes: int = 0
    records: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of a processor, from the messages to the bytes for store and topics

    @property
    def microseconds(self) -> float:
        """Of each change."""
        return 1e6 * self.seconds / max(1, self.changes)

    def records_of_each(self, kind: str) -> float:
        return self.records[kind] / max(1, self.changes)

    def bytes_on(self, kind: str, added: Added) -> int:
        """On Kafka's disk."""
        return self.bytes[kind] + added.record * self.records[kind]

    def bytes_of_each(self, kind: str, added: Added) -> float:
        return self.bytes_on(kind, added) / max(1, self.changes)

    def add(self, other: ChangeTally) -> None:
        self.changes, self.seconds = self.changes + other.changes, self.seconds + other.seconds
        self.records += other.records
        self.bytes += other.bytes


class CountingOutlet(NoOutlet):
    """Publishes nothing, and counts the records and bytes that Kafka would get, by kind of topic."""

    def __init__(self, table: Table) -> None:
        self._format = live_format(table, NumberedSchemas())
        self._format.begin()
        self.tally = ChangeTally()

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        sizes, counts = Counter[str](), Counter(record.topic for record in records)
        for record in records:
            key, value = record.key, record.value
            if record.topic in OUTPUTS:
                key, value = self._format.written_key(key), None if value is None else self._format.written_value(value)
            sizes[record.topic] += sum(map(len, (key or b"", value or b"", *chain.from_iterable(record.headers))))
        ends = {kind: position.next for kind in counts if kind != DEAD_LETTERS}
        said = msgspec.structs.replace(position, ends=ends, live_id="-" * TOPIC_ID_CHARACTERS).to_json()
        sizes[POSITIONS], counts[POSITIONS] = len(b"0") + len(said), 1
        self.tally.records += counts
        self.tally.bytes += Counter({kind: size + COMMIT_BYTES for kind, size in sizes.items()})


# -- changes made of rows ---------------------------------------------------------------------------------------------


class MadeChanges:
    """Endless changes of a table, made of its own rows; those of `waiting` are not there at first."""

    def __init__(self, table: Table, frame: pd.DataFrame, seed: int) -> None:
        self._table, self._random = table, random.Random(seed)
        encoder = Encoder(table)
        columns = encoder.named_columns(frame)
        cells = zip(*(source_cells(frame[name]).tolist() for name in columns), strict=True)
        self._rows = [encoder.fields(dict(zip(columns, row, strict=True))) for row in cells]
        form = default_form(table.source_key)
        self._keys = [form.written(encoder.source_key(row)) for row in self._rows]
        order = self._random.sample(range(len(frame)), len(frame))
        n = max(1, round(WAITING_SHARE * len(frame)))
        self._most = min(2 * n, len(frame) - 1)  # how many may be away: the table keeps its size
        self.waiting, self.there = order[:n], order[n:]
        self.n_made = self.n_bytes = 0  # of all messages so far

    def __len__(self) -> int:
        """The number of rows that come and go."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, Message]]:
        kinds, weights = list(MIX), list(MIX.values())
        while True:
            (kind,) = self._random.choices(kinds, weights)
            if kind == INSERT and not self.waiting:
                kind = DELETE
            elif kind == DELETE and len(self.waiting) >= self._most:
                kind = INSERT
            number, body = self._made(kind)
            yield kind, self._message(number, kind, body)

    def first(self) -> Iterator[Message]:
        """Insertions of all rows that are there at first."""
        for number in self.there:
            yield self._message(number, INSERT, {"row": self._rows[number]})

    def _message(self, number: int, kind: str, body: Mapping[str, object]) -> Message:
        message = Message(self.n_made, self._keys[number], _encode({"op": kind, **body}))
        self.n_made, self.n_bytes = self.n_made + 1, self.n_bytes + len(message.key or b"") + len(message.value or b"")
        return message

    def _made(self, kind: str) -> tuple[int, Mapping[str, object]]:
        """The number of the row, and what the message says of it."""
        if kind == INSERT:
            number = self._taken(self.waiting)
            self.there.append(number)
            return number, {"row": self._rows[number]}
        if kind == DELETE:
            number = self._taken(self.there)
            self.waiting.append(number)
            return number, {"key": self._key_of(number)}
        number, other = self._random.choice(self.there), self._random.choice(self._rows)
        name = self._random.choice(self._table.attributes).name
        return number, {"key": self._key_of(number), "row": {name: other[name]}}

    def _taken(self, numbers: list[int]) -> int:
        i = self._random.randrange(len(numbers))
        numbers[i], numbers[-1] = numbers[-1], numbers[i]
        return numbers.pop()

    def _key_of(self, number: int) -> Mapping[str, object]:
        return {name: self._rows[number][name] for name in self._table.source_key}


_encode = msgspec.json.Encoder(decimal_format="number").encode


# -- a shard that is tried --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TriedShard:
    """The figures of a shard that was tried."""

    rows: int
    waiting: int  # rows that could be inserted
    published: int  # rows in QI groups, at the end
    ncp: float | None  # the mean loss of the published rows, at the end; None: no row is published
    costs: Mapping[str, ChangeTally]  # of changes that are published one by one, by what they do
    together: ChangeTally  # of changes that are published CHANGES_PER_BATCH
    refused: int  # changes that became dead letters
    input_bytes: float  # of a change, as `produce` writes it, without what Kafka adds
    first: ChangeTally  # of the first table, whose rows are no changes
    stored_bytes: int  # without what Redis adds
    stored_entries: int
    worker_bytes: int
    empty_bytes: int  # of a shard without rows, in a worker
    takeover_seconds: float  # of a processor, without the network

    @property
    def alone(self) -> ChangeTally:
        """Of all changes that are published one by one."""
        total = ChangeTally()
        for one in self.costs.values():
            total.add(one)
        return total

    def redis_bytes(self, added: Added) -> int:
        return self.stored_bytes + added.entry * self.stored_entries


class ShardTrial:
    """A shard in memory, and the changes that it is given."""

    def __init__(
        self,
        table: Table,
        frame: pd.DataFrame,
        first_groups: FirstGroups,
        form: Formation | None,
        seed: int,
        outlet: CountingOutlet | None = None,
    ) -> None:
        self._table, self._form = table, form
        self._changes = MadeChanges(table, frame, seed)
        self._stream = iter(self._changes)
        self.store, self._outlet = MemoryStore(server := MemoryServer(), table.name, 0), outlet or CountingOutlet(table)
        self.stored = server.shard(table.name, 0)
        self._machine = Machine(table, 0, secret_of_seed(seed), form=form)
        self._servers = Servers(self.store, self._outlet, WHOLE_FILE)
        self._drive(Assigned())
        self.first = self._outlet.tally = ChangeTally()
        if table.sealed is not None:  # loaded rows would be in no cohort
            self._drive(Messages(list(self._changes.first())))
            return
        rows = Encoder(table).frame(frame.iloc[self._changes.there])
        self._drive(FirstRows(rows, first_groups(table, rows, seed)))

    def _drive(self, event: Event) -> None:
        drive(self._machine, event, self._servers)

    def together(self, changes: int, tally: ChangeTally, on_progress: OnProgress = unheard) -> ChangeTally:
        """Applies changes in batches."""
        self._outlet.tally = tally
        for done in range(0, changes, CHANGES_PER_BATCH):
            batch = [message for _, message in islice(self._stream, min(CHANGES_PER_BATCH, changes - done))]
            tally.changes += len(batch)
            began = thread_time()
            self._drive(Messages(batch))
            tally.seconds += thread_time() - began
            on_progress(done / changes)
        return tally

    def one_by_one(self, changes: int, on_progress: OnProgress = unheard) -> Mapping[str, ChangeTally]:
        """Applies changes one by one; returns the cost of each kind."""
        costs = {kind: ChangeTally() for kind in MIX}
        for done, (kind, message) in enumerate(islice(self._stream, changes)):
            tally = self._outlet.tally = costs[kind]
            tally.changes += 1
            began = thread_time()
            self._drive(Messages([message]))
            tally.seconds += thread_time() - began
            if not done % CHANGES_PER_BATCH:
                on_progress(done / changes)
        return costs

    def _loaded(self) -> Engine:
        """The shard as another worker takes it over."""
        state = self.store.load()
        if state is None:
            raise LawViolated("a shard that was tried has stored nothing")
        engine = Engine.load(self._table, 0, 1, state.kept, state.meta.secret)
        taken_over(self._table, 0, self._form, state.meta, state, engine)
        return engine

    def tried(self, on_progress: OnProgress = unheard) -> TriedShard:
        """Applies all changes, and looks at what is kept then."""
        n, most = len(self._changes), CHANGES_OF_A_ROW * len(self._changes)
        self.together(n, ChangeTally(), part_of(on_progress, 0.0, 0.4))
        costs = self.one_by_one(min(SINGLE_CHANGES, most), part_of(on_progress, 0.4, 0.8))
        together = self.together(min(CHANGES_TOGETHER, most), ChangeTally(), part_of(on_progress, 0.8, 1.0))
        engine = self._machine.engine
        published = engine.published
        began = thread_time()
        loaded = self._loaded()
        takeover_seconds = thread_time() - began
        sizes = list(entries(self.stored))
        return TriedShard(
            loaded.n_rows,
            len(self._changes.waiting),
            published.rows,
            published.loss,
            costs,
            together,
            sum(one.records[DEAD_LETTERS] for one in (*costs.values(), together)),
            self._changes.n_bytes / self._changes.n_made,
            self.first,
            sum(sizes),
            len(sizes),
            bytes_in_memory(loaded),
            bytes_in_memory(Engine(self._table)),
            takeover_seconds,
        )


PLAIN_TYPES = (str, bytes, int, float, Decimal, tuple, list, dict, set, frozenset, deque)


def bytes_in_memory(thing: object) -> int:
    """The bytes of a value and all that it holds, each object once: arrays, plain values, objects of our classes."""
    seen, total, found = set[int](), 0, [thing]
    while found:
        one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray) and isinstance(one.base, np.ndarray):
            found.append(one.base)
        elif isinstance(one, np.ndarray):
            total += one.nbytes
        elif isinstance(one, memoryview):
            found.append(one.obj)
        elif isinstance(one, PLAIN_TYPES) or type(one).__module__.startswith("streamer."):
            total += sys.getsizeof(one)
            found += [held for held in gc.get_referents(one) if not isinstance(held, type)]
    return total


# -- what is foreseen for a shard of any size -------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """The cost of a shard with a number of rows: as it was tried, or as two smaller ones let expect.

    Records, bytes and time of a change grow by the same amount with every doubling of the rows, what is kept with the
    rows.
    """

    rows: int
    tried: Sequence[TriedShard]  # one as large as the shard; or two, the smaller one first

    @property
    def is_foreseen(self) -> bool:
        """True if it was not tried with as many rows."""
        return len(self.tried) > 1 or self.tried[0].rows + self.tried[0].waiting < self.rows

    def of_change(self, figure: Callable[[TriedShard], float]) -> float:
        """A figure of a change."""
        *few, many = (figure(one) for one in self.tried)
        for one in few:
            doublings = log2(self.tried[1].rows / self.tried[0].rows)
            many += (many - one) / doublings * log2(self.rows / self.tried[1].rows)
        return max(0.0, many)

    def of_each(self, tally: Callable[[TriedShard], ChangeTally], figure: Callable[[ChangeTally], float]) -> float:
        """A figure of some changes. Together they cost no more than alone: small samples meet their own rows again."""
        is_together = all(tally(one) is one.together for one in self.tried)
        most = self.of_change(lambda one: figure(one.alone)) if is_together else inf
        return min(most, self.of_change(lambda one: figure(tally(one))))

    def kept(self, figure: Callable[[TriedShard], float]) -> float:
        """A figure of all rows together."""
        return figure(self.tried[-1]) * self.rows / max(1, self.tried[-1].rows)


def with_short_epochs(table: Table, rows: int) -> Table:
    """The table with epochs of a sealed changelog that are short enough for several of them to end while it is tried.

    A person is published once, whenever the epoch ends: the length hardly changes what a change costs.
    """
    if table.sealed is None:
        return table
    events, most = table.sealed.epoch.events, min(SINGLE_CHANGES, CHANGES_OF_A_ROW * rows) // EPOCHS
    return replace(table, sealed=replace(table.sealed, epoch=EpochLength(events=min(events or most, most))))


def try_changes(
    table: Table,
    frame: pd.DataFrame,
    first_groups: FirstGroups,
    form: Formation | None,
    seed: int,
    on_progress: OnProgress = unheard,
) -> TriedShard:
    """Tries changes on a shard that has these rows, and lets them come and go. frame: rows that the table accepts."""
    return ShardTrial(with_short_epochs(table, len(frame)), frame, first_groups, form, seed).tried(on_progress)
