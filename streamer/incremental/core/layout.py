"""The arrays of a shard's table: every dtype, name and shape of the core.

The rules of this file
----------------------
* The core knows of a row only what may decide what is published: its cells, the numbers of its published values and of
  its individual, its tie hash. Codes, source keys and names stay outside, in `streamer.incremental.engine.rows`.
* A record array has one record per thing. A vector of d, or of a node's children, is an array of its own beside it, so
  no code is tied to the number of attributes.
* Things refer to each other by index; NONE is no index. A variable `g` or `h` is the index of a QI group, `index` that
  of a row. Only `group.number` is the QI group's number outside the core.
* A QI group's members (row indexes) and slots (numbers of values) stand in one *block* of `pool`, a run of 1 <<
  block_bits entries. The order of members decides nothing; slots are ordered.
* A group that is gone keeps its index until the batch is drained, because similarity lists and the journal name it.
* Compiled functions never allocate. They check capacity before a move begins, and name what is short in `state.short`;
  `streamer.incremental.core.capacity` enlarges it, and the same call goes on where it stopped.
* Every function also runs uncompiled (STREAMER_NATIVE=off), over the same arrays. So no field has the name of an
  attribute of numpy's scalars: `group.size` would be 1 there, whatever the record says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, geometry
from streamer.kernels.counts import CountTable
from streamer.kernels.distributions import Laws
from streamer.table.arrays import Floats, Ints, Records, records
from streamer.table.space import Space

NONE = -1
NO_GROUP_YET, FREE = -1, -2
"""In `row.group`: a pending row; no row at this index."""

FAN = 16
"""The most children of a node of the tree."""

LENGTH = 4
"""The most entries of a similarity list."""

GROUPS, POOL, NODES, ENTRIES, SLOTS_BEFORE, TOUCHED, GONE, MEMBERS, TALLIES, EXPORT = range(1, 11)
"""Arrays that may run out of capacity, as `state.short` names them."""

NOTHING_TO_MERGE_WITH, MISCOUNTED, BELOW_K, OUTSIDE_ITS_BOX, BREAKS_MODEL, WIDER_THAN_ITS_ROWS = 1, 2, 3, 4, 5, 6
"""Broken laws, as `state.fault` names them; `state.fault_at` is the number of the QI group."""

BLOCK_SIZES = 31
"""Sizes of blocks: 1 << 0 to 1 << 30 entries."""

TO_CHECK, TO_MERGE, TO_CUT, FREED, TO_IMPROVE = 0, 1, 2, 3, 4
"""The heaps: groups that lost rows or whose rows changed, groups that do not hold the model, groups that may be cut,
freed numbers, groups that local repair may improve.
"""

STOPPED_SHORT, ALL_DONE, MOVED = 0, 1, 2
"""Answers of a step of local repair: out of capacity; nothing to do; something done, perhaps more to do."""

LOSS_UNITS = 1 << 24
"""Units of NCP in `group.loss` and `state.loss`: of 30 columns and a thousand million rows the sum has 59 bits."""

FORMED, WAS_LOADED, MERGED, SPLIT, CUT_AFRESH, REBUILT = 1, 2, 3, 4, 5, 6
"""Origins of a QI group's members, in `Journal.entry`; 0: it had them before the batch."""

LO, HI = 0, 1

HULL_LO, HULL_HI, HALF, CENTER_LO, CENTER_HI = 0, 1, 2, 3, 4
"""Of a node's hull, per attribute: see `CoreTree.hull`."""

FIRST_LEAF, LAST_LEAF, LEAVES = 0, 1, 2
"""Of a node of a hierarchy: see `Work.path`."""

CENTER, HALF_WIDTH = 0, 1
"""Of a group's shape, per attribute: see `CoreGroups.shape`."""

