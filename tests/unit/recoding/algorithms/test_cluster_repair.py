"""Clusters that fail the model join others, the smallest first, where the least is lost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.cluster_repair import losses_of, merged, term
from streamer.table.attributes import CategoricalAttribute
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import (
    FLAT,
    MODELS,
    TABLES,
    TEXTS,
    VALUES,
    microdata,
    unlike,
)
from worlds.models_by_hand import fits, obeys

one_number = TABLES["one number"]
some_table = st.sampled_from([*TABLES.values(), FLAT])


def losses_by_hand(data: Microdata, rows: list[int]) -> list[float]:
    """Equation 6 for one class, attribute by attribute, climbing the trees."""
    lo, hi = data.cells[rows].min(axis=0), data.cells[rows].max(axis=0)
    widths = data.space.ncp_terms(lo, hi).tolist()
    for j, tree in data.space.trees:
        widths[j] = float(unlike(tree, int(lo[j]), int(hi[j])))
    return widths


def rise_by_hand(data: Microdata, one: list[int], other: list[int]) -> float:
    """Equations 3 to 5: by how much two classes lose more as one."""
    parts = zip(*(losses_by_hand(data, rows) for rows in (one + other, one, other)), strict=True)
    return sum(len(one) * (both - a) + len(other) * (both - b) for both, a, b in parts)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@given(data=st.data(), small=some_table)
def test_the_smallest_cluster_that_fails_joins_the_one_it_fits_with_least_loss(
    model: Model, data: st.DataObject, small: Table
) -> None:
    people = data.draw(microdata(small, max_rows=14))
    start = data.draw(st.lists(st.integers(-1, 3), min_size=len(people), max_size=len(people)))
    assume(model.holds(people.subjects(model.subjects)))
    found, n_merges = merged(people, model, np.array(start))
    n_clusters = len({c for c in start if c >= 0}) + start.count(-1)
    expected = merged_by_hand(people, model, start)
    assert {int(c): set(np.flatnonzero(found == c).tolist()) for c in np.unique(found)} == expected
    assert n_merges == n_clusters - len(expected)


def merged_by_hand(people: Microdata, model: Model, start: list[int]) -> dict[int, set[int]]:
    """The head of the module, word by word, over lists of rows; by the number that each cluster ends under."""
    numbers, alone = [], max([*start, -1]) + 1
    for c in start:
        numbers.append(alone if c < 0 else c)
        alone += c < 0
    clusters = {c: [i for i, d in enumerate(numbers) if d == c] for c in sorted(set(numbers))}
    subjects = people.subjects(model.subjects)
    while True:
        failing = [c for c, rows in clusters.items() if not obeys(model, subjects[rows])]
        if not failing or len(clusters) == 1:
            return {c: set(rows) for c, rows in clusters.items()}
        c = min(failing, key=lambda c: (len(clusters[c]), c))
        rows = clusters.pop(c)
        fitting = [o for o in clusters if fits(model, subjects[rows + clusters[o]])]
        o = min(fitting or clusters, key=lambda o: (rise_by_hand(people, rows, clusters[o]), o))
        clusters[o] = clusters[o] + rows


def ill(years_and_problems: list[tuple[int, int]]) -> Microdata:
    """People of whom the years and the number of the problem are known."""
    years, problems = np.array(years_and_problems).T
    return Microdata(one_number, years[:, None], None, problems[:, None], TEXTS)


def test_a_cluster_passes_over_the_nearest_where_one_problem_would_have_too_large_a_share() -> None:
    flu_at_0, flu_at_1, others_at_5 = (0, 0), (1, 0), [(5, 1), (5, 2)]
    people = ill([flu_at_0, flu_at_1, *others_at_5])
    found, _ = merged(people, r_k(2, VALUES, Fraction(1, 2)), np.array([0, 1, 2, 2]))
    assert found.tolist() == [2, 2, 2, 2]  # the first went to 5, past its neighbour; and so did the second
    found, _ = merged(people, k_anonymity(2), np.array([0, 1, 2, 2]))
    assert found.tolist() == [1, 1, 2, 2]


def test_a_cluster_still_small_may_have_the_rows_of_one_problem_that_the_smallest_qi_group_may() -> None:
    people = ill([(0, 0), (1, 0), (5, 1), (5, 2), (2, 3), (2, 4), (9, 1), (9, 2)])
    found, _ = merged(people, r_k(4, VALUES, Fraction(1, 2)), np.array([0, 1, 2, 2, 3, 3, 2, 2]))
    assert found.tolist() == [3, 3, 2, 2, 3, 3, 2, 2]  # two of four are allowed, so the two with flu came together


def test_a_cluster_that_fits_nowhere_joins_the_nearest_and_goes_on_from_there() -> None:
    people = ill([(1, 0), (1, 0), (1, 0), (3, 1), (3, 2), (9, 1), (9, 2)])
    found, n_merges = merged(people, r_k(2, VALUES, Fraction(1, 2)), np.array([0, 0, 0, 1, 1, 2, 2]))
    assert (found.tolist(), n_merges) == ([2] * 7, 2)  # 3 of 5 are too many at either place, 3 of 7 are not


def test_the_whole_table_in_one_cluster_is_left_alone() -> None:
    people = ill([(0, 0), (9, 1)])
    found, n_merges = merged(people, k_anonymity(2), np.array([0, 0]))
    assert (found.tolist(), n_merges) == ([0, 0], 0)


@given(data=st.data(), small=some_table)
def test_an_attributes_loss_is_its_height_or_its_width(data: st.DataObject, small: Table) -> None:
    losses = losses_of(small.space)
    for j, attribute in enumerate(small.attributes):
        lo, hi = sorted(data.draw(st.tuples(*[st.integers(0, attribute.axis.n_cells - 1)] * 2)))
        if not isinstance(attribute, CategoricalAttribute):
            box = np.zeros((2, small.space.d), dtype=np.int64)
            box[0, j], box[1, j] = lo, hi
            assert term(losses, j, lo, hi) == small.space.ncp_terms(*box)[j]
        else:
            assert term(losses, j, lo, hi) == float(unlike(attribute.hierarchy, lo, hi))
