"""The tally is a counter by QI group and individual: deletions and the table's end leave no trace in answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.layout import Shard, empty_shard
from streamer.incremental.core.record_types import PENDING, TALLY, records
from streamer.incremental.core.tally import count_in, count_out, find, tally_of
from streamer.jit import entry
from worlds.small_tables import YEARS, table

Entry = tuple[int, int]


def shard_with(tally: Any) -> Shard:
    shard = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=True)
    return shard._replace(work=shard.work._replace(tally=tally))


def shard_of(length: int) -> Shard:
    return shard_with(records(length, TALLY))


def rows_of(s: Shard, group: int, who: int) -> int:
    """As the tally finds it."""
    return int(s.work.tally[find(s.work.tally, group, who)].n)


def whole(tally: Any) -> Counter[Entry]:
    return Counter({(int(one.group), int(one.who)): int(one.n) for one in tally if one.n})


ENTRIES = st.tuples(st.sampled_from([PENDING, 0, 1, 7, 2**31 - 1]), st.sampled_from([0, 1, 2, 3, 2**31 - 1]))


@given(st.lists(st.tuples(st.booleans(), ENTRIES), max_size=120))
def test_it_counts_as_a_counter_does_and_says_how_many_there_are(
    moves: list[tuple[bool, Entry]],
) -> None:
    """26 places for at most 25 entries: the runs are as long as can be, and go over the end."""
    s, counter = shard_of(26), Counter[Entry]()
    for comes, one in moves:
        if comes:
            counter[one] += 1
            assert count_in(s, *one) == counter[one]
        elif counter[one]:
            counter[one] -= 1
            assert count_out(s, *one) == counter[one]
        counter = +counter
        assert whole(s.work.tally) == counter
        assert int(s.state.tally_used[0]) == len(counter)
        assert all(rows_of(s, *there) == n for there, n in counter.items())


def test_one_that_goes_leaves_no_gap_on_the_way_over_the_end() -> None:
    s = shard_of(8)
    at_the_end = [who for who in range(400) if find(s.work.tally, 3, who) == 7][:3]
    for who in at_the_end:
        count_in(s, 3, who)
    assert [int(s.work.tally[at].who) for at in (7, 0, 1)] == at_the_end
    count_out(s, 3, at_the_end[0])
    assert [rows_of(s, 3, who) for who in at_the_end] == [0, 1, 1]
    count_out(s, 3, at_the_end[1])
    assert [rows_of(s, 3, who) for who in at_the_end] == [0, 0, 1]


@given(st.dictionaries(ENTRIES, st.integers(1, 5)), st.integers(1, 30))
def test_a_tally_that_is_laid_out_at_once_finds_what_one_filled_row_by_row_finds(
    entries: dict[Entry, int], spare: int
) -> None:
    group, who, n = np.array([(*one, n) for one, n in entries.items()], dtype=np.int64).reshape(-1, 3).T
    s = shard_with(tally_of(group, who, n, len(entries) + spare))
    assert whole(s.work.tally) == entries
    assert all(rows_of(s, *one) == rows for one, rows in entries.items())
    for one, rows in entries.items():
        assert [count_out(s, *one) for _ in range(rows)] == list(range(rows))[::-1]
    assert whole(s.work.tally) == {}


@entry
def compiled_moves(s: Shard, moves: Any) -> int:
    answers = 0
    for i in range(moves.shape[0]):
        if moves[i, 0] == 1:
            answers += count_in(s, moves[i, 1], moves[i, 2])
        else:
            answers += count_out(s, moves[i, 1], moves[i, 2])
    return answers


@pytest.mark.parametrize("length", [7, 64, 1000])
def test_compiled_or_not_the_table_is_the_same_to_the_last_place(length: int) -> None:
    random, there, moves = np.random.default_rng(length), list[Entry](), list[tuple[int, int, int]]()
    for _ in range(600):
        if len(set(there)) < length // 2 and random.random() < 0.6:
            there.append((int(random.integers(-1, 40)), int(random.integers(0, 10))))
            moves.append((1, *there[-1]))
        elif there:
            moves.append((0, *there.pop(random.integers(len(there)))))
    one, other = shard_of(length), shard_of(length)
    answers = sum(count_in(one, *entry) if comes else count_out(one, *entry) for comes, *entry in moves)
    assert compiled_moves(other, np.array(moves)) == answers
    assert (one.work.tally.n == other.work.tally.n).all()
    assert (one.work.tally[one.work.tally.n > 0] == other.work.tally[other.work.tally.n > 0]).all()
