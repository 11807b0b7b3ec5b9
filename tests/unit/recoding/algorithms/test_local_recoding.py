"""Bottom-up and top-down local recoding: laws, a twin in plain Python, orphans, and what the answers mean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.privacy.models import (
    AtMostShare,
    Model,
    distinct_l,
    k_anonymity,
)
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Algorithm
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP, Labelling, numbered
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, VALUES, assert_laws, boxes, canonical_form, holding, microdata, permuted

both = pytest.mark.parametrize("algorithm", [BOTTOM_UP, TOP_DOWN], ids=lambda algorithm: algorithm.name)
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))
some_model = st.sampled_from(list(MODELS.values()))


@both
@every_model
@given(data=st.data(), small=some_table)
def test_rows_are_in_one_group_that_holds_and_in_its_box(
    algorithm: Algorithm, model: Model, data: st.DataObject, small: Table
) -> None:
    assert_laws(algorithm, data.draw(microdata(small)), model)


@both
@given(data=st.data(), small=some_table, model=some_model, seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_change_what_is_published(
    algorithm: Algorithm, data: st.DataObject, small: Table, model: Model, seed: int
) -> None:
    rows = data.draw(microdata(small))
    one = holding(algorithm, rows, model)
    assert boxes(holding(algorithm, permuted(rows, seed), model)) == boxes(one)


# --- bottom-up ---------------------------------------------------------------------------------------------------


class Twin:
    """Steps 2 and 3 of algorithm 1, row by row: labelled as (box, rows); unlabelled rows and their levels."""

    def __init__(self, data: Microdata, model: Model) -> None:
        self.data, self.model = data, model
        self.levels = [attribute.levels for attribute in data.table.attributes]
        self.level = [0] * data.space.d
        self.left = list(range(len(data)))
        self.labelled: list[tuple[tuple, list[int]]] = []
        self.label()

    def box(self, row: int, level: list[int]) -> tuple[tuple[int, int], ...]:
        ends = []
        for levels, v, cell in zip(self.levels, level, self.data.cells[row], strict=True):
            lo, hi = levels.recode(v, np.array([cell]))
            ends.append((int(lo[0]), int(hi[0])))
        return tuple(ends)

    def groups(self, level: list[int]) -> dict[tuple, list[int]]:
        found: dict[tuple, list[int]] = {}
        for row in self.left:
            found.setdefault(self.box(row, level), []).append(row)
        return found

    def holds(self, rows: list[int], model: Model) -> bool:
        return model.holds(self.data.subjects(model.subjects)[rows])

    def label(self) -> None:
        for box, rows in sorted(self.groups(self.level).items()):
            if self.holds(rows, self.model):
                self.labelled.append((box, rows))
        done = {row for _, rows in self.labelled for row in rows}
        self.left = [row for row in self.left if row not in done]

    def goes_on(self) -> bool:
        growing = Model([part for part in self.model.constraints if not isinstance(part, AtMostShare)])
        risen = all(v == levels.n_levels - 1 for v, levels in zip(self.level, self.levels, strict=True))
        return not risen and len(self.left) >= self.model.rows_min and self.holds(self.left, growing)

    def step(self) -> None:
        best, chosen = None, 0
        for j in range(len(self.level)):
            if self.level[j] + 1 == self.levels[j].n_levels:
                continue
            higher = [v + (i == j) for i, v in enumerate(self.level)]
            labels = sum(len(rows) for rows in self.groups(higher).values() if self.holds(rows, self.model))
            adds = 0.0
            for _, rows in sorted(self.groups(self.level).items()):
                adds += len(rows) * (self.ncp(rows[0], higher, j) - self.ncp(rows[0], self.level, j))
            score = (labels / adds if adds else float("inf"), -adds)
            if best is None or score > best:
                best, chosen = score, j
        self.level[chosen] += 1
        self.label()

    def ncp(self, row: int, level: list[int], j: int) -> float:
        lo, hi = np.array(self.box(row, level)).T
        return float(self.data.space.ncp_terms(lo, hi)[j])


@every_model
@given(data=st.data(), small=some_table)
def test_labels_are_those_that_rows_one_by_one_would_give(model: Model, data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small, max_rows=20))
    rows = canonical_form(rows)
    fast, twin = Labelling(rows, model), Twin(rows, model)
    while twin.goes_on():
        assert fast.goes_on()
        fast.step()
        twin.step()
    assert not fast.goes_on()
    lo, hi = np.concatenate(fast.lo).tolist(), np.concatenate(fast.hi).tolist()
    labelled = [tuple(zip(*ends, strict=True)) for ends in zip(lo, hi, strict=True)]
    assert labelled == [box for box, _ in twin.labelled]
    for number, (_, members) in enumerate(twin.labelled):
        assert np.flatnonzero(fast.qi_group == number).tolist() == members
    assert np.flatnonzero(fast.qi_group < 0).tolist() == twin.left


@given(data=st.data(), small=some_table, model=some_model)
def test_no_two_groups_publish_equal_values_before_the_orphans_are_settled(
    data: st.DataObject, small: Table, model: Model
) -> None:
    rows = data.draw(microdata(small))
    labelling = Labelling(canonical_form(rows), model)
    while labelling.goes_on():
        labelling.step()
    ends = np.concatenate([np.concatenate(labelling.lo), np.concatenate(labelling.hi)], axis=1)
    assert len(np.unique(ends, axis=0)) == len(ends)


def test_rows_that_hold_as_they_are_keep_their_exact_values() -> None:
    recoding = run(BOTTOM_UP, numbers([2, 2, 2, 5, 6]), k_anonymity(2))
    assert boxes(recoding) == [((2,), (2,), 3), ((4,), (7,), 2)]


CELLS = st.one_of(st.integers(0, 4), st.integers(2**61 - 4, 2**61))


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12))
def test_vectors_are_numbered_in_their_own_order_however_many_there_could_be(rows: list[list[int]]) -> None:
    columns = list(np.array(rows).T)
    ranked = sorted(set(map(tuple, rows)))
    assert numbered(columns).tolist() == [ranked.index(tuple(row)) for row in rows]


# --- Adult -------------------------------------------------------------------------------------------------------


def loss(data: Microdata, recoding: Recoding) -> float:
    return float((recoding.sizes * data.space.ncp(recoding.lo, recoding.hi)).sum()) / len(data) / data.space.d


@pytest.mark.slow
def test_on_adult_both_lose_less_than_median_mondrian(adult: Path) -> None:
    data, model = adult_microdata(10), k_anonymity(10)
    median = loss(data, run(MONDRIAN, data, model))
    assert loss(data, run(BOTTOM_UP, data, model)) < median
    assert loss(data, run(TOP_DOWN, data, model)) < median


@pytest.mark.slow
@both
def test_on_adult_the_kept_values_are_diverse_where_that_is_asked(algorithm: Algorithm, adult: Path) -> None:
    data = adult_microdata(5)
    model = k_anonymity(5) & distinct_l(VALUES, 2)
    recoding = run(algorithm, data, model)
    classes = Counter(zip(recoding.qi_group.tolist(), data.values[:, 0].tolist(), strict=True))
    assert len(classes) == 2 * recoding.n_groups
