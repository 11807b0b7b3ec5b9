"""The cut of a QI group in two: the allowed cut of least information loss.

The rules of this file
----------------------
* Along an attribute, rows are ordered by its cell, then by the other attributes' cells in table.yaml order, then by
  their tie hashes, shuffled for this cut (`streamer.incremental.engine.tie_break`). Nothing finer than a cell decides,
  nor does any source key or name. The cut is *relaxed*: equal cells may fall on both sides.
* A cut is allowed if both halves hold the model: at least k rows, or individuals if the table declares them. All rows
  of one individual in the same cells, a *bundle*, stay side by side, ordered by the least of their tie hashes, and no
  cut divides them. If the model is k alone, 2k individuals can thus always be cut: along any attribute, after the
  bundle that completes the first k.
* Candidates are all positions along all attributes. In a group of 4k rows and more they are those of the middle half,
  if one of these is allowed: else a heap would be peeled k rows at a time, which is quadratic.
* The least total NCP wins (each half's NCP times its rows). Ties: the cut nearest the middle, then the earlier
  attribute, then the lower position. Song et al. 2009 say "split into two of k" and leave the rest open; these rules
  are ours.
* The larger half keeps the number; of equal halves, the one with the smallest shuffled tie hash.
* Local repair cuts two or three groups together by the same rules.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from streamer.incremental.core.layout import HI, LO, NONE, CoreRows, Shard, Work
from streamer.incremental.core.model import asks_more_than_k, mark_fitting, may_be_cut
from streamer.incremental.core.scores import hull_ncp, lost_once
from streamer.kernels.boxes import Geometry, ncp_term, total, widen

# Sorting rows. Few rows, the common case, are inserted one by one. Many are counted into buckets, never more than
# rows, so that one scratch array of n suffices; a domain with more cells takes several rounds.

FEW_TO_SORT = 32
"""Up to here insertion is faster than counting."""

ROUNDING = 1e-9
"""Added to a limit of losses, so that rounding excludes no result that equals it; the caller compares again."""

BITS = 64


def sort_by_tie_hash(indexes: Any, tie_hashes: Any, spare: Any, counts: Any, n: int) -> None:
    """Sorts indexes (n,) int32, and with them tie_hashes[0], their hashes; tie_hashes (2, n) uint64.

    Hashes are random: their highest bits distribute them over about as many buckets as rows, and the final insertion
    moves each past few others. Overwrites spare and counts (n,) int32, and tie_hashes[1].
    """
    if n > FEW_TO_SORT:
        bits = power_below(n)
        shift = BITS - bits
        _clear(counts, 1 << bits)
        for at in range(n):
            counts[tie_hashes[0, at] >> shift] += 1
        _begin(counts, 1 << bits)
        for at in range(n):
            bucket = tie_hashes[0, at] >> shift
            to = counts[bucket]
            spare[to], tie_hashes[1, to] = indexes[at], tie_hashes[0, at]
            counts[bucket] = to + 1
        for at in range(n):
            indexes[at], tie_hashes[0, at] = spare[at], tie_hashes[1, at]
    for at in range(1, n):
        index, tie_hash, to = indexes[at], tie_hashes[0, at], at
        while to > 0 and tie_hashes[0, to - 1] > tie_hash:
            indexes[to], tie_hashes[0, to] = indexes[to - 1], tie_hashes[0, to - 1]
            to -= 1
        indexes[to], tie_hashes[0, to] = index, tie_hash


def sort_by_cells(column: Any, low: int, high: int, indexes: Any, spare: Any, counts: Any, n: int) -> None:
    """Sorts indexes (n,) int32 stably by column[index], within low..high; overwrites spare and counts (n,) int32."""
    if n <= FEW_TO_SORT:
        for at in range(n):
            index, to = indexes[at], at
            cell = column[index]
            while to > 0 and counts[to - 1] > cell:
                indexes[to], counts[to] = indexes[to - 1], counts[to - 1]
                to -= 1
            indexes[to], counts[to] = index, cell
        return
    bits = power_below(n)
    last, shift = (1 << bits) - 1, 0
    while (high - low) >> shift:
        buckets = min((high - low) >> shift, last) + 1
        _clear(counts, buckets)
        for at in range(n):
            counts[((column[indexes[at]] - low) >> shift) & last] += 1
        _begin(counts, buckets)
        for at in range(n):
            bucket = ((column[indexes[at]] - low) >> shift) & last
            spare[counts[bucket]] = indexes[at]
            counts[bucket] += 1
        for at in range(n):
            indexes[at] = spare[at]
        shift += bits


def power_below(n: int) -> int:
    """The largest i with 2^i <= n."""
    i = 0
    while n >> (i + 1):
        i += 1
    return i


def _clear(counts: Any, n: int) -> None:
    for bucket in range(n):
        counts[bucket] = 0


def _begin(counts: Any, n: int) -> None:
    """Replaces each bucket's size by its beginning."""
    begin = 0
    for bucket in range(n):
        size = counts[bucket]
        counts[bucket] = begin
        begin += size