STATE = np.dtype(
    [
        # from table.yaml
        ("k", "i8"),
        ("recut", "i8"),
        ("shrink", "i8"),
        ("individuals", "i8"),
        ("exact", "i8"),  # sums of coordinates never round: the bounds of T-QGSSD need no margin
        ("tallied", "i8"),  # entries of the tally that one row needs at most
        # sizes
        ("qi_group_next", "i8"),
        ("n_groups", "i8"),
        ("n_pending", "i8"),  # rows
        ("pending_count", "i8"),  # what k counts of these
        ("n_grouped", "i8"),  # rows in QI groups
        ("loss", "i8"),  # of all QI groups: see `group.loss`
        ("rows_used", "i8"),  # indexes of rows ever used, free ones included
        ("groups_used", "i8"),
        ("group_free", "i8"),  # first free index; each free group names the next
        ("nodes_used", "i8"),
        ("node_free", "i8"),
        ("root", "i8"),
        ("pool_used", "i8"),
        ("tally_used", "i8"),
        # since the last drain
        ("n_journal", "i8"),
        ("n_slots_before", "i8"),
        ("n_touched", "i8"),
        ("n_gone", "i8"),
        ("rows_published_max", "i8"),
        ("merges", "i8"),
        ("splits", "i8"),
        # for the caller
        ("short", "i8"),  # what has to grow (GROUPS, POOL, ...); 0: nothing
        ("short_by", "i8"),
        ("fault", "i8"),  # the broken law; 0: none
        ("fault_at", "i8"),
        ("stamp", "i8"),  # rises with every pass over rows: see `Work.last_seen`
        ("n_found", "i8"),  # entries of `found`
        ("n_numbers", "i8"),  # of the export
        ("n_scores", "i8"),
        ("n_gathered", "i8"),  # members of a group to be formed, in `Work.ints`
        ("half_done", "i8"),  # a row was added, or has left its group, and must still join one
        ("query", "i8"),  # the group that scores are computed against; NONE: a tuple
        ("checked", "i8"),  # the laws of the batch hold
        ("drained", "i8"),  # the batch is exported: the next operation begins another
        ("event_open", "i8"),  # all operations of an event are done, its repairs are not
        # of local repair
        ("repairs", "i8"),  # 0: no local repair
        ("share", "f8"),  # of the mean loss of a row, which is the price; 0: the price is an absolute one
        ("price", "f8"),  # NCP that each row published again must save in this event
        ("event", "i8"),  # number of the event, from 1
        ("spent", "i8"),  # rows that local repair publishes again in this event
        ("recut_gain", "f8"),  # of the best cut of a group with its neighbours so far
        ("recut_one", "i8"),  # these neighbours; NONE: there is no such cut
        ("recut_other", "i8"),  # NONE: there is one neighbour
        ("recut_lower", "i8"),  # rows that its halves have at least
        ("recut_upper", "i8"),
        ("cost", "f8"),  # of the group that `cheapest_group` returned last
    ]
)

ROW = np.dtype(
    [("tie_hash", "i8"), ("group", "i4"), ("at", "i4"), ("values", "i4"), ("who", "i4"), ("touched", "i4")], align=True
)

GROUP = np.dtype(
    [
        ("number", "i8"),
        ("ncp", "f8"),
        ("box_event", "i8"),  # the event that set its box last
        ("loss", "i8"),  # NCP in units of 1 / LOSS_UNITS, times rows: whole numbers, so that no order of sums counts
        ("members", "i4"),
        ("count", "i4"),  # what k counts: individuals, else rows
        ("block", "i4"),
        ("block_bits", "i4"),
        ("node", "i4"),  # the leaf of the tree that it is in
        ("entry", "i4"),  # in the journal
        ("next_free", "i4"),
        ("alive", "i1"),
        ("searched", "i1"),  # its similarity list was found since the drain
        ("to_check", "i1"),
        ("to_merge", "i1"),
        ("to_cut", "i1"),
        ("to_improve", "i1"),
        ("raw", "i1"),  # its members are new; box and slots are not made yet
    ],
    align=True,
)

VALUE = np.dtype([("prefix", "u8"), ("at", "i8"), ("length", "i8")])

NODE = np.dtype(
    [
        ("ncp", "f8"),  # of `first`: the least of the groups below
        ("n", "i4"),
        ("parent", "i4"),  # of a free node: the next one
        ("leaf", "i4"),  # its children are QI groups
        ("first", "i4"),  # the group below that wins ties: least NCP, fewest members, lowest number
        ("withheld", "i4"),  # of the withheld groups below the one that wins ties, or NONE
    ],
    align=True,
)

ENTRY = np.dtype(
    [("number", "i8"), ("group", "i4"), ("members", "i4"), ("slots", "i4"), ("origin", "i4")],
    align=True,
)

HEAP = np.dtype([("number", "i8"), ("named", "i8")])

DEMAND = np.dtype(
    [
        ("least", "i8"),  # distinct subjects at least
        ("numerator", "i8"),  # of the largest share of the rows for one subject; 1 of 1: any
        ("denominator", "i8"),
        ("of_individuals", "i8"),  # subjects are individuals; else those of `Demands.code`
    ]
)

REACHED = np.dtype(
    [
        ("distinct", "i4"),
        ("single", "i4"),  # subjects with one row
        ("top", "i4"),  # rows of the most frequent subject; counted only for a share
    ]
)

CANDIDATE = np.dtype([("bound", "f8"), ("node", "i8")])

FOUND = np.dtype([("score", "f8"), ("group", "i8")])

INSERT, REWRITE, TAKE, DISSOLVE, LOAD, GATHER, FORM, REFORM, RETIRE, RENEW = range(1, 11)
"""Kinds of operations: see `streamer.incremental.core.step`."""

