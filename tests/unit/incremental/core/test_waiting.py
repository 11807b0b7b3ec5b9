"""Groups wait once for each thing that is to be done to them."""

from __future__ import annotations

from streamer.incremental.core.waiting import cut_later, look_later, mend_later, settle_later
from worlds.core_tables import CoreTable
from worlds.small_tables import YEARS, table


def test_a_group_waits_once_for_each_thing() -> None:
    world = CoreTable(table(YEARS, k=2, repair=0.1))
    world.form(0, 1)
    for _ in range(2):
        settle_later(world.s, 0, 1)
        mend_later(world.s, 0)
        cut_later(world.s, 0)
        look_later(world.s, 0)
    assert world.s.work.heap_size.tolist() == [1, 1, 1, 0, 1]


def test_nobody_waits_for_local_repair_where_there_is_none() -> None:
    world = CoreTable()
    world.form(0, 1)
    look_later(world.s, 0)
    assert world.s.work.heap_size.sum() == 0
