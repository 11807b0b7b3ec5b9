"""QI groups as rows of two tables: what is new in either is written, what is not in it any more removed.

A box is not published, so one that grows writes nothing. Rows of the quasi-identifier table come first, of each table
the removals last.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamer.incremental.release.published_group import PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.incremental.topics import QIT, STT
from streamer.table.published import qi_group_name
from streamer.table.published_group import counted
from streamer.table.published_join import Cells, qit_row, stt_key, stt_row
from streamer.table.row import Values
from streamer.table.schema import Table


class JoinWriter:
    """Writes the published QI groups of one shard as rows of two tables."""

    def __init__(self, table: Table, shard: int) -> None:
        self._table = table
        self._shard = shard

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[Entry]:
        """The fewest records that turn `before` into `after`; None: a QI group without published rows."""
        name = qi_group_name(self._shard, qi_group)
        was, now = (frozenset(group.cells) if group else frozenset() for group in (before, after))
        had, has = (counted(group.slots) if group else {} for group in (before, after))
        changed = [values for values, rows in has.items() if had.get(values) != rows]
        gone = [values for values in had if values not in has]
        return [
            *self._qit(name, sorted(now - was), removed=False),
            *self._qit(name, sorted(was - now), removed=True),
            *(self._stt(name, values, has[values]) for values in changed),
            *(self._stt(name, values, None) for values in gone),
        ]

    def _qit(self, name: str, cells: Iterable[Cells], removed: bool) -> Iterable[Entry]:
        for one in cells:
            row = qit_row(self._table, name, one)
            yield Entry(QIT, row, None if removed else row)

    def _stt(self, name: str, values: Values, rows: int | None) -> Entry:
        key = stt_key(self._table, name, values)
        return Entry(STT, key, None if rows is None else stt_row(key, rows))
