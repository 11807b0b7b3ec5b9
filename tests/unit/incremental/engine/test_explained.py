"""Why a row is in its QI group, held against the engine that put it there."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.explained import (
    nearest_to,
    qgssd_terms,
    similar_to_row,
    slack,
    t_qgssd_terms,
)
from streamer.incremental.engine.stored_state import PENDING, QIGroupState
from streamer.incremental.events.changes import Insert
from streamer.table.codes import Diversity
from streamer.table.row import Row
from streamer.table.space import Space, in_order
from worlds.boxes import SPACES, Box, boxes, tuples
from worlds.engine_tables import FoldedTable, apply_valid
from worlds.published_groups import SONG
from worlds.small_tables import TABLES, YEARS, changes, rows, table
from worlds.twin import Scan

# The similarities attribute by attribute: the definitions' own terms, and the sums that the core decides by.

QG1, QG2, QG3 = ((4, 2), (4, 3)), ((8, 4), (9, 5)), ((10, 10), (10, 11))
GROUPS = [QG1, QG2, QG3]


def test_the_papers_numbers_of_a_tuple_and_a_group() -> None:
    """(55, 62000): example 8. The paper measures zips; here the middles of cells, which are 2000 further on."""
    lo, hi = (np.array([group[side] for group in GROUPS]) for side in (0, 1))
    terms = t_qgssd_terms(SONG.space, np.array([10, 12]), lo, hi)
    assert terms[2].tolist() == [1.0, pytest.approx(4.5 / 7.5)]
    assert terms[0][0] == pytest.approx(2 / 30)


def test_the_papers_numbers_of_two_groups() -> None:
    lo, hi = (np.array([group[side] for group in GROUPS]) for side in (0, 1))
    terms = qgssd_terms(SONG.space, np.array(QG1[0]), np.array(QG1[1]), lo, hi)
    assert terms[1].tolist() == [pytest.approx(0.044444, abs=1e-6), pytest.approx(0.1)]
    assert terms[2].tolist() == [pytest.approx(0.033333, abs=1e-6), pytest.approx(0.025)]


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())))
def test_their_sums_are_the_scores_of_a_scan_to_the_last_bit(data: st.DataObject, space: Space) -> None:
    some = data.draw(st.lists(boxes(space), min_size=1, max_size=6))
    cells, twin = data.draw(tuples(space)), Scan(space)
    twin.groups = {number: (lo, hi, 1) for number, (lo, hi) in enumerate(some)}
    lo, hi = np.array([one[0] for one in some]), np.array([one[1] for one in some])
    rows = t_qgssd_terms(space, np.array(cells), lo, hi)
    assert in_order(rows).tolist() == pytest.approx([twin.t_qgssd(cells, number) for number in twin.groups], rel=1e-15)
    groups = qgssd_terms(space, lo[0], hi[0], lo, hi)
    assert in_order(groups).tolist() == [twin.qgssd(0, number) for number in twin.groups]


PEOPLE = table(YEARS, k=2)
WITHOUT_REPAIR = sorted(name for name, small in TABLES.items() if not small.repair)


@given(data=st.data(), name=st.sampled_from(WITHOUT_REPAIR))
def test_a_new_row_joins_the_first_of_those_that_are_named(data: st.DataObject, name: str) -> None:
    """What is said before an insertion is what it does; unless the group is cut at once, or a row repaired away."""
    small = TABLES[name]
    engine, kept = Engine(small), FoldedTable()
    apply_valid(engine, data.draw(st.lists(changes(small), min_size=4, max_size=25)))
    kept.fold(engine.drain())
    row = data.draw(rows(small))
    said = similar_to_row(small, row, PENDING, kept.qi_groups, 3)
    assert [one.place for one in said] == list(range(1, len(said) + 1))
    before = set(kept.qi_groups)
    engine.apply(Insert("the new one", row))
    kept.fold(engine.drain())
    joined = kept.records["the new one"].qi_group
    if said and set(kept.qi_groups) == before:
        assert joined == said[0].number


@given(data=st.data(), name=st.sampled_from(sorted(TABLES)))
def test_a_merge_takes_the_nearest_first(data: st.DataObject, name: str) -> None:
    small = TABLES[name]
    engine, kept = Engine(small), FoldedTable()
    apply_valid(engine, data.draw(st.lists(changes(small), min_size=4, max_size=25)))
    kept.fold(engine.drain())
    twin = Scan(small.space)
    twin.groups = {number: (state.lo, state.hi, len(state.members)) for number, state in kept.qi_groups.items()}
    for number in kept.qi_groups:
        found = nearest_to(small, number, kept.qi_groups, 3)
        scores = {other: twin.qgssd(number, other) for other in twin.groups if other != number}
        nearest = sorted(scores, key=lambda other: (-scores[other], twin.tie(other)))[:3]
        assert [(one.number, one.total) for one in found] == [(other, scores[other]) for other in nearest]


def test_its_own_group_comes_first_whatever_its_place() -> None:
    groups = {
        1: QIGroupState((0,), (9,), ("a", "b", "c"), ()),
        2: QIGroupState((4,), (5,), ("d", "e"), ()),
        3: QIGroupState((8,), (9,), ("f", "g"), ()),
    }
    own, first, last = similar_to_row(PEOPLE, Row((4,), (b"null",)), 1, groups, 3)
    assert (own.number, own.place, own.contains) == (1, 2, True)  # the smaller box would win
    assert (first.number, first.place, first.contains) == (2, 1, True)
    assert (last.number, last.contains, last.total) == (3, False, 0.5 / 4.5)


def test_where_there_is_no_group_nothing_is_similar() -> None:
    assert similar_to_row(PEOPLE, Row((4,), (b"null",)), PENDING, {}, 3) == []
    assert nearest_to(PEOPLE, 1, {1: QIGroupState((4,), (5,), ("d", "e"), ())}, 3) == []


def test_slack_counts_what_the_model_counts() -> None:
    people = replace(table(YEARS, k=2, individual="ssn"), diversity=Diversity(l=2, beta=Decimal("0.75")))
    members = [Row((0,), (problem,), (), who) for problem, who in [(b'"flu"', "a"), (b'"flu"', "a"), (b'"ulcer"', "b")]]
    found = {margin.what: (margin.has, margin.needs, margin.spare) for margin in slack(people, members)}
    assert found == {
        "rows": (3, 2, 1),
        "distinct individuals": (2, 2, 0),
        "distinct values of problem other than null": (2, 2, 0),
        "largest share of values of problem": (2 / 3, 0.75, 0),
    }


# The nearest QI groups of one, without an index: as a scan by the definitions finds them.


def stored(*some: Box) -> dict[int, QIGroupState]:
    """QI groups as a store has them, numbered from 1; not by their order."""
    return {number: QIGroupState(tuple(lo), tuple(hi), (), ()) for number, (lo, hi) in reversed([*enumerate(some, 1)])}
