"""Looking up groups by box, and counting what they hold of each subject, while groups change.

Every group is in a *slot*, a number that another group may get once the slot is empty; an empty slot has no rows and
takes no part. The bundles of a group are a linked list.

The slots are the leaves of a binary tree. Its nodes keep the box around all groups below and, of each attribute, the
largest NCP of any of them. These give a lower bound of the growth for all groups below: a group that does not reach the
bundle's cell grows at least to the cell from the near edge of the box around all. `nearest_by` visits the child of the
lower bound first (of equals the left one) and skips what cannot beat the best so far. It stops after some nodes, so a
search costs no more in a table of a million rows.

`streamer.privacy.compiled` counts one group at a time, at the cost of all its rows. `SubjectCounts` keeps the counts of
all groups in one table (`streamer.kernels.counts`), so a question about a large group and a few rows costs as much as
the few rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, ncp_term, total, widen
from streamer.kernels.counts import CountTable, count_in, count_of, count_out
from streamer.kernels.distributions import shortage
from streamer.kernels.shares import keeps_share
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Rules
from streamer.progress import OnProgress, pieces
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, Task, add_bundle, remove_bundle, rows_in
from streamer.table.arrays import Bools, Floats, Ints

GAIN_MIN = 1e-9
"""A move gains at least this, so that rounding is never taken for a gain."""

NEAREST_VISITS = 128
FAIR, VISITS = 2.0, 512
"""How far a bundle goes, and the most nodes that the search for the targets of all bundles of a group visits."""

ROWS_PER_SLOT = 1_024
"""To improve a group takes about as long as this number of rows takes in other loops."""

ROOM = 3


class SubjectCounts(NamedTuple):
    """Counts over g slots and s subjects, whose codes are c in all."""

    first: Ints  # (s,) where a subject's codes begin among the c
    n_codes: Ints  # (1,) c
    rows: CountTable  # by slot * c + code
    top: Ints  # (g, s) the largest count, or more
    n_distinct: Ints  # (g, s)


def counts_for(rules: Rules, n_slots: int) -> SubjectCounts:
    """Counts of nothing, with room for all rows."""
    n, s = rules.subjects.shape
    first, n_codes = np.zeros(s, np.int64), 0
    for i in range(s):
        first[i] = n_codes
        most = 0
        for row in range(n):
            most = max(most, rules.subjects[row, i])
        n_codes += most + 1
    size = max(16, ROOM * n * s)
    rows = CountTable(np.zeros(size, np.int64), np.zeros(size, np.int64))
    top, n_distinct = np.zeros((n_slots, s), np.int64), np.zeros((n_slots, s), np.int64)
    return SubjectCounts(first, np.full(1, n_codes, np.int64), rows, top, n_distinct)


@inlined
def _key(counts: SubjectCounts, slot: int, i: int, code: int) -> int:
    return int(slot * counts.n_codes[0] + counts.first[i] + code)


@inlined
def rows_with(counts: SubjectCounts, slot: int, i: int, code: int) -> int:
    """Rows of a slot with a code of subject i."""
    return count_of(counts.rows, _key(counts, slot, i, code))


def count_row(rules: Rules, counts: SubjectCounts, slot: int, row: int) -> None:
    """Adds a row to a slot."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        n = count_in(counts.rows, _key(counts, slot, i, code))
        counts.n_distinct[slot, i] += int(n == 1)
        counts.top[slot, i] = max(counts.top[slot, i], n)


def discount_row(rules: Rules, counts: SubjectCounts, slot: int, row: int) -> None:
    """Removes a row from a slot; `top` stays, and may then be too large."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        counts.n_distinct[slot, i] -= int(count_out(counts.rows, _key(counts, slot, i, code)) == 0)


def count_bundle(task: Task, counts: SubjectCounts, slot: int, bundle: int) -> None:
    """Adds the rows of a bundle to a slot."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        count_row(task.rules, counts, slot, row)


