"""Top-down local recoding: one QI group that says nothing, specialized level by level as long as the model holds.

The first QI group is the whole table, at the tops of all attributes. A QI group has one level for every attribute
(`attribute.levels`) and publishes what these levels say. *Specializing* an attribute by one level splits its rows into
children, one for each value of that level. The attribute whose specialization lowers the NCP of the group's rows most
is chosen, of equals the earlier one. A level at which all rows agree is taken at once. Children are specialized in
turn, until no attribute can be lowered.

Children that do not hold stay behind, unspecialized, together: the *remainder*, a group like any other, and smaller
than the one it comes from. A remainder that does not hold takes rows back: from the child of most rows first (of equals
the earlier child), row by row as they come, each row that lessens what the remainder lacks (`local_recoding.lack`) and
without which its child still holds. If that is not enough, it takes back whole children, those of fewest rows first (of
equals the later). So children and remainder hold, and every row is in one of them. QI groups are numbered depth first:
children in the order of their first rows, then the remainder.

Source: Wong, Li, Fu and Wang, "(alpha, k)-Anonymity: An enhanced k-anonymity model for privacy-preserving data
publishing", KDD 2006, which Tong et al. 2010 cite beside their bottom-up twin. They choose the attribute with which
most rows are specialized; NCP also distinguishes a large step from a small one. They know no individuals, and neither
does taking back: rows are taken back one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.native import compiled, inlined
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, holds_together, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding
from streamer.recoding.algorithms.local_recoding import lack
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.hierarchy import value_numbers
from streamer.table.microdata import Microdata

REMAINDER = -1  # the number of a child


class LevelTree(NamedTuple):
    """The levels of d attributes over the cells that occur, and where every row stands.

    Attribute j at level v of cell number c is at the position start[j] + v * n_used[j] + c of value and ncp.
    """

    cell_number: Ints  # (d, n) the row's cell, numbered among those of its attribute that occur
    start: Ints  # (d,)
    n_used: Ints  # (d,) cells that occur
    n_levels: Ints  # (d,)
    value: Ints  # as a number among the values of its level
    ncp: Floats


class Trial(NamedTuple):
    """Scratch for trying a specialization."""

    child: Ints  # (n,) by row: the child it is in, or REMAINDER
    n_of: Ints  # (values,) rows by value; 0 between uses
    values: Ints  # the values that occur, by first row
    along: Ints  # (n,) the group's rows by child
    begins: Ints  # where each child begins there, with the end
    giving: Scratch
    remainder: Scratch


def tree_of(microdata: Microdata) -> LevelTree:
    """The levels of the table's attributes, and where its rows stand."""
    n, attributes = len(microdata), microdata.table.attributes
    numbers, sizes, value, ncp = np.empty((len(attributes), n), dtype=np.int64), [], [], []
    for j, attribute in enumerate(attributes):
        used, numbers[j] = np.unique(microdata.cells[:, j], return_inverse=True)
        levels, axis = attribute.levels, microdata.space.of_one(j)
        sizes.append((len(used), levels.n_levels))
        for level in range(levels.n_levels):
            lo, hi = levels.recode(level, used)
            value.append(value_numbers(levels, level, used))
            ncp.append(axis.ncp(lo[:, None], hi[:, None]))
    n_used, n_levels = np.array(sizes, dtype=np.int64).T.copy()
    start = np.cumsum(n_used * n_levels) - n_used * n_levels
    return LevelTree(numbers, start, n_used, n_levels, np.concatenate(value), np.concatenate(ncp))


def trial_for(rules: Rules, tree: LevelTree) -> Trial:
    """Scratch for QI groups of the table, one after the other."""
    n, most = tree.cell_number.shape[1], int(tree.n_used.max())
    child, along = np.empty((2, n), dtype=np.int64)
    n_of, values, begins = np.zeros((3, most + 2), dtype=np.int64)
    return Trial(child, n_of, values, along, begins, scratch_for(rules), scratch_for(rules))


def _value(tree: LevelTree, j: int, level: int, row: int) -> int:
    return int(tree.value[tree.start[j] + level * tree.n_used[j] + tree.cell_number[j, row]])


def _agree(tree: LevelTree, j: int, level: int, rows: Ints) -> bool:
    first = _value(tree, j, level, rows[0])
    for row in rows:  # noqa: SIM110 - compiled
        if _value(tree, j, level, row) != first:
            return False
    return True


