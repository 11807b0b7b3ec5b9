"""The arrays that a shard's table is made of: every name and shape of the core; dtypes are in `core.record_types`.

The rules of this file
----------------------
* The core knows a row by its cells, the number of its published values, the number of its individual and its lot:
  what may decide what is published, and nothing else. Codes, source keys and names stay outside, in
  `streamer.incremental.groups.rows`.
* Arrays are named as what they hold. A record array has one record per thing; a vector of d, or of a node's children,
  is an array of its own beside it, so that no code is tied to the number of attributes.
* Things name each other by small numbers, their places in these arrays: a *place* is a row's, a `group` in this package
  is a QI group's. NONE names nothing. Only `number` is the QI group's number that the world knows.
* A QI group's members (places) and slots (numbers of values) stand in one *block* of `pool`, a run of 1 << room
  entries; members in no order that decides anything, slots in theirs.
* A group that is gone keeps its place until the batch is drained, so that whoever still names it can be told.
* Compiled functions never allocate: what may run out is looked at before a move begins, and what is short is named in
  `state.short`; `streamer.incremental.core.room` makes it larger, and the same call goes on where it stopped.
* Every function here runs uncompiled as well (NUMBA_DISABLE_JIT=1), over the same arrays. So no field is named as an
  attribute that numpy's scalars have: `group.size` would be 1 there, whatever the record says.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np

from streamer.incremental.core.record_types import (
    AXIS,
    CANDIDATE,
    DEMAND,
    ENTRY,
    FAN,
    FOUND,
    GROUP,
    HEAP,
    LINK,
    LINKS,
    LIST,
    LIST_BEFORE,
    NODE,
    NONE,
    REACHED,
    ROOMS,
    ROW,
    STATE,
    TALLY,
    VALUE,
    Records,
    records,
)
from streamer.table.arrays import Floats, Ints
from streamer.table.space import Space


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


class Rows(NamedTuple):
    """The rows by place. row (places,) ROW; cells (places, d) int32."""

    row: Records
    cells: Any


class Groups(NamedTuple):
    """The QI groups. group (groups,) GROUP; box (groups, 2, d) int32, LO and HI, in cells, categories as a node's ends.

    shape (groups, 2, d): CENTER and HALF_WIDTH in codes; of a category CENTER is the middle of its leaves, HALF_WIDTH
    how many they are. float32 where it holds all such figures exactly, else float64. pool (2, entries) int32: members
    and slots, in blocks. block_free (ROOMS,) int32: the first free block of each size, each names the next in pool[0].
    """

    group: Records
    box: Any
    shape: Any
    pool: Any
    block_free: Any


class Tree(NamedTuple):
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
    is gone. box (entries, 2, d) int32; slots_before int32: its slots from entry.slots on. touched int32: places of rows
    that changed or whose QI group did. changed int32: groups whose box or size did; gone int32: groups.
    """

    entry: Records
    box: Any
    slots_before: Any
    touched: Any
    changed: Any
    gone: Any


class Export(NamedTuple):
    """The net effect of a batch, for Python: numbers int64, scores float64; see `streamer.incremental.core.export`."""

    numbers: Any
    scores: Any


class Values(NamedTuple):
    """The published values by number: value (values,) VALUE, text uint8: their bytes, joined by a zero byte.

    prefix: the first eight bytes, the first of them highest. Ordered by text they are ordered as tuples.
    """

    value: Records
    text: Any


class Demands(NamedTuple):
    """What the privacy model asks beyond k, c demands, and how far it is reached; see `core.model`.

    demand (c,) DEMAND, one for each subject, that of the individuals first. code (values, c) int32: what each counts of
    values, as -2 - the number of it; NONE: nothing. reached (1 + groups, c) REACHED: by the pending rows, by each QI
    group. For one pass over some rows: passed (c,) REACHED; seen (numbers of what is counted,) int64; fits (n,) int8,
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
    who_seen (individuals,) int64. For cuts: ints (5, n) int32, lots (2, n) uint64, losses (n,), n at least the rows of
    the largest group; hull (2, 2, d) int32. candidates CANDIDATE: nodes to be visited. found (FAN,) FOUND: the best.
    middles (d,) float64: where the tuple that is located stands, see `geometry.middle`; of a QI group its center, or
    the first of its leaves. path (d, levels, 3), of the type of `Groups.shape`: of a category that is asked about and
    of the nodes above it, up to the root, FIRST_LEAF, LAST_LEAF, LEAVES, with n_path (d,) int64. Of a node's children
    bounds (FAN,) float64, over (FAN,) as `path`, order (FAN,) int64.
    """

    heap: Records
    heap_size: Ints
    tally: Records
    who_seen: Ints
    ints: Any
    lots: Any
    losses: Any
    hull: Any
    candidates: Records
    found: Records
    middles: Floats
    path: Any
    n_path: Ints
    over: Any
    bounds: Floats
    order: Ints


class Shard(NamedTuple):
    """Everything: what the compiled functions take. state (1,) STATE."""

    state: Records
    space: Geometry
    rows: Rows
    groups: Groups
    tree: Tree
    lists: Lists
    journal: Journal
    values: Values
    demands: Demands
    export: Export
    work: Work


FIRST_ROOM = 1024
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
    """float32 where it holds every center and half-width exactly, else float64."""
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
    """A shard without rows; demand (c,) DEMAND: what is asked beyond k.

    price: of `engine: {repair: ...}`, 0 without local repair.
    """
    figures, d, n = figures_dtype(space), space.d, FIRST_ROOM
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
        Rows(records(n, ROW), np.zeros((n, d), np.int32)),
        Groups(
            records(n, GROUP),
            np.zeros((n, 2, d), np.int32),
            np.zeros((n, 2, d), figures),
            np.zeros((2, 16 * n), np.int32),
            np.full(ROOMS, NONE, np.int32),
        ),
        Tree(
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
        Values(records(n, VALUE), np.zeros(16 * n, np.uint8)),
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
