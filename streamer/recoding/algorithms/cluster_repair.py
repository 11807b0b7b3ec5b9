"""Clusters that do not hold the model are merged with the nearest, until all hold.

The cluster of fewest rows goes first, ties to the lower number. It joins that cluster with which the information loss
rises least (equations 3 to 6: numbers by width, categories by height, times the rows), of those that it *fits*; ties
to the lower number. If it fits nowhere, it joins the nearest of all. The union has the number of the cluster that was
joined, and if it does not hold it waits for its turn again. That ends, since every merge leaves one cluster less, and
the whole table holds.

A cluster *fits* another if their union keeps every share, where a union of fewer rows than any QI group can have is
measured as if it had that many: a cluster that is still small may have as many rows of one subject as the smallest QI
group. Fitting says nothing of k and l: those come by growing. Gui et al. 2020 say that GDPPR's classes hold (r,
k)-anonymity and not how; this is our reading.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, add, holds, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import SOME_ROWS
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.levels import levels_of_tree
from streamer.table.microdata import Microdata
from streamer.table.space import Space


class Losses(NamedTuple):
    """What decides an attribute's loss.

    reach: where leaf a's widest value at level x ends stands at start[j] + x * n_leaves[j] + a.

    full (d,): a hierarchy's height, -1 for numbers; codes_per_cell, overlap, end, width (d,): as in `Space`.
    """

    reach: Ints
    start: Ints
    n_leaves: Ints
    full: Ints
    codes_per_cell: Ints
    overlap: Ints
    end: Floats
    width: Floats


class Clusters(NamedTuple):
    """p clusters. lo, hi (p, d): cells; terms (p, d): information loss of each attribute; size (p,).

    Rows of a cluster: head (p,), then following (n,) from row to row, up to tail (p,); -1 ends.
    """

    lo: Ints
    hi: Ints
    terms: Floats
    size: Ints
    head: Ints
    tail: Ints
    following: Ints


def losses_of(space: Space) -> Losses:
    """The space for compiled loops."""
    start, n_leaves, full = np.zeros(space.d, dtype=np.int64), np.zeros(space.d, dtype=np.int64), np.full(space.d, -1)
    reaches = [np.empty(0, dtype=np.int64)]
    for j, tree in space.trees:
        start[j] = sum(map(len, reaches))
        n_leaves[j], full[j] = tree.n_leaves, tree.n_levels - 1
        levels, leaves = levels_of_tree(tree), np.arange(tree.n_leaves)
        reaches += [levels.reach(level, leaves) for level in range(tree.n_levels)]
    return Losses(
        np.concatenate(reaches), start, n_leaves, full, space.codes_per_cell, space.overlap, space.end, space.width
    )


def merged(microdata: Microdata, model: Model, cluster: Ints) -> tuple[Ints, int]:
    """Clusters of which all hold the model; and how many merges that took.

    cluster: int64 (n,), numbers from 0; a row with a negative number is a cluster of its own, numbered after the
    others in the order of the rows. The whole table must hold the model. Returns int64 (n,), numbers with gaps.
    """
    cluster, alone = cluster.copy(), np.flatnonzero(cluster < 0)
    n_clusters = int(cluster.max(initial=-1)) + 1
    cluster[alone] = np.arange(n_clusters, n_clusters + len(alone))
    rules = rules_of(model, microdata.subjects(model.subjects))
    losses = losses_of(microdata.space)
    clusters = _clusters(losses, microdata.cells, cluster, n_clusters + len(alone))
    into, waits, n_merges = np.arange(n_clusters + len(alone)), clusters.size > 0, 0
    scratch = scratch_for(rules)
    while waiting := int(waits.sum()):
        turns = max(1, SOME_ROWS // waiting)
        n_merges += _merge_some(losses, rules, scratch, model.rows_min, clusters, into, waits, turns)
    _follow(into)
    return into[cluster], n_merges


def _clusters(losses: Losses, cells: Ints, cluster: Ints, p: int) -> Clusters:
    n, d = cells.shape
    lo, hi = np.full((p, d), np.iinfo(np.int64).max), np.full((p, d), -1, dtype=np.int64)
    head, tail, following = (np.full(length, -1, dtype=np.int64) for length in (p, p, n))
    clusters = Clusters(lo, hi, np.zeros((p, d)), np.zeros(p, dtype=np.int64), head, tail, following)
    _fill(losses, cells, cluster, clusters)
    return clusters


@compiled
def _fill(losses: Losses, cells: Ints, cluster: Ints, clusters: Clusters) -> None:
    """Puts every row into its cluster."""
    for i in range(cells.shape[0]):
        c = cluster[i]
        clusters.size[c] += 1
        if clusters.head[c] < 0:
            clusters.head[c] = i
        else:
            clusters.following[clusters.tail[c]] = i
        clusters.tail[c] = i
        for j in range(cells.shape[1]):
            clusters.lo[c, j] = min(clusters.lo[c, j], cells[i, j])
            clusters.hi[c, j] = max(clusters.hi[c, j], cells[i, j])
    for c in range(clusters.size.shape[0]):
        if clusters.size[c]:
            for j in range(cells.shape[1]):
                clusters.terms[c, j] = term(losses, j, clusters.lo[c, j], clusters.hi[c, j])


@compiled
def term(losses: Losses, j: int, lo: int, hi: int) -> float:
    """Information loss of attribute j over the cells lo..hi, 0 to 1 (equation 6)."""
    full = losses.full[j]
    if full < 0:
        last = min(float((hi + 1) * losses.codes_per_cell[j] - losses.overlap[j]), losses.end[j])
        return float((last - lo * losses.codes_per_cell[j]) / losses.width[j])
    return float(_height(losses.reach, losses.start[j], losses.n_leaves[j], full, lo, hi) / max(full, 1))


@compiled
def _height(reach: Ints, at: int, n_leaves: int, full: int, lo: int, hi: int) -> int:
    """The lowest level of which one value holds both leaves."""
    height = 0
    while height < full and reach[at + lo] < hi:
        height += 1
        at += n_leaves
    return height


@compiled
def fits(rules: Rules, scratch: Scratch, rows_min: int) -> bool:
    """Whether what is counted keeps every share, if fewer than rows_min rows are measured as rows_min."""
    size = max(scratch.size[0], rows_min)
    for i in range(rules.distinct.shape[0]):
        if scratch.top[i] * rules.denominator[i] > size * rules.numerator[i]:
            return False
    return True


@compiled
def _count(rules: Rules, scratch: Scratch, clusters: Clusters, c: int, back: bool) -> None:
    """Counts a cluster's rows, or takes them back."""
    row = clusters.head[c]
    while row >= 0:
        if back:
            remove(rules, scratch, row)
        else:
            add(rules, scratch, row)
        row = clusters.following[row]


