"""Searches in the tree: a tuple's QI group, the nearest QI groups, and the similarity lists that a box enters.

The rules of this file
----------------------
* `locate`: of the groups whose box contains the cells, the one that wins ties; if there is none, the one of highest
  T-QGSSD. `nearest`: the other group of highest QGSSD. Scores are compared without tolerance, equal ones by `precedes`.
  `top`: several, equal ones by number. Every answer depends on the set of groups, never on the shape of the tree.
* Searches go depth first, the most promising child first, over one stack. A node is visited if its bound exceeds the
  last of the best scores, or equals it and the node holds a group that wins the tie: so no answer is lost, and
  thousands of equal boxes cost no more than one.
* The caller may leave groups in `found` that are probably near: the better they are, the fewer nodes are visited. The
  result never depends on them.
* A search that goes on between calls (`begin_affected`) keeps the bottom of the stack; others begin above it.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core.layout import FAN, FLOOR, HULL_HI, HULL_LO, NCP, NONE, CoreGroups, Shard
from streamer.incremental.core.scores import (
    box_contains,
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
    if g != NONE:
        return g
    s.state[0].n_found = 0
    search_best(s, 1, False)
    s.state[0].n_found = 0
    return int(s.work.found[0].group)


def nearest(s: Shard, g: int) -> int:
    """The other group of highest QGSSD, with its score in `found`; NONE if there is no other.

    The search begins with the state.n_found groups in `found`; their scores are computed here.
    """
    set_query_group(s, g)
    score_candidates(s, g)
    search_best(s, 1, False)
    return int(s.work.found[0].group) if s.state[0].n_found else NONE


def top(s: Shard, g: int, count: int) -> None:
    """The `count` <= FAN other groups of highest QGSSD into `found`, best first, equal ones by number.

    Sets state.n_found, which is lower if there are fewer groups. Begins with what is in `found`, as `nearest`.
    """
    set_query_group(s, g)
    score_candidates(s, g)
    search_best(s, count, True)


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
    bottom = int(s.state[0].n_candidates)
    depth = bottom + 1
    stack[bottom].node, stack[bottom].bound = s.state[0].root, inf
    while depth > bottom:
        depth -= 1
        node = stack[depth].node
        ncp = -stack[depth].bound
        if ncp > least or (ncp == least and not precedes(groups, tree.node[node].first, best)):
            continue
        leaf, begin = tree.node[node].leaf, depth
        distances_of_children(s, node)
        for i in range(tree.node[node].n):
            ncp = tree.rank[node, NCP, i]
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


@inlined
def wins(groups: CoreGroups, g: int, h: int, by_number: bool) -> bool:
    """True if g comes before h at equal scores."""
    if by_number:
        return groups.group[g].number < groups.group[h].number
    return precedes(groups, g, h)


def score_candidates(s: Shard, g: int) -> None:
    """Computes the QGSSD of the groups that the caller left in `found`."""
    found = s.work.found
    for i in range(s.state[0].n_found):
        found[i].score = qgssd_from(s.space, s.groups, g, int(found[i].group))


def search_best(s: Shard, count: int, by_number: bool) -> None:
    """The `count` groups of highest score to the query into `found`, best first; begins with `found`."""
    tree, state, stack, found, bounds = s.tree, s.state[0], s.work.candidates, s.work.found, s.work.bounds
    seeds, n, enough, g = int(state.n_found), 0, -inf, state.query
    for i in range(seeds):
        n = insert_best(s.groups, found, n, count, found[i].group, found[i].score, by_number)
    bottom = int(state.n_candidates)
    depth = bottom
    if state.root != NONE:
        stack[bottom].node, stack[bottom].bound = state.root, inf
        depth += 1
    while depth > bottom:
        depth -= 1
        node = int(stack[depth].node)
        leaf, begin = tree.node[node].leaf, depth
        if n == count and not may_win(s, found[count - 1], node, stack[depth].bound, by_number):
            continue
        if g == NONE:
            t_qgssd_of_children(s, node)
        else:
            qgssd_of_children(s, node)
        for i in range(tree.node[node].n):
            enough = found[n - 1].score if n == count else -inf
            if bounds[i] < enough:
                continue
            one = int(tree.child[node, i])
            if leaf:
                if one != g:
                    n = insert_best(s.groups, found, n, count, one, bounds[i], by_number)
            elif n < count or may_win(s, found[count - 1], one, bounds[i], by_number):
                depth = push_candidate(s, begin, depth, one, bounds[i])
    state.n_found = n


@inlined
def may_win(s: Shard, last: Any, node: int, bound: float, by_number: bool) -> bool:
    """True if a node may hold a group that comes before the last of those found."""
    if bound != last.score:
        return bound > last.score
    first = s.tree.node[node].lowest if by_number else s.tree.node[node].first
    return wins(s.groups, first, last.group, by_number)


@inlined
def insert_best(groups: CoreGroups, found: Any, n: int, count: int, h: int, score: float, by_number: bool) -> int:
    """Inserts a group into the n best so far, unless it is there already or `count` are better; returns the new n."""
    for i in range(n):
        if found[i].group == h:
            return n
    at = n
    while at > 0 and (
        found[at - 1].score < score
        or (found[at - 1].score == score and wins(groups, h, found[at - 1].group, by_number))
    ):
        at -= 1
    if at == count:
        return n
    for i in range(min(n, count - 1), at, -1):
        found[i].score, found[i].group = found[i - 1].score, found[i - 1].group
    found[at].score, found[at].group = score, h
    return min(n + 1, count)


# -- similarity lists --------------------------------------------------------------------------------------------------


def begin_affected(s: Shard, g: int) -> None:
    """Begins to search the groups whose similarity lists a group's box enters: QGSSD above the list's floor.

    `next_affected` returns them, one per call. Until it returns NONE, the tree's groups and boxes must stay as they
    are; sizes, lists and floors may change, and other searches may run.
    """
    set_query_group(s, g)
    s.state[0].n_candidates = 0
    if s.state[0].root != NONE:
        s.work.candidates[0].node, s.work.candidates[0].bound = s.state[0].root, inf
        s.state[0].n_candidates = 1


def next_affected(s: Shard, g: int) -> int:
    """The next such group, with its QGSSD in state.affected_score; NONE: there are no more.

    On the stack, a group of a visited leaf is -2 - group, with its score.
    """
    tree, state, stack, bounds = s.tree, s.state[0], s.work.candidates, s.work.bounds
    if state.query != g:
        set_query_group(s, g)
    depth = int(state.n_candidates)
    while depth > 0:
        depth -= 1
        node = int(stack[depth].node)
        if node < NONE:
            state.n_candidates, state.affected_score = depth, stack[depth].bound
            return NONE - 1 - node
        leaf = tree.node[node].leaf
        qgssd_of_children(s, node)
        for i in range(tree.node[node].n):
            if bounds[i] > tree.rank[node, FLOOR, i]:
                one = int(tree.child[node, i])
                if one != g or not leaf:
                    stack[depth].node, stack[depth].bound = NONE - 1 - one if leaf else one, bounds[i]
                    depth += 1
    state.n_candidates = 0
    return NONE