OPERATION = np.dtype(
    [("tie_hash", "i8"), ("kind", "i4"), ("index", "i4"), ("values", "i4"), ("who", "i4"), ("ends", "i4")], align=True
)


class CoreRows(NamedTuple):
    """The rows by index."""

    row: Records  # (rows,) ROW
    cells: Any  # (rows, d) int32


class CoreGroups(NamedTuple):
    """The QI groups by index."""

    group: Records  # (groups,) GROUP
    box: Any  # (groups, 2, d) int32: LO and HI, in cells; of a category the ends of a node
    shape: Any  # (groups, 2, d) float64: CENTER and HALF_WIDTH in codes; of a category
    # the middle of its leaves, and how many they are
    pool: Any  # (2, entries) int32: members and slots, in blocks
    near: Any  # (groups, LENGTH) int32: the similarity list, groups or NONE; some may be gone, or another one by now
    block_free: Any  # (BLOCK_SIZES,) int32: first free block of each size; each names the next in pool[0]


class CoreTree(NamedTuple):
    """The exact index. What a search reads of a node's children lies side by side, one lane per child.

    Lanes after the last child hold harmless numbers.
    """

    node: Records  # (nodes,) NODE
    child: Any  # (nodes, FAN) int32: nodes, in a leaf groups
    hull: Any  # (nodes, 5, d) float64, of all groups below: HULL_LO and HULL_HI enclose center - half-width
    # and center + half-width (of a category, the leaves), HALF is the largest half-width (the most leaves), CENTER_LO
    # and CENTER_HI enclose the centers
    lane: Any  # (nodes, d, 5, FAN): the hulls of the children; of a group its shape
    rank: Any  # (nodes, FAN) float64: NCP of the children


class Journal(NamedTuple):
    """QI groups and rows that the batch has touched since the last drain."""

    entry: Records  # (entries,) ENTRY: a QI group as published before; members 0: it was not; group NONE: it is gone
    box: Any  # (entries, 2, d) int32
    slots_before: Any  # int32: slots of each entry from entry.slots on
    touched: Any  # int32: rows that changed, or whose QI group did
    gone: Any  # int32: groups


class Export(NamedTuple):
    """The net effect of a batch, for Python; see `streamer.incremental.core.step`."""

    numbers: Any  # int64
    scores: Any  # float64


class CoreValues(NamedTuple):
    """The published values by number. The order of their texts is that of the values as tuples."""

    value: Records  # (values,) VALUE; prefix: the first eight bytes, the first of them highest
    text: Any  # uint8: the bytes of the values, joined by zero bytes


COUNTED_GROUP, COUNTED_ROWS, COUNTED_CODES = 0, 1, 2


class Demands(NamedTuple):
    """The c demands of the privacy model beyond k, and the counts for them; see `core.model`."""

    demand: Records  # (c,) DEMAND: one per subject, that of the individuals first
    code: Any  # (values, c) int32: the subject of values as -2 - its number; NONE: not counted
    reached: Records  # (1 + groups, c) REACHED: of the pending rows, then of each QI group
    passed: Records  # (c,) REACHED: of the rows of a pass
    seen: Ints  # (subjects,): as `Work.last_seen`
    fits: Any  # (n,) int8, n at least the rows of the largest group
    laws: Laws  # p laws about distributions
    leaf: Any  # (values, p) int32: the code of values in each law; NONE: not counted
    waiting: Ints  # (p, codes): of the pending rows, how many have each code
    counts: Ints  # (p, codes): rows of the QI group that was counted last
    present: Ints  # (p, codes): codes that were counted
    counted: Ints  # (2 + p,): COUNTED_GROUP, COUNTED_ROWS, then how many codes are present for each law


class Work(NamedTuple):
    """Scratch memory; n: at least the rows of the largest group. The *query* is the tuple or QI group to be scored."""

    heap: Records  # (5, twice the groups) HEAP
    heap_size: Ints  # (5,)
    tally: CountTable  # see `core.model`
    last_seen: Ints  # (individuals,): more than the stamp of a pass if it has seen them
    ints: Any  # (7, n) int32
    tie_hashes: Any  # (2, n) uint64
    losses: Any  # (n,)
    hull: Any  # (3, 2, d) int32
    terms: Floats  # (3, d): of NCP
    candidates: Records  # CANDIDATE: nodes to visit
    found: Records  # (FAN,) FOUND: the best groups
    query_center: Floats  # (d,): of the query; of a category its first leaf
    path: Any  # (d, levels, 3) float64: FIRST_LEAF, LAST_LEAF, LEAVES of the query's node and those above it
    n_path: Ints  # (d,)
    over: Any  # (FAN,) float64: leaves of the smallest node over the query and a child
    bounds: Floats  # (FAN,): of the children of a node
    order: Ints  # (FAN,)


