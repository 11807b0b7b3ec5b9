"""The incremental algorithms of Song et al. 2009 over one shard: the one door to its k-anonymous table.

The rules of this file
----------------------
* One door: `apply(change)`. A change that cannot be applied raises `EventRefused` and leaves everything as it was. All
  else that can go wrong is a bug and raises `LawViolated`. Beside it a rebuild replaces QI groups, region by region, by
  others of the same rows (`streamer.incremental.engine.replacing`).
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
  empty groups dissolve, merges follow, then splits. The rows of a statement leave and move in the order of their tie_hashes.
* With a price on published rows (`engine: {repair: ...}`) rows change QI groups beside that, within the change, where
  it saves enough: `streamer.incremental.core.repair` says when.
* A change of sensitive values alone rewrites published values in index and relocates nothing, unless it breaks the
  model (`streamer.incremental.core.model`). One within the row's own cells publishes nothing at all.
* `secret` keys the tie_hashes (`streamer.incremental.engine.tie_break`). It comes in as a value, and never leaves.
* What is published says nothing but values: every order that decides something is one of these.
  - By cells, boxes, published values and counts: which QI group a row joins, which ones merge, where a group is cut,
    slots when a group is formed, which slot a removed or changed value frees; of local repair, which row a group takes,
    which one it gives away and to whom, which group dissolves, and in which order its rows leave.
  - By numbers of QI groups, which are public: ties of the similarities, which broken group is repaired and which large
    one is cut first, which freed number is used again, which touched group local repair looks at first, in which order
    records are published.
  - By tie_hash: which of the rows in the same cells fall on which side of a cut, which of two equal halves keeps the number,
    in which order the rows of a statement leave and move, which of them local repair moves first. The order of members,
    of pending rows and of rows as a store hands them out decides nothing.
  - By the sequence of messages: which number is given next, which slot an insertion takes.
  - By the operator: the order of the groups that an initial table names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from streamer.errors import ConfigError, Conflict, EventRefused
from streamer.incremental.core import capacity, layout
from streamer.incremental.core.layout import (
    DISSOLVE,
    FORM,
    GATHER,
    HI,
    INSERT,
    LO,
    LOAD,
    NO_GROUP_YET,
    NONE,
    OPERATION,
    REWRITE,
    TAKE,
    Records,
    Shard,
    records,
)
from streamer.incremental.core.model import tally_of
from streamer.incremental.core.moves import LEAST_BLOCK_BITS
from streamer.incremental.engine.constraints import count_demands, groups_that_hold
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.net_effect import CellsSeen, Drained, net_effect
from streamer.incremental.engine.replacing import (
    Region,
    Replaced,
    boxes_of,
    cut_regions,
    loss_of,
    region_of,
    replacement,
)
from streamer.incremental.engine.rows import Rows, array_of
from streamer.incremental.engine.stored_state import PENDING as NO_QI_GROUP
from streamer.incremental.engine.stored_state import (
    STATEMENT_IDS_MAX,
    QIGroupState,
    Record,
    StoredTable,
    indexes_of_numbers,
    refusal,
    stored_lists,
)
from streamer.incremental.engine.tie_break import tie_hash, tie_hashes
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
from streamer.privacy.models import SubjectCodes, model_of, subject_names
from streamer.table.arrays import Ints
from streamer.table.published.schemas import values_bytes_max
from streamer.table.row import Row, Values
from streamer.table.schema import LOSSY_JOIN, Table

# Operations on their way to the core: gathered change by change, run many at a time.


class OperationQueue:
    """What the core has still to do for one shard, and which source keys it was done for since the last drain."""

    def __init__(self, rows: Rows, core: CoreArrays, secret: bytes) -> None:
        self._rows = rows
        self._core = core
        self.secret = secret
        self._operations: list[tuple[int, int, int, int, int, int]] = []
        self._codes: list[tuple[int, ...]] = []
        self._at: list[int] = []
        self._touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, kind: int, index: int = NONE, row: Row | None = None) -> None:
        """An operation on a row; row: its contents afterwards, if they are written."""
        values = who = NONE
        drawn = 0
        if index != NONE:
            source_key = self._rows.source_keys[index]
            self._touched[source_key] = None
            if kind == INSERT:
                drawn = tie_hash(self.secret, source_key)
        if row is not None:
            values, who = self._rows.values.give(row.values), self._rows.who(row)
            self._codes.append(row.codes)
            self._at.append(len(self._operations))
        self._operations.append((drawn, kind, index, values, who, 0))

    def end(self) -> None:
        """A change is complete: what it broke is repaired behind its last operation."""
        if self._operations and self._operations[-1][5] == 0:
            self._operations[-1] = (*self._operations[-1][:5], 1)

    def run(self) -> bool:
        """Runs what there is. Raises LawViolated."""
        if not self._operations:
            return False
        self._core.run(*self._taken())
        return True

    def drain(self) -> None:
        """Runs what there is, and drains. Raises LawViolated."""
        if self._operations:
            self._core.drain(*self._taken())
        else:
            self._core.drain()

    def _taken(self) -> tuple[Records, Any]:
        """What there is as arrays; the rows are written, as far as they are not the core's."""
        self._rows.write()
        n, d = len(self._operations), self._rows.d
        operations = np.array(self._operations, dtype=OPERATION).view(np.recarray)
        cells = np.zeros((n, d), dtype=np.int32)
        if self._codes:
            cells[self._at] = self._rows.cells_of(np.array(self._codes, dtype=np.int64))
        self._operations, self._codes, self._at = [], [], []
        return operations, cells

    def take_touched(self) -> dict[str, None]:
        """Source keys of the rows that operations were run for; the next batch begins."""
        taken, self._touched = self._touched, {}
        return taken


