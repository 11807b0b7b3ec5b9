"""What k and the grids cost: each answer is a run of its own, and losses compare across grids."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM, run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.costs import KS, cost_of_shards, costs, other_grids, with_grid
from streamer.recoding.metrics.utility import gcp, ncp
from streamer.table.codes import Attribute, NumericAttribute, Span, TemporalAttribute
from streamer.table.microdata import Microdata
from worlds.dates import temporal
from worlds.microdata import TEXTS, data_of, people
from worlds.small_tables import AGE, BMI, CITY, YEARS

D = Decimal
BORN = temporal("born", "1980-01-01", "1989-06-15", "2 months")


def some_people(n: int, k: int = 2) -> Microdata:
    """n people of 10 single years, all with one problem."""
    table = replace(people(YEARS, CITY), k=k)
    codes = np.array([[i % 10, i % 6] for i in range(n)], dtype=np.int64)
    return data_of(table, codes)


def silent(share: float) -> None:
    assert 0 <= share <= 1


def test_each_k_is_tried_and_the_tables_own_is_among_them() -> None:
    found = costs(some_people(60, k=7), silent)
    assert [line["k"] for line in found["k"]] == sorted({*KS, 7})
    assert (found["algorithm"], found["rows"]) == (DEFAULT_ALGORITHM, 60)


def test_a_cost_is_that_of_a_run_with_that_k() -> None:
    data = some_people(60)
    line = next(line for line in costs(data, silent)["k"] if line["k"] == 5)
    recoding = run(ALGORITHMS[DEFAULT_ALGORITHM], data, k_anonymity(5))
    assert (line["groups"], line["ncp"], line["suppressed"]) == (recoding.n_groups, ncp(data, recoding), 0)


def test_shards_cost_the_loss_of_each_by_its_rows_and_those_that_are_too_small_wait() -> None:
    data = some_people(57)
    shard = np.array([0] * 20 + [1] * 36 + [3], dtype=np.int64)
    parts = [data.rows(np.flatnonzero(shard == number)) for number in (0, 1)]
    losses = [ncp(part, run(ALGORITHMS[DEFAULT_ALGORITHM], part, k_anonymity(2))) or 0.0 for part in parts]
    found = cost_of_shards(data, shard, 4, silent, rows_max=100)
    assert found["rows"] == {"min": 0, "max": 36}
    assert found["waiting"] == {"shards": 2, "rows": 1}
    assert found["ncp"] == pytest.approx((20 * losses[0] + 36 * losses[1]) / 56)
    assert (found["tried"], found["foreseen"]) == (2, False)


def test_as_many_shards_are_tried_as_their_rows_allow() -> None:
    data, shard = some_people(60), np.arange(60) % 3
    found = cost_of_shards(data, shard, 3, silent, rows_max=45)
    assert (found["tried"], found["foreseen"], found["rows"]) == (2, False, {"min": 20, "max": 20})


def test_the_loss_of_a_shard_that_is_too_large_to_be_tried_is_foreseen_from_two_samples() -> None:
    wide = [replace(one, domain=(D(0), D(9_999)), grid=D(1), unit=D(2_000)) for one in (AGE, YEARS)]
    data = data_of(people(*wide), np.random.default_rng(0).integers(0, 10_000, (4_000, 2)))
    whole = np.zeros(4_000, dtype=np.int64)
    found, true = (cost_of_shards(data, whole, 1, silent, rows_max) for rows_max in (1_000, 4_000))
    assert (found["foreseen"], true["foreseen"]) == (True, False)
    assert found["ncp"] == pytest.approx(true["ncp"], rel=0.15)


def test_each_k_also_has_the_cost_of_leaving_out_one_row_in_twenty() -> None:
    data = some_people(60)
    line = next(line for line in costs(data, silent)["k"] if line["k"] == 5)
    recoding = run(ALGORITHMS[DEFAULT_ALGORITHM], data, k_anonymity(5), Options(suppression=0.05))
    assert line["suppressing"] == {"gcp": gcp(data, recoding), "suppressed": 3}
    assert line["suppressing"]["gcp"] < line["ncp"]


def test_the_cost_of_a_grid_is_that_of_a_run_with_that_grid() -> None:
    data = some_people(60)
    (line,) = costs(data, silent)["attributes"][0]["grids"]
    wider = with_grid(data, 0, D(2))
    recoding = run(ALGORITHMS[DEFAULT_ALGORITHM], wider, k_anonymity(2))
    assert line == {"grid": D(2), "groups": recoding.n_groups, "ncp": ncp(wider, recoding), "suppressed": 0}


def test_a_k_that_these_rows_cannot_hold_says_why_and_costs_nothing() -> None:
    lines = {line["k"]: line for line in costs(some_people(12), silent)["k"]}
    assert lines[20].keys() == {"k", "cannot"}
    assert "20" in lines[20]["cannot"]
    assert "cannot" not in lines[10]


def test_where_the_tables_own_k_cannot_hold_no_column_is_judged() -> None:
    assert costs(some_people(4, k=5), silent)["attributes"] == []


def test_the_loss_of_the_table_is_the_mean_of_its_columns() -> None:
    found = costs(some_people(60, k=5), silent)
    whole = next(line["ncp"] for line in found["k"] if line["k"] == 5)
    assert whole == pytest.approx(sum(line["ncp"] for line in found["attributes"]) / 2)


def test_numbers_are_tried_with_other_grids_and_categories_have_none() -> None:
    years, city = costs(some_people(60), silent)["attributes"]
    assert [line["grid"] for line in years["grids"]] == [D(2)]
    assert city["grids"] == []


def test_progress_goes_from_0_to_1() -> None:
    shares: list[float] = []
    costs(some_people(30), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("attribute", "grids"),
    [
        (AGE, [D(10)]),  # by fives of steps of one: half of it is off the step
        (replace(AGE, grid=D(4)), [D(2), D(8)]),
        (replace(AGE, grid=D(20)), [D(10)]),  # double is wider than the domain
        (BMI, [D("0.5"), D(2)]),
        (CITY, []),
        (BORN, [Span(1, "month"), Span(4, "month")]),
        (temporal("day", "1980-01-01", "1980-01-10", "7 days"), []),  # double is wider than the domain
    ],
)
def test_half_and_double_the_grid_are_tried_where_there_is_room(
    attribute: Attribute, grids: list[Decimal | Span]
) -> None:
    assert other_grids(attribute) == grids


def test_another_grid_leaves_the_steps_of_a_row_as_they_are() -> None:
    data = some_people(10)
    wider = with_grid(data, 0, D(5))
    assert (wider.codes == data.codes).all()
    assert wider.cells[:, 0].tolist() == [i // 5 for i in range(10)]
    attribute = wider.table.attributes[0]
    assert isinstance(attribute, NumericAttribute)
    assert (attribute.grid, attribute.hierarchy) == (D(5), None)


def test_places_within_the_cells_of_a_decimal_move_with_the_grid() -> None:
    """10.5, 11.5 and 12.5, the end of the domain, in cells of one and in cells of a half."""
    data = Microdata(
        people(BMI), np.array([[int(share * BMI.codes_per_cell)] for share in (0.5, 1.5, 2.5)]), None,
        np.zeros((3, 1), dtype=np.int64), TEXTS,
    )  # fmt: skip
    assert data.cells[:, 0].tolist() == [0, 1, 2]
    assert with_grid(data, 0, D("0.5")).cells[:, 0].tolist() == [1, 3, 4]


def test_days_keep_their_dates_in_another_grid() -> None:
    days = [date(1980, 1, 31), date(1980, 2, 29), date(1980, 3, 1), date(1989, 6, 15)]
    codes = np.array([[BORN.calendar.code_of(day.toordinal() - 1)] for day in days])
    data = data_of(people(BORN), codes)
    finer = with_grid(data, 0, Span(1, "month"))
    (attribute,) = finer.table.attributes
    assert isinstance(attribute, TemporalAttribute)
    assert finer.cells[:, 0].tolist() == [0, 1, 2, 113]
    assert attribute.calendar.moment_of(finer.codes[:, 0]).tolist() == [day.toordinal() - 1 for day in days]
    assert attribute.unit == 2 * BORN.unit


def test_a_category_has_no_grid() -> None:
    with pytest.raises(ValueError, match="only numbers"):
        with_grid(some_people(4), 1, D(2))
