"""The index table: rows by source key as the core has them, before and after what is queued for them has been run."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from streamer.incremental.core import layout
from streamer.incremental.core.layout import NONE
from streamer.incremental.engine import constraints, rows
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.rows import SourceKeys, array_of
from streamer.incremental.engine.stored_state import PENDING, Record
from streamer.incremental.events.changes import Delete, Insert, Modify, ModifyWhere, Upsert
from streamer.table.codes import NumericAttribute
from streamer.table.row import Row
from worlds.engine_tables import OF_PEOPLE, OF_TWO, engine_with, row_of
from worlds.small_tables import AGE, BMI, YEARS, CodeIs, Shifted, table

# What streamer.incremental.engine.rows promises: what a dictionary of indexes and a list of texts would say.

TEXTS = st.one_of(
    st.sampled_from([f"{i}" for i in range(40)]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


@pytest.fixture
def from_little_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FIRST_CAPACITY", 4)
    monkeypatch.setattr(rows, "KEYS_AT_ONCE", 3)


class OneAfterTheOther(RuleBasedStateMachine):
    """Rows come and go; a dictionary and a list say what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = SourceKeys()
        self.index_of: dict[str, int] = {}
        self.free: list[int] = []
        self.n = 0

    @initialize(texts=st.lists(TEXTS, unique=True))
    def begin(self, texts: list[str]) -> None:
        self.keys.write(0, texts)
        self.keys.found_up_to(len(texts))
        self.index_of, self.n = {text: index for index, text in enumerate(texts)}, len(texts)

    @rule(text=TEXTS)
    def come_or_go(self, text: str) -> None:
        if text in self.index_of:
            index = self.index_of.pop(text)
            self.keys.remove(index)
            self.free.append(index)
            return
        if not self.free:
            self.free, self.n = [self.n], self.n + 1
        self.index_of[text] = self.free.pop()
        self.keys.add(text, self.index_of[text])

    @rule(text=TEXTS)
    def ask(self, text: str) -> None:
        assert self.keys.get(text) == self.index_of.get(text)
        assert (text in self.keys) == (text in self.index_of)

    @rule(texts=st.lists(TEXTS, max_size=9))
    def ask_for_many(self, texts: list[str]) -> None:
        assert self.keys.indexes_of(texts).tolist() == [self.index_of.get(text, NONE) for text in texts]

    @invariant()
    def all_is_there(self) -> None:
        in_order = sorted(self.index_of, key=self.index_of.__getitem__)
        assert list(self.keys) == in_order
        assert self.keys.indexes().tolist() == [self.index_of[text] for text in in_order]
        assert len(self.keys) == len(in_order)
        assert all(self.keys[text] == index and self.keys.texts[index] == text for text, index in self.index_of.items())


@pytest.mark.usefixtures("from_little_capacity")
def test_it_says_what_a_dictionary_and_a_list_would_say() -> None:
    run_state_machine_as_test(OneAfterTheOther)


@pytest.mark.usefixtures("from_little_capacity")
def test_it_says_so_if_all_keys_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "HASH_BITS", 1)
    run_state_machine_as_test(OneAfterTheOther)


@pytest.mark.usefixtures("from_little_capacity")
@given(texts=st.lists(TEXTS, unique=True, min_size=1), data=st.data())
def test_a_key_that_two_rows_have_is_refused_and_not_named(texts: list[str], data: st.DataObject) -> None:
    keys, twice = SourceKeys(), data.draw(st.sampled_from(texts))
    keys.write(0, data.draw(st.permutations([*texts, twice])))
    with pytest.raises(ValueError, match=r"^two rows have one source key$"):
        keys.found_up_to(len(texts) + 1)


@pytest.mark.usefixtures("from_little_capacity")
def test_a_key_that_is_not_there_is_not_named_either() -> None:
    with pytest.raises(KeyError) as refusal:
        SourceKeys()["ann"]
    assert "ann" not in str(refusal.value)


@pytest.mark.usefixtures("from_little_capacity")
def test_no_more_than_two_thirds_of_the_slots_are_ever_used() -> None:
    keys = SourceKeys()
    for index in range(200):
        keys.add(f"{index}", index)
        assert 3 * len(keys) <= 2 * len(keys.slots)


def test_a_row_can_be_read_before_anything_was_run() -> None:
    engine = Engine(OF_TWO)
    engine.apply(Insert("a", row_of(3)))
    engine.apply(Modify("a", {0: 4}))
    assert engine.rows.row(engine.rows.index_of["a"]) == row_of(4)
    engine.apply(Modify("a", {}, {}, {0: b'"cough"'}))
    assert engine.drain().records == {"a": Record(row_of(4, "cough"), PENDING)}
    assert engine.rows.row(engine.rows.index_of["a"]) == row_of(4, "cough")


def test_an_index_is_used_again_only_when_its_row_is_gone_from_the_core() -> None:
    engine = engine_with({"a": 1, "b": 2, "c": 3})
    freed = engine.rows.index_of["b"]
    engine.apply(Delete("b"))
    engine.apply(Insert("x", row_of(5)))
    assert engine.rows.index_of["x"] == 3
    engine.run()
    engine.apply(Insert("y", row_of(6)))
    assert engine.rows.index_of["y"] == freed
    drained = engine.drain()
    rows = {key: record and record.row for key, record in drained.records.items()}
    assert [rows[key] for key in "bxy"] == [None, row_of(5), row_of(6)]
    members = sorted(key for state in drained.qi_groups.values() if state for key in state.members)
    assert members == sorted(engine.rows.index_of) == ["a", "c", "x", "y"]


