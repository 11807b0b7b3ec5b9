"""Why a row is in its QI group, held against the engine that put it there."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Insert
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.explained import nearest_to, similar_to_row, slack
from streamer.incremental.groups.kept import PENDING, QIGroupState
from streamer.incremental.groups.nearest import nearest_qi_groups
from streamer.table.row import Row
from streamer.table.schema import Diversity
from worlds.folded_table import FoldedTable
from worlds.small_tables import TABLES, YEARS, changes, rows, table

PEOPLE = table(YEARS, k=2)
WITHOUT_REPAIR = sorted(name for name, small in TABLES.items() if not small.repair)


@given(data=st.data(), name=st.sampled_from(WITHOUT_REPAIR))
def test_a_new_row_joins_the_first_of_those_that_are_named(data: st.DataObject, name: str) -> None:
    """What is said before an insertion is what it does; unless the group is cut at once, or a row repaired away."""
    small = TABLES[name]
    engine, kept = Engine(small), FoldedTable()
    for change in data.draw(st.lists(changes(small), min_size=4, max_size=25)):
        try:
            engine.apply(change)
        except EventRefused:
            continue
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
    for change in data.draw(st.lists(changes(small), min_size=4, max_size=25)):
        try:
            engine.apply(change)
        except EventRefused:
            continue
    kept.fold(engine.drain())
    for number in kept.qi_groups:
        found = nearest_to(small, number, kept.qi_groups, 3)
        scanned = nearest_qi_groups(small.space, kept.qi_groups, number, 3)
        assert [one.total for one in found] == [score for _, score in scanned.neighbours]


def test_its_own_group_comes_first_wherever_it_stands() -> None:
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
