"""The arrays that a shard's table is made of: every dtype, name and shape of the core.

The rules of this file
----------------------
* The core knows a row by its cells, the number of its published values, the number of its individual and its tie_hash:
  what may decide what is published, and nothing else. Codes, source keys and names stay outside, in
  `streamer.incremental.engine.rows`.
* Arrays are named as what they hold. A record array has one record per thing; a vector of d, or of a node's children,
  is an array of its own beside it, so that no code is tied to the number of attributes.
* Things name each other by small numbers, their indexes in these arrays: a *index* is a row's, a `group` in this package
  is a QI group's. NONE names nothing. Only `number` is the QI group's number that the world knows.
* A QI group's members (indexes) and slots (numbers of values) stand in one *block* of `pool`, a run of 1 << room
  entries; members in no order that decides anything, slots in theirs.
* A group that is gone keeps its index until the batch is drained, so that whoever still names it can be told.
* Compiled functions never allocate: what may run out is looked at before a move begins, and what is short is named in
  `state.short`; `streamer.incremental.core.capacity` makes it larger, and the same call goes on where it stopped.
* Every function here runs uncompiled as well (NUMBA_DISABLE_JIT=1), over the same arrays. So no field is named as an
  attribute that numpy's scalars have: `group.size` would be 1 there, whatever the record says.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np

from streamer.table.arrays import Floats, Ints
from streamer.table.space import Axis, Space

# One record per thing: the fields of the core's records, and the numbers that stand for something in them.
#
# Which arrays are made of them says `streamer.incremental.core.layout`, with the rules of both.

NONE = -1
NO_GROUP_YET, FREE = -1, -2
"""In `rows.group`: accepted and in no QI group; no row at this index."""

FAN = 16
"""Children of a node of the tree at most."""

LENGTH, LINKS = 4, 8
"""Of a similarity list: its entries when it is new, and the most that it keeps."""

GROUPS, POOL, NODES, LISTS, ENTRIES, SLOTS_BEFORE, TOUCHED, CHANGED, GONE, MEMBERS, TALLIES, EXPORT = range(1, 13)
"""What may run short, as `state.short` names it."""

NOTHING_TO_MERGE_WITH, MISCOUNTED, BELOW_K, OUTSIDE_ITS_BOX, BREAKS_MODEL = 1, 2, 3, 4, 5
"""Laws that may show to be broken, as `state.fault` names them; `state.fault_at` is the number of the QI group."""

BLOCK_SIZES = 31
"""Sizes of blocks: 1 << 0 to 1 << 30 entries."""

TO_CHECK, TO_MERGE, TO_CUT, FREED, TO_IMPROVE = 0, 1, 2, 3, 4
"""The heaps: groups that lost rows or moved, groups below k, groups to be cut, numbers to be used again, groups that
local repair looks at."""

STOPPED_SHORT, ALL_DONE, MOVED = 0, 1, 2
"""What a step of local repair says: room ran out; there is nothing to do; something was done, and there may be more."""

FORMED, WAS_LOADED, MERGED, SPLIT, CUT_AFRESH, REBUILT = 1, 2, 3, 4, 5, 6
"""How a QI group got the members that it has, as `Journal.entry` says it of the batch; 0: it had them before."""

LO, HI = 0, 1

HULL_LO, HULL_HI, HALF, CENTER_LO, CENTER_HI = 0, 1, 2, 3, 4
"""Of a node's hull, per attribute: see `Tree.hull`."""

NCP, FLOOR = 0, 1
"""Of a node's child: see `Tree.rank`."""

FIRST_LEAF, LAST_LEAF, LEAVES = 0, 1, 2
"""Of a node of a hierarchy: see `Work.path`."""

CENTER, HALF_WIDTH = 0, 1
"""Of a group's shape, per attribute: see `Groups.shape`."""

AXIS = np.dtype(
    [
        ("codes_per_cell", "i8"),
        ("overlap", "i8"),
        ("end", "f8"),
        ("width", "f8"),
        ("unit", "f8"),
        ("first_leaf", "i8"),  # where its leaves begin in `leaves_over` and `node_over`; NONE for a number
        ("n_leaves", "i8"),
        ("first_node", "i8"),
    ]
)

