"""COUNT queries over what is published: the truth lies within the bounds, in every form."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused, LawViolated, UsageError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.estimate import Answer, Query, bounds, estimated
from streamer.incremental.events.statements import parse_condition
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.records import PublishedGroup
from streamer.table.codes import DATE, LOCAL_TIMESTAMP, TIMESTAMP, Attribute, Clock
from streamer.table.row import Row
from streamer.table.schema import LOSSY_JOIN, Table
from worlds.dates import temporal
from worlds.engine_tables import FoldedTable
from worlds.published_groups import FORMS, SONG
from worlds.small_tables import AGE, BMI, CITY, YEARS, changes, table

# The estimate of a COUNT query from vectors and sensitive rows that nobody can join, and how far off it can be.


def test_tongs_formula() -> None:
    """Group 1 of the paper's example: two of four sensitive rows, two of three zips; group 2: none of its zips."""
    assert estimated(np.array([2, 1]), np.array([2, 0]), np.array([3, 2])) == 2 * 2 / 3


def truths(st_hit: int, rows: int, matches: list[bool]) -> set[int]:
    """How many rows can match, over every way in which rows can have the vectors and the sensitive values."""
    found = set()
    for of_row in product(range(len(matches)), repeat=rows):
        if len(set(of_row)) == len(matches):  # every vector is some row's
            # whichever rows are the st_hit ones: from as few as possible of those that match to as many as possible
            n = sum(matches[vector] for vector in of_row)
            found |= set(range(max(0, st_hit + n - rows), min(st_hit, n) + 1))
    return found


@given(rows=st.integers(1, 5), data=st.data())
def test_the_bounds_are_the_least_and_the_most_that_can_be_true(rows: int, data: st.DataObject) -> None:
    matches = data.draw(st.lists(st.booleans(), min_size=1, max_size=rows))
    st_hit = data.draw(st.integers(0, rows))
    hits = np.array([sum(matches)])
    found = bounds(np.array([st_hit]), np.array([rows]), hits, hits, np.array([len(matches)]))
    possible = truths(st_hit, rows, matches)
    assert found == (min(possible), max(possible))
    assert found[0] <= estimated(np.array([st_hit]), hits, np.array([len(matches)])) <= found[1] or not matches


def test_the_bounds_of_all_groups_are_the_sums_of_each() -> None:
    one, other = np.array([2]), np.array([1])
    of_each = [bounds(one, np.array([3]), other, other, one), bounds(other, one, other, other, other)]
    together = bounds(*(np.array(pair) for pair in zip([2, 3, 1, 1, 2], [1, 2, 1, 1, 1], strict=True)))
    assert together == tuple(map(sum, zip(*of_each, strict=True)))


SMALL = table(AGE, YEARS, CITY, k=2)
FLU, ULCER = (b'"flu"',), (b'"ulcer"',)


def folded(small: Table, groups: dict[int, PublishedGroup]) -> Fold:
    fold, log = Fold(small), Changelog(small, 0)
    for number, group in groups.items():
        for entry in log.diff(number, None, group)[0]:
            fold.apply(0, 1, 1, entry.key, entry.value)
    fold.finish()
    return fold


def asked(small: Table, text: str, groups: dict[int, PublishedGroup]) -> Answer:
    return Query(small, text).answer(folded(small, groups).to_frames())


QG1 = PublishedGroup((4, 2), (4, 3), (FLU, ULCER, FLU), ((4, 2), (4, 3)))
QG2 = PublishedGroup((9, 9), (10, 9), (FLU, FLU), ((9, 9), (10, 9)))


