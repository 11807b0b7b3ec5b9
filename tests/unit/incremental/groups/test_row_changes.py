"""What each change does to rows, which are refused, and that a refusal leaves all as it was."""

from __future__ import annotations

import pytest

from streamer.errors import EventRefused
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
from streamer.incremental.groups import engine as module_of_engine
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.outcome import APPLIED, IGNORED, Outcome
from streamer.table.schema import Limits, Table
from worlds.shard_tables import OF_PEOPLE, OF_TWO, boxes_in, engine_with, groups_of, keys_in, row_of, sets_of
from worlds.small_tables import YEARS, CodeIs, Shifted

FOUR = {"a": 0, "b": 1, "c": 8, "d": 9}


def refused(engine: Engine, change: Change) -> str:
    """The reason; nothing may have changed."""
    before = sorted(engine.index_table())
    with pytest.raises(EventRefused) as error:
        engine.apply(change)
    assert sorted(engine.index_table()) == before
    drained = engine.drain()
    assert not (drained.records or drained.published or drained.statement_ids)
    return error.value.reason


def test_a_key_that_is_there_is_not_inserted_again() -> None:
    assert refused(engine_with(FOUR), Insert("a", row_of(5))) == "key-exists"


@pytest.mark.parametrize("change", [Delete("x"), Modify("x", {0: 3})], ids=["delete", "modify"])
def test_a_key_that_is_not_there_is_refused_in_the_plain_form(change: Change) -> None:
    assert refused(engine_with(FOUR), change) == "key-unknown"


def test_removing_what_is_not_there_is_ignored_for_change_data_capture_repeats_itself() -> None:
    engine = engine_with(FOUR)
    assert engine.apply(Remove("x")) == IGNORED
    assert engine.apply(Remove("a")) == APPLIED
    assert engine.apply(Remove("a")) == IGNORED


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
    monkeypatch.setattr(module_of_engine, "STATEMENT_IDS_MAX", 2)
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
