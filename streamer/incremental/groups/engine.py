"""The incremental algorithms of Song et al. 2009 over one shard: the one door to its k-anonymous table.

The rules of this file
----------------------
* One door: `apply(change)`. A change that cannot be applied raises `EventRefused` and leaves everything as it was. All
  else that can go wrong is a bug and raises `LawViolated`.
* Every change is applied and repaired by itself, so the state after n changes depends on their sequence alone, never on
  how they were cut into batches. `drain()` only nets: it returns the difference between now and the drain before.
* INSERT: the row joins the QI group of highest T-QGSSD. DELETE: all rows of the statement leave first, boxes are
  recomputed from the members (`shrink: false` keeps them), then groups below k merge. MODIFY: a row whose new values
  lie in its own group's box stays; else it leaves and joins the best group by the boxes and member counts as they then
  stand (its old group is eligible; boxes only grow meanwhile, no group dissolves); at the end boxes are recomputed,
  empty groups dissolve, merges follow, then splits. The rows of a statement leave and move in the order of their lots.
* A change of sensitive values alone rewrites published values in place and relocates nothing. One within the row's own
  cells publishes nothing at all.
* `secret` keys the lots (`streamer.incremental.groups.lots`). It comes in as a value, and never leaves.
* The moves themselves are in `streamer.incremental.groups.upkeep`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Nothing,
    Remove,
    Truncate,
    Upsert,
)
from streamer.incremental.groups.kept import PENDING, STATEMENT_IDS_MAX, KeptTable
from streamer.incremental.groups.net_effect import Drained, net_effect
from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.groups.upkeep import Upkeep
from streamer.table.arrays import Ints
from streamer.table.published import frame_bytes
from streamer.table.row import Row
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change: applied, or ignored; left_unchanged: rows whose result would have been invalid.

    unknown_key: it should have found a row, and did not.
    """

    applied: bool
    left_unchanged: int = 0
    unknown_key: bool = False


APPLIED, IGNORED = Outcome(applied=True), Outcome(applied=False)


