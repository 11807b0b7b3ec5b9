"""The incremental algorithms of Song et al. 2009 over one shard: the one door to its k-anonymous table.

The rules of this file
----------------------
* One door: `apply(change)`. A change that cannot be applied raises `EventRefused` and leaves everything as it was. All
  else that can go wrong is a bug and raises `LawViolated`. Beside it a rebuild replaces QI groups, region by region, by
  others of the same rows (`streamer.incremental.groups.replacing`).
* What a change does to the rows is decided at once, from the index table alone, or refused; what may refuse it is asked
  before the first row is touched. What it does to QI groups is queued as operations, which the compiled core runs many
  at a time (`run`, `streamer.incremental.core.step`); the last one says that the change is complete. A statement
  selects rows by what the core knows of them, too: what is queued runs before it. Whoever asks about QI groups sees
  them as of the last change.
* Every change is applied and repaired by itself, so the state after n changes depends on their sequence alone, never on
  how they were cut into batches. `drain()` only nets: it returns the difference between now and the drain before.
* INSERT: the row joins the QI group of highest T-QGSSD. DELETE: all rows of the statement leave first, boxes are
  recomputed from the members (`shrink: false` keeps them), then broken groups merge. MODIFY: a row whose new values
  lie in its own group's box stays; else it leaves and joins the best group by the boxes and member counts as they then
  stand (its old group is eligible; boxes only grow meanwhile, no group dissolves); at the end boxes are recomputed,
  empty groups dissolve, merges follow, then splits. The rows of a statement leave and move in the order of their lots.
* With a price on published rows (`engine: {repair: ...}`) rows change QI groups beside that, within the change, where
  it saves enough: `streamer.incremental.core.local_repair` says when.
* A change of sensitive values alone rewrites published values in place and relocates nothing, unless it breaks the
  model (`streamer.incremental.core.model`). One within the row's own cells publishes nothing at all.
* `secret` keys the lots (`streamer.incremental.groups.lots`). It comes in as a value, and never leaves.
* What is published says nothing but values: every order that decides something is one of these.
  - By cells, boxes, published values and counts: which QI group a row joins, which ones merge, where a group is cut,
    slots when a group is formed, which slot a removed or changed value frees; of local repair, which row a group takes,
    which one it gives away and to whom, which group dissolves, and in which order its rows leave.
  - By numbers of QI groups, which are public: ties of the similarities, which broken group is repaired and which large
    one is cut first, which freed number is used again, which touched group local repair looks at first, in which order
    records are published.
  - By lot: which of the rows in the same cells fall on which side of a cut, which of two equal halves keeps the number,
    in which order the rows of a statement leave and move, which of them local repair moves first. The order of members,
    of pending rows and of rows as a store hands them out decides nothing.
  - By the sequence of messages: which number is given next, which slot an insertion takes.
  - By the operator: the order of the groups that an initial table names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.core.record_types import DISSOLVE, INSERT, REWRITE, TAKE
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Nothing,
    Remove,
    Statement,
    Truncate,
    Upsert,
)
from streamer.incremental.groups.all_pending import all_pending
from streamer.incremental.groups.cells_seen import CellsSeen
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.kept import STATEMENT_IDS_MAX, KeptTable
from streamer.incremental.groups.loading import check_groups, load_groups, load_stored
from streamer.incremental.groups.net_effect import Drained, net_effect
from streamer.incremental.groups.outcome import APPLIED, IGNORED, Outcome
from streamer.incremental.groups.queue import Queue
from streamer.incremental.groups.regions import cut_regions
from streamer.incremental.groups.replacing import Region, Replaced, boxes_of, loss_of, region_of, replacement
from streamer.incremental.groups.rows import Rows
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.published_size import values_bytes_max
from streamer.table.row import Row, Values
from streamer.table.schema import LOSSY_JOIN, Table

QUEUED_RECORDS_PER_K = 4
"""Records that an operation publishes, as multiples of the rows of the smallest group, where it merges nothing and
groups are cut as soon as their rows suffice for two: a group is cut in two."""


class Engine:
    """The k-anonymous table of one shard, in memory; secret: what its lots are drawn by, empty in tests only."""

    def __init__(
        self, table: Table, shard: int = 0, shards: int = 1, secret: bytes = b"", gathers: bool = False
    ) -> None:
        self.table, self.shard, self.shards = table, shard, shards
        in_core = all_pending(table) if gathers else table  # one that gathers rows makes no QI group of them
        self._held = Held(in_core)
        self._rows = Rows(in_core, self._held)
        self._queue = Queue(self._rows, self._held, secret)
        self._statement_ids, self._known_statements = deque[str](), set[str]()
        self._new_statements: list[str] = []
        self._values_bytes_max = values_bytes_max(table)
        self._rows_published_max = 0
        self._rows_min = model_of(table).rows_min
        self._cells_seen = CellsSeen(table.space.d) if table.form == LOSSY_JOIN else None

    @classmethod
    def load(
        cls, table: Table, shard: int, shards: int, kept: KeptTable, secret: bytes = b"", gathers: bool = False
    ) -> Engine:
        """The engine as it was when `kept` was committed; secret: the one that it had then."""
        engine = cls(table, shard, shards, secret, gathers)
        load_stored(engine._rows, engine._held, engine._queue, kept)
        engine._remember(kept.statement_ids)
        if engine._cells_seen is not None:
            engine._cells_seen.begin(*engine._rows.published_cells())
        return engine

    def load_initial(
        self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Iterable[Ints]
    ) -> None:
        """Fills an empty shard with rows in given QI groups (arrays of row numbers); rows in none are pending.

        Raises ConfigError where a group does not hold the model or a row is too large: nothing has changed then.
        """
        self._check_initial_sizes(rows)
        groups = list(qi_groups)
        check_groups(self.table, rows, groups)
        self.run()
        load_groups(self._rows, self._held, self._queue, source_keys, rows, groups)
        self._rows_published_max = self._held.say("rows_published_max")

    def _check_initial_sizes(self, rows: Sequence[Row]) -> None:
        try:
            for values in {row.values for row in rows}:
                self._check_size(values)
        except EventRefused as refusal:
            raise ConfigError(f"initial load: {refusal}") from None

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    @property
    def n_pending(self) -> int:
        self.run()
        return self._held.say("n_pending")

    @property
    def n_qi_groups(self) -> int:
        self.run()
        return self._held.say("n_groups")

    @property
    def loss(self) -> float:
        """NCP times rows, summed over the QI groups: one look at each."""
        self.run()
        return loss_of(self._held)

    @property
    def rows_published_max(self) -> int:
        """Upper bound of the records that `drain` will publish."""
        self.run()
        return self._rows_published_max

    @property
    def is_nearly_full(self) -> bool:
        """Whether the next changes may bring that bound to the most that one transaction should publish."""
        queued = QUEUED_RECORDS_PER_K * self._rows_min * len(self._queue)
        return self._rows_published_max + queued >= self.table.limits.transaction_rows_max

    def index_table(self) -> Iterable[tuple[str, int]]:
        """(source key, QI group or PENDING) of every row; private (Song et al. 2009, definition 4)."""
        self.run()
        numbers = self._rows.qi_groups(self._rows.core["group"][self._rows.places()])
        return zip(self._rows.place_of, numbers.tolist(), strict=True)

    def source_rows(self) -> tuple[list[str], Ints]:
        """Source keys and codes (n, d) of all rows, in no particular order: what a full re-anonymization reads."""
        self.run()
        return list(self._rows.place_of), self._rows.view().codes

    # -- what a change does to rows ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs what is queued: compiled code, beside which others may compute."""
        if self._queue.run():
            self._rows_published_max = self._held.say("rows_published_max")

    def apply(self, change: Change) -> Outcome:
        """Applies one change and repairs what it broke.

        Raises EventRefused (`key-exists`, `key-unknown`, `individual-changed`, `statement-too-large`,
        `truncate-one-shard`, `row-too-large`), with nothing changed.
        """
        match change:
            case Insert():
                self._insert(change.source_key, change.row)
            case Delete():
                self._take_out([self._place(change.source_key)])
            case Modify():
                self._modify(change)
            case Upsert():
                return self._upsert(change)
            case Remove():
                place = self._rows.place_of.get(change.source_key)
                if place is None:
                    return Outcome(applied=False, unknown_key=change.was_there)
                self._take_out([place])
            case DeleteWhere() | ModifyWhere() | Truncate():
                return self._statement(change)
            case Nothing():
                return IGNORED
        return APPLIED

    def _place(self, source_key: str) -> int:
        place = self._rows.place_of.get(source_key)
        if place is None:
            raise EventRefused("key-unknown", "there is no row with this key")
        return place

    def _insert(self, source_key: str, row: Row) -> None:
        if source_key in self._rows.place_of:
            raise EventRefused("key-exists", "there is a row with this key already")
        self._check_size(row.values)
        self._queue.add(INSERT, self._rows.add(source_key, row), row)
        self._queue.end()

    def _modify(self, change: Modify) -> None:
        place = self._place(change.source_key)
        row = self._rows.row(place)
        if change.individual is not None and change.individual != row.individual:
            raise EventRefused("individual-changed", "a modify may not change the individual: delete and insert say it")
        codes = list(row.codes)
        for j, code in change.codes.items():
            codes[j] = code
        exact = tuple(change.exact.get(j, text) for j, text in zip(self.table.stepless, row.exact, strict=True))
        values = tuple(change.values.get(i, value) for i, value in enumerate(row.values))
        nulls = (*(j for j in row.nulls if j not in change.codes), *change.nulls)
        changed = Row(tuple(codes), values, exact, row.individual, tuple(sorted(nulls)))
        self._check_size(changed.values)
        self._rewrite([(place, changed)])

    def _check_size(self, values: Values) -> None:
        """A row that Kafka would not take is refused before anything changes: later, its shard could not go on."""
        if sum(map(len, values)) > self._values_bytes_max:
            raise EventRefused(
                "row-too-large",
                f"its published values would have more than {self._values_bytes_max} bytes, the most that "
                "limits.row_bytes_max leaves to those of a row (under `form: groups` 2k rows share one message)",
            )

    def _upsert(self, change: Upsert) -> Outcome:
        self._check_size(change.row.values)
        found = not change.was_there
        if change.former_key is not None and change.former_key != change.source_key:
            former = self._rows.place_of.get(change.former_key)
            if former is not None:
                self._take_out([former])
                found = True
        place = self._rows.place_of.get(change.source_key)
        found = found or place is not None
        if place is not None and self._rows.row(place).individual != change.row.individual:
            self._take_out([place])
            place = None
        if place is None:
            self._insert(change.source_key, change.row)
        else:
            self._rewrite([(place, change.row)])
        return APPLIED if found else Outcome(applied=True, unknown_key=True)

    # -- statements -----------------------------------------------------------------------------------------------

    def _statement(self, change: Statement) -> Outcome:
        if change.statement_id is not None and change.statement_id in self._known_statements:
            return IGNORED
        self.run()
        outcome = APPLIED
        match change:
            case Truncate():
                self._truncate(change)
            case DeleteWhere():
                self._take_out(self._selected(change))
            case ModifyWhere():
                outcome = self._modify_where(change)
        if change.statement_id is not None:
            self._remember([change.statement_id])
            self._new_statements.append(change.statement_id)
        return outcome

    def _truncate(self, change: Truncate) -> None:
        if change.whole_table_only and self.shards > 1:
            raise EventRefused("truncate-one-shard", f"a truncation was said to one of {self.shards} shards only")
        if not change.spared:
            self._queue.add(DISSOLVE)
        places = self._rows.places_but(change.spared) if change.spared else self._rows.places()
        self._take_out(places.tolist())

    def _modify_where(self, change: ModifyWhere) -> Outcome:
        changed: list[tuple[int, Row]] = []
        left_unchanged = 0
        for place in self._selected(change):
            try:
                row = change.assignments.applied_to(self._rows.row(place))
                self._check_size(row.values)
                changed.append((place, row))
            except EventRefused:
                left_unchanged += 1
        self._rewrite(changed)
        return Outcome(applied=True, left_unchanged=left_unchanged)

    def _selected(self, change: DeleteWhere | ModifyWhere) -> list[int]:
        """Places of the rows that satisfy the condition, in the order of their lots."""
        view = self._rows.view()
        if not len(view.places):
            return []
        places = view.places[change.condition.matches(view)]
        if len(places) > self.table.limits.statement_rows_max:
            raise EventRefused(
                "statement-too-large",
                f"the statement touches more than {self.table.limits.statement_rows_max} rows of this shard "
                "(limits.statement_rows_max)",
            )
        in_order: list[int] = places[self._rows.core["lot"][places].argsort()].tolist()
        return in_order

    def _remember(self, statement_ids: Iterable[str]) -> None:
        for statement_id in statement_ids:
            self._statement_ids.append(statement_id)
            self._known_statements.add(statement_id)
        while len(self._statement_ids) > STATEMENT_IDS_MAX:
            self._known_statements.discard(self._statement_ids.popleft())

    # -- rows leave, rows change ----------------------------------------------------------------------------------

    def _take_out(self, places: Sequence[int]) -> None:
        """Deletes rows, then recomputes boxes and repairs (Song et al. 2009, algorithm DEL)."""
        for place in places:
            self._queue.add(TAKE, place)
            self._rows.remove(place)
        self._queue.end()

    def _rewrite(self, changed: Sequence[tuple[int, Row]]) -> None:
        """Gives rows new contents and moves those that left their box (Song et al. 2009, algorithm MOD)."""
        for place, row in changed:
            if row != self._rows.row(place):
                self._rows.give(place, row)
                self._queue.add(REWRITE, place, row)
        self._queue.end()

    # -- regions --------------------------------------------------------------------------------------------------

    def regions(self, turn: int, rows_max: int | None = None) -> list[tuple[int, ...]]:
        """The QI groups, by number, cut into regions (`groups.regions`); turn: which rebuild it is.

        rows_max: of a region, by default as many as one transaction should publish.
        """
        self.run()
        numbers, lo, hi, sizes = boxes_of(self._held)
        most = self.table.limits.transaction_rows_max if rows_max is None else rows_max
        return [tuple(numbers[some].tolist()) for some in cut_regions(lo, hi, sizes, most, turn)]

    def region(self, numbers: Sequence[int]) -> Region:
        """QI groups with their rows, as they are now; those that are gone are left out."""
        self.run()
        return region_of(self.table, self._rows, self._held, numbers)

    def replace(self, region: Region, groups: Sequence[Ints]) -> Replaced | None:
        """Replaces a region's QI groups by others (arrays of numbers of its rows): one event between others.

        None where the region changed meanwhile. Raises LawViolated where the groups are not all of the region's rows,
        once each, or one does not hold the model. Nothing has changed in either case.
        """
        self.run()
        planned = replacement(self.table, self._rows, self._held, region, groups)
        if planned is None:
            return None
        operations, replaced = planned
        self._held.run(operations, np.zeros((len(operations), self.table.space.d), dtype=np.int32))
        self._rows_published_max = self._held.say("rows_published_max")
        return replaced

    # -- net effect -----------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """The part of `drain` that is compiled code, beside which others may compute. Raises LawViolated."""
        self._queue.drain()

    def drain(self) -> Drained:
        """Net effect since the drain before; checks every touched QI group and raises LawViolated."""
        self.compute()
        drained = net_effect(self._rows, self._held, self._queue.take_touched(), self._new_statements)
        self._held.taken()
        if self._cells_seen is not None:
            seen = self._cells_seen.completed(drained.published, drained.qi_groups, self._rows.cells_of_keys)
            drained = replace(drained, published=seen)
        self._rows.take_back()
        self._new_statements, self._rows_published_max = [], 0
        return drained
