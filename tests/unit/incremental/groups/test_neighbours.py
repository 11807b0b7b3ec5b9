"""Similarity lists are exact prefixes of the true order, whatever happened between two refreshes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamer.incremental.groups import blocks
from streamer.incremental.groups.index import GroupIndex
from streamer.incremental.groups.kept import SimilarityList
from streamer.incremental.groups.neighbours import SimilarityLists
from streamer.table.space import Space
from worlds.scanned_boxes import SPACES, Cells, Twin, boxes, put, random_box

TRACKED_MAX = 2
LENGTH = 2


def is_exact_prefix(stored: SimilarityList, twin: Twin, number: int) -> bool:
    """Whether a list holds what a scan of every QI group finds, and the floor bounds the rest."""
    scores = {other: twin.qgssd(number, other) for other in twin.groups if other != number}
    listed = dict(stored.neighbours)
    in_order = sorted(listed, key=lambda other: (-listed[other], other))
    return (
        all(scores[other] == score for other, score in listed.items())
        and [other for other, _ in stored.neighbours] == in_order
        and all(score <= stored.floor for other, score in scores.items() if other not in listed)
        and all(score >= stored.floor for score in listed.values())
        and (bool(listed) or not scores)
    )


class Shard:
    """An index with lists, its twin, and a store that is told what a refresh returns."""

    def __init__(self, space: Space) -> None:
        self.space, self.index, self.twin = space, GroupIndex(space), Twin(space)
        self.lists = SimilarityLists(space, self.index, length=LENGTH)
        self.stored: dict[int, SimilarityList] = {}
        self.next_number = 1
        self.start_anew()

    def start_anew(self) -> None:
        self.changed: set[int] = set()
        self.removed: set[int] = set()
        self.resized: set[int] = set()

    def insert(self, lo: Cells, hi: Cells, members: int) -> None:
        self.change(self.next_number, lo, hi, members)
        self.next_number += 1

    def change(self, number: int, lo: Cells, hi: Cells, members: int) -> None:
        put(self.index, self.twin, number, lo, hi, members)
        self.changed.add(number)

    def resize(self, number: int, members: int) -> None:
        self.index.resize(number, members)
        self.twin.groups[number] = (*self.twin.groups[number][:2], members)
        self.resized.add(number)

    def remove(self, number: int) -> None:
        self.index.remove(number)
        del self.twin.groups[number]
        self.changed.discard(number)
        self.resized.discard(number)
        self.removed.add(number)

    def tracked(self, number: int) -> bool:
        return self.twin.groups[number][2] <= TRACKED_MAX

    def refresh(self) -> None:
        before = self.lists.writes
        effect = self.lists.refresh(self.changed, self.removed, self.tracked, self.resized)
        assert (self.lists.writes > before) == bool(effect)
        for number, kept in effect.items():
            assert self.stored.get(number) != kept, "only what differs is written"
            if kept is None:
                del self.stored[number]
            else:
                self.stored[number] = kept
        self.start_anew()

    def check_lists(self) -> None:
        assert self.stored.keys() == {number for number in self.twin.groups if self.tracked(number)}
        for number, kept in self.stored.items():
            assert is_exact_prefix(kept, self.twin, number)

    def check_partners(self) -> None:
        for number in self.twin.groups:
            nearest = self.twin.nearest(number)
            partner = self.lists.partner(number, self.changed, self.removed)
            assert partner == (None if nearest is None else nearest[0])

    def restart(self) -> None:
        """Another worker reads the stored lists."""
        self.lists = SimilarityLists(self.space, self.index, length=LENGTH)
        self.lists.restore(self.stored)


class ListsBesideScan(RuleBasedStateMachine):
    """Any changes between refreshes."""

    @initialize(space=st.sampled_from(list(SPACES.values())))
    def start(self, space: Space) -> None:
        self.shard = Shard(space)

    @rule(data=st.data(), members=st.integers(1, 3))
    def insert(self, data: st.DataObject, members: int) -> None:
        self.shard.insert(*data.draw(boxes(self.shard.space)), members)

    @precondition(lambda self: self.shard.twin.groups)
    @rule(data=st.data(), members=st.integers(1, 3))
    def change(self, data: st.DataObject, members: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.shard.twin.groups)))
        self.shard.change(number, *data.draw(boxes(self.shard.space)), members)

    @precondition(lambda self: self.shard.twin.groups)
    @rule(data=st.data(), members=st.integers(1, 3))
    def resize(self, data: st.DataObject, members: int) -> None:
        self.shard.resize(data.draw(st.sampled_from(sorted(self.shard.twin.groups))), members)

    @precondition(lambda self: self.shard.twin.groups)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.shard.remove(data.draw(st.sampled_from(sorted(self.shard.twin.groups))))

    @rule()
    def refresh(self) -> None:
        self.shard.refresh()
        self.shard.check_lists()

    @precondition(lambda self: not (self.shard.changed or self.shard.removed or self.shard.resized))
    @rule()
    def restart(self) -> None:
        self.shard.restart()

    @invariant()
    def partners_are_the_scan_s(self) -> None:
        if hasattr(self, "shard"):
            self.shard.check_partners()


TestListsBesideScan = ListsBesideScan.TestCase
TestListsBesideScan.settings = settings(stateful_step_count=30)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_lists_stay_exact_prefixes_commit_after_commit(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BLOCK_MAX", 8), ("BLOCK_MIN", 3), ("STALE_MAX", 5)):
        monkeypatch.setattr(blocks, name, value)
    random = np.random.default_rng(5)
    shard = Shard(space)
    for commit in range(60):
        for _ in range(int(random.integers(1, 12))):
            numbers = list(shard.twin.groups)
            members = int(random.integers(1, 5))
            chance = random.random()
            lo, hi = (ends.tolist() for ends in random_box(random, space))
            if not numbers or chance < (0.4 if commit % 30 < 15 else 0.1):
                shard.insert(lo, hi, members)
            elif chance < 0.6:
                shard.change(int(random.choice(numbers)), lo, hi, members)
            elif chance < 0.8:
                shard.resize(int(random.choice(numbers)), members)
            else:
                shard.remove(int(random.choice(numbers)))
        shard.check_partners()
        shard.refresh()
        shard.check_lists()
        if commit % 20 == 0:
            shard.restart()


def test_a_partner_is_read_off_the_list_without_asking_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Shard(SPACES["numbers"])
    for number in range(5):
        shard.insert([number, 0], [number, 0], 1)
    shard.refresh()
    monkeypatch.setattr(shard.index, "nearest", None)
    assert shard.lists.partner(1, set(), set()) == 2


def test_an_unchanged_shard_writes_nothing() -> None:
    shard = Shard(SPACES["mixed"])
    random = np.random.default_rng(2)
    for _ in range(20):
        lo, hi = random_box(random, shard.space)
        shard.insert(lo.tolist(), hi.tolist(), 1)
    shard.refresh()
    written = shard.lists.writes
    for number in list(shard.twin.groups):
        shard.changed.add(number)
    shard.refresh()
    assert shard.lists.writes == written