def test_exact_texts_of_decimals_are_kept_beside_their_codes() -> None:
    engine = Engine(table(BMI, k=2))
    for i, key in enumerate("abc"):
        engine.apply(Insert(key, Row((i,), (b'"flu"',), (f"10.{i}",))))
    engine.apply(Modify("b", {0: 5}, {0: "10.55"}))
    engine.apply(Delete("a"))
    engine.apply(Insert("a", Row((9,), (b'"flu"',), ("10.9",))))
    records = engine.drain().records
    assert {key: record and record.row.exact for key, record in records.items()} == {
        "a": ("10.9",), "b": ("10.55",), "c": ("10.2",)
    }  # fmt: skip
    assert engine.rows.view().exact == [("10.55",), ("10.2",), ("10.9",)]


FINE = NumericAttribute(
    "fine", (Decimal(0), Decimal(10**6)), Decimal(1), None, Decimal(1), integer=False
)  # of as many codes as an int32 does not hold


@pytest.mark.parametrize(
    ("attribute", "width"), [(YEARS, 0), (AGE, 1), (FINE, 4)], ids=["one code per cell", "five", "a million"]
)
def test_beside_its_cells_a_row_keeps_only_what_they_do_not_say_of_its_codes(
    attribute: NumericAttribute, width: int
) -> None:
    small = table(attribute, k=2)
    engine = Engine(small)
    last = int(attribute.width_codes)
    exact = ("x",) * len(small.stepless)
    rows = {f"{i}": Row((code,), (b'"flu"',), exact) for i, code in enumerate((last, 0, last // 2 + 1, last - 1))}
    for key, row in rows.items():
        engine.apply(Insert(key, row))
    assert engine.rows.rest[:1].nbytes == 0
    records = engine.drain().records
    assert engine.rows.rest[:1].nbytes == width
    assert {key: record and record.row for key, record in records.items()} == rows
    assert [engine.rows.row(engine.rows.index_of[key]) for key in rows] == list(rows.values())
    engine.apply(Modify("2", {0: 3}))
    engine.run()
    assert engine.rows.view().codes[:, 0].tolist() == [last, 0, 3, last - 1]


@pytest.mark.parametrize("offset_in_cell", [0, 1, 10**17 - 1])
def test_a_cell_may_hold_more_codes_than_32_bits_count(offset_in_cell: int) -> None:
    wide = NumericAttribute("wide", (Decimal(-(10**17)), Decimal(10**18)), Decimal(10**17), Decimal(1), Decimal(10**17))
    engine = Engine(table(wide))
    row = Row((3 * 10**17 + offset_in_cell,), (b'"flu"',))
    engine.apply(Insert("a", row))
    assert engine.drain().records == {"a": Record(row, PENDING)}
    engine.apply(ModifyWhere(CodeIs(0, row.codes[0], row.codes[0]), Shifted(0, 1, 11 * 10**17)))
    assert engine.drain().records == {"a": Record(Row((row.codes[0] + 1,), (b'"flu"',)), PENDING)}


def test_the_table_grows_beyond_its_first_capacity_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FIRST_CAPACITY", 1)
    monkeypatch.setattr(rows, "FIRST_CAPACITY", 2)
    engine = Engine(table(AGE, k=2))
    for i in range(50):
        engine.apply(Insert(f"{i}", row_of(i)))
    engine.run()
    assert engine.rows.view().codes[:, 0].tolist() == list(range(50))
    assert engine.n_rows == 50 <= len(engine.rows.in_core)


def test_numbers_are_taken_back_while_other_rows_go_on_with_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "SPARE_VALUES", 0)
    engine = engine_with({"a": 1, "b": 2, "c": 3}, OF_PEOPLE)
    for i in range(30):
        engine.apply(Upsert("c", row_of(3, f"illness {i}", f"person {i}")))
        engine.drain()
    assert len(engine.rows.values.things) <= 9
    assert len(engine.rows.individuals.things) <= 10
    assert [engine.rows.row(engine.rows.index_of[key]) for key in "abc"] == [
        row_of(1, individual="a"), row_of(2, individual="b"), row_of(3, "illness 29", "person 29")
    ]  # fmt: skip
    engine.apply(Delete("c"))
    (group,) = engine.drain().published
    assert group[2] is not None
    assert group[2].slots == ((b'"flu"',), (b'"flu"',))


@pytest.mark.parametrize("runs", [[(1, 2), (3,)], [(1, 2), ()], [(1,), (1, 2, 3)], [(1, 2**63)], [(-(2**63) - 1, 0)]])
def test_runs_of_other_lengths_and_numbers_that_no_array_holds_are_refused(runs: list[tuple[int, ...]]) -> None:
    assert array_of([(1, -(2**63)), (3, 2**63 - 1)], 2).tolist() == [[1, -(2**63)], [3, 2**63 - 1]]
    assert array_of([], 2).shape == (0, 2)
    with pytest.raises(ValueError, match=r"another length|too large"):
        array_of(runs, 2)
