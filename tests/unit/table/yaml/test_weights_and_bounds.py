"""`weight` and `coarsest` of a quasi-identifier: what they mean, what they change, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamer
from streamer.errors import ConfigError
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.recoding.algorithms.contract import apart_by_bounds
from streamer.table.codes import CategoricalAttribute
from streamer.table.published.rows import box_columns
from streamer.table.schema import Table
from streamer.table.yaml.loading import table_of

TREE = [["a1", "a", "west", "*"], ["a2", "a", "west", "*"], ["b1", "b", "west", "*"], ["c1", "c", "east", "*"]]
AGE = {"role": "quasi-identifier", "type": "integer", "domain": [0, 99], "grid": 5}
CITY = {"role": "quasi-identifier", "hierarchy": TREE}
BORN = {"role": "quasi-identifier", "type": "date", "domain": ["1950-01-01", "1999-12-31"], "grid": "1 month"}
BMI = {"role": "quasi-identifier", "type": "decimal", "domain": ["10", "50"], "grid": "2.5"}


def table(k: int = 2, form: str = "rows", **columns: dict[str, Any]) -> Table:
    settings = {**columns, "problem": {"role": "sensitive"}}
    privacy = {"k": k, "l": 2} if form == "lossy-join" else {"k": k}
    publish = {"live": {"form": form}}
    return table_of({"table": "t", "key": "id", "privacy": privacy, "columns": settings, "publish": publish})


def test_weights_have_the_mean_one_whatever_their_scale() -> None:
    one = table(age=AGE | {"weight": 3}, city=CITY)
    ten = table(age=AGE | {"weight": 30}, city=CITY | {"weight": "10"})
    assert one.space.weight.tolist() == ten.space.weight.tolist() == [1.5, 0.5]
    assert table(age=AGE | {"weight": 7}, city=CITY | {"weight": 7}).space.weight.tolist() == [1.0, 1.0]


def test_a_table_without_them_keeps_its_fingerprint_and_each_changes_it() -> None:
    plain = table(age=AGE, city=CITY).fingerprint
    assert table(age=AGE | {"weight": "1.0"}, city=CITY).fingerprint == plain
    others = [
        table(age=AGE | {"weight": 2}, city=CITY).fingerprint,
        table(age=AGE | {"coarsest": 20}, city=CITY).fingerprint,
        table(age=AGE, city=CITY | {"coarsest": 2}).fingerprint,
    ]
    assert len({plain, *others}) == 4


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (AGE | {"coarsest": 4}, 1),  # 0-4
        (AGE | {"coarsest": 13}, 2),  # 0-9; 0-14 would differ by 14
        (AGE | {"coarsest": 14}, 3),
        (BMI | {"coarsest": "7.4"}, 2),  # 10-15; 10-17.5 would differ by 7.5
        (BMI | {"coarsest": "7.5"}, 3),
        (BORN | {"coarsest": "1 year"}, 12),
    ],
)
def test_no_published_interval_is_wider_than_coarsest(column: dict[str, Any], cells: int) -> None:
    one = table(x=column)
    attribute = one.attributes[0]
    assert not isinstance(attribute, CategoricalAttribute)
    assert (attribute.cells_max, one.space.is_bounded) == (cells, True)
    assert not one.space.forbids([3], [3 + cells - 1])
    assert one.space.forbids([3], [3 + cells])
    if column["type"] != "date":
        ends = box_columns(attribute, 3, 3 + cells - 1), box_columns(attribute, 3, 3 + cells)
        widths = [Fraction(str(of["x_hi"])) - Fraction(str(of["x_lo"])) for of in ends]
        assert widths[0] <= Fraction(column["coarsest"]) < widths[1]


def test_a_bound_as_wide_as_the_domain_is_none() -> None:
    assert not table(age=AGE | {"coarsest": 99}).space.is_bounded
    assert not table(age=AGE | {"domain": [0, 3], "coarsest": 3}).space.is_bounded, "the only cell is wider, but cut"


def test_equal_numbers_make_equal_tables() -> None:
    said = [table(age=AGE | {"coarsest": n, "weight": w}).fingerprint for n, w in (("20", "2"), ("20.0", "2.0"))]
    assert said[0] == said[1]


@pytest.mark.parametrize(("level", "allowed"), [(0, "exact"), (1, "a"), (2, "west"), (3, "*")])
def test_no_published_node_is_above_the_level(level: int, allowed: str) -> None:
    space = table(city=CITY | {"coarsest": level}).space
    boxes = {"exact": (0, 0), "a": (0, 1), "west": (0, 2), "*": (0, 3)}
    shown = [name for name, (lo, hi) in boxes.items() if not space.forbids([lo], [hi])]
    assert shown == list(boxes)[: level + 1]
    assert shown[-1] == allowed


@given(weights=st.tuples(st.integers(1, 9), st.integers(1, 9)), data=st.data())
def test_a_box_that_is_too_wide_loses_more_than_all_else_can_on_top(
    weights: tuple[int, int], data: st.DataObject
) -> None:
    bounded = table(age=AGE | {"weight": weights[0], "coarsest": 24}, city=CITY | {"weight": weights[1]}).space
    plain = table(age=AGE | {"weight": weights[0]}, city=CITY | {"weight": weights[1]}).space
    lo, hi = sorted(data.draw(st.tuples(st.integers(0, 19), st.integers(0, 19))))
    box = np.array([lo, 0]), np.array([hi, 0])
    assert bounded.ncp(*box) == pytest.approx(plain.ncp(*box) + 3 * (hi - lo + 1 > 5))
    assert plain.ncp(*box) <= 2


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"age": AGE | {"weight": 0}}, "columns.age.weight: must be above 0"),
        ({"age": AGE | {"weight": 1001}}, "columns.age.weight: must be at most 1000"),
        ({"age": AGE | {"coarsest": 3}}, "columns.age.coarsest: a cell of the grid, 5, is wider; raise coarsest"),
        ({"city": CITY | {"coarsest": 4}}, "columns.city.coarsest: must be a level of the hierarchy, 0 (a leaf) to 3"),
        ({"city": CITY | {"coarsest": "1.5"}}, "columns.city.coarsest: must be a level"),
        ({"born": BORN | {"coarsest": "30 days"}}, "columns.born.coarsest: 30 days cannot be compared with the grid"),
        (
            {"born": BORN | {"grid": "3 months", "coarsest": "1 month"}},
            "columns.born.coarsest: a cell of the grid, 3 months, is longer; raise coarsest",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=r"coarsest|weight") as refused:
        table(**columns)
    assert fault in str(refused.value)


def test_a_lossy_join_publishes_no_intervals_so_coarsest_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"columns\.age\.coarsest: lossy-join publishes exact quasi-identifiers"):
        table(form="lossy-join", age=AGE | {"coarsest": 20})


PEOPLE = pd.DataFrame(
    {
        "id": range(12),
        "age": [20, 21, 22, 23, 24, 25, 40, 41, 42, 43, 44, 80],
        "city": ["a1", "c1"] * 6,
        "problem": ["flu", "cough", "ulcer"] * 4,
    }
)


def settings(**of_age: Any) -> dict[str, Any]:
    columns = {"age": {**AGE, "grid": 1, **of_age}, "city": CITY, "problem": {"role": "sensitive"}}
    return {"table": "t", "key": "id", "privacy": {"k": 2}, "columns": columns, "publish": {"live": {"form": "rows"}}}


@pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # so few rows stand alone
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_that_cannot_be_published_so_are_left_out_as_far_as_the_limit_allows(algorithm: str) -> None:
    """Nobody is within ten years of 80."""
    asked = settings(coarsest=10)
    with pytest.raises(
        ConfigError, match=r"of 12 rows are in no QI group .* `coarsest` asks: leave them out with --supp"
    ):
        streamer.anonymize(PEOPLE, asked, algorithm=algorithm)
    published = streamer.anonymize(PEOPLE, asked, algorithm=algorithm, suppression=0.6)
    assert 5 <= len(published) < 12
    assert ((published.age_hi - published.age_lo) <= 10).all()
    assert published.age_hi.max() < 80


@pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("ages", "k", "out"),
    [
        ([0, 1, 20, 21, 22, 40, 41], 3, 4),  # 20, 21 and 22 alone are enough people
        ([0, 4, 6, 14, 15, 21, 25, 26, 33, 41], 3, 7),
        ([10, 11, 50, 90], 2, 2),
    ],
)
def test_ordered_leaves_out_no_more_than_the_best_table_would(ages: list[int], k: int, out: int) -> None:
    rows = pd.DataFrame({"id": range(len(ages)), "age": ages, "city": "a1", "problem": "flu"})
    published = streamer.anonymize(rows, settings(coarsest=5), k=k, suppression=0.9)
    assert len(published) == len(ages) - out


def test_a_share_that_cannot_be_asked_for_is_not_advised() -> None:
    rows = pd.DataFrame({"id": range(4), "age": [0, 30, 60, 90], "city": "a1", "problem": "flu"})
    with pytest.raises(ConfigError, match="4 of 4 rows") as refused:
        streamer.anonymize(rows, settings(coarsest=5))
    assert "--suppression" not in str(refused.value)


@given(data=st.data())
def test_rows_are_apart_if_no_group_may_hold_both(data: st.DataObject) -> None:
    space = table(age=AGE | {"grid": 1, "coarsest": 9}, city=CITY | {"coarsest": 1}).space
    rows = data.draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3)), min_size=1, max_size=12))
    apart = apart_by_bounds(space, np.array(rows, dtype=np.int64)).tolist()
    for one, other in combinations(range(len(rows)), 2):
        lo, hi = (tuple(map(side, rows[one], rows[other])) for side in (min, max))
        if not space.too_wide(*space.generalize(np.array(lo), np.array(hi))):
            assert apart[one] == apart[other]
    assert sorted(set(apart)) == list(range(len(set(apart))))


def test_a_heavier_column_is_published_more_exactly() -> None:
    widths = []
    for weight in ("0.01", 1, 100):
        published = streamer.anonymize(PEOPLE, settings(weight=weight))
        widths.append(((published.age_hi - published.age_lo).mean(), (published.city == "*").mean()))
    assert widths[0][0] > widths[2][0]
    assert widths[0][1] < widths[2][1]
    assert widths == sorted(widths, key=lambda one: -one[0])


def test_the_loss_of_a_column_is_said_without_its_weight_and_that_of_the_table_with_it() -> None:
    found = [streamer.check(PEOPLE, settings(weight=weight)).facts["data"]["costs"] for weight in (1, 3)]
    of_table = [next(line["ncp"] for line in costs["k"] if line["k"] == 2) for costs in found]
    of_columns = [[line["ncp"] for line in costs["attributes"]] for costs in found]
    assert of_table[0] == pytest.approx(sum(of_columns[0]) / 2)
    assert of_table[1] == pytest.approx((1.5 * of_columns[1][0] + 0.5 * of_columns[1][1]) / 2)


def test_check_counts_the_rows_that_coarsest_leaves_out() -> None:
    costs = streamer.check(PEOPLE, settings(coarsest=10)).facts["data"]["costs"]
    assert [line["suppressed"] for line in costs["k"] if line["k"] == 2] == [1]
    assert Decimal(str(costs["k"][0]["ncp"])) > 0