class Engine:
    """The k-anonymous table of one shard, in memory; secret: what its lots are drawn by, empty in tests only."""

    def __init__(self, table: Table, shard: int = 0, shards: int = 1, secret: bytes = b"") -> None:
        self.table = table
        self.shard = shard
        self.shards = shards
        self._upkeep = Upkeep(table, secret)
        self._rows = self._upkeep.rows
        self._statement_ids: deque[str] = deque()
        self._known_statements: set[str] = set()
        self._values_bytes_max = table.limits.row_bytes_max - frame_bytes(table)

    @classmethod
    def load(cls, table: Table, shard: int, shards: int, kept: KeptTable, secret: bytes = b"") -> Engine:
        """The engine as it was when `kept` was committed; secret: the one that it had then."""
        engine = cls(table, shard, shards, secret)
        upkeep = engine._upkeep
        upkeep.qi_group_next = kept.qi_group_next
        source_keys: list[str] = []
        rows: list[Row] = []
        numbers: list[int] = []
        for source_key, record in kept.records:
            source_keys.append(source_key)
            rows.append(record.row)
            numbers.append(record.qi_group)
        codes = np.array([row.codes for row in rows], dtype=np.int64).reshape(len(rows), table.space.d)
        upkeep.rows.add_many(source_keys, rows, codes, numbers)
        for number, state in kept.qi_groups.items():
            members = [upkeep.rows.place_of[source_key] for source_key in state.members]
            lo, hi = np.array(state.lo, dtype=np.int64), np.array(state.hi, dtype=np.int64)
            upkeep.restore(number, lo, hi, members, list(state.slots))
        upkeep.lists.restore(kept.similarity)
        engine._remember(kept.statement_ids)
        return engine

    def load_initial(
        self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Iterable[Ints]
    ) -> None:
        """Fills an empty shard with rows in given QI groups (arrays of row numbers); rows in none are pending.

        Raises ConfigError where a group does not hold the model or a row is too large: nothing has changed then.
        """
        self._check_initial_sizes(rows)
        groups = [members.tolist() for members in qi_groups]
        for i, members in enumerate(groups, start=1):
            size = len(members) if self.table.individual is None else len({rows[m].individual for m in members})
            if size < self.table.k:
                raise ConfigError(f"initial load: QI group {i} has {size} of the k = {self.table.k} it needs")
        self._rows.add_many(source_keys, rows, codes, [PENDING] * len(rows))
        self._upkeep.journal.source_keys.update(source_keys)
        for members in groups:
            self._upkeep.form(self._upkeep.new_number(), members)

    def _check_initial_sizes(self, rows: Sequence[Row]) -> None:
        try:
            for row in rows:
                self._check_size(row)
        except EventRefused as refusal:
            raise ConfigError(f"initial load: {refusal}") from None

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    @property
    def n_pending(self) -> int:
        return self._rows.n_pending

    @property
    def n_qi_groups(self) -> int:
        return len(self._upkeep.groups)

    @property
    def rows_published_max(self) -> int:
        """Upper bound of the records that `drain` will publish."""
        return self._upkeep.journal.rows_published_max

    def index_table(self) -> Iterable[tuple[str, int]]:
        """(source key, QI group or PENDING) of every row; private (Song et al. 2009, definition 4)."""
        return ((source_key, self._rows.qi_group[place]) for source_key, place in self._rows.place_of.items())

    def source_rows(self) -> tuple[list[str], Ints]:
        """Source keys and codes (n, d) of all rows, in no particular order: what a full re-anonymization reads."""
        view = self._rows.view()
        return list(self._rows.place_of), view.codes

    @property
    def similarity_writes(self) -> int:
        """Entries of similarity lists changed so far."""
        return self._upkeep.lists.writes

    # -- the one door ---------------------------------------------------------------------------------------------

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
        self._check_size(row)
        upkeep = self._upkeep
        place = self._rows.add(source_key, row, np.array(row.codes, dtype=np.int64))
        upkeep.journal.source_keys.add(source_key)
        if upkeep.groups:
            upkeep.repair(gained=[upkeep.join(place)])
        else:
            upkeep.form_pending()

    def _modify(self, change: Modify) -> None:
        place = self._place(change.source_key)
        row = self._rows.rows[place]
        if change.individual is not None and change.individual != row.individual:
            raise EventRefused("individual-changed", "a modify may not change the individual: delete and insert say it")
        codes = list(row.codes)
        for j, code in change.codes.items():
            codes[j] = code
        exact = tuple(change.exact.get(j, text) for j, text in zip(self.table.stepless, row.exact, strict=True))
        values = tuple(change.values.get(i, value) for i, value in enumerate(row.values))
        changed = Row(tuple(codes), values, exact, row.individual)
        self._check_size(changed)
        self._rewrite([(place, changed)])

    def _check_size(self, row: Row) -> None:
        """A row that Kafka would not take is refused before anything changes: later, its shard could not go on."""
        if sum(map(len, row.values)) > self._values_bytes_max:
            raise EventRefused(
                "row-too-large",
                f"the published row would have more than {self.table.limits.row_bytes_max} bytes "
                "(limits.row_bytes_max)",
            )

    def _upsert(self, change: Upsert) -> Outcome:
        self._check_size(change.row)
        found = not change.was_there
        if change.former_key is not None and change.former_key != change.source_key:
            former = self._rows.place_of.get(change.former_key)
            if former is not None:
                self._take_out([former])
                found = True
        place = self._rows.place_of.get(change.source_key)
        found = found or place is not None
        if place is not None and self._rows.rows[place].individual != change.row.individual:
            self._take_out([place])
            place = None
        if place is None:
            self._insert(change.source_key, change.row)
        else:
            self._rewrite([(place, change.row)])
        return APPLIED if found else Outcome(applied=True, unknown_key=True)

    # -- statements -----------------------------------------------------------------------------------------------

    def _statement(self, change: DeleteWhere | ModifyWhere | Truncate) -> Outcome:
        if change.statement_id is not None and change.statement_id in self._known_statements:
            return IGNORED
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
            self._upkeep.journal.statement_ids.append(change.statement_id)
        return outcome

    def _truncate(self, change: Truncate) -> None:
        if change.whole_table_only and self.shards > 1:
            raise EventRefused(
                "truncate-one-shard",
                f"a truncate reached one of {self.shards} shards only; `streamer produce --truncate` reaches all",
            )
        for group in list(self._upkeep.groups.values()):
            self._upkeep.dissolve(group)
        self._take_out(list(self._rows.place_of.values()))

    def _modify_where(self, change: ModifyWhere) -> Outcome:
        changed: list[tuple[int, Row]] = []
        left_unchanged = 0
        for place in self._selected(change):
            try:
                row = change.assignments.applied_to(self._rows.rows[place])
                self._check_size(row)
                changed.append((place, row))
            except EventRefused:
                left_unchanged += 1
        self._rewrite(changed)
        return Outcome(applied=True, left_unchanged=left_unchanged)

    def _selected(self, change: DeleteWhere | ModifyWhere) -> list[int]:
        """Places of the rows that satisfy the condition, in the order of their lots."""
        view = self._rows.view()
        if not view.places:
            return []
        places = np.array(view.places, dtype=np.int64)[change.condition.matches(view)]
        if len(places) > self.table.limits.statement_rows_max:
            raise EventRefused(
                "statement-too-large",
                f"the statement touches more than {self.table.limits.statement_rows_max} rows of this shard "
                "(limits.statement_rows_max)",
            )
        in_order: list[int] = places[self._upkeep.lots(places.tolist()).argsort()].tolist()
        return in_order

    def _remember(self, statement_ids: Iterable[str]) -> None:
        for statement_id in statement_ids:
            self._statement_ids.append(statement_id)
            self._known_statements.add(statement_id)
        while len(self._statement_ids) > STATEMENT_IDS_MAX:
            self._known_statements.discard(self._statement_ids.popleft())

    # -- rows leave, rows change ----------------------------------------------------------------------------------

    def _take_out(self, places: Iterable[int]) -> None:
        """Deletes rows, then recomputes boxes and repairs (Song et al. 2009, algorithm DEL)."""
        upkeep = self._upkeep
        left: dict[int, QIGroup] = {}
        for place in places:
            upkeep.journal.source_keys.add(self._rows.source_keys[place])
            group = upkeep.leave(place)
            if group is not None:
                left[group.number] = group
            self._rows.remove(place)
        if self.table.shrink:
            upkeep.recompute(left.values())
        upkeep.repair(lost=left.values())

    def _rewrite(self, changed: Sequence[tuple[int, Row]]) -> None:
        """Gives rows new contents and moves those that left their box (Song et al. 2009, algorithm MOD)."""
        gained: dict[int, QIGroup] = {}
        unsettled: dict[int, QIGroup] = {}
        for place, row in changed:
            if row != self._rows.rows[place]:
                self._rewrite_row(place, row, gained, unsettled)
        self._upkeep.recompute(unsettled.values())
        self._upkeep.repair(gained.values(), lost=unsettled.values())

    def _rewrite_row(self, place: int, row: Row, gained: dict[int, QIGroup], unsettled: dict[int, QIGroup]) -> None:
        upkeep, rows = self._upkeep, self._rows
        before = rows.rows[place]
        codes = np.array(row.codes, dtype=np.int64)
        cells = upkeep.space.cells(codes)
        moves = bool((cells != rows.cells[place]).any())
        upkeep.journal.source_keys.add(rows.source_keys[place])
        group = upkeep.groups.get(rows.qi_group[place])
        if group is None or not (moves or row.values != before.values):  # pending, or nothing that anybody sees
            rows.rewrite(place, row, codes)
        elif not moves or group.contains(cells):
            upkeep.journal.group(group)
            rows.rewrite(place, row, codes)
            group.change_values(before.values, row.values)
            if moves:
                unsettled[group.number] = group
        else:
            upkeep.leave(place)
            unsettled[group.number] = group
            rows.rewrite(place, row, codes)
            joined = upkeep.join(place)
            gained[joined.number] = joined

    # -- net effect -----------------------------------------------------------------------------------------------

    def drain(self) -> Drained:
        """Net effect since the drain before; checks every touched QI group and raises LawViolated."""
        return net_effect(self._upkeep)
