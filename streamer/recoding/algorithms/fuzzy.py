"""GDPPR: fuzzy clusters of rows, filled so that no set of close sensitive values takes too large a share.

1. **Fuzzy c-means** finds p clusters, and for each row the memberships in its `few` nearest ones.
2. **Filling.** Rows in canonical order go to the cluster of highest membership in which they fit, again and again as
   long as clusters grow.
3. **Merging.** Clusters that do not hold the model, and rows without a cluster, are merged with the nearest until all
   hold: the cluster of fewest rows first, of equals the lower number. That ends, because every merge leaves one cluster
   less and the whole table holds. No row is suppressed.

A row or cluster *fits* a cluster if their union keeps every share. A union of fewer rows than any QI group can have is
measured as if it had that many. A centre is a weighted mean of rows: of a number its mean, of a category the weight of
every node below the root. So the distance to a centre is linear in it.

Source: Gui et al. 2020, algorithm 1. Distances, ties and our readings: docs/explanation/algorithms.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.errors import UsageError
from streamer.kernels.boxes import Geometry, geometry, ncp_term
from streamer.kernels.counts import CountTable, count_in, count_of
from streamer.kernels.shares import keeps_share
from streamer.kernels.sorting import heap_for, pop, push
from streamer.native import compiled
from streamer.privacy.compiled import Rules, Scratch, add, holds, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import ROWS_PER_CALL, Algorithm, Options, Recoding, local_recoding
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.hierarchy import Hierarchy, levels_of_tree
from streamer.table.microdata import Microdata
from streamer.table.space import Space


@dataclass(frozen=True)
class Points:
    """n rows as points."""

    paths: Ints = field(repr=False)  # int64 (n, levels), the columns in which the row has a 1
    scale: Floats = field(repr=False)  # float64 (columns,)
    numbers: Floats = field(repr=False)  # float64 (n, q), each as a share of its domain's width
    weight: float  # what one number's distance counts
    base: float  # the distance of a row and a centre that have nothing in common but their numbers

    def __len__(self) -> int:
        return len(self.paths)

    def at(self, rows: Ints) -> Centres:
        """Centres that are single rows."""
        nodes = np.zeros((len(rows), len(self.scale)))
        np.put_along_axis(nodes, self.paths[rows], 1.0, axis=1)
        return Centres(nodes, self.numbers[rows].copy())


@dataclass(frozen=True)
class Centres:
    """p centres."""

    nodes: Floats = field(repr=False)  # float64 (p, columns), shares of the nodes
    numbers: Floats = field(repr=False)  # float64 (p, q)

    def __len__(self) -> int:
        return len(self.nodes)


def sensitive_columns(microdata: Microdata, model: Model) -> list[int]:
    """The kept columns that the model looks at and whose values have a hierarchy."""
    looked_at = sorted({subject.column for subject in model.subjects if subject.column >= 0})
    return [column for column in looked_at if microdata.table.kept[column].hierarchy is not None]


def points_of(microdata: Microdata, sensitive: list[int], *, alpha: float, beta: float, sign: int) -> Points:
    """The table's rows as points; sensitive: numbers of kept columns with a hierarchy.

    Raises UsageError if alpha and beta are not shares that sum to 1, or sign is neither +1 nor -1.
    """
    if min(alpha, beta) < 0 or abs(alpha + beta - 1) > 1e-9 or sign not in (1, -1):
        raise UsageError("alpha and beta are shares that sum to 1, and sign is +1 (as printed) or -1")
    if not sensitive:
        alpha, beta = 1.0, 0.0
    space = microdata.space
    weight, base = alpha / space.d, beta if sign > 0 else 0.0
    paths, scale = [], []
    for j, tree in space.trees:
        if tree.levels.shape[0] > 1:
            nodes = tree.levels[:-1].T
            paths.append(nodes[microdata.cells[:, j]])
            scale.append(weight * space.weight[j] / nodes.shape[1])
            base += weight * space.weight[j]
    for column in sensitive if beta else []:
        nodes = _paths_of_texts(microdata, column)
        paths.append(nodes[microdata.values[:, column]])
        scale.append(sign * beta / len(sensitive) / max(1, nodes.shape[1]))
    numeric = np.flatnonzero(~space.is_category)
    numbers = np.ascontiguousarray((space.middles(microdata.cells) / space.width)[:, numeric])
    return Points(*_in_columns(len(microdata), paths, scale), numbers, float(weight), float(base))


def _paths_of_texts(microdata: Microdata, column: int) -> Ints:
    """The nodes below the root above every text of a kept column, leaf first; a null is a tree of its own."""
    tree, texts = microdata.table.kept[column].hierarchy, microdata.texts[column]
    labels = [msgspec.json.decode(text) for text in texts]
    if not isinstance(tree, Hierarchy):
        raise UsageError(f"the sensitive column {microdata.table.kept[column].name} has no hierarchy")
    null = np.full(tree.levels.shape[0] - 1, -1, dtype=np.int64)
    rows = [null if label is None else tree.levels[:-1, tree.code_of[label]] for label in labels]
    return np.array(rows, dtype=np.int64)


def _in_columns(n: int, paths: list[Ints], scale: list[float]) -> tuple[Ints, Floats]:
    """Nodes as columns of one matrix, one for every node and level that occurs, and what each column counts."""
    columns, scales, first = [np.empty((n, 0), dtype=np.int64)], [np.empty(0)], 0
    for nodes, each in zip(paths, scale, strict=True):
        for level in nodes.T:
            used, here = np.unique(level, return_inverse=True)
            columns.append((here + first).astype(np.int64)[:, None])
            scales.append(np.full(len(used), each))
            first += len(used)
    return np.ascontiguousarray(np.concatenate(columns, axis=1)), np.concatenate(scales)


class Clusters(NamedTuple):
    """p clusters; the rows of each are a linked list."""

    lo: Ints  # (p, d) cells
    hi: Ints
    terms: Floats  # (p, d) information loss of each attribute
    size: Ints  # (p,)
    head: Ints  # (p,) the first row
    tail: Ints  # (p,) the last row
    following: Ints  # (n,) the row after each; -1: it is the last


def losses_of(space: Space) -> Geometry:
    """The space with the loss of equation 6 in place of NCP: a category counts its node's height."""
    return geometry(space, _pair_heights)


