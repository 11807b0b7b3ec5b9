"""The source rows behind a changelog, change by change: an engine that replays the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import Record
from streamer.incremental.events import changes
from streamer.incremental.events.changes import Change, RowChange
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import Add, SealedRecord
from streamer.incremental.shard.input import Message
from streamer.incremental.verification import EngineBehind
from streamer.table.encode import EncodedRows
from streamer.table.row import Unshown
from streamer.table.schema import Table

RowsChanged = Iterable[tuple[str, Record | None]]
"""Source keys of rows that changed, and how the rows are now; None: gone. No row is in it for two changes."""


class SourceReplay:
    """Replays events and hands the rows over that they changed.

    written: source key -> offset of the last message about the row alone.
    """

    def __init__(self, table: Table, engine: Engine, messages: Iterable[Message]) -> None:
        self.behind = EngineBehind(table, engine, messages)
        self.written: dict[str, int] = {}

    def replay(self, through: int | None, take: Callable[[RowsChanged], None]) -> None:
        """Applies the messages before an offset, None: all. take: called with the rows that changed, maybe often.

        What happens to a row is never summed up: a row that is deleted and inserted again is handed over twice.
        """
        engine, touched, after_statement = self.behind.engine, set[str](), False
        for offset, change in self.behind.up_to(through):
            keys = tuple(keys_of(change))
            is_statement = isinstance(change, changes.Statement)
            if is_statement or after_statement or not touched.isdisjoint(keys):
                take(engine.drain().records.items())
                touched.clear()
            after_statement = is_statement
            touched.update(keys)
            self.written.update(dict.fromkeys(keys, offset))
        take(engine.drain().records.items())


def keys_of(change: Change) -> Iterator[str]:
    """The source keys of the rows that a change names; a statement names none."""
    if isinstance(change, changes.Insert | changes.Delete | changes.Modify | changes.Upsert | changes.Remove):
        yield change.source_key
    if isinstance(change, changes.Upsert) and change.former_key is not None:
        yield change.former_key


CHANGES_AT_ONCE = 1_000  # messages whose changes of rows are in memory together


def row_changes(
    table: Table, engine: Engine, messages: Iterable[Message], first: EncodedRows | None
) -> Iterator[RowChange]:
    """The changes of rows, one by one: the table before the first message, then what messages did.

    engine: a new one, of a table that publishes a sealed changelog, that gathers rows; with the secret of the replay,
    which orders the rows of a statement.
    """
    if first is not None:
        rows = first.rows()
        engine.load_initial(first.source_keys, rows, first.codes, [])
        yield from (RowChange(key, None, row) for key, row in zip(first.source_keys, rows, strict=True))
        engine.drain()
    behind = EngineBehind(table, engine, messages)
    for number, _ in enumerate(behind.up_to(None)):
        if number % CHANGES_AT_ONCE == CHANGES_AT_ONCE - 1:
            yield from engine.drain().row_changes
    yield from engine.drain().row_changes


class EpochMembers(Unshown, frozen=True, forbid_unknown_fields=True):
    """The private record of an epoch: source keys by cohort id.

    changes: the number of changes of rows before its end, those that made the first table included.
    """

    epoch: int
    changes: int
    cohorts: dict[str, list[str]]
    shard: int = 0


def members_of(
    table: Table, form: Formation, secret: bytes, first: int | None, changes: Iterable[RowChange], seconds: int = 0
) -> Iterator[EpochMembers]:
    """The members of cohorts, from a publisher with the same secret that takes the same changes of rows.

    first: the number of changes that made the first table, which is epoch 1; None: there was none. seconds: its time.
    """
    publisher, changes, done = Sealed(table, 0, form, drawn_by(secret)), iter(changes), 0
    if first is not None:
        records, done = publisher.begin(islice(changes, first), seconds), first
        yield EpochMembers(publisher.epoch, done, _cohorts(publisher, records))
    by_time = publisher.rules.epoch.seconds is not None
    for change in changes:
        # By time, an epoch ends before the change, by number with it.
        for records in chain(publisher.over_before(change.at // 1_000), publisher.take([change])):
            yield EpochMembers(publisher.epoch, done if by_time else done + 1, _cohorts(publisher, records))
        done += 1


def _cohorts(publisher: Sealed, records: Iterable[SealedRecord]) -> dict[str, list[str]]:
    added: dict[str, list[str]] = {record.cohort: [] for record in records if isinstance(record, Add)}
    if added:
        changed = publisher.drain()
        names = {index: cohort.id.hex() for index, cohort in changed.cohorts.items() if cohort is not None}
        for source_key, place in changed.places.items():
            if place is not None and names.get(place.cohort) in added:
                added[names[place.cohort]].append(source_key)
    return added
