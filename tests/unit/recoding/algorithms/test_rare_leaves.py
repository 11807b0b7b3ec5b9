"""Rare leaves taken for one: which leaves, by climbing the tree, and what an order without them is worth."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.ordered import SEGMENTED, without_rare_leaves
from streamer.recoding.algorithms.rare_leaves import SHARE_MIN, pooled
from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import TABLES, microdata, people
from worlds.small_tables import YEARS

CODE = CategoricalAttribute("code", Hierarchy.from_rows([f"{i}", "*"] for i in range(300)), Decimal(60))


def node_above(tree: Hierarchy, leaf: int) -> tuple[int, int]:
    """The smallest node with this leaf and another one, as its first and last leaf."""
    nodes = zip(tree.node_lo.tolist(), tree.node_hi.tolist(), strict=True)
    return min(((lo, hi) for lo, hi in nodes if lo <= leaf <= hi and lo < hi), key=lambda node: node[1] - node[0])


def codes_of(*columns: np.ndarray) -> Microdata:
    codes = np.stack(columns, axis=1).astype(np.int64)
    return Microdata(people(YEARS, CODE), codes, None, np.zeros((len(codes), 1), dtype=np.int64), ((b"null",),))


@given(data=st.data(), small=st.sampled_from([TABLES["one category"], TABLES["decimal, number, category"]]))
def test_rare_leaves_under_one_node_and_no_others_become_one(data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    rows_min = data.draw(st.integers(1, 12))
    _, task = task_of(rows, k_anonymity(1))
    (j, tree), *_ = rows.space.trees
    before = task.bundles.cells[:, j]
    count = np.bincount(before, minlength=tree.n_leaves)
    rare = count[before] < rows_min
    simpler = pooled(task, rows_min)
    assert (simpler is None) == (rare.mean() < SHARE_MIN)
    assume(simpler is not None)
    assert simpler is not None
    after = simpler.bundles.cells[:, j]
    others = np.arange(rows.space.d) != j
    assert (simpler.bundles.cells[:, others] == task.bundles.cells[:, others]).all()
    assert (after[~rare] == before[~rare]).all()
    for a in np.flatnonzero(rare):
        assert count[after[a]] < rows_min
        for b in np.flatnonzero(rare):
            assert (after[a] == after[b]) == (node_above(tree, before[a]) == node_above(tree, before[b]))


def test_frequent_leaves_get_groups_of_their_own_and_rare_ones_lie_close_in_the_other_columns() -> None:
    """Half of the rows have one of five leaves, the other half one of three hundred."""
    rng = np.random.default_rng(1)
    leaf = np.where(rng.random(2_000) < 0.5, rng.integers(0, 5, 2_000) * 60, rng.integers(0, 300, 2_000))
    _, task = task_of(codes_of(rng.integers(0, 100, 2_000), leaf), k_anonymity(5))
    plain = min(candidate(task)[0] for candidate in SEGMENTED)
    assert without_rare_leaves(task, 4)[0] < 0.9 * plain


@pytest.mark.parametrize("n_leaves", [1, 20])
def test_without_rare_leaves_there_is_no_such_order(n_leaves: int) -> None:
    leaf = np.repeat(np.arange(n_leaves), 50)
    _, task = task_of(codes_of(np.arange(len(leaf)) % 50, leaf), k_anonymity(5))
    assert pooled(task, 50) is None
    assert without_rare_leaves(task, 4)[0] == np.inf