STATE = np.dtype(
    [
        # what the table says
        ("k", "i8"),
        ("recut", "i8"),
        ("shrink", "i8"),
        ("individuals", "i8"),
        ("exact", "i8"),  # sums of coordinates never round: the bounds of T-QGSSD need no margin
        ("tallied", "i8"),  # entries of the tally that one row needs at most
        # how much there is
        ("qi_group_next", "i8"),
        ("n_groups", "i8"),
        ("n_pending", "i8"),  # rows
        ("pending_count", "i8"),  # what k counts of them
        ("rows_used", "i8"),  # indexes ever used, the free ones among them
        ("groups_used", "i8"),
        ("group_free", "i8"),  # first of the free ones, each names the next
        ("nodes_used", "i8"),
        ("node_free", "i8"),
        ("root", "i8"),
        ("lists_used", "i8"),
        ("list_free", "i8"),
        ("pool_used", "i8"),
        ("tally_used", "i8"),
        # since the last drain
        ("n_journal", "i8"),
        ("n_slots_before", "i8"),
        ("n_touched", "i8"),
        ("n_changed", "i8"),
        ("n_gone", "i8"),
        ("n_lists_before", "i8"),
        ("rows_published_max", "i8"),
        ("merges", "i8"),
        ("splits", "i8"),
        # for the caller
        ("short", "i8"),  # which array has to grow: one of `capacity`'s names; 0: none
        ("short_by", "i8"),
        ("fault", "i8"),  # which law was broken; 0: none
        ("fault_at", "i8"),
        ("stamp", "i8"),  # of `last_seen`
        ("n_found", "i8"),  # entries of `found`
        ("n_numbers", "i8"),  # of the export
        ("n_scores", "i8"),
        ("n_gathered", "i8"),  # members of a group to be formed, in `Work.ints`
        ("half_done", "i8"),  # a row has left its group, or was added, and has still to join one
        ("query", "i8"),  # the group that `Work.query_center` and `Work.path` are about; NONE: a tuple
        ("n_candidates", "i8"),  # of `candidates`, taken by a search that goes on: others begin after them
        ("affected_score", "f8"),  # of the QI group that `next_affected` gave last
        ("refreshed", "i8"),  # the batch is checked, and the similarity lists are up to date
        ("drained", "i8"),  # the batch is exported: what comes next begins another
        ("event_open", "i8"),  # an event's rows are in, and its repairs go on
        # of local repair
        ("price", "f8"),  # the NCP that a row has to save which is published again for it; 0: there is no local repair
        ("event", "i8"),  # counts them, from 1 on
        ("spent", "i8"),  # rows that this event's evictions publish again
        ("cost", "f8"),  # of the group that `cheapest` gave last
    ]
)

ROW = np.dtype(
    [("tie_hash", "i8"), ("group", "i4"), ("at", "i4"), ("values", "i4"), ("who", "i4"), ("touched", "i4")], align=True
)

GROUP = np.dtype(
    [
        ("number", "i8"),
        ("ncp", "f8"),
        ("box_event", "i8"),  # the event in which its box was set last
        ("members", "i4"),
        ("count", "i4"),  # what k counts: individuals, else rows
        ("block", "i4"),
        ("block_bits", "i4"),
        ("node", "i4"),  # the leaf of the tree that it is in
        ("list", "i4"),  # its similarity list
        ("listed", "i4"),  # the first link that names it
        ("entry", "i4"),  # in the journal
        ("next_free", "i4"),
        ("alive", "i1"),
        ("moved", "i1"),  # its box is new or changed since the drain
        ("changed", "i1"),  # stands in `changed`
        ("to_check", "i1"),
        ("to_merge", "i1"),
        ("to_cut", "i1"),
        ("to_improve", "i1"),
        ("raw", "i1"),  # its members are gathered; box and slots are still to be made
    ],
    align=True,
)

