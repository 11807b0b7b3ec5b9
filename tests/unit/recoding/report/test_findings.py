"""The figures of a report: the risk before and after, what is exact, what no one answers; worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.recoding.algorithms.contract import Recoding, by_box, local_recoding
from streamer.recoding.metrics.risk import grouped, silent
from streamer.recoding.report.findings import (
    CROWDS,
    alike_rows,
    drawn_of,
    drawn_of_parts,
    findings,
    findings_of_parts,
    open_rows,
    published_part,
    range_of,
    united_alike,
)
from streamer.table.arrays import row_numbers
from streamer.table.codes import Attribute
from streamer.table.microdata import INDIVIDUAL, Microdata, Subject
from worlds.dates import temporal
from worlds.microdata import GROUPS, SEVEN, recoded, rows_that_may_be_hers
from worlds.small_tables import AGE, BMI, CITY, YEARS

HEADER = ("id", "ssn", "years", "city", "problem", "name")


def found(recoding: Recoding = GROUPS, data: Microdata = SEVEN, form: str = "rows") -> dict[str, Any]:
    return findings(data, recoding, form, HEADER)


def test_the_risk_of_the_input_is_that_of_its_quasi_identifiers_by_people() -> None:
    """Ann and Bob share 0, a1, Cy and Eve 5, c1; Ann's other row, Dee and Fay are alone."""
    before = found()["before"]
    assert (before["rows"], before["smallest"], before["alone"], before["chance_max"]) == (7, 1, 3, 1.0)
    assert before["chance_mean"] == pytest.approx((4 / 2 + 3) / 7)


def test_all_columns_of_the_input_have_their_roles_also_those_that_stay_behind() -> None:
    roles = {column["name"]: column["roles"] for column in found()["columns"]}
    assert roles == {
        "id": ["key"], "ssn": ["individual"], "years": ["quasi-identifier"], "city": ["quasi-identifier"],
        "problem": ["sensitive"], "name": ["stays behind"],
    }  # fmt: skip


@pytest.mark.parametrize(("form", "years", "city"), [("rows", 0.0, 0.5), ("lossy-join", 1.0, 1.0)])
def test_how_many_rows_show_an_exact_value(form: str, years: float, city: float) -> None:
    """Group 0 publishes 0 to 2 and half of the cities, group 1 five years and one city."""
    exact = {column["name"]: column["exact"] for column in found(form=form)["columns"]}
    assert exact == {"id": None, "ssn": None, "years": years, "city": city, "problem": 1.0, "name": None}


def test_a_group_in_which_nobody_has_a_value_is_not_known_of_everybody() -> None:
    """Fay, who has no problem on record, by herself."""
    alone = found(local_recoding(SEVEN, np.array([0, 0, 0, 1, 1, 1, 2])))["inference"][0]
    assert (alone["unanswered_groups"], alone["unanswered_rows"], alone["known_groups"]) == (1, 1, 0)
    assert alone["worst"] == pytest.approx(1 / 3), "of the groups that have values"


def test_where_all_who_have_an_answer_have_the_same_one_it_is_known_of_whoever_has_one() -> None:
    """Fay, who has no problem on record, beside Cy, who has a flu; Dee and Eve differ."""
    beside = found(local_recoding(SEVEN, np.array([0, 0, 0, 1, 2, 2, 1])))["inference"][0]
    assert (beside["agreed_groups"], beside["agreed_rows"], beside["known_groups"]) == (1, 1, 0)
    assert beside["worst"] == 0.5


def test_of_a_column_without_any_value_nothing_is_known() -> None:
    null = SEVEN.texts[0].index(b"null")
    nothing = replace(SEVEN, values=np.full((7, 1), null))
    said = found(data=nothing)["inference"][0]
    assert (said["worst"], said["usual"], said["known_groups"], said["unanswered_groups"]) == (None, None, 0, 2)
    assert found(data=nothing)["values_of_one"] == []