def recount_bundle(task: Task, counts: SubjectCounts, bundle: int, source: int, target: int) -> None:
    """Moves the rows of a bundle from slot to slot."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        discount_row(task.rules, counts, source, row)
        count_row(task.rules, counts, target, row)


@compiled
def counts_of(task: Task, qi_group: Ints, n_slots: int) -> SubjectCounts:
    """Counts of the groups that qi_group (m,) numbers, below n_slots; negative numbers are not counted."""
    counts = counts_for(task.rules, n_slots)
    for bundle in range(qi_group.shape[0]):
        if qi_group[bundle] >= 0:
            count_bundle(task, counts, qi_group[bundle], bundle)
    return counts


class Groups(NamedTuple):
    """g slots over m bundles. Slot i is leaf w + i of the tree; inner node i has the children 2i and 2i + 1."""

    first: Ints  # (g,) the first bundle of a group; -1: the slot is empty
    next: Ints  # (m,) the bundle after each; -1: it is the last one
    rows: Ints  # (g,)
    ncp: Floats  # (g,)
    free: Ints  # (g,) the empty slots, the one to fill next last
    n_free: Ints  # (1,) how many
    changed: Bools  # (g,) set when a slot is filled, cleared by the sweep that has tried it
    fillings: Ints  # (g,) how often a slot was filled by `put`
    lo: Ints  # (2w, d) boxes
    hi: Ints
    term: Floats  # (2w, d) NCP by attribute, of an inner node the largest of its children's


@compiled
def groups_of(task: Task, qi_group: Ints, n_slots: int) -> Groups:
    """The groups that qi_group (m,) numbers, below n_slots."""
    bundles = task.bundles
    m, d = bundles.cells.shape
    w = 1
    while w < n_slots:
        w *= 2
    groups = Groups(np.full(n_slots, -1, np.int64), np.full(m, -1, np.int64), np.zeros(n_slots, np.int64),
        np.zeros(n_slots), np.zeros(n_slots, np.int64), np.zeros(1, np.int64), np.ones(n_slots, np.bool_),
        np.zeros(n_slots, np.int64), np.full((2 * w, d), EMPTY_LO), np.full((2 * w, d), EMPTY_HI),
        np.zeros((2 * w, d)))  # fmt: skip
    _fill(task, groups, qi_group)
    return groups


def _fill(task: Task, groups: Groups, qi_group: Ints) -> None:
    """Puts all bundles into their slots, which are empty."""
    w = groups.lo.shape[0] // 2
    for bundle in range(qi_group.shape[0] - 1, -1, -1):
        _prepend(task, groups, qi_group[bundle], bundle)
    for slot in range(groups.rows.shape[0] - 1, -1, -1):
        groups.ncp[slot] = total(groups.term[w + slot])
        if groups.rows[slot] == 0:
            groups.free[groups.n_free[0]] = slot
            groups.n_free[0] += 1
    for node in range(w - 1, 0, -1):
        _join_children(groups, node)


@inlined
def _prepend(task: Task, groups: Groups, slot: int, bundle: int) -> bool:
    """Puts a bundle before the others of a slot; True if the slot's box grew."""
    leaf = groups.lo.shape[0] // 2 + slot
    groups.next[bundle] = groups.first[slot]
    groups.first[slot] = bundle
    groups.rows[slot] += task.bundles.end[bundle] - task.bundles.begin[bundle]
    cells = task.bundles.cells[bundle]
    return widen(task.shape, cells, cells, groups.lo[leaf], groups.hi[leaf], groups.term[leaf])


def _join_children(groups: Groups, node: int) -> bool:
    """Makes the box and NCP of an inner node those of its children; True if that changed them."""
    changed = False
    for j in range(groups.lo.shape[1]):
        lo = min(groups.lo[2 * node, j], groups.lo[2 * node + 1, j])
        hi = max(groups.hi[2 * node, j], groups.hi[2 * node + 1, j])
        term = max(groups.term[2 * node, j], groups.term[2 * node + 1, j])
        if lo != groups.lo[node, j] or hi != groups.hi[node, j] or term != groups.term[node, j]:
            groups.lo[node, j], groups.hi[node, j], groups.term[node, j] = lo, hi, term
            changed = True
    return changed