# A table of which no QI group is ever made: its k is larger than any table, so all rows are pending.
#
# Where rows are only gathered, the very engine gathers them, with all its rules, and does none of the work on QI
# groups.

NEVER = 1 << 40
"""More rows than any shard has."""

ENDLESS = NEVER * NEVER
"""More records than a batch may publish where k is NEVER: else every message would be run by itself."""


def all_pending(table: Table) -> Table:
    """The same table as its core has to know it."""
    return replace(table, k=NEVER, limits=replace(table.limits, transaction_rows_max=ENDLESS))


# What became of a change that an engine took.


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change: applied, or ignored; left_unchanged: rows whose result would have been invalid.

    unknown_key: it should have found a row, and did not.
    """

    applied: bool
    left_unchanged: int = 0
    unknown_key: bool = False


APPLIED, IGNORED = Outcome(applied=True), Outcome(applied=False)


# How a shard's table gets into the core as a whole: as it was stored, or as an initial table in given QI groups.

ROWS_AT_ONCE, GROUPS_AT_ONCE = 10_000, 1_000
"""Stored rows, and QI groups with the source keys of their members, that are objects at the same time."""

NOT_ITS_ROWS = "a stored QI group has not the rows that name it, once each, as many as its values"


def check_groups(table: Table, rows: Sequence[Row], groups: Sequence[Ints]) -> None:
    """Raises ConfigError if one of the groups (arrays of row numbers) does not hold the table's model."""
    model = model_of(table)
    codes = SubjectCodes(table, model).of([row.values for row in rows], [row.individual for row in rows])
    members = np.concatenate([np.zeros(0, np.int64), *groups])
    qi_group = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    broken = np.flatnonzero(~model.holds_by_group(qi_group, len(groups), codes[members]))
    if len(broken):
        shortfall = model.shortfall(codes[groups[broken[0]]], subject_names(table, model))
        raise ConfigError(f"initial load: QI group {broken[0] + 1} does not hold the privacy model: {shortfall}")


