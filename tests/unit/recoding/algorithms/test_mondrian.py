"""Median Mondrian: under any model, against a plain recursion."""

from __future__ import annotations

from math import log2

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.kernels.distributions import weights_up_to
from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.mondrian import EMP, MONDRIAN, ONE
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import TABLES, WIDE, data_of, every_model, groups_of, holding, microdata, narrow, not_alone
from worlds.small_tables import YEARS, table

any_table = st.sampled_from([*TABLES.values(), WIDE])


def by_recursion(data: Microdata, model: Model, members: list[int]) -> list[list[int]]:
    """The rules of the module in plain Python."""
    if not members:
        return []
    here, subjects = data.cells[members], data.subjects(model.subjects)[members]
    width = data.space.ncp_terms(*data.space.box_of_cells(here)).tolist()
    for j in sorted(range(len(width)), key=lambda j: -width[j]):
        along = here[:, j].tolist()
        median = sorted(along)[(len(along) - 1) // 2]
        for at in (median, median - 1):
            below = np.array(along) <= at
            if model.holds(subjects[below]) and model.holds(subjects[~below]):
                lower, upper = np.array(members)[below].tolist(), np.array(members)[~below].tolist()
                return by_recursion(data, model, lower) + by_recursion(data, model, upper)
    return [members]


@every_model
@given(data=st.data(), small=any_table)
def test_the_groups_are_those_of_a_plain_recursion(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    recoding = holding(MONDRIAN, people, model)
    assert groups_of(recoding) == sorted(narrow(people, by_recursion(people, model, not_alone(people, model))))


# EMP: cut where the halves stay most diverse; entropies worked out by hand, and a plain recursion.


def entropy_by_recursion(data: Microdata, model: Model, members: list[int]) -> list[list[int]]:
    """The rules of the module in plain Python."""
    if len(members) < 2 * model.rows_min:
        return [members]
    here, subjects = data.cells[members], data.subjects(model.subjects)[members]
    columns = [here[:, j].tolist() for j in range(data.space.d)]
    lo, hi = data.space.box_of_cells(here)
    wide = [bool(data.space.of_one(j).too_wide(lo[[j]], hi[[j]])) for j in range(data.space.d)]
    for along in in_order(columns, wide, data.space.weight.tolist()):
        best: tuple[float, np.ndarray] | None = None
        for at in walked(along):
            below = np.array(along) <= at
            holds = model.holds(subjects[below]) and model.holds(subjects[~below])
            if holds and (best is None or entropies(along, at) > best[0]):
                best = entropies(along, at), below
        if best is not None:
            lower, upper = (np.array(members)[side].tolist() for side in (best[1], ~best[1]))
            return entropy_by_recursion(data, model, lower) + entropy_by_recursion(data, model, upper)
    return [members]


def in_order(columns: list[list[int]], wide: list[bool], weights: list[float]) -> list[list[int]]:
    """The attributes that are too wide first, then those of the highest entropy, times weight."""
    entropy = [times * (unit_weight(len(along)) - weight(along)) for along, times in zip(columns, weights, strict=True)]
    return [columns[j] for j in sorted(range(len(columns)), key=lambda j: (-wide[j], -entropy[j]))]


def weight(along: list[int]) -> int:
    """Sum of c * log2(c) over the counts, in units: the lower, the higher the entropy of as many rows."""
    return sum(unit_weight(along.count(cell)) for cell in set(along))


def unit_weight(count: int) -> int:
    return round(count * log2(count) * ONE)


def entropies(along: list[int], at: int) -> float:
    halves = [c for c in along if c <= at], [c for c in along if c > at]
    return sum((unit_weight(len(half)) - weight(half)) / len(half) for half in halves)


def walked(along: list[int]) -> list[int]:
    """Split values in the order of the walk: from the start down, from the start up."""
    cells = sorted(set(along))
    if len(cells) == 1:
        return []
    start = min(len(cells) // 2, len(cells) - 2)
    found = []
    for way in (cells[start::-1], cells[start:-1]):
        before = -1.0
        for at in way:
            if entropies(along, at) < before:
                break
            before = entropies(along, at)
            found.append(at)
    return found


@every_model
@given(data=st.data(), small=any_table)
def test_entropy_the_groups_are_those_of_a_plain_recursion(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    recoding = holding(EMP, people, model)
    assert groups_of(recoding) == sorted(narrow(people, entropy_by_recursion(people, model, not_alone(people, model))))


def rows_of(*counts: int) -> list[int]:
    """Years 1, 2, 3 ..., each as often as said."""
    return [year for year, count in enumerate(counts, start=1) for _ in range(count)]


def test_the_halves_are_cut_again_by_the_same_rule() -> None:
    # <= 2, as above; then each half of two values at the lower one
    years = data_of(table(YEARS), [(year,) for year in rows_of(2, 2, 2, 2)])
    assert groups_of(run(EMP, years, k_anonymity(3))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups_of(run(EMP, years, k_anonymity(2))) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_the_attribute_of_highest_entropy_is_cut_not_the_widest() -> None:
    # first attribute: 0 seven times and 9 once, H = 0.544; second: 4 and 5 four times each, H = 1
    rows = [(0, 4), (0, 5)] * 3 + [(0, 4), (9, 5)]
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), rows), k_anonymity(4)))
    assert found == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_of_attributes_of_one_entropy_the_earlier_is_cut_whatever_the_order_of_their_counts() -> None:
    # counts 3, 1, 2 and 2, 1, 3 of six rows: one entropy. First attribute:
    #   <= 2: H(3/4, 1/4) + H(1) = 0.811;  <= 1: H(1) + H(1/3, 2/3) = 0.918. The second one would part 4, 5 from 6.
    rows = [(1, 4), (1, 6), (1, 6), (2, 4), (3, 5), (3, 6)]
    assert weight([first for first, _ in rows]) == weight([second for _, second in rows])
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), rows), k_anonymity(2)))
    assert found == [[0, 1, 2], [3, 4, 5]]
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), [row[::-1] for row in rows]), k_anonymity(2)))
    assert found == [[0, 3, 4], [1, 2, 5]]


def test_weights_are_what_entropies_are_made_of() -> None:
    weights = weights_up_to(100, ONE)
    assert weights[:3].tolist() == [0, 0, 2 * ONE]
    assert np.abs(weights[2:] / ONE - [c * log2(c) for c in range(2, 101)]).max() <= 0.5 / ONE
