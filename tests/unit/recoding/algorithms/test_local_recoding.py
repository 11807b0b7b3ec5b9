"""Bottom-up and top-down local recoding: laws, a twin in plain Python, orphans, and what the answers mean."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.privacy.compiled import add, rules_of, scratch_for
from streamer.privacy.models import AtMostShare, Model, distinct_l, k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Algorithm, Recoding, check
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP, Labelling, lack, numbered, settled
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.microdata import INDIVIDUAL, Microdata
from streamer.table.schema import Table
from worlds.algorithms_by_hand import lacking, obeys
from worlds.microdata import (
    FEWER,
    VALUES,
    boxes,
    canonical_form,
    every_model,
    microdata,
    numbers,
    some_model,
    some_table,
)

# Rows that no group could hold: where they go, and what the groups around them give.


def settle(data: Microdata, model: Model, qi_group: list[int]) -> Recoding:
    """Settles the orphans, marked -1, among groups that publish the smallest boxes of their members."""
    group = np.array(qi_group)
    members = [data.cells[group == g] for g in range(max(qi_group) + 1)]
    ends = [data.space.box_of_cells(cells) for cells in members]
    recoding = settled(data, model, group, np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends]))
    check(data, model, recoding)
    return recoding


def test_what_orphans_lack_moves_from_the_groups_nearest_to_them() -> None:
    recoding = settle(numbers([0, 0, 0, 4, 5, 5, 9]), k_anonymity(2), [0, 0, 0, 1, 1, 1, -1])
    assert recoding.qi_group.tolist() == [0, 0, 0, 1, 2, 1, 2]
    assert boxes(recoding) == [((0,), (0,), 3), ((4,), (5,), 2), ((5,), (9,), 2)]


def test_orphans_all_over_the_table_do_not_become_one_group_of_everything() -> None:
    recoding = settle(numbers([0, 0, 0, 9, 9, 9, 1, 8]), k_anonymity(2), [0, 0, 0, 1, 1, 1, -1, -1])
    assert boxes(recoding) == [((0,), (1,), 4), ((8,), (9,), 4)]
    cells, rare = [i % 10 for i in range(200)], [int(i % 20 in (1, 4, 7)) for i in range(200)]
    recoding = run(BOTTOM_UP, numbers(cells, rare), k_anonymity(2) & distinct_l(VALUES, 2))
    assert recoding.sizes.max() < 100


def test_orphans_that_fit_nowhere_take_in_the_nearest_groups_until_they_hold() -> None:
    model = k_anonymity(4) & Model([AtMostShare(VALUES, Fraction(1, 3))])
    cells, values = [0] * 4 + [3] * 4 + [7] * 4 + [9], [1, 2, 3, 4] + [0, 1, 2, 3] * 2 + [0]
    recoding = settle(numbers(cells, values), model, [0] * 4 + [1] * 4 + [2] * 4 + [-1])
    assert boxes(recoding) == [((0,), (9,), 5), ((3,), (3,), 4), ((7,), (7,), 4)]
    recoding = settle(numbers(cells[4:], values[4:]), model, [0] * 4 + [1] * 4 + [-1])
    assert boxes(recoding) == [((3,), (9,), 9)]


def joined(data: Microdata, model: Model, qi_group: list[int], ends: list[tuple]) -> tuple[list[int], list[tuple]]:
    """Step 5 row by row: every orphan to the group of least rise that holds with it; those that fit nowhere stay.

    Under laws about distributions none joins.
    """
    if model.laws:
        return qi_group, ends
    shares = [column for column, subject in enumerate(model.subjects) if subject in model.shares]
    subjects = data.subjects(model.subjects)
    orphans = [row for row, g in enumerate(qi_group) if g < 0]
    for row in sorted(orphans, key=lambda row: (*subjects[row, shares[::-1]].tolist(), row)):
        best = None
        for g, (lo, hi) in enumerate(ends):
            members = [i for i, group in enumerate(qi_group) if group == g]
            box = data.space.generalize(np.minimum(lo, data.cells[row]), np.maximum(hi, data.cells[row]))
            rise = (len(members) + 1) * data.space.ncp(*box) - len(members) * data.space.ncp(lo, hi)
            if model.holds(subjects[[*members, row]]) and (best is None or rise < best[0]):
                best = (rise, g, box)
        if best is not None:
            qi_group[row], ends[best[1]] = best[1], best[2]
    return qi_group, ends


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data(), small=some_table, model=some_model)
def test_orphans_join_the_groups_that_rows_one_by_one_would_choose(
    data: st.DataObject, small: Table, model: Model
) -> None:
    rows = data.draw(microdata(small, max_rows=25))
    rows = canonical_form(rows)
    assume(model.holds(rows.subjects(model.subjects)))
    labelling = Labelling(rows, model)
    while labelling.goes_on():
        labelling.step()
    lo, hi = np.concatenate(labelling.lo), np.concatenate(labelling.hi)
    recoding = settled(rows, model, labelling.qi_group, lo, hi)
    assume(recoding.details["orphans"] and not recoding.details["moved"])
    group, ends = joined(rows, model, labelling.qi_group.tolist(), list(zip(lo, hi, strict=True)))
    assume(min(group) >= 0)
    assert recoding.qi_group.tolist() == group
    assert (np.array([lo for lo, _ in ends]) == recoding.lo).all()
    assert (np.array([hi for _, hi in ends]) == recoding.hi).all()


def spared(data: Microdata, model: Model, qi_group: list[int]) -> list[int]:
    """Step 4 portion by portion: the rows that move to the orphans; none where they would lack something still."""
    subjects, who = data.subjects(model.subjects), data.subject(INDIVIDUAL).tolist()
    members = {g: [i for i, group in enumerate(qi_group) if group == g] for g in sorted(set(qi_group))}
    orphans = members.pop(-1)
    portions = []
    for g, rows in members.items():
        for person in {who[i] for i in rows}:
            portion = [i for i in rows if who[i] == person]
            if obeys(model, subjects[[i for i in rows if i not in portion]]):
                ncp = data.space.ncp(*data.space.box_of_cells(data.cells[orphans + portion]))
                portions.append((ncp, len(portion), portion[0], portion, g))
    taken: list[int] = []
    for *_, portion, g in sorted(portions):
        missing = lacking(model, subjects[orphans + taken])
        left = [i for i in members[g] if i not in taken + portion]
        if missing and lacking(model, subjects[orphans + taken + portion]) < missing and obeys(model, subjects[left]):
            taken += portion
    return [] if lacking(model, subjects[orphans + taken]) else sorted(taken)


@every_model
@settings(FEWER, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data(), small=some_table)
def test_orphans_are_a_group_with_the_portions_that_would_move_one_by_one_if_that_loses_least(
    model: Model, data: st.DataObject, small: Table
) -> None:
    rows = canonical_form(data.draw(microdata(small, max_rows=25)))
    group = data.draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
    subjects = rows.subjects(model.subjects)
    failing = [g for g in set(group) if g >= 0 and not obeys(model, subjects[np.array(group) == g])]
    group = [-1 if g in failing else g for g in group]  # any orphans, and groups that hold
    number = {g: i for i, g in enumerate(sorted(set(group) - {-1}))}
    group = [number.get(g, -1) for g in group]
    assume(number and -1 in group and lacking(model, subjects[np.array(group) < 0]))
    assume(model.holds(subjects))
    recoding = settle(rows, model, group)
    moved = spared(rows, model, group)
    together = [i for i, g in enumerate(group) if g < 0 or i in moved]
    boxes_of = [rows.space.box_of_cells(rows.cells[np.array(group) == g]) for g in range(len(number))]
    ends = [*boxes_of, rows.space.box_of_cells(rows.cells[together])]
    apart = Recoding(
        np.array([len(number) if i in together else g for i, g in enumerate(group)]),
        np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends]),
    )  # fmt: skip
    if moved and loss(rows, apart) <= loss(rows, recoding):
        assert recoding.details["moved"] == len(moved)
        assert recoding.qi_group.tolist() == apart.qi_group.tolist()
        assert (recoding.lo == apart.lo).all() and (recoding.hi == apart.hi).all()
    else:
        assert recoding.details["moved"] == 0  # there is no such way, or it would lose more
    among, ends = joined(rows, model, list(group), boxes_of)
    if min(among) >= 0:
        nearest = Recoding(np.array(among), np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends]))
        assert loss(rows, recoding) <= loss(rows, nearest)


def loss(data: Microdata, recoding: Recoding) -> float:
    """Rows times NCP, all QI groups together."""
    return float((recoding.sizes * data.space.ncp(recoding.lo, recoding.hi)).sum())


@every_model
@given(data=st.data(), small=some_table)
def test_what_a_group_lacks_is_how_many_strangers_would_make_it_hold(
    model: Model, data: st.DataObject, small: Table
) -> None:
    rows = data.draw(microdata(small, max_rows=8))
    subjects = rows.subjects(model.subjects)
    rules = rules_of(model, subjects)
    scratch = scratch_for(rules)
    for row in range(len(rows)):
        add(rules, scratch, row)
    if model.laws:  # strangers do not bring a group nearer to its reference
        assert (lack(rules, scratch) == 0) == model.holds(subjects)
        return
    strangers = 0
    while not model.holds(subjects):
        subjects = np.vstack([subjects, np.full((1, len(model.subjects)), 100 + strangers)])
        strangers += 1
    assert lack(rules, scratch) == strangers


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


CELLS = st.one_of(st.integers(0, 4), st.integers(2**61 - 4, 2**61))


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12))
def test_vectors_are_numbered_in_their_own_order_however_many_there_could_be(rows: list[list[int]]) -> None:
    columns = list(np.array(rows).T)
    ranked = sorted(set(map(tuple, rows)))
    assert numbered(columns).tolist() == [ranked.index(tuple(row)) for row in rows]


# --- Adult -------------------------------------------------------------------------------------------------------


def local_recoding_loss(data: Microdata, recoding: Recoding) -> float:
    return float((recoding.sizes * data.space.ncp(recoding.lo, recoding.hi)).sum()) / len(data) / data.space.d


@pytest.mark.slow
def test_on_adult_both_lose_less_than_median_mondrian(adult: Path) -> None:
    data, model = adult_microdata(10), k_anonymity(10)
    median = local_recoding_loss(data, run(MONDRIAN, data, model))
    assert local_recoding_loss(data, run(BOTTOM_UP, data, model)) < median
    assert local_recoding_loss(data, run(TOP_DOWN, data, model)) < median


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [BOTTOM_UP, TOP_DOWN], ids=lambda algorithm: algorithm.name)
def test_on_adult_the_kept_values_are_diverse_where_that_is_asked(algorithm: Algorithm, adult: Path) -> None:
    data = adult_microdata(5)
    model = k_anonymity(5) & distinct_l(VALUES, 2)
    recoding = run(algorithm, data, model)
    classes = Counter(zip(recoding.qi_group.tolist(), data.values[:, 0].tolist(), strict=True))
    assert len(classes) == 2 * recoding.n_groups
