"""Where a QI group is cut: by hand, against the plain twin, and compiled against uncompiled."""

from __future__ import annotations

from decimal import Decimal
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.cut import (
    FEW_TO_SORT,
    cut,
    cut_gathered,
    gather,
    power_below,
    shuffled,
    sort_by_cells,
    sort_by_tie_hash,
)
from streamer.incremental.core.layout import NONE, Shard
from streamer.incremental.engine.tie_break import tie_hashes
from streamer.table.arrays import Ints
from streamer.table.codes import NumericAttribute
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.core_arrays import NUMBER, expected, halves, shard_like, shard_of, twin_of
from worlds.native import compiled_now
from worlds.small_tables import AGE, BMI, CITY, YEARS, rows, table
from worlds.twin import shuffled as shuffled_by_the_twin

# Sorting indexes by tie hashes and by cells: few and many rows, few and many cells.

ROWS = [1, 2, 3, FEW_TO_SORT - 1, FEW_TO_SORT, FEW_TO_SORT + 1, 64, 500]


def scratch(n: int) -> tuple[Ints, Ints]:
    """Two arrays (n,) with leftovers."""
    return np.full(n, 77, np.int32), np.full(n, -3, np.int32)


@pytest.mark.parametrize("n", ROWS)
def test_rows_are_sorted_by_tie_hashes_and_the_hashes_with_them(n: int) -> None:
    chance = np.random.default_rng(n)
    tie_hashes, indexes = chance.integers(0, 2**64, (2, n), dtype=np.uint64), chance.permutation(n).astype(np.int32)
    drawn, before = tie_hashes[0].copy(), indexes.copy()
    sort_by_tie_hash(indexes, tie_hashes, *scratch(n), n)
    assert indexes.tolist() == before[np.argsort(drawn)].tolist()
    assert tie_hashes[0].tolist() == sorted(drawn.tolist())


@pytest.mark.parametrize("n", ROWS)
def test_tie_hashes_that_are_not_spread_at_all_are_sorted_too(n: int) -> None:
    tie_hashes, indexes = np.zeros((2, n), np.uint64), np.arange(n, dtype=np.int32)
    tie_hashes[0] = np.arange(n)[::-1]
    sort_by_tie_hash(indexes, tie_hashes, *scratch(n), n)
    assert indexes.tolist() == list(range(n))[::-1]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (5, 9), (0, 300), (7, 2**31 - 1)])
def test_rows_are_sorted_stably_by_their_cells(n: int, low: int, high: int) -> None:
    chance = np.random.default_rng(n)
    column, indexes = chance.integers(low, high, n, endpoint=True).astype(np.int32), chance.permutation(n)
    found = indexes.astype(np.int32)
    sort_by_cells(column, low, high, found, *scratch(n), n)
    assert found.tolist() == sorted(indexes.tolist(), key=lambda index: column[index])


@given(n=st.integers(1, 2**40))
def test_the_power_below(n: int) -> None:
    assert 2 ** power_below(n) <= n < 2 ** (power_below(n) + 1)


TABLES = {
    "one number": table(YEARS, k=1),
    "two numbers": table(YEARS, YEARS, k=2),
    "number and category": table(AGE, CITY, k=3),
    "decimal, number, category": table(BMI, YEARS, CITY, k=2),
    "individuals": table(AGE, CITY, k=2, individual="ssn"),
    "individuals, each alone": table(YEARS, CITY, k=1, individual="ssn"),
}


@compiled_now
def compiled_cut(s: Shard, g: int) -> tuple[int, bool]:
    return cut(s, g)


def test_where_one_individual_fills_the_middle_half_all_positions_are_looked_at() -> None:
    cells, who = np.full((20, 1), 4), np.array([0, 1, *[2] * 17, 3])
    found = halves(shard_of(table(YEARS, k=2, individual="ssn"), cells, np.arange(20), who))
    assert found is not None
    assert {len(set(who[half])) for half in found} == {2}


