"""Searches in the tree: a tuple's QI group, the nearest QI group, and the neighbours that add least width.

The rules of this file
----------------------
* `locate`: of the groups whose box contains the cells, the one that wins ties; if there is none, the one of highest
  T-QGSSD. `nearest`: the other group of highest QGSSD. `neighbours`: those that add least. Scores are compared without
  tolerance, equal ones by `precedes`. Every answer depends on the set of groups, never on the shape of the tree.
* Searches go depth first, the most promising child first, over one stack. A node is visited if its bound exceeds the
  last of the best scores, or equals it and the node holds a group that wins the tie: so no answer is lost, and
  thousands of equal boxes cost no more than one.
* A group's *similarity list* names the neighbours that the last search for it found, at most LENGTH. `nearest` begins
  with them: the better they are, the fewer nodes it visits. The result never depends on them, nor on whether they are
  still there.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core.layout import (
    CENTER,
    FAN,
    HALF,
    HALF_WIDTH,
    HULL_HI,
    HULL_LO,
    LENGTH,
    NONE,
    CoreGroups,
    Shard,
)
from streamer.incremental.core.scores import (
    box_contains,
    cover_with_children,
    qgssd_from,
    qgssd_of_children,
    set_query_group,
    set_query_tuple,
    t_qgssd_of_children,
)
from streamer.incremental.core.tree import precedes
from streamer.native import inlined


def locate(s: Shard, cells: Any) -> int:
    """The group that a tuple of cells (d,) int32 belongs to; NONE if there is no group."""
    if s.state[0].root == NONE:
        return NONE
    set_query_tuple(s, cells)
    g = containing(s, cells)
    return g if g != NONE else most_similar(s, NONE, -inf)


def nearest(s: Shard, g: int) -> int:
    """The other group of highest QGSSD (Song et al. 2009, definition 7); NONE if there is no other."""
    groups, best, most = s.groups, NONE, -inf
    set_query_group(s, g)
    for i in range(LENGTH):
        h = int(groups.near[g, i])
        if h != NONE and h != g and groups.group[h].alive:
            score = qgssd_from(s.space, groups, g, h)
            if score > most or (score == most and precedes(groups, h, best)):
                best, most = h, score
    return most_similar(s, best, most)


# -- containment -------------------------------------------------------------------------------------------------------


@inlined
def distances_of_children(s: Shard, node: int) -> None:
    """Into `bounds`: above zero if no box at or below a child of a node contains the query tuple."""
    away = s.work.bounds
    for i in range(min(away.shape[0], FAN)):
        away[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        value, lo, hi = s.work.query_center[j], s.tree.lane[node, j, HULL_LO], s.tree.lane[node, j, HULL_HI]
        for i in range(min(away.shape[0], FAN)):
            away[i] = max(away[i], max(lo[i] - value, value - hi[i]))


def containing(s: Shard, cells: Any) -> int:
    """Of the groups whose box contains the cells, the one that wins ties; NONE if there is none."""
    tree, groups, stack, away, best, least = s.tree, s.groups, s.work.candidates, s.work.bounds, NONE, inf
    stack[0].node, stack[0].bound = s.state[0].root, inf
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth].node
        ncp = -stack[depth].bound
        if ncp > least or (ncp == least and not precedes(groups, tree.node[node].first, best)):
            continue
        leaf, begin = tree.node[node].leaf, depth
        distances_of_children(s, node)
        for i in range(tree.node[node].n):
            ncp = tree.rank[node, i]
            if away[i] > 0.0 or ncp > least:
                continue
            one = int(tree.child[node, i])
            if not leaf:
                depth = push_candidate(s, begin, depth, one, -ncp)
            elif (ncp < least or precedes(groups, one, best)) and box_contains(groups, one, cells):
                best, least = one, ncp
    return best


@inlined
def push_candidate(s: Shard, begin: int, depth: int, node: int, bound: float) -> int:
    """Pushes a node among those from `begin` on, highest bound last, of equal ones who wins ties; the new depth."""
    stack, first, at = s.work.candidates, s.tree.node[node].first, depth
    while at > begin and (
        stack[at - 1].bound > bound
        or (stack[at - 1].bound == bound and precedes(s.groups, s.tree.node[stack[at - 1].node].first, first))
    ):
        stack[at].bound, stack[at].node = stack[at - 1].bound, stack[at - 1].node
        at -= 1
    stack[at].bound, stack[at].node = bound, node
    return depth + 1


# -- highest scores ----------------------------------------------------------------------------------------------------


def most_similar(s: Shard, best: int, most: float) -> int:
    """The group of highest score to the query, T-QGSSD or QGSSD; best: one of score `most`, or NONE."""
    tree, groups, state, stack, bounds = s.tree, s.groups, s.state[0], s.work.candidates, s.work.bounds
    stack[0].node, stack[0].bound, g = state.root, inf, state.query
    depth = 1
    while depth > 0:
        depth -= 1
        node = int(stack[depth].node)
        leaf, begin, bound = tree.node[node].leaf, depth, stack[depth].bound
        if bound < most or (bound == most and best != NONE and not precedes(groups, tree.node[node].first, best)):
            continue
        if g == NONE:
            t_qgssd_of_children(s, node)
        else:
            qgssd_of_children(s, node)
        for i in range(tree.node[node].n):
            if bounds[i] < most:
                continue
            one = int(tree.child[node, i])
            if not leaf:
                depth = push_candidate(s, begin, depth, one, bounds[i])
            elif one != g and (bounds[i] > most or precedes(groups, one, best)):
                best, most = one, bounds[i]
    return best


# -- least added width -------------------------------------------------------------------------------------------------

OWN_FIRST, OWN_LAST = 0, 1
"""In `work.terms`: the ends of the query group's box along each number."""


