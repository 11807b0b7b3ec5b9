"""The moves that keep QI groups at k, one at a time: join, leave, merge below k, cut at 2k, wait without any;
and what an insertion costs where few people have many rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamer.errors import LawViolated
from streamer.incremental.groups.kept import PENDING
from streamer.incremental.groups.lots import shuffled
from streamer.incremental.groups.upkeep import Upkeep
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.shard_tables import OF_PEOPLE, OF_TWO, row_of
from worlds.small_tables import YEARS, table


def upkeep_of(*groups: tuple[int, ...], small: Table = OF_TWO) -> Upkeep:
    """A shard with QI groups of these years, numbered from 1."""
    upkeep = Upkeep(small)
    for years in groups:
        upkeep.form(upkeep.new_number(), [add(upkeep, year) for year in years])
    upkeep.take_journal()
    return upkeep


def add(upkeep: Upkeep, year: int, individual: str | None = None) -> int:
    return upkeep.rows.add(f"row {len(upkeep.rows.rows)}", row_of(year, individual=individual), np.array([year]))


def years_by_number(upkeep: Upkeep) -> dict[int, list[int]]:
    return {n: sorted(upkeep.rows.codes[group.members, 0].tolist()) for n, group in upkeep.groups.items()}


def halves_in(upkeep: Upkeep, *numbers: int) -> list[list[int]]:
    """The years of these groups, whichever of them has which number."""
    return sorted(years_by_number(upkeep)[number] for number in numbers)


def box_of(upkeep: Upkeep, number: int) -> tuple[int, int]:
    group = upkeep.groups[number]
    return int(group.lo[0]), int(group.hi[0])


def test_a_row_joins_the_most_similar_group_and_the_box_grows_to_hold_it() -> None:
    upkeep = upkeep_of((0, 1), (7, 8))
    assert upkeep.join(add(upkeep, 5)).number == 2
    assert box_of(upkeep, 2) == (5, 8)


def test_a_row_that_leaves_is_pending_and_leaves_the_box_as_it_was() -> None:
    upkeep = upkeep_of((0, 1, 4))
    left = upkeep.leave(2)
    assert left is upkeep.groups[1]
    assert (box_of(upkeep, 1), upkeep.rows.qi_group[2]) == ((0, 4), PENDING)
    upkeep.recompute([left])
    assert box_of(upkeep, 1) == (0, 1)


def test_a_pending_row_leaves_no_group() -> None:
    upkeep = Upkeep(OF_TWO)
    assert upkeep.leave(add(upkeep, 3)) is None


def test_a_group_below_k_merges_with_the_nearest_and_the_larger_one_keeps_its_number() -> None:
    upkeep = upkeep_of((0, 1), (4, 5, 5), (9, 9))
    upkeep.leave(0)
    upkeep.rows.remove(0)
    upkeep.repair(lost=[upkeep.groups[1]])
    assert halves_in(upkeep, 1, 2) == [[1, 4], [5, 5]], "merged into 2 and cut again: 1 was free"
    assert years_by_number(upkeep)[3] == [9, 9]
    assert upkeep.journal.merges == upkeep.journal.splits == 1


def test_of_two_groups_of_one_size_the_lower_number_stays() -> None:
    upkeep = upkeep_of((0, 1), (3,), (9, 9), small=table(YEARS, k=2, recut=False))
    upkeep.leave(0)
    upkeep.rows.remove(0)
    upkeep.repair(lost=[upkeep.groups[1], upkeep.groups[2]])
    assert years_by_number(upkeep) == {1: [1, 3], 3: [9, 9]}


def test_merged_groups_stay_whole_where_the_table_says_so() -> None:
    upkeep = upkeep_of((0, 1), (4, 5, 5), (9, 9), small=table(YEARS, k=2, recut=False))
    upkeep.leave(0)
    upkeep.rows.remove(0)
    upkeep.repair(lost=[upkeep.groups[1]])
    assert years_by_number(upkeep) == {2: [1, 4, 5, 5], 3: [9, 9]}


def test_the_last_group_below_k_is_dissolved_and_its_rows_wait() -> None:
    upkeep = upkeep_of((0, 1))
    upkeep.leave(0)
    upkeep.rows.remove(0)
    upkeep.repair(lost=[upkeep.groups[1]])
    assert (upkeep.groups, upkeep.rows.n_pending) == ({}, 1)
    add(upkeep, 9)
    upkeep.form_pending()
    assert years_by_number(upkeep) == {2: [1, 9]}, "a number that readers saw go never comes back"


def test_a_group_that_lost_all_its_rows_goes_without_a_merge() -> None:
    upkeep = upkeep_of((0, 1), (8, 9))
    for place in (0, 1):
        upkeep.leave(place)
        upkeep.rows.remove(place)
    upkeep.repair(lost=[upkeep.groups[1]])
    assert years_by_number(upkeep) == {2: [8, 9]}
    assert upkeep.journal.merges == 0


def test_a_group_of_2k_is_cut_where_it_costs_least_and_the_larger_half_keeps_the_number() -> None:
    upkeep = upkeep_of((0, 1, 8))
    group = upkeep.join(add(upkeep, 9))
    upkeep.repair(gained=[group])
    assert halves_in(upkeep, 1, 2) == [[0, 1], [8, 9]]
    assert sorted(box_of(upkeep, number) for number in (1, 2)) == [(0, 1), (8, 9)]
    upkeep = upkeep_of((0, 1, 2, 8))
    upkeep.repair(gained=[upkeep.join(add(upkeep, 9))])
    assert years_by_number(upkeep) == {1: [0, 1, 2], 2: [8, 9]}


@pytest.mark.parametrize("secret", [b"one secret", b"another secret", b"a third", b"a fourth"])
def test_of_equal_halves_the_one_with_the_smallest_lot_keeps_the_number(secret: bytes) -> None:
    upkeep = Upkeep(OF_TWO, secret)
    upkeep.form(upkeep.new_number(), [add(upkeep, year) for year in (0, 1, 8, 9)])
    upkeep.repair(gained=[upkeep.groups[1]])
    smallest = int(shuffled(upkeep.lots(range(4)), number=1, qi_group_next=2).argmin())
    assert upkeep.rows.qi_group[smallest] == 1
    assert halves_in(upkeep, 1, 2) == [[0, 1], [8, 9]]


def test_2k_rows_of_fewer_than_2k_individuals_are_not_cut() -> None:
    upkeep = Upkeep(OF_PEOPLE)
    places = [add(upkeep, year, who) for year, who in ((0, "ann"), (1, "ann"), (8, "ann"), (9, "bob"))]
    upkeep.form_pending()
    assert years_by_number(upkeep) == {1: [0, 1, 8, 9]}
    assert upkeep.groups[1].count == 2
    assert set(upkeep.groups[1].members) == set(places)


def test_rows_wait_until_they_are_k_individuals() -> None:
    upkeep = Upkeep(OF_PEOPLE)
    for year in (3, 4, 5):
        add(upkeep, year, "ann")
        upkeep.form_pending()
    assert (upkeep.groups, upkeep.rows.n_pending) == ({}, 3)


def test_slots_of_a_formed_group_are_in_the_order_of_their_values_not_of_the_rows() -> None:
    upkeep = Upkeep(OF_TWO)
    for name, problem in (("a", "ulcer"), ("b", "cough"), ("c", "flu")):
        upkeep.rows.add(name, row_of(1, problem), np.array([1]))
    upkeep.form(1, [0, 1, 2])
    assert upkeep.groups[1].slots == [(b'"cough"',), (b'"flu"',), (b'"ulcer"',)]


def test_a_group_that_should_have_a_partner_and_has_none_is_a_violated_law(monkeypatch: pytest.MonkeyPatch) -> None:
    upkeep = upkeep_of((0, 1), (8, 9))
    monkeypatch.setattr(upkeep.lists, "partner", lambda *_: None)
    upkeep.leave(0)
    with pytest.raises(LawViolated, match="QI group 1 has nothing to merge with among 2"):
        upkeep.repair(lost=[upkeep.groups[1]])


def test_a_journal_is_taken_once() -> None:
    upkeep = upkeep_of((0, 1))
    upkeep.join(add(upkeep, 2))
    assert upkeep.take_journal().before.keys() == {1}
    assert upkeep.take_journal().before == {}


# -- what an insertion costs ------------------------------------------------------------------------------------------


class ReadRows(list[Row]):
    """Rows that count how often one is looked at."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


