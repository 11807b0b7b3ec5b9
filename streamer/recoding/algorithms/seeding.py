"""The groups of `ordered` if the model counts sensitive values: seeded with rare values, which choose first; exchanges.

1. Every bundle begins as a group of its own. Groups that *fit* are merged, those with the rarest subjects first, each
   with the one with which the total loss rises least (`agglomerated`, strict).
2. Groups that do not hold then are taken apart. Each of their bundles goes to the group that holds with it and whose
   loss grows least (`assigned`).
3. Bundles that no group takes are merged until they hold (`agglomerated`, not strict).

Two groups *fit* if they can still become one that holds with no more rows than the larger of them needs anyway, or than
the fewest times the *room* that the caller gives. So no share is above its limit in these rows, and no distinct
subject is missing for which there would be no room. A group that fits nowhere is left as it is. If not strict, two
groups are merged if they lack fewer rows together than apart; if there is no such group, with the nearest of all.

**Exchanges** follow in sweeps over the groups that changed, by slot. A bundle that its group can spare goes to the
group that holds with it at the least growth, if that is less than what its own group gains. One that makes its group's
box larger and cannot go is exchanged for a bundle of the group where it would grow the loss least: the one with which
most is gained and both groups hold. So a rare value that no group can spare still finds its way. Groups of more than
SWAPPED_MAX rows exchange nothing. Every move gains at least GAIN_MIN, so that rounding is never taken for a gain.

A search (`group_index` says how its bounds work) stops after VISITS_MAX nodes or fewer, or, while it has found nothing,
after FAR_VISITS_MAX. Once enough slots are empty the others are renumbered, so that the tree stays short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.distributions import whole_rows
from streamer.kernels.sorting import Heap, heap_for, pop, push
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Scratch, holds
from streamer.progress import OnProgress, part_of, unheard
from streamer.recoding.algorithms.bundles import Task, add_bundle, remove_bundle, rows_lacking
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.ends import ends_for, ends_of, ncp_instead, ncp_without, take_out
from streamer.recoding.algorithms.group_index import (
    GAIN_MIN,
    NEAREST_VISITS,
    Groups,
    Search,
    SubjectCounts,
    begin_search,
    changed_slots,
    count_bundle,
    count_group,
    counts_of,
    discount_group,
    groups_of,
    join,
    members_of,
    nearest_by,
    put,
    put_members,
    recount_bundle,
    rise,
    rise_bound,
    rows_with,
    search_for,
    short_together,
    unite,
    visit_children,
)
from streamer.table.arrays import Bools, Floats, Ints, inverse_of

VISITS_MIN, VISITS_MAX, EXCHANGE_VISITS, FAR_VISITS_MAX = 64, 512, 48, 2_048
ROWS_COUNTED = 8_192
"""A small group visits many nodes, because most groups near by are full if a share is hardly above the table's own. A
large one, which takes long to count, visits fewer: one search counts about this number of rows."""
VAIN_MAX = 4_096
"""After this number of searches in vain in a row none goes that far, until one finds something again. If a value is so
rare that nearly all groups are full, each of them would search in vain."""
FULL = 0.6
"""The share of the slots with rows below which they are renumbered."""
ROWS_PER_TURN = 32
"""A turn takes about as long as this number of rows takes in other loops."""
SEED_SHARPNESS = 7
SWAPPED_MAX = 256


class _Merging(NamedTuple):
    """g slots of m bundles while they are merged."""

    groups: Groups
    counts: SubjectCounts
    rank: Floats  # (g,) the lowest goes first; of equals the group of fewest rows, then the lower slot
    waits: Bools  # (g,) whose turn is still to come
    into: Ints  # (g,) the slot that each joined, or itself
    n: Ints  # (2,) slots with rows, and searches in vain in a row
    turns: Heap  # of the slots that wait, and of some that no longer do


@inlined
def _lacking(task: Task, groups: Groups, counts: SubjectCounts, slot: int) -> int:
    """The least number of rows that a slot's group still needs to hold."""
    lacks = rows_lacking(task.rules, groups.rows[slot], counts.top[slot], counts.n_distinct[slot])
    return max(lacks, whole_rows(short_together(task, groups, counts, slot, -1, -1)))