def test_if_nothing_is_published_there_is_a_before_and_no_after() -> None:
    said = found(local_recoding(SEVEN, np.full(7, -1)))
    assert (said["after"], said["inference"], said["values_of_one"]) == (None, [], [])
    assert said["before"]["rows"] == 7


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        (YEARS, "0 to 9, in steps of 1"),
        (temporal("born", "1950-01-01", "1999-12-31", "1 month"), "1950-01-01 to 1999-12-31, in steps of 1 month"),
        (CITY, "6 categories in 4 levels"),
        (AGE, "in steps of"),
        (BMI, "in steps of"),
    ],
)
def test_a_range_is_what_table_yaml_says(attribute: Attribute, says: str) -> None:
    assert says in range_of(attribute)


@given(recoded())
def test_figures_are_those_of_the_rows_that_may_be_hers(case: tuple[Microdata, Recoding]) -> None:
    data, recoding = case
    assume(recoding.n_groups)
    hers, said = rows_that_may_be_hers(recoding), findings(data, recoding, "rows", HEADER)
    who = data.subject(INDIVIDUAL).tolist()
    people = {i: len({who[other] for other in crowd}) for i, crowd in hers.items()}
    after = said["after"]
    assert (after["smallest"], after["alone"]) == (min(people.values()), sum(n == 1 for n in people.values()))
    assert after["chance_mean"] == pytest.approx(sum(1 / n for n in people.values()) / len(people))
    assert [one["rows"] for one in after["at_risk"]] == [sum(n < m for n in people.values()) for m in CROWDS]
    (one,), value = said["inference"], data.values[:, 0].tolist()
    null = data.texts[0].index(b"null")
    told = {i: {value[other] for other in crowd} for i, crowd in hers.items()}
    assert one["known_rows"] == sum(len(values) == 1 and null not in values for values in told.values())
    assert one["unanswered_rows"] == sum(values == {null} for values in told.values())
    assert one["agreed_rows"] == sum(len(told[i]) == 2 and null in told[i] and value[i] != null for i in told)


@given(recoded(), st.integers(1, 3), st.booleans())
def test_figures_of_the_parts_of_a_table_are_those_of_the_whole(
    case: tuple[Microdata, Recoding], n: int, spelt: bool
) -> None:
    data, recoding = case
    assume(recoding.n_groups)
    if spelt:  # a value in two spellings: the first text is the second one, written otherwise
        texts = (data.texts[0][1].upper(), *data.texts[0][1:])
        data = replace(data, texts=(texts,), counted={})
    table, published, box = data.table, np.flatnonzero(recoding.qi_group >= 0), by_box(recoding).qi_group
    parts = []
    for part in range(n):
        rows = published[box[published] % n == part]
        if len(rows):
            parts.append(published_part(data.rows(rows), local_recoding(data.rows(rows), recoding.qi_group[rows])))

    left = grouped(by_box(recoding).qi_group[published], int(box.max()) + 1)
    is_open = np.zeros(len(data), dtype=bool)
    is_open[published] = open_rows(data.rows(published), left, 0)

    def alike(number: np.ndarray, counted: np.ndarray, rows: np.ndarray) -> Any:
        who = np.arange(len(data)) if data.individuals is None else data.individuals
        some = [counted % n == part for part in range(n)]
        names = [
            None if data.individuals is None else np.unique(who[rows[one]], return_inverse=True)[1] for one in some
        ]
        pairs = zip(some, names, strict=True)
        return united_alike(
            alike_rows(table, number[one], counted[one], is_open[rows[one]], names) for one, names in pairs
        )

    before = alike(row_numbers(data.codes), row_numbers(data.codes), np.arange(len(data)))
    says = published[~silent(data.texts[0])[data.values[published, 0]]]
    by_value = alike(data.values[says, 0], data.subject(Subject(0))[says], says)
    found = findings_of_parts(table, HEADER, parts, before, None, [by_value])
    whole = findings(data, recoding, "rows", HEADER)
    assert found.keys() == whole.keys()
    for name, value in whole.items():
        assert comparable(found[name]) == comparable(value), name
    of_parts, of_whole = drawn_of_parts(parts, recoding.n_suppressed), drawn_of(data, recoding)
    assert of_parts.losses == pytest.approx(of_whole.losses)
    assert (sorted(of_parts.sizes), of_parts.shares) == (sorted(of_whole.sizes), of_whole.shares)


def comparable(value: Any) -> Any:
    """With floats as they are printed: sums of sums are rounded elsewhere."""
    return json.loads(json.dumps(value), parse_float=lambda text: f"{float(text):.12g}")
