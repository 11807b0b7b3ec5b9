"""Generalization hierarchies of categories, as trees of leaf intervals.

The rules of this file
----------------------
* Leaves are numbered in depth-first order, children by first appearance in the file, so that every node of the tree is
  an interval [lo, hi] of leaf numbers ("codes"). Files need not be in tree order.
* A row of a file runs from the leaf to the root: `leaf;level 1;...;root` (ARX's format). Rows may be ragged: they are
  read from the root end. A repeated leaf row is accepted if its path is the same.
* Files come with semicolons, tabs, commas or bars, a line `sep=;`, comments (`# ...`) and a header: `rows_of_text`
  reads them all. A comment has no delimiter; a header has the column's name in front, or words such as `level1`.
* Several roots get a common root `*`.
* Nodes over the same leaves are one node, named by its lowest label: the leaf, if it has only one.
* A label names a node at a level, as in ARX: the leaf 33.1 may lie below a node 33.1 that rounds 33.12, too. Where
  labels are published (of categories, not of numbers or sensitive values), two nodes that publish one label are
  refused, because no reader could tell which one is meant.
* A *level* is a column of the file: level 0 the leaves, the last one the root. A short row stays at its leaf for the
  levels that it lacks, and a row that repeats a label stays there, so nodes of one level may nest: under `unknown;*;*`
  and `baker;craft;*` level 1 has `craft`, and `*` for the unknown. Leaves that have one node at a level share a node at
  every higher level: if their rows name different nodes there, the widest counts for all. Only full-domain recoding and
  heights use levels.

The smallest node that covers an interval is found by climbing from its first leaf; for arrays level by level from the
root down (`cover_many`). So no table of pairs of leaves is ever built.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from io import StringIO
from itertools import pairwise
from typing import Protocol
from unicodedata import combining, normalize

import numpy as np

from streamer.errors import ConfigError
from streamer.table.arrays import Ints, ranks

ROOT_LABEL = "*"

_DELIMITERS = ";\t,|"
_SEP_LINE = re.compile(r'"?sep=(.)"?\s*')
_HEADER = re.compile(
    r"(leaf|leaves|level|lvl|parent|child|ancestor|generalization|stufe|ebene|niveau|nivel|livello)[\s_-]*\d*"
)


def rows_of_text(text: str, column: str) -> list[list[str]]:
    """The rows of a hierarchy file, from leaf to root, with an empty one for each line that is no row.

    column: its name, which a header may repeat. Raises csv.Error.

    >>> rows_of_text("sex|level1\\n# two\\nF|*\\nM|*", "sex")
    [[], [], ['F', '*'], ['M', '*']]
    """
    lines = text.splitlines()
    told = _SEP_LINE.fullmatch(lines[0]) if lines else None
    delimiter = told[1] if told else max(_DELIMITERS, key=lambda mark: sum(mark in line for line in lines))
    rows = [
        [cell.strip() for cell in row]
        for row in csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    ]
    if told:
        rows[0] = []
    if any(len(row) > 1 for row in rows):
        rows = [[] if len(row) == 1 and row[0].startswith("#") else row for row in rows]
    first = next((number for number, row in enumerate(rows) if row), None)
    if first is not None and _is_header(rows[first], column, [row for row in rows[first + 1 :] if row]):
        rows[first] = []
    return rows


def paths_from(rows: Iterable[Sequence[str]], level: int) -> dict[str, list[str]]:
    """By leaf, the labels of a file's row from a level to the root, for rows of which a tree could be made.

    >>> paths_from([["flu", "lung", "inside"], ["burn", "skin"]], 1)
    {'flu': ['lung', 'inside', '*'], 'burn': ['burn', 'skin', '*']}
    """
    paths = [path for path in ([cell.strip() for cell in row if cell.strip()] for row in rows) if path]
    roots = {path[-1] for path in paths}
    paths = [[*path, ROOT_LABEL] if len(roots) > 1 else [*path, *roots] if len(path) == 1 else path for path in paths]
    height = max(map(len, paths))
    return {path[0]: ([path[0]] * (height - len(path)) + path)[level:] for path in paths}


def _is_header(row: list[str], column: str, below: Sequence[Sequence[str]]) -> bool:
    """True if a first row names the columns of the others: none of its cells is one of theirs."""
    words = [cell.casefold().lstrip("#").strip() for cell in row]
    says_so = words[0] == column.casefold() or any(map(_HEADER.fullmatch, words))
    return says_so and len(row) > 1 and bool(below) and not {*row} & {cell for other in below for cell in other}


class _Branch:
    """A node while the tree is being built: its label, its children in order of appearance, and its number.

    Children are known by their label and by whether they are leaves.
    """

    __slots__ = ("children", "label", "node")

    def __init__(self, label: str) -> None:
        self.label = label
        self.children: dict[tuple[str, bool], _Branch] = {}
        self.node = -1

    def child(self, label: str, is_leaf: bool) -> _Branch:
        return self.children.setdefault((label, is_leaf), _Branch(label))


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
            """Numbers the nodes below `branch` in depth-first order; returns the last leaf."""
            chain = []
            while len(branch.children) == 1:  # same leaves as its only child: one node, the lower label
                chain.append(branch)
                branch = next(iter(branch.children.values()))
            node, first = len(labels), len(leaves)
            for one in (*chain, branch):
                one.node = node
            labels.append(branch.label)
            node_lo.append(first)
            node_hi.append(first)
            here = [*path, node]
            if not branch.children:
                leaves.append(branch.label)
                paths.append(here)
            for child in branch.children.values():
                node_hi[node] = visit(child, here)
            all_labels.extend((one.label, first, node_hi[node]) for one in (*chain, branch))
            return node_hi[node]

        visit(root, [])
        self.leaves: tuple[str, ...] = tuple(leaves)
        self.code_of: dict[str, int] = {leaf: code for code, leaf in enumerate(leaves)}
        self.node_lo: Ints = np.array(node_lo, dtype=np.int64)
        self.node_hi: Ints = np.array(node_hi, dtype=np.int64)
        self.labels: tuple[str, ...] = tuple(labels)
        self._named = frozenset(all_labels)
        self.interval_of: dict[str, tuple[int, int]] = {label: (lo, hi) for label, lo, hi in all_labels}
        self.interval_of |= {label: (lo, hi) for label, lo, hi in zip(labels, node_lo, node_hi, strict=True)}
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
    def from_rows(cls, rows: Iterable[Sequence[str]], published: bool = True) -> Hierarchy:
        """The tree of rows from leaf to root, without empty cells; published: whether its labels are.

        Raises ConfigError.
        """
        rows = list(rows)
        paths: dict[str, tuple[str, ...]] = {}
        for number, row in enumerate(rows, start=1):
            path = tuple(cell.strip() for cell in row if cell.strip())
            if not path:
                continue
            if not row[0].strip():
                raise ConfigError(f"hierarchy row {number}: the first cell, which names the leaf, is empty{_OF_NULLS}")
            if paths.setdefault(path[0], path) != path:
                said = f"hierarchy row {number}: leaf {path[0]!r} has another path in an earlier row"
                raise ConfigError(said + (_FROM_THE_ROOT if _is_upside_down(rows) else ""))
        if not paths:
            raise ConfigError("hierarchy: no rows; expected one line per leaf, from the leaf to the root")
        roots: dict[str, _Branch] = {}
        branches = [_branches(roots.setdefault(path[-1], _Branch(path[-1])), path) for path in paths.values()]
        top = next(iter(roots.values()))
        if len(roots) > 1:
            top = _Branch(ROOT_LABEL)
            top.children = {(label, False): root for label, root in roots.items()}
            branches = [[*row, top] for row in branches]
        elif len(paths) > 1:  # a leaf alone in its row may have the root's label
            branches = [row if len(row) > 1 else [*row, top] for row in branches]
        tree = cls(top)
        tree._check_labels(branches, published, is_added=len(roots) > 1)
        tree.levels = tree._levels_of(branches)
        return tree

    def _levels_of(self, rows: Sequence[Sequence[_Branch]]) -> Ints:
        """The node of every leaf at every level of the file; int64 (levels, leaves)."""
        height = max(map(len, rows))
        levels: Ints = np.empty((height, self.n_leaves), dtype=np.int64)
        for row in rows:
            padded = [row[0]] * (height - len(row)) + [*row]
            levels[:, self.code_of[row[0].label]] = [branch.node for branch in padded]
        for below, here in pairwise(levels):
            here[:] = widest_by_class(below, here)
        return levels

    def _check_labels(self, rows: Sequence[Sequence[_Branch]], published: bool, is_added: bool) -> None:
        """Raises ConfigError if a label names two nodes at one level or, published, two nodes at any."""
        height = max(map(len, rows))
        at_level: dict[tuple[int, str], int] = {}
        lowest: dict[tuple[str, int], int] = {}
        for row in rows:
            for level, branch in enumerate(row[1:], start=height - len(row) + 1):
                lowest[branch.label, branch.node] = min(level, lowest.get((branch.label, branch.node), level))
                if at_level.setdefault((level, branch.label), branch.node) != branch.node:
                    raise ConfigError(
                        f"hierarchy: {branch.label!r} at level {level} names two sets of leaves: rename one of them,"
                        f" such as to {self._free_label(branch.label)!r}"
                    )
        known: dict[str, int] = {}
        for node in np.argsort(self.node_hi - self.node_lo, kind="stable").tolist() if published else ():
            label = self.labels[node]
            if (other := known.setdefault(label, node)) == node:
                continue
            is_parent = label in {row[1].label for row in rows} & self.code_of.keys()
            if is_added and is_parent and all(len(row) == 3 for row in rows):
                raise ConfigError(f"hierarchy: {_PAIRS}")
            said = [self._described(one, lowest) for one in (other, node)]
            what = "rename the node, such as to" if said[0] == "a leaf" else "rename one of them, such as to"
            if node == 0 and is_added:
                raise ConfigError(f"hierarchy: {_several_roots(rows)}")
            raise ConfigError(
                f"hierarchy: {label!r} is {said[0]} and {said[1]}, and no reader of a published {label!r} could tell"
                f" which one is meant: {what} {self._free_label(label)!r}"
            )

    def _described(self, node: int, lowest: Mapping[tuple[str, int], int]) -> str:
        n_leaves = int(self.node_hi[node] - self.node_lo[node]) + 1
        level = lowest.get((self.labels[node], node))  # None: of the root that is added
        return "a leaf" if n_leaves == 1 else f"the node at level {level} over {n_leaves} leaves"

    def _free_label(self, label: str) -> str:
        """A label like this one that no node has."""
        while label in self.interval_of:
            label += "*"
        return label

    def is_ambiguous(self, label: str) -> bool:
        """True if several nodes have this label."""
        return sum(name == label for name, _, _ in self._named) > 1

    def has_look_alike(self, text: str) -> bool:
        """True if a leaf differs from a text only in capitals, blanks, accents or signs that nobody sees."""
        return _look(text) in self._looks

    @cached_property
    def _looks(self) -> frozenset[str]:
        return frozenset(map(_look, self.leaves))

    @property
    def n_leaves(self) -> int:
        return len(self.leaves)

    @property
    def n_nodes(self) -> int:
        return len(self.labels)

    @property
    def n_levels(self) -> int:
        """Levels from the leaf to the root, both counted."""
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
        """Label of the node over exactly the leaves lo..hi; KeyError if there is no such node."""
        return self.labels[self.node_of[lo, hi]]

    def fingerprint(self) -> str:
        """Hash of the contents; equal for hierarchies that generalize alike and publish the same labels."""
        text = "\x1e".join(f"{lo}\x1f{hi}\x1f{label}" for label, lo, hi in sorted(self._named))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


_OF_NULLS = ": if it stands for empty cells, as in files of ARX, set `null: own-category`; else remove the row"
_PAIRS = "rows are pairs of a node and the one above it: write a row for each leaf, with its whole path to the root"
_FROM_THE_ROOT = ": rows run from the leaf to the root, and these seem to begin with the root"


def _is_upside_down(rows: Sequence[Sequence[str]]) -> bool:
    """True if all rows begin alike and end otherwise."""
    ends = [(row[0].strip(), row[-1].strip()) for row in rows if row]
    return len({first for first, _ in ends}) == 1 < len({last for _, last in ends}) == len(ends)


def _several_roots(rows: Sequence[Sequence[_Branch]]) -> str:
    """The fault of rows that end with several labels, if the root above these has the label of another node."""
    leaf_of: dict[str, str] = {}
    for row in rows:
        leaf_of.setdefault(row[-2].label, row[0].label)
    (first, leaf), (second, _), *_ = sorted(leaf_of.items(), key=lambda item: item[0] == ROOT_LABEL)
    header = (
        f" (is the row of {leaf!r} a header? remove it)" if sum(row[-2].label == first for row in rows) == 1 else ""
    )
    return f"rows end with several labels, {first!r} and {second!r}{header}: end all with one, the root"


def _look(text: str) -> str:
    """A text without capitals, blanks, accents and signs that nobody sees."""
    signs = normalize("NFKD", text).casefold()
    return "".join(sign for sign in signs if sign.isprintable() and not sign.isspace() and not combining(sign))


def _branches(root: _Branch, path: Sequence[str]) -> list[_Branch]:
    """The branches of a row, from its leaf to its root, which are made where they are missing."""
    found = [root]
    for label in path[-2:0:-1]:
        found.append(found[-1] if label == found[-1].label else found[-1].child(label, is_leaf=False))
    if len(path) == 1:
        return [root.child(path[0], is_leaf=True)]
    return [found[-1].child(path[0], is_leaf=True), *reversed(found)]


def widest_by_class(classes: Ints, nodes: Ints) -> Ints:
    """The widest node of each member's class; all int64 (m,).

    The nodes of a class contain one another. Numbers are depth first, so the wider of two has the lower number.
    """
    widest = np.full(classes.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(widest, classes, nodes)
    return widest[classes]


# The generalization levels of one attribute: how full-domain recoding coarsens all its values alike.
#
# Level 0 publishes the cell itself, the last level the whole domain; values that are one at a level are one at every
# higher level. A value is an interval, its first and last cell: in a ragged hierarchy two values of a level either nest
# or are apart, so the first cell alone would not do.
#
# Levels of categories are the columns of the hierarchy's file. Levels of numbers are runs of 2, 4, 8 ... cells, counted
# from the start of the domain, or the columns of a hierarchy of their own. Of such a hierarchy only the leaves count:
# they must name every value of the domain, and every node must be a run of values and end where cells end. A cell has
# the widest of its values' nodes. A label that does not contain its leaf (`20` under `15-19`) is only a warning,
# because the published interval is made from the leaves.

VALUES_MAX = 1_000_000
"""The most values of a numeric domain with a hierarchy, whose file has a line for each."""

_RANGE = re.compile(r"\s*\[?\(?\s*(-?\d+(?:\.\d+)?)\s*(?:-|–|,|;|\.\.|to)\s*(-?\d+(?:\.\d+)?)\s*\]?\)?\s*")


class Levels(Protocol):
    """The levels of one attribute."""

    n_levels: int

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        """First and last cell of the value that `level` publishes for each of `cells`; int64, their shape."""

    def reach(self, level: int, cells: Ints) -> Ints:
        """Last cell of the widest value of `level` that each of `cells` lies in; int64, their shape."""


class TableLevels:
    """Levels looked up by cell; lo and hi: int64 (levels, cells)."""

    def __init__(self, lo: Ints, hi: Ints) -> None:
        self.lo, self.hi = lo, hi
        self.n_levels = len(lo)

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        return self.lo[level][cells], self.hi[level][cells]

    def reach(self, level: int, cells: Ints) -> Ints:
        return np.asarray(self._reaches[level][cells])

    @cached_property
    def _reaches(self) -> Ints:
        """Last cell of the widest value around every cell: values nest, so it begins first and ends last."""
        ends = np.zeros_like(self.hi)
        for level, (lo, hi) in enumerate(zip(self.lo, self.hi, strict=True)):
            np.maximum.at(ends[level], lo, hi)
        return np.maximum.accumulate(ends, axis=1)


class DoublingLevels:
    """Runs of 2 ** level cells.

    >>> levels = DoublingLevels(5)
    >>> levels.n_levels, levels.recode(1, np.array([0, 3, 4]))
    (4, (array([0, 2, 4]), array([1, 3, 4])))
    """

    def __init__(self, n_cells: int) -> None:
        self._n_cells = n_cells
        self.n_levels = (n_cells - 1).bit_length() + 1

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        lo = cells >> level << level
        return lo, np.minimum(lo + (1 << level) - 1, self._n_cells - 1)

    def reach(self, level: int, cells: Ints) -> Ints:
        return self.recode(level, cells)[1]


def value_numbers(levels: Levels, level: int, cells: Ints) -> Ints:
    """Numbers, from 0 without gaps, of the values that `level` publishes for `cells`; int64 (m,)."""
    return ranks(np.stack(levels.recode(level, cells), axis=1))


def levels_of_tree(tree: Hierarchy) -> TableLevels:
    """The levels of a categorical attribute."""
    return TableLevels(tree.node_lo[tree.levels], tree.node_hi[tree.levels])


def levels_of_numbers(
    tree: Hierarchy, domain: tuple[Decimal, Decimal], step: Decimal, codes_per_cell: int
) -> TableLevels:
    """The levels that a hierarchy file gives a numeric attribute with a step. Raises ConfigError if it does not fit."""
    n_values = int((domain[1] - domain[0]) / step) + 1
    if n_values > VALUES_MAX:
        what = f"a domain of {n_values} values is too large for a hierarchy; {VALUES_MAX} are allowed"
        raise ConfigError(f"{what}: give a `grid` instead, or a larger `step`")
    leaf_of = _leaves_by_number(tree)
    values = [domain[0] + i * step for i in range(n_values)]
    for value in values:
        if value not in leaf_of:
            raise ConfigError(
                f"{value:f} is in the domain, but not a leaf of the hierarchy; add it, or make the domain smaller"
            )
    leaves = np.array([leaf_of[value] for value in values], dtype=np.int64)
    nodes = _nodes_of_cells(tree, tree.levels[:, leaves], codes_per_cell)
    lo = np.tile(np.arange(nodes.shape[1]), (len(nodes), 1))
    hi, inner = lo.copy(), nodes < tree.n_nodes
    used, at = np.unique(nodes[inner], return_inverse=True)
    first, last = _runs_of_values(tree, used, leaves)
    last[last == n_values - 1] = lo.shape[1] * codes_per_cell - 1  # the last cell may be a short one
    inside = (first % codes_per_cell != 0) | ((last + 1) % codes_per_cell != 0)
    if inside.any():
        raise ConfigError(
            f"the node {tree.labels[used[inside][0]]!r} begins or ends inside a cell of the grid; change the grid or"
            " the start of the domain, so that nodes begin and end with cells"
        )
    lo[inner], hi[inner] = first[at] // codes_per_cell, last[at] // codes_per_cell
    return TableLevels(lo, hi)


def _nodes_of_cells(tree: Hierarchy, nodes: Ints, codes_per_cell: int) -> Ints:
    """The widest node of every cell at every level; nodes int64 (levels, values) -> (levels, cells).

    A cell whose values are all at their leaves has a number of its own, from n_nodes on.
    """
    cell = np.arange(nodes.shape[1]) // codes_per_cell
    nodes = np.where(tree.node_lo[nodes] == tree.node_hi[nodes], tree.n_nodes + cell, nodes)
    nodes[0] = tree.n_nodes + cell
    widest = np.minimum.reduceat(nodes, np.arange(0, nodes.shape[1], codes_per_cell), axis=1)
    for below, here in pairwise(widest):
        here[:] = widest_by_class(below, here)
    return widest


def _runs_of_values(tree: Hierarchy, nodes: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    """First and last value below each of the nodes (m,); leaves int64 (values,), the leaf of each value.

    Raises ConfigError for a node whose values are not consecutive.
    """
    n_values = len(leaves)
    smallest, largest = np.full(tree.n_leaves + 1, n_values), np.full(tree.n_leaves + 1, -1)
    smallest[leaves] = largest[leaves] = np.arange(n_values)
    ends = np.stack([tree.node_lo[nodes], tree.node_hi[nodes] + 1], axis=1).ravel()
    first = np.minimum.reduceat(smallest, ends)[::2] if len(nodes) else ends
    last = np.maximum.reduceat(largest, ends)[::2] if len(nodes) else ends
    n_below = np.concatenate([[0], np.cumsum(largest >= 0)])
    if (last - first + 1 != n_below[ends[1::2]] - n_below[ends[::2]]).any():
        raise ConfigError("a node holds values that are not consecutive; a range of numbers must have no gaps")
    return first, last


def _leaves_by_number(tree: Hierarchy) -> dict[Decimal, int]:
    found: dict[Decimal, int] = {}
    for code, leaf in enumerate(tree.leaves):
        try:
            found[Decimal(leaf)] = code
        except ArithmeticError:
            raise ConfigError(f"the leaf {leaf!r} is not a number, but the column's type is one of numbers") from None
    return found


def labels_beside_their_leaves(tree: Hierarchy) -> Iterator[tuple[str, str]]:
    """Leaves of a numeric hierarchy outside the range that a label above them names: (leaf, label).

    >>> list(labels_beside_their_leaves(Hierarchy.from_rows([["19", "15-19"], ["20", "15-19"], ["21", "20-24"]])))
    [('20', '15-19')]
    """
    for leaf, code in tree.code_of.items():
        for node in dict.fromkeys(tree.levels[1:, code].tolist()):
            ends = _RANGE.fullmatch(tree.labels[node])
            if ends and not Decimal(ends[1]) <= Decimal(leaf) <= Decimal(ends[2]):
                yield leaf, tree.labels[node]