class Shard(NamedTuple):
    """All arrays of a shard, the argument of the compiled functions."""

    state: Records  # (1,) STATE
    space: Geometry
    rows: CoreRows
    groups: CoreGroups
    tree: CoreTree
    journal: Journal
    values: CoreValues
    demands: Demands
    export: Export
    work: Work


ROW_LIST, TARGETS = 0, 1
"""Rows of `work.ints`: the rows of a group that scatters, and the groups they join."""

NO_LAWS = Laws(*(np.zeros(0, np.int64) for _ in Laws._fields))

FIRST_CAPACITY, CANDIDATES = 1024, 1 << 12


def empty_tally(length: int) -> CountTable:
    return CountTable(np.zeros(length, np.int64), np.zeros(length, np.int32))


def is_exact(space: Space) -> bool:
    """True if no sum or difference of edges, centers and half-widths ever rounds in float64."""
    are_small = bool((space.n_cells * space.codes_per_cell < 2**50).all())
    return are_small and all(float(end).is_integer() for end in space.end)


def empty_shard(
    space: Space,
    k: int,
    recut: bool,
    shrink: bool,
    individuals: bool,
    demand: Records | None = None,
    price: float = 0.0,
    share: float = 0.0,
    laws: Laws = NO_LAWS,
) -> Shard:
    """A shard without rows; demand (c,) DEMAND, laws: what is asked beyond k; price, share: as of `Repair`."""
    d, n, p = space.d, FIRST_CAPACITY, len(laws.kind)
    demand = records(0, DEMAND) if demand is None else demand
    state = records(1, STATE)
    state.k, state.recut, state.shrink, state.individuals, state.exact = k, recut, shrink, individuals, is_exact(space)
    state.tallied = individuals + int((1 - demand.of_individuals + (demand.numerator < demand.denominator)).sum())
    state.qi_group_next = state.event = 1
    state.repairs, state.price, state.share = price > 0 or share > 0, price, share
    for first_of in ("group_free", "node_free", "root"):
        state[first_of] = NONE
    return Shard(
        state,
        geometry(space),
        CoreRows(records(n, ROW), np.zeros((n, d), np.int32)),
        CoreGroups(
            records(n, GROUP),
            np.zeros((n, 2, d), np.int32),
            np.zeros((n, 2, d)),
            np.zeros((2, 16 * n), np.int32),
            np.full((n, LENGTH), NONE, np.int32),
            np.full(BLOCK_SIZES, NONE, np.int32),
        ),
        CoreTree(
            records(n, NODE),
            np.zeros((n, FAN), np.int32),
            np.zeros((n, 5, d)),
            np.zeros((n, d, 5, FAN)),
            np.zeros((n, FAN)),
        ),
        Journal(
            records(n, ENTRY),
            np.zeros((n, 2, d), np.int32),
            np.zeros(16 * n, np.int32),
            *(np.zeros(n, np.int32) for _ in range(2)),
        ),
        CoreValues(records(n, VALUE), np.zeros(16 * n, np.uint8)),
        Demands(
            demand,
            np.full((n, len(demand)), NONE, np.int32),
            records((1 + n, len(demand)), REACHED),
            records(len(demand), REACHED),
            np.zeros(n if len(demand) else 1, np.int64),
            np.zeros(n, np.int8),
            laws,
            np.full((n if p else 1, p), NONE, np.int32),
            np.zeros((p, 1), np.int64),
            np.zeros((p, 1), np.int64),
            np.zeros((p, 1), np.int64),
            np.full(2 + p, NONE, np.int64),
        ),
        Export(np.zeros(16 * n, np.int64), np.zeros(16 * n)),
        _empty_work(space, n, individuals, bool(state.tallied[0])),
    )


def _empty_work(space: Space, n: int, individuals: bool, tallied: bool) -> Work:
    """Scratch memory for n rows and groups."""
    d, levels = space.d, max((tree.n_levels for _, tree in space.trees), default=1)
    return Work(
        records((5, 2 * n), HEAP),
        np.zeros(5, np.int64),
        empty_tally(n if tallied else 1),
        np.zeros(n if individuals else 1, np.int64),
        np.zeros((7, n), np.int32),
        np.zeros((2, n), np.uint64),
        np.zeros(n),
        np.zeros((3, 2, d), np.int32),
        np.zeros((3, d)),
        records(CANDIDATES, CANDIDATE),
        records(FAN, FOUND),
        np.zeros(d),
        np.zeros((d, levels, 3)),
        np.zeros(d, np.int64),
        np.zeros(FAN),
        np.zeros(FAN),
        np.zeros(FAN, np.int64),
    )