def _pair_heights(tree: Hierarchy, leaves: Ints) -> Floats:
    """Height of the smallest node over each of the leaves and the next / height of the hierarchy."""
    levels, full = levels_of_tree(tree), tree.n_levels - 1
    below = np.zeros(len(leaves), dtype=np.int64)
    for level in range(full):
        below += levels.reach(level, leaves) <= leaves
    return below / max(full, 1)


def merged(microdata: Microdata, model: Model, cluster: Ints, rows_per_call: int = ROWS_PER_CALL) -> tuple[Ints, int]:
    """Clusters that all hold the model, int64 (n,), numbers with gaps; and how many merges that took.

    cluster: int64 (n,), numbers from 0; a row with a negative number is a cluster of its own, numbered after the others
    in the order of the rows. The whole table must hold the model.
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
        turns = max(1, rows_per_call // waiting)
        n_merges += _merge_some(losses, rules, scratch, model.rows_min, clusters, into, waits, turns)
    _follow(into)
    return into[cluster], n_merges


def _clusters(losses: Geometry, cells: Ints, cluster: Ints, p: int) -> Clusters:
    n, d = cells.shape
    lo, hi = np.full((p, d), np.iinfo(np.int64).max), np.full((p, d), -1, dtype=np.int64)
    head, tail, following = (np.full(length, -1, dtype=np.int64) for length in (p, p, n))
    clusters = Clusters(lo, hi, np.zeros((p, d)), np.zeros(p, dtype=np.int64), head, tail, following)
    _fill_counts(losses, cells, cluster, clusters)
    return clusters


@compiled
def _fill_counts(losses: Geometry, cells: Ints, cluster: Ints, clusters: Clusters) -> None:
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
                clusters.terms[c, j] = ncp_term(losses, j, clusters.lo[c, j], clusters.hi[c, j])


def fits(rules: Rules, scratch: Scratch, rows_min: int) -> bool:
    """True if what is counted keeps every share; fewer than rows_min rows are measured as rows_min."""
    size = max(scratch.size[0], rows_min)
    for i in range(rules.distinct.shape[0]):
        if not keeps_share(scratch.top[i], size, rules.numerator[i], rules.denominator[i]):
            return False
    return True


def _count(rules: Rules, scratch: Scratch, clusters: Clusters, c: int, back: bool) -> None:
    """Counts a cluster's rows, or takes them back."""
    row = clusters.head[c]
    while row >= 0:
        if back:
            remove(rules, scratch, row)
        else:
            add(rules, scratch, row)
        row = clusters.following[row]


