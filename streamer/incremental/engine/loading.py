"""Loading a whole table into an empty engine: as a store kept it, or an initial table in given QI groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np

from streamer.errors import ConfigError, Conflict, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.core import capacity, layout
from streamer.incremental.core.layout import HI, LENGTH, LO, NO_GROUP_YET, NONE, Shard
from streamer.incremental.core.model import fill_tally
from streamer.incremental.core.moves import LEAST_BLOCK_BITS
from streamer.incremental.engine.constraints import count_demands, groups_that_hold
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.rows import Rows, array_of
from streamer.incremental.engine.stored_state import PENDING, QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.engine.tie_break import tie_hashes
from streamer.privacy.models import SubjectCodes, model_of, subject_names
from streamer.table.arrays import Ints, records
from streamer.table.row import Row
from streamer.table.schema import Table

AT_ONCE, GROUPS_AT_ONCE = 10_000, 1_000
"""Stored rows or similarity lists, and stored QI groups with their members' source keys, that are objects at once."""

NOT_ITS_ROWS = "a stored QI group has other members than the rows that name it, or not one value for each"


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
    rows: Rows, core: CoreArrays, secret: bytes, keys: Sequence[str], given: Sequence[Row], groups: Sequence[Ints]
) -> None:
    """Loads an initial table in given QI groups: arrays of row numbers, which in an empty shard are row indexes."""
    n = len(given)
    given_cells = rows.add_many(keys, given)
    rows.all_added()
    values, who = _numbers(rows, given)
    members = np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int32)
    ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
    operations = records(n + len(members) + len(groups), layout.OPERATION)
    operations.index = NONE
    operations.kind[:n], operations.kind[n:] = layout.LOAD, layout.GATHER
    operations.index[:n], operations.tie_hash[:n] = np.arange(n), tie_hashes(secret, keys)
    operations["values"][:n], operations.who[:n] = values, who
    forms = n + ends + np.arange(len(groups))
    operations.kind[forms] = layout.FORM
    operations.index[np.delete(np.arange(n, len(operations)), forms - n)] = members
    cells = np.zeros((len(operations), rows.d), dtype=np.int32)
    cells[:n] = given_cells
    core.run(operations, cells)


def load_stored(rows: Rows, core: CoreArrays, secret: bytes, kept: StoredTable) -> None:
    """Loads a table as it was stored; rows, QI groups and similarity lists are read in this order, some at a time.

    Raises ShardRefused if they do not belong together, because the core would write out of bounds. Raises Conflict if
    one comes twice: a store never has that, so it changed while it was read.
    """
    numbers = _rows_into(rows, core, secret, kept.records)
    names, sizes = _name_groups(core, numbers)
    core.arrays = _with_capacity(core.arrays, len(rows), sizes)
    _groups_into(rows, core, kept.qi_groups, names, sizes)
    if not names.max(initial=0) < kept.qi_group_next < 1 << 63:
        raise refusal("the next number of a QI group is not a free one")
    core.arrays.state.qi_group_next = kept.qi_group_next
    _lists_into(core, kept.similarity, names)
    core.restore()


def _with_capacity(s: Shard, n_rows: int, sizes: Ints) -> Shard:
    """The shard with capacity for all rows and QI groups, and an eighth more groups."""
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
    """The binary logarithms of the sizes of blocks for `sizes` rows."""
    bits: Ints = np.maximum(LEAST_BLOCK_BITS, np.ceil(np.log2(np.maximum(sizes, 1)))).astype(np.int64)
    return bits


def _numbers(rows: Rows, given: Sequence[Row]) -> tuple[Ints, Ints]:
    """Numbers of the rows' values and individuals, int64; the core knows them afterwards."""
    values = rows.values.give_many([row.values for row in given])
    counted = rows.counted_text  # an older engine stored individuals as they were written
    names = [None if row.individual is None else counted(row.individual) for row in given]
    who = np.full(len(given), NONE)
    there = [i for i, name in enumerate(names) if name is not None]
    who[there] = rows.individuals.give_many([name for name in names if name is not None])
    rows.write_numbers()
    return values, who


def _rows_into(rows: Rows, core: CoreArrays, secret: bytes, stored: Iterable[tuple[str, Record]]) -> Ints:
    """Loads the rows, some objects at a time; returns the numbers of their QI groups, (n,)."""
    stored, numbers, first = iter(stored), [np.zeros(0, np.int64)], 0
    while some := list(islice(stored, AT_ONCE)):
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
            raise refusal("a row has no individual, although k counts individuals")
        these = slice(first, first + len(some))
        written = core.arrays.rows.row[these]
        core.arrays.rows.cells[these] = cells
        written.tie_hash, written["values"] = tie_hashes(secret, source_keys), values
        written.who, written.touched = who, 0
        first += len(some)
    try:
        rows.all_added()
    except ValueError:
        raise _twice("row") from None
    return np.concatenate(numbers)


def _name_groups(core: CoreArrays, numbers: Ints) -> tuple[Ints, Ints]:
    """Gives the QI groups their indexes in the core, ascending by number; returns numbers and sizes by index.

    numbers (n,): of each row, its QI group's number.
    """
    names, at, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    n_pending = int((names == PENDING).sum())
    names, sizes = names[n_pending:], sizes[n_pending:]
    if (names < 1).any():
        raise refusal("a row names a QI group with an impossible number")
    core.arrays.rows.row.group[: len(numbers)] = np.where(numbers == PENDING, NO_GROUP_YET, at - n_pending)
    core.arrays.state.rows_used = len(numbers)
    return names, sizes