def _box_changed(groups: Groups, slot: int) -> None:
    """Updates the group's NCP and the nodes above it."""
    leaf = groups.lo.shape[0] // 2 + slot
    groups.ncp[slot] = total(groups.term[leaf])
    node = leaf // 2
    while node > 0 and _join_children(groups, node):
        node //= 2


def put(task: Task, groups: Groups, slot: int, members: Ints) -> None:
    """Makes `members`, bundles in their order, the group in a slot; none: the slot is empty."""
    leaf = groups.lo.shape[0] // 2 + slot
    groups.lo[leaf], groups.hi[leaf], groups.term[leaf] = EMPTY_LO, EMPTY_HI, 0.0
    groups.rows[slot], groups.first[slot], groups.changed[slot] = 0, -1, True
    groups.fillings[slot] += 1
    for bundle in members[::-1]:
        _prepend(task, groups, slot, bundle)
    _box_changed(groups, slot)


def join(task: Task, groups: Groups, slot: int, bundle: int) -> None:
    """Puts a bundle before the others of a slot; for the slot that had it, `put` must be called with what is left."""
    groups.changed[slot] = True
    if _prepend(task, groups, slot, bundle):
        _box_changed(groups, slot)


def unlink(task: Task, groups: Groups, slot: int, before: int, bundle: int) -> None:
    """Takes a bundle out of a slot's list, where it stands after `before`; -1: it is the first. The box stays."""
    if before < 0:
        groups.first[slot] = groups.next[bundle]
    else:
        groups.next[before] = groups.next[bundle]
    groups.rows[slot] -= task.bundles.end[bundle] - task.bundles.begin[bundle]
    groups.changed[slot] = True
    groups.fillings[slot] += 1


def narrow(task: Task, groups: Groups, slot: int, lo: Ints, hi: Ints) -> None:
    """Makes lo..hi (d,) the box of a slot, in which fewer bundles are left, or none (EMPTY_LO, EMPTY_HI)."""
    leaf = groups.lo.shape[0] // 2 + slot
    for j in range(lo.shape[0]):
        if lo[j] != groups.lo[leaf, j] or hi[j] != groups.hi[leaf, j]:
            groups.lo[leaf, j], groups.hi[leaf, j] = lo[j], hi[j]
            groups.term[leaf, j] = ncp_term(task.shape, j, lo[j], hi[j]) if lo[j] <= hi[j] else 0.0
    _box_changed(groups, slot)


def unite(task: Task, groups: Groups, gone: int, stays: int) -> None:
    """Moves all bundles of a slot into another, before those there; the first then stays empty."""
    w = groups.lo.shape[0] // 2
    last = groups.first[gone]
    while groups.next[last] >= 0:
        last = groups.next[last]
    groups.next[last] = groups.first[stays]
    groups.first[stays], groups.first[gone], groups.changed[stays] = groups.first[gone], -1, True
    groups.rows[stays] += groups.rows[gone]
    groups.rows[gone] = 0
    for j in range(groups.lo.shape[1]):
        lo, hi = groups.lo[w + stays, j], groups.hi[w + stays, j]
        groups.lo[w + stays, j] = min(lo, groups.lo[w + gone, j])
        groups.hi[w + stays, j] = max(hi, groups.hi[w + gone, j])
        if groups.lo[w + stays, j] < lo or groups.hi[w + stays, j] > hi:
            groups.term[w + stays, j] = ncp_term(task.shape, j, groups.lo[w + stays, j], groups.hi[w + stays, j])
    groups.lo[w + gone], groups.hi[w + gone], groups.term[w + gone] = EMPTY_LO, EMPTY_HI, 0.0
    _box_changed(groups, gone)
    _box_changed(groups, stays)


