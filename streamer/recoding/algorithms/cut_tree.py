"""The order in which `ordered` looks for QI groups: the leaves of a tree of best cuts, from left to right.

A node is a set of bundles (`algorithms.bundles`), the whole table first. Along every attribute its bundles stand in
the order of that attribute's cells, equal ones as they came. A cut (`algorithms.best_cut`) may fall between any two of
them, between equal values too; the lower part stands to the left. A node whose bundles all have the same cells is a
leaf. Where the model counts more than rows, a node that holds it is cut so that both parts hold it, if there is such a
cut. In a node of fewer than SMALL times the fewest rows of a group p = 1: it becomes a few groups at most, so its own
loss is what counts.

*Tiles* are the nodes, from the root down, that hold the model and have not two children that both hold. They stand
side by side and make up the whole order: the root holds, and a node that is no tile hands over to its two children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.recoding.algorithms.best_cut import Scan, best_cut, scan_for
from streamer.recoding.algorithms.bundles import Task, hold, weight
from streamer.table.arrays import Bools, Ints

SMALL = 4


@compiled
def _part(along: Ints, best_j: int, best_at: int, is_lower: Bools, aside: Ints) -> None:
    """Moves the lower part of a node to the left along every attribute; along (d, m). is_lower, aside: scratch."""
    d, m = along.shape
    for i in range(m):
        is_lower[along[best_j, i]] = i < best_at
    for j in range(d):
        if j == best_j:
            continue
        left, right = 0, 0
        for i in range(m):
            bundle = along[j, i]
            if is_lower[bundle]:
                along[j, left] = bundle
                left += 1
            else:
                aside[right] = bundle
                right += 1
        along[j, left:] = aside[:right]


class Growth(NamedTuple):
    """A tree of m bundles while it grows. along (d, m): the bundles along every attribute; tile (m,): as `order_of`
    answers; todo (m + 1, 3): the parts that are still to be cut, next one last: begin, end, whether they hold; n_todo
    (1,): how many. The rest is scratch.
    """

    along: Ints
    tile: Ints
    todo: Ints
    n_todo: Ints
    scan: Scan
    is_lower: Bools
    aside: Ints
    box: Ints


@compiled
def _growth_of(task: Task) -> Growth:
    """A tree that is its root. All bundles together hold the model."""
    m, d = task.bundles.cells.shape
    along = np.empty((d, m), np.int64)
    for j in range(d):
        along[j] = np.argsort(task.bundles.cells[:, j], kind="mergesort")
    todo = np.empty((m + 1, 3), np.int64)
    todo[0] = np.array([0, m, 1])
    return Growth(along, np.zeros(m, np.int64), todo, np.ones(1, np.int64), scan_for(m, d), np.zeros(m, np.bool_),
        np.empty(m, np.int64), np.empty((2, d), np.int64))  # fmt: skip


@compiled
def _wait(growth: Growth, begin: int, end: int, holding: bool) -> None:
    """Puts a part before all others that are still to be cut."""
    at = growth.n_todo[0]
    growth.todo[at, 0], growth.todo[at, 1], growth.todo[at, 2] = begin, end, holding
    growth.n_todo[0] = at + 1


@compiled
def _grow(task: Task, growth: Growth, sharpness: int | np.int64) -> None:
    """Cuts part after part, from left to right."""
    bundles, along, tile = task.bundles, growth.along, growth.tile
    d = bundles.cells.shape[1]
    counted = task.rules.distinct.shape[0] > 0
    rows_least = 2 * task.rows_min
    lo, hi = growth.box
    while growth.n_todo[0] > 0:
        growth.n_todo[0] -= 1
        begin, end, holding = growth.todo[growth.n_todo[0]]
        holds_so_far = holding == 1
        if end - begin == 1:
            if holds_so_far:
                tile[begin] = end
            continue
        for j in range(d):
            lo[j], hi[j] = bundles.cells[along[j, begin], j], bundles.cells[along[j, end - 1], j]
        if (lo == hi).all():
            if holds_so_far:
                tile[begin] = end
            continue
        here = along[:, begin:end]
        rows = weight(bundles, here[0])
        if end - begin == 2 and not (holds_so_far and rows >= rows_least):
            # every cut leaves the one here and the other there, and that of the first attribute wins
            along[0, begin:end] = along[np.argmax(lo < hi), begin:end]
            if holds_so_far:
                tile[begin] = end
            continue
        p = 0 if rows < SMALL * task.rows_min else sharpness
        strict = counted and holds_so_far and rows >= rows_least
        best_j, best_at, both = best_cut(task, here, lo, hi, p, strict, growth.scan)
        _part(here, best_j, best_at, growth.is_lower, growth.aside)
        middle = begin + best_at
        if holds_so_far and not counted:
            both = hold(task, along[0, begin:middle]) and hold(task, along[0, middle:end])
        if holds_so_far and not both:
            tile[begin] = end
        _wait(growth, middle, end, both)
        _wait(growth, begin, middle, both)


@compiled
def order_of(task: Task, sharpness: int | np.int64) -> tuple[Ints, Ints]:
    """The bundles in order, int64 (m,), and by position where the tile that begins there ends, else 0; int64 (m,).

    All bundles together hold the model.
    """
    growth = _growth_of(task)
    _grow(task, growth, sharpness)
    return growth.along[0].copy(), growth.tile
