"""GDPPR: distances as equations 8 to 10 say, memberships that sum to one, classes that hold whatever is asked."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.cluster_repair import losses_of, merged, term
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.fuzzy import GDPPR, fuzzy_centres, gdppr, largest_move, memberships, nearest
from streamer.recoding.algorithms.proximity import Measured, points_of, sensitive_columns
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import CategoricalAttribute, NumericAttribute, Table
from worlds.microdata import (
    ANCESTORS,
    MODELS,
    PROBLEMS,
    TABLES,
    TEXTS,
    assert_laws,
    boxes,
    holding,
    microdata,
    permuted,
)

some_table = st.sampled_from(list(TABLES.values()))
some_model = st.sampled_from(list(MODELS.values()))


def unlike(tree: Hierarchy, a: int, b: int) -> Fraction:
    """Height of the lowest common ancestor / height of the hierarchy, by climbing."""
    height = len(tree.levels) - 1
    common = next(level for level in range(height + 1) if tree.levels[level][a] == tree.levels[level][b])
    return Fraction(common, max(height, 1))


def distance(data: Microdata, a: int, b: int, alpha: float, beta: float, sign: int) -> float:
    """Equation 10 for two rows, attribute by attribute."""
    parts = []
    for j, attribute in enumerate(data.table.attributes):
        x, y = int(data.codes[a, j]), int(data.codes[b, j])
        if isinstance(attribute, CategoricalAttribute):
            parts.append(float(unlike(attribute.hierarchy, x, y)))
        else:
            parts.append(abs(x - y) / float(attribute.width_codes))
    one, other = (msgspec.json.decode(data.texts[0][data.values[i, 0]]) for i in (a, b))
    if None in (one, other):
        sensitive = float(one is not other)
    else:
        sensitive = float(unlike(PROBLEMS, PROBLEMS.code_of[one], PROBLEMS.code_of[other]))
    return alpha * sum(parts) / len(parts) + beta * (sensitive if sign > 0 else 1 - sensitive)


@given(data=st.data(), small=some_table, alpha=st.sampled_from([0.25, 0.5, 1.0]), sign=st.sampled_from([1, -1]))
def test_the_distance_of_two_rows_is_equation_10(data: st.DataObject, small: Table, alpha: float, sign: int) -> None:
    people = data.draw(microdata(small, max_rows=8))
    points = points_of(people, [0], alpha=alpha, beta=1 - alpha, sign=sign)
    everyone = np.arange(len(people))
    found = Measured(points, points.at(everyone)).distances(0, len(people))
    for a in range(len(people)):
        for b in range(len(people)):
            assert found[a, b] == pytest.approx(distance(people, a, b, alpha, 1 - alpha, sign), abs=1e-4)


@given(data=st.data(), sign=st.sampled_from([1, -1]))
def test_a_centre_of_categories_is_as_far_as_its_rows_are_on_average(data: st.DataObject, sign: int) -> None:
    people = data.draw(microdata(TABLES["one category"], max_rows=8))
    points = points_of(people, [0], alpha=0.5, beta=0.5, sign=sign)
    rows = points.at(np.arange(len(people)))
    centre = type(rows)(rows.nodes.mean(axis=0)[None], rows.numbers[:1])
    to_rows = Measured(points, rows).distances(0, len(people))
    to_centre = Measured(points, centre).distances(0, len(people))
    assert to_centre[:, 0] == pytest.approx(to_rows.mean(axis=1), abs=1e-4)


def test_without_a_model_on_sensitive_values_only_quasi_identifiers_count() -> None:
    people = Microdata(TABLES["one category"], np.array([[0], [0]]), None, np.array([[0], [1]]), TEXTS)
    assert sensitive_columns(people, k_anonymity(2)) == []
    assert sensitive_columns(people, r_k(2, ANCESTORS, Fraction(1, 2))) == [0]
    points = points_of(people, [], alpha=0.5, beta=0.5, sign=1)
    assert Measured(points, points.at(np.arange(2))).distances(0, 2).max() < 1e-5


@pytest.mark.parametrize("wrong", [{"alpha": 0.5, "beta": 0.6}, {"alpha": 1.5, "beta": -0.5}, {"sign": 0}])
def test_weights_that_do_not_sum_to_one_and_other_signs_are_refused(wrong: dict) -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [2]]), None, np.array([[0], [1]]), TEXTS)
    with pytest.raises(UsageError, match="sum to 1"):
        gdppr(people, k_anonymity(1), **wrong)


@given(data=st.data(), small=some_table, few=st.integers(1, 4))
def test_a_row_belongs_to_its_nearest_clusters_and_its_memberships_sum_to_one(
    data: st.DataObject, small: Table, few: int
) -> None:
    people = data.draw(microdata(small))
    points = points_of(people, [0], alpha=0.5, beta=0.5, sign=1)
    p = data.draw(st.integers(1, len(people)))
    few = min(few, p)
    centres = points.at(np.arange(p))
    near = nearest(points, centres, few)
    distances = Measured(points, centres).distances(0, len(people))
    for i in range(len(people)):
        assert near.cluster[i].tolist() == sorted(range(p), key=lambda c: (distances[i, c], c))[:few]
    share = memberships(near)
    assert share.sum(axis=1) == pytest.approx(np.ones(len(people)))
    assert (np.diff(share, axis=1) <= 0).all()


def test_memberships_fall_with_the_square_of_the_distance() -> None:
    """Two centres at distances 1/9 and 2/9 of the domain: 4/5 and 1/5."""
    people = Microdata(TABLES["one number"], np.array([[1], [0], [3]]), None, np.zeros((3, 1), np.int64), TEXTS)
    points = points_of(people, [], alpha=1, beta=0, sign=1)
    near = nearest(points, points.at(np.array([1, 2])), 2)
    assert memberships(near)[0] == pytest.approx([0.8, 0.2])


def test_a_centre_moves_to_the_mean_weighted_by_squared_memberships() -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [0], [3]]), None, np.zeros((3, 1), np.int64), TEXTS)
    points = points_of(people, [], alpha=1, beta=0, sign=1)
    before = points.at(np.array([1, 2]))
    after = fuzzy_centres(points, nearest(points, before, 2), before)
    weights = np.array([0.64, 1.0]), np.array([0.04, 1.0])  # the rows on the centres belong to them alone
    assert after.numbers[0, 0] == pytest.approx(np.average([1 / 9, 0], weights=weights[0]), abs=1e-6)
    assert after.numbers[1, 0] == pytest.approx(np.average([1 / 9, 3 / 9], weights=weights[1]), abs=1e-6)
    assert largest_move(points, before, after) == pytest.approx(abs(after.numbers - before.numbers).max())


@given(data=st.data(), small=some_table, model=some_model, seed=st.integers(0, 9))
def test_every_model_holds_in_every_class_and_everybody_is_in_one(
    data: st.DataObject, small: Table, model: Model, seed: int
) -> None:
    recoding = assert_laws(GDPPR, data.draw(microdata(small)), model, Options(seed=seed))
    assert recoding.n_suppressed == 0


@given(data=st.data(), small=some_table, model=some_model, seed=st.integers(0, 9))
def test_the_same_seed_gives_the_same_classes_in_whatever_order_rows_come(
    data: st.DataObject, small: Table, model: Model, seed: int
) -> None:
    people = data.draw(microdata(small))
    one = holding(GDPPR, people, model, Options(seed=seed))
    again = holding(GDPPR, people, model, Options(seed=seed))
    assert (one.qi_group == again.qi_group).all()
    assert boxes(holding(GDPPR, permuted(people, seed), model, Options(seed=seed))) == boxes(one)


def test_a_table_of_fewer_than_2k_rows_is_one_class() -> None:
    people = Microdata(TABLES["one number"], np.arange(5)[:, None], None, np.zeros((5, 1), np.int64), TEXTS)
    assert run(GDPPR, people, k_anonymity(3)).n_groups == 1


def test_people_in_two_crowds_are_two_classes() -> None:
    codes = np.array([0, 0, 1, 8, 9, 9])[:, None]
    people = Microdata(TABLES["one number"], codes, None, np.zeros((6, 1), np.int64), TEXTS)
    for seed in range(8):
        assert gdppr(people, k_anonymity(3), seed=seed).qi_group.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


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


@given(data=st.data(), small=some_table)
def test_the_smallest_cluster_that_fails_joins_the_one_with_least_loss(data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small, max_rows=14))
    people = people.rows(people.in_canonical_order())
    if len(people) < 3:
        return
    start = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=len(people), max_size=len(people))))
    found, n_merges = merged(people, k_anonymity(3), start)
    expected = merged_by_hand(people, 3, start.tolist())
    assert {frozenset(np.flatnonzero(found == c).tolist()) for c in set(found.tolist())} == expected
    assert n_merges >= 0


def merged_by_hand(people: Microdata, k: int, start: list[int]) -> set[frozenset[int]]:
    numbers, alone = [], max(start) + 1
    for c in start:
        numbers.append(alone if c < 0 else c)
        alone += c < 0
    clusters = {c: [i for i, d in enumerate(numbers) if d == c] for c in sorted(set(numbers))}
    while True:
        failing = [c for c, rows in clusters.items() if len(rows) < k]
        if not failing or len(clusters) == 1:
            return {frozenset(rows) for rows in clusters.values()}
        c = min(failing, key=lambda c: (len(clusters[c]), c))
        rows = clusters.pop(c)
        o = min(clusters, key=lambda o: (rise_by_hand(people, rows, clusters[o]), o))
        clusters[o] = clusters[o] + rows


@given(data=st.data(), small=some_table)
def test_an_attributes_loss_is_its_height_or_its_width(data: st.DataObject, small: Table) -> None:
    losses = losses_of(small.space)
    for j, attribute in enumerate(small.attributes):
        lo, hi = sorted(data.draw(st.tuples(*[st.integers(0, attribute.axis.n_cells - 1)] * 2)))
        if isinstance(attribute, NumericAttribute):
            box = np.zeros((2, small.space.d), dtype=np.int64)
            box[0, j], box[1, j] = lo, hi
            assert term(losses, j, lo, hi) == small.space.ncp_terms(*box)[j]
        else:
            assert term(losses, j, lo, hi) == float(unlike(attribute.hierarchy, lo, hi))


def crowd(n: int) -> Microdata:
    rng = np.random.default_rng(1)
    table = TABLES["decimal, number, category"]
    codes = np.stack([rng.integers(0, 2_000_000, n), rng.integers(0, 10, n), rng.integers(0, 6, n)], axis=1)
    return Microdata(table, codes, None, rng.integers(0, len(TEXTS[0]), (n, 1)), TEXTS)


def test_memory_stays_below_what_all_distances_would_take() -> None:
    """8,000 rows by 4,000 clusters are 128 MB in float32; blocks take 16 MiB, and the rest is by row."""
    people = crowd(8_000)
    people = people.rows(people.in_canonical_order())
    gdppr(people.rows(np.arange(100)), k_anonymity(2), rounds=1)  # compiled beforehand
    tracemalloc.start()
    gdppr(people, k_anonymity(2), rounds=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64_000_000


def test_no_class_is_above_r_and_none_below_k_on_a_crowd() -> None:
    people, r = crowd(3_000), Fraction(1, 2)
    recoding = run(GDPPR, people, r_k(5, ANCESTORS, r))
    assert recoding.sizes.min() >= 5
    close = people.subject(ANCESTORS)
    for group in range(recoding.n_groups):
        counts = np.bincount(close[recoding.qi_group == group])
        assert Fraction(int(counts.max()), int(counts.sum())) <= r
