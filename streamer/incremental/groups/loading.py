"""How a shard's table gets into the core as a whole: as it was stored, or as an initial table in given QI groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np

from streamer.errors import ConfigError, Conflict
from streamer.incremental.core import record_types, room
from streamer.incremental.core.blocks import LEAST_ROOM
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.record_types import (
    FORM,
    GATHER,
    HI,
    LO,
    LOAD,
    NONE,
    OPERATION,
    PENDING,
    records,
)
from streamer.incremental.core.tally import tally_of
from streamer.incremental.groups.demands import count_demands, groups_that_hold
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.kept import PENDING as NO_QI_GROUP
from streamer.incremental.groups.kept import KeptTable, QIGroupState, Record
from streamer.incremental.groups.lots import lots
from streamer.incremental.groups.queue import Queue
from streamer.incremental.groups.rows import Rows, array_of
from streamer.incremental.groups.stored_lists import places_of_numbers, refusal, stored_lists
from streamer.privacy.models import model_of, subject_names
from streamer.privacy.subjects import SubjectCodes
from streamer.table.arrays import Ints
from streamer.table.row import Row
from streamer.table.schema import Table

ROWS_AT_ONCE, GROUPS_AT_ONCE = 10_000, 1_000
"""Stored rows, and QI groups with the source keys of their members, that are objects at the same time."""

NOT_ITS_ROWS = "a stored QI group has not the rows that name it, once each, as many as its values"


def check_groups(table: Table, rows: Sequence[Row], groups: Sequence[Ints]) -> None:
    """Raises ConfigError where one of the groups (arrays of row numbers) does not hold the table's model."""
    model = model_of(table)
    codes = SubjectCodes(table, model).of([row.values for row in rows], [row.individual for row in rows])
    members = np.concatenate([np.zeros(0, np.int64), *groups])
    qi_group = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    broken = np.flatnonzero(~model.holds_by_group(qi_group, len(groups), codes[members]))
    if len(broken):
        shortfall = model.shortfall(codes[groups[broken[0]]], subject_names(table, model))
        raise ConfigError(f"initial load: QI group {broken[0] + 1} does not hold the privacy model: {shortfall}")


def load_groups(
    rows: Rows, held: Held, queue: Queue, source_keys: Sequence[str], given: Sequence[Row], groups: Sequence[Ints]
) -> None:
    """An initial table in given QI groups: arrays of row numbers, in an empty shard the same as places."""
    n = len(given)
    given_cells = rows.add_many(source_keys, given)
    rows.all_added()
    values, who = _numbers(rows, given)
    members = np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int32)
    ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
    operations = records(n + len(members) + len(groups), OPERATION)
    operations.place = NONE
    operations.kind[:n], operations.kind[n:] = LOAD, GATHER
    operations.place[:n], operations.lot[:n] = np.arange(n), lots(queue.secret, source_keys)
    operations["values"][:n], operations.who[:n] = values, who
    forms = n + ends + np.arange(len(groups))
    operations.kind[forms] = FORM
    operations.place[np.delete(np.arange(n, len(operations)), forms - n)] = members
    cells = np.zeros((len(operations), rows.d), dtype=np.int32)
    cells[:n] = given_cells
    held.run(operations, cells)


def load_stored(rows: Rows, held: Held, queue: Queue, kept: KeptTable) -> None:
    """A table as it was stored; rows, QI groups and similarity lists are read in this order, some at a time.

    Raises ShardRefused where they do not belong together: the core believes them, and would write where it must not.
    Conflict where one comes twice: nobody stores it so, it was read so.
    """
    numbers = _rows_into(rows, held, queue.secret, kept.records)
    names, sizes = _name_groups(held, numbers)
    held.arrays = _with_capacity(held.arrays, len(rows), sizes)
    _groups_into(rows, held, kept.qi_groups, names, sizes)
    if not names.max(initial=0) < kept.qi_group_next < 1 << 63:
        raise refusal("the next number of a QI group is none that is still to be given")
    held.arrays.state.qi_group_next = kept.qi_group_next
    lists = stored_lists(kept.similarity, names)
    held.arrays = room.with_room(held.arrays, record_types.LISTS, len(lists.owners))
    held.restored(*lists)