def _sort_by_child(tree: LevelTree, trial: Trial, j: int, level: int, rows: Ints) -> int:
    """Fills in values, along and begins for the children that attribute j has at `level`; how many."""
    n_children = 0
    for row in rows:
        value = _value(tree, j, level, row)
        if trial.n_of[value] == 0:
            trial.values[n_children] = value
            n_children += 1
        trial.n_of[value] += 1
    trial.begins[0] = 0
    for c in range(n_children):
        trial.begins[c + 1] = trial.begins[c] + trial.n_of[trial.values[c]]
        trial.n_of[trial.values[c]] = trial.begins[c]
    for row in rows:
        value = _value(tree, j, level, row)
        trial.along[trial.n_of[value]] = row
        trial.n_of[value] += 1
    for c in range(n_children):
        trial.n_of[trial.values[c]] = 0
    return n_children


def _specialize(rules: Rules, tree: LevelTree, trial: Trial, j: int, level: int, rows: Ints) -> float:
    """Fills in trial.child for attribute j at `level`, one below the group's; returns how much the rows' NCP falls."""
    n_children = _sort_by_child(tree, trial, j, level, rows)
    stands = np.empty(n_children, dtype=np.bool_)
    n_behind = 0
    for c in range(n_children):
        members = trial.along[trial.begins[c] : trial.begins[c + 1]]
        stands[c] = holds_together(rules, trial.giving, members)
        for row in members:
            trial.child[row] = c if stands[c] else REMAINDER
        n_behind += 0 if stands[c] else len(members)
    if n_behind == len(rows):
        return 0.0
    if n_behind > 0:
        _hold_remainder(rules, trial, rows, stands)
    fall = 0.0
    for c in range(n_children):
        n = 0
        for row in trial.along[trial.begins[c] : trial.begins[c + 1]]:
            n += int(trial.child[row] != REMAINDER)
        row = trial.along[trial.begins[c]]
        below = tree.start[j] + level * tree.n_used[j] + tree.cell_number[j, row]
        fall += n * (tree.ncp[below + tree.n_used[j]] - tree.ncp[below])
    return fall


def _hold_remainder(rules: Rules, trial: Trial, rows: Ints, stands: Bools) -> None:
    """Takes rows back from the children that stand until the remainder holds."""
    for row in rows:
        if trial.child[row] == REMAINDER:
            add(rules, trial.remainder, row)
    asks = stands.copy()
    while lack(rules, trial.remainder) > 0:
        c = _of_most_rows(trial, asks)
        if c < 0:
            break
        asks[c] = False
        _take_back(rules, trial, trial.along[trial.begins[c] : trial.begins[c + 1]])
    while lack(rules, trial.remainder) > 0:  # at least one child stands, or the remainder would hold
        c = _of_fewest_rows(trial, stands)
        stands[c] = False
        for row in trial.along[trial.begins[c] : trial.begins[c + 1]]:
            if trial.child[row] != REMAINDER:
                add(rules, trial.remainder, row)
                trial.child[row] = REMAINDER
    for row in rows:
        if trial.child[row] == REMAINDER:
            remove(rules, trial.remainder, row)


def _of_most_rows(trial: Trial, among: Bools) -> int:
    """The child of most rows, of equals the earlier; -1 if there is none."""
    best, most = -1, -1
    for c in range(len(among)):
        size = trial.begins[c + 1] - trial.begins[c]
        if among[c] and size > most:
            best, most = c, size
    return best


def _of_fewest_rows(trial: Trial, among: Bools) -> int:
    """The child of fewest rows, of equals the later."""
    best, fewest = -1, len(trial.along) + 1
    for c in range(len(among)):
        size = trial.begins[c + 1] - trial.begins[c]
        if among[c] and size <= fewest:
            best, fewest = c, size
    return best


def _take_back(rules: Rules, trial: Trial, members: Ints) -> None:
    """Takes back rows that the remainder needs and without which the child `members` holds."""
    missing = lack(rules, trial.remainder)
    for row in members:
        add(rules, trial.giving, row)
    for row in members:
        if missing == 0:
            break
        add(rules, trial.remainder, row)
        remove(rules, trial.giving, row)
        if lack(rules, trial.remainder) < missing and holds(rules, trial.giving):
            trial.child[row] = REMAINDER
            missing = lack(rules, trial.remainder)
        else:
            remove(rules, trial.remainder, row)
            add(rules, trial.giving, row)
    clear(rules, trial.giving, members)


