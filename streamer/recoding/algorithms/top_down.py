"""Top-down local recoding: one QI group that says nothing, specialized level by level as long as the model holds.

The first QI group is the whole table, at the tops of all attributes. Each is specialized (`algorithms.specialization`)
into children and perhaps a remainder, which are specialized in turn, until no attribute can be lowered. QI groups are
numbered depth first: children in the order of their first rows, then the remainder.

Source: Wong, Li, Fu and Wang, "(alpha, k)-Anonymity: An enhanced k-anonymity model for privacy-preserving data
publishing", KDD 2006, which Tong et al. 2010 cite beside their bottom-up twin.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, rules_of
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.algorithms.specialization import REMAINDER, Tree, Trial, choose, sort_by_part, tree_of, trial_for
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata


@compiled
def _specialized(rules: Rules, tree: Tree, trial: Trial, rows: Ints, most: int) -> tuple[Ints, Ints]:
    """Sorts the rows (n,) by QI group; the levels (m, d) of each, at most `most`, and where its rows end, (m,)."""
    n, d = rows.shape[0], tree.n_levels.shape[0]
    level, waiting_level = np.zeros((most, d), np.int64), np.zeros((most, d), np.int64)
    ends, waiting_end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    waiting_level[0], waiting_end[0] = tree.n_levels - 1, n
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
        behind = child[: end - begin].min() == REMAINDER
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


TOP_DOWN = Algorithm(
    "top-down",
    "specializes, level by level, the rows that still hold then",
    "Wong et al. 2006",
    run,
    no_objections,
)