def _nearest(
    losses: Geometry, rules: Rules, scratch: Scratch, rows_min: int, clusters: Clusters, c: int, alive: Ints
) -> int:
    """The cluster that c joins, whose rows are counted; alive: the numbers of all clusters, in order."""
    best, least, nearest, nearest_rise = -1, np.inf, -1, np.inf
    lo, hi, terms, size = clusters.lo, clusters.hi, clusters.terms, clusters.size
    shares = rules.distinct.shape[0] > 0
    for o in alive:
        if o == c or size[o] == 0:
            continue
        rise = 0.0
        for j in range(lo.shape[1]):
            first, last = min(lo[c, j], lo[o, j]), max(hi[c, j], hi[o, j])
            if first == lo[o, j] and last == hi[o, j]:
                wider = terms[o, j]  # the most frequent case
            else:
                wider = ncp_term(losses, j, first, last)
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


def _join(losses: Geometry, clusters: Clusters, c: int, o: int) -> None:
    """c's rows become o's."""
    clusters.following[clusters.tail[o]] = clusters.head[c]
    clusters.tail[o] = clusters.tail[c]
    clusters.size[o] += clusters.size[c]
    clusters.size[c] = 0
    for j in range(clusters.lo.shape[1]):
        clusters.lo[o, j] = min(clusters.lo[o, j], clusters.lo[c, j])
        clusters.hi[o, j] = max(clusters.hi[o, j], clusters.hi[c, j])
        clusters.terms[o, j] = ncp_term(losses, j, clusters.lo[o, j], clusters.hi[o, j])


@compiled
def _merge_some(
    losses: Geometry, rules: Rules, scratch: Scratch, rows_min: int, clusters: Clusters, into: Ints, waits: Bools,
    turns: int,
) -> int:  # fmt: skip
    """Gives some clusters a turn; returns the number of merges.

    into: the cluster that each joined, or itself; waits: whose turn is still to come; turns: how many at most.
    """
    alive = _with_rows(clusters, np.arange(clusters.size.shape[0]))
    waiting, n_alive, n_merges = heap_for(alive.shape[0]), alive.shape[0], 0
    for c in alive:
        if waits[c]:
            push(waiting, 0.0, clusters.size[c], c)
    while waiting.n[0] > 0 and turns > 0:
        size, c = pop(waiting)
        if clusters.size[c] != size:
            continue  # it has joined another, or was joined and waits with its new size
        turns -= 1
        waits[c] = False
        _count(rules, scratch, clusters, c, False)
        o = -1
        if not holds(rules, scratch) and n_alive > 1:
            o = _nearest(losses, rules, scratch, rows_min, clusters, c, alive)
        _count(rules, scratch, clusters, c, True)
        if o < 0:
            continue
        _join(losses, clusters, c, o)
        into[c], waits[o] = o, True
        push(waiting, 0.0, clusters.size[o], o)
        n_alive -= 1
        n_merges += 1
        if 2 * n_alive < alive.shape[0]:
            alive = _with_rows(clusters, alive)
    return n_merges


def _with_rows(clusters: Clusters, among: Ints) -> Ints:
    """Those of some clusters that have rows."""
    kept, n = among.copy(), 0
    for c in among:
        if clusters.size[c] > 0:
            kept[n] = c
            n += 1
    return kept[:n]