def neighbours(s: Shard, g: int, count: int) -> None:
    """The `count` <= FAN other groups that add least to a group into `found`, and the first of them into its list.

    What another group adds: along each attribute the width of a box around both, less half of its own, in widths of the
    domain. A box around two groups costs both its own width, so this prefers groups that are near, then wide ones.
    Sets state.n_found, which is lower if there are fewer groups.
    """
    tree, state, stack, bounds, found, n = s.tree, s.state[0], s.work.candidates, s.work.bounds, s.work.found, 0
    set_query_group(s, g)
    for j in range(s.space.axes.shape[0]):
        center, half = s.groups.shape[g, CENTER, j], s.groups.shape[g, HALF_WIDTH, j]
        s.work.terms[OWN_FIRST, j], s.work.terms[OWN_LAST, j] = center - half, center + half
    stack[0].node, stack[0].bound = state.root, inf
    depth = 1
    while depth > 0:
        depth -= 1
        node = int(stack[depth].node)
        leaf, begin = tree.node[node].leaf, depth
        if n == count and not may_win(s, found[n - 1], tree.node[node].first, stack[depth].bound):
            continue
        widths_added_by_children(s, node)
        for i in range(tree.node[node].n):
            one = int(tree.child[node, i])
            if leaf:
                if one != g:
                    n = insert_best(s.groups, found, n, count, one, -bounds[i])
            elif n < count or may_win(s, found[n - 1], tree.node[one].first, -bounds[i]):
                depth = push_candidate(s, begin, depth, one, -bounds[i])
    state.n_found = n
    s.groups.group[g].searched = 1
    for i in range(LENGTH):
        s.groups.near[g, i] = found[i].group if i < n else NONE


@inlined
def widths_added_by_children(s: Shard, node: int) -> None:
    """Into `bounds`: what the groups of a leaf add to the query group, or the least that any below a node does.

    The bound is never above what a group below adds, to the last bit. Every term rises with the width of the box around
    both, which is least with the hull's nearer end, and falls with the group's own width, which is at most the largest
    below, and at most that of the box around both. Differences, halves and products round in the same order for both.
    """
    added, over, leaf = s.work.bounds, s.work.over, s.tree.node[node].leaf != 0
    for i in range(min(added.shape[0], FAN)):
        added[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        lane, per = s.tree.lane[node, j], 1.0 / s.space.axes[j].width
        lo, hi, half = lane[HULL_LO], lane[HULL_HI], lane[HALF]
        if s.space.axes[j].first_leaf >= 0:
            own = 1.0 if leaf else 0.0
            cover_with_children(s.work, j, lo, hi)
            for i in range(min(added.shape[0], FAN)):
                most = half[i]
                leaves = max(over[i], most * own)
                added[i] += (leaves - 0.5 * min(most, leaves)) * per
        elif leaf:
            first, last = s.work.terms[OWN_FIRST, j], s.work.terms[OWN_LAST, j]
            for i in range(min(added.shape[0], FAN)):
                added[i] += (max(last, hi[i]) - min(first, lo[i]) - half[i]) * per
        else:
            first, last = s.work.terms[OWN_FIRST, j], s.work.terms[OWN_LAST, j]
            for i in range(min(added.shape[0], FAN)):
                wide = max(last, lo[i]) - min(first, hi[i])
                added[i] += (wide - min(half[i], 0.5 * wide)) * per


@inlined
def may_win(s: Shard, last: Any, first: int, score: float) -> bool:
    """True if a group of this score, `first` in ties, comes before the last of those found."""
    if score != last.score:
        return bool(score > last.score)
    return precedes(s.groups, first, int(last.group))


@inlined
def insert_best(groups: CoreGroups, found: Any, n: int, count: int, h: int, score: float) -> int:
    """Inserts a group into the n best so far, unless `count` are better; returns the new n."""
    at = n
    while at > 0 and (
        found[at - 1].score < score or (found[at - 1].score == score and precedes(groups, h, int(found[at - 1].group)))
    ):
        at -= 1
    if at == count:
        return n
    for i in range(min(n, count - 1), at, -1):
        found[i].score, found[i].group = found[i - 1].score, found[i - 1].group
    found[at].score, found[at].group = score, h
    return min(n + 1, count)
