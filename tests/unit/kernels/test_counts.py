"""Counts by number: a counter, whatever comes and goes; compiled and as it was written, the same to the last entry."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.kernels.counts import CountTable, count_in, count_of, count_out, entry_of, home
from worlds.native import compiled_now

KEYS = st.sampled_from([0, 1, 2, 7, 2**31, 2**40 + 5, -1, -(2**31), 2**62]) | st.integers(-(2**62), 2**62)


def empty(length: int) -> CountTable:
    return CountTable(np.zeros(length, np.int64), np.zeros(length, np.int32))


def whole(counts: CountTable) -> Counter[int]:
    return Counter({key: n for key, n in zip(counts.key.tolist(), counts.n.tolist(), strict=True) if n})


@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=60))
def test_it_counts_as_a_counter_does(moves: list[tuple[bool, int]]) -> None:
    """26 entries for at most 25 keys: the runs are as long as possible, and go over the end."""
    counts, counter = empty(26), Counter[int]()
    for comes, key in moves:
        if comes and (key in counter or len(counter) < 25):
            counter[key] += 1
            assert count_in(counts, key) == counter[key]
        elif counter[key]:
            counter[key] -= 1
            assert count_out(counts, key) == counter[key]
        counter = +counter
        assert whole(counts) == counter
        assert all(count_of(counts, one) == n for one, n in counter.items())


def test_one_that_goes_leaves_no_gap_on_the_way_over_the_end() -> None:
    counts = empty(8)
    first, second, third = [key for key in range(400) if home(key, 8) == 7][:3]
    for key in (first, second, third):
        count_in(counts, key)
    assert [int(counts.key[at]) for at in (7, 0, 1)] == [first, second, third]
    count_out(counts, first)
    assert [count_of(counts, key) for key in (first, second, third)] == [0, 1, 1]
    count_out(counts, second)
    assert [count_of(counts, key) for key in (first, second, third)] == [0, 0, 1]


@pytest.mark.parametrize("length", [8, 100, 2**20, 2**31 - 1])
def test_homes_are_spread_over_all_entries(length: int) -> None:
    """Of keys side by side, as groups and codes are: about as many different homes as chance gives."""
    homes = [home(key << shift, length) for key in range(2_000) for shift in (0, 32)]
    assert all(0 <= one < length for one in homes)
    expected = length * (1 - (1 - 1 / length) ** 4_000)
    assert len(set(homes)) > 0.9 * expected


@compiled_now
def compiled_moves(counts: CountTable, moves: Any) -> int:
    answers = 0
    for i in range(moves.shape[0]):
        answers += count_in(counts, moves[i, 1]) if moves[i, 0] == 1 else count_out(counts, moves[i, 1])
    return answers


@pytest.mark.parametrize("length", [7, 64, 1000])
def test_compiled_or_not_the_table_is_the_same_to_the_last_entry(length: int) -> None:
    random, there, moves = np.random.default_rng(length), list[int](), list[tuple[int, int]]()
    for _ in range(600):
        if len(set(there)) < length // 2 and random.random() < 0.6:
            there.append(int(random.integers(-(2**40), 2**40)) if random.random() < 0.5 else int(random.integers(9)))
            moves.append((1, there[-1]))
        elif there:
            moves.append((0, there.pop(random.integers(len(there)))))
    one, other = empty(length), empty(length)
    answers = sum(count_in(one, key) if comes else count_out(one, key) for comes, key in moves)
    assert compiled_moves(other, np.array(moves)) == answers
    assert one.n.tolist() == other.n.tolist()
    assert one.key[one.n > 0].tolist() == other.key[other.n > 0].tolist()
    assert all(entry_of(one, key) == entry_of(other, key) for key in set(there))
