"""GDPPR: distances as equations 8 to 10 say, memberships that sum to one, classes that hold whatever is asked."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.kernels.boxes import ncp_term
from streamer.privacy.models import Model, identity_reserved, k_anonymity, r_k
from streamer.recoding.algorithms.contract import Options, local_recoding
from streamer.recoding.algorithms.fuzzy import (
    GDPPR,
    Centres,
    Points,
    fuzzy_centres,
    gdppr,
    largest_move,
    losses_of,
    memberships,
    merged,
    nearest,
    points_of,
    sensitive_columns,
)
from streamer.table.arrays import Floats, Ints
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from streamer.table.space import Space
from worlds.algorithms_by_hand import fits, obeys
from worlds.microdata import (
    ANCESTORS,
    FLAT,
    PROBLEMS,
    TABLES,
    TEXTS,
    assert_laws,
    boxes,
    canonical_form,
    data_of,
    every_model,
    groups_of,
    holding,
    microdata,
    permuted,
    some_model,
    some_table,
    unlike,
)

# How far rows are from one another and from a centre: equation 10 of Gui et al. 2020.


any_table = st.sampled_from([*TABLES.values(), FLAT])


def distance(data: Microdata, a: int, b: int, alpha: float, beta: float, sign: int) -> float:
    """Equation 10 for two rows, attribute by attribute; numbers from the middle of a cell to that of the other."""
    parts = []
    for j, attribute in enumerate(data.table.attributes):
        x, y = int(data.cells[a, j]), int(data.cells[b, j])
        if isinstance(attribute, CategoricalAttribute):
            parts.append(float(unlike(attribute.hierarchy, x, y)))
        else:
            assert isinstance(attribute, NumericAttribute)
            middles = [sum(attribute.interval(cell, cell), Decimal(0)) / 2 for cell in (x, y)]
            parts.append(float(abs(middles[0] - middles[1]) / (attribute.domain[1] - attribute.domain[0])))
    one, other = (msgspec.json.decode(data.texts[0][data.values[i, 0]]) for i in (a, b))
    if None in (one, other):
        sensitive = float(one is not other)
    else:
        sensitive = float(unlike(PROBLEMS, PROBLEMS.code_of[one], PROBLEMS.code_of[other]))
    weighted = sum(part * weight for part, weight in zip(parts, data.space.weight.tolist(), strict=True))
    return alpha * weighted / len(parts) + beta * (sensitive if sign > 0 else 1 - sensitive)


def measured(points: Points, centres: Centres) -> Floats:
    """The distances of all rows to all centres."""
    near = nearest(points, centres, len(centres))
    found = np.empty_like(near.distance)
    np.put_along_axis(found, near.cluster, near.distance, axis=1)
    return found


@given(data=st.data(), small=any_table, alpha=st.sampled_from([0.25, 0.5, 1.0]), sign=st.sampled_from([1, -1]))
def test_the_distance_of_two_rows_is_equation_10(data: st.DataObject, small: Table, alpha: float, sign: int) -> None:
    people = data.draw(microdata(small, max_rows=8))
    points = points_of(people, [0], alpha=alpha, beta=1 - alpha, sign=sign)
    everyone = np.arange(len(people))
    found = measured(points, points.at(everyone))
    for a in range(len(people)):
        for b in range(len(people)):
            assert found[a, b] == pytest.approx(distance(people, a, b, alpha, 1 - alpha, sign), abs=1e-4)


@given(data=st.data(), small=any_table, alpha=st.sampled_from([0.25, 1.0]), sign=st.sampled_from([1, -1]))
def test_without_sensitive_columns_the_distance_is_that_of_the_quasi_identifiers(
    data: st.DataObject, small: Table, alpha: float, sign: int
) -> None:
    people = data.draw(microdata(small, max_rows=8))
    points = points_of(people, [], alpha=alpha, beta=1 - alpha, sign=sign)
    found = measured(points, points.at(np.arange(len(people))))
    expected = [[distance(people, a, b, 1, 0, 1) for b in range(len(people))] for a in range(len(people))]
    assert found == pytest.approx(np.array(expected), abs=1e-4)


def test_points_and_centres_never_show_their_values() -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [2]]), None, np.array([[0], [1]]), TEXTS)
    points = points_of(people, [0], alpha=0.5, beta=0.5, sign=1)
    centres = points.at(np.arange(2))
    for shown in (points, centres, nearest(points, centres, 1)):
        assert "array" not in repr(shown)


@given(data=st.data(), sign=st.sampled_from([1, -1]))
def test_a_centre_of_categories_is_as_far_as_its_rows_are_on_average(data: st.DataObject, sign: int) -> None:
    people = data.draw(microdata(TABLES["one category"], max_rows=8))
    points = points_of(people, [0], alpha=0.5, beta=0.5, sign=sign)
    rows = points.at(np.arange(len(people)))
    centre = type(rows)(rows.nodes.mean(axis=0)[None], rows.numbers[:1])
    to_rows = measured(points, rows)
    to_centre = measured(points, centre)
    assert to_centre[:, 0] == pytest.approx(to_rows.mean(axis=1), abs=1e-4)


def test_without_a_model_on_sensitive_values_only_quasi_identifiers_count() -> None:
    people = Microdata(TABLES["one category"], np.array([[0], [0]]), None, np.array([[0], [1]]), TEXTS)
    assert sensitive_columns(people, k_anonymity(2)) == sensitive_columns(people, identity_reserved(2)) == []
    assert sensitive_columns(people, r_k(2, ANCESTORS, Fraction(1, 2))) == [0]
    points = points_of(people, [], alpha=0.5, beta=0.5, sign=1)
    assert measured(points, points.at(np.arange(2))).max() < 1e-5


@pytest.mark.parametrize("wrong", [{"alpha": 0.5, "beta": 0.6}, {"alpha": 1.5, "beta": -0.5}, {"sign": 0}])
def test_weights_that_do_not_sum_to_one_and_other_signs_are_refused(wrong: dict) -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [2]]), None, np.array([[0], [1]]), TEXTS)
    with pytest.raises(UsageError, match="sum to 1"):
        gdppr(people, k_anonymity(1), **wrong)


# Clusters that fail the model join others, the smallest first, where the least is lost.


def losses_by_hand(data: Microdata, rows: list[int]) -> list[float]:
    """Equation 6 for one class, attribute by attribute, climbing the trees; more for what is too wide."""
    lo, hi = data.cells[rows].min(axis=0), data.cells[rows].max(axis=0)
    widths = data.space.ncp_terms(lo, hi).tolist()
    for j, tree in data.space.trees:
        widths[j] = height_by_hand(data.space, j, tree, int(lo[j]), int(hi[j]))
    return widths


def height_by_hand(space: Space, j: int, tree: Hierarchy, lo: int, hi: int) -> float:
    """The height of the node over two leaves, by its weight; d more if it is too wide."""
    low, high = tree.cover(lo, hi)
    too_wide = space.of_one(j).forbids([low], [high])
    return float(unlike(tree, lo, hi)) * float(space.weight[j]) + (space.d + 1) * too_wide


def rise_by_hand(data: Microdata, one: list[int], other: list[int]) -> float:
    """Equations 3 to 5: by how much two classes lose more as one."""
    parts = zip(*(losses_by_hand(data, rows) for rows in (one + other, one, other)), strict=True)
    return sum(len(one) * (both - a) + len(other) * (both - b) for both, a, b in parts)


@every_model
@given(data=st.data(), small=any_table)
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


@given(data=st.data(), small=any_table)
def test_an_attributes_loss_is_its_height_or_its_width(data: st.DataObject, small: Table) -> None:
    losses = losses_of(small.space)
    for j, attribute in enumerate(small.attributes):
        lo, hi = sorted(data.draw(st.tuples(*[st.integers(0, attribute.axis.n_cells - 1)] * 2)))
        if not isinstance(attribute, CategoricalAttribute):
            box = np.zeros((2, small.space.d), dtype=np.int64)
            box[0, j], box[1, j] = lo, hi
            assert ncp_term(losses, j, lo, hi) == small.space.ncp_terms(*box)[j]
        else:
            assert ncp_term(losses, j, lo, hi) == height_by_hand(small.space, j, attribute.hierarchy, lo, hi)


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
    between = measured(points, centres)
    for i in range(len(people)):
        assert near.cluster[i].tolist() == sorted(range(p), key=lambda c: (between[i, c], c))[:few]
    share = memberships(near)
    assert share.sum(axis=1) == pytest.approx(np.ones(len(people)))
    assert (np.diff(share, axis=1) <= 0).all()


def test_memberships_fall_with_the_square_of_the_distance() -> None:
    """Two centres at distances 1/9 and 2/9 of the domain: 4/5 and 1/5."""
    people = data_of(TABLES["one number"], np.array([[1], [0], [3]]))
    points = points_of(people, [], alpha=1, beta=0, sign=1)
    near = nearest(points, points.at(np.array([1, 2])), 2)
    assert memberships(near)[0] == pytest.approx([0.8, 0.2])


def test_a_centre_moves_to_the_mean_weighted_by_squared_memberships() -> None:
    people = data_of(TABLES["one number"], np.array([[1], [0], [3]]))
    points = points_of(people, [], alpha=1, beta=0, sign=1)
    before = points.at(np.array([1, 2]))
    after = fuzzy_centres(points, nearest(points, before, 2), before)
    weights = np.array([0.64, 1.0]), np.array([0.04, 1.0])  # the rows on the centres belong to them alone
    assert after.numbers[0, 0] == pytest.approx(np.average([1 / 9, 0], weights=weights[0]), abs=1e-6)
    assert after.numbers[1, 0] == pytest.approx(np.average([1 / 9, 3 / 9], weights=weights[1]), abs=1e-6)
    assert largest_move(points, before, after) == pytest.approx(abs(after.numbers - before.numbers).max())


def test_a_centre_goes_to_the_only_row_however_little_it_belongs_there_and_stays_where_none_does() -> None:
    people = data_of(TABLES["one number"], np.array([[1], [0], [9]]))
    points, ends = (points_of(people.rows(np.array(rows)), [], alpha=1, beta=0, sign=1) for rows in ([0], [1, 2]))
    before = ends.at(np.arange(2))
    place = points.numbers[0, 0]
    both = fuzzy_centres(points, nearest(points, before, 2), before)
    assert both.numbers[:, 0] == pytest.approx([place, place])
    one = fuzzy_centres(points, nearest(points, before, 1), before)
    assert one.numbers[:, 0] == pytest.approx([place, before.numbers[1, 0]])


def test_run_is_ten_rounds_with_equal_weights_and_two_clusters_for_each_row() -> None:
    people, model = canonical_form(crowd(150)), r_k(3, ANCESTORS, Fraction(1, 2))
    choices: dict[str, Any] = {"alpha": 0.5, "beta": 0.5, "sign": 1, "rounds": 10, "threshold": 1e-3, "few": 2}
    found = GDPPR.run(people, model, Options(seed=4))
    assert groups_of(found) == groups_of(gdppr(people, model, seed=4, **choices))
    others: list[dict[str, Any]] = [{"few": 3}, {"rounds": 2}, {"alpha": 0.8, "beta": 0.2}, {"sign": -1}]
    for other in others:
        assert groups_of(found) != groups_of(gdppr(people, model, seed=4, **{**choices, **other}))


@given(data=st.data(), small=some_table, sign=st.sampled_from([1, -1]))
def test_a_centre_that_goes_from_row_to_row_has_gone_their_distance(
    data: st.DataObject, small: Table, sign: int
) -> None:
    people = data.draw(microdata(small, max_rows=8))
    points = points_of(people, [0], alpha=0.5, beta=0.5, sign=sign)
    printed = points_of(people, [0], alpha=0.5, beta=0.5, sign=1)
    rows = np.arange(len(people))
    after = data.draw(st.permutations(range(len(people))))
    between = measured(printed, printed.at(rows))
    found = largest_move(points, points.at(rows), points.at(np.array(after)))
    assert found == pytest.approx(max(between[a, b] for a, b in enumerate(after)), abs=1e-4)


@every_model
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data(), small=some_table, seed=st.integers(0, 99), few=st.integers(1, 3), rounds=st.integers(0, 3))
def test_the_classes_are_those_of_the_algorithm_in_plain_loops(
    model: Model, data: st.DataObject, small: Table, seed: int, few: int, rounds: int
) -> None:
    people = canonical_form(data.draw(microdata(small, max_rows=20)))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    threshold = data.draw(st.sampled_from([0.0, 0.05, 1.1]))
    found = gdppr(people, model, rounds=rounds, threshold=threshold, few=few, seed=seed)
    n, p = len(people), max(1, len(people) // model.rows_min)
    points = points_of(people, sensitive_columns(people, model), alpha=0.5, beta=0.5, sign=1)
    centres = points.at(np.sort(np.random.default_rng(seed).choice(n, p, replace=False)))
    done, move = 0, threshold
    while p > 1 and done < rounds and move >= threshold:
        after = fuzzy_centres(points, nearest(points, centres, min(few, p)), centres)
        move, centres = largest_move(points, centres, after), after
        done += 1
    filled = filled_by_hand(model, subjects, nearest(points, centres, min(few, p)).cluster.tolist())
    cluster, n_merges = merged(people, model, np.array(filled))
    assert groups_of(found) == groups_of(local_recoding(people, cluster))
    assert found.details == {"rounds": done, "clusters": p, "unplaced": filled.count(-1), "merged": n_merges}


def filled_by_hand(model: Model, subjects: Ints, near: list[list[int]]) -> list[int]:
    """Rows in order go to the nearest cluster that they fit, and are asked again as long as clusters grow."""
    cluster, grown = [-1] * len(near), True
    while grown:
        grown = False
        for i in [i for i, c in enumerate(cluster) if c < 0]:
            for c in near[i]:
                members = [*(other for other, d in enumerate(cluster) if d == c), i]
                if cluster[i] < 0 and fits(model, subjects[members]):
                    cluster[i], grown = c, True
    return cluster


@given(data=st.data(), small=some_table, model=some_model, seed=st.integers(0, 9))
def test_a_seed_gives_the_same_lawful_classes_in_whatever_order_rows_come(
    data: st.DataObject, small: Table, model: Model, seed: int
) -> None:
    people, options = data.draw(microdata(small)), Options(seed=seed)
    one = assert_laws(GDPPR, people, model, options)
    assert (one.qi_group == holding(GDPPR, people, model, options).qi_group).all()
    assert boxes(holding(GDPPR, permuted(people, seed), model, options)) == boxes(one)


def crowd(n: int) -> Microdata:
    rng = np.random.default_rng(1)
    table = TABLES["decimal, number, category"]
    codes = np.stack([rng.integers(0, 2_000_000, n), rng.integers(0, 10, n), rng.integers(0, 6, n)], axis=1)
    return Microdata(table, codes, None, rng.integers(0, len(TEXTS[0]), (n, 1)), TEXTS)


def test_memory_stays_below_what_all_distances_would_take() -> None:
    """All distances of 8,000 rows and 4,000 clusters are 256 MB; kept are those to a few hundred at a time."""
    people = crowd(8_000)
    people = canonical_form(people)
    gdppr(people.rows(np.arange(100)), k_anonymity(2), rounds=1)  # what is loaded once does not count
    tracemalloc.start()
    gdppr(people, k_anonymity(2), rounds=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64_000_000