def _groups_into(
    rows: Rows, core: CoreArrays, stored: Iterable[tuple[int, QIGroupState]], names: Ints, sizes: Ints
) -> None:
    """Loads all QI groups; names (n,): their numbers by index, sizes (n,): their rows."""
    s, n, bits = core.arrays, len(names), _block_bits(sizes)
    state, group = s.state, s.groups.group
    state.pool_used, state.groups_used, state.n_groups = int((1 << bits).sum()), n, n
    group.number[:n], group.members[:n], group.alive[:n] = names, sizes, 1
    group.block_bits[:n], group.block[:n] = bits, np.cumsum(1 << bits) - (1 << bits)
    for name in ("node", "entry"):
        group[name][:n] = NONE
    found, stored = np.zeros(n, bool), iter(stored)
    while some := list(islice(stored, GROUPS_AT_ONCE)):
        indexes = indexes_of_numbers(names, [number for number, _ in some])
        if (indexes == NONE).any():
            raise refusal(NOT_ITS_ROWS)
        if found[indexes].any() or len(np.unique(indexes)) < len(indexes):
            raise _twice("QI group")
        found[indexes] = True
        states = [one for _, one in some]
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
    """Loads the boxes of some QI groups, with these indexes."""
    try:
        lo, hi = array_of([stored.lo for stored in states], rows.d), array_of([stored.hi for stored in states], rows.d)
    except ValueError:
        raise refusal("a stored QI group's box has too many or too few sides, or a number that is too large") from None
    if rows.leave_domain(lo) or rows.leave_domain(hi):
        raise refusal("a stored QI group's box leaves the domain of a column")
    if (lo <= hi).all() and not rows.are_publishable(lo, hi):
        raise refusal("a stored QI group's box is not a node of a column's hierarchy")
    s.groups.box[indexes, LO], s.groups.box[indexes, HI] = lo, hi


def _members_into(rows: Rows, s: Shard, indexes: Ints, states: Sequence[QIGroupState]) -> None:
    """Loads members and slots of some QI groups with boxes; the rows must say the same."""
    group = s.groups.group[indexes]
    sizes = group.members.astype(np.int64)
    said = np.array([(len(stored.members), len(stored.slots)) for stored in states])
    if (said != sizes[:, None]).any():
        raise refusal(NOT_ITS_ROWS)
    members = rows.index_of.indexes_of(list(chain.from_iterable([stored.members for stored in states])))
    slots = rows.values.give_many(list(chain.from_iterable([stored.slots for stored in states])))
    of_group = np.repeat(indexes, sizes)
    are_its = (members != NONE) & (s.rows.row.group[members] == of_group)
    if not are_its.all() or len(np.unique(members)) != len(members):
        raise refusal(NOT_ITS_ROWS)
    values = s.rows.row["values"][members]
    wide = 1 + max(values.max(initial=0), slots.max(initial=0))
    if (np.sort(of_group * wide + values) != np.sort(of_group * wide + slots)).any():
        raise refusal("a stored QI group has other values than its rows")
    cells, box = s.rows.cells[members], s.groups.box
    if ((cells < box[of_group, LO]) | (cells > box[of_group, HI])).any():
        raise refusal("a row is not inside its QI group's box")
    within = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.repeat(group.block.astype(np.int64), sizes) + within
    s.groups.pool[0, at], s.groups.pool[1, at] = members, slots
    s.rows.row.at[members] = within


def _twice(what: str) -> Conflict:
    return Conflict(f"a {what} came twice while the store was read; load it again")


def _count(core: CoreArrays) -> None:
    """Counts rows, individuals and values for k and the model, in every group and in the pending rows."""
    s = core.arrays
    row, state = s.rows.row[: int(s.state.rows_used[0])], s.state
    pending = row.group == NO_GROUP_YET
    state.n_pending = int(pending.sum())
    state.n_grouped = len(row) - state.n_pending
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
        s.work.tally.n[:] = 0
        fill_tally(s.work.tally, (group << 32) + who, n)


def _lists_into(core: CoreArrays, stored: Iterable[tuple[int, SimilarityList]], names: Ints) -> None:
    """Loads the similarity lists. They are hints: what names no QI group of this table is left out."""
    near, stored = core.arrays.groups.near, iter(stored)
    near[: len(names)] = NONE
    while some := list(islice(stored, AT_ONCE)):
        owners = indexes_of_numbers(names, [number for number, _ in some])
        listed = [[other for other, _ in one.neighbours[:LENGTH]] for _, one in some]
        others = indexes_of_numbers(names, [number for one in listed for number in [*one, *[0] * (LENGTH - len(one))]])
        near[owners[owners != NONE]] = others.reshape(-1, LENGTH)[owners != NONE]


def indexes_of_numbers(names: Ints, numbers: Sequence[int]) -> Ints:
    """Index of each of n numbers in names, ascending; NONE if it is not there; (n,) int64."""
    try:
        wanted = np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.full(len(numbers), NONE)
    at = np.searchsorted(names, wanted)
    there = at < len(names)
    there[there] = names[at[there]] == wanted[there]
    return np.where(there, at, NONE)


def refusal(what: str) -> ShardRefused:
    """Says what is wrong with the store, and the remedy."""
    return ShardRefused(f"the store is damaged: {what}; {remedies.reload()}")