def load_groups(
    rows: Rows,
    core: CoreArrays,
    queue: OperationQueue,
    source_keys: Sequence[str],
    given: Sequence[Row],
    groups: Sequence[Ints],
) -> None:
    """An initial table in given QI groups: arrays of row numbers, in an empty shard the same as indexes."""
    n = len(given)
    given_cells = rows.add_many(source_keys, given)
    rows.all_added()
    values, who = _numbers(rows, given)
    members = np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int32)
    ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
    operations = records(n + len(members) + len(groups), OPERATION)
    operations.index = NONE
    operations.kind[:n], operations.kind[n:] = LOAD, GATHER
    operations.index[:n], operations.tie_hash[:n] = np.arange(n), tie_hashes(queue.secret, source_keys)
    operations["values"][:n], operations.who[:n] = values, who
    forms = n + ends + np.arange(len(groups))
    operations.kind[forms] = FORM
    operations.index[np.delete(np.arange(n, len(operations)), forms - n)] = members
    cells = np.zeros((len(operations), rows.d), dtype=np.int32)
    cells[:n] = given_cells
    core.run(operations, cells)


def load_stored(rows: Rows, core: CoreArrays, queue: OperationQueue, kept: StoredTable) -> None:
    """A table as it was stored; rows, QI groups and similarity lists are read in this order, some at a time.

    Raises ShardRefused if they do not belong together: the core believes them, and would write where it must not.
    Conflict where one comes twice: nobody stores it so, it was read so.
    """
    numbers = _rows_into(rows, core, queue.secret, kept.records)
    names, sizes = _name_groups(core, numbers)
    core.arrays = _with_capacity(core.arrays, len(rows), sizes)
    _groups_into(rows, core, kept.qi_groups, names, sizes)
    if not names.max(initial=0) < kept.qi_group_next < 1 << 63:
        raise refusal("the next number of a QI group is none that is still to be given")
    core.arrays.state.qi_group_next = kept.qi_group_next
    lists = stored_lists(kept.similarity, names)
    core.arrays = capacity.with_capacity(core.arrays, layout.LISTS, len(lists.owners))
    core.restore(*lists)


