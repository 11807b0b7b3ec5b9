"""The incremental algorithms of Song et al. 2009 over one shard: the only way to change its k-anonymous table.

The rules of this file
----------------------
* `apply(change)` changes the table. A change that cannot be applied raises `EventRefused` and changes nothing. Anything
  else that goes wrong is a bug and raises `LawViolated`. Beside it, `replace` replaces QI groups by others of the same
  rows for a rebuild (`engine.replacing`), and `renew` gives QI groups of an older engine the boxes of this one.
* A change of rows is decided at once from the index table; all that may refuse it is checked before the first row is
  touched. What it does to QI groups is queued as operations, which the compiled core runs many at a time (`core.step`);
  the last one says that the change is complete. Statements and questions about QI groups run the queue first.
* Every change is applied and repaired by itself, so the state after n changes depends on their sequence alone, never on
  batches. `drain()` only nets: it returns the difference between now and the last drain.
* All rows of a DELETE leave before boxes are recomputed (`shrink: false` keeps them) and groups that break the model
  merge. The rows of a statement leave and move in the order of their tie hashes. `core.step` and `core.repair` have the
  rest. A change of sensitive values alone moves no row, unless it breaks the model. A change within the row's own cells
  publishes nothing.
* `secret` keys the tie hashes (`engine.tie_break`). It is passed in, and never leaves.
* The order of what is published must reveal nothing but values. Every decision uses one of these orders:
  - By cells, boxes, published values and counts: which QI group a row joins, which ones merge, where a group is cut,
    slots when a group is formed, which slot a removed or changed value frees; in local repair, which row a group takes
    or gives away and to whom, which group dissolves, and in which order its rows leave.
  - By numbers of QI groups, which are public: ties of the similarities, which group is merged, cut or improved first,
    which freed number is used again, in which order records are published.
  - By tie hash: which of the rows in the same cells fall on which side of a cut, which of two equal halves keeps the
    number, in which order the rows of a statement leave and move, which of them local repair moves first.
  - By the sequence of messages: which number is given next, which slot an insertion takes.
  - By the operator: the order of the groups that an initial table names. The order of members, of pending rows and of
    rows as a store returns them decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.core import layout
from streamer.incremental.core.layout import NONE, Shard
from streamer.incremental.engine import loading, replacing
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.last_changes import LastChanges
from streamer.incremental.engine.net_effect import Drained, LossyJoinCells, net_effect
from streamer.incremental.engine.replacing import Region, Replaced
from streamer.incremental.engine.rows import Rows
from streamer.incremental.engine.stored_state import STATEMENT_IDS_MAX, StoredTable
from streamer.incremental.engine.tie_break import tie_hash
from streamer.incremental.events import changes
from streamer.incremental.events.changes import Change
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints, Records
from streamer.table.codes import other_spellings_of_key
from streamer.table.published.schemas import values_bytes_max
from streamer.table.row import Patch, Row, Values
from streamer.table.schema import LOSSY_JOIN, Table


class OperationQueue:
    """Operations that the core has not run yet, and the source keys of rows that have gone since the last drain."""

    def __init__(self, rows: Rows, core: CoreArrays, secret: bytes) -> None:
        self._rows = rows
        self._core = core
        self._secret = secret
        self._operations: list[tuple[int, int, int, int, int, int]] = []
        self._codes: list[tuple[int, ...]] = []  # of the operations that write a row
        self._at: list[int] = []  # the indexes of these operations
        self._is_gone: dict[str, bool] = {}  # by source key, of the rows with operations

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, kind: int, index: int = NONE, row: Row | None = None) -> None:
        """Adds an operation on a row; row: its contents afterwards, if they are written."""
        values = who = NONE
        drawn = 0
        if index != NONE:
            source_key = self._rows.source_keys[index]
            self._is_gone[source_key] = kind == layout.TAKE
            if kind == layout.INSERT:
                drawn = tie_hash(self._secret, source_key)
        if row is not None:
            values, who = self._rows.values.give(row.values), self._rows.who(row)
            self._codes.append(row.codes)
            self._at.append(len(self._operations))
        self._operations.append((drawn, kind, index, values, who, 0))

    def end(self) -> None:
        """Marks the last operation as the end of a change: the core repairs after it."""
        if self._operations and self._operations[-1][5] == 0:
            self._operations[-1] = (*self._operations[-1][:5], 1)

    def run(self) -> bool:
        """Runs the queue; False if it was empty. Raises LawViolated."""
        if not self._operations:
            return False
        self._core.run(*self._taken())
        return True

    def drain(self) -> None:
        """Runs the queue and exports the net effect. Raises LawViolated."""
        self._core.drain(*(self._taken() if self._operations else ()))

    def _taken(self) -> tuple[Records, Any]:
        """Empties the queue into arrays; writes the contents of rows that the core does not have."""
        self._rows.write()
        n, d = len(self._operations), self._rows.d
        operations = np.array(self._operations, dtype=layout.OPERATION).view(np.recarray)
        cells = np.zeros((n, d), dtype=np.int32)
        if self._codes:
            cells[self._at] = self._rows.cells_of(np.array(self._codes, dtype=np.int64))
        self._operations, self._codes, self._at = [], [], []
        return operations, cells

    def take_gone(self) -> list[str]:
        """Source keys of the rows that are gone by the operations of this batch; the next batch begins."""
        taken, self._is_gone = self._is_gone, {}
        return [source_key for source_key, is_gone in taken.items() if is_gone]


NEVER = 1 << 40
"""More rows than any shard has: with this k all rows are pending, so the core makes no QI groups."""

ENDLESS = NEVER * NEVER
"""More records than a batch can publish with such a k: else every message would run by itself."""


def all_pending(table: Table) -> Table:
    """The table for an engine that only gathers rows."""
    return replace(table, k=NEVER, limits=replace(table.limits, transaction_rows_max=ENDLESS))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a change."""

    applied: bool  # else ignored
    left_unchanged: int = 0  # rows of a statement whose result would have been invalid
    unknown_key: bool = False  # the row that it should have found was not there
    respelt_key: bool = False  # but one whose key is the same in another spelling
    old_read: bool = False  # a row as it was before a change, or before it was deleted
    explains: bool = False  # why a later key may be unknown: a row was deleted at no known position, or came again


