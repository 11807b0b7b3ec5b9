"""How far rows are from cluster centres: quasi-identifiers close, sensitive values by their semantics, as products.

The distance is D = alpha * d_t + beta * d_t(s) (equation 10), 0 to 1, with alpha + beta = 1. d_t (equation 8) is the
mean over the attributes, all of weight 1. (The paper's denominator prints n times the sum of the weights, which would
only shrink it.) Numbers: |a - b| / width of the domain, from the middle of one row's cell to that of the other's.
Categories: height of the lowest common ancestor / height of the hierarchy, heights counted in columns of the
hierarchy's file. d_t(s) (equation 9) is 1 - depth of the lowest common ancestor / depth of the leaves: 0 for equal
values, 1 where only the root is common; of several sensitive columns the mean; a null is at distance 1 from all but
null. Sensitive here are the columns that the privacy model looks at and that have a hierarchy; where there is none the
term is left out and D = d_t, so that plain k-anonymity is served as well. sign=+1 adds equation 9 as it is printed:
equal sensitive values attract each other, which is the wrong way for a model that wants them apart. sign=-1 adds
1 - d_t(s) instead.

A centre is a weighted mean of rows: of a number its mean, of a category the weight of every node. The distance to a
category's centre is the mean of the distances to the leaves it is made of. That is linear: with a column for every
node below the root, a row has a 1 for each node on its path, and the common path's expected length is the product of
row and centre. So distances to all centres are one product of matrices for many rows at once. What the products add up
are multiples of 2^-20 that sum to at most 1, and float32 keeps every such sum exactly: so the distances do not depend
on the order in which a matrix library adds, nor on its threads.

Source: Gui et al. 2020, definitions 2 and 3, equations 8 to 10.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from streamer.errors import UsageError
from streamer.jit import compiled
from streamer.privacy.models import Model
from streamer.table.arrays import Floats, Ints, Singles
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata

EXACT = 1 << 20
"""Steps of 1 to which a product's terms are rounded."""


@dataclass(frozen=True)
class Points:
    """n rows as points. paths: int64 (n, levels), the columns in which the row has a 1; scale: float64 (columns,).

    numbers: float64 (n, q), each as a share of its domain's width; weight: what one number's distance counts;
    base: the distance of a row and a centre that have nothing in common but their numbers.
    """

    paths: Ints = field(repr=False)
    scale: Floats = field(repr=False)
    numbers: Floats = field(repr=False)
    weight: float
    base: float

    def __len__(self) -> int:
        return len(self.paths)

    def at(self, rows: Ints) -> Centres:
        """The centres that single rows are."""
        nodes = np.zeros((len(rows), len(self.scale)))
        np.put_along_axis(nodes, self.paths[rows], 1.0, axis=1)
        return Centres(nodes, self.numbers[rows].copy())


@dataclass(frozen=True)
class Centres:
    """p centres. nodes: float64 (p, columns), shares of the nodes; numbers: float64 (p, q)."""

    nodes: Floats = field(repr=False)
    numbers: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.nodes)


def sensitive_columns(microdata: Microdata, model: Model) -> list[int]:
    """The kept columns that the model looks at and whose values have a hierarchy."""
    looked_at = sorted({subject.column for subject in model.subjects if subject.column >= 0})
    return [column for column in looked_at if microdata.table.kept[column].hierarchy is not None]


def points_of(microdata: Microdata, sensitive: list[int], *, alpha: float, beta: float, sign: int) -> Points:
    """The table's rows as points; sensitive: numbers of kept columns with a hierarchy.

    Raises UsageError where alpha and beta are no shares that sum to 1, or sign is neither +1 nor -1.
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
            scale.append(weight / nodes.shape[1])
            base += weight
    for column in sensitive if beta else []:
        nodes = _paths_of_texts(microdata, column)
        paths.append(nodes[microdata.values[:, column]])
        scale.append(sign * beta / len(sensitive) / max(1, nodes.shape[1]))
    numeric = np.flatnonzero(~space.is_category)
    first, last = space.edges(microdata.cells, microdata.cells)
    numbers = ((first + last) / 2 / space.width)[:, numeric]
    return Points(*_in_columns(len(microdata), paths, scale), numbers, weight, base)


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
    """Nodes as columns of one matrix, a column for every node and level that occurs, and what each column counts."""
    columns, scales, first = [np.empty((n, 0), dtype=np.int64)], [np.empty(0)], 0
    for nodes, each in zip(paths, scale, strict=True):
        for level in nodes.T:
            used, here = np.unique(level, return_inverse=True)
            columns.append((here + first).astype(np.int64)[:, None])
            scales.append(np.full(len(used), each))
            first += len(used)
    return np.ascontiguousarray(np.concatenate(columns, axis=1)), np.concatenate(scales)


class Measured:
    """Points measured from one set of centres, some rows at a time."""

    def __init__(self, points: Points, centres: Centres) -> None:
        self._points = points
        exact = np.rint(centres.nodes * points.scale * EXACT) / EXACT
        self._nodes = np.ascontiguousarray(exact.astype(np.float32).T)
        self._numbers = np.ascontiguousarray(centres.numbers.astype(np.float32).T)

    def distances(self, first: int, last: int) -> Singles:
        """From the rows first..last - 1 to all centres; float32 (last - first, p), at least 0."""
        points = self._points
        here = np.zeros((last - first, len(points.scale)), dtype=np.float32)
        np.put_along_axis(here, points.paths[first:last], np.float32(1), axis=1)
        common = here @ self._nodes
        numbers = points.numbers[first:last].astype(np.float32)
        _from_common(common, points.base, numbers, self._numbers, points.weight)
        return common


@compiled
def _from_common(common: Singles, base: float, numbers: Singles, centres: Singles, weight: float) -> None:
    """Turns common paths (b, p) into distances, in place; numbers (b, q), centres (q, p)."""
    nothing, most, each = np.float32(0), np.float32(base), np.float32(weight)
    for i in range(common.shape[0]):
        for j in range(common.shape[1]):
            common[i, j] = most - common[i, j]
        for q in range(numbers.shape[1]):
            number = numbers[i, q]
            for j in range(common.shape[1]):
                common[i, j] += each * abs(number - centres[q, j])
        for j in range(common.shape[1]):
            common[i, j] = max(common[i, j], nothing)
