"""GDPPR: fuzzy clusters of rows, filled so that no set of close sensitive values takes too large a share.

There are p = n // rows_min clusters, as many as there could be QI groups, unless `gdppr` is told otherwise; with fewer
than two the table is one QI group. Fuzzy c-means moves their centres: u_ij = d_ij^(-2 / (m - 1)) / sum of the same
over the clusters, fuzzy index m = 2, d as in `algorithms.proximity`, and a centre is the mean of the rows weighted by
u^m. Distances below ON_CENTRE count as that, so a row on several centres belongs to all of them alike; a centre that
no row belongs to stays. This ends after `rounds` rounds (the paper's E), or when no centre moves by `threshold` (its
f) or more: a move is the mean over D's terms, of each the weighted sum of the changes, at most 1 for each term.

Then rows in canonical order go each to the cluster of highest membership in which they *fit* (`cluster_repair`: every
share is kept, and a cluster below the least size of a QI group is measured as if it had that size). Who fitted nowhere
is asked again, as long as clusters grow. What then does not hold the model, and every row without a cluster, is merged
(`cluster_repair`). No row is suppressed. Classes of 2k or more are left whole, as in the paper.

Thousands of clusters ask for two readings of our own. The first centres are p rows drawn by the seed from the
canonical order, not random memberships, which would put all centres on the mean of the table. And of a row's
memberships only those of its `few` nearest clusters are kept (ties: the lower number), scaled to sum to 1: the others
are as good as equal, and together they pull every centre to the mean. Nothing is ever kept for all rows and all
clusters at once: at most DISTANCES_MAX distances at a time.

Source: Gui et al. 2020, algorithm 1; fuzzy c-means: Bezdek 1981. The loop of the paper's line 12 prints `e > E` where
`e < E` is meant, and its line 23 `threshold < r` where the share is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, rules_of
from streamer.privacy.models import Model
from streamer.recoding.algorithms.cluster_repair import merged
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.proximity import Centres, Measured, Points, points_of, sensitive_columns
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.table.arrays import Floats, Ints, Singles
from streamer.table.microdata import Microdata

DISTANCES_MAX = 1 << 22
"""Distances kept at a time; 16 MiB."""

ON_CENTRE = 1e-4
"""A distance below which a row lies on a centre."""

FUZZY_INDEX = 2.0
"""The paper's m."""

SIGN = 1
"""Of the sensitive term: as printed. On Adult it loses less than -1 in most settings, not in all (docs/papers). With it
hardly a row fits its nearest clusters, whose sensitive values are its own: most classes are made by the repair."""


@dataclass(frozen=True)
class Nearest:
    """The nearest clusters of n rows, nearest first: cluster int64 (n, few), distance float32 (n, few)."""

    cluster: Ints = field(repr=False)
    distance: Singles = field(repr=False)


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
) -> Recoding:
    """QI groups by algorithm 1 of the paper; details: rounds, clusters, unplaced, merged.

    microdata: in canonical order, holding the model as a whole. p: clusters; alpha, beta: weights of quasi-identifiers
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
    _fill(near.cluster, rules, model.rows_min, cluster)
    unplaced = int((cluster < 0).sum())
    cluster, n_merges = merged(microdata, model, cluster)
    return local_recoding(microdata, cluster, rounds=done, clusters=p, unplaced=unplaced, merged=n_merges)


def nearest(points: Points, centres: Centres, few: int) -> Nearest:
    """The `few` nearest centres of every row; ties to the lower number."""
    n, p = len(points), len(centres)
    found = Nearest(np.empty((n, few), dtype=np.int64), np.empty((n, few), dtype=np.float32))
    measured, rows = Measured(points, centres), max(1, DISTANCES_MAX // (p + centres.nodes.shape[1]))
    for begin in range(0, n, rows):
        piece = slice(begin, min(n, begin + rows))
        _few_least(measured.distances(piece.start, piece.stop), found.cluster[piece], found.distance[piece])
    return found


@compiled
def _few_least(distances: Singles, cluster: Ints, distance: Singles) -> None:
    """The least of each row of distances (b, p), in order, into cluster and distance (b, few)."""
    few = cluster.shape[1]
    for i in range(distances.shape[0]):
        distance[i, :] = np.inf
        for j in range(distances.shape[1]):
            here = distances[i, j]
            if here < distance[i, few - 1]:
                at = few - 1
                while at > 0 and here < distance[i, at - 1]:
                    distance[i, at], cluster[i, at] = distance[i, at - 1], cluster[i, at - 1]
                    at -= 1
                distance[i, at], cluster[i, at] = here, j


def memberships(near: Nearest) -> Floats:
    """How far rows belong to their nearest clusters; float64 (n, few), each row sums to 1."""
    inverse = np.maximum(near.distance.astype(np.float64), ON_CENTRE) ** (-2 / (FUZZY_INDEX - 1))
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
    """How far the centre went that went farthest, as a distance, 0 to 1."""
    nodes = np.abs(after.nodes - before.nodes) @ np.abs(points.scale) / 2
    numbers = np.abs(after.numbers - before.numbers).sum(axis=1) * points.weight
    return float((nodes + numbers).max())


@compiled
def _fill(near: Ints, rules: Rules, rows_min: int, cluster: Ints) -> None:
    """Puts rows into the nearest cluster that they fit; cluster (n,): -1 where none.

    Counts are kept by cluster, subject and code, of which few occur.
    """
    n, s = rules.subjects.shape
    size, counts, n_codes = np.zeros(n, dtype=np.int64), {-1: 0}, 1
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
                    count = counts.get((c * s + j) * n_codes + rules.subjects[i, j], 0) + 1
                    if count * rules.denominator[j] > size_asked * rules.numerator[j]:
                        fitting = False
                        break
                if fitting:
                    cluster[i], placed = c, True
                    size[c] += 1
                    for j in range(s):
                        at = (c * s + j) * n_codes + rules.subjects[i, j]
                        counts[at] = counts.get(at, 0) + 1
                    break


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """GDPPR with the paper's weights."""
    return gdppr(microdata, model, seed=options.seed)


GDPPR = Algorithm(
    "gdppr",
    "fuzzy clusters, filled as far as the shares of sensitive values allow",
    "Gui et al. 2020",
    run,
    no_objections,
)
