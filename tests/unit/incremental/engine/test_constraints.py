"""Values and individuals by number: equal ones have one, unused ones are taken back, texts are in the core."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.layout import NONE, Shard, empty_shard
from streamer.incremental.core.moves import text_precedes
from streamer.incremental.engine import constraints
from streamer.incremental.engine.constraints import (
    SPARE_VALUES,
    Numbers,
    SubjectNumbers,
    ValueTexts,
    counted_by_k,
    demands_of,
)
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Insert, Modify
from streamer.table.row import Values
from streamer.table.schema import Table
from worlds.core_arrays import check_arrays
from worlds.engine_tables import OF_PEOPLE, OF_TWO, row_of
from worlds.small_tables import YEARS, asking, table


def shard() -> Shard:
    return empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)


def text_of(s: Shard, number: int) -> bytes:
    value = s.values.value[number]
    return bytes(s.values.text[value.at : value.at + value.length])


def test_equal_things_have_one_number_and_others_have_others() -> None:
    numbers: Numbers[str] = Numbers()
    assert [numbers.give(name) for name in ("ann", "bob", "ann", "cy")] == [0, 1, 0, 2]
    assert numbers.things == ["ann", "bob", "cy"]


@given(first=st.lists(st.sampled_from("abcdef")), many=st.lists(st.sampled_from("abcdef")))
def test_many_things_get_the_numbers_that_they_would_get_one_by_one(first: list[str], many: list[str]) -> None:
    one_by_one: Numbers[str] = Numbers()
    at_once: Numbers[str] = Numbers()
    expected = [[one_by_one.give(thing) for thing in things] for things in (first, many)]
    assert [at_once.give_many(things).tolist() for things in (first, many)] == expected
    assert at_once.things == one_by_one.things


def test_a_number_that_was_taken_back_is_given_to_another_thing() -> None:
    numbers: Numbers[str] = Numbers()
    for name in "abcd":
        numbers.give(name)
    numbers.keep(np.array([3, 1, 3]))
    assert numbers.things == [None, "b", None, "d"]
    assert [numbers.give(name) for name in "bd"] == [1, 3]
    assert {numbers.give("x"), numbers.give("y")} == {0, 2}
    assert numbers.give("a") == 4
    numbers.keep(np.array([4]))
    numbers.keep(np.array([4]))
    assert sorted(numbers.give(name) for name in "rstu") == [0, 1, 2, 3]


def test_nothing_is_taken_back_before_there_are_far_more_numbers_than_rows() -> None:
    numbers: Numbers[int] = Numbers()
    for thing in range(SPARE_VALUES + 20):
        numbers.give(thing)
    assert not numbers.has_many_spare(10)
    assert numbers.has_many_spare(9)


def test_few_long_texts_that_no_row_has_are_taken_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: ten thousand spare ones were kept, however long; of 100 kB each these were a gigabyte."""
    monkeypatch.setattr(constraints, "SPARE_BYTES", 5_000)
    values, s = ValueTexts(), shard()
    for i in range(500):
        number = values.give((b"%d" % i + b"x" * 1_000,))
        s = values.write_to(s)
        if values.has_many_spare(1):
            values.keep(np.array([number]))
            s = values.write_to(s)
    assert len(s.values.text) < 50_000
    assert len(values.number_of) < 10
    assert text_of(s, number) == b"499" + b"x" * 1_000


def test_long_texts_that_rows_have_are_not_looked_through_after_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "SPARE_BYTES", 5_000)
    values, s, used, looks = ValueTexts(), shard(), list[int](), 0
    for i in range(500):
        used.append(values.give((b"%d" % i + b"x" * 1_000,)))
        s = values.write_to(s)
        if values.has_many_spare(len(used)):
            looks += 1
            values.keep(np.array(used))
            s = values.write_to(s)
    assert looks < 10
    assert len(values.number_of) == 500


BYTES = st.binary(max_size=12).map(lambda text: text.replace(b"\0", b"x"))