@compiled
def _nearest(
    losses: Losses, rules: Rules, scratch: Scratch, rows_min: int, clusters: Clusters, c: int, alive: Ints
) -> int:
    """The cluster that c joins, whose rows are counted; alive: the numbers of all clusters, in order."""
    best, least, nearest, nearest_rise = -1, float(np.inf), -1, float(np.inf)
    lo, hi, terms, size = clusters.lo, clusters.hi, clusters.terms, clusters.size
    shares = rules.distinct.shape[0] > 0
    for i in range(alive.shape[0]):
        o = int(alive[i])
        if o == c or size[o] == 0:
            continue
        rise = 0.0
        for j in range(lo.shape[1]):
            first, last = min(lo[c, j], lo[o, j]), max(hi[c, j], hi[o, j])
            if first == lo[o, j] and last == hi[o, j]:
                wider = terms[o, j]  # most often: nothing to look up
            else:
                wider = term(losses, j, first, last)
            rise += size[c] * (wider - terms[c, j]) + size[o] * (wider - terms[o, j])
            if rise >= least:
                break
        if rise < nearest_rise:
            nearest, nearest_rise = o, rise
        if rise >= least:
            continue
        fitting = True
        if shares:
            _count(rules, scratch, clusters, o, False)
            fitting = fits(rules, scratch, rows_min)
            _count(rules, scratch, clusters, o, True)
        if fitting:
            best, least = o, rise
            if rise <= 0.0:
                break
    return best if best >= 0 else nearest


@compiled
def _holds(rules: Rules, scratch: Scratch, clusters: Clusters, c: int) -> bool:
    """Whether the cluster holds the model; its rows stay counted."""
    _count(rules, scratch, clusters, c, False)
    return holds(rules, scratch)


@compiled
def _join(losses: Losses, clusters: Clusters, c: int, o: int) -> None:
    """c's rows become o's."""
    clusters.following[clusters.tail[o]] = clusters.head[c]
    clusters.tail[o] = clusters.tail[c]
    clusters.size[o] += clusters.size[c]
    clusters.size[c] = 0
    for j in range(clusters.lo.shape[1]):
        clusters.lo[o, j] = min(clusters.lo[o, j], clusters.lo[c, j])
        clusters.hi[o, j] = max(clusters.hi[o, j], clusters.hi[c, j])
        clusters.terms[o, j] = term(losses, j, clusters.lo[o, j], clusters.hi[o, j])


@compiled
def _merge_some(
    losses: Losses, rules: Rules, scratch: Scratch, rows_min: int, clusters: Clusters, into: Ints, waits: Bools,
    turns: int,
) -> int:  # fmt: skip
    """Takes the turns of some clusters; how many merges that took.

    into: the cluster that each joined, else itself; waits: whose turn is still to come.
    """
    alive = np.flatnonzero(clusters.size)
    waiting = [(int(clusters.size[c]), int(c)) for c in alive if waits[c]]
    n_alive, n_merges = alive.shape[0], 0
    heapify(waiting)
    while len(waiting) > 0 and turns > 0:
        size, c = heappop(waiting)
        if clusters.size[c] != size:
            continue  # it has joined another, or was joined and waits under its new size
        turns -= 1
        waits[c] = False
        holding = _holds(rules, scratch, clusters, c)
        if not holding and n_alive > 1:
            o = _nearest(losses, rules, scratch, rows_min, clusters, c, alive)
        else:
            o = -1
        _count(rules, scratch, clusters, c, True)
        if o < 0:
            continue
        _join(losses, clusters, c, o)
        into[c], waits[o] = o, True
        heappush(waiting, (int(clusters.size[o]), o))
        n_alive -= 1
        n_merges += 1
        if 2 * n_alive < alive.shape[0]:
            alive = alive[clusters.size[alive] > 0]
    return n_merges


@compiled
def _follow(into: Ints) -> None:
    """Makes `into` say the cluster that each is in in the end."""
    for c in range(into.shape[0]):
        while into[into[c]] != into[c]:
            into[c] = into[into[c]]
