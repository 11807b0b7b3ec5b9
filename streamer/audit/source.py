"""The source rows behind a changelog, change by change: an engine that replays the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import Record
from streamer.incremental.events import changes
from streamer.incremental.events.changes import Change
from streamer.incremental.shard.input import Message
from streamer.incremental.verification import EngineBehind
from streamer.table.schema import Table

RowsChanged = Iterable[tuple[str, Record | None]]
"""SourceReplay keys of rows that changed, and how the rows are now; None: gone. No row is in it for two changes."""


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
