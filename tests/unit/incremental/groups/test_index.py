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
from streamer.table.space import FINENESS, Axis, Space

FLAT = Hierarchy.from_rows([(leaf, "*") for leaf in "abc"])
SINGLE = Hierarchy.from_rows([("only", "*")])
DEEP = Hierarchy.from_rows(
    [("a", "ab", "abc", "*"), ("b", "ab", "abc", "*"), ("c", "abc", "*"), ("d", "de", "*"), ("e", "de", "*")]
)


def number_axis(codes_per_cell, n_cells, cut=0, unit=1.0):
    """A stepped attribute whose last cell is `cut` codes short."""
    return Axis(codes_per_cell, n_cells, True, float(codes_per_cell * n_cells - 1 - cut), unit, None)


def decimal_axis(cells, unit=FINENESS / 2):
    return Axis(FINENESS, int(np.ceil(cells)), False, cells * FINENESS, unit, None)


def tree_axis(tree, unit=1.0):
    return Axis(1, tree.n_leaves, True, float(tree.n_leaves), unit, tree)


SPACES = {
    "one number": Space([number_axis(2, 6)]),
    "one category": Space([tree_axis(DEEP, 0.4)]),
    "one decimal": Space([decimal_axis(10 / 3)]),
    "one value only": Space([number_axis(1, 1), tree_axis(SINGLE)]),
    "numbers": Space([number_axis(1, 5), number_axis(3, 4, cut=2, unit=2.5)]),
    "categories": Space([tree_axis(FLAT), tree_axis(DEEP, 2.0), tree_axis(SINGLE)]),
    "mixed": Space([tree_axis(DEEP), number_axis(2, 3), tree_axis(FLAT, 0.6), decimal_axis(2.5), number_axis(1, 2)]),
}


class Twin:
    """Definitions 6 and 7 of Song et al. 2009 and the tie rule, number by number over all QI groups."""

    def __init__(self, space):
        self.axes = space.axes
        self.groups = {}

    def locate(self, codes):
        cells = [code // axis.codes_per_cell for code, axis in zip(codes, self.axes, strict=True)]
        inside = [
            number
            for number, (lo, hi, _) in self.groups.items()
            if all(a <= cell <= b for a, cell, b in zip(lo, cells, hi, strict=True))
        ]
        if inside:
            return min(inside, key=self.worth)
        scores = {number: self.t_qgssd(codes, number) for number in self.groups}
        return min(self.groups, key=lambda number: (-scores[number], self.worth(number)))

    def nearest(self, number):
        scores = {other: self.qgssd(number, other) for other in self.groups if other != number}
        if not scores:
            return None
        first = min(scores, key=lambda other: (-scores[other], self.worth(other)))
        return first, scores[first]

    def worth(self, number):
        lo, hi, members = self.groups[number]
        return self.ncp(lo, hi), members, number

    def ncp(self, lo, hi):
        total = 0.0
        for a, b, axis in zip(lo, hi, self.axes, strict=True):
            first, last = self.edges(axis, a, b)
            span = last - first + (axis.hierarchy is not None and b > a)
            total += span / axis.width_codes if axis.width_codes else 0.0
        return total

    def t_qgssd(self, codes, number):
        total = 0.0
        for code, axis, lo, hi in zip(codes, self.axes, *self.groups[number][:2], strict=True):
            total += self.ssd(axis, code, lo, hi)
        return total

    def ssd(self, axis, code, lo, hi):
        if lo <= code // axis.codes_per_cell <= hi:
            return 1.0
        if axis.hierarchy is not None:
            return (hi - lo + 1) / self.leaves(axis.hierarchy, min(lo, code), max(hi, code))
        first, last = self.edges(axis, lo, hi)
        center = (first + last) / 2
        return max(last - center, center - first, 0.5) / abs(code - center)

    def qgssd(self, one, other):
        total = 0.0
        for axis, *ends in zip(self.axes, *self.groups[one][:2], *self.groups[other][:2], strict=True):
            total += 1 / max(self.distance(axis, *ends), 0.5)
        return total

    def distance(self, axis, lo1, hi1, lo2, hi2):
        if axis.hierarchy is not None:
            both = self.leaves(axis.hierarchy, min(lo1, lo2), max(hi1, hi2))
            return (both - ((hi1 - lo1 + 1) + (hi2 - lo2 + 1)) / 2) / axis.unit_codes
        return abs(sum(self.edges(axis, lo1, hi1)) / 2 - sum(self.edges(axis, lo2, hi2)) / 2) / axis.unit_codes

    @staticmethod
    def edges(axis, lo, hi):
        last = (hi + 1) * axis.codes_per_cell - (1 if axis.closed else 0)
        return float(lo * axis.codes_per_cell), min(float(last), axis.width_codes)

    @staticmethod
    def leaves(tree, lo, hi):
        first, last = tree.cover(lo, hi)
        return last - first + 1


@st.composite
def tuples(draw, space):
    """Codes of a tuple."""
    return [draw(st.integers(0, int(min(a.codes_per_cell * a.n_cells - 1, a.width_codes)))) for a in space.axes]


@st.composite
def boxes(draw, space):
    """A publishable box as two lists of cells."""
    los, his = [], []
    for axis in space.axes:
        lo, hi = sorted(draw(st.tuples(*[st.integers(0, axis.n_cells - 1)] * 2)))
        if axis.hierarchy is not None:
            lo, hi = axis.hierarchy.cover(lo, hi)
        los.append(lo)
        his.append(hi)
    return los, his


def put(index, twin, number, lo, hi, members):
    index.put(number, np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64), members)
    twin.groups[number] = (lo, hi, members)


