"""Bundles: what is never torn, and rows with the same cells in an order that mixes their sensitive values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.kernels.boxes import geometry, ncp_term, total, widen
from streamer.privacy.compiled import scratch_for
from streamer.privacy.models import Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, add_bundle, bundled, clear_bundles, task_of
from streamer.table.codes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, VALUES, assert_cities_are_ragged, microdata, people
from worlds.small_tables import YEARS

# The NCP of runs of cells in compiled loops: the same figures as the space's own.

assert_cities_are_ragged()


@st.composite
def runs(draw: st.DrawFn, small: Table) -> tuple[np.ndarray, np.ndarray]:
    ends = [sorted(draw(st.tuples(*[st.integers(0, int(n) - 1)] * 2))) for n in small.space.n_cells]
    return np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends])


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_share_and_loss_are_those_of_the_smallest_publishable_box(small: Table, data: st.DataObject) -> None:
    lo, hi = data.draw(runs(small))
    shape = geometry(small.space)
    box = small.space.generalize(lo.copy(), hi.copy())
    terms = [ncp_term(shape, j, lo[j], hi[j]) for j in range(small.space.d)]
    assert terms == small.space.ncp_terms(*box).tolist()
    assert sum(terms) == small.space.ncp(*box)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=0, max_size=3), min_size=1, max_size=30))
def test_a_run_of_leaves_has_the_share_of_its_node_in_any_tree(paths: list[list[str]]) -> None:
    rows = [
        [f"leaf {i}", *("/".join(path[:end]) for end in range(len(path), 0, -1)), "*"] for i, path in enumerate(paths)
    ]
    tree = Hierarchy.from_rows(rows)
    small = Table("t", ("id",), (CategoricalAttribute("leaf", tree, Decimal(1)),), (), 2)
    shape = geometry(small.space)
    for lo in range(tree.n_leaves):
        for hi in range(lo, tree.n_leaves):
            first, last = tree.cover(lo, hi)
            assert ncp_term(shape, 0, lo, hi) == ((last - first + 1) / tree.n_leaves if lo < hi else 0)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_a_box_widened_row_by_row_is_the_box_of_the_rows(small: Table, data: st.DataObject) -> None:
    rows = [data.draw(runs(small))[0] for _ in range(data.draw(st.integers(1, 4)))]
    shape, d = geometry(small.space), small.space.d
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    changed = [widen(shape, cells, cells, lo, hi, term) for cells in rows]
    assert (lo == np.min(rows, axis=0)).all() and (hi == np.max(rows, axis=0)).all()
    assert term.tolist() == [ncp_term(shape, j, lo[j], hi[j]) for j in range(d)]
    assert total(term) == sum(term.tolist())
    assert changed[0] and not widen(shape, rows[-1], rows[-1], lo, hi, term)


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), model=st.sampled_from(list(MODELS.values())))
def test_a_bundle_is_one_row_or_all_rows_of_one_individual_in_one_cell(
    data: st.DataObject, small: Table, model: Model
) -> None:
    people = data.draw(microdata(small))
    rows, bundles = bundled(people, model)
    assert sorted(rows.tolist()) == list(range(len(people)))
    assert bundles.begin.tolist() == [0, *bundles.end[:-1].tolist()]
    assert bundles.end[-1] == len(people)
    seen = set()
    for cells, begin, end in zip(bundles.cells.tolist(), bundles.begin, bundles.end, strict=True):
        assert all(people.cells[row].tolist() == cells for row in rows[begin:end])
        if people.individuals is None:
            assert end - begin == 1
            continue
        (who,) = {int(people.individuals[row]) for row in rows[begin:end]}
        assert (who, *cells) not in seen
        seen.add((who, *cells))


def test_the_counted_value_is_spread_evenly_among_rows_of_one_cell() -> None:
    codes, values = np.array([1] * 8 + [2] * 2)[:, None], np.array([0] * 6 + [1] * 2 + [0, 1])[:, None]
    data = Microdata(people(YEARS), codes, None, values, ((b'"cough"', b'"flu"'),))
    spread, _ = bundled(data, distinct_l(VALUES, 2))
    assert values[spread, 0].tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0, 1]
    plain, _ = bundled(data, k_anonymity(2))
    assert values[plain, 0].tolist() == values[:, 0].tolist()


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), model=st.sampled_from(list(MODELS.values())))
def test_after_bundles_are_forgotten_nothing_is_counted(data: st.DataObject, small: Table, model: Model) -> None:
    _, task = task_of(data.draw(microdata(small)), model)
    chosen = data.draw(st.sets(st.integers(0, len(task.bundles.begin) - 1)))
    for bundle in chosen:
        add_bundle(task, bundle)
    clear_bundles(task, np.array(sorted(chosen), dtype=np.int64))
    for counts, empty in zip(task.scratch[:5], scratch_for(task.rules)[:5], strict=True):
        assert np.array_equal(counts, empty)