BEST, BASE, ALONG, SPARE_ROWS, COUNTS, HALVES, GATHERED = 0, 1, 2, 3, 4, 5, 6
"""Rows of `work.ints`: the halves of the best cut; the rows in the order along the first attribute; along another;
scratch memory for sorting; halves that may be cut again; BASE of the groups that are cut together.
"""

WHOLE, LOWER, UPPER = 0, 1, 2
"""In `work.hull`: of the whole group; of the halves in progress, whose terms of NCP are in `work.terms`."""

GOLDEN_GAMMA, WORD, SIGN = 0x9E3779B97F4A7C15, 2**64 - 1, 1 << 63
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def cut(s: Shard, g: int) -> tuple[int, bool]:
    """The size of the lower half of the best cut of group g, 0 if none is allowed; True if that half keeps the number.

    work.ints[BEST, :n] then has the members, the lower half first. Needs n columns of `work.ints`, `work.tie_hashes`
    and `work.losses`, and overwrites them and `work.last_seen`.
    """
    if not may_be_cut(s, g):
        return 0, False
    n = int(s.groups.group[g].members)
    _take_members(s, g, g, 0)
    position, lower_stays, _ = _cut_sorted(s, n, _sort_taken(s, n), inf, 1, 1)
    return position, lower_stays


def gather(s: Shard, g: int, h: int, i: int) -> int:
    """Makes the rows of g, h and i (NONE: there is no third) one group to be cut, with tie hashes shuffled for g.

    Returns the row of the smallest hash. Needs memory as `cut` does, for all of them.
    """
    n = 0
    for one in (g, h, i):
        if one != NONE:
            _take_members(s, one, g, n)
            n += int(s.groups.group[one].members)
    first = _sort_taken(s, n)
    for at in range(n):
        s.work.ints[GATHERED, at] = s.work.ints[BASE, at]
    return first


def cut_gathered(s: Shard, n: int, first: int, most: float, lower: int, upper: int) -> tuple[int, bool, float]:
    """As `cut` for the n rows that were gathered, `first` of the smallest hash; also the loss of the halves.

    0 if no allowed cut loses less than `most`; with 4k rows and more the best cut may lose more. lower, upper: rows
    that the lower and the upper half have at least, whatever the model asks.
    """
    for at in range(n):
        s.work.ints[BASE, at] = s.work.ints[GATHERED, at]
    _hull_of(s.rows.cells, s.work.ints[BASE], s.work.hull[WHOLE], 0, n)
    return _cut_sorted(s, n, first, most if n < 4 * s.state[0].k else inf, lower, upper)


def loss_of_parts(s: Shard, position: int, n: int, lower_number: int, upper_number: int, most: float) -> float:
    """The loss of the halves in BEST, of n rows in all, if one of 2k rows is cut again: as the QI group of that number.

    More than `most`, but not how much, if it is more. Overwrites BEST.
    """
    for at in range(n):
        s.work.ints[HALVES, at] = s.work.ints[BEST, at]
    loss = _loss_of_part(s, 0, position, lower_number, most)
    if loss > most:
        return loss
    return loss + _loss_of_part(s, position, n - position, upper_number, most - loss)