_RESPELT = (
    "the same key in another spelling, such as 1.0 for 1: the source and the first table must write keys in one way"
)

APPLIED, IGNORED, EXPLAINS = Outcome(applied=True), Outcome(applied=False), Outcome(applied=True, explains=True)
OLD_READ = Outcome(applied=False, old_read=True)


QUEUED_RECORDS_PER_K = 4
"""Records that an operation publishes, in multiples of the smallest group's rows, if it merges nothing and groups are
cut as soon as possible: then one group is cut in two.
"""


class Published(NamedTuple):
    """What readers have of a shard."""

    rows: int
    withheld: int  # rows of QI groups that are wider than `coarsest` allows
    loss: float | None  # mean of the published rows (`Space.mean_loss`)


NOTHING_PUBLISHED = Published(0, 0, None)


class Engine:
    """The k-anonymous table of one shard, in memory.

    `apply` changes `rows` at once, and only queues what this does to QI groups. The core runs the queue in `run` and
    `compute`: for a commit (`Machine._commit`), if a batch may be full, before a statement, or if a question needs it.

    secret: the key of its tie hashes, empty in tests only. gathers: keeps all rows pending, and makes no QI groups.
    """

    def __init__(
        self, table: Table, shard: int = 0, shards: int = 1, secret: bytes = b"", gathers: bool = False
    ) -> None:
        self.table, self.shard, self.shards = table, shard, shards
        in_core = all_pending(table) if gathers else table
        self._core = CoreArrays(in_core)
        self.rows = Rows(in_core, self._core)
        self._queue, self._secret = OperationQueue(self.rows, self._core, secret), secret
        self._statement_ids, self._known_statements = deque[str](), set[str]()
        self._new_statements: list[str] = []
        self._last_changes = LastChanges()
        self._row_changes: list[changes.RowChange] | None = None if table.sealed is None else []
        self.at = 0  # the time of the message whose change is applied next, as in `RowChange`
        self._values_bytes_max = values_bytes_max(table)
        self._rows_published_max = 0
        self._rows_min = model_of(table).rows_min
        self._lossy_join_cells = LossyJoinCells(table.space.d) if table.form == LOSSY_JOIN else None

    @classmethod
    def load(
        cls, table: Table, shard: int, shards: int, kept: StoredTable, secret: bytes = b"", gathers: bool = False
    ) -> Engine:
        """The engine as it was when `kept` was committed, with the same secret."""
        engine = cls(table, shard, shards, secret, gathers)
        loading.load_stored(engine.rows, engine._core, secret, kept)
        engine._remember(kept.statement_ids)
        engine._last_changes.load(kept.last_changes)
        if engine._lossy_join_cells is not None:
            engine._lossy_join_cells.begin(*engine.rows.published_cells())
        return engine

    def load_initial(
        self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Iterable[Ints]
    ) -> None:
        """Fills an empty shard with rows in given QI groups (arrays of row numbers); rows in none are pending.

        Raises ConfigError if a group does not hold the model or a row is too large, and then changes nothing.
        """
        try:
            for values in {row.values for row in rows}:
                self._check_size(values)
        except EventRefused as error:
            raise ConfigError(f"initial load: {error}") from None
        groups = list(qi_groups)
        loading.check_groups(self.table, rows, groups)
        self.run()
        loading.load_groups(self.rows, self._core, self._secret, source_keys, rows, groups)
        self._rows_published_max = self._core.field("rows_published_max")

    @property
    def arrays(self) -> Shard:
        """The core's arrays, to look at: valid until the next change."""
        return self._core.arrays

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_pending(self) -> int:
        self.run()
        return self._core.field("n_pending")

    @property
    def n_qi_groups(self) -> int:
        self.run()
        return self._core.field("n_groups")

    @property
    def published(self) -> Published:
        """What readers have; looks at each QI group once."""
        self.run()
        rows, ncp = replacing.published_by(self.table.space, self._core)
        return Published(rows, self.n_rows - self.n_pending - rows, self.table.space.mean_loss(ncp, rows))

    @property
    def withheld(self) -> frozenset[int]:
        """The QI groups that are wider than `coarsest` allows; looks at each once, if there may be any."""
        self.run()
        if not self.table.space.is_bounded:
            return frozenset()
        numbers, lo, hi, _ = replacing.boxes_of(self._core)
        return frozenset(numbers[self.table.space.too_wide(lo, hi)].tolist())

    @property
    def rows_published_max(self) -> int:
        """Upper bound of the records that `drain` will publish."""
        self.run()
        return self._rows_published_max

    @property
    def is_nearly_full(self) -> bool:
        """True if the next changes may raise that bound to the most that one transaction should publish."""
        queued = QUEUED_RECORDS_PER_K * self._rows_min * len(self._queue)
        return self._rows_published_max + queued >= self.table.limits.transaction_rows_max

    def index_table(self) -> Iterable[tuple[str, int]]:
        """(source key, QI group or PENDING) of every row; private (Song et al. 2009, definition 4)."""
        self.run()
        numbers = self.rows.qi_groups(self.rows.in_core["group"][self.rows.indexes()])
        return zip(self.rows.index_of, numbers.tolist(), strict=True)

    def rows_of(self, source_keys: Sequence[str]) -> list[Row]:
        """The rows with some source keys, in their order. Raises KeyError if there is no such row."""
        return [self.rows.row(self.rows.index_of[source_key]) for source_key in source_keys]

    def source_rows(self) -> tuple[list[str], Ints]:
        """Source keys and codes (n, d) of all rows, in no particular order, for a full re-anonymization."""
        self.run()
        return list(self.rows.index_of), self.rows.view().codes

    # -- what a change does to rows ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the queue: compiled code, which lets other threads compute."""
        if self._queue.run():
            self._rows_published_max = self._core.field("rows_published_max")

    def apply(self, change: Change) -> Outcome:
        """Applies one change and repairs what it broke.

        Raises EventRefused (`key-exists`, `key-unknown`, `individual-changed`, `statement-too-large`,
        `truncate-one-shard`, `row-too-large`), and then changes nothing.
        """
        if type(change) is changes.Upsert and change.is_read:
            if self._is_old(change):
                return OLD_READ
            if change.position is not None:
                self._last_changes.seen(change.position)
            return self._applied(change)
        outcome = self._applied(change)
        self._date(change)
        return outcome

    def _is_old(self, read: changes.Upsert) -> bool:
        if read.position is None:
            return False
        row, is_there = tie_hash(self._secret, read.source_key), read.source_key in self.rows.index_of
        return self._last_changes.is_older(row, read.position, is_there=is_there)

    def _date(self, change: Change) -> None:
        """Notes when rows were changed, if that is known. The rows of a statement are noted where it finds them."""
        position = getattr(change, "position", None)
        if position is None and self._last_changes.last is None:
            return
        if isinstance(change, changes.Truncate):
            self._last_changes.truncate(position)
        elif not isinstance(change, changes.Statement | changes.Nothing):
            former = change.former_key if isinstance(change, changes.Upsert) else None
            for source_key in (change.source_key,) if former is None else (former, change.source_key):
                self._last_changes.add(tie_hash(self._secret, source_key), position)

    def _applied(self, change: Change) -> Outcome:
        match change:
            case changes.Insert():
                self._insert(change.source_key, change.row)
            case changes.Delete():
                self._take_out([self._index(change.source_key)])
            case changes.Modify():
                self._modify(change)
            case changes.Upsert():
                return self._upsert(change)
            case changes.Remove():
                index = self.rows.index_of.get(change.source_key)
                if index is None:
                    return self._missed(change, IGNORED) if change.was_there else IGNORED
                self._take_out([index])
                return EXPLAINS if change.position is None else APPLIED
            case changes.DeleteWhere() | changes.ModifyWhere() | changes.Truncate():
                return self._statement(change)
            case changes.Nothing():
                return IGNORED
        return APPLIED

    def _index(self, source_key: str) -> int:
        index = self.rows.index_of.get(source_key)
        if index is None:
            other = f", but one with {_RESPELT}" if self._is_respelt(source_key) else ""
            raise EventRefused("key-unknown", f"there is no row with this key{other}")
        return index

    def _insert(self, source_key: str, row: Row) -> None:
        if source_key in self.rows.index_of:
            raise EventRefused("key-exists", "there is a row with this key already")
        self._check_size(row.values)
        self._tell(source_key, None, row)
        self._queue.add(layout.INSERT, self.rows.add(source_key, row), row)
        self._queue.end()

    def _modify(self, change: changes.Modify) -> None:
        index = self._index(change.source_key)
        row = self.rows.row(index)
        if change.individual is not None and change.individual != row.individual:
            raise EventRefused(
                "individual-changed", "a modify may not change the individual: delete the row and insert it again"
            )
        exact = {self.table.stepless.index(j): text for j, text in change.exact.items()}
        changed = Patch(dict(change.codes), exact, dict(change.values), {*change.nulls}).on(row)
        self._check_size(changed.values)
        self._rewrite([(index, row, changed)])

    def _check_size(self, values: Values) -> None:
        """Refuses a row that Kafka would reject, before anything changes: later the shard could not go on."""
        if sum(map(len, values)) > self._values_bytes_max:
            raise EventRefused(
                "row-too-large",
                f"its published values would have more than {self._values_bytes_max} bytes, the most that "
                "limits.row_bytes_max leaves to those of a row (under `form: groups` 2k rows share one message)",
            )

    def _upsert(self, change: changes.Upsert) -> Outcome:
        self._check_size(change.row.values)
        found = not change.was_there
        if change.former_key is not None and change.former_key != change.source_key:
            former = self.rows.index_of.get(change.former_key)
            if former is not None:
                self._take_out([former])
                found = True
        index = self.rows.index_of.get(change.source_key)
        came_again = index is not None and not change.was_there
        found = found or index is not None
        row = None if index is None else self.rows.row(index)
        if index is not None and row is not None and row.individual == change.row.individual:
            self._rewrite([(index, row, change.row)])
        else:
            if index is not None:
                self._take_out([index])
            self._insert(change.source_key, change.row)
        if not found:
            return self._missed(change, APPLIED)
        return EXPLAINS if came_again else APPLIED

    def _missed(self, change: changes.Upsert | changes.Remove, outcome: Outcome) -> Outcome:
        """The outcome of a change whose row is not there, unless the same or a later one has come before."""
        if self._last_changes.is_repeated(tie_hash(self._secret, change.source_key), change.position):
            return outcome
        return Outcome(outcome.applied, unknown_key=True, respelt_key=self._is_respelt(change.source_key))

    def _is_respelt(self, source_key: str) -> bool:
        """True if there is a row whose key is the same in another spelling; some look-ups, no scan."""
        others = other_spellings_of_key(source_key, len(self.table.source_key))
        return any(other in self.rows.index_of for other in others)

    # -- statements -----------------------------------------------------------------------------------------------

    def _statement(self, change: changes.Statement) -> Outcome:
        if change.statement_id is not None and change.statement_id in self._known_statements:
            return IGNORED
        self.run()
        outcome = APPLIED
        match change:
            case changes.Truncate():
                self._truncate(change)
            case changes.DeleteWhere():
                self._take_out(self._selected(change))
            case changes.ModifyWhere():
                outcome = self._modify_where(change)
        if change.statement_id is not None:
            self._remember([change.statement_id])
            self._new_statements.append(change.statement_id)
        return outcome

    def _truncate(self, change: changes.Truncate) -> None:
        if change.whole_table_only and self.shards > 1:
            raise EventRefused(
                "truncate-one-shard",
                f"the truncation reached only one of {self.shards} shards, and removes nothing: pause the connector, "
                "`streamer produce --truncate` removes the rows of all shards, resume it, and signal an incremental "
                "snapshot, so that the rows which the source has now come again; then `streamer dead-letters retry "
                "--reason truncate-one-shard` closes this letter",
            )
        self._queue.add(layout.DISSOLVE)
        self._take_out(self.rows.in_tie_order().tolist())

    def _modify_where(self, change: changes.ModifyWhere) -> Outcome:
        changed: list[tuple[int, Row, Row]] = []
        left_unchanged = 0
        selected = self._selected(change)
        for index, before in zip(selected, self.rows.at(selected), strict=True):
            try:
                row = change.assignments.applied_to(before)
                self._check_size(row.values)
                changed.append((index, before, row))
            except EventRefused:
                left_unchanged += 1
        self._rewrite(changed)
        return Outcome(applied=True, left_unchanged=left_unchanged)

    def _selected(self, change: changes.DeleteWhere | changes.ModifyWhere) -> list[int]:
        """Indexes of the rows that satisfy the condition, in the order of their tie hashes."""
        view = self.rows.view()
        if not len(view.indexes):
            return []
        indexes = view.indexes[change.condition.matches(view)]
        if len(indexes) > self.table.limits.statement_rows_max:
            raise EventRefused(
                "statement-too-large",
                f"the statement touches more than {self.table.limits.statement_rows_max} rows of this shard "
                "(limits.statement_rows_max)",
            )
        tie_hashes = self.rows.in_core["tie_hash"][indexes]
        if self._last_changes.last is not None:
            for row in sorted(tie_hashes.tolist()):
                self._last_changes.add(row, None)
        in_order: list[int] = indexes[tie_hashes.argsort()].tolist()
        return in_order

    def _remember(self, statement_ids: Iterable[str]) -> None:
        for statement_id in statement_ids:
            self._statement_ids.append(statement_id)
            self._known_statements.add(statement_id)
        while len(self._statement_ids) > STATEMENT_IDS_MAX:
            self._known_statements.discard(self._statement_ids.popleft())

    # -- rows leave, rows change ----------------------------------------------------------------------------------

    def _take_out(self, indexes: Sequence[int]) -> None:
        """Deletes rows, then recomputes boxes and repairs (Song et al. 2009, algorithm DEL)."""
        for index in indexes:
            if self._row_changes is not None:
                self._tell(self.rows.source_keys[index], self.rows.row(index).values, None)
            self._queue.add(layout.TAKE, index)
            self.rows.remove(index)
        self._queue.end()

    def _rewrite(self, changed: Sequence[tuple[int, Row, Row]]) -> None:
        """Gives rows (index, before, after) new contents and moves those that left their box (algorithm MOD)."""
        for index, before, row in changed:
            if row != before:
                if self._row_changes is not None:
                    self._tell(self.rows.source_keys[index], before.values, row)
                self.rows.give(index, row)
                self._queue.add(layout.REWRITE, index, row)
        self._queue.end()

    def _tell(self, source_key: str, before: Values | None, row: Row | None) -> None:
        """Notes a change of a row for the sealed changelog, if there is one: one by one, not netted."""
        if self._row_changes is not None:
            self._row_changes.append(changes.RowChange(source_key, before, row, self.at))

    # -- regions --------------------------------------------------------------------------------------------------

    def regions(self, turn: int, rows_max: int | None = None) -> list[tuple[int, ...]]:
        """The QI groups, by number, cut into regions (`engine.replacing`).

        turn: the number of the rebuild. rows_max: of a region, by default as many as one transaction should publish.
        """
        self.run()
        numbers, lo, hi, sizes = replacing.boxes_of(self._core)
        most = self.table.limits.transaction_rows_max if rows_max is None else rows_max
        return [tuple(numbers[some].tolist()) for some in replacing.cut_regions(lo, hi, sizes, most, turn)]

    def region(self, numbers: Sequence[int]) -> Region:
        """QI groups with their rows, as they are now, without those that are gone."""
        self.run()
        return replacing.region_of(self.table, self.rows, self._core, numbers)

    def replace(self, region: Region, groups: Sequence[Ints]) -> Replaced | None:
        """Replaces a region's QI groups by others (arrays of numbers of its rows), as one event.

        Returns None if the region has changed. Raises LawViolated if the groups are not all of the region's rows, once
        each, or one does not hold the model. In both cases nothing has changed.
        """
        self.run()
        planned = replacing.replacement(self.table, self.rows, self._core, region, groups)
        if planned is None:
            return None
        operations, replaced = planned
        self._run_on_groups(operations)
        return replaced

    def renew(self) -> int:
        """Gives every QI group the box that this version gives it; returns their number.

        For a table that an older version of the engine kept. The members stay. Raises LawViolated.
        """
        self.run()
        operations = replacing.renewal(self._core)
        self._run_on_groups(operations)
        return len(operations)

    def _run_on_groups(self, operations: Records) -> None:
        """Runs operations that name QI groups and bring no cells."""
        self._core.run(operations, np.zeros((len(operations), self.table.space.d), dtype=np.int32))
        self._rows_published_max = self._core.field("rows_published_max")

    # -- net effect -----------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """The compiled part of `drain`, which lets other threads compute. Raises LawViolated."""
        self._queue.drain()

    def drain(self) -> Drained:
        """The net effect since the last drain. Checks every touched QI group and raises LawViolated."""
        self.compute()
        drained = net_effect(self.rows, self._core, self._queue.take_gone(), self._new_statements)
        self._core.mark_read()
        if self._lossy_join_cells is not None:
            seen = self._lossy_join_cells.completed(drained.published, drained.qi_groups, self.rows.cells_of_keys)
            drained = replace(drained, published=seen)
        self.rows.take_back()
        if self._row_changes is not None:
            drained, self._row_changes = replace(drained, row_changes=self._row_changes), []
        drained = replace(drained, last_changes=self._last_changes.take_new())
        self._new_statements, self._rows_published_max = [], 0
        return drained