VALUE = np.dtype([("prefix", "u8"), ("at", "i8"), ("length", "i8")])

NODE = np.dtype(
    [
        ("floor", "f8"),  # the lowest floor of the similarity lists below; inf where there is none
        ("ncp", "f8"),  # of `first`: the least of the groups below
        ("n", "i4"),
        ("parent", "i4"),  # of a node that is not used: the next such
        ("leaf", "i4"),  # its children are QI groups
        ("first", "i4"),  # the group below that wins ties: least NCP, fewest members, lowest number
        ("lowest", "i4"),  # the group below of lowest number
    ],
    align=True,
)

LIST = np.dtype(
    [("floor", "f8"), ("owner", "i4"), ("n", "i4"), ("entered", "i4"), ("before", "i4"), ("next_free", "i4")],
    align=True,
)

LINK = np.dtype([("score", "f8"), ("other", "i4"), ("next", "i4"), ("previous", "i4")], align=True)

ENTRY = np.dtype(
    [("number", "i8"), ("group", "i4"), ("members", "i4"), ("slots", "i4"), ("origin", "i4")],
    align=True,
)

LIST_BEFORE = np.dtype([("floor", "f8"), ("owner", "i4"), ("n", "i4")], align=True)

HEAP = np.dtype([("number", "i8"), ("named", "i8")])

TALLY = np.dtype([("group", "i4"), ("who", "i4"), ("n", "i4")])

DEMAND = np.dtype(
    [
        ("least", "i8"),  # distinct subjects
        ("numerator", "i8"),  # of the largest share of the rows that one subject may have; 1 of 1: any
        ("denominator", "i8"),
        ("of_individuals", "i8"),  # the subjects are individuals, else what `Demands.code` says of the values
    ]
)

REACHED = np.dtype(
    [
        ("distinct", "i4"),
        ("single", "i4"),  # subjects with one row
        ("top", "i4"),  # rows of the subject that has most; counted where a share is query for
    ]
)

CANDIDATE = np.dtype([("bound", "f8"), ("node", "i8")])

FOUND = np.dtype([("score", "f8"), ("group", "i8")])