def _with_capacity(s: Shard, n_rows: int, sizes: Ints) -> Shard:
    """Room for all of it at once, and some more."""
    pool = int((1 << _block_bits(sizes)).sum())
    for what, least in (
        (layout.GROUPS, len(sizes) + len(sizes) // 8 + 64),
        (layout.POOL, pool + pool // 8 + 64),
        (layout.MEMBERS, int(sizes.max(initial=0))),
        (layout.TALLIES, 3 * n_rows * int(s.state.tallied[0])),
    ):
        s = capacity.with_capacity(s, what, least)
    return s


def _block_bits(sizes: Ints) -> Ints:
    """The sizes of the blocks for so many rows each: the powers of two."""
    rooms: Ints = np.maximum(LEAST_BLOCK_BITS, np.ceil(np.log2(np.maximum(sizes, 1)))).astype(np.int64)
    return rooms


def _numbers(rows: Rows, given: Sequence[Row]) -> tuple[Ints, Ints]:
    """Numbers of the rows' values and individuals, int64, which the core knows afterwards."""
    values = rows.values.give_many([row.values for row in given])
    names = [row.individual for row in given]
    who = np.full(len(given), NONE)
    there = [i for i, name in enumerate(names) if name is not None]
    who[there] = rows.individuals.give_many([name for name in names if name is not None])
    rows.write_numbers()
    return values, who


def _rows_into(rows: Rows, core: CoreArrays, secret: bytes, stored: Iterable[tuple[str, Record]]) -> Ints:
    """Rows, some at a time, so that never all of them are objects; returns the numbers of their QI groups, (n,)."""
    stored, numbers, first = iter(stored), [np.zeros(0, np.int64)], 0
    while some := list(islice(stored, ROWS_AT_ONCE)):
        source_keys, given = [source_key for source_key, _ in some], [record.row for _, record in some]
        try:
            cells = rows.add_many(source_keys, given)
            numbers.append(array_of([(record.qi_group,) for _, record in some], 1)[:, 0])
        except ValueError:
            raise refusal("a row has too many or too few codes, or a number that is too large") from None
        if not rows.are_whole(given):
            raise refusal("a row has too many or too few values, or exact texts of decimals")
        if not rows.may_be_null(given):
            raise refusal("a row has a null in a column that takes none")
        try:
            values, who = _numbers(rows, given)
        except ValueError:
            raise refusal("a row has a value that its column cannot have") from None
        if rows.leave_domain(cells):
            raise refusal("a row leaves the domain of a column")
        if core.field("individuals") and (who == NONE).any():
            raise refusal("a row says no individual, and individuals are what is counted")
        these = slice(first, first + len(some))
        written = core.arrays.rows.row[these]
        core.arrays.rows.cells[these] = cells
        written.tie_hash, written["values"], written.who, written.touched = (
            tie_hashes(secret, source_keys),
            values,
            who,
            0,
        )
        first += len(some)
    try:
        rows.all_added()
    except ValueError:
        raise _twice("row") from None
    return np.concatenate(numbers)


def _name_groups(core: CoreArrays, numbers: Ints) -> tuple[Ints, Ints]:
    """Tells the core the QI groups of the rows, (n,) numbers: those that there are, ascending, and how many rows each
    has; where a group stands here is its index in the core."""
    names, at, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    n_pending = int((names == NO_QI_GROUP).sum())
    names, sizes = names[n_pending:], sizes[n_pending:]
    if (names < 1).any():
        raise refusal("a row names a QI group by a number that none has")
    core.arrays.rows.row.group[: len(numbers)] = np.where(numbers == NO_QI_GROUP, NO_GROUP_YET, at - n_pending)
    core.arrays.state.rows_used = len(numbers)
    return names, sizes


def _groups_into(
    rows: Rows, core: CoreArrays, stored: Iterable[tuple[int, QIGroupState]], names: Ints, sizes: Ints
) -> None:
    """All QI groups; names (n,): their numbers by their indexes in the core, sizes (n,): their rows."""
    s, n, rooms = core.arrays, len(names), _block_bits(sizes)
    state, group = s.state, s.groups.group
    state.pool_used, state.groups_used, state.n_groups = int((1 << rooms).sum()), n, n
    group.number[:n], group.members[:n], group.alive[:n] = names, sizes, 1
    group.block_bits[:n], group.block[:n] = rooms, np.cumsum(1 << rooms) - (1 << rooms)
    for name in ("node", "list", "listed", "entry"):
        group[name][:n] = NONE
    found, stored = np.zeros(n, bool), iter(stored)
    while some := list(islice(stored, GROUPS_AT_ONCE)):
        indexes = indexes_of_numbers(names, [number for number, _ in some])
        if (indexes == NONE).any():
            raise refusal(NOT_ITS_ROWS)
        if found[indexes].any() or len(np.unique(indexes)) < len(indexes):
            raise _twice("QI group")
        found[indexes] = True
        states = [stored_state for _, stored_state in some]
        _boxes_into(rows, s, indexes, states)
        _members_into(rows, s, indexes, states)
    if not found.all():
        raise refusal("a row names a QI group that is not stored")
    _count(core)
    k = int(state.k[0])
    if (group.count[:n] < k).any():
        raise refusal(f"a stored QI group holds fewer than the k = {k} it needs")
    if not groups_that_hold(core.arrays).all():
        raise refusal("a stored QI group breaks the privacy model")


def _boxes_into(rows: Rows, s: Shard, indexes: Ints, states: Sequence[QIGroupState]) -> None:
    """The boxes of some QI groups, which stand at these indexes of the core."""
    try:
        lo, hi = array_of([stored.lo for stored in states], rows.d), array_of([stored.hi for stored in states], rows.d)
    except ValueError:
        raise refusal("a stored QI group's box has too many or too few sides, or a number that is too large") from None
    if rows.leave_domain(lo) or rows.leave_domain(hi):
        raise refusal("a stored QI group's box leaves the domain of a column")
    if (lo <= hi).all() and not rows.are_publishable(lo, hi):
        raise refusal("a stored QI group's box is no node of a column's hierarchy")
    s.groups.box[indexes, LO], s.groups.box[indexes, HI] = lo, hi


def _members_into(rows: Rows, s: Shard, indexes: Ints, states: Sequence[QIGroupState]) -> None:
    """Members and slots of some QI groups, whose boxes are there; the rows have to say the same."""
    group = s.groups.group[indexes]
    sizes = group.members.astype(np.int64)
    said = np.array([(len(stored.members), len(stored.slots)) for stored in states])
    if (said != sizes[:, None]).any():
        raise refusal(NOT_ITS_ROWS)
    members = rows.index_of.indexes_of(list(chain.from_iterable([stored.members for stored in states])))
    slots = rows.values.give_many(list(chain.from_iterable([stored.slots for stored in states])))
    of_group = np.repeat(indexes, sizes)
    if (
        (members == NONE).any()
        or (s.rows.row.group[members] != of_group).any()
        or len(np.unique(members)) != len(members)
    ):
        raise refusal(NOT_ITS_ROWS)
    if not _same_values(s.rows.row["values"][members], slots, of_group):
        raise refusal("a stored QI group has other values than its rows")
    cells, box = s.rows.cells[members], s.groups.box
    if ((cells < box[of_group, LO]) | (cells > box[of_group, HI])).any():
        raise refusal("a row is not inside its QI group's box")
    within = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.repeat(group.block.astype(np.int64), sizes) + within
    s.groups.pool[0, at], s.groups.pool[1, at] = members, slots
    s.rows.row.at[members] = within


def _same_values(one: Ints, other: Ints, of_group: Ints) -> bool:
    """Whether every QI group has the same values in both, equally often."""
    wide = 1 + max(one.max(initial=0), other.max(initial=0))
    return bool((np.sort(of_group * wide + one) == np.sort(of_group * wide + other)).all())


def _twice(what: str) -> Conflict:
    return Conflict(f"a {what} came twice while the store was read; load it again")


def _count(core: CoreArrays) -> None:
    """What k and the model count, of every group and of the pending rows."""
    s = core.arrays
    row, state = s.rows.row[: int(s.state.rows_used[0])], s.state
    pending = row.group == NO_GROUP_YET
    state.n_pending = int(pending.sum())
    entries = np.stack(count_demands(s))
    if not state.individuals[0]:
        state.pending_count = state.n_pending
        s.groups.group.count[:] = s.groups.group["members"]
    else:
        pairs, n = np.unique(np.column_stack([row.group, row.who]).astype(np.int64), axis=0, return_counts=True)
        entries = np.concatenate([entries, [*pairs.T, n]], axis=1)
        counted = np.bincount(pairs[:, 0] + 1, minlength=len(s.groups.group) + 1)
        state.pending_count, s.groups.group.count[:] = int(counted[0]), counted[1:]
    if state.tallied[0]:
        group, who, n = entries
        s.state.tally_used = len(n)
        core.arrays = s._replace(work=s.work._replace(tally=tally_of(group, who, n, len(s.work.tally))))


QUEUED_RECORDS_PER_K = 4
"""Records that an operation publishes, as multiples of the rows of the smallest group, where it merges nothing and
groups are cut as soon as their rows suffice for two: a group is cut in two."""


class Engine:
    """The k-anonymous table of one shard, in memory; secret: what its tie_hashes are drawn by, empty in tests only."""

    def __init__(
        self, table: Table, shard: int = 0, shards: int = 1, secret: bytes = b"", gathers: bool = False
    ) -> None:
        self.table, self.shard, self.shards = table, shard, shards
        in_core = all_pending(table) if gathers else table  # one that gathers rows makes no QI group of them
        self._core = CoreArrays(in_core)
        self._rows = Rows(in_core, self._core)
        self._queue = OperationQueue(self._rows, self._core, secret)
        self._statement_ids, self._known_statements = deque[str](), set[str]()
        self._new_statements: list[str] = []
        self._values_bytes_max = values_bytes_max(table)
        self._rows_published_max = 0
        self._rows_min = model_of(table).rows_min
        self._cells_seen = CellsSeen(table.space.d) if table.form == LOSSY_JOIN else None

    @classmethod
    def load(
        cls, table: Table, shard: int, shards: int, kept: StoredTable, secret: bytes = b"", gathers: bool = False
    ) -> Engine:
        """The engine as it was when `kept` was committed; secret: the one that it had then."""
        engine = cls(table, shard, shards, secret, gathers)
        load_stored(engine._rows, engine._core, engine._queue, kept)
        engine._remember(kept.statement_ids)
        if engine._cells_seen is not None:
            engine._cells_seen.begin(*engine._rows.published_cells())
        return engine

    def load_initial(
        self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Iterable[Ints]
    ) -> None:
        """Fills an empty shard with rows in given QI groups (arrays of row numbers); rows in none are pending.

        Raises ConfigError if a group does not hold the model or a row is too large: nothing has changed then.
        """
        self._check_initial_sizes(rows)
        groups = list(qi_groups)
        check_groups(self.table, rows, groups)
        self.run()
        load_groups(self._rows, self._core, self._queue, source_keys, rows, groups)
        self._rows_published_max = self._core.field("rows_published_max")

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
        return self._core.field("n_pending")

    @property
    def n_qi_groups(self) -> int:
        self.run()
        return self._core.field("n_groups")

    @property
    def loss(self) -> float:
        """NCP times rows, summed over the QI groups: one look at each."""
        self.run()
        return loss_of(self._core)

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
        numbers = self._rows.qi_groups(self._rows.in_core["group"][self._rows.indexes()])
        return zip(self._rows.index_of, numbers.tolist(), strict=True)

    def source_rows(self) -> tuple[list[str], Ints]:
        """Source keys and codes (n, d) of all rows, in no particular order: what a full re-anonymization reads."""
        self.run()
        return list(self._rows.index_of), self._rows.view().codes

    # -- what a change does to rows ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs what is queued: compiled code, beside which others may compute."""
        if self._queue.run():
            self._rows_published_max = self._core.field("rows_published_max")

    def apply(self, change: Change) -> Outcome:
        """Applies one change and repairs what it broke.

        Raises EventRefused (`key-exists`, `key-unknown`, `individual-changed`, `statement-too-large`,
        `truncate-one-shard`, `row-too-large`), with nothing changed.
        """
        match change:
            case Insert():
                self._insert(change.source_key, change.row)
            case Delete():
                self._take_out([self._index(change.source_key)])
            case Modify():
                self._modify(change)
            case Upsert():
                return self._upsert(change)
            case Remove():
                index = self._rows.index_of.get(change.source_key)
                if index is None:
                    return Outcome(applied=False, unknown_key=change.was_there)
                self._take_out([index])
            case DeleteWhere() | ModifyWhere() | Truncate():
                return self._statement(change)
            case Nothing():
                return IGNORED
        return APPLIED

    def _index(self, source_key: str) -> int:
        index = self._rows.index_of.get(source_key)
        if index is None:
            raise EventRefused("key-unknown", "there is no row with this key")
        return index

    def _insert(self, source_key: str, row: Row) -> None:
        if source_key in self._rows.index_of:
            raise EventRefused("key-exists", "there is a row with this key already")
        self._check_size(row.values)
        self._queue.add(INSERT, self._rows.add(source_key, row), row)
        self._queue.end()

    def _modify(self, change: Modify) -> None:
        index = self._index(change.source_key)
        row = self._rows.row(index)
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
        self._rewrite([(index, changed)])

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
            former = self._rows.index_of.get(change.former_key)
            if former is not None:
                self._take_out([former])
                found = True
        index = self._rows.index_of.get(change.source_key)
        found = found or index is not None
        if index is not None and self._rows.row(index).individual != change.row.individual:
            self._take_out([index])
            index = None
        if index is None:
            self._insert(change.source_key, change.row)
        else:
            self._rewrite([(index, change.row)])
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
        indexes = self._rows.indexes_but(change.spared) if change.spared else self._rows.indexes()
        self._take_out(indexes.tolist())

    def _modify_where(self, change: ModifyWhere) -> Outcome:
        changed: list[tuple[int, Row]] = []
        left_unchanged = 0
        for index in self._selected(change):
            try:
                row = change.assignments.applied_to(self._rows.row(index))
                self._check_size(row.values)
                changed.append((index, row))
            except EventRefused:
                left_unchanged += 1
        self._rewrite(changed)
        return Outcome(applied=True, left_unchanged=left_unchanged)

    def _selected(self, change: DeleteWhere | ModifyWhere) -> list[int]:
        """Places of the rows that satisfy the condition, in the order of their tie_hashes."""
        view = self._rows.view()
        if not len(view.indexes):
            return []
        indexes = view.indexes[change.condition.matches(view)]
        if len(indexes) > self.table.limits.statement_rows_max:
            raise EventRefused(
                "statement-too-large",
                f"the statement touches more than {self.table.limits.statement_rows_max} rows of this shard "
                "(limits.statement_rows_max)",
            )
        in_order: list[int] = indexes[self._rows.in_core["tie_hash"][indexes].argsort()].tolist()
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
            self._queue.add(TAKE, index)
            self._rows.remove(index)
        self._queue.end()

    def _rewrite(self, changed: Sequence[tuple[int, Row]]) -> None:
        """Gives rows new contents and moves those that left their box (Song et al. 2009, algorithm MOD)."""
        for index, row in changed:
            if row != self._rows.row(index):
                self._rows.give(index, row)
                self._queue.add(REWRITE, index, row)
        self._queue.end()

    # -- regions --------------------------------------------------------------------------------------------------

    def regions(self, turn: int, rows_max: int | None = None) -> list[tuple[int, ...]]:
        """The QI groups, by number, cut into regions (`engine.replacing`); turn: which rebuild it is.

        rows_max: of a region, by default as many as one transaction should publish.
        """
        self.run()
        numbers, lo, hi, sizes = boxes_of(self._core)
        most = self.table.limits.transaction_rows_max if rows_max is None else rows_max
        return [tuple(numbers[some].tolist()) for some in cut_regions(lo, hi, sizes, most, turn)]

    def region(self, numbers: Sequence[int]) -> Region:
        """QI groups with their rows, as they are now; those that are gone are left out."""
        self.run()
        return region_of(self.table, self._rows, self._core, numbers)

    def replace(self, region: Region, groups: Sequence[Ints]) -> Replaced | None:
        """Replaces a region's QI groups by others (arrays of numbers of its rows): one event between others.

        None if the region changed meanwhile. Raises LawViolated if the groups are not all of the region's rows,
        once each, or one does not hold the model. Nothing has changed in either case.
        """
        self.run()
        planned = replacement(self.table, self._rows, self._core, region, groups)
        if planned is None:
            return None
        operations, replaced = planned
        self._core.run(operations, np.zeros((len(operations), self.table.space.d), dtype=np.int32))
        self._rows_published_max = self._core.field("rows_published_max")
        return replaced

    # -- net effect -----------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """The part of `drain` that is compiled code, beside which others may compute. Raises LawViolated."""
        self._queue.drain()

    def drain(self) -> Drained:
        """Net effect since the drain before; checks every touched QI group and raises LawViolated."""
        self.compute()
        drained = net_effect(self._rows, self._core, self._queue.take_touched(), self._new_statements)
        self._core.mark_read()
        if self._cells_seen is not None:
            seen = self._cells_seen.completed(drained.published, drained.qi_groups, self._rows.cells_of_keys)
            drained = replace(drained, published=seen)
        self._rows.take_back()
        self._new_statements, self._rows_published_max = [], 0
        return drained
