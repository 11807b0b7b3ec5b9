"""The slots of a QI group: sorted by the texts of the published values, and found from the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.layout import Shard, Values, empty_shard
from streamer.incremental.core.record_types import VALUE, records
from streamer.incremental.core.slots import before, highest_slot, sort_values
from streamer.jit import entry
from streamer.table.row import Values as Texts
from worlds.small_tables import YEARS, table

BLOCK = 3

TEXTS = st.text(st.characters(min_codepoint=0x20, codec="utf-8"), max_size=12).map(str.encode)
SHARING_A_PREFIX = st.builds(
    lambda n, rest: b"the same" * n + rest, st.integers(0, 3), st.sampled_from([b"", b"a", b"b", b"ab", b"\xc3\xa9"])
)


def values_of(numbered: list[Texts]) -> Values:
    """Value number i is numbered[i], its texts joined by a zero byte."""
    joined = [b"\0".join(texts) for texts in numbered]
    value, text = records(len(joined), VALUE), b"".join(joined)
    value.prefix = [int.from_bytes(one[:8].ljust(8, b"\0"), "big") for one in joined]
    value.length = [len(one) for one in joined]
    value.at = np.cumsum([0, *map(len, joined)])[:-1]
    return Values(value, np.frombuffer(text or b"\0", np.uint8).copy())


def shard_of(numbered: list[Texts], slots: list[int]) -> Shard:
    """A shard whose QI group 0 has these slots from BLOCK on; before and behind stand others' slots."""
    shard = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)
    pool = np.zeros((2, BLOCK + len(slots) + 1), np.int32)
    pool[1, BLOCK:-1], pool[1, :BLOCK], pool[1, -1] = slots, -5, -6
    shard.groups.group[0]["block"], shard.groups.group[0]["members"] = BLOCK, len(slots)
    return shard._replace(groups=shard.groups._replace(pool=pool), values=values_of(numbered))


@entry
def compiled_sort(s: Shard, block: int, n: int) -> None:
    sort_values(s, block, n)


def test_slots_are_sorted_by_text_and_not_by_number() -> None:
    shard = shard_of([(b'"flu"',), (b'"cough"',), (b"null",)], [2, 0, 1, 0, 2])
    sort_values(shard, BLOCK, 5)
    assert shard.groups.pool[1].tolist() == [-5, -5, -5, 1, 0, 0, 2, 2, -6]


def test_the_shorter_of_two_texts_that_begin_alike_comes_first() -> None:
    values = values_of([(b"influenza A",), (b"influenza",), (b"influenza AB",)])
    assert before(values, 1, 0)
    assert before(values, 0, 2)
    assert not before(values, 2, 0)
    assert not before(values, 1, 1)


def test_values_of_several_columns_are_ordered_as_tuples() -> None:
    """A text that is the beginning of another comes first, whatever the next column holds."""
    values = values_of([(b"1", b"9"), (b"10", b"0")])
    assert before(values, 0, 1)
    assert not before(values, 1, 0)


@given(data=st.data(), columns=st.integers(1, 3))
def test_slots_are_sorted_as_tuples_of_texts_are(data: st.DataObject, columns: int) -> None:
    texts = st.tuples(*[st.one_of(TEXTS, SHARING_A_PREFIX)] * columns)
    numbered = data.draw(st.lists(texts, min_size=1, max_size=8, unique=True))
    slots = data.draw(st.lists(st.integers(0, len(numbered) - 1), max_size=70))
    shard = shard_of(numbered, slots)
    sort_values(shard, BLOCK, len(slots))
    assert shard.groups.pool[1, BLOCK:-1].tolist() == sorted(slots, key=lambda number: numbered[number])


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 48, 49, 300, 1024])
def test_compiled_and_uncompiled_slots_are_the_same(n: int) -> None:
    numbered: list[Texts] = [(str(number * 7919 % 1000).encode() * 3,) for number in range(200)]
    slots = np.random.default_rng(n).integers(0, 200, n).tolist()
    one, other = shard_of(numbered, slots), shard_of(numbered, slots)
    sort_values(one, BLOCK, n)
    compiled_sort(other, BLOCK, n)
    assert one.groups.pool[1].tolist() == other.groups.pool[1].tolist()
    assert one.groups.pool[1, BLOCK:-1].tolist() == sorted(slots, key=lambda number: numbered[number])
    assert one.groups.pool[1, :BLOCK].tolist() == [-5] * BLOCK


def test_of_equal_values_the_highest_slot_is_found() -> None:
    shard = shard_of([(b"a",), (b"b",), (b"c",)], [0, 1, 0, 1, 1, 0])
    assert (highest_slot(shard, 0, 0), highest_slot(shard, 0, 1)) == (5, 4)


def test_values_that_a_group_does_not_hold_are_in_no_slot() -> None:
    assert highest_slot(shard_of([(b"a",), (b"b",)], [0, 0]), 0, 1) == -1
