"""One QI group in memory: its slots carry no row's identity, and its box says who may be in it."""

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


def of_values(values: Values) -> Row:
    return Row((0, 0), values)


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