def choose(rules: Rules, tree: LevelTree, trial: Trial, level: Ints, rows: Ints, child: Ints) -> int:
    """The attribute to specialize, or -1; fills in child by row of `rows`; lowers levels at which all rows agree."""
    best, most = -1, 0.0
    for j in range(len(level)):
        while level[j] > 0 and _agree(tree, j, level[j] - 1, rows):
            level[j] -= 1
    for j in range(len(level)):
        if level[j] > 0:
            fall = _specialize(rules, tree, trial, j, level[j] - 1, rows)
            if fall > most:
                best, most = j, fall
                for i in range(len(rows)):
                    child[i] = trial.child[rows[i]]
    return best


def sort_by_part(trial: Trial, rows: Ints, child: Ints) -> int:
    """Sorts the rows by child, the remainder last; fills in begins and returns how many parts there are."""
    n_children = 0
    for c in child:
        n_children = max(n_children, c + 1)
    size = np.zeros(n_children + 1, dtype=np.int64)
    for c in child:
        size[_position(c, n_children)] += 1
    n_parts = 0
    trial.begins[0] = 0
    at = np.empty(n_children + 1, dtype=np.int64)
    for c in range(n_children + 1):
        at[c] = trial.begins[n_parts]
        if size[c] > 0:
            trial.begins[n_parts + 1] = at[c] + size[c]
            n_parts += 1
    before = rows.copy()
    for i in range(len(rows)):
        position = _position(child[i], n_children)
        rows[at[position]] = before[i]
        at[position] += 1
    return n_parts


@inlined
def _position(child: int, n_children: int) -> int:
    """Where a child stands among the others; the remainder is the last."""
    return n_children if child == REMAINDER else child


def rows_left(child: Ints) -> bool:
    """True if some rows stay behind."""
    for c in child:  # noqa: SIM110 - compiled
        if c == REMAINDER:
            return True
    return False


@compiled
def _specialized(rules: Rules, tree: LevelTree, trial: Trial, rows: Ints, most: int) -> tuple[Ints, Ints]:
    """Sorts the rows (n,) by QI group; the levels (m, d) of each, at most `most`, and where its rows end, (m,)."""
    n, d = rows.shape[0], tree.n_levels.shape[0]
    level, waiting_level = np.zeros((most, d), np.int64), np.zeros((most, d), np.int64)
    ends, waiting_end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    for j in range(d):
        waiting_level[0, j] = tree.n_levels[j] - 1
    waiting_end[0] = n
    child = np.empty(n, np.int64)
    begin, done, waiting = 0, 0, 1
    while waiting > 0:
        waiting -= 1
        end = waiting_end[waiting]
        here = waiting_level[waiting].copy()
        j = choose(rules, tree, trial, here, rows[begin:end], child)
        if j < 0:
            level[done], ends[done] = here, end
            begin = end
            done += 1
            continue
        n_parts = sort_by_part(trial, rows[begin:end], child[: end - begin])
        behind = rows_left(child[: end - begin])
        for part in range(n_parts - 1, -1, -1):
            waiting_level[waiting] = here
            waiting_level[waiting, j] -= 0 if behind and part == n_parts - 1 else 1
            waiting_end[waiting] = begin + trial.begins[part + 1]
            waiting += 1
    return level[:done], ends[:done]


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Top-down specialization under any model."""
    n, d = microdata.cells.shape
    rules, tree = rules_of(model, microdata.subjects(model.subjects)), tree_of(microdata)
    rows = np.arange(n, dtype=np.int64)
    level, ends = _specialized(rules, tree, trial_for(rules, tree), rows, n // model.rows_min + 1)
    n_groups = len(ends)
    sizes = np.diff(ends, prepend=0)
    qi_group = np.empty(n, dtype=np.int64)
    qi_group[rows] = np.repeat(np.arange(n_groups), sizes)
    lo = np.empty((n_groups, d), dtype=np.int64)
    hi, cells = lo.copy(), microdata.cells[rows[ends - 1]]
    for j, attribute in enumerate(microdata.table.attributes):
        for v in range(attribute.levels.n_levels):
            at = level[:, j] == v
            lo[at, j], hi[at, j] = attribute.levels.recode(v, cells[at, j])
    return Recoding(qi_group, lo, hi)


TOP_DOWN = Algorithm("top-down", "specializes, level by level, the rows that still hold then", "Wong et al. 2006", run)