def changed_slots(task: Task, groups: Groups, on_progress: OnProgress) -> Iterator[Ints]:
    """The slots whose groups have changed, some at a time."""
    slots = np.flatnonzero(groups.changed)
    for piece in pieces(len(slots), max(1, task.rows_per_call // ROWS_PER_SLOT), on_progress):
        yield slots[piece]


def count_group(task: Task, groups: Groups, slot: int) -> None:
    """Counts the rows of a slot into the task's scratch."""
    bundle = groups.first[slot]
    while bundle >= 0:
        add_bundle(task, bundle)
        bundle = groups.next[bundle]


def discount_group(task: Task, groups: Groups, slot: int) -> None:
    """Takes them back."""
    bundle = groups.first[slot]
    while bundle >= 0:
        remove_bundle(task, bundle)
        bundle = groups.next[bundle]


def short_together(task: Task, groups: Groups, counts: SubjectCounts, slot: int, other: int, bundle: int) -> int:
    """By how much a slot, another one and a bundle together miss the laws; -1: without the slot, or the bundle."""
    most, size = 0, groups.rows[slot] + (groups.rows[other] if other >= 0 else 0)
    begin = task.bundles.begin[bundle] if bundle >= 0 else 0
    end = task.bundles.end[bundle] if bundle >= 0 else 0
    for law in range(task.rules.laws.kind.shape[0]):
        i = task.rules.laws.subject[law]
        n = _count_aside(task, groups, counts, slot, i, 0)
        if other >= 0:
            n = _count_aside(task, groups, counts, other, i, n)
        for row in range(begin, end):
            n = _count_code(task, i, task.rules.subjects[row, i], 1, n)
        codes, present = task.aside.counts[i], task.aside.present[i]
        most = max(most, shortage(task.rules.laws, law, codes, present, n, size + end - begin))
        for at in range(n):
            codes[present[at]] = 0
    return most


@inlined
def _count_code(task: Task, i: int, code: int, rows: int, n: int) -> int:
    """Counts rows with a code of subject i aside; returns how many codes are there, which were n."""
    if rows == 0 or code == task.rules.uncounted[i]:
        return n
    if task.aside.counts[i, code] == 0:
        task.aside.present[i, n] = code
        n += 1
    task.aside.counts[i, code] += rows
    return n


def _count_aside(task: Task, groups: Groups, counts: SubjectCounts, slot: int, i: int, n: int) -> int:
    """Counts a slot's codes of subject i aside: code by code or row by row, whichever are fewer."""
    last = i + 1 < counts.first.shape[0]
    n_codes = (counts.first[i + 1] if last else counts.n_codes[0]) - counts.first[i]
    if n_codes < groups.rows[slot]:
        for code in range(n_codes):
            n = _count_code(task, i, code, rows_with(counts, slot, i, code), n)
        return n
    bundle = groups.first[slot]
    while bundle >= 0:
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            n = _count_code(task, i, task.rules.subjects[row, i], 1, n)
        bundle = groups.next[bundle]
    return n


def members_of(groups: Groups, slot: int) -> Ints:
    """The bundles of a slot, in the order of its list."""
    n, bundle = 0, groups.first[slot]
    while bundle >= 0:
        n, bundle = n + 1, groups.next[bundle]
    members = np.empty(n, np.int64)
    put_members(groups, slot, members)
    return members


def put_members(groups: Groups, slot: int, members: Ints) -> int:
    """Fills in the bundles of a slot, in the order of its list; how many."""
    n, bundle = 0, groups.first[slot]
    while bundle >= 0:
        members[n] = bundle
        n, bundle = n + 1, groups.next[bundle]
    return n


def leave_out(members: Ints, at: int) -> None:
    """Moves the later members up by one place; what is last is of no use then."""
    for i in range(at, members.shape[0] - 1):
        members[i] = members[i + 1]


def has(values: Ints, value: int) -> bool:
    """True if a value is among others."""
    for one in values:  # noqa: SIM110 - compiled
        if one == value:
            return True
    return False


def joined(groups: Groups, members: Ints, target: Ints, goal: int) -> Ints:
    """The bundles of a slot, then those of `members` that go there."""
    theirs = members_of(groups, goal)
    n = theirs.shape[0]
    both = np.empty(n + members.shape[0], np.int64)
    both[:n] = theirs
    for i in range(members.shape[0]):
        if target[i] == goal:
            both[n] = members[i]
            n += 1
    return both[:n]


def loss_of(task: Task, members: Ints) -> float:
    """Loss of the bundles as one group: rows times NCP."""
    d = task.bundles.cells.shape[1]
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    for bundle in members:
        widen(task.shape, task.bundles.cells[bundle], task.bundles.cells[bundle], lo, hi, term)
    return rows_in(task.bundles, members) * total(term)


@inlined
def _joined_ncp(shape: Geometry, lo: Ints, hi: Ints, term: Floats, leaf: int, cells: Ints) -> float:
    """NCP of the box at a leaf once it contains `cells` too."""
    per_row = 0.0
    for j in range(cells.shape[0]):
        cell, first, last = cells[j], lo[leaf, j], hi[leaf, j]
        if first <= cell <= last:
            per_row += term[leaf, j]
        else:
            per_row += ncp_term(shape, j, min(first, cell), max(last, cell))
    return per_row


def growth(task: Task, groups: Groups, slot: int, cells: Ints, rows: int) -> float:
    """By how much the total loss grows when `rows` rows at `cells` join a group."""
    leaf = groups.lo.shape[0] // 2 + slot
    per_row = _joined_ncp(task.shape, groups.lo, groups.hi, groups.term, leaf, cells)
    return float((groups.rows[slot] + rows) * per_row - groups.rows[slot] * groups.ncp[slot])


@inlined
def _bound(
    shape: Geometry, lo: Ints, hi: Ints, term: Floats, node: int, cells: Ints, rows: int, rows_min: int, limit: float
) -> float:
    """A lower bound of `growth` for every group below a node; infinite if it is at least `limit`."""
    least = 0.0
    for j in range(cells.shape[0]):
        cell, first, last = cells[j], lo[node, j], hi[node, j]
        if first > last or least >= limit:
            return np.inf
        if first <= cell <= last:
            continue
        edge = first if cell < first else last
        there = ncp_term(shape, j, min(cell, edge), max(cell, edge))
        former = ncp_term(shape, j, edge, edge) if shape.axes[j].first_leaf < 0 else term[node, j]
        least += rows * there + rows_min * max(there - former, 0.0)
    return least


@inlined
def begin_search(stack: Ints, w: int, own: int) -> int:
    """Fills the stack with the nodes beside the way from the root to slot `own`, the nearest last; how many."""
    bits, depth = 0, 0
    while 1 << bits < w:
        bits += 1
    while depth < bits:
        stack[depth] = (w + own) >> (bits - depth - 1) ^ 1
        depth += 1
    return depth


@inlined
def visit_children(stack: Ints, bounds: Floats, depth: int, node: int, left: float, right: float) -> int:
    """Puts the children of a node on the stack, the one of lower bound last; its new depth."""
    nearer = 0 if left <= right else 1
    stack[depth], bounds[depth] = 2 * node + 1 - nearer, max(left, right)
    stack[depth + 1], bounds[depth + 1] = 2 * node + nearer, min(left, right)
    return depth + 2


@inlined
def _keeps_shares(task: Task, groups: Groups, counts: SubjectCounts, slot: int, bundle: int) -> bool:
    """True if a group that holds still does with one more bundle.

    Only the shares of the bundle's own subjects can grow; rows and distinct subjects only become more. Laws are asked.
    """
    if short_together(task, groups, counts, slot, -1, bundle) > 0:
        return False
    begin, end = task.bundles.begin[bundle], task.bundles.end[bundle]
    rows = groups.rows[slot] + end - begin
    for i in range(task.rules.distinct.shape[0]):
        if task.rules.numerator[i] == task.rules.denominator[i]:
            continue
        for row in range(begin, end):
            code, n = task.rules.subjects[row, i], 0
            if code == task.rules.uncounted[i]:
                continue
            for other in range(begin, end):
                n += int(task.rules.subjects[other, i] == code)
            n += rows_with(counts, slot, i, code)
            if not keeps_share(n, rows, task.rules.numerator[i], task.rules.denominator[i]):
                return False
    return True


class Search(NamedTuple):
    """Memory for the nodes that a search is still to visit."""

    stack: Ints  # (STACK,)
    bounds: Floats


STACK = 128


def search_for() -> Search:
    return Search(np.empty(STACK, np.int64), np.empty(STACK))


def nearest_by(
    search: Search, task: Task, groups: Groups, counts: SubjectCounts | None, own: int, bundle: int, limit: float,
    visits_max: int,
) -> tuple[int, float]:  # fmt: skip
    """The group, other than `own`, that a bundle joins at the least growth below `limit`, and that growth.

    counts: only groups that then still hold are asked; None: all are. (-1, limit) if there is none.
    """
    shape, rows_min, lo, hi, term = task.shape, task.rows_min, groups.lo, groups.hi, groups.term
    sizes, ncp = groups.rows, groups.ncp
    cells, rows = task.bundles.cells[bundle], task.bundles.end[bundle] - task.bundles.begin[bundle]
    stack, bounds = search
    w, best, visits = lo.shape[0] // 2, -1, 0
    depth = begin_search(stack, w, own)
    for i in range(depth):
        bounds[i] = _bound(shape, lo, hi, term, stack[i], cells, rows, rows_min, limit)
    while depth > 0 and visits < visits_max:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node < w:
            left = _bound(shape, lo, hi, term, 2 * node, cells, rows, rows_min, limit)
            right = _bound(shape, lo, hi, term, 2 * node + 1, cells, rows, rows_min, limit)
            depth = visit_children(stack, bounds, depth, node, left, right)
            continue
        slot = node - w
        per_row = _joined_ncp(shape, lo, hi, term, node, cells)
        grown = (sizes[slot] + rows) * per_row - sizes[slot] * ncp[slot]
        if grown < limit:
            if counts is not None and not _keeps_shares(task, groups, counts, slot, bundle):
                continue
            best, limit = slot, grown
    return best, limit


@inlined
def _gap(shape: Geometry, lo: Ints, hi: Ints, term: Floats, node: int, own: int, rows: int, rows_min: int) -> float:
    """A lower bound of `growth` for `rows` rows anywhere in the box at leaf `own` and every group below a node."""
    least = 0.0
    for j in range(lo.shape[1]):
        first, last = lo[node, j], hi[node, j]
        if first > last:
            return np.inf
        if lo[own, j] > last:
            near, edge = lo[own, j], last
        elif hi[own, j] < first:
            near, edge = hi[own, j], first
        else:
            continue
        there = ncp_term(shape, j, min(near, edge), max(near, edge))
        former = ncp_term(shape, j, edge, edge) if shape.axes[j].first_leaf < 0 else term[node, j]
        least += rows * there + rows_min * max(there - former, 0.0)
    return least


@inlined
def _ask(task: Task, groups: Groups, slot: int, members: Ints, target: Ints, grown: Floats) -> float:
    """Lets every bundle know a group that it could join; the largest growth per row that one of them has now."""
    shape, (cells, begin, end), lo, hi, term = task.shape, task.bundles, groups.lo, groups.hi, groups.term
    leaf, theirs, most = lo.shape[0] // 2 + slot, groups.rows[slot], 0.0
    before = theirs * groups.ncp[slot]
    for i in range(members.shape[0]):
        bundle = members[i]
        rows = end[bundle] - begin[bundle]
        per_row, enough, j = 0.0, (grown[i] + before) / (theirs + rows), 0
        while j < lo.shape[1] and per_row < enough:
            cell, first, last = cells[bundle, j], lo[leaf, j], hi[leaf, j]
            if first <= cell <= last:
                per_row += term[leaf, j]
            else:
                per_row += ncp_term(shape, j, min(first, cell), max(last, cell))
            j += 1
        if j == lo.shape[1] and (theirs + rows) * per_row - before < grown[i]:
            target[i], grown[i] = slot, (theirs + rows) * per_row - before
        most = max(most, grown[i] / rows)
    return most


def nearest_of_all(
    task: Task, groups: Groups, own: int, members: Ints, fair: float, visits_max: int
) -> tuple[Ints, Floats]:
    """Where each bundle of a group would go, or -1, and at what growth; (m,) each. One search for all of them.

    No bundle goes where the loss grows by `fair` times its part of its own group's loss.
    """
    target, grown = np.full(members.shape[0], -1, np.int64), np.empty(members.shape[0])
    shape, lo, hi, term, size = task.shape, groups.lo, groups.hi, groups.term, 0
    for i in range(members.shape[0]):
        rows = task.bundles.end[members[i]] - task.bundles.begin[members[i]]
        grown[i] = fair * rows * groups.ncp[own]
        size = max(size, rows)
    limit, w, visits, rows_min = size * fair * groups.ncp[own], lo.shape[0] // 2, 0, task.rows_min
    stack, bounds = search_for()
    depth, leaf = begin_search(stack, w, own), w + own
    for i in range(depth):
        bounds[i] = _gap(shape, lo, hi, term, stack[i], leaf, size, rows_min)
    while depth > 0 and visits < visits_max:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node >= w:
            limit = size * _ask(task, groups, node - w, members, target, grown)
            continue
        left = _gap(shape, lo, hi, term, 2 * node, leaf, size, rows_min)
        right = _gap(shape, lo, hi, term, 2 * node + 1, leaf, size, rows_min)
        depth = visit_children(stack, bounds, depth, node, left, right)
    return target, grown


@inlined
def rise_bound(
    shape: Geometry, groups: Groups, node: int, lo: Ints, hi: Ints, term: Floats, rows: int, limit: float
) -> float:
    """A lower bound of `rise` for a group with box lo..hi and any below a node; infinite if it is at least `limit`."""
    least = 0.0
    for j in range(lo.shape[0]):
        first, last = groups.lo[node, j], groups.hi[node, j]
        if first > last or least >= limit:
            return np.inf
        if lo[j] <= last and first <= hi[j]:
            continue
        edge = first if hi[j] < first else last
        there = ncp_term(shape, j, min(lo[j], edge), max(hi[j], edge))
        former = ncp_term(shape, j, edge, edge) if shape.axes[j].first_leaf < 0 else groups.term[node, j]
        least += rows * (there - term[j]) + max(there - former, 0.0)
    return least


def rise(shape: Geometry, groups: Groups, one: int, other: int) -> float:
    """By how much the total loss rises when the groups of two slots become one."""
    w = groups.lo.shape[0] // 2
    a, b = w + one, w + other
    per_row = 0.0
    for j in range(groups.lo.shape[1]):
        lo, hi = min(groups.lo[a, j], groups.lo[b, j]), max(groups.hi[a, j], groups.hi[b, j])
        if lo == groups.lo[b, j] and hi == groups.hi[b, j]:
            per_row += groups.term[b, j]
        elif lo == groups.lo[a, j] and hi == groups.hi[a, j]:
            per_row += groups.term[a, j]
        else:
            per_row += ncp_term(shape, j, lo, hi)
    rows, others = groups.rows[one], groups.rows[other]
    return float(rows * (per_row - groups.ncp[one]) + others * (per_row - groups.ncp[other]))


def closest(task: Task, groups: Groups, own: int, found: Ints, visits_max: int) -> int:
    """Fills in the slots (p,) whose groups become one with that of `own` at the least rise of the loss; how many."""
    shape, w, n, visits = task.shape, groups.lo.shape[0] // 2, 0, 0
    lo, hi, term, rows = groups.lo[w + own], groups.hi[w + own], groups.term[w + own], groups.rows[own]
    stack, bounds = search_for()
    rises = np.full(found.shape[0], np.inf)
    depth = begin_search(stack, w, own)
    for i in range(depth):
        bounds[i] = rise_bound(shape, groups, stack[i], lo, hi, term, rows, np.inf)
    while depth > 0 and visits < visits_max:
        depth -= 1
        node, limit = stack[depth], rises[found.shape[0] - 1]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node < w:
            left = rise_bound(shape, groups, 2 * node, lo, hi, term, rows, limit)
            right = rise_bound(shape, groups, 2 * node + 1, lo, hi, term, rows, limit)
            depth = visit_children(stack, bounds, depth, node, left, right)
            continue
        more, at = rise(shape, groups, own, node - w), min(n, found.shape[0] - 1)
        if more >= limit:
            continue
        while at > 0 and rises[at - 1] > more:
            rises[at], found[at] = rises[at - 1], found[at - 1]
            at -= 1
        rises[at], found[at] = more, node - w
        n = min(n + 1, found.shape[0])
    return n


ROOM_FOR_CUTS = 0.75
"""At most this part of the slots has groups at first, so that the tree can be cut where its boxes become small."""


def slots_for(n_groups: int, n_groups_max: int) -> int:
    """A power of two: the slots for n_groups groups, which may become n_groups_max."""
    return 1 << max(int(np.ceil(n_groups / ROOM_FOR_CUTS)) - 1, n_groups_max - 1, 0).bit_length()


@compiled
def laid_out(task: Task, qi_group: Ints, n_groups: int, n_slots: int) -> Ints:
    """The groups that qi_group (m,) numbers, below n_groups, put into slots: near numbers, where boxes are near."""
    d = task.bundles.cells.shape[1]
    cells, lo, hi = task.bundles.cells, np.full((n_groups, d), EMPTY_LO), np.full((n_groups, d), EMPTY_HI)
    for bundle in range(qi_group.shape[0]):
        for j in range(d):
            cell = cells[bundle, j]
            lo[qi_group[bundle], j] = min(lo[qi_group[bundle], j], cell)
            hi[qi_group[bundle], j] = max(hi[qi_group[bundle], j], cell)
    slot, below = np.empty(n_groups, np.int64), np.empty(n_groups + 1)
    box, term = np.empty((2, d), np.int64), np.zeros(d)
    todo, n = np.empty((128, 4), np.int64), 1
    todo[0] = np.array([0, n_groups, 0, n_slots])
    while n > 0:
        n -= 1
        begin, end, first, room = todo[n]
        if end - begin == 1:
            slot[begin] = first
            continue
        at = _least_apart(task.shape, lo, hi, begin, end, room // 2, below, box, term)
        todo[n] = np.array([at, end, first + room // 2, room // 2])
        todo[n + 1] = np.array([begin, at, first, room // 2])
        n += 2
    return slot[qi_group]


@inlined
def _least_apart(
    shape: Geometry, lo: Ints, hi: Ints, begin: int, end: int, most: int, below: Floats, box: Ints, term: Floats
) -> int:
    """Where the groups begin..end are cut in two parts of at most `most`, so that the boxes of both are small."""
    first, last, best, best_at = max(begin + 1, end - most), min(end - 1, begin + most), np.inf, begin + 1
    box[0], box[1] = EMPTY_LO, EMPTY_HI
    for at in range(begin, last):
        widen(shape, lo[at], hi[at], box[0], box[1], term)
        below[at + 1] = (at + 1 - begin) * total(term)
    box[0], box[1] = EMPTY_LO, EMPTY_HI
    for at in range(end - 1, first - 1, -1):
        widen(shape, lo[at], hi[at], box[0], box[1], term)
        if at <= last and below[at] + (end - at) * total(term) < best:
            best, best_at = below[at] + (end - at) * total(term), at
    return best_at
