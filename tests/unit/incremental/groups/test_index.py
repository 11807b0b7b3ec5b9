"""The index gives the nearest QI group exactly: beside a twin that reads the definitions and scans every group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamer.incremental.groups import blocks, containment
from streamer.incremental.groups.bounds import Outline
from streamer.incremental.groups.index import GroupIndex
from streamer.incremental.groups.similarity import TreeSimilarity
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space
from worlds.scanned_boxes import SPACES, Twin, boxes, number_axis, put, random_box, random_cells, tree_axis, tuples


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eight, so that tests see them cut and given away."""
    for name, value in (("BLOCK_MAX", 8), ("BLOCK_MIN", 3), ("STALE_MAX", 5)):
        monkeypatch.setattr(blocks, name, value)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_answers_equal_the_scan_through_thousands_of_changes(space: Space) -> None:
    random = np.random.default_rng(7)
    index, twin = GroupIndex(space), Twin(space)
    next_number = 1
    for round_number in range(3000):
        rising = round_number % 1000 < 500
        numbers = list(twin.groups)
        chance = random.random()
        if not numbers or chance < (0.3 if rising else 0.1):
            lo, hi = random_box(random, space)
            put(index, twin, next_number, lo.tolist(), hi.tolist(), int(random.integers(1, 4)))
            next_number += int(random.integers(1, 5))
        elif chance < 0.6:
            lo, hi = random_box(random, space)
            put(index, twin, int(random.choice(numbers)), lo.tolist(), hi.tolist(), int(random.integers(1, 4)))
        elif chance < 0.7:
            number, members = int(random.choice(numbers)), int(random.integers(0, 4))
            index.resize(number, members)
            twin.groups[number] = (*twin.groups[number][:2], members)
        elif chance < (0.8 if rising else 1.0):
            number = int(random.choice(numbers))
            index.remove(number)
            del twin.groups[number]
        if twin.groups and round_number % 5 == 0:
            cells = random_cells(random, space)
            assert index.locate(cells) == twin.locate(cells.tolist())
            number = int(random.choice(list(twin.groups)))
            assert index.nearest(number) == twin.nearest(number)
    assert len(index) == len(twin.groups)


class IndexBesideScan(RuleBasedStateMachine):
    """Any order of calls; domains so small that equal boxes and equal scores are frequent."""

    @initialize(space=st.sampled_from(list(SPACES.values())))
    def start(self, space: Space) -> None:
        self.space, self.index, self.twin = space, GroupIndex(space), Twin(space)
        self.next_number = 1

    @rule(data=st.data(), members=st.integers(0, 2), skip=st.integers(0, 3))
    def insert(self, data: st.DataObject, members: int, skip: int) -> None:
        put(self.index, self.twin, self.next_number, *data.draw(boxes(self.space)), members)
        self.next_number += 1 + skip

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data(), members=st.integers(0, 2))
    def change(self, data: st.DataObject, members: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        put(self.index, self.twin, number, *data.draw(boxes(self.space)), members)

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data(), members=st.integers(0, 2))
    def resize(self, data: st.DataObject, members: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        self.index.resize(number, members)
        self.twin.groups[number] = (*self.twin.groups[number][:2], members)

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        self.index.remove(number)
        del self.twin.groups[number]

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data())
    def locate(self, data: st.DataObject) -> None:
        cells = data.draw(tuples(self.space))
        assert self.index.locate(np.array(cells, dtype=np.int64)) == self.twin.locate(cells)

    @invariant()
    def nearest_is_the_scan_s(self) -> None:
        for number in getattr(self, "twin", Twin(SPACES["numbers"])).groups:
            assert self.index.nearest(number) == self.twin.nearest(number)

    @invariant()
    def it_knows_whom_it_has(self) -> None:
        assert all(number in self.index for number in getattr(self, "twin", Twin(SPACES["numbers"])).groups)