def _load(task: Task, groups: Groups, slot: int, codes: Ints) -> int:
    """Counts a slot's rows into the task's scratch; codes (2, .): its subjects and codes, each once; how many."""
    n, bundle = 0, groups.first[slot]
    while bundle >= 0:
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            for i in range(task.rules.distinct.shape[0]):
                code = task.rules.subjects[row, i]
                if code == task.rules.uncounted[i]:
                    continue
                if task.scratch.counts[i, code] == 0:
                    codes[0, n], codes[1, n] = i, code
                    n += 1
                task.scratch.counts[i, code] += 1
        bundle = groups.next[bundle]
    return n


def _unload(task: Task, codes: Ints, n: int) -> None:
    for at in range(n):
        task.scratch.counts[codes[0, at], codes[1, at]] = 0


def _fit(
    task: Task, groups: Groups, counts: SubjectCounts, loaded: int, n: int, codes: Ints, other: int, strict: bool,
    short: int,
) -> bool:  # fmt: skip
    """True if the loaded slot, with n codes, and another may be merged.

    short: by how much the one whose turn it is misses the laws; if strict, both together must miss them by no more.
    """
    rules, top, n_distinct = task.rules, task.scratch.top, task.scratch.n_distinct  # overwritten, emptied by the caller
    for i in range(top.shape[0]):
        top[i] = max(counts.top[other, i], counts.top[loaded, i])
        n_distinct[i] = counts.n_distinct[other, i]
    for at in range(n):
        i, code = codes[0, at], codes[1, at]
        there = rows_with(counts, other, i, code)
        if there == 0:
            n_distinct[i] += 1
        else:
            top[i] = max(top[i], there + task.scratch.counts[i, code])
    size = groups.rows[loaded] + groups.rows[other]
    if not strict:
        apart = _lacking(task, groups, counts, loaded) + _lacking(task, groups, counts, other)
        together = rows_lacking(rules, size, top, n_distinct)
        return max(together, whole_rows(short_together(task, groups, counts, loaded, other, -1))) < apart
    free = max(task.rows_min - size, 0)
    for i in range(top.shape[0]):
        missing = rules.distinct[i] - n_distinct[i]
        fewest = rules.distinct[i] - max(counts.n_distinct[loaded, i], counts.n_distinct[other, i])
        if missing > free and missing >= fewest:
            return False
        wanted = max(counts.top[loaded, i], counts.top[other, i])
        most = max((size + free) * rules.numerator[i] // rules.denominator[i], wanted)
        if top[i] > most:
            return False
    return short_together(task, groups, counts, loaded, other, -1) <= short


def _partner(
    search: Search, task: Task, groups: Groups, counts: SubjectCounts, slot: int, codes: Ints, others: Ints,
    strict: bool, far: int,
) -> int:  # fmt: skip
    """The slot of least rise of those that may be merged with this one; if there is none and not strict, of all.

    codes, others (2, .): scratch; far: the most nodes to visit while nothing is found.
    """
    shape, w = task.shape, groups.lo.shape[0] // 2
    lo, hi, term, rows = groups.lo[w + slot], groups.hi[w + slot], groups.term[w + slot], groups.rows[slot]
    stack, bounds = search
    visits_max = max(VISITS_MIN, min(VISITS_MAX, ROWS_COUNTED // rows))
    visits, n_codes = 0, -1  # -1: this slot is not loaded
    short = short_together(task, groups, counts, slot, -1, -1)
    best, least, closest, closest_rise = -1, np.inf, -1, np.inf
    depth = begin_search(stack, w, slot)
    for i in range(depth):
        bounds[i] = rise_bound(shape, groups, stack[i], lo, hi, term, rows, np.inf)
    while depth > 0 and (visits < visits_max or (best < 0 and visits < far) or closest < 0):
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= least or bounds[depth] == np.inf:
            continue
        visits += 1
        if node < w:
            left = rise_bound(shape, groups, 2 * node, lo, hi, term, rows, least)
            right = rise_bound(shape, groups, 2 * node + 1, lo, hi, term, rows, least)
            depth = visit_children(stack, bounds, depth, node, left, right)
            continue
        other = node - w
        more = rise(shape, groups, slot, other)
        if more < closest_rise:
            closest, closest_rise = other, more
        if more >= least:
            continue
        if groups.rows[other] < rows:  # the one with fewer rows is loaded
            if n_codes >= 0:
                _unload(task, codes, n_codes)
                n_codes = -1
            n_others = _load(task, groups, other, others)
            fitting = _fit(task, groups, counts, other, n_others, others, slot, strict, short)
            _unload(task, others, n_others)
        else:
            if n_codes < 0:
                n_codes = _load(task, groups, slot, codes)
            fitting = _fit(task, groups, counts, slot, n_codes, codes, other, strict, short)
        if fitting:
            best, least = other, more
    if n_codes >= 0:
        _unload(task, codes, n_codes)
    task.scratch.top[:], task.scratch.n_distinct[:] = 0, 0
    return best if best >= 0 or strict else closest


def agglomerated(
    task: Task, qi_group: Ints, n_slots: int, rank: Floats, strict: bool, on_progress: OnProgress = unheard
) -> Ints:
    """Groups merged until they hold: those of qi_group (m,), and unions of them. rank (m,): the lowest goes first."""
    first, some_turns = n_slots, max(1, task.rows_per_call // ROWS_PER_TURN)
    while True:
        merging, turns = _merging(task, qi_group, n_slots, rank), True
        while turns and merging.n[0] > n_slots * FULL:
            turns = _take_turns(task, merging, strict, some_turns)
            on_progress(1 - int(merging.waits.sum()) / first)
        qi_group = _united(merging.into, qi_group)
        if not merging.waits.any():
            return qi_group
        used = np.zeros(n_slots, dtype=np.int64)
        used[qi_group] = 1
        number = np.cumsum(used) - 1
        qi_group, n_slots = number[qi_group], int(number[-1]) + 1


@compiled
def _merging(task: Task, qi_group: Ints, n_slots: int, rank: Floats) -> _Merging:
    """Every slot with rows waits for its turn."""
    groups, counts = groups_of(task, qi_group, n_slots), counts_of(task, qi_group, n_slots)
    first_rank, waits = np.full(n_slots, np.inf), np.zeros(n_slots, np.bool_)
    for bundle in range(qi_group.shape[0]):
        first_rank[qi_group[bundle]] = min(first_rank[qi_group[bundle]], rank[bundle])
        waits[qi_group[bundle]] = True
    turns = heap_for(n_slots)
    for slot in range(n_slots):
        if waits[slot]:
            push(turns, first_rank[slot], groups.rows[slot], slot)
    return _Merging(groups, counts, first_rank, waits, np.arange(n_slots), np.array([n_slots, 0]), turns)


@compiled
def _take_turns(task: Task, merging: _Merging, strict: bool, turns: int) -> bool:
    """Merges slots, turn after turn, until all hold or many slots are empty; True if turns are left to take."""
    groups, counts, rank, waits, into, n, waiting = merging
    n_slots, size = waits.shape[0], task.rules.subjects.shape[0] * task.rules.distinct.shape[0] + 1
    codes, others, search = np.empty((2, size), np.int64), np.empty((2, size), np.int64), search_for()
    while waiting.n[0] > 0 and n[0] > n_slots * FULL and turns > 0:
        rows, slot = pop(waiting)
        if groups.rows[slot] != rows or not waits[slot]:
            continue
        turns -= 1
        waits[slot] = False
        if _lacking(task, groups, counts, slot) == 0:
            continue
        far = FAR_VISITS_MAX if n[1] < VAIN_MAX else VISITS_MIN
        other = _partner(search, task, groups, counts, slot, codes, others, strict, far)
        n[1] = n[1] + 1 if other < 0 else 0
        if other < 0:
            continue
        gone, stays = (slot, other) if rows <= groups.rows[other] else (other, slot)
        _unite(task, groups, counts, gone, stays)
        into[gone] = stays
        n[0] -= 1
        rank[stays] = min(rank[stays], rank[gone])
        waits[gone], waits[stays] = False, True
        push(waiting, rank[stays], groups.rows[stays], stays)
    return bool(waiting.n[0] > 0)


def _unite(task: Task, groups: Groups, counts: SubjectCounts, gone: int, stays: int) -> None:
    """Moves all bundles of a slot into another; the first then stays empty."""
    bundle = groups.first[gone]
    while bundle >= 0:
        recount_bundle(task, counts, bundle, gone, stays)
        bundle = groups.next[bundle]
    counts.top[gone] = 0
    unite(task, groups, gone, stays)


@compiled
def _united(into: Ints, qi_group: Ints) -> Ints:
    """The slot in which every bundle is in the end; (m,)."""
    found = np.empty(qi_group.shape[0], np.int64)
    for bundle in range(qi_group.shape[0]):
        slot = qi_group[bundle]
        while into[slot] != slot:
            into[slot] = into[into[slot]]
            slot = into[slot]
        found[bundle] = slot
    return found


def assigned(task: Task, qi_group: Ints, n_slots: int) -> tuple[int, Ints]:
    """The number of bundles left, and each bundle's group (m,): groups that hold, and one for each bundle that is left.

    qi_group (m,): the groups that are kept if they hold and taken apart if they do not.
    """
    found, n_kept = _held(task, qi_group, n_slots)
    left = _assign(task, found, n_kept) if n_kept else len(found)
    found[found < 0] = n_kept + np.arange(left)
    return left, found


@compiled
def _held(task: Task, qi_group: Ints, n_slots: int) -> tuple[Ints, int]:
    """Each bundle's number among the groups that hold, -1 for the others, (m,); and how many groups hold."""
    groups, counts = groups_of(task, qi_group, n_slots), counts_of(task, qi_group, n_slots)
    number, n_kept = np.full(n_slots, -1, np.int64), 0
    for slot in range(n_slots):
        if groups.rows[slot] > 0 and _lacking(task, groups, counts, slot) == 0:
            number[slot] = n_kept
            n_kept += 1
    return number[qi_group], n_kept


@compiled
def _assign(task: Task, found: Ints, n_kept: int) -> int:
    """Sends bundles without a group (-1), in order, to the group that takes each; how many are left without one."""
    aside = n_kept  # a slot for the bundles without a group, which is emptied at once
    begun = found.copy()
    for bundle in range(found.shape[0]):
        if found[bundle] < 0:
            begun[bundle] = aside
    groups, counts = groups_of(task, begun, n_kept + 1), counts_of(task, found, n_kept + 1)
    put(task, groups, aside, np.empty(0, np.int64))
    search, left = search_for(), 0
    for bundle in range(found.shape[0]):
        if found[bundle] >= 0:
            continue
        slot, _ = nearest_by(search, task, groups, counts, aside, bundle, np.inf, NEAREST_VISITS)
        if slot < 0:
            slot, _ = nearest_by(search, task, groups, counts, aside, bundle, np.inf, FAR_VISITS_MAX)
        if slot < 0:
            left += 1
            continue
        found[bundle] = slot
        count_bundle(task, counts, slot, bundle)
        join(task, groups, slot, bundle)
    return left


def seeded(task: Task, on_progress: OnProgress = unheard, room: int = 1) -> Ints:
    """Each bundle's QI group, int64 (m,); all hold. room: a group may come to this many times the fewest rows."""
    slot = inverse_of(order_of(task, SEED_SHARPNESS).bundles)
    commonness = _commonness(task)
    roomy = task._replace(rows_min=room * task.rows_min)
    qi_group = agglomerated(roomy, slot, len(slot), commonness, True, on_progress)
    left, qi_group = assigned(task, qi_group, int(qi_group.max()) + 1)
    if left:
        qi_group = agglomerated(task, qi_group, int(qi_group.max()) + 1, np.zeros_like(commonness), False)
    return qi_group


def _commonness(task: Task) -> Floats:
    """How common the rarest row of each bundle is, (m,): the product over subjects of how many rows have its code."""
    common = np.ones(len(task.rules.subjects))
    for codes in task.rules.subjects.T:
        common *= np.bincount(codes)[codes]
    return np.minimum.reduceat(common, task.bundles.begin)


class Bench(NamedTuple):
    """Memory to exchange bundles."""

    ends: Ints  # of the group that gives, as `ends_of` has them
    their_ends: Ints  # of the other one
    theirs: Ints  # (SWAPPED_MAX,) its bundles
    search: Search


def bench_for(task: Task) -> Bench:
    return Bench(ends_for(task), ends_for(task), np.empty(SWAPPED_MAX, np.int64), search_for())


def swap(
    task: Task, aside: Task, groups: Groups, counts: SubjectCounts | None, slot: int, members: Ints, at: int,
    bench: Bench, other: int,
) -> bool:  # fmt: skip
    """Exchanges a bundle of a group, which is counted in `task`, for one of another group; True if that gained.

    aside: the same task with a scratch of its own, in which the other group is counted. Neither group has more than
    SWAPPED_MAX rows; bench.ends: those of the first.
    """
    bundle = members[at]
    theirs = bench.theirs[: put_members(groups, other, bench.theirs)]
    best = _best_swap(task, aside, groups, slot, members, at, bench, other, theirs)
    if best < 0:
        return False
    their = theirs[best]
    remove_bundle(task, bundle)
    add_bundle(task, their)
    if counts is not None:
        recount_bundle(task, counts, bundle, slot, other)
        recount_bundle(task, counts, their, other, slot)
    members[at], theirs[best] = their, bundle
    put(task, groups, other, theirs)
    put(task, groups, slot, members)
    ends_of(task, members, bench.ends)
    return True


def _best_swap(
    task: Task, aside: Task, groups: Groups, slot: int, members: Ints, at: int, bench: Bench, other: int, theirs: Ints
) -> int:
    """Which of the other group's bundles `theirs` is the one to take, or -1."""
    shape, bundles, bundle, ends, their_ends = task.shape, task.bundles, members[at], bench.ends, bench.their_ends
    cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
    ends_of(task, theirs, their_ends)
    n_here = groups.rows[slot] - rows
    before = groups.rows[slot] * groups.ncp[slot] + groups.rows[other] * groups.ncp[other]
    best, least = -1, before - GAIN_MIN
    loaded, plain = False, task.rules.distinct.shape[0] == 0
    for i in range(theirs.shape[0]):
        their = theirs[i]
        their_rows = bundles.end[their] - bundles.begin[their]
        after = (n_here + their_rows) * ncp_instead(shape, ends, cells, bundles.cells[their], members.shape[0] == 1)
        if after >= least:
            continue
        after += (groups.rows[other] + rows - their_rows) * ncp_instead(
            shape, their_ends, bundles.cells[their], cells, theirs.shape[0] == 1
        )
        if after >= least:
            continue
        if plain:
            if n_here + their_rows >= task.rules.rows <= groups.rows[other] + rows - their_rows:
                best, least = i, after
            continue
        if not loaded:
            loaded = True
            count_group(aside, groups, other)
        if _both_hold(task, aside, bundle, their):
            best, least = i, after
    if loaded:
        discount_group(aside, groups, other)
    return best


def _both_hold(task: Task, aside: Task, bundle: int, their: int) -> bool:
    """True if two groups, counted in `task` and `aside`, hold once a bundle of each is in the other."""
    remove_bundle(task, bundle)
    add_bundle(task, their)
    answer = holds(task.rules, task.scratch)
    if answer:
        remove_bundle(aside, their)
        add_bundle(aside, bundle)
        answer = holds(aside.rules, aside.scratch)
        remove_bundle(aside, bundle)
        add_bundle(aside, their)
    remove_bundle(task, their)
    add_bundle(task, bundle)
    return answer


def _relieve(
    task: Task, aside: Task, groups: Groups, counts: SubjectCounts, slot: int, members: Ints, bench: Bench
) -> int:
    """Moves or exchanges bundles of a group; how many. members: its bundles, as scratch."""
    bundles, ends, search = task.bundles, bench.ends, bench.search
    count_group(task, groups, slot)
    ends_of(task, members, ends)
    moved, at = 0, 0
    while at < members.shape[0]:
        bundle = members[at]
        cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
        left = groups.rows[slot] - rows
        gain = groups.rows[slot] * groups.ncp[slot]
        if left > 0:
            gain -= left * ncp_without(task.shape, ends, cells)
        at += 1
        if gain < GAIN_MIN:
            continue
        remove_bundle(task, bundle)
        if left == 0 or holds(task.rules, task.scratch):
            other, _ = nearest_by(search, task, groups, counts, slot, bundle, gain - GAIN_MIN, EXCHANGE_VISITS)
            if other >= 0:
                recount_bundle(task, counts, bundle, slot, other)
                at -= 1
                members = take_out(task, groups, slot, members, at, ends)
                join(task, groups, other, bundle)
                moved += 1
                continue
        add_bundle(task, bundle)
        if groups.rows[slot] <= SWAPPED_MAX and left > 0 and gain > rows * groups.ncp[slot] + GAIN_MIN:
            other, _ = nearest_by(search, task, groups, None, slot, bundle, gain, NEAREST_VISITS)
            if other >= 0 and groups.rows[other] <= SWAPPED_MAX:
                moved += swap(task, aside, groups, counts, slot, members, at - 1, bench, other)
    for bundle in members:
        remove_bundle(task, bundle)
    return moved


def exchanged(
    task: Task, qi_group: Ints, n_slots: int, sweeps: int, on_progress: OnProgress = unheard
) -> tuple[float, Ints]:
    """The loss and the groups of qi_group (m,), numbers below n_slots, after some sweeps of exchanges."""
    aside = task._replace(scratch=Scratch(*(counts.copy() for counts in task.scratch)))
    groups, counts = groups_of(task, qi_group, n_slots), counts_of(task, qi_group, n_slots)
    for done in range(sweeps):
        parts = changed_slots(task, groups, part_of(on_progress, done / sweeps, (done + 1) / sweeps))
        if sum(_exchange_some(task, aside, groups, counts, slots) for slots in parts) == 0:
            break
    return found_in(groups, len(qi_group))


@compiled
def _exchange_some(task: Task, aside: Task, groups: Groups, counts: SubjectCounts, slots: Ints) -> int:
    """Moves or exchanges bundles of the groups in some slots; how many."""
    moved, bench = 0, bench_for(task)
    for slot in slots:
        groups.changed[slot] = False
        if groups.rows[slot] * groups.ncp[slot] > GAIN_MIN:
            moved += _relieve(task, aside, groups, counts, slot, members_of(groups, slot), bench)
    return moved


@compiled
def found_in(groups: Groups, m: int) -> tuple[float, Ints]:
    """The loss of all groups, and every bundle's group; (m,)."""
    found, loss = np.empty(m, np.int64), 0.0
    for slot in range(groups.rows.shape[0]):
        loss += groups.rows[slot] * groups.ncp[slot]
        bundle = groups.first[slot]
        while bundle >= 0:
            found[bundle] = slot
            bundle = groups.next[bundle]
    return loss, found