INSERT, REWRITE, TAKE, DISSOLVE, LOAD, GATHER, FORM, REFORM, RETIRE = 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Kinds of operations: see `streamer.incremental.core.step`."""

OPERATION = np.dtype(
    [("tie_hash", "i8"), ("kind", "i4"), ("index", "i4"), ("values", "i4"), ("who", "i4"), ("ends", "i4")], align=True
)

Records = Any
"""A record array: `numpy.recarray`, whose fields no checker of types knows."""


def records(n: int | tuple[int, ...], dtype: np.dtype[Any]) -> Records:
    """n records of zeros, whose fields are attributes."""
    return np.zeros(n, dtype).view(np.recarray)


class Geometry(NamedTuple):
    """The quasi-identifiers; never changes. Shared by nobody, so that no two threads count references to it.

    axes (d,) AXIS. leaves_over, node_over (levels, all leaves) int32: level i has at a leaf a the most leaves, and the
    least number, of the smallest nodes over two neighbours among a..a + 2^i; a node above others has the lower number
    and the most leaves, so two look-ups answer for a run of any length. power (most leaves + 1,) int32: the largest i
    with 2^i <= n. node_ends (nodes, 2) int32: first and last leaf.
    """

    axes: Records
    leaves_over: Any
    node_over: Any
    power: Any
    node_ends: Any


class CoreRows(NamedTuple):
    """The rows by index. row (indexes,) ROW; cells (indexes, d) int32."""

    row: Records
    cells: Any


class CoreGroups(NamedTuple):
    """The QI groups. group (groups,) GROUP; box (groups, 2, d) int32, LO and HI, in cells, categories as a node's ends.

    shape (groups, 2, d): CENTER and HALF_WIDTH in codes; of a category CENTER is the middle of its leaves, HALF_WIDTH
    how many they are. float32 if it holds all such figures exactly, else float64. pool (2, entries) int32: members
    and slots, in blocks. block_free (BLOCK_SIZES,) int32: the first free block of each size, each names the next in pool[0].
    """

    group: Records
    box: Any
    shape: Any
    pool: Any
    block_free: Any


class CoreTree(NamedTuple):
    """The exact index. node (nodes,) NODE; child (nodes, FAN) int32: nodes, in a leaf groups.

    hull (nodes, 5, d), of the type of `Groups.shape`: HULL_LO and HULL_HI enclose center - half-width and center +
    half-width of all groups below (for a category, their leaves), HALF is the largest half-width (most leaves),
    CENTER_LO and CENTER_HI enclose the centers.

    What a search asks of a node's children stands beside them, the children of a node side by side: lane (nodes, d, 5,
    FAN) as their hulls, of a group its own figures; rank (nodes, 2, FAN) float64: NCP and FLOOR of `NODE`, of a group
    its own. Behind the last child there is anything that does no harm.
    """

    node: Records
    child: Any
    hull: Any
    lane: Any
    rank: Any


class Lists(NamedTuple):
    """The similarity lists. one (lists,) LIST; link (lists * LINKS,) LINK: list l has l * LINKS to l * LINKS + n - 1.

    The links that name one group are a chain: `group.listed`, `next`, `previous`. `entered`: how many entries there
    would be if there were room; of more than LINKS the best are kept, which is all that shortening looks at.
    before (lists that changed since the drain,) LIST_BEFORE; links_before (the same * LINKS,) LINK: as they were.
    """

    one: Records
    link: Records
    before: Records
    links_before: Records


class Journal(NamedTuple):
    """What was touched since the last drain.

    entry (entries,) ENTRY: a QI group as it was published before, members 0 where it was not; `group` is NONE once it
    is gone. box (entries, 2, d) int32; slots_before int32: its slots from entry.slots on. touched int32: indexes of rows
    that changed or whose QI group did. changed int32: groups whose box or size did; gone int32: groups.
    """

    entry: Records
    box: Any
    slots_before: Any
    touched: Any
    changed: Any
    gone: Any


class Export(NamedTuple):
    """The net effect of a batch, for Python: numbers int64, scores float64; see `streamer.incremental.core.step`."""

    numbers: Any
    scores: Any


class CoreValues(NamedTuple):
    """The published values by number: value (values,) VALUE, text uint8: their bytes, joined by a zero byte.

    prefix: the first eight bytes, the first of them highest. Ordered by text they are ordered as tuples.
    """

    value: Records
    text: Any


class Demands(NamedTuple):
    """What the privacy model asks beyond k, c demands, and how far it is reached; see `core.model`.

    demand (c,) DEMAND, one for each subject, that of the individuals first. code (values, c) int32: what each counts of
    values, as -2 - the number of it; NONE: nothing. reached (1 + groups, c) REACHED: by the pending rows, by each QI
    group. For one skip some rows: passed (c,) REACHED; seen (numbers of what is counted,) int64; fits (n,) int8,
    n at least the rows of the largest group.
    """

    demand: Records
    code: Any
    reached: Records
    passed: Records
    seen: Ints
    fits: Any


class Work(NamedTuple):
    """Room for the answers in between.

    heap (5, twice the groups) HEAP, with heap_size (5,) int64. tally TALLY: rows of an individual in a group, a hash,
    and what `core.model` counts.
    last_seen (individuals,) int64. For cuts: ints (5, n) int32, tie_hashes (2, n) uint64, losses (n,), n at least the rows of
    the largest group; hull (2, 2, d) int32. candidates CANDIDATE: nodes to be visited. found (FAN,) FOUND: the best.
    query_center (d,) float64: where the tuple that is located stands, see `geometry.middle`; of a QI group its center, or
    the first of its leaves. path (d, levels, 3), of the type of `Groups.shape`: of a category of the query and
    of the nodes above it, up to the root, FIRST_LEAF, LAST_LEAF, LEAVES, with n_path (d,) int64. Of a node's children
    bounds (FAN,) float64, over (FAN,) as `path`, order (FAN,) int64.
    """

    heap: Records
    heap_size: Ints
    tally: Records
    last_seen: Ints
    ints: Any
    tie_hashes: Any
    losses: Any
    hull: Any
    candidates: Records
    found: Records
    query_center: Floats
    path: Any
    n_path: Ints
    over: Any
    bounds: Floats
    order: Ints


class Shard(NamedTuple):
    """Everything: what the compiled functions take. state (1,) STATE."""

    state: Records
    space: Geometry
    rows: CoreRows
    groups: CoreGroups
    tree: CoreTree
    lists: Lists
    journal: Journal
    values: CoreValues
    demands: Demands
    export: Export
    work: Work


FIRST_CAPACITY = 1024
CANDIDATES = 1 << 12


def geometry(space: Space) -> Geometry:
    """The quasi-identifiers as arrays."""
    axes = records(space.d, AXIS)
    leaves = [0 if axis.hierarchy is None else axis.hierarchy.n_leaves for axis in space.axes]
    nodes = [0 if axis.hierarchy is None else axis.hierarchy.n_nodes for axis in space.axes]
    power = np.array([max(n, 1).bit_length() - 1 for n in range(max(leaves, default=0) + 1)], dtype=np.int32)
    leaves_over = np.zeros((int(power[-1]) + 1, max(1, sum(leaves))), dtype=np.int32)
    node_over = np.zeros_like(leaves_over)
    node_ends = np.zeros((max(1, sum(nodes)), 2), dtype=np.int32)
    axes.codes_per_cell, axes.overlap, axes.end = space.codes_per_cell, space.overlap, space.end
    axes.width, axes.unit, axes.first_leaf = space.width, space.unit_codes, NONE
    for j, tree in space.trees:
        first, first_node = sum(leaves[:j]), sum(nodes[:j])
        axes.first_leaf[j], axes.n_leaves[j], axes.first_node[j] = first, tree.n_leaves, first_node
        node_ends[first_node : first_node + tree.n_nodes] = np.column_stack([tree.node_lo, tree.node_hi])
        pairs = np.arange(tree.n_leaves - 1)
        node = tree.cover_many(pairs, pairs + 1)
        over, numbers = leaves_over[:, first : first + tree.n_leaves], node_over[:, first : first + tree.n_leaves]
        over[0, :-1], numbers[0, :-1] = tree.node_hi[node] - tree.node_lo[node] + 1, node + first_node
        for i in range(1, len(leaves_over)):
            reach = 1 << (i - 1)
            over[i], numbers[i] = over[i - 1], numbers[i - 1]
            if reach < tree.n_leaves:
                over[i, :-reach] = np.maximum(over[i - 1, :-reach], over[i - 1, reach:])
                numbers[i, :-reach] = np.minimum(numbers[i - 1, :-reach], numbers[i - 1, reach:])
    return Geometry(axes, leaves_over, node_over, power, node_ends)


def is_exact(space: Space) -> bool:
    """Whether no sum or difference of edges, centers and half-widths ever rounds in float64."""
    return all(float(end).is_integer() for end in space.end) and bool(
        (space.n_cells * space.codes_per_cell < 2**50).all()
    )


def figures_dtype(space: Space) -> np.dtype[Any]:
    """float32 if it holds every center and half-width exactly, else float64."""
    if not is_exact(space):
        return np.dtype(np.float64)
    for end, *lengths in zip(space.end, space.codes_per_cell, space.overlap, strict=True):
        common = gcd(int(end), *map(int, lengths))
        step = (common & -common) / 2
        if step and (end + 1) / step >= 2**24:
            return np.dtype(np.float64)
    return np.dtype(np.float32)


def empty_shard(
    space: Space,
    k: int,
    recut: bool,
    shrink: bool,
    individuals: bool,
    demand: Records | None = None,
    price: float = 0.0,
) -> Shard:
    """A shard without rows; demand (c,) DEMAND: what is query beyond k.

    price: of `engine: {repair: ...}`, 0 without local repair.
    """
    figures, d, n = figures_dtype(space), space.d, FIRST_CAPACITY
    demand = records(0, DEMAND) if demand is None else demand
    state = records(1, STATE)
    state.k, state.recut, state.shrink, state.individuals, state.exact = k, recut, shrink, individuals, is_exact(space)
    state.tallied = individuals + int((1 - demand.of_individuals + (demand.numerator < demand.denominator)).sum())
    state.qi_group_next = state.event = 1
    state.price = price
    for first_of in ("group_free", "node_free", "list_free", "root"):
        state[first_of] = NONE
    return Shard(
        state,
        geometry(space),
        CoreRows(records(n, ROW), np.zeros((n, d), np.int32)),
        CoreGroups(
            records(n, GROUP),
            np.zeros((n, 2, d), np.int32),
            np.zeros((n, 2, d), figures),
            np.zeros((2, 16 * n), np.int32),
            np.full(BLOCK_SIZES, NONE, np.int32),
        ),
        CoreTree(
            records(n, NODE),
            np.zeros((n, FAN), np.int32),
            np.zeros((n, 5, d), figures),
            np.zeros((n, d, 5, FAN), figures),
            np.zeros((n, 2, FAN)),
        ),
        Lists(records(n, LIST), records(n * LINKS, LINK), records(n, LIST_BEFORE), records(n * LINKS, LINK)),
        Journal(
            records(n, ENTRY),
            np.zeros((n, 2, d), np.int32),
            np.zeros(16 * n, np.int32),
            np.zeros(n, np.int32),
            np.zeros(n, np.int32),
            np.zeros(n, np.int32),
        ),
        CoreValues(records(n, VALUE), np.zeros(16 * n, np.uint8)),
        Demands(
            demand,
            np.full((n, len(demand)), NONE, np.int32),
            records((1 + n, len(demand)), REACHED),
            records(len(demand), REACHED),
            np.zeros(n if len(demand) else 1, np.int64),
            np.zeros(n, np.int8),
        ),
        Export(np.zeros(16 * n, np.int64), np.zeros(16 * n)),
        _empty_work(space, n, figures, individuals, bool(state.tallied[0])),
    )


def _empty_work(space: Space, n: int, figures: np.dtype[Any], individuals: bool, tallied: bool) -> Work:
    """Room for n rows and groups; figures: the type of centers and half-widths."""
    d, levels = space.d, max((tree.n_levels for _, tree in space.trees), default=1)
    return Work(
        records((5, 2 * n), HEAP),
        np.zeros(5, np.int64),
        records(n if tallied else 1, TALLY),
        np.zeros(n if individuals else 1, np.int64),
        np.zeros((5, n), np.int32),
        np.zeros((2, n), np.uint64),
        np.zeros(n),
        np.zeros((2, 2, d), np.int32),
        records(CANDIDATES, CANDIDATE),
        records(FAN, FOUND),
        np.zeros(d),
        np.zeros((d, levels, 3), figures),
        np.zeros(d, np.int64),
        np.zeros(FAN, figures),
        np.zeros(FAN),
        np.zeros(FAN, np.int64),
    )


# The two types of figures, and the set of machine code for each.
#
# Nothing in the core is specialised to a table but the type of its figures. Nearly every table has them in float32;
# float64's set is made where a table needs it.

FLOAT32, FLOAT64 = "float32", "float64"
FIGURES = (FLOAT32, FLOAT64)


def set_of_figures(figures: str) -> str:
    """The name of the set of machine code that tables run on whose figures are of this type."""
    return f"core-{figures}"


def set_of(shard: Shard, *_others: object) -> str:
    """The same, by an entry's arguments."""
    return set_of_figures(shard.groups.shape.dtype.name)


def tiny_shard(figures: str) -> Shard:
    """An empty shard whose figures are of this type."""
    width = 1.0 if figures == FLOAT32 else 0.1
    shard = empty_shard(Space([Axis(1, 2, True, width, 1.0, None)]), 2, True, True, False)
    if shard.groups.shape.dtype != np.dtype(figures):
        raise ValueError(f"figures of a domain of {width} codes are no longer {figures}: choose another one here")
    return shard