def _with_capacity(s: Shard, n_rows: int, sizes: Ints) -> Shard:
    """Room for all of it at once, and some more."""
    pool = int((1 << _rooms(sizes)).sum())
    for what, least in (
        (record_types.GROUPS, len(sizes) + len(sizes) // 8 + 64),
        (record_types.POOL, pool + pool // 8 + 64),
        (record_types.MEMBERS, int(sizes.max(initial=0))),
        (record_types.TALLIES, 3 * n_rows * int(s.state.tallied[0])),
    ):
        s = room.with_room(s, what, least)
    return s


def _rooms(sizes: Ints) -> Ints:
    """The sizes of the blocks for so many rows each: the powers of two."""
    rooms: Ints = np.maximum(LEAST_ROOM, np.ceil(np.log2(np.maximum(sizes, 1)))).astype(np.int64)
    return rooms


def _numbers(rows: Rows, given: Sequence[Row]) -> tuple[Ints, Ints]:
    """Numbers of the rows' values and individuals, int64, which the core knows afterwards."""
    values = rows.values.give_many([row.values for row in given])
    names = [row.individual for row in given]
    who = np.full(len(given), NONE)
    there = [i for i, name in enumerate(names) if name is not None]
    who[there] = rows.individuals.give_many([name for name in names if name is not None])
    rows.tell()
    return values, who


def _rows_into(rows: Rows, held: Held, secret: bytes, stored: Iterable[tuple[str, Record]]) -> Ints:
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
        if held.say("individuals") and (who == NONE).any():
            raise refusal("a row says no individual, and individuals are what is counted")
        these = slice(first, first + len(some))
        core = held.arrays.rows.row[these]
        held.arrays.rows.cells[these] = cells
        core.lot, core["values"], core.who, core.touched = lots(secret, source_keys), values, who, 0
        first += len(some)
    try:
        rows.all_added()
    except ValueError:
        raise _twice("row") from None
    return np.concatenate(numbers)


def _name_groups(held: Held, numbers: Ints) -> tuple[Ints, Ints]:
    """Tells the core the QI groups of the rows, (n,) numbers: those that there are, ascending, and how many rows each
    has; where a group stands here is its place in the core."""
    names, at, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    n_pending = int((names == NO_QI_GROUP).sum())
    names, sizes = names[n_pending:], sizes[n_pending:]
    if (names < 1).any():
        raise refusal("a row names a QI group by a number that none has")
    held.arrays.rows.row.group[: len(numbers)] = np.where(numbers == NO_QI_GROUP, PENDING, at - n_pending)
    held.arrays.state.n_places = len(numbers)
    return names, sizes


def _groups_into(rows: Rows, held: Held, stored: Iterable[tuple[int, QIGroupState]], names: Ints, sizes: Ints) -> None:
    """All QI groups; names (n,): their numbers by their places in the core, sizes (n,): their rows."""
    s, n, rooms = held.arrays, len(names), _rooms(sizes)
    state, group = s.state, s.groups.group
    state.pool_used, state.groups_used, state.n_groups = int((1 << rooms).sum()), n, n
    group.number[:n], group.members[:n], group.alive[:n] = names, sizes, 1
    group.room[:n], group.block[:n] = rooms, np.cumsum(1 << rooms) - (1 << rooms)
    for name in ("node", "list", "listed", "entry"):
        group[name][:n] = NONE
    found, stored = np.zeros(n, bool), iter(stored)
    while some := list(islice(stored, GROUPS_AT_ONCE)):
        places = places_of_numbers(names, [number for number, _ in some])
        if (places == NONE).any():
            raise refusal(NOT_ITS_ROWS)
        if found[places].any() or len(np.unique(places)) < len(places):
            raise _twice("QI group")
        found[places] = True
        states = [stored_state for _, stored_state in some]
        _boxes_into(rows, s, places, states)
        _members_into(rows, s, places, states)
    if not found.all():
        raise refusal("a row names a QI group that is not stored")
    _count(held)
    k = int(state.k[0])
    if (group.count[:n] < k).any():
        raise refusal(f"a stored QI group holds fewer than the k = {k} it needs")
    if not groups_that_hold(held.arrays).all():
        raise refusal("a stored QI group breaks the privacy model")


def _boxes_into(rows: Rows, s: Shard, places: Ints, states: Sequence[QIGroupState]) -> None:
    """The boxes of some QI groups, which stand at these places of the core."""
    try:
        lo, hi = array_of([stored.lo for stored in states], rows.d), array_of([stored.hi for stored in states], rows.d)
    except ValueError:
        raise refusal("a stored QI group's box has too many or too few sides, or a number that is too large") from None
    if rows.leave_domain(lo) or rows.leave_domain(hi):
        raise refusal("a stored QI group's box leaves the domain of a column")
    if (lo <= hi).all() and not rows.are_publishable(lo, hi):
        raise refusal("a stored QI group's box is no node of a column's hierarchy")
    s.groups.box[places, LO], s.groups.box[places, HI] = lo, hi


def _members_into(rows: Rows, s: Shard, places: Ints, states: Sequence[QIGroupState]) -> None:
    """Members and slots of some QI groups, whose boxes are there; the rows have to say the same."""
    group = s.groups.group[places]
    sizes = group.members.astype(np.int64)
    said = np.array([(len(stored.members), len(stored.slots)) for stored in states])
    if (said != sizes[:, None]).any():
        raise refusal(NOT_ITS_ROWS)
    members = rows.place_of.places_of(list(chain.from_iterable([stored.members for stored in states])))
    slots = rows.values.give_many(list(chain.from_iterable([stored.slots for stored in states])))
    of_group = np.repeat(places, sizes)
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


def _count(held: Held) -> None:
    """What k and the model count, of every group and of the pending rows."""
    s = held.arrays
    core, state = s.rows.row[: int(s.state.n_places[0])], s.state
    pending = core.group == PENDING
    state.n_pending = int(pending.sum())
    entries = np.stack(count_demands(s))
    if not state.individuals[0]:
        state.pending_count = state.n_pending
        s.groups.group.count[:] = s.groups.group["members"]
    else:
        pairs, n = np.unique(np.column_stack([core.group, core.who]).astype(np.int64), axis=0, return_counts=True)
        entries = np.concatenate([entries, [*pairs.T, n]], axis=1)
        counted = np.bincount(pairs[:, 0] + 1, minlength=len(s.groups.group) + 1)
        state.pending_count, s.groups.group.count[:] = int(counted[0]), counted[1:]
    if state.tallied[0]:
        group, who, n = entries
        s.state.tally_used = len(n)
        held.arrays = s._replace(work=s.work._replace(tally=tally_of(group, who, n, len(s.work.tally))))
