"""Bundles: what is never torn, and rows with the same cells in an order that mixes their sensitive values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.compiled import scratch_for
from streamer.privacy.models import Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.bundles import bundled, count_in, forget, task_of
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, VALUES, microdata, people
from worlds.small_tables import YEARS


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
        count_in(task, bundle)
    forget(task, np.array(sorted(chosen), dtype=np.int64))
    for counts, empty in zip(task.scratch, scratch_for(task.rules), strict=True):
        assert np.array_equal(counts, empty)
