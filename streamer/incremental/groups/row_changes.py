"""What a change does to the rows of one shard: decided at once, from the index table alone, or refused.

The rules of this file
----------------------
* A change that cannot be applied raises `EventRefused` and leaves everything as it was: what may refuse it is asked
  before the first row is touched.
* What a change does to QI groups is queued as operations; the last one says that the change is complete, and behind it
  the compiled core repairs what it broke (`run`, `streamer.incremental.core.step`).
* A statement selects rows by what the core knows of them, too: what is queued runs before it. Its rows leave and move
  in the order of their lots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from streamer.errors import EventRefused
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
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.kept import STATEMENT_IDS_MAX
from streamer.incremental.groups.outcome import APPLIED, IGNORED, Outcome
from streamer.incremental.groups.queue import Queue
from streamer.incremental.groups.rows import Rows
from streamer.table.published_size import values_bytes_max
from streamer.table.row import Row, Values
from streamer.table.schema import Table


class RowChanges:
    """The rows of one shard, and what is still to be done for them; secret: what their lots are drawn by."""

    def __init__(self, table: Table, shards: int, secret: bytes, gathers: bool) -> None:
        self.table, self.shards = table, shards
        in_core = all_pending(table) if gathers else table  # one that gathers rows makes no QI group of them
        self._held = Held(in_core)
        self._rows = Rows(in_core, self._held)
        self._queue = Queue(self._rows, self._held, secret)
        self._statement_ids, self._known_statements = deque[str](), set[str]()
        self._new_statements: list[str] = []
        self._values_bytes_max = values_bytes_max(table)
        self._rows_published_max = 0

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
