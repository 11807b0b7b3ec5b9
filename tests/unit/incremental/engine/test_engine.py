"""The only way to change a shard's table: what changes do to QI groups, and how a table is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, Conflict, EventRefused, ShardRefused
from streamer.incremental.core import layout
from streamer.incremental.core.layout import INSERT, TAKE
from streamer.incremental.engine import engine as engine_room
from streamer.incremental.engine import loading
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.engine import (
    APPLIED,
    ENDLESS,
    EXPLAINS,
    IGNORED,
    NEVER,
    Engine,
    OperationQueue,
    Outcome,
    all_pending,
)
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.rows import Rows
from streamer.incremental.engine.stored_state import PENDING, QIGroupState, Record, SimilarityList, StoredTable
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
)
from streamer.table.codes import Diversity
from streamer.table.row import Row
from streamer.table.schema import Limits, Repair, Table
from worlds.core_arrays import check_arrays
from worlds.covering import covering, parts_of, tables_of_the_gate
from worlds.engine_tables import (
    OF_PEOPLE,
    OF_TWO,
    FoldedTable,
    apply_valid,
    boxes_in,
    engine_with,
    groups_of,
    keys_in,
    numbers_in,
    row_of,
    sets_of,
)
from worlds.small_tables import (
    BMI,
    CITY,
    FEW_LONG,
    MODEL_TABLES,
    TABLES,
    YEARS,
    CodeIs,
    Shifted,
    asking,
    changes,
    table,
)

# Operations wait until they are run, many at a time; how they are cut into runs leaves no trace.


@pytest.fixture
def core() -> CoreArrays:
    return CoreArrays(OF_TWO)


@pytest.fixture
def rows(core: CoreArrays) -> Rows:
    return Rows(OF_TWO, core)


@pytest.fixture
def queue(rows: Rows, core: CoreArrays) -> OperationQueue:
    return OperationQueue(rows, core, b"")


def test_the_queue_is_run_once(queue: OperationQueue, rows: Rows, core: CoreArrays) -> None:
    assert not queue.run()
    row = row_of(3)
    queue.add(INSERT, rows.add("a", row), row)
    queue.end()
    assert len(queue) == 1
    assert queue.run()
    assert (len(queue), core.field("n_pending")) == (0, 1)
    assert not queue.run()


def test_a_change_without_operations_ends_nothing(queue: OperationQueue, rows: Rows, core: CoreArrays) -> None:
    queue.end()
    for key in "ab":
        row = row_of(3)
        queue.add(INSERT, rows.add(key, row), row)
    queue.end()
    queue.end()
    queue.run()
    assert (core.field("n_groups"), len(queue)) == (1, 0)


def test_rows_that_are_gone_belong_to_one_batch_unless_they_came_again(queue: OperationQueue, rows: Rows) -> None:
    row = row_of(3)
    for key in "ab":
        queue.add(INSERT, rows.add(key, row), row)
    queue.run()
    for index in (0, 1):
        queue.add(TAKE, index)
        rows.remove(index)
    queue.add(INSERT, rows.add("b", row), row)
    assert queue.take_gone() == ["a"]
    assert queue.take_gone() == []


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@FEW_LONG
@given(data=st.data())
def test_how_changes_are_cut_into_runs_leaves_no_trace_and_all_arrays_agree(small: Table, data: st.DataObject) -> None:
    at_once, in_runs = Engine(small), Engine(small)
    for change in data.draw(st.lists(changes(small), min_size=20, max_size=40)):
        for engine in (at_once, in_runs):
            apply_valid(engine, [change])
        if data.draw(st.booleans()):
            in_runs.run()
            check_arrays(in_runs.arrays)
    assert at_once.drain().published == in_runs.drain().published
    assert dict(at_once.index_table()) == dict(in_runs.index_table())


# A table of which no QI group is made: the engine gathers its rows, by all its rules.

PEOPLE = table(YEARS, CITY, k=2)


def test_only_k_is_another_and_what_a_batch_may_publish_which_it_never_does() -> None:
    limits = replace(PEOPLE.limits, transaction_rows_max=ENDLESS)
    assert all_pending(PEOPLE) == replace(PEOPLE, k=NEVER, limits=limits)


@pytest.mark.parametrize("diversity", [Diversity(), Diversity(l=2)], ids=str)
def test_an_engine_that_gathers_makes_no_qi_group(diversity: Diversity) -> None:
    engine = Engine(replace(PEOPLE, diversity=diversity), gathers=True)
    for i in range(12):
        engine.apply(Insert(f"p{i}", Row((i % 10, i % 6), (b'"flu"' if i % 2 else b'"cough"',))))
    engine.apply(Delete("p3"))
    drained = engine.drain()
    assert (engine.n_rows, engine.n_pending, engine.n_qi_groups) == (11, 11, 0)
    assert (drained.published, drained.qi_group_next) == ([], 1)


# What each change does to rows, which are refused, and that a refusal leaves all as it was.

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


def test_removing_what_is_not_there_is_ignored_for_change_data_capture_repeats_itself() -> None:
    engine = engine_with(FOUR)
    assert engine.apply(Remove("x")) == IGNORED
    assert engine.apply(Remove("a")) == EXPLAINS
    assert engine.apply(Remove("a")) == IGNORED


def test_a_modify_may_not_change_whose_row_it_is() -> None:
    engine = engine_with(FOUR, OF_PEOPLE)
    assert refused(engine, Modify("a", {0: 2}, individual="somebody else")) == "individual-changed"
    assert engine.apply(Modify("a", {0: 1}, individual="a")) == APPLIED


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
    monkeypatch.setattr(engine_room, "STATEMENT_IDS_MAX", 2)
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


def test_a_truncation_that_reached_one_of_several_shards_is_refused() -> None:
    engine = Engine(OF_TWO, shard=1, shards=2)
    with pytest.raises(EventRefused, match="`streamer produce --truncate`") as refusal:
        engine.apply(Truncate(whole_table_only=True))
    assert refusal.value.reason == "truncate-one-shard"
    assert engine.apply(Truncate()) == APPLIED
    assert Engine(OF_TWO).apply(Truncate(whole_table_only=True)) == APPLIED


def test_a_message_that_says_nothing_is_ignored() -> None:
    assert Engine(OF_TWO).apply(Nothing()) == IGNORED


# What streamer.incremental.engine.engine promises: what was stored goes on as it was, what is damaged is refused.

SECRET = b"sixteen bytes of"
FLU, COUGH = (b'"flu"',), (b'"cough"',)

RECORDS = {key: Record(row_of(year), number) for key, year, number in (("a", 0, 1), ("b", 1, 1), ("c", 8, 4))} | {
    "d": Record(row_of(9, "cough"), 4)
}
QI_GROUPS = {1: QIGroupState((0,), (1,), ("b", "a"), (FLU, FLU)), 4: QIGroupState((8,), (9,), ("c", "d"), (COUGH, FLU))}
SIMILARITY = {1: SimilarityList(((4, 0.25),), 1), 4: SimilarityList(((1, 0.25),), 1)}


def loaded(
    records: dict[str, Record] = RECORDS,
    qi_groups: dict[int, QIGroupState] = QI_GROUPS,
    similarity: dict[int, SimilarityList] = SIMILARITY,
    qi_group_next: int = 7,
    small: Table = OF_TWO,
) -> Engine:
    """Everything is read once only, in this order."""
    kept = StoredTable(qi_group_next, iter(records.items()), iter(qi_groups.items()), iter(similarity.items()), ())
    return Engine.load(small, 0, 1, kept)


def outcome_of(engine: Engine, change: Change) -> object:
    try:
        return engine.apply(change)
    except EventRefused as refusal:
        return refusal.reason


def facts_of(drained: Drained) -> list[object]:
    """All of it; members stand in no order that decides anything."""
    groups = {
        number: None if state is None else msgspec.structs.replace(state, members=tuple(sorted(state.members)))
        for number, state in drained.qi_groups.items()
    }
    same = (drained.records, drained.similarity, drained.published, drained.qi_group_next)
    return [groups, *same, drained.merges, drained.splits]


# -- as it was stored -------------------------------------------------------------------------------------------------


ALL_TABLES = {**TABLES, **MODEL_TABLES}


@tables_of_the_gate("small", ALL_TABLES, covering(ALL_TABLES, parts_of))
@FEW_LONG
@given(data=st.data())
def test_an_engine_that_was_loaded_does_from_then_on_what_the_one_does_that_stored(
    small: Table, data: st.DataObject
) -> None:
    steady, store = Engine(small, secret=SECRET), FoldedTable()
    for change in data.draw(st.lists(changes(small), min_size=20, max_size=40)):
        outcome_of(steady, change)
        if data.draw(st.booleans()):
            store.fold(steady.drain())
    store.fold(steady.drain())
    other = Engine.load(small, 0, 1, store.kept_table(), SECRET)
    assert dict(other.index_table()) == dict(steady.index_table())
    assert (other.n_pending, other.n_qi_groups) == (steady.n_pending, steady.n_qi_groups)
    for change in data.draw(st.lists(changes(small), min_size=10, max_size=25)):
        assert outcome_of(other, change) == outcome_of(steady, change)
        if data.draw(st.booleans()):
            assert facts_of(other.drain()) == facts_of(steady.drain())
    assert facts_of(other.drain()) == facts_of(steady.drain())


def test_what_was_loaded_is_no_news() -> None:
    assert facts_of(loaded().drain())[:4] == [{}, {}, {}, []]


def test_an_empty_table_is_loaded() -> None:
    engine = Engine.load(OF_TWO, 0, 1, StoredTable(9, [], [], [], ()))
    assert (engine.n_rows, engine.n_qi_groups, engine.drain().qi_group_next) == (0, 0, 9)
    for key in "ab":
        engine.apply(Insert(key, row_of(3)))
    assert dict(engine.index_table()) == {"a": 9, "b": 9}


@pytest.mark.parametrize("individual", [None, "ssn"])
def test_rows_that_wait_are_loaded_and_counted(individual: str | None) -> None:
    small = table(YEARS, k=3, individual=individual)
    rows = [row_of(year, individual=individual and "ann") for year in (1, 2)]
    records = [(f"{i}", Record(row, PENDING)) for i, row in enumerate(rows)]
    engine = Engine.load(small, 0, 1, StoredTable(1, records, [], [], ()))
    assert (engine.n_pending, engine.n_qi_groups) == (2, 0)
    engine.apply(Insert("x", row_of(3, individual=individual and "bob")))
    assert engine.n_pending == (0 if individual is None else 3)
    engine.apply(Insert("y", row_of(4, individual=individual and "cy")))
    assert engine.n_pending == 0


@pytest.mark.parametrize("individual", [None, "ssn"])
def test_qi_groups_of_a_thousand_rows_are_loaded_and_cut_when_they_grow(
    individual: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FIRST_CAPACITY", 2)
    small = table(YEARS, k=2, individual=individual)
    rows = {f"r{i}": row_of(i % 10, individual=individual and f"p{i // 3}") for i in range(1000)}
    state = QIGroupState((0,), (9,), tuple(rows), (FLU,) * 1000)
    records = [(key, Record(row, 1)) for key, row in rows.items()]
    engine = Engine.load(small, 0, 1, StoredTable(2, records, [(1, state)], [], ()))
    assert engine.drain().published == []
    engine.apply(Delete("r7"))
    engine.apply(Insert("new", row_of(5, individual=individual and "p0")))
    drained = engine.drain()
    assert engine.n_qi_groups > 100
    assert sum(after is not None and len(after.slots) for _, _, after in drained.published) == 1000


# -- what does not belong together ------------------------------------------------------------------------------------


def with_group(number: int, **changed: Any) -> dict[int, QIGroupState]:
    return {**QI_GROUPS, number: msgspec.structs.replace(QI_GROUPS[number], **changed)}


def with_record(key: str, number: int) -> dict[str, Record]:
    return {**RECORDS, key: Record(RECORDS[key].row, number)}


DAMAGED: dict[str, tuple[Callable[[], Engine], str]] = {
    "a row of an unknown group": (
        lambda: loaded({**RECORDS, "e": Record(row_of(5), 3)}), "a row names a QI group that is not stored"
    ),
    "a row of a number that no group has": (lambda: loaded(with_record("a", -3)), "with an impossible number"),
    "a row of a number that no array holds": (lambda: loaded(with_record("a", 2**63)), "a number that is too large"),
    "a row with a code too many": (
        lambda: loaded({**RECORDS, "a": Record(Row((0, 0), FLU), 1)}), "too many or too few codes"
    ),
    "a row without codes": (lambda: loaded({**RECORDS, "a": Record(Row((), FLU), 1)}), "too many or too few codes"),
    "a code that no array holds": (
        lambda: loaded({**RECORDS, "a": Record(row_of(2**63), 1)}), "a number that is too large"
    ),
    "a row of nobody where individuals count": (
        lambda: loaded({"a": Record(row_of(1), PENDING)}, {}, {}, small=OF_PEOPLE), "a row has no individual"
    ),
    "a row with a value too many": (
        lambda: loaded({**RECORDS, "e": Record(Row((5,), FLU + COUGH), PENDING)}), "too many or too few values"
    ),
    "a row without values": (
        lambda: loaded({**RECORDS, "e": Record(Row((5,), ()), PENDING)}), "too many or too few values"
    ),
    "a row with an exact text of no column": (
        lambda: loaded({**RECORDS, "e": Record(Row((5,), FLU, ("5",)), PENDING)}), "too many or too few values"
    ),
    "a null where a column takes none": (
        lambda: loaded({**RECORDS, "e": Record(Row((5,), FLU, nulls=(0,)), PENDING)}), "a null in a column that takes"
    ),
    "a decimal without its exact text": (
        lambda: loaded({"e": Record(Row((5,), FLU), PENDING)}, {}, {}, small=table(BMI)), "too many or too few values"
    ),
    "a group that no row names": (
        lambda: loaded(qi_groups={**QI_GROUPS, 5: QI_GROUPS[4]}), "other members than the rows"
    ),
    "a group without members": (
        lambda: loaded(qi_groups={**QI_GROUPS, 5: QIGroupState((0,), (0,), (), ())}), "other members than the rows"
    ),
    "a group of a number that no array holds": (
        lambda: loaded(qi_groups={**QI_GROUPS, 2**64 - 1: QI_GROUPS[4]}), "other members than the rows"
    ),
    "a box with a side too few": (lambda: loaded(qi_groups=with_group(1, lo=())), "too many or too few sides"),
    "a box that no array holds": (lambda: loaded(qi_groups=with_group(1, hi=(2**64,))), "a number that is too large"),
    "a box that is no node": (
        lambda: loaded(
            {key: Record(row_of(leaf), 1) for key, leaf in (("a", 1), ("b", 2))},
            {1: QIGroupState((1,), (2,), ("a", "b"), (FLU, FLU))}, {}, 2, table(CITY),
        ),
        "not a node of a column's hierarchy",
    ),
    "a next number that was given": (lambda: loaded(qi_group_next=4), "is not a free one"),
    "a next number that is none": (
        lambda: loaded({}, {}, {}, qi_group_next=0), "is not a free one"
    ),
    "a next number that no array holds": (lambda: loaded(qi_group_next=2**63), "is not a free one"),
    "a row of another group": (lambda: loaded(with_record("a", 4)), "other members than the rows"),
    "a row that waits": (lambda: loaded(with_record("a", PENDING)), "other members than the rows"),
    "a row that no group has": (lambda: loaded({**RECORDS, "e": RECORDS["a"]}), "other members than the rows"),
    "a member without a row": (
        lambda: loaded(qi_groups=with_group(1, members=("a", "x"))), "other members than the rows"
    ),
    "a member twice": (lambda: loaded(qi_groups=with_group(1, members=("a", "a"))), "other members than the rows"),
    "members exchanged": (
        lambda: loaded(qi_groups={**with_group(1, members=("a", "c")), 4: with_group(4, members=("b", "d"))[4]}),
        "other members than the rows",
    ),
    "a slot too many": (lambda: loaded(qi_groups=with_group(1, slots=(FLU,) * 3)), "not one value for each"),
    "values of nobody": (
        lambda: loaded(qi_groups=with_group(4, slots=(FLU, FLU))), "other values than its rows"
    ),
    "unheard of values": (
        lambda: loaded(qi_groups=with_group(1, slots=(FLU, (b'"new"',)))), "other values than its rows"
    ),
    "a row outside its box": (lambda: loaded(qi_groups=with_group(1, lo=(1,))), "not inside its QI group's box"),
    "a box turned around": (lambda: loaded(qi_groups=with_group(1, lo=(1,), hi=(0,))), "not inside its QI group's box"),
    "a box beyond the domain": (lambda: loaded(qi_groups=with_group(4, hi=(10,))), "box leaves the domain"),
    "a box before the domain": (lambda: loaded(qi_groups=with_group(1, lo=(-1,))), "box leaves the domain"),
    "a row beyond the domain": (
        lambda: loaded({**RECORDS, "e": Record(row_of(12), PENDING)}), "a row leaves the domain"
    ),
    "a row before the domain": (
        lambda: loaded({**RECORDS, "e": Record(row_of(-1), PENDING)}), "a row leaves the domain"
    ),
    "a group below k": (
        lambda: loaded(
            {key: RECORDS[key] for key in "acd"}, qi_groups=with_group(1, members=("a",), slots=(FLU,))
        ),
        "QI group holds fewer than the k = 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("load", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_does_not_belong_together_is_refused_and_the_remedy_is_named(
    load: Callable[[], Engine], said: str
) -> None:
    with pytest.raises(ShardRefused, match=f"the store is damaged: .*{said}.*; reload <table> from") as refusal:
        load()
    assert not any(secret in str(refusal.value) for secret in ("flu", "cough", "'a'"))


@pytest.mark.parametrize(
    "small", [asking(YEARS, l=2), asking(YEARS, beta="0.5"), asking(YEARS, r="0.5", level=1)], ids=["l", "beta", "r"]
)
def test_a_stored_group_that_breaks_the_model_is_refused(small: Table) -> None:
    with pytest.raises(ShardRefused, match="the store is damaged: a stored QI group breaks the privacy model"):
        loaded(small=small)


@pytest.mark.parametrize("value", [b'"a cold"', b"12", b'{"a":1}', b"[", b"", b"\xff"])
def test_a_stored_value_that_no_model_can_count_is_refused_and_not_named(value: bytes) -> None:
    with pytest.raises(ShardRefused, match=r"the store is damaged: .* a value that its column cannot have") as refusal:
        loaded({"a": Record(Row((1,), (value,)), PENDING)}, {}, {}, small=asking(YEARS, r="0.5", level=1))
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


def test_the_sound_table_that_these_were_made_of_is_loaded() -> None:
    assert groups_of(loaded()) == sets_of("ab", "cd")


@pytest.mark.parametrize(
    ("records", "qi_groups", "what"),
    [([*RECORDS.items(), ("a", RECORDS["a"])], QI_GROUPS.items(), "row"),
     (RECORDS.items(), [*QI_GROUPS.items(), (4, QI_GROUPS[4])], "QI group")],
    ids=["a row", "a QI group"],
)  # fmt: skip
def test_what_comes_twice_is_a_fault_of_reading(
    records: Iterable[tuple[str, Record]], qi_groups: Iterable[tuple[int, QIGroupState]], what: str
) -> None:
    with pytest.raises(Conflict, match=f"a {what} came twice"):
        Engine.load(OF_TWO, 0, 1, StoredTable(7, records, qi_groups, [], ()))


def test_what_comes_in_any_order_and_some_at_a_time_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "AT_ONCE", 3)
    monkeypatch.setattr(loading, "GROUPS_AT_ONCE", 2)
    numbers = (7, 30, 10, 1, 2, 9, 8, 4, 6, 5)
    records = {f"{i}": Record(row_of(i % 10), numbers[i % 10]) for i in range(20)}
    groups = {
        number: QIGroupState((at,), (at,), (f"{10 + at}", f"{at}"), (FLU,) * 2) for at, number in enumerate(numbers)
    }
    lists = {number: SimilarityList((), 1) for number in numbers[:5]}
    engine = loaded(records, groups, lists, 31)
    assert dict(engine.index_table()) == {key: record.qi_group for key, record in records.items()}
    engine.apply(Delete("11"))
    drained = engine.drain()
    assert drained.qi_groups[30] is None
    assert set(drained.similarity) >= {30}


# -- an initial table -------------------------------------------------------------------------------------------------


def initial(engine: Engine, years: Sequence[int], groups: Sequence[Sequence[int]]) -> None:
    rows = [row_of(year) for year in years]
    keys = [chr(ord("a") + i) for i in range(len(years))]
    engine.load_initial(keys, rows, np.array(years)[:, None], [np.array(members) for members in groups])


def test_what_an_initial_table_publishes_is_bounded_before_it_is_drained() -> None:
    engine = Engine(OF_TWO)
    initial(engine, [0, 9, 1, 8, 5], [[0, 2], [1, 3]])
    assert engine.rows_published_max >= 4


def test_an_initial_table_may_follow_one_that_was_emptied() -> None:
    engine = Engine(OF_TWO)
    for i in range(5):
        engine.apply(Insert(f"old {i}", row_of(i)))
    engine.apply(DeleteWhere(CodeIs(0, 0, 2)))
    engine.drain()
    engine.apply(Truncate())
    engine.drain()
    initial(engine, [0, 9, 1, 8], [[0, 2], [1, 3]])
    assert groups_of(engine) == sets_of("ac", "bd")
    engine.apply(Insert("x", row_of(0)))
    assert groups_of(engine) == sets_of("acx", "bd")


# -- begun with a table, and gone on with one -------------------------------------------------------------------------


def test_a_first_table_is_published_in_the_groups_that_were_made_for_it() -> None:
    engine = Engine(OF_TWO)
    years = [0, 9, 1, 8, 5]
    groups = [np.array([0, 2]), np.array([1, 3])]
    engine.load_initial(list("abcde"), [row_of(year) for year in years], np.array(years)[:, None], groups)
    assert dict(engine.index_table()) == {"a": 1, "c": 1, "b": 2, "d": 2, "e": PENDING}
    assert boxes_in(engine.drain()) == {1: (0, 1), 2: (8, 9)}


def test_a_restart_after_the_first_table_changes_no_price_of_local_repair() -> None:
    small, folded = table(YEARS, k=2, repair=Repair(share=0.5)), FoldedTable()
    engine, years = Engine(small), [0, 9, 1, 6]
    groups = [np.array([0, 2]), np.array([1, 3])]
    engine.load_initial(list("abcd"), [row_of(year) for year in years], np.array(years)[:, None], groups)
    folded.fold(engine.drain())
    restarted = Engine.load(small, 0, 3, folded.kept_table())
    prices = [float(one.arrays.state.price[0]) for one in (engine, restarted)]
    assert prices == [pytest.approx(0.5 * (1 + 3) / 9 / 2, abs=1e-6)] * 2
    assert prices[0] == prices[1]


@pytest.mark.parametrize(
    ("small", "individual", "n", "said"),
    [
        (OF_TWO, None, 1, "1 row is fewer than k = 2"),
        (OF_PEOPLE, "ann", 2, "1 distinct individual is fewer than 2"),
        (asking(YEARS, l=2), None, 2, "1 distinct value of problem other than null is fewer than 2"),
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
    engine = Engine.load(OF_TWO, 3, 4, StoredTable(7, records, list(groups.items()), [], ["s-1"]))
    assert (engine.shard, engine.shards, engine.n_rows, engine.n_qi_groups) == (3, 4, 4, 2)
    assert engine.apply(DeleteWhere(CodeIs(0, 0, 9), "s-1")) == IGNORED
    assert engine.drain().published == []
    for key, year in (("e", 0), ("f", 1)):
        engine.apply(Insert(key, row_of(year)))
    assert numbers_in(engine) == {1, 4, 7}, "the next unused number was kept too"


def test_source_rows_are_all_rows_with_their_codes() -> None:
    keys, codes = engine_with(FOUR).source_rows()
    assert dict(zip(keys, codes[:, 0].tolist(), strict=True)) == FOUR