TestIndexBesideScan = IndexBesideScan.TestCase
TestIndexBesideScan.settings = settings(stateful_step_count=25)


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())), count=st.integers(1, 5))
def test_top_is_the_best_of_the_scan_and_the_best_of_the_rest(data: st.DataObject, space: Space, count: int) -> None:
    index, twin = GroupIndex(space), Twin(space)
    for number, box in enumerate(data.draw(st.lists(boxes(space), min_size=1, max_size=12)), start=1):
        put(index, twin, number, *box, 1)
    scan = sorted((-twin.qgssd(1, other), other) for other in twin.groups if other != 1)
    best = index.top(1, count)
    assert best.neighbours == tuple((other, -score) for score, other in scan[:count])
    assert best.floor == (-scan[count][0] if len(scan) > count else 0.0)


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())))
def test_answers_do_not_depend_on_the_order_in_which_groups_came(data: st.DataObject, space: Space) -> None:
    some = data.draw(st.lists(boxes(space), min_size=2, max_size=12))
    cells = np.array(data.draw(tuples(space)), dtype=np.int64)
    order = data.draw(st.permutations(range(len(some))))
    one, other = GroupIndex(space), GroupIndex(space)
    for number in range(len(some)):
        put(one, Twin(space), number + 1, *some[number], 1)
        put(other, Twin(space), order[number] + 1, *some[order[number]], 1)
    assert one.locate(cells) == other.locate(cells)
    assert [one.nearest(n + 1) for n in order] == [other.nearest(n + 1) for n in order]


def test_ties_go_to_the_smaller_box_then_to_fewer_members_then_to_the_lower_number() -> None:
    index, twin = GroupIndex(SPACES["numbers"]), Twin(SPACES["numbers"])
    inside = np.array([2, 1])
    put(index, twin, 9, [0, 0], [4, 3], 1)
    put(index, twin, 7, [2, 1], [2, 1], 3)
    assert index.locate(inside) == 7, "the smaller box, though it has more members"
    put(index, twin, 8, [2, 1], [2, 1], 2)
    assert index.locate(inside) == 8, "fewer members, though the number is higher"
    index.resize(8, 3)
    assert index.locate(inside) == 7, "the lower number"


def test_an_index_without_groups_refuses_to_locate_and_a_lone_group_has_no_nearest() -> None:
    index, twin = GroupIndex(SPACES["numbers"]), Twin(SPACES["numbers"])
    with pytest.raises(LookupError):
        index.locate(np.array([0, 0]))
    put(index, twin, 5, [0, 0], [0, 0], 1)
    assert (index.nearest(5), index.top(5, 3).neighbours) == (None, ())
    index.remove(5)
    with pytest.raises(LookupError):
        index.locate(np.array([0, 0]))


def test_attributes_of_many_cells_are_located_by_their_cells_not_by_their_bins() -> None:
    space = Space([number_axis(1, 3 * containment.BINS_MAX + 1), number_axis(2, 4)])
    random = np.random.default_rng(3)
    index, twin = GroupIndex(space), Twin(space)
    for number in range(1, 301):
        lo, hi = random_box(random, space)
        put(index, twin, number, lo.tolist(), hi.tolist(), 1)
    for cells in (random_cells(random, space) for _ in range(300)):
        assert index.locate(cells) == twin.locate(cells.tolist())


def large_tree() -> Hierarchy:
    return Hierarchy.from_rows([(f"{i}", f"t{i // 4}", f"u{i // 20}", f"v{i // 300}", "*") for i in range(1500)])


def test_hierarchies_of_more_nodes_than_an_outline_are_located_exactly() -> None:
    space = Space([tree_axis(large_tree(), 200.0), number_axis(1, 4)])
    random = np.random.default_rng(4)
    index, twin = GroupIndex(space), Twin(space)
    for number in range(1, 401):
        lo, hi = random_box(random, space)
        put(index, twin, number, lo.tolist(), hi.tolist(), 1)
    for cells in (random_cells(random, space) for _ in range(60)):
        assert index.locate(cells) == twin.locate(cells.tolist())
    for number in range(1, 401, 9):
        assert index.nearest(number) == twin.nearest(number)


def test_an_outline_is_never_below_what_it_stands_for() -> None:
    similar = TreeSimilarity(large_tree(), 200.0)
    outline = Outline(similar)
    every = np.arange(similar.tree.n_nodes)
    bins = np.array(outline.bin_of)
    assert len(outline) < len(every)
    for node in range(0, len(every), 37):
        best_ssd, best_closeness = np.split(outline.terms(node), 2)
        assert (best_ssd[bins] >= similar.ssd(every, np.full_like(every, node))).all()
        assert (best_closeness[bins] >= similar.closeness_row(node)).all()
