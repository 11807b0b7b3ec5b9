"""The NCP of runs of cells in compiled loops: the same figures as the space's own."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.box_loss import EMPTY_HI, EMPTY_LO, loss, ncp_term, shape_of, total, widen
from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Table
from worlds.microdata import TABLES, assert_cities_are_ragged

assert_cities_are_ragged()


@st.composite
def runs(draw: st.DrawFn, small: Table) -> tuple[np.ndarray, np.ndarray]:
    ends = [sorted(draw(st.tuples(*[st.integers(0, int(n) - 1)] * 2))) for n in small.space.n_cells]
    return np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends])


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_share_and_loss_are_those_of_the_smallest_publishable_box(small: Table, data: st.DataObject) -> None:
    lo, hi = data.draw(runs(small))
    shape = shape_of(small.space)
    box = small.space.generalize(lo.copy(), hi.copy())
    terms = [ncp_term(shape, j, lo[j], hi[j]) for j in range(small.space.d)]
    assert terms == small.space.ncp_terms(*box).tolist()
    assert loss(shape, lo, hi) == small.space.ncp(*box)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=0, max_size=3), min_size=1, max_size=30))
def test_a_run_of_leaves_has_the_share_of_its_node_in_any_tree(paths: list[list[str]]) -> None:
    rows = [
        [f"leaf {i}", *("/".join(path[:end]) for end in range(len(path), 0, -1)), "*"] for i, path in enumerate(paths)
    ]
    tree = Hierarchy.from_rows(rows)
    small = Table("t", ("id",), (CategoricalAttribute("leaf", tree, Decimal(1)),), (), 2)
    shape = shape_of(small.space)
    for lo in range(tree.n_leaves):
        for hi in range(lo, tree.n_leaves):
            first, last = tree.cover(lo, hi)
            assert ncp_term(shape, 0, lo, hi) == ((last - first + 1) / tree.n_leaves if lo < hi else 0)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_a_box_widened_row_by_row_is_the_box_of_the_rows(small: Table, data: st.DataObject) -> None:
    rows = [data.draw(runs(small))[0] for _ in range(data.draw(st.integers(1, 4)))]
    shape, d = shape_of(small.space), small.space.d
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    changed = [widen(shape, cells, lo, hi, term) for cells in rows]
    assert (lo == np.min(rows, axis=0)).all() and (hi == np.max(rows, axis=0)).all()
    assert term.tolist() == [ncp_term(shape, j, lo[j], hi[j]) for j in range(d)]
    assert total(term) == loss(shape, lo, hi)
    assert changed[0] and not widen(shape, rows[-1], lo, hi, term)