@compiled
def _follow(into: Ints) -> None:
    """Makes `into` the cluster that each is in at the end."""
    for c in range(into.shape[0]):
        while into[into[c]] != into[c]:
            into[c] = into[into[c]]


CENTRES_AT_ONCE = 256
"""Centres that rows are compared with at a time: with a hundred nodes they have 200 kB."""

ON_CENTRE = 1e-4
"""A distance below which a row lies on a centre."""

FUZZY_INDEX = 2.0
"""The paper's m."""

SIGN = 1
"""Of the sensitive term: as printed. On Adult it loses less than -1 in most settings, not in all (docs/papers). With it
hardly a row fits its nearest clusters, whose sensitive values are its own: most classes are made by merging."""


@dataclass(frozen=True)
class Nearest:
    """The nearest clusters of n rows, nearest first."""

    cluster: Ints = field(repr=False)  # int64 (n, few)
    distance: Floats = field(repr=False)  # float64 (n, few)


def gdppr(
    microdata: Microdata,
    model: Model,
    *,
    p: int | None = None,
    alpha: float = 0.5,
    beta: float = 0.5,
    sign: int = SIGN,
    rounds: int = 10,
    threshold: float = 1e-3,
    few: int = 2,
    seed: int = 0,
    rows_per_call: int = ROWS_PER_CALL,
) -> Recoding:
    """QI groups by algorithm 1 of the paper; details: rounds, clusters, unplaced, merged.

    microdata: in canonical order; it holds the model as a whole. p: clusters; alpha, beta: weights of quasi-identifiers
    and sensitive values, which sum to 1; sign: of equation 9, +1 as printed or -1; rounds: most rounds; threshold: a
    centre's move below which it ends; few: clusters that a row belongs to. Raises UsageError for other weights, signs.
    """
    points = points_of(microdata, sensitive_columns(microdata, model), alpha=alpha, beta=beta, sign=sign)
    p = max(1, len(microdata) // model.rows_min if p is None else p)
    centres = points.at(np.sort(np.random.default_rng(seed).choice(len(microdata), p, replace=False)))
    done, few = 0, min(few, p)
    near = nearest(points, centres, few)
    while done < rounds and p > 1:
        before, centres = centres, fuzzy_centres(points, near, centres)
        done += 1
        near = nearest(points, centres, few)
        if largest_move(points, before, centres) < threshold:
            break
    rules = rules_of(model, microdata.subjects(model.subjects))
    cluster = np.full(len(microdata), -1, dtype=np.int64)
    _fill_clusters(near.cluster, rules, model.rows_min, cluster)
    unplaced = int((cluster < 0).sum())
    cluster, n_merges = merged(microdata, model, cluster, rows_per_call)
    return local_recoding(microdata, cluster, rounds=done, clusters=p, unplaced=unplaced, merged=n_merges)


def nearest(points: Points, centres: Centres, few: int) -> Nearest:
    """The `few` nearest centres of every row; ties to the lower number."""
    n = len(points)
    found = Nearest(np.zeros((n, few), dtype=np.int64), np.full((n, few), np.inf))
    nodes = np.ascontiguousarray((centres.nodes * points.scale).T)
    numbers = np.ascontiguousarray(centres.numbers.T)
    _find_nearest(
        points.paths, nodes, points.numbers, numbers, points.base, points.weight, found.cluster, found.distance
    )
    return found


@compiled
def _find_nearest(
    paths: Ints, nodes: Floats, row_numbers: Floats, numbers: Floats, base: float, weight: float,
    cluster: Ints, distance: Floats,
) -> None:  # fmt: skip
    """Puts the nearest centres of every row into cluster and distance (n, few), for some centres after the other.

    nodes (columns, p) and numbers (q, p) of the centres; a few at a time, which stay in the processor's cache.
    """
    n, p, few = cluster.shape[0], nodes.shape[1], cluster.shape[1]
    here = np.zeros(CENTRES_AT_ONCE)
    for begin in range(0, p, CENTRES_AT_ONCE):
        some = min(CENTRES_AT_ONCE, p - begin)
        for i in range(n):
            for c in range(some):
                here[c] = base
            for column in paths[i]:
                for c in range(some):
                    here[c] -= nodes[column, begin + c]
            for q in range(row_numbers.shape[1]):
                number = row_numbers[i, q]
                for c in range(some):
                    here[c] += weight * abs(number - numbers[q, begin + c])
            for c in range(some):
                apart = max(here[c], 0.0)
                if apart < distance[i, few - 1]:
                    at = few - 1
                    while at > 0 and apart < distance[i, at - 1]:
                        distance[i, at], cluster[i, at] = distance[i, at - 1], cluster[i, at - 1]
                        at -= 1
                    distance[i, at], cluster[i, at] = apart, begin + c


def memberships(near: Nearest) -> Floats:
    """The degrees to which rows belong to their nearest clusters; float64 (n, few), each row sums to 1."""
    inverse = np.maximum(near.distance, ON_CENTRE) ** (-2 / (FUZZY_INDEX - 1))
    return np.asarray(inverse / inverse.sum(axis=1, keepdims=True))


def fuzzy_centres(points: Points, near: Nearest, before: Centres) -> Centres:
    """The means of the rows, weighted by membership^m; a centre without rows stays."""
    nodes, numbers = np.zeros_like(before.nodes), np.zeros_like(before.numbers)
    weight = np.zeros(len(before))
    _add_up(near.cluster, memberships(near) ** FUZZY_INDEX, points.paths, points.numbers, nodes, numbers, weight)
    some = weight > 0
    nodes[some] /= weight[some, None]
    numbers[some] /= weight[some, None]
    nodes[~some], numbers[~some] = before.nodes[~some], before.numbers[~some]
    return Centres(nodes, numbers)


@compiled
def _add_up(
    cluster: Ints, degree: Floats, paths: Ints, row_numbers: Floats, nodes: Floats, numbers: Floats, weight: Floats
) -> None:
    """Adds every row, times its degree (n, few), to its clusters."""
    for i in range(cluster.shape[0]):
        for at in range(cluster.shape[1]):
            c, u = cluster[i, at], degree[i, at]
            weight[c] += u
            for column in paths[i]:
                nodes[c, column] += u
            for q in range(row_numbers.shape[1]):
                numbers[c, q] += u * row_numbers[i, q]


def largest_move(points: Points, before: Centres, after: Centres) -> float:
    """The farthest move of a centre, as a distance, 0 to 1."""
    nodes = np.abs(after.nodes - before.nodes) @ np.abs(points.scale) / 2
    numbers = np.abs(after.numbers - before.numbers).sum(axis=1) * points.weight
    return float((nodes + numbers).max())


@compiled
def _fill_clusters(near: Ints, rules: Rules, rows_min: int, cluster: Ints) -> None:
    """Puts rows into the nearest cluster that they fit; cluster (n,): -1 before, and after if none fits."""
    n, s = rules.subjects.shape
    size, n_codes = np.zeros(n, np.int64), 1
    counts = CountTable(np.zeros(2 * n * s + 1, np.int64), np.zeros(2 * n * s + 1, np.int64))
    for i in range(n):
        for j in range(s):
            n_codes = max(n_codes, rules.subjects[i, j] + 1)
    placed = True
    while placed:
        placed = False
        for i in range(n):
            if cluster[i] >= 0:
                continue
            for c in near[i]:
                size_asked, fitting = max(size[c] + 1, rows_min), True
                for j in range(s):
                    count = count_of(counts, (c * s + j) * n_codes + rules.subjects[i, j]) + 1
                    if not keeps_share(count, size_asked, rules.numerator[j], rules.denominator[j]):
                        fitting = False
                        break
                if fitting:
                    cluster[i], placed = c, True
                    size[c] += 1
                    for j in range(s):
                        count_in(counts, (c * s + j) * n_codes + rules.subjects[i, j])
                    break


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """GDPPR with the paper's weights."""
    return gdppr(microdata, model, seed=options.seed, rows_per_call=options.rows_per_call)


GDPPR = Algorithm(
    "gdppr", "fuzzy clusters, filled as far as the shares of sensitive values allow", "Gui et al. 2020", run
)
