"""The heaps return the lowest number first, whatever came in between, and are independent."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.layout import FREED, TO_CHECK, TO_CUT, TO_IMPROVE, TO_MERGE, Work, empty_shard
from streamer.incremental.core.worklist import pop, push, queue_check, queue_cut, queue_improve, queue_merge
from streamer.table.schema import Repair
from worlds.core_arrays import CoreTable
from worlds.small_tables import YEARS, table


def work() -> Work:
    return empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False).work


MOVES = st.tuples(st.sampled_from([TO_CHECK, TO_MERGE, TO_CUT, FREED, TO_IMPROVE]), st.booleans(), st.integers(1, 12))


@given(st.lists(MOVES, max_size=120))
def test_it_gives_what_heapq_gives(moves: list[tuple[int, bool, int]]) -> None:
    own, others = work(), [list[int]() for _ in range(5)]
    for i, (which, comes, number) in enumerate(moves):
        if comes:
            push(own, which, number, 1000 * number + i)
            heapq.heappush(others[which], number)
        elif others[which]:
            number, named = pop(own, which)
            assert number == heapq.heappop(others[which]) == named // 1000
        assert own.heap_size.tolist() == list(map(len, others))
    for which, other in enumerate(others):
        assert [pop(own, which)[0] for _ in range(len(other))] == sorted(other)


def test_every_entry_comes_out_once_with_what_it_names() -> None:
    own = work()
    for named in (5, 3, 9):
        push(own, TO_MERGE, 7, named)
    assert sorted(pop(own, TO_MERGE)[1] for _ in range(3)) == [3, 5, 9]


def test_a_group_is_queued_once_for_each_thing() -> None:
    world = CoreTable(table(YEARS, k=2, repair=Repair(0.1)))
    world.form(0, 1)
    for _ in range(2):
        queue_check(world.s, 0, 1)
        queue_merge(world.s, 0)
        queue_cut(world.s, 0)
        queue_improve(world.s, 0)
    assert world.s.work.heap_size.tolist() == [1, 1, 1, 0, 1]


def test_no_group_is_queued_for_local_repair_without_a_price() -> None:
    world = CoreTable()
    world.form(0, 1)
    queue_improve(world.s, 0)
    assert world.s.work.heap_size.sum() == 0