def _loss_of_part(s: Shard, begin: int, n: int, number: int, most: float) -> float:
    """The loss of n rows of HALVES from `begin` on: of the best two halves, if they can be cut, else as one group.

    If the halves lose more than `most`, it is that of one group, which is not less.
    """
    work = s.work
    for at in range(n):
        index = work.ints[HALVES, begin + at]
        work.ints[BASE, at] = index
        work.tie_hashes[0, at] = shuffled(s.rows.row[index].tie_hash, number, s.state[0].qi_group_next)
    if n < 2 * s.state[0].k:
        _hull_of(s.rows.cells, work.ints[BASE], work.hull[WHOLE], 0, n)
        return n * hull_ncp(s.space, work.hull[WHOLE])
    first = _sort_taken(s, n)
    position, _, loss = _cut_sorted(s, n, first, most + ROUNDING if n < 4 * s.state[0].k else inf, 1, 1)
    return loss if position > 0 else n * hull_ncp(s.space, work.hull[WHOLE])


def _sort_taken(s: Shard, n: int) -> int:
    """Sorts the n rows in BASE along the first attribute; returns the one of the smallest tie hash."""
    work = s.work
    sort_by_tie_hash(work.ints[BASE], work.tie_hashes, work.ints[SPARE_ROWS], work.ints[COUNTS], n)
    first = work.ints[BASE, 0]
    _sort_members(s, n)
    return int(first)


def _cut_sorted(s: Shard, n: int, first: int, most: float, lower: int, upper: int) -> tuple[int, bool, float]:
    """The best cut of the n sorted rows in BASE, as `cut`, and its loss; 0 if none loses less than `most`.

    first: the row of the smallest tie hash. lower, upper: rows that the halves have at least.
    """
    work, k = s.work, int(s.state[0].k)
    position, loss, least = 0, most, (n + 3) // 4 if n >= 4 * k else 1
    while position == 0 and least > 0:
        lowest, highest = max(least, lower), n - max(least, upper)
        position, loss = _best_cut(s, n, lowest, highest, most)
        least = 1 if least > 1 else 0
    if 2 * position != n:
        return position, 2 * position > n, loss
    for at in range(position):
        if work.ints[BEST, at] == first:
            return position, True, loss
    return position, False, loss


def shuffled(tie_hash: int, number: int, qi_group_next: int) -> int:
    """A tie hash for one cut, of the QI group `number`, when `qi_group_next` is the next unused number.

    Distinct hashes stay distinct. As unsigned words they have the order that their bits have as signed numbers.
    """
    word = int(np.uint64(np.int64(tie_hash)))
    word = _mixed((word + int(np.uint64(number)) * GOLDEN_GAMMA) & WORD)
    word = _mixed((word + int(np.uint64(qi_group_next)) * GOLDEN_GAMMA) & WORD)
    return word ^ SIGN


