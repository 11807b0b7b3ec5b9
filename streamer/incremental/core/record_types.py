"""One record per thing: the fields of the core's records, and the numbers that stand for something in them.

Which arrays are made of them says `streamer.incremental.core.layout`, with the rules of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NONE = -1
PENDING, FREE = -1, -2
"""In `rows.group`: accepted and in no QI group; no row at this place."""

FAN = 16
"""Children of a node of the tree at most."""

LENGTH, LINKS = 4, 8
"""Of a similarity list: its entries when it is new, and the most that it keeps."""

GROUPS, POOL, NODES, LISTS, ENTRIES, SLOTS_BEFORE, TOUCHED, CHANGED, GONE, MEMBERS, TALLIES, EXPORT = range(1, 13)
"""What may run short, as `state.short` names it."""

NOTHING_TO_MERGE_WITH, MISCOUNTED, BELOW_K, OUTSIDE_ITS_BOX, BREAKS_MODEL = 1, 2, 3, 4, 5
"""Laws that may show to be broken, as `state.fault` names them; `state.fault_at` is the number of the QI group."""

ROOMS = 31
"""Sizes of blocks: 1 << 0 to 1 << 30 entries."""

TO_SETTLE, BROKEN, TO_CUT, FREED, TO_LOOK = 0, 1, 2, 3, 4
"""The heaps: groups that lost rows or moved, groups below k, groups to be cut, numbers to be used again, groups that
local repair looks at."""

STOPPED, DONE, MOVED = 0, 1, 2
"""What a step of local repair says: room ran out; there is nothing to do; something was done, and there may be more."""

FORMED, LOADED, MERGED, SPLIT, CUT_AFRESH, REBUILT = 1, 2, 3, 4, 5, 6
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
        ("n_places", "i8"),  # places ever used, the free ones among them
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
        ("short", "i8"),  # which array has to grow: one of `room`'s names; 0: none
        ("short_by", "i8"),
        ("fault", "i8"),  # which law was broken; 0: none
        ("fault_at", "i8"),
        ("stamp", "i8"),  # of `who_seen`
        ("n_found", "i8"),  # entries of `found`
        ("n_numbers", "i8"),  # of the export
        ("n_scores", "i8"),
        ("n_gathered", "i8"),  # members of a group to be formed, in `Work.ints`
        ("half_done", "i8"),  # a row has left its group, or was added, and has still to join one
        ("asked", "i8"),  # the group that `Work.middles` and `Work.path` are about; NONE: a tuple
        ("n_candidates", "i8"),  # of `candidates`, taken by a search that goes on: others begin after them
        ("entered_score", "f8"),  # of the QI group that `next_entered` gave last
        ("refreshed", "i8"),  # the batch is checked, and the similarity lists are up to date
        ("drained", "i8"),  # the batch is exported: what comes next begins another
        ("event_open", "i8"),  # an event's rows are in, and its repairs go on
        # of local repair
        ("price", "f8"),  # the NCP that a row has to save which is published again for it; 0: there is no local repair
        ("event", "i8"),  # counts them, from 1 on
        ("spent", "i8"),  # rows that this event's evictions publish again
        ("expense", "f8"),  # of the group that `cheapest` gave last
    ]
)

ROW = np.dtype(
    [("lot", "i8"), ("group", "i4"), ("at", "i4"), ("values", "i4"), ("who", "i4"), ("touched", "i4")], align=True
)

GROUP = np.dtype(
    [
        ("number", "i8"),
        ("ncp", "f8"),
        ("paid", "i8"),  # the event in which its box was set last
        ("members", "i4"),
        ("count", "i4"),  # what k counts: individuals, else rows
        ("block", "i4"),
        ("room", "i4"),
        ("node", "i4"),  # the leaf of the tree that it is in
        ("list", "i4"),  # its similarity list
        ("listed", "i4"),  # the first link that names it
        ("entry", "i4"),  # in the journal
        ("next_free", "i4"),
        ("alive", "i1"),
        ("moved", "i1"),  # its box is new or changed since the drain
        ("changed", "i1"),  # stands in `changed`
        ("to_settle", "i1"),
        ("broken", "i1"),
        ("to_cut", "i1"),
        ("to_look", "i1"),
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
        ("top", "i4"),  # rows of the subject that has most; counted where a share is asked for
    ]
)

CANDIDATE = np.dtype([("bound", "f8"), ("node", "i8")])

FOUND = np.dtype([("score", "f8"), ("group", "i8")])

INSERT, REWRITE, TAKE, DISSOLVE, LOAD, GATHER, FORM, REFORM, RETIRE = 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Kinds of operations: see `streamer.incremental.core.step`."""

OPERATION = np.dtype(
    [("lot", "i8"), ("kind", "i4"), ("place", "i4"), ("values", "i4"), ("who", "i4"), ("ends", "i4")], align=True
)

Records = Any
"""A record array: `numpy.recarray`, whose fields no checker of types knows."""


def records(n: int | tuple[int, ...], dtype: np.dtype[Any]) -> Records:
    """n records of zeros, whose fields are attributes."""
    return np.zeros(n, dtype).view(np.recarray)