@given(st.lists(st.lists(st.tuples(BYTES, BYTES), max_size=8), max_size=5), st.data())
def test_the_core_orders_values_as_tuples_whatever_was_taken_back(
    batches: list[list[tuple[bytes, bytes]]], data: st.DataObject
) -> None:
    values, s, known = ValueTexts(), shard(), dict[tuple[bytes, bytes], int]()
    for batch in batches:
        for one in batch:
            known[one] = values.give(one)
        if data.draw(st.booleans()) and known:
            kept = data.draw(st.sets(st.sampled_from(sorted(known))))
            known = {one: known[one] for one in kept}
            values.keep(np.array(list(known.values()), np.int64))
        s = values.write_to(s)
        assert {one: text_of(s, number) for one, number in known.items()} == {one: b"\0".join(one) for one in known}
        for one, number in known.items():
            assert [text_precedes(s.values, number, other) for other in known.values()] == [
                one < other for other in known
            ]


def test_values_that_begin_alike_are_told_apart_after_their_first_eight_bytes() -> None:
    values = ValueTexts()
    texts = [b'"influenza A"', b'"influenza"', b'"influen', b'"influenza B"']
    numbers = [values.give((text,)) for text in texts]
    s = values.write_to(shard())
    ordered = sorted(texts)
    for text, number in zip(texts, numbers, strict=True):
        assert sum(text_precedes(s.values, other, number) for other in numbers) == ordered.index(text)


def test_rows_without_published_values_have_one_number() -> None:
    values = ValueTexts()
    assert [values.give(()), values.give(())] == [0, 0]
    s = values.write_to(shard())
    assert (text_of(s, 0), text_precedes(s.values, 0, 0)) == (b"", False)


def test_many_values_fit_and_a_text_is_written_once() -> None:
    values, s = ValueTexts(), shard()
    for number in range(3000):
        values.give((b'"note %d"' % number,))
    s = values.write_to(s)
    assert text_of(s, 2999) == b'"note 2999"'
    assert values.write_to(s) is s


def test_texts_do_not_keep_growing_if_values_come_and_go() -> None:
    values, s = ValueTexts(), shard()
    for batch in range(200):
        used = [values.give((b'"%d of %d"' % (i, batch),)) for i in range(20)]
        s = values.write_to(s)
        values.keep(np.array(used))
        s = values.write_to(s)
    assert len(values.things) <= 40
    assert len(s.values.text) == len(shard().values.text)


# A model on its way to the core: which demands there are, what they count of values, and which numbers come back.

FLU, COUGH, ULCER, NULL = (b'"flu"',), (b'"cough"',), (b'"ulcer"',), (b"null",)


def demands(small: Table) -> list[tuple[int, ...]]:
    """Distinct subjects at least, largest share, whether individuals are counted."""
    return [tuple(map(int, demand)) for demand in demands_of(small)]


def counted(small: Table, *values: Values) -> Shard:
    return SubjectNumbers(small).write_to(CoreArrays(small).arrays, list(enumerate(values)))


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
    by_value, by_node = counted(asking(YEARS, l=2, r="0.5", level=1), FLU, COUGH, ULCER).demands.code[:3].T.tolist()
    assert len(set(by_value)) == 3
    assert by_node[0] == by_node[1] != by_node[2]
    assert not {*by_value} & {*by_node}


def test_a_null_is_counted_where_it_counts() -> None:
    small = asking(YEARS, l=2, beta="0.5")
    (of_distinct, of_shares), _ = counted(small, NULL, FLU).demands.code[:2].tolist()
    assert (of_distinct, of_shares < NONE) == (NONE, True)
    ((both,), _) = counted(asking(YEARS, l=2, beta="0.5", null_counts=True), NULL, FLU).demands.code[:2].tolist()
    assert both < NONE


def test_numbers_that_no_row_has_any_more_are_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "SPARE_VALUES", 10)
    free_text = replace(asking(YEARS, l=2, beta="0.6"), kept=(replace(OF_TWO.kept[0]),))
    engine = Engine(free_text)
    for i in range(4):
        engine.apply(Insert(str(i), row_of(i, f"note {i}")))
    for i in range(400):
        engine.apply(Modify(str(i % 4), {}, {}, {0: b'"note %d"' % (i + 4)}))
        if i % 5 == 0:
            engine.drain()
            check_arrays(engine.arrays)
    assert -150 < engine.arrays.demands.code.min() < NONE
