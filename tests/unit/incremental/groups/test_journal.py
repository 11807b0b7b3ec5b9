"""The memory of a batch: what readers saw before it, and how much may have to be published after it."""

from __future__ import annotations

import numpy as np

from streamer.incremental.groups.journal import Journal
from streamer.incremental.groups.qi_group import QIGroup
from streamer.table.row import Row

FLU, COUGH = (b'"flu"',), (b'"cough"',)


def group_of(*slots: tuple[bytes]) -> QIGroup:
    return QIGroup(7, np.array([0]), np.array([2]), list(range(len(slots))), list(slots))


def test_a_group_is_remembered_as_it_was_before_the_first_change_of_the_batch() -> None:
    journal, group = Journal(), group_of(FLU, COUGH)
    seen = group.published()
    for _ in range(3):
        journal.group(group)
        group.add(9, Row((0,), FLU))
    assert journal.before == {7: seen}


def test_a_group_that_readers_did_not_see_was_nothing_before() -> None:
    journal = Journal()
    journal.group(group_of(), rows=4)
    assert journal.before == {7: None}


def test_the_rows_to_publish_are_never_counted_too_low() -> None:
    """The whole group once, for its box may change, and every row that comes."""
    journal, group = Journal(), group_of(FLU, COUGH)
    journal.group(group)
    assert journal.rows_published_max == 2 + 1
    journal.group(group, rows=5)
    assert journal.rows_published_max == 2 + 1 + 5


def test_a_box_that_changed_and_went_is_gone_and_one_that_went_and_came_back_has_changed() -> None:
    journal, group = Journal(), group_of(FLU)
    journal.box(group)
    journal.size(group)
    journal.gone(group)
    assert (journal.boxes_changed, journal.sizes_changed, journal.boxes_gone) == (set(), set(), {7})
    journal.box(group)
    assert (journal.boxes_changed, journal.boxes_gone) == ({7}, set())
