"""Top-down local recoding: one QI group that says nothing, specialized level by level as long as the model holds.

The first QI group is the whole table, at the tops of all attributes. Each is specialized (`algorithms.specialization`)
into children and perhaps a remainder, which are specialized in turn, until no attribute can be lowered. QI groups are
numbered depth first: children in the order of their first rows, then the remainder.

Source: Wong, Li, Fu and Wang, "(alpha, k)-Anonymity: An enhanced k-anonymity model for privacy-preserving data
publishing", KDD 2006, which Tong et al. 2010 cite beside their bottom-up twin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, rules_of
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import SOME_ROWS, Algorithm, Options, no_objections
from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.algorithms.specialization import REMAINDER, Tree, Trial, choose, sort_by_part, tree_of, trial_for
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.telling import Tick


class _Groups(NamedTuple):
    """QI groups that are done, and others that wait, the next one last; m, as many as there can be.

    level (m, d), ends (m,): of a group that is done the levels, and where its rows end; child (n,): scratch.
    """

    level: Ints
    ends: Ints
    waiting_level: Ints
    waiting_end: Ints
    child: Ints
    n: Ints  # (2,) how many are done, how many wait


def _groups_for(tree: Tree, n: int, rows_min: int) -> _Groups:
    """One group of n rows that waits."""
    most, d = n // rows_min + 1, len(tree.n_levels)
    level, waiting_level = np.zeros((2, most, d), dtype=np.int64)
    ends, waiting_end = np.zeros((2, most), dtype=np.int64)
    waiting_level[0], waiting_end[0] = tree.n_levels - 1, n
    return _Groups(level, ends, waiting_level, waiting_end, np.empty(n, dtype=np.int64), np.array([0, 1]))


@compiled
def _specialize_some(rules: Rules, tree: Tree, trial: Trial, rows: Ints, groups: _Groups, some: int) -> None:
    """Sorts the rows (n,) by QI group, group after group until these had so many rows together."""
    level, ends, child = groups.level, groups.ends, groups.child
    waiting_level, waiting_end = groups.waiting_level, groups.waiting_end
    done, waiting = groups.n
    begin = ends[done - 1] if done > 0 else 0
    while waiting > 0 and some > 0:
        waiting -= 1
        end = waiting_end[waiting]
        some -= end - begin
        here = waiting_level[waiting].copy()
        j = choose(rules, tree, trial, here, rows[begin:end], child)
        if j < 0:
            level[done], ends[done] = here, end
            begin = end
            done += 1
            continue
        n_parts = sort_by_part(trial, rows[begin:end], child[: end - begin])
        behind = child[: end - begin].min() == REMAINDER
        for part in range(n_parts - 1, -1, -1):
            waiting_level[waiting] = here
            waiting_level[waiting, j] -= 0 if behind and part == n_parts - 1 else 1
            waiting_end[waiting] = begin + trial.begins[part + 1]
            waiting += 1
    groups.n[0], groups.n[1] = done, waiting


def run(microdata: Microdata, model: Model, options: Options, tick: Tick) -> Recoding:
    """Top-down specialization under any model."""
    n, d = microdata.cells.shape
    rules, tree = rules_of(model, microdata.subjects(model.subjects)), tree_of(microdata)
    rows, trial, groups = np.arange(n, dtype=np.int64), trial_for(rules, tree), _groups_for(tree, n, model.rows_min)
    while groups.n[1]:
        _specialize_some(rules, tree, trial, rows, groups, SOME_ROWS)
        tick(groups.ends[groups.n[0] - 1] / n)
    level, ends, n_groups = groups.level, groups.ends, groups.n[0]
    sizes = np.diff(ends[:n_groups], prepend=0)
    qi_group = np.empty(n, dtype=np.int64)
    qi_group[rows] = np.repeat(np.arange(n_groups), sizes)
    lo = np.empty((n_groups, d), dtype=np.int64)
    hi, cells = lo.copy(), microdata.cells[rows[ends[:n_groups] - 1]]
    for j, attribute in enumerate(microdata.table.attributes):
        for v in range(attribute.levels.n_levels):
            at = level[:n_groups, j] == v
            lo[at, j], hi[at, j] = attribute.levels.recode(v, cells[at, j])
    return Recoding(qi_group, lo, hi)


TOP_DOWN = Algorithm(
    "top-down",
    "specializes, level by level, the rows that still hold then",
    "Wong et al. 2006",
    run,
    no_objections,
)