def of_few_people(n_rows: int, people: int, *, formed: bool) -> Upkeep:
    """Rows of a few people, k = 3, in one QI group or in none."""
    upkeep = Upkeep(table(YEARS, k=3, individual="ssn"))
    rows = [row_of(i % 10, individual=f"person {i % people}") for i in range(n_rows)]
    codes = np.array([row.codes for row in rows])
    upkeep.rows.add_many([f"r{i}" for i in range(n_rows)], rows, codes, [0] * n_rows)
    if formed:
        upkeep.form(upkeep.new_number(), list(range(n_rows)))
    return upkeep


def reads_of_an_insertion(upkeep: Upkeep, individual: str) -> int:
    rows = upkeep.rows
    place = add(upkeep, 4, individual)
    rows.rows = counted = ReadRows(rows.rows)
    if upkeep.groups:
        upkeep.repair(gained=[upkeep.join(place)])
    else:
        upkeep.form_pending()
    return counted.reads


@pytest.mark.parametrize(("people", "formed"), [(5, True), (3, True), (2, False), (1, False)])
def test_an_insertion_beside_the_many_rows_of_few_people_does_not_look_at_them(people: int, formed: bool) -> None:
    costs = [reads_of_an_insertion(of_few_people(n, people, formed=formed), "person 0") for n in (100, 1000)]
    assert costs[0] == costs[1] < 10


def test_the_person_who_completes_k_brings_all_that_waited_into_a_group() -> None:
    upkeep = of_few_people(100, 2, formed=False)
    reads_of_an_insertion(upkeep, "person 2")
    assert upkeep.rows.n_pending == 0
    assert sum(len(group.members) for group in upkeep.groups.values()) == 101


def test_the_person_who_completes_2k_has_the_group_cut() -> None:
    upkeep = of_few_people(100, 5, formed=True)
    reads_of_an_insertion(upkeep, "person 5")
    assert len(upkeep.groups) > 1
    assert all(3 <= upkeep.recount(group) == group.count < 6 for group in upkeep.groups.values())
