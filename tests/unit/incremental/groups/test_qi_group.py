"""One QI group in memory: its slots carry no row's identity, its box says who may be in it, and what k counts is
kept beside a model that counts anew every time.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.release.changelog import PublishedGroup
from streamer.table.row import Row, Values

FLU, COUGH, ULCER = (b'"flu"',), (b'"cough"',), (b'"ulcer"',)


def of_values(values: Values, individual: str | None = None) -> Row:
    return Row((0, 0), values, (), individual)


def group_of(*slots: Values) -> QIGroup:
    ends = np.array([1, 0]), np.array([3, 4])
    return QIGroup(7, *ends, list(range(len(slots))), list(slots))


@pytest.mark.parametrize(
    ("cells", "inside"), [((1, 0), True), ((3, 4), True), ((2, 2), True), ((0, 2), False), ((2, 5), False)]
)
def test_a_box_contains_its_ends_and_nothing_beyond_them(cells: tuple[int, int], inside: bool) -> None:
    assert group_of().contains(np.array(cells)) is inside


def test_a_row_that_comes_takes_the_next_slot_and_moves_nobody() -> None:
    group = group_of(FLU, COUGH)
    group.add(len(group.members), of_values(FLU))
    assert group.slots == [FLU, COUGH, FLU]


def test_a_row_that_goes_frees_the_highest_slot_of_its_values_and_the_last_record_moves_there() -> None:
    group = group_of(FLU, FLU, COUGH, ULCER)
    group.remove(group.members[0], of_values(FLU))
    assert group.slots == [FLU, ULCER, COUGH]


def test_the_last_slot_is_freed_without_a_move() -> None:
    group = group_of(FLU, COUGH)
    group.remove(group.members[0], of_values(COUGH))
    assert group.slots == [FLU]


def test_changed_values_are_written_into_the_highest_slot_that_held_the_old_ones() -> None:
    group = group_of(FLU, FLU, COUGH)
    group.change_values(FLU, ULCER)
    assert group.slots == [FLU, ULCER, COUGH]
    group.change_values(COUGH, COUGH)
    assert group.slots == [FLU, ULCER, COUGH]


def test_readers_see_box_and_values_and_no_members() -> None:
    assert group_of(FLU, COUGH).published() == PublishedGroup((1, 0), (3, 4), (FLU, COUGH))


def test_what_readers_saw_does_not_change_with_the_group() -> None:
    group = group_of(FLU, COUGH)
    seen = group.published()
    group.add(len(group.members), of_values(ULCER))
    assert seen.slots == (FLU, COUGH)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "change"]), *[st.sampled_from([FLU, COUGH, ULCER])] * 2)))
def test_whatever_happens_the_slots_hold_the_values_of_the_members(moves: list[tuple[str, Values, Values]]) -> None:
    group, members = group_of(), Counter[Values]()
    for what, one, other in moves:
        if what == "add":
            group.add(len(group.members), of_values(one))
            members[one] += 1
        elif members[one] and what == "remove":
            group.remove(group.members[0], of_values(one))
            members[one] -= 1
        elif members[one]:
            before = list(group.slots)
            group.change_values(one, other)
            members[one] -= 1
            members[other] += 1
            assert sum(a != b for a, b in zip(before, group.slots, strict=True)) <= 1
        assert Counter(group.slots) == +members


@given(data=st.data(), declared=st.booleans())
def test_what_k_counts_is_what_counting_anew_would_find(data: st.DataObject, declared: bool) -> None:
    group = group_of()
    members: dict[int, Row] = {}
    for place in range(data.draw(st.integers(0, 30))):
        if bool(members) and data.draw(st.booleans()):
            left = data.draw(st.sampled_from(sorted(members)))
            group.remove(left, members.pop(left))
        else:
            who = data.draw(st.sampled_from("abc")) if declared else None
            members[place] = of_values(data.draw(st.sampled_from([FLU, COUGH, ULCER])), who)
            group.add(place, members[place])
        who_is_in = {member.individual for member in members.values()}
        assert group.count == (len(who_is_in) if declared else len(members))
        assert sorted(group.members) == sorted(members)
        assert sorted(group.slots) == sorted(member.values for member in members.values())


def test_a_group_formed_anew_forgets_whom_it_counted() -> None:
    group = group_of()
    for place, who in enumerate("ab"):
        group.add(place, of_values(FLU, who))
    group.replace([7, 8, 9], [of_values(ULCER, "c"), of_values(FLU, "c"), of_values(COUGH, "d")])
    assert (group.count, group.members, group.slots) == (2, [7, 8, 9], [COUGH, FLU, ULCER])


def test_of_a_slot_that_was_rewritten_the_new_values_are_freed() -> None:
    group = group_of(FLU, COUGH, ULCER)
    group.change_values(COUGH, FLU)
    group.remove(group.members[1], of_values(FLU))
    assert group.slots == [FLU, ULCER]
