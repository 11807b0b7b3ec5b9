"""Generalization hierarchies of categories, as trees of leaf intervals.

The rules of this file
----------------------
* Leaves are numbered in depth-first order, children by first appearance in the file, so that every node of the tree is
  an interval [lo, hi] of leaf numbers ("codes"). Files need not be in tree order.
* A row of a file runs from the leaf to the root: `leaf;level 1;...;root` (ARX's format). Rows may be ragged: they are
  read from the root end. A leaf row that comes twice is accepted if its path is the same.
* Several roots get a common root `*`.
* Nodes over the same leaves are one node, named by its lowest label: a leaf where the interval is one leaf.
* A label names one set of leaves. A file that gives the same label to two sets is refused, because no reader of the
  published table could tell which one is meant.
* A *level* is a column of the file, counted from the leaf: level 0 the leaves, the last one the root. A row that is
  shorter than the longest stays at its leaf for the levels it lacks, and one that repeats a label stays there. So the
  nodes of one level may nest: under `unknown;*;*` and `baker;craft;*` level 1 has a craft and, for the unknown,
  everything. What one level makes one value stays one: where the lines of its leaves then say different nodes, the
  widest counts for all of them. Levels are for full-domain recoding and for heights alone.

The smallest node that covers an interval is found by climbing from its first leaf; arrays climb level by level from
the root down (`cover_many`), so no table of pairs of leaves is ever built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from streamer.errors import ConfigError
from streamer.table.arrays import Ints

ROOT_LABEL = "*"


class _Branch:
    """A node while the tree is being built: its label and its children by label, in order of appearance."""

    __slots__ = ("children", "label")

    def __init__(self, label: str) -> None:
        self.label = label
        self.children: dict[str, _Branch] = {}


class Hierarchy:
    """A generalization hierarchy: which categories there are and which nodes generalize them.

    >>> h = Hierarchy.from_rows([["flu", "lung", "*"], ["ulcer", "belly", "*"], ["cough", "lung", "*"]])
    >>> h.leaves
    ('flu', 'cough', 'ulcer')
    >>> h.label(*h.cover(h.code_of["flu"], h.code_of["cough"]))
    'lung'
    """

    def __init__(self, root: _Branch) -> None:
        leaves: list[str] = []
        node_lo: list[int] = []
        node_hi: list[int] = []
        labels: list[str] = []
        all_labels: list[tuple[str, int, int]] = []
        paths: list[list[int]] = []

        def visit(branch: _Branch, path: list[int]) -> int:
            """Numbers the nodes in depth-first order; returns the last leaf below `branch`."""
            chain = []
            while len(branch.children) == 1:  # same leaves as its only child: one node, the lower label
                chain.append(branch.label)
                branch = next(iter(branch.children.values()))
            node, first = len(labels), len(leaves)
            labels.append(branch.label)
            node_lo.append(first)
            node_hi.append(first)
            here = [*path, node]
            if not branch.children:
                leaves.append(branch.label)
                paths.append(here)
            for child in branch.children.values():
                node_hi[node] = visit(child, here)
            all_labels.extend((label, first, node_hi[node]) for label in (*chain, branch.label))
            return node_hi[node]

        visit(root, [])
        self.leaves: tuple[str, ...] = tuple(leaves)
        self.code_of: dict[str, int] = {leaf: code for code, leaf in enumerate(leaves)}
        self.node_lo: Ints = np.array(node_lo, dtype=np.int64)
        self.node_hi: Ints = np.array(node_hi, dtype=np.int64)
        self.labels: tuple[str, ...] = tuple(labels)
        self.interval_of: dict[str, tuple[int, int]] = {}
        for label, lo, hi in all_labels:
            if self.interval_of.setdefault(label, (lo, hi)) != (lo, hi):
                raise ConfigError(f"hierarchy: the label {label!r} names two different sets of leaves; rename one")
        self.node_of: dict[tuple[int, int], int] = {
            (lo, hi): node for node, (lo, hi) in enumerate(zip(node_lo, node_hi, strict=True))
        }
        depth = max(len(path) for path in paths)
        self._climb: tuple[tuple[tuple[int, int], ...], ...] = tuple(
            tuple((node_lo[node], node_hi[node]) for node in reversed(path)) for path in paths
        )
        self._path: Ints = np.array([path + [path[-1]] * (depth - len(path)) for path in paths], dtype=np.int64).T
        self.levels: Ints = self._path[::-1]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]]) -> Hierarchy:
        """Builds the tree from rows leaf-to-root; empty cells are left out.

        Raises ConfigError for no rows, an empty leaf, a leaf with two different paths, a leaf that is also an inner
        node, or a label with two sets of leaves.
        """
        paths: dict[str, tuple[str, ...]] = {}
        for number, row in enumerate(rows, start=1):
            path = tuple(cell.strip() for cell in row if cell.strip())
            if not path:
                continue
            if not row[0].strip():
                raise ConfigError(f"hierarchy row {number}: the first cell, the leaf, is empty")
            if paths.setdefault(path[0], path) != path:
                raise ConfigError(f"hierarchy row {number}: leaf {path[0]!r} was given another path before")
        if not paths:
            raise ConfigError("hierarchy: no rows; expected one line per leaf, from the leaf to the root")
        roots: dict[str, _Branch] = {}
        for path in paths.values():
            branch = roots.setdefault(path[-1], _Branch(path[-1]))
            for label in path[-2::-1]:
                if label != branch.label:  # the same label twice in a row is one node
                    branch = branch.children.setdefault(label, _Branch(label))
        top = next(iter(roots.values()))
        if len(roots) > 1:
            top = _Branch(ROOT_LABEL)
            top.children = roots
        tree = cls(cls._checked(top, set(paths)))
        tree.levels = tree._levels_of(paths)
        return tree

    def _levels_of(self, paths: Mapping[str, Sequence[str]]) -> Ints:
        """The node of every leaf at every level of the file; int64 (levels, leaves)."""
        top = (self.labels[0],) if len({path[-1] for path in paths.values()}) > 1 else ()
        height = max(map(len, paths.values())) + len(top)
        columns = []
        for leaf in self.leaves:
            path = (*paths[leaf], *top)
            padded = (leaf,) * (height - len(path)) + path
            columns.append([self.node_of[self.interval_of[label]] for label in padded])
        levels: Ints = np.array(columns, dtype=np.int64).T
        for below, here in pairwise(levels):
            here[:] = widest_by_class(below, here)
        return levels

    @staticmethod
    def _checked(top: _Branch, leaves: set[str]) -> _Branch:
        """Every leaf of the tree is a leaf row and the other way round."""
        found: set[str] = set()
        todo = [top]
        while todo:
            branch = todo.pop()
            if branch.children:
                todo.extend(branch.children.values())
            else:
                found.add(branch.label)
        if inner := sorted(leaves - found):
            raise ConfigError(f"hierarchy: {inner[0]!r} is a leaf in one row and an inner node in another")
        return top

    @property
    def n_leaves(self) -> int:
        return len(self.leaves)

    @property
    def n_nodes(self) -> int:
        return len(self.labels)

    @property
    def n_levels(self) -> int:
        """Columns of the file: levels from the leaf to the root, both counted."""
        return len(self.levels)

    def cover(self, lo: int, hi: int) -> tuple[int, int]:
        """Leaf interval of the smallest node that covers the leaves lo..hi (both inclusive)."""
        for node_lo, node_hi in self._climb[lo]:
            if node_hi >= hi:
                return node_lo, node_hi
        raise ConfigError(f"hierarchy: no node covers the leaves {lo} to {hi}; there are {self.n_leaves}")

    def cover_many(self, lo: Ints, hi: Ints) -> Ints:
        """Numbers of the smallest nodes that cover lo[i]..hi[i]; int64, the shape of lo and hi."""
        node: Ints = self._path[0][lo]
        for level in self._path[1:]:
            below = level[lo]
            node = np.where(self.node_hi[below] >= hi, below, node)
        return node

    def label(self, lo: int, hi: int) -> str:
        """Label of the node over exactly the leaves lo..hi; KeyError where there is no such node."""
        return self.labels[self.node_of[lo, hi]]

    def fingerprint(self) -> str:
        """Hash of the contents: equal for hierarchies that generalize alike and publish the same labels."""
        text = "\x1e".join(f"{lo}\x1f{hi}\x1f{label}" for label, (lo, hi) in sorted(self.interval_of.items()))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def widest_by_class(classes: Ints, nodes: Ints) -> Ints:
    """The widest of the nodes that the members of each class have; int64 (m,), the shape of both.

    All nodes of one class contain one another. Numbers are depth first, so the wider of two has the lower number.
    """
    widest = np.full(classes.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(widest, classes, nodes)
    return widest[classes]
