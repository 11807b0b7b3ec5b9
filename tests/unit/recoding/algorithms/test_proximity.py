"""How far rows are from one another and from a centre: equation 10 of Gui et al. 2020."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.privacy.models import identity_reserved, k_anonymity, r_k
from streamer.recoding.algorithms.fuzzy import gdppr, nearest
from streamer.recoding.algorithms.proximity import Measured, points_of, sensitive_columns
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import (
    ANCESTORS,
    FLAT,
    PROBLEMS,
    TABLES,
    TEXTS,
    microdata,
    unlike,
)

some_table = st.sampled_from([*TABLES.values(), FLAT])


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


@given(data=st.data(), small=some_table, alpha=st.sampled_from([0.25, 1.0]), sign=st.sampled_from([1, -1]))
def test_without_sensitive_columns_the_distance_is_that_of_the_quasi_identifiers(
    data: st.DataObject, small: Table, alpha: float, sign: int
) -> None:
    people = data.draw(microdata(small, max_rows=8))
    points = points_of(people, [], alpha=alpha, beta=1 - alpha, sign=sign)
    found = Measured(points, points.at(np.arange(len(people)))).distances(0, len(people))
    expected = [[distance(people, a, b, 1, 0, 1) for b in range(len(people))] for a in range(len(people))]
    assert found == pytest.approx(np.array(expected), abs=1e-4)


def test_a_null_is_at_distance_1_from_every_value_and_at_none_from_a_null() -> None:
    everything = np.append(np.arange(len(TEXTS[0])), len(TEXTS[0]) - 1)[:, None]
    people = Microdata(TABLES["one number"], np.zeros_like(everything), None, everything, TEXTS)
    assert TEXTS[0][-1] == b"null"
    points = points_of(people, [0], alpha=0, beta=1, sign=1)
    found = Measured(points, points.at(np.array([len(TEXTS[0])]))).distances(0, len(people))
    assert found[:, 0] == pytest.approx([1] * (len(TEXTS[0]) - 1) + [0, 0], abs=1e-4)


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
    to_rows = Measured(points, rows).distances(0, len(people))
    to_centre = Measured(points, centre).distances(0, len(people))
    assert to_centre[:, 0] == pytest.approx(to_rows.mean(axis=1), abs=1e-4)


def test_without_a_model_on_sensitive_values_only_quasi_identifiers_count() -> None:
    people = Microdata(TABLES["one category"], np.array([[0], [0]]), None, np.array([[0], [1]]), TEXTS)
    assert sensitive_columns(people, k_anonymity(2)) == sensitive_columns(people, identity_reserved(2)) == []
    assert sensitive_columns(people, r_k(2, ANCESTORS, Fraction(1, 2))) == [0]
    points = points_of(people, [], alpha=0.5, beta=0.5, sign=1)
    assert Measured(points, points.at(np.arange(2))).distances(0, 2).max() < 1e-5


@pytest.mark.parametrize("wrong", [{"alpha": 0.5, "beta": 0.6}, {"alpha": 1.5, "beta": -0.5}, {"sign": 0}])
def test_weights_that_do_not_sum_to_one_and_other_signs_are_refused(wrong: dict) -> None:
    people = Microdata(TABLES["one number"], np.array([[1], [2]]), None, np.array([[0], [1]]), TEXTS)
    with pytest.raises(UsageError, match="sum to 1"):
        gdppr(people, k_anonymity(1), **wrong)
