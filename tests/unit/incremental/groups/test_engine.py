"""The one door to a shard's table: what each change does, what is refused, and that a refusal leaves all as it was."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Nothing,
    Remove,
    Truncate,
    Upsert,
)
from streamer.incremental.groups import engine as engine_module
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING, KeptTable, QIGroupState, Record
from streamer.incremental.groups.outcome import APPLIED, IGNORED, Outcome
from streamer.incremental.release.changelog import Changelog
from streamer.table.schema import Limits, Table
from worlds.model_tables import asking
from worlds.shard_tables import (
    OF_PEOPLE,
    OF_TWO,
    boxes_in,
    engine_with,
    groups_of,
    keys_in,
    numbers_in,
    row_of,
    sets_of,
)
from worlds.small_tables import YEARS, CodeIs, Shifted, table

FOUR = {"a": 0, "b": 1, "c": 8, "d": 9}
COUGH = b'"cough"'


def refused(engine: Engine, change: Change) -> str:
    """The reason; nothing may have changed."""
    before = sorted(engine.index_table())
    with pytest.raises(EventRefused) as error:
        engine.apply(change)
    assert sorted(engine.index_table()) == before
    drained = engine.drain()
    assert not (drained.records or drained.published or drained.statement_ids)
    return error.value.reason


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


def test_a_key_that_is_there_is_not_inserted_again() -> None:
    assert refused(engine_with(FOUR), Insert("a", row_of(5))) == "key-exists"


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


@pytest.mark.parametrize("change", [Delete("x"), Modify("x", {0: 3})], ids=["delete", "modify"])
def test_a_key_that_is_not_there_is_refused_in_the_plain_form(change: Change) -> None:
    assert refused(engine_with(FOUR), change) == "key-unknown"


def test_removing_what_is_not_there_is_ignored_for_change_data_capture_repeats_itself() -> None:
    engine = engine_with(FOUR)
    assert engine.apply(Remove("x")) == IGNORED
    assert engine.apply(Remove("a")) == APPLIED
    assert engine.apply(Remove("a")) == IGNORED


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


def test_a_modify_may_not_change_whose_row_it_is() -> None:
    engine = engine_with(FOUR, OF_PEOPLE)
    assert refused(engine, Modify("a", {0: 2}, individual="somebody else")) == "individual-changed"
    assert engine.apply(Modify("a", {0: 1}, individual="a")) == APPLIED


def test_an_upsert_says_how_the_row_shall_be_and_repeating_it_changes_nothing() -> None:
    engine = engine_with(FOUR)
    for _ in range(2):
        engine.apply(Upsert("e", row_of(8)))
        assert groups_of(engine) == sets_of("ab", "cde")
    engine.drain()
    engine.apply(Upsert("e", row_of(8)))
    assert engine.drain().published == []


def test_an_upsert_under_a_new_key_takes_the_old_one_out() -> None:
    engine = engine_with(FOUR)
    engine.apply(Upsert("z", row_of(1), former_key="a"))
    assert keys_in(engine) == ["b", "c", "d", "z"]


def test_an_upsert_of_somebody_elses_row_is_a_deletion_and_an_insertion() -> None:
    engine = engine_with(FOUR, OF_PEOPLE)
    engine.apply(Upsert("a", row_of(0, individual="new")))
    record = engine.drain().records["a"]
    assert record is not None
    assert record.row.individual == "new"


# -- statements -------------------------------------------------------------------------------------------------------


def test_a_statement_deletes_whom_its_condition_holds_for_before_anything_is_repaired() -> None:
    engine = engine_with(FOUR)
    engine.apply(DeleteWhere(CodeIs(0, 1, 8)))
    assert groups_of(engine) == sets_of("ad")


def test_rows_whose_result_would_be_no_value_are_left_and_counted() -> None:
    engine = engine_with(FOUR)
    assert engine.apply(ModifyWhere(CodeIs(0, 0, 9), Shifted(0, 1, last=9))) == Outcome(True, left_unchanged=1)
    drained = engine.drain()
    years = {key: record.row.codes[0] for key, record in drained.records.items() if record is not None}
    assert years == {"a": 1, "b": 2, "c": 9}


def test_a_statement_id_is_applied_once() -> None:
    engine = engine_with(FOUR)
    assert engine.apply(DeleteWhere(CodeIs(0, 9, 9), "s-1")) == APPLIED
    engine.apply(Insert("d", row_of(9)))
    assert engine.apply(DeleteWhere(CodeIs(0, 9, 9), "s-1")) == IGNORED
    assert engine.drain().statement_ids == ["s-1"]
    assert "d" in keys_in(engine)


def test_the_oldest_statement_ids_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "STATEMENT_IDS_MAX", 2)
    engine = engine_with(FOUR)
    nobody = CodeIs(0, 5, 5)
    for statement_id in ("s-1", "s-2", "s-3"):
        engine.apply(DeleteWhere(nobody, statement_id))
    assert engine.apply(DeleteWhere(nobody, "s-3")) == IGNORED
    assert engine.apply(DeleteWhere(nobody, "s-1")) == APPLIED


def test_a_statement_that_touches_too_many_rows_is_refused_whole() -> None:
    small = Table("people", ("id",), (YEARS,), OF_TWO.kept, 2, limits=Limits(statement_rows_max=3))
    engine = engine_with(FOUR, small)
    assert refused(engine, DeleteWhere(CodeIs(0, 0, 9))) == "statement-too-large"
    assert engine.apply(DeleteWhere(CodeIs(0, 0, 8))) == APPLIED


def test_a_truncation_empties_the_shard_whatever_its_size() -> None:
    engine = engine_with(FOUR)
    engine.apply(Truncate())
    drained = engine.drain()
    assert (engine.n_rows, engine.n_qi_groups) == (0, 0)
    assert boxes_in(drained) == {1: None, 2: None}
    assert set(drained.records.values()) == {None}


def test_a_truncation_spares_the_rows_that_it_names_and_those_alone() -> None:
    engine = engine_with(FOUR)
    keys = sorted(key for key, _ in engine.index_table())
    engine.apply(Truncate(spared=frozenset({*keys[:2], "nobody"})))
    engine.drain()
    assert sorted(key for key, _ in engine.index_table()) == keys[:2]
    assert "nobody" not in repr(Truncate(spared=frozenset({"nobody"})))


def test_a_truncation_that_reached_one_of_several_shards_is_refused() -> None:
    engine = Engine(OF_TWO, shard=1, shards=2)
    assert refused(engine, Truncate(whole_table_only=True)) == "truncate-one-shard"
    assert engine.apply(Truncate()) == APPLIED
    assert Engine(OF_TWO).apply(Truncate(whole_table_only=True)) == APPLIED


def test_a_message_that_says_nothing_is_ignored() -> None:
    assert Engine(OF_TWO).apply(Nothing()) == IGNORED


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
