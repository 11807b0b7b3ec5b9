"""One QI group in memory: its slots, and what k counts of it, beside a model that counts anew every time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.qi_group import QIGroup
from streamer.table.row import Row, Values

NOWHERE = np.zeros(1, dtype=np.int64)
VALUES: list[Values] = [(b'"flu"',), (b'"cough"',), (b"null",)]


def group_of(*rows: Row) -> QIGroup:
    group = QIGroup(1, NOWHERE, NOWHERE, [], [])
    for place, row in enumerate(rows):
        group.add(place, row)
    return group


def row(value: int, individual: str | None = None) -> Row:
    return Row((0,), VALUES[value], (), individual)


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
            members[place] = row(data.draw(st.integers(0, 2)), who)
            group.add(place, members[place])
        who_is_in = {member.individual for member in members.values()}
        assert group.count == (len(who_is_in) if declared else len(members))
        assert sorted(group.members) == sorted(members)
        assert sorted(group.slots) == sorted(member.values for member in members.values())


def test_a_group_formed_anew_forgets_whom_it_counted() -> None:
    group = group_of(row(0, "a"), row(1, "b"))
    group.replace([7, 8, 9], [row(2, "c"), row(0, "c"), row(1, "d")])
    assert (group.count, group.members, group.slots) == (2, [7, 8, 9], sorted(VALUES))


def test_a_removal_frees_the_highest_slot_of_its_values_and_the_last_one_moves_there() -> None:
    flu, cough, null = VALUES
    group = group_of(row(0), row(1), row(0), row(2))
    group.remove(0, row(0))
    assert group.slots == [flu, cough, null]
    group.change_values(cough, flu)
    group.remove(1, row(0))
    assert group.slots == [flu, null]