def _mixed(word: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    word = ((word ^ (word >> 30)) * MIX_1) & WORD
    word = ((word ^ (word >> 27)) * MIX_2) & WORD
    return word ^ (word >> 31)


def _take_members(s: Shard, g: int, cut_as: int, at: int) -> None:
    """Copies the members of group g to BASE from `at` on, with tie hashes shuffled for a cut of group `cut_as`."""
    group, number = s.groups.group[g], s.groups.group[cut_as].number
    for i in range(group.members):
        index = s.groups.pool[0, group.block + i]
        s.work.ints[BASE, at + i] = index
        s.work.tie_hashes[0, at + i] = shuffled(s.rows.row[index].tie_hash, number, s.state[0].qi_group_next)


def _sort_members(s: Shard, n: int) -> None:
    """Sorts BASE by cells in table order, bundles, tie hashes: the order along the first attribute."""
    state, rows, work = s.state[0], s.rows, s.work
    cells, base, hull = rows.cells, work.ints[BASE], work.hull[WHOLE]
    _hull_of(cells, base, hull, 0, n)
    for j in range(cells.shape[1] - 1, -1, -1):
        if hull[LO, j] < hull[HI, j]:
            column, low, high = cells[:, j], int(hull[LO, j]), int(hull[HI, j])
            sort_by_cells(column, low, high, base, work.ints[SPARE_ROWS], work.ints[COUNTS], n)
    if state.individuals:
        state.stamp += 1
        begin = 0
        while begin < n:
            end = begin + 1
            while end < n and _same_cells(cells, base[begin], base[end]):
                end += 1
            if end - begin > 1:
                _gather_bundles(rows, work, state.stamp, begin, end)
            begin = end
        state.stamp += n


def _gather_bundles(rows: CoreRows, work: Work, stamp: int, begin: int, end: int) -> None:
    """Moves each individual's rows in begin..end of BASE, all in the same cells, to where its first one is.

    last_seen: `stamp` plus the index in BASE of an individual's first row; individuals not in this run have less.
    """
    base, spare, counts, last_seen = work.ints[BASE], work.ints[SPARE_ROWS], work.ints[COUNTS], work.last_seen
    for at in range(begin, end):
        who = rows.row[base[at]].who
        counts[at] = 0
        if last_seen[who] < stamp + begin:
            last_seen[who] = stamp + at
        counts[last_seen[who] - stamp] += 1
    to = begin
    for at in range(begin, end):
        size = counts[at]
        counts[at] = to
        to += size
    for at in range(begin, end):
        first = last_seen[rows.row[base[at]].who] - stamp
        spare[counts[first]] = base[at]
        counts[first] += 1
    for at in range(begin, end):
        base[at] = spare[at]


def _best_cut(s: Shard, n: int, lowest: int, highest: int, most: float) -> tuple[int, float]:
    """The best position in lowest..highest along all attributes, and its loss; BEST gets the halves.

    0: no allowed position loses less than `most`. An attribute that does not vary, or before which none does, orders
    the rows as the first one does, so it cannot be better. Whether halves meet the demands is asked only if a cut would
    be better, which is rare.
    """
    cells, work, hull = s.rows.cells, s.work, s.work.hull[WHOLE]
    along, least, lean, position, varied = work.ints[ALONG], most, 0, 0, False
    for j in range(cells.shape[1]):
        varies = hull[LO, j] < hull[HI, j]
        if j == 0 or (varies and varied):
            for at in range(n):
                along[at] = work.ints[BASE, at]
            if j > 0:
                column, low, high = cells[:, j], int(hull[LO, j]), int(hull[HI, j])
                sort_by_cells(column, low, high, along, work.ints[SPARE_ROWS], work.ints[COUNTS], n)
            first, last = _allowed(s, n)
            first, last = max(first, lowest), min(last, highest)
            better, now, leaning = _best_along(s, n, first, last, least, lean, False)
            if better and asks_more_than_k(s.demands):
                first, last = mark_fitting(s, along, n, first, last)
                better, now, leaning = _best_along(s, n, first, last, least, lean, True)
            if better:
                least, lean, position = now, leaning, better
                for at in range(n):
                    work.ints[BEST, at] = along[at]
        varied = varied or varies
    return position, least


def _allowed(s: Shard, n: int) -> tuple[int, int]:
    """The lowest and the highest position along ALONG that leave k on both sides."""
    state, k = s.state[0], int(s.state[0].k)
    if not state.individuals:
        return k, n - k
    state.stamp += 2
    first = _rows_of(s.rows, s.work, state.stamp - 1, k, 0, 1, n)
    return first, n - _rows_of(s.rows, s.work, state.stamp, k, n - 1, -1, n)


def _rows_of(rows: CoreRows, work: Work, stamp: int, k: int, begin: int, step: int, n: int) -> int:
    """The number of rows along ALONG, from `begin` on, that have k individuals; n if all of them have fewer."""
    along, last_seen, count = work.ints[ALONG], work.last_seen, 0
    for i in range(n):
        who = rows.row[along[begin + step * i]].who
        if last_seen[who] != stamp:
            last_seen[who] = stamp
            count += 1
            if count == k:
                return i + 1
    return n


def _best_along(
    s: Shard, n: int, first: int, last: int, least: float, lean: int, marked: bool
) -> tuple[int, float, int]:
    """The best position in first..last along ALONG, its loss and lean; 0 if none is better than `least` and `lean`.

    Larger halves lose more: the way ends as soon as the lower half, with the smallest upper half, loses too much.
    lean: how far a cut is from the middle. marked: only positions where the halves meet the demands.
    """
    if first > last:
        return 0, least, lean
    space, rows, work = s.space, s.rows, s.work
    cells, along, hull, terms = rows.cells, work.ints[ALONG], work.hull[LOWER], work.terms[LOWER]
    _start_half(space, cells, along, hull, terms, 0, first)
    loss = lost_once(space, total(terms))
    first, start = _lose_above(s, n, first, last, least, loss), first
    position, individuals = 0, s.state[0].individuals != 0
    for at in range(start, last + 1):
        if at > start and widen(space, cells[along[at - 1]], cells[along[at - 1]], hull[LO], hull[HI], terms):
            loss = lost_once(space, total(terms))
        if at * loss + (n - last) * work.losses[last] > least:
            break
        if at < first or (marked and s.demands.fits[at] == 0):
            continue
        if individuals and _same_bundle(rows, along[at - 1], along[at]):
            continue
        both = at * loss + (n - at) * work.losses[at]
        if both < least or (both == least and abs(2 * at - n) < lean):
            position, least, lean = at, both, abs(2 * at - n)
    return position, least, lean


def _lose_above(s: Shard, n: int, first: int, last: int, least: float, lower: float) -> int:
    """Writes NCP of the upper half at first..last to work.losses; returns the lowest position that may be the best.

    lower: NCP of the lower half at `first`. Larger halves lose more. So no position is better below one whose upper
    half loses more than `least` together with the lower half at `first`.
    """
    space, cells, work = s.space, s.rows.cells, s.work
    along, hull, terms = work.ints[ALONG], work.hull[UPPER], work.terms[UPPER]
    _start_half(space, cells, along, hull, terms, last, n)
    loss = lost_once(space, total(terms))
    work.losses[last] = loss
    at = last
    while first * lower + (n - at) * loss <= least:
        if at == first:
            return first
        at -= 1
        if widen(space, cells[along[at]], cells[along[at]], hull[LO], hull[HI], terms):
            loss = lost_once(space, total(terms))
        work.losses[at] = loss
    return at + 1


def _start_half(space: Geometry, cells: Any, along: Any, hull: Any, terms: Any, begin: int, end: int) -> None:
    """A hull (2, d) around the rows along[begin:end], and its terms of NCP (d,), each computed once."""
    _hull_of(cells, along, hull, begin, end)
    for j in range(cells.shape[1]):
        terms[j] = ncp_term(space, j, hull[LO, j], hull[HI, j])


def _hull_of(cells: Any, rows: Any, hull: Any, begin: int, end: int) -> None:
    """Sets a hull (2, d) around rows[begin:end]; loops over columns without a branch become vector instructions."""
    lo, hi, own = hull[LO], hull[HI], cells[rows[begin]]
    for j in range(cells.shape[1]):
        lo[j] = hi[j] = own[j]
    for at in range(begin + 1, end):
        own = cells[rows[at]]
        for j in range(cells.shape[1]):
            lo[j], hi[j] = min(lo[j], own[j]), max(hi[j], own[j])


def _same_bundle(rows: CoreRows, one: int, other: int) -> bool:
    return bool(rows.row[one].who == rows.row[other].who) and _same_cells(rows.cells, one, other)


def _same_cells(cells: Any, one: int, other: int) -> bool:
    for j in range(cells.shape[1]):
        if cells[one, j] != cells[other, j]:
            return False
    return True
