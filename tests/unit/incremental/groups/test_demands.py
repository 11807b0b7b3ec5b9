"""A model on its way to the core: which demands there are, what they count of values, and which numbers come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.record_types import NONE
from streamer.incremental.events.changes import Insert, Modify
from streamer.incremental.groups import texts
from streamer.incremental.groups.demands import SubjectNumbers, counted_by_k, demands_of
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.held import Held
from streamer.table.row import Values
from streamer.table.schema import Table
from worlds.checked_arrays import check_arrays
from worlds.model_tables import asking
from worlds.shard_tables import OF_PEOPLE, OF_TWO, row_of
from worlds.small_tables import YEARS

FLU, COUGH, ULCER, NULL = (b'"flu"',), (b'"cough"',), (b'"ulcer"',), (b"null",)


def demands(small: Table) -> list[tuple[int, ...]]:
    """Distinct subjects at least, largest share, whether individuals are counted."""
    return [tuple(map(int, demand)) for demand in demands_of(small)]


def told(small: Table, *values: Values) -> Shard:
    return SubjectNumbers(small).told(Held(small).arrays, list(enumerate(values)))


def test_k_alone_demands_nothing_more() -> None:
    assert demands(OF_TWO) == demands(OF_PEOPLE) == []


def test_every_subject_is_one_demand_that_of_the_individuals_first() -> None:
    small = asking(YEARS, individual="ssn", alpha="0.5", beta="0.25", l=3, null_counts=True, r="0.6", level=1)
    assert demands(small) == [(0, 1, 2, 1), (3, 1, 4, 0), (0, 3, 5, 0)]


def test_nulls_that_do_not_count_make_a_subject_of_their_own_beside_shares_where_they_do() -> None:
    assert demands(asking(YEARS, beta="0.25", l=3)) == [(3, 1, 1, 0), (0, 1, 4, 0)]


def test_without_individuals_a_share_of_one_asks_for_rows() -> None:
    small = asking(YEARS, alpha="0.3")
    assert (demands(small), counted_by_k(small)) == ([], 4)
    assert counted_by_k(asking(YEARS, individual="ssn", alpha="0.3")) == 2


def test_values_are_counted_by_themselves_or_by_what_is_above_them() -> None:
    by_value, by_node = told(asking(YEARS, l=2, r="0.5", level=1), FLU, COUGH, ULCER).demands.code[:3].T.tolist()
    assert len(set(by_value)) == 3
    assert by_node[0] == by_node[1] != by_node[2]
    assert not {*by_value} & {*by_node}


def test_a_null_is_counted_where_it_counts() -> None:
    small = asking(YEARS, l=2, beta="0.5")
    (of_distinct, of_shares), _ = told(small, NULL, FLU).demands.code[:2].tolist()
    assert (of_distinct, of_shares < NONE) == (NONE, True)
    ((both,), _) = told(asking(YEARS, l=2, beta="0.5", null_counts=True), NULL, FLU).demands.code[:2].tolist()
    assert both < NONE


def test_numbers_that_no_row_has_any_more_are_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SPARE", 10)
    free_text = replace(asking(YEARS, l=2, beta="0.6"), kept=(replace(OF_TWO.kept[0]),))
    engine = Engine(free_text)
    for i in range(4):
        engine.apply(Insert(str(i), row_of(i, f"note {i}")))
    for i in range(400):
        engine.apply(Modify(str(i % 4), {}, {}, {0: b'"note %d"' % (i + 4)}))
        if i % 5 == 0:
            engine.drain()
            check_arrays(engine._held.arrays)
    assert -150 < engine._held.arrays.demands.code.min() < NONE