def test_the_papers_estimate_by_hand() -> None:
    """Cells of QG1: age 21-25 twice, so one age of five; both zips. Its flu rows: two. QG2 has no such age."""
    join = replace(SONG, form=LOSSY_JOIN)
    about, low, high, rows = asked(join, "age = 23 and problem = 'flu'", {1: QG1, 2: QG2})
    assert (about, low, high, rows) == (pytest.approx(2 * 2 / 5 / 2), 0, 2, 5)
    # one of the two zips, all of its values: one or two of the three rows lie there
    assert asked(join, "zip <= 15000 and problem = 'ulcer'", {1: QG1}) == (0.5, 0, 1, 3)
    assert asked(join, "zip <= 15000 and problem = 'flu'", {1: QG1}) == (1.0, 0, 2, 3)
    assert asked(join, "zip <= 15000", {1: QG1}) == (1.5, 1, 2, 3)
    # certain: all of its cells match
    assert asked(join, "age > 20 and problem = 'flu'", {1: QG1}) == (2.0, 2, 2, 3)


def test_a_box_is_a_vector_that_matches_in_part() -> None:
    about, low, high, rows = asked(SONG, "zip <= 15000 and problem = 'flu'", {1: QG1})
    assert (about, low, high, rows) == (2 * 0.5, 0, 2, 3)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_published_is_no_row(form: str) -> None:
    assert asked(replace(SONG, form=form), "age = 23", {}) == (0.0, 0, 0, 0)


@pytest.mark.parametrize(
    "text",
    ["age = ", "age = zip", "age < zip + 3", "age = 'old'", "name = 3", "id = 3", "problem < 3 and problem = 'flu"],
)
def test_what_is_no_query_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--query: "):
        Query(SONG, text)


def test_what_was_never_published_is_refused_and_not_computed_with() -> None:
    frames = folded(replace(SMALL, form=LOSSY_JOIN), {}).to_frames()
    vectors = {"qi_group": "0-1", "age_lo": 5, "age_hi": 1, "years_lo": 0, "years_hi": 0, "city": "canary"}
    foreign = {"qit": pd.DataFrame([vectors]), "stt": frames["stt"]}
    for text in ("age = 3", "city = 'a1'"):
        with pytest.raises(LawViolated, match=r"holds a value that table\.yaml does not know"):
            Query(SMALL, text).answer(foreign)


def test_what_is_no_moment_is_refused_too() -> None:
    small = table(temporal("x", "1980-01-01", "1985-12-31", "2 months"), k=2)
    for ends in (("canary", "1980-02-29"), ("1980-03-01", "1980-02-29")):
        foreign = pd.DataFrame([{"qi_group": "0-1", "x_lo": ends[0], "x_hi": ends[1], "problem": "flu"}])
        with pytest.raises(LawViolated, match=r"holds a value that table\.yaml does not know"):
            Query(small, "x < '1980-02-01'").answer({"live": foreign})


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_the_truth_lies_within_the_bounds(form: str, data: st.DataObject) -> None:
    small = replace(SMALL, form=form)
    engine, kept = Engine(small), FoldedTable()
    for change in data.draw(st.lists(changes(small), min_size=5, max_size=30)):
        try:
            engine.apply(change)
        except EventRefused:
            continue
    kept.fold(engine.drain())
    tests = st.sampled_from(["=", "<", "<=", ">", ">="])
    parts = [
        f"age {data.draw(tests)} {data.draw(st.integers(0, 24))}",
        f"years {data.draw(tests)} {data.draw(st.integers(-1, 10))}",
        f"city = '{data.draw(st.sampled_from(['a1', 'b1', 'd1']))}'",
        f"problem = '{data.draw(st.sampled_from(['flu', 'cough']))}'",
    ]
    text = " and ".join(data.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=4, unique=True)))
    answer = asked(small, text, kept.published)
    published = [record.row for record in kept.records.values() if record.qi_group != PENDING]
    truth = sum(is_match(row, text, small) for row in published)
    assert answer.rows == len(published)
    assert answer.at_least <= truth <= answer.at_most
    assert answer.at_least - 1e-9 <= answer.estimate <= answer.at_most + 1e-9


