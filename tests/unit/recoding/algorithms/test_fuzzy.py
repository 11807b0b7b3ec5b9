"""GDPPR: distances as equations 8 to 10 say, memberships that sum to one, classes that hold whatever is asked."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.cluster_repair import merged
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.fuzzy import GDPPR, fuzzy_centres, gdppr, largest_move, memberships, nearest
from streamer.recoding.algorithms.proximity import Measured, points_of, sensitive_columns
from streamer.recoding.algorithms.recoding import local_recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.kd import groups_of
from worlds.microdata import (
    ANCESTORS,
    MODELS,
    TABLES,
    TEXTS,
    assert_laws,
    boxes,
    canonical_form,
    holding,
    microdata,
    permuted,
)
from worlds.models_by_hand import fits

some_table = st.sampled_from(list(TABLES.values()))
some_model = st.sampled_from(list(MODELS.values()))


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


def test_a_centre_goes_to_the_only_row_however_little_it_belongs_there_and_stays_where_none_does() -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [0], [9]]), None, np.zeros((3, 1), np.int64), TEXTS)
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
    distances = Measured(printed, printed.at(rows)).distances(0, len(people))
    found = largest_move(points, points.at(rows), points.at(np.array(after)))
    assert found == pytest.approx(max(distances[a, b] for a, b in enumerate(after)), abs=1e-4)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
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


def crowd(n: int) -> Microdata:
    rng = np.random.default_rng(1)
    table = TABLES["decimal, number, category"]
    codes = np.stack([rng.integers(0, 2_000_000, n), rng.integers(0, 10, n), rng.integers(0, 6, n)], axis=1)
    return Microdata(table, codes, None, rng.integers(0, len(TEXTS[0]), (n, 1)), TEXTS)


def test_memory_stays_below_what_all_distances_would_take() -> None:
    """8,000 rows by 4,000 clusters are 128 MB in float32; blocks take 16 MiB, and the rest is by row."""
    people = crowd(8_000)
    people = canonical_form(people)
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