def random_box(random, space):
    lo = random.integers(0, space.n_cells)
    hi = np.minimum(lo + random.geometric(0.5, space.d) - 1, space.n_cells - 1)
    return space.generalize(lo, hi)


def random_codes(random, space):
    return np.array([random.integers(0, int(min(a.codes_per_cell * a.n_cells, a.width_codes + 1))) for a in space.axes])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of eight, so that tests see them cut and given away."""
    for name, value in (("BLOCK_MAX", 8), ("BLOCK_MIN", 3), ("STALE_MAX", 5)):
        monkeypatch.setattr(blocks, name, value)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_answers_equal_the_scan_through_thousands_of_changes(space):
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
            codes = random_codes(random, space)
            assert index.locate(codes) == twin.locate(codes.tolist())
            number = int(random.choice(list(twin.groups)))
            assert index.nearest(number) == twin.nearest(number)
    assert len(index) == len(twin.groups)


class IndexBesideScan(RuleBasedStateMachine):
    """Any order of calls; domains so small that equal boxes and equal scores are frequent."""

    @initialize(space=st.sampled_from(list(SPACES.values())))
    def start(self, space):
        self.space, self.index, self.twin = space, GroupIndex(space), Twin(space)
        self.next_number = 1

    @rule(data=st.data(), members=st.integers(0, 2), skip=st.integers(0, 3))
    def insert(self, data, members, skip):
        put(self.index, self.twin, self.next_number, *data.draw(boxes(self.space)), members)
        self.next_number += 1 + skip

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data(), members=st.integers(0, 2))
    def change(self, data, members):
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        put(self.index, self.twin, number, *data.draw(boxes(self.space)), members)

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data(), members=st.integers(0, 2))
    def resize(self, data, members):
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        self.index.resize(number, members)
        self.twin.groups[number] = (*self.twin.groups[number][:2], members)

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data())
    def remove(self, data):
        number = data.draw(st.sampled_from(sorted(self.twin.groups)))
        self.index.remove(number)
        del self.twin.groups[number]

    @precondition(lambda self: self.twin.groups)
    @rule(data=st.data())
    def locate(self, data):
        codes = data.draw(tuples(self.space))
        assert self.index.locate(np.array(codes, dtype=np.int64)) == self.twin.locate(codes)

    @invariant()
    def nearest_is_the_scan_s(self):
        for number in getattr(self, "twin", Twin(SPACES["numbers"])).groups:
            assert self.index.nearest(number) == self.twin.nearest(number)

    @invariant()
    def it_knows_whom_it_has(self):
        assert all(number in self.index for number in getattr(self, "twin", Twin(SPACES["numbers"])).groups)


TestIndexBesideScan = IndexBesideScan.TestCase
TestIndexBesideScan.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())), count=st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_top_is_the_best_of_the_scan_and_the_best_of_the_rest(data, space, count):
    index, twin = GroupIndex(space), Twin(space)
    for number, box in enumerate(data.draw(st.lists(boxes(space), min_size=1, max_size=12)), start=1):
        put(index, twin, number, *box, 1)
    scan = sorted((-twin.qgssd(1, other), other) for other in twin.groups if other != 1)
    best = index.top(1, count)
    assert best.neighbours == tuple((other, -score) for score, other in scan[:count])
    assert best.floor == (-scan[count][0] if len(scan) > count else 0.0)


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())))
@settings(max_examples=50, deadline=None)
def test_answers_do_not_depend_on_the_order_in_which_groups_came(data, space):
    some = data.draw(st.lists(boxes(space), min_size=2, max_size=12))
    codes = np.array(data.draw(tuples(space)), dtype=np.int64)
    order = data.draw(st.permutations(range(len(some))))
    one, other = GroupIndex(space), GroupIndex(space)
    for number in range(len(some)):
        put(one, Twin(space), number + 1, *some[number], 1)
        put(other, Twin(space), order[number] + 1, *some[order[number]], 1)
    assert one.locate(codes) == other.locate(codes)
    assert [one.nearest(n + 1) for n in order] == [other.nearest(n + 1) for n in order]


def test_ties_go_to_the_smaller_box_then_to_fewer_members_then_to_the_lower_number():
    index, twin = GroupIndex(SPACES["numbers"]), Twin(SPACES["numbers"])
    inside = np.array([2, 5])
    put(index, twin, 9, [0, 0], [4, 3], 1)
    put(index, twin, 7, [2, 1], [2, 1], 3)
    assert index.locate(inside) == 7, "the smaller box, though it has more members"
    put(index, twin, 8, [2, 1], [2, 1], 2)
    assert index.locate(inside) == 8, "fewer members, though the number is higher"
    index.resize(8, 3)
    assert index.locate(inside) == 7, "the lower number"


def test_an_index_without_groups_refuses_to_locate_and_a_lone_group_has_no_nearest():
    index, twin = GroupIndex(SPACES["numbers"]), Twin(SPACES["numbers"])
    with pytest.raises(LookupError):
        index.locate(np.array([0, 0]))
    put(index, twin, 5, [0, 0], [0, 0], 1)
    assert (index.nearest(5), index.top(5, 3).neighbours) == (None, ())
    index.remove(5)
    with pytest.raises(LookupError):
        index.locate(np.array([0, 0]))


def test_attributes_of_many_cells_are_located_by_their_cells_not_by_their_bins():
    space = Space([number_axis(1, 3 * containment.BINS_MAX + 1), number_axis(2, 4)])
    random = np.random.default_rng(3)
    index, twin = GroupIndex(space), Twin(space)
    for number in range(1, 301):
        lo, hi = random_box(random, space)
        put(index, twin, number, lo.tolist(), hi.tolist(), 1)
    for codes in (random_codes(random, space) for _ in range(300)):
        assert index.locate(codes) == twin.locate(codes.tolist())


def large_tree():
    return Hierarchy.from_rows([(f"{i}", f"t{i // 4}", f"u{i // 20}", f"v{i // 300}", "*") for i in range(1500)])


def test_hierarchies_of_more_nodes_than_an_outline_are_located_exactly():
    space = Space([tree_axis(large_tree(), 200.0), number_axis(1, 4)])
    random = np.random.default_rng(4)
    index, twin = GroupIndex(space), Twin(space)
    for number in range(1, 401):
        lo, hi = random_box(random, space)
        put(index, twin, number, lo.tolist(), hi.tolist(), 1)
    for codes in (random_codes(random, space) for _ in range(60)):
        assert index.locate(codes) == twin.locate(codes.tolist())
    for number in range(1, 401, 9):
        assert index.nearest(number) == twin.nearest(number)


def test_an_outline_is_never_below_what_it_stands_for():
    similar = TreeSimilarity(large_tree(), 200.0)
    outline = Outline(similar)
    every = np.arange(similar.tree.n_nodes)
    bins = np.array(outline.bin_of)
    assert len(outline) < len(every)
    for node in range(0, len(every), 37):
        best_ssd, best_closeness = np.split(outline.terms(node), 2)
        assert (best_ssd[bins] >= similar.ssd(every, np.full_like(every, node))).all()
        assert (best_closeness[bins] >= similar.closeness_row(node)).all()
