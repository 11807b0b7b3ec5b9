"""The moves between QI groups: what an insertion costs where few people have many rows."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.groups.upkeep import Upkeep
from streamer.table.row import Row, Values
from worlds.small_tables import YEARS, table

FLU: Values = (b'"flu"',)


class ReadRows(list[Row]):
    """Rows that count how often one is looked at."""

    reads = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.reads += 1
        return super().__getitem__(place)


def upkeep_of(n_rows: int, people: int, *, formed: bool) -> Upkeep:
    """Rows of a few people, k = 3, in one QI group or in none."""
    upkeep = Upkeep(table(YEARS, k=3, individual="ssn"))
    rows = [Row((i % 10,), FLU, (), f"person {i % people}") for i in range(n_rows)]
    codes = np.array([row.codes for row in rows])
    upkeep.rows.add_many([f"r{i}" for i in range(n_rows)], rows, codes, [0] * n_rows)
    if formed:
        upkeep.form(upkeep.new_number(), list(range(n_rows)))
    return upkeep


def reads_of_an_insertion(upkeep: Upkeep, individual: str) -> int:
    rows = upkeep.rows
    place = rows.add("new", Row((4,), FLU, (), individual), np.array([4]))
    rows.rows = counted = ReadRows(rows.rows)
    if upkeep.groups:
        upkeep.repair(gained=[upkeep.join(place)])
    else:
        upkeep.form_pending()
    return counted.reads


@pytest.mark.parametrize(("people", "formed"), [(5, True), (3, True), (2, False), (1, False)])
def test_an_insertion_beside_the_many_rows_of_few_people_does_not_look_at_them(people: int, formed: bool) -> None:
    costs = [reads_of_an_insertion(upkeep_of(n, people, formed=formed), "person 0") for n in (100, 1000)]
    assert costs[0] == costs[1] < 10


def test_the_person_who_completes_k_brings_all_that_waited_into_a_group() -> None:
    upkeep = upkeep_of(100, 2, formed=False)
    reads_of_an_insertion(upkeep, "person 2")
    assert upkeep.rows.n_pending == 0
    assert sum(len(group.members) for group in upkeep.groups.values()) == 101


def test_the_person_who_completes_2k_has_the_group_cut() -> None:
    upkeep = upkeep_of(100, 5, formed=True)
    reads_of_an_insertion(upkeep, "person 5")
    assert len(upkeep.groups) > 1
    assert all(3 <= upkeep.recount(group) == group.count < 6 for group in upkeep.groups.values())
