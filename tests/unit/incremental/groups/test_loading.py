"""What streamer.incremental.groups.loading promises: what was stored goes on as it was, what is damaged is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import Conflict, EventRefused, ShardRefused
from streamer.incremental.core import layout
from streamer.incremental.events.changes import Change, Delete, DeleteWhere, Insert, Truncate
from streamer.incremental.groups import loading, stored_lists
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING, KeptTable, QIGroupState, Record, SimilarityList
from streamer.incremental.groups.net_effect import Drained
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.folded_table import FoldedTable
from worlds.model_tables import MODEL_TABLES, asking
from worlds.shard_tables import OF_PEOPLE, OF_TWO, groups_of, row_of, sets_of
from worlds.small_tables import BMI, CITY, TABLES, YEARS, CodeIs, changes, table

SECRET = b"sixteen bytes of"
FLU, COUGH = (b'"flu"',), (b'"cough"',)

RECORDS = {key: Record(row_of(year), number) for key, year, number in (("a", 0, 1), ("b", 1, 1), ("c", 8, 4))} | {
    "d": Record(row_of(9, "cough"), 4)
}
QI_GROUPS = {1: QIGroupState((0,), (1,), ("b", "a"), (FLU, FLU)), 4: QIGroupState((8,), (9,), ("c", "d"), (COUGH, FLU))}
SIMILARITY = {1: SimilarityList(((4, 0.25),), 0.0), 4: SimilarityList(((1, 0.25),), 0.0)}


def loaded(
    records: dict[str, Record] = RECORDS,
    qi_groups: dict[int, QIGroupState] = QI_GROUPS,
    similarity: dict[int, SimilarityList] = SIMILARITY,
    qi_group_next: int = 7,
    small: Table = OF_TWO,
) -> Engine:
    """Everything is read once only, in this order."""
    kept = KeptTable(qi_group_next, iter(records.items()), iter(qi_groups.items()), iter(similarity.items()), ())
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


@pytest.mark.parametrize("small", ALL_TABLES.values(), ids=ALL_TABLES.keys())
@given(data=st.data())
def test_an_engine_that_was_loaded_does_from_then_on_what_the_one_does_that_stored(
    small: Table, data: st.DataObject
) -> None:
    steady, store = Engine(small, secret=SECRET), FoldedTable()
    for change in data.draw(st.lists(changes(small), max_size=40)):
        outcome_of(steady, change)
        if data.draw(st.booleans()):
            store.fold(steady.drain())
    store.fold(steady.drain())
    other = Engine.load(small, 0, 1, store.kept_table(), SECRET)
    assert dict(other.index_table()) == dict(steady.index_table())
    assert (other.n_pending, other.n_qi_groups) == (steady.n_pending, steady.n_qi_groups)
    for change in data.draw(st.lists(changes(small), max_size=25)):
        assert outcome_of(other, change) == outcome_of(steady, change)
        if data.draw(st.booleans()):
            assert facts_of(other.drain()) == facts_of(steady.drain())
    assert facts_of(other.drain()) == facts_of(steady.drain())


def test_what_was_loaded_is_no_news() -> None:
    assert facts_of(loaded().drain())[:4] == [{}, {}, {}, []]


def test_an_empty_table_is_loaded() -> None:
    engine = Engine.load(OF_TWO, 0, 1, KeptTable(9, [], [], [], ()))
    assert (engine.n_rows, engine.n_qi_groups, engine.drain().qi_group_next) == (0, 0, 9)
    for key in "ab":
        engine.apply(Insert(key, row_of(3)))
    assert dict(engine.index_table()) == {"a": 9, "b": 9}


@pytest.mark.parametrize("individual", [None, "ssn"])
def test_rows_that_wait_are_loaded_and_counted(individual: str | None) -> None:
    small = table(YEARS, k=3, individual=individual)
    rows = [row_of(year, individual=individual and "ann") for year in (1, 2)]
    records = [(f"{i}", Record(row, PENDING)) for i, row in enumerate(rows)]
    engine = Engine.load(small, 0, 1, KeptTable(1, records, [], [], ()))
    assert (engine.n_pending, engine.n_qi_groups) == (2, 0)
    engine.apply(Insert("x", row_of(3, individual=individual and "bob")))
    assert engine.n_pending == (0 if individual is None else 3)
    engine.apply(Insert("y", row_of(4, individual=individual and "cy")))
    assert engine.n_pending == 0


@pytest.mark.parametrize("individual", [None, "ssn"])
def test_qi_groups_of_a_thousand_rows_are_loaded_and_cut_when_they_grow(
    individual: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FIRST_ROOM", 2)
    small = table(YEARS, k=2, individual=individual)
    rows = {f"r{i}": row_of(i % 10, individual=individual and f"p{i // 3}") for i in range(1000)}
    state = QIGroupState((0,), (9,), tuple(rows), (FLU,) * 1000)
    records = [(key, Record(row, 1)) for key, row in rows.items()]
    engine = Engine.load(small, 0, 1, KeptTable(2, records, [(1, state)], [], ()))
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
    "a row of a number that no group has": (lambda: loaded(with_record("a", -3)), "by a number that none has"),
    "a row of a number that no array holds": (lambda: loaded(with_record("a", 2**63)), "a number that is too large"),
    "a row with a code too many": (
        lambda: loaded({**RECORDS, "a": Record(Row((0, 0), FLU), 1)}), "too many or too few codes"
    ),
    "a row without codes": (lambda: loaded({**RECORDS, "a": Record(Row((), FLU), 1)}), "too many or too few codes"),
    "a code that no array holds": (
        lambda: loaded({**RECORDS, "a": Record(row_of(2**63), 1)}), "a number that is too large"
    ),
    "a row of nobody where individuals count": (
        lambda: loaded({"a": Record(row_of(1), PENDING)}, {}, {}, small=OF_PEOPLE), "a row says no individual"
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
        lambda: loaded(qi_groups={**QI_GROUPS, 5: QI_GROUPS[4]}), "not the rows that name it"
    ),
    "a group without members": (
        lambda: loaded(qi_groups={**QI_GROUPS, 5: QIGroupState((0,), (0,), (), ())}), "not the rows that name it"
    ),
    "a group of a number that no array holds": (
        lambda: loaded(qi_groups={**QI_GROUPS, 2**64 - 1: QI_GROUPS[4]}), "not the rows that name it"
    ),
    "a box with a side too few": (lambda: loaded(qi_groups=with_group(1, lo=())), "too many or too few sides"),
    "a box that no array holds": (lambda: loaded(qi_groups=with_group(1, hi=(2**64,))), "a number that is too large"),
    "a box that is no node": (
        lambda: loaded(
            {key: Record(row_of(leaf), 1) for key, leaf in (("a", 1), ("b", 2))},
            {1: QIGroupState((1,), (2,), ("a", "b"), (FLU, FLU))}, {}, 2, table(CITY),
        ),
        "no node of a column's hierarchy",
    ),
    "a next number that was given": (lambda: loaded(qi_group_next=4), "none that is still to be given"),
    "a next number that is none": (
        lambda: loaded({}, {}, {}, qi_group_next=0), "none that is still to be given"
    ),
    "a next number that no array holds": (lambda: loaded(qi_group_next=2**63), "none that is still to be given"),
    "a row of another group": (lambda: loaded(with_record("a", 4)), "not the rows that name it"),
    "a row that waits": (lambda: loaded(with_record("a", PENDING)), "not the rows that name it"),
    "a row that no group has": (lambda: loaded({**RECORDS, "e": RECORDS["a"]}), "not the rows that name it"),
    "a member without a row": (
        lambda: loaded(qi_groups=with_group(1, members=("a", "x"))), "not the rows that name it"
    ),
    "a member twice": (lambda: loaded(qi_groups=with_group(1, members=("a", "a"))), "not the rows that name it"),
    "members exchanged": (
        lambda: loaded(qi_groups={**with_group(1, members=("a", "c")), 4: with_group(4, members=("b", "d"))[4]}),
        "not the rows that name it",
    ),
    "a slot too many": (lambda: loaded(qi_groups=with_group(1, slots=(FLU,) * 3)), "as many as its values"),
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
def test_what_does_not_belong_together_is_refused_and_what_mends_it_is_said(
    load: Callable[[], Engine], said: str
) -> None:
    with pytest.raises(ShardRefused, match=f"the store is damaged: .*{said}.*; to begin <table> anew") as refusal:
        load()
    assert not any(secret in str(refusal.value) for secret in ("flu", "cough", "'a'"))


@pytest.mark.parametrize(
    "small", [asking(YEARS, l=2), asking(YEARS, beta="0.5"), asking(YEARS, r="0.5", level=1)], ids=["l", "beta", "r"]
)
def test_a_stored_group_that_breaks_the_model_is_refused(small: Table) -> None:
    with pytest.raises(ShardRefused, match="the store is damaged: a stored QI group breaks the privacy model"):
        loaded(small=small)


@pytest.mark.parametrize("value", [b'"a cold"', b"12", b'{"a":1}', b"[", b"", b"\xff"])
def test_a_stored_value_that_no_model_can_count_is_refused_and_not_told(value: bytes) -> None:
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
        Engine.load(OF_TWO, 0, 1, KeptTable(7, records, qi_groups, [], ()))


def test_what_comes_in_any_order_and_some_at_a_time_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(loading, "GROUPS_AT_ONCE", 2)
    monkeypatch.setattr(stored_lists, "LISTS_AT_ONCE", 2)
    numbers = (7, 30, 10, 1, 2, 9, 8, 4, 6, 5)
    records = {f"{i}": Record(row_of(i % 10), numbers[i % 10]) for i in range(20)}
    groups = {
        number: QIGroupState((at,), (at,), (f"{10 + at}", f"{at}"), (FLU,) * 2) for at, number in enumerate(numbers)
    }
    lists = {number: SimilarityList((), 0.5) for number in numbers[:5]}
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


def test_what_an_initial_table_publishes_is_said_before_it_is_drained() -> None:
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