@given(tie_hash=st.integers(-(2**63), 2**63 - 1), number=st.integers(1, 2**40), fresh=st.integers(1, 2**40))
def test_tie_hashes_are_shuffled_as_by_the_twin_and_ordered_as_signed_numbers(
    tie_hash: int, number: int, fresh: int
) -> None:
    assert shuffled(tie_hash, number, fresh) == shuffled_by_the_twin(tie_hash, number, fresh) + 2**63


def test_every_cut_shuffles_the_tie_hashes_again_and_loses_none() -> None:
    drawn = tie_hashes(b"secret", map(str, range(1000))).tolist()
    cuts = [[shuffled(tie_hash, number, fresh) for tie_hash in drawn] for number, fresh in ((1, 2), (1, 3), (2, 3))]
    assert all(len(set(one)) == 1000 for one in cuts)
    ranks = [np.argsort(np.argsort(one)) for one in (drawn, *cuts)]
    correlations = np.asarray(np.corrcoef(ranks))[np.triu_indices(4, 1)]
    assert abs(correlations).max() < 0.1


# -- against the twin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("few_kinds", [False, True])
@given(data=st.data())
def test_a_cut_is_that_of_the_plain_twin(name: str, few_kinds: bool, data: st.DataObject) -> None:
    """Few kinds of rows: ties, identical rows, bundles."""
    small = TABLES[name]
    kinds = st.sampled_from(data.draw(st.lists(rows(small), min_size=1, max_size=4))) if few_kinds else rows(small)
    most = 20 if few_kinds else 5 * small.k + 4
    twin = twin_of(small, data.draw(st.lists(kinds, min_size=1, max_size=most)))
    assert halves(shard_like(twin)) == expected(twin)


@given(data=st.data(), k=st.integers(1, 4))
def test_2k_individuals_can_always_be_cut_however_their_rows_lie(data: st.DataObject, k: int) -> None:
    """So a group that an insertion leaves whole has fewer: nothing is searched in vain at the next one."""
    small, person = table(YEARS, YEARS, k=k, individual="ssn"), st.integers(0, 2 * k + 1)
    lying = data.draw(st.lists(st.tuples(person, st.integers(0, 2), st.integers(0, 2)), max_size=30))
    lying += [(one, 0, 0) for one in range(2 * k)]
    who, cells = np.array([one for one, *_ in lying]), np.array([one[1:] for one in lying])
    found = halves(shard_of(small, cells, tie_hashes(b"secret", map(str, range(len(lying)))), who))
    assert found is not None
    assert all(len(set(who[half].tolist())) >= k for half in found)


# -- larger groups ----------------------------------------------------------------------------------------------------