BORN = temporal("born", "1980-01-01", "1980-12-31", "1 month")


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (replace(AGE, null_code=0), "age < 30"),
        (replace(BMI, null_code=0), "bmi < 30"),
        (replace(CITY, null_code=0), "city = 'a1'"),
        (replace(BORN, null_code=0), "born < '2000-01-01'"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_certain_of_rows_that_may_be_null(form: str, attribute: Attribute, text: str) -> None:
    """What a null counts as is published; whether it is a null, nobody can tell, and a null matches nothing."""
    first = {1: PublishedGroup((0,), (0,), (FLU, FLU), ((0,),))}
    asking = replace(table(attribute), form=form)
    assert asked(asking, text, first)[1:] == (0, 2, 2)
    assert asked(replace(asking, attributes=(replace(attribute, null_code=None),)), text, first)[1:] == (2, 2, 2)


def test_a_query_may_ask_what_is_published_as_it_is_for_nulls_and_nothing_else() -> None:
    groups = {1: PublishedGroup((0,), (0,), (FLU, (b"null",), FLU), ((0,),))}
    people = table(replace(AGE, null_code=0))
    assert asked(people, "problem is null", groups)[1:] == (1, 1, 3)
    assert asked(people, "problem is not null", groups)[1:] == (2, 2, 3)
    for text in ("age is null", "problem is null and age is not null"):
        with pytest.raises(UsageError, match="--query: asks for nulls of a quasi-identifier"):
            Query(people, text)


class OneRow:
    """One row as columns."""

    def __init__(self, row: Row) -> None:
        self.codes = np.array([row.codes])
        self.exact, self.values = [row.exact], [row.values]
        self.nulls = np.array([[j in row.nulls for j in range(len(row.codes))]])


def is_match(row: Row, text: str, small: Table) -> bool:
    return bool(parse_condition(text, small).matches(OneRow(row))[0])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bmi < 11", (Fraction(1), 2, 2)),
        ("bmi <= 10.25", (Fraction(1, 4), 0, 2)),
        ("bmi = 10.5", (Fraction(0), 0, 2)),
        ("bmi >= 10", (Fraction(1), 2, 2)),
        ("bmi > 10", (Fraction(1), 0, 2)),
        ("bmi > 11.5", (Fraction(0), 0, 0)),
    ],
)
def test_where_there_is_no_step_shares_are_of_lengths(text: str, found: tuple[Fraction, int, int]) -> None:
    bmi = replace(table(BMI, k=2), form=LOSSY_JOIN)
    about, low, high, _ = asked(bmi, text, {1: PublishedGroup((0,), (0,), (FLU, FLU), ((0,),))})
    assert (about, low, high) == (2 * float(found[0]), found[1], found[2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("clock", "text", "found"),
    [
        (DATE, "x < '1980-02-01'", (Fraction(31, 60), 0, 2)),  # January and February of a leap year
        (DATE, "x = '1980-02-29'", (Fraction(1, 60), 0, 2)),
        (DATE, "x >= '1980-01-01' and x <= '1980-02-29'", (Fraction(1), 2, 2)),
        (DATE, "x > '1980-02-29'", (Fraction(0), 0, 0)),
        (TIMESTAMP, "x < '1980-02-01'", (Fraction(31, 60), 0, 2)),
        (TIMESTAMP, "x < '1980-02-01T12:00:00Z'", (Fraction(63, 120), 0, 2)),
        (LOCAL_TIMESTAMP, "x < '1980-03-01'", (Fraction(1), 2, 2)),
        (LOCAL_TIMESTAMP, "x = '1980-02-01'", (Fraction(0), 0, 2)),
    ],
)
def test_shares_of_dates_are_of_days_and_those_of_timestamps_of_lengths(
    form: str, clock: Clock, text: str, found: tuple[Fraction, int, int]
) -> None:
    small = replace(table(temporal("x", "1980-01-01", "1985-12-31", "2 months", clock), k=2), form=form)
    about, low, high, _ = asked(small, text, {1: PublishedGroup((0,), (0,), (FLU, FLU), ((0,),))})
    assert (about, low, high) == (pytest.approx(2 * float(found[0])), found[1], found[2])
