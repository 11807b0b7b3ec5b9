"""The one door to a shard's table: what changes do to QI groups, and how a table is begun or gone on with."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from streamer.errors import ConfigError
from streamer.incremental.events.changes import Change, Delete, DeleteWhere, Insert, Modify, Truncate
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING, KeptTable, QIGroupState, Record
from streamer.incremental.groups.outcome import APPLIED, IGNORED
from streamer.incremental.release.changelog import Changelog
from streamer.table.schema import Table
from worlds.model_tables import asking
from worlds.shard_tables import OF_PEOPLE, OF_TWO, boxes_in, engine_with, groups_of, numbers_in, row_of, sets_of
from worlds.small_tables import YEARS, CodeIs, table

FOUR = {"a": 0, "b": 1, "c": 8, "d": 9}
COUGH = b'"cough"'


# -- rows come --------------------------------------------------------------------------------------------------------


def test_rows_wait_until_they_are_k_and_are_published_together() -> None:
    engine = Engine(OF_TWO)
    assert engine.apply(Insert("a", row_of(0))) == APPLIED
    assert (engine.n_rows, engine.n_pending, engine.n_qi_groups) == (1, 1, 0)
    assert engine.drain().published == []
    engine.apply(Insert("b", row_of(3)))
    assert (engine.n_pending, engine.n_qi_groups) == (0, 1)
    assert boxes_in(engine.drain()) == {1: (0, 3)}


def test_a_group_of_2k_is_split_by_the_insertion_that_made_it_so() -> None:
    assert groups_of(engine_with(FOUR)) == sets_of("ab", "cd")


# -- rows go ----------------------------------------------------------------------------------------------------------


def test_a_group_that_falls_below_k_merges() -> None:
    engine = engine_with(FOUR)
    engine.apply(Delete("a"))
    assert groups_of(engine) == sets_of("bcd")
    assert engine.drain().merges == 1


def test_the_last_rows_below_k_are_unpublished() -> None:
    engine = engine_with({"a": 0, "b": 3})
    engine.apply(Delete("a"))
    assert (engine.n_pending, boxes_in(engine.drain())) == (1, {1: None})


def test_a_deletion_makes_the_box_small_again_unless_the_table_says_otherwise() -> None:
    for shrink, box in ((True, (0, 1)), (False, (0, 4))):
        engine = engine_with({"a": 0, "b": 1, "c": 4}, table(YEARS, k=2, shrink=shrink))
        engine.apply(Delete("c"))
        assert boxes_in(engine.drain()) == {1: box}


# -- rows change ------------------------------------------------------------------------------------------------------


def test_a_row_that_stays_in_its_box_stays_in_its_group() -> None:
    engine = engine_with({"a": 0, "b": 4, "c": 2})
    engine.apply(Modify("c", {0: 3}))
    assert engine.drain().published == [], "readers see no difference"
    assert dict(engine.index_table()) == {"a": 1, "b": 1, "c": 1}


def test_a_row_that_leaves_its_box_joins_the_most_similar_group() -> None:
    engine = engine_with(FOUR | {"e": 2})
    engine.apply(Modify("e", {0: 7}))
    assert groups_of(engine) == sets_of("ab", "cde")


def test_a_sensitive_value_is_rewritten_in_place_and_relocates_nobody() -> None:
    engine = engine_with(FOUR)
    engine.apply(Modify("a", {}, {}, {0: COUGH}))
    ((number, before, after),) = engine.drain().published
    assert before is not None and after is not None
    assert (before.lo, before.hi) == (after.lo, after.hi)
    assert sorted(after.slots) == [(COUGH,), (b'"flu"',)]
    assert number == dict(engine.index_table())["a"]


# -- begun with a table, and gone on with one -------------------------------------------------------------------------


def test_a_first_table_is_published_in_the_groups_that_were_made_for_it() -> None:
    engine = Engine(OF_TWO)
    years = [0, 9, 1, 8, 5]
    groups = [np.array([0, 2]), np.array([1, 3])]
    engine.load_initial(list("abcde"), [row_of(year) for year in years], np.array(years)[:, None], groups)
    assert dict(engine.index_table()) == {"a": 1, "c": 1, "b": 2, "d": 2, "e": PENDING}
    assert boxes_in(engine.drain()) == {1: (0, 1), 2: (8, 9)}


@pytest.mark.parametrize(
    ("small", "individual", "n", "said"),
    [
        (OF_TWO, None, 1, "1 rows are fewer than k = 2"),
        (OF_PEOPLE, "ann", 2, "1 distinct individuals are fewer than 2"),
        (asking(YEARS, l=2), None, 2, "1 distinct values of problem other than null are fewer than 2"),
        (asking(YEARS, beta="0.5"), None, 2, r"one of the values of problem has 2 of 2 rows \(1.000\)"),
    ],
    ids=["rows", "individuals", "distinct values", "a share"],
)
def test_a_first_group_that_does_not_hold_is_refused_and_nothing_is_loaded(
    small: Table, individual: str | None, n: int, said: str
) -> None:
    engine = Engine(small)
    rows, groups = [row_of(0, individual=individual) for _ in range(2)], [np.arange(n)]
    with pytest.raises(ConfigError, match=f"QI group 1 does not hold the privacy model: {said}"):
        engine.load_initial(["a", "b"], rows, np.zeros((2, 1), dtype=np.int64), groups)
    assert engine.n_rows == 0


def test_an_engine_goes_on_from_what_another_kept() -> None:
    records = [(key, Record(row_of(year), 1 if year < 5 else 4)) for key, year in FOUR.items()]
    flu = (b'"flu"',)
    groups = {
        1: QIGroupState((0,), (1,), ("a", "b"), (flu, flu)),
        4: QIGroupState((8,), (9,), ("c", "d"), (flu, flu)),
    }
    engine = Engine.load(OF_TWO, 3, 4, KeptTable(7, records, list(groups.items()), [], ["s-1"]))
    assert (engine.shard, engine.shards, engine.n_rows, engine.n_qi_groups) == (3, 4, 4, 2)
    assert engine.apply(DeleteWhere(CodeIs(0, 0, 9), "s-1")) == IGNORED
    assert engine.drain().published == []
    for key, year in (("e", 0), ("f", 1)):
        engine.apply(Insert(key, row_of(year)))
    assert numbers_in(engine) == {1, 4, 7}, "the next unused number was kept too"


def test_source_rows_are_all_rows_with_their_codes() -> None:
    keys, codes = engine_with(FOUR).source_rows()
    assert dict(zip(keys, codes[:, 0].tolist(), strict=True)) == FOUR


def test_what_a_drain_publishes_is_never_more_than_was_said() -> None:
    engine = engine_with(FOUR)
    changes = deque[Change]([Insert("e", row_of(4)), Delete("a"), Modify("b", {0: 9}), Truncate()])
    while changes:
        engine.apply(changes.popleft())
        most = engine.rows_published_max
        records = [record for group in engine.drain().published for record in Changelog(OF_TWO, 0).diff(*group)[0]]
        assert 0 < len(records) <= most