def crowd(small: Table, n: int, seed: int, cells_at_most: int = 1 << 30) -> tuple[Ints, Ints, Ints]:
    """Cells, tie hashes and individuals (one in three has several rows) of n rows."""
    chance = np.random.default_rng(seed)
    cells = np.stack([chance.integers(0, min(int(m), cells_at_most), n) for m in small.space.n_cells], axis=1)
    return cells, chance.integers(-(2**63), 2**63 - 1, n), chance.integers(0, max(1, n // 2), n)


LARGER = [(n, seed) for seed, n in enumerate([31, 32, 33, 34, 64, 65, 200, 700])]


def people_like(small: Table, cells: Ints, who: Ints) -> list[Row]:
    """Rows in these cells."""
    codes = (cells * small.space.codes_per_cell).tolist()
    named = [None if small.individual is None else str(one) for one in who]
    return [Row(tuple(one), (b'"flu"',), (), name) for one, name in zip(codes, named, strict=True)]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("n", "seed"), LARGER[:-2])
def test_a_larger_group_is_cut_as_by_the_plain_twin(name: str, n: int, seed: int) -> None:
    small = TABLES[name]
    cells, _, who = crowd(small, n, seed, cells_at_most=2 if seed % 2 else 1 << 30)
    twin = twin_of(small, people_like(small, cells, who))
    found = halves(shard_like(twin))
    assert found is not None
    assert found == expected(twin)


@pytest.mark.parametrize("name", TABLES)
def test_compiled_and_uncompiled_cuts_are_the_same(name: str) -> None:
    small = TABLES[name]
    for n, seed in [(2 * small.k, 20), (19, 21), *LARGER]:
        cells, tie_hashes, who = crowd(small, n, seed, cells_at_most=3)
        individuals = None if small.individual is None else who
        one, other = (shard_of(small, cells, tie_hashes, individuals) for _ in range(2))
        assert cut(one, 0) == compiled_cut(other, 0)
        assert one.work.ints[0].tolist() == other.work.ints[0].tolist()


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("n", "seed"), [(7, 22), (11, 23), (12, 24), (33, 25)])
def test_two_groups_are_cut_together_as_one_of_all_their_rows(name: str, n: int, seed: int) -> None:
    small = TABLES[name]
    cells, tie_hashes, who = crowd(small, n, seed, cells_at_most=3)
    individuals = None if small.individual is None else who
    one, two = (shard_of(small, cells, tie_hashes, individuals) for _ in range(2))
    first, second = two.groups.group[0], two.groups.group[1]
    first["members"], second["members"], second["block"], second["number"] = n // 3, n - n // 3, n // 3, NUMBER + 1
    one.groups.group[0]["count"] = 2 * small.k  # fewer would not be tried
    smallest = gather(two, 0, 1, NONE)
    *found, loss = cut_gathered(two, n, smallest, inf, 1, 1)
    assert tuple(found) == cut(one, 0)
    assert found[0] > 0
    assert two.work.ints[0].tolist() == one.work.ints[0].tolist()
    assert tuple(found) == cut_gathered(two, n, smallest, float(np.nextafter(loss, inf)), 1, 1)[:2]
    if n < 4 * small.k:
        assert cut_gathered(two, n, smallest, loss, 1, 1)[0] == 0


@pytest.mark.parametrize("name", ["individuals", "individuals, each alone"])
def test_a_cut_leaves_nothing_that_the_next_one_would_see(name: str) -> None:
    small = TABLES[name]
    cells, tie_hashes, who = crowd(small, 60, 7, cells_at_most=2)
    shard = shard_of(small, cells, tie_hashes, who)
    assert [halves(shard) for _ in range(3)] == [halves(shard_of(small, cells, tie_hashes, who))] * 3


def test_cells_of_a_wide_domain_are_sorted_too() -> None:
    """More cells than rows: several rounds of counting."""
    income = NumericAttribute("income", (Decimal(0), Decimal(10**6)), Decimal(1), Decimal(1), Decimal(1000))
    wide = table(YEARS, income, k=2)
    chance = np.random.default_rng(5)
    cells = np.stack([chance.choice([0, 3, 9], 100), chance.integers(0, 10**6, 100)], axis=1)
    twin = twin_of(wide, people_like(wide, cells, np.arange(100)))
    found = halves(shard_like(twin))
    assert found is not None
    assert found == expected(twin)


@pytest.mark.parametrize("individuals", [False, True])
def test_a_heap_of_identical_rows_is_halved_again_and_again(individuals: bool) -> None:
    """So it takes a logarithm of levels, and nothing is peeled off."""
    n, k = 20_000, 5
    small = table(YEARS, CITY, k=k, individual="ssn" if individuals else None)
    tie_hashes = np.random.default_rng(6).integers(-(2**63), 2**63 - 1, n)
    shard = shard_of(small, np.full((n, 2), 3), tie_hashes, np.arange(n) if individuals else None)
    heap, cuts, group = [(0, n)], 0, shard.groups.group[0]
    while heap:
        begin, end = heap.pop()
        group["block"], group["members"], group["count"] = begin, end - begin, end - begin
        position, _ = compiled_cut(shard, 0)
        assert (position == 0) == (end - begin < 2 * k)
        if position:
            assert position == (end - begin) // 2
            shard.groups.pool[0, begin:end] = shard.work.ints[0, : end - begin]
            heap += [(begin, begin + position), (begin + position, end)]
            cuts += 1
    assert cuts == 2**11 - 1 + 1_568  # 2^11 groups of 9 and of 10, and those of 10 once more
    assert sorted(shard.groups.pool[0].tolist()) == list(range(n))
