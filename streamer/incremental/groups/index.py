"""The QI groups of one shard by their boxes: which is nearest, exactly, without looking at all of them.

The rules of this file
----------------------
* `locate` knows a tuple by its cells: if any box contains them, one of those; else the box of highest T-QGSSD, for
  which a number stands in the middle of its cell's published interval. So nothing finer than a cell decides.
  `nearest`: the other box of highest QGSSD (Song et al. 2009, definitions 6 and 7). Scores are compared without
  tolerance.
* Ties: the smallest box (NCP), then fewer members, then the lower number. 95 to 99 % of the tuples lie inside some
  box, so this rule decides most locations: "fewer members first" ended at twice the information loss.
* Every answer depends on the set of (number, box, members) alone, never on the history.
* A QI group's number is positive and grows for ever. Inside, its box has a small number of its
  own (`box`), which is given again once the group is gone.
* Two mechanisms: a bitmap of boxes per cell settles the tuples that lie inside (`containment`), blocks of neighbours
  with bounds all the rest (`blocks`). Blocks whose bound *equals* the best score are visited too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from streamer.incremental.groups.blocks import Blocks, Profile
from streamer.incremental.groups.containment import BoxBitmap
from streamer.incremental.groups.kept import SimilarityList
from streamer.incremental.groups.similarity import Shapes, Similarity
from streamer.table.arrays import Floats, Ints
from streamer.table.space import Space

CHUNK = 16
"""Blocks that are looked at in one go, after the first."""

INTERVALS_KEPT = 100_000
"""Intervals per attribute whose figures are remembered."""

BOXES_MIN = 64

Figures = tuple[float, float, int, float]
"""Of one interval of one attribute: center, half-width, node, term of the NCP."""


class GroupIndex:
    """The boxes of one shard's QI groups.

    >>> from streamer.table.space import Axis
    >>> years = Axis(codes_per_cell=5, n_cells=24, closed=True, width_codes=119.0, unit_codes=1.0, hierarchy=None)
    >>> index = GroupIndex(Space([years]))
    >>> index.put(1, np.array([4]), np.array([4]), members=2)
    >>> index.put(2, np.array([8]), np.array([9]), members=3)
    >>> index.locate(np.array([4])), index.locate(np.array([7]))  # 21 to 25, and 36 to 40 years
    (1, 2)
    >>> index.nearest(1)
    (2, 0.044444444444444446)
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.similarity = Similarity(space)
        self._bitmap = BoxBitmap(space)
        self._blocks = Blocks(self.similarity)
        self._attribute_of = self._blocks.attribute_of
        self._numeric = np.flatnonzero(~space.is_category)
        self._categories = [(j, similar.node_of_leaf.tolist()) for j, similar in self.similarity.trees]
        self._figures: list[dict[tuple[int, int], Figures]] = [{} for _ in range(space.d)]
        self._box_of: dict[int, int] = {}
        self._free: list[int] = []
        self._lo: Ints = np.empty((0, space.d), dtype=np.int64)
        self._hi: Ints = np.empty((0, space.d), dtype=np.int64)
        self._ncp: Floats = np.empty(0)
        self._members: Ints = np.empty(0, dtype=np.int64)
        self._number: Ints = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._box_of)

    def __contains__(self, number: int) -> bool:
        return number in self._box_of

    # -- questions ------------------------------------------------------------------------------------------------

    def locate(self, cells: Ints) -> int:
        """The QI group that a tuple of cells (d,) belongs to: highest T-QGSSD under the tie rule.

        Raises LookupError where there is no QI group.
        """
        boxes = self._bitmap.candidates(cells)
        if not self._bitmap.exact and boxes.size:
            boxes = boxes[self.space.contains(self._lo[boxes], self._hi[boxes], cells)]
        if not boxes.size:
            boxes = self._most_similar(cells)
        return int(self._number[self._first(boxes)])

    def _most_similar(self, cells: Ints) -> Ints:
        if not self._box_of:
            raise LookupError("there is no QI group yet")
        value = self.space.middles(cells)[self._numeric, None]
        probe = self._blocks.tuple_probe(value, [node_of_leaf[cells[j]] for j, node_of_leaf in self._categories])
        bounds = self._blocks.bounds.t_qgssd(probe.value, probe.nodes)
        return self._search(bounds, lambda block: self._blocks.t_qgssd(probe, block), 1)[1]

    def nearest(self, number: int) -> tuple[int, float] | None:
        """The other QI group of highest QGSSD under the tie rule, and that QGSSD; None where there is no other."""
        if len(self) < 2:
            return None
        scores, boxes = self._closest(number, 1)
        return int(self._number[self._first(boxes)]), float(scores[0])

    def top(self, number: int, count: int) -> SimilarityList:
        """The `count` other QI groups of highest QGSSD, best first and equal ones by number, and the best of the rest.

        Where there are no more QI groups the floor is 0, below every QGSSD.
        """
        if len(self) < 2:
            return SimilarityList((), 0.0)
        scores, boxes = self._closest(number, count + 1)
        ranked = sorted(zip((-scores).tolist(), self._number[boxes].tolist(), strict=True))
        floor = -ranked[count][0] if len(ranked) > count else 0.0
        return SimilarityList(tuple((other, -score) for score, other in ranked[:count]), floor)

    def qgssd(self, number: int, others: Sequence[int]) -> list[float]:
        """QGSSD of a QI group to some others."""
        blocks = self._blocks
        _, center, node = blocks.columns_of(self._boxes(others))
        scores: list[float] = blocks.qgssd_to(blocks.box_probe(self._box_of[number]), center, node).tolist()
        return scores

    def above(self, numbers: Sequence[int], others: Sequence[int], floors: Floats) -> list[dict[int, float]]:
        """For each QI group: those of `others` whose QGSSD to it exceeds their floor, with that QGSSD."""
        blocks = self._blocks
        owners = np.array(others, dtype=np.int64)
        block, center, node = blocks.columns_of(self._boxes(others))
        least = np.full(len(blocks.box), inf)
        np.minimum.at(least, block, floors)
        found = []
        for number in numbers:
            probe = blocks.box_probe(self._box_of[number])
            near = (blocks.bounds.qgssd(probe.value, probe.nodes) > least)[block].nonzero()[0]
            scores = blocks.qgssd_to(probe, center.take(near, axis=1), node.take(near, axis=1))
            exceeds = (scores > floors[near]).nonzero()[0]
            pairs = zip(owners[near[exceeds]].tolist(), scores[exceeds].tolist(), strict=True)
            found.append({other: score for other, score in pairs if other != number})
        return found

    def first(self, numbers: Sequence[int]) -> int:
        """The first of some QI groups under the tie rule: least NCP, then fewest members, then lowest number."""
        return int(self._number[self._first(self._boxes(numbers))])

    def _boxes(self, numbers: Sequence[int]) -> Ints:
        return np.array([self._box_of[number] for number in numbers], dtype=np.int64)

    def _closest(self, number: int, count: int) -> tuple[Floats, Ints]:
        box = self._box_of[number]
        own, column = self._blocks.where(box)
        probe = self._blocks.box_probe(box)

        def scores_in(block: Ints) -> Floats:
            scores = self._blocks.qgssd(probe, block)
            scores[block == own, column] = -inf
            return scores

        return self._search(self._blocks.bounds.qgssd(probe.value, probe.nodes), scores_in, count)

    def _search(self, bounds: Floats, scores_in: Callable[[Ints], Floats], count: int) -> tuple[Floats, Ints]:
        """Scores and numbers of the `count` best boxes, and of all that equal the last of them and may win the tie.

        Visits the block of highest bound, then all that may have boxes as good, best first. Changes `bounds`.
        """
        scores, boxes, enough = np.empty(0), np.empty(0, dtype=np.int64), 0.0
        blocks: Ints = bounds.argmax(axis=0, keepdims=True)
        while blocks.size:
            found = scores_in(blocks).ravel()
            enough = max(enough, _highest(found, count))
            better = (found >= enough).nonzero()[0]
            scores = np.concatenate([scores, found[better]])
            boxes = np.concatenate([boxes, self._blocks.box[blocks].ravel()[better]])
            if scores.size > count:
                enough = max(enough, _highest(scores, count))
                better = (scores >= enough).nonzero()[0]
                scores, boxes = scores[better], boxes[better]
            bounds[blocks] = -inf
            blocks = self._hopeful(bounds, enough, boxes if count == 1 else None)
        return scores, boxes

    def _hopeful(self, bounds: Floats, enough: float, rivals: Ints | None) -> Ints:
        """Up to `CHUNK` blocks of highest bound that may have a box as good; a tie with rivals has to be won by NCP."""
        blocks = (bounds >= enough).nonzero()[0]
        if blocks.size and rivals is not None and rivals.size:
            wins_ties = self._blocks.bounds.least_ncp[blocks] <= self._ncp[rivals].min()
            blocks = blocks[wins_ties | (bounds[blocks] > enough)]
        if blocks.size > CHUNK:
            blocks = blocks[bounds[blocks].argpartition(-CHUNK)[-CHUNK:]]
        return blocks

    def _first(self, boxes: Ints) -> int:
        """The first of some boxes (by number) under the tie rule."""
        for column in (self._ncp, self._members, self._number):
            if boxes.size == 1:
                break
            worth = column[boxes]
            boxes = boxes[worth == worth.min()]
        return int(boxes[0])

    # -- boxes come, change and go --------------------------------------------------------------------------------

    def put(self, number: int, lo: Ints, hi: Ints, members: int) -> None:
        """A new QI group, or a changed box: lo, hi (d,) in cells, categories as the leaves of a node."""
        box = self._box_of.get(number)
        if box is None:
            self._insert(number, lo, hi, members)
            return
        self._members[box] = members
        lo_before, hi_before = self._lo[box].tolist(), self._hi[box].tolist()
        lo_after, hi_after = lo.tolist(), hi.tolist()
        changed = []
        for i, j in enumerate(self._attribute_of):
            if lo_before[j] != lo_after[j] or hi_before[j] != hi_after[j]:
                changed.append(i)
                self._bitmap.clear(box, j, lo_before[j], hi_before[j])
                self._bitmap.mark(box, j, lo_after[j], hi_after[j])
        if changed:
            profile, ncp = self._profile(lo, hi)
            self._lo[box], self._hi[box], self._ncp[box] = lo, hi, ncp
            self._blocks.change(box, profile, changed, ncp)

    def _insert(self, number: int, lo: Ints, hi: Ints, members: int) -> None:
        profile, ncp = self._profile(lo, hi)
        box = self._box_of[number] = self._free_box()
        self._number[box], self._members[box] = number, members
        self._lo[box], self._hi[box], self._ncp[box] = lo, hi, ncp
        for j, (first, last) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
            self._bitmap.mark(box, j, first, last)
        self._blocks.add(box, profile, ncp)

    def resize(self, number: int, members: int) -> None:
        """Only the member count of a QI group has changed."""
        self._members[self._box_of[number]] = members

    def remove(self, number: int) -> None:
        """A QI group is gone."""
        box = self._box_of.pop(number)
        for j, (lo, hi) in enumerate(zip(self._lo[box].tolist(), self._hi[box].tolist(), strict=True)):
            self._bitmap.clear(box, j, lo, hi)
        self._blocks.remove(box)
        self._free.append(box)

    def _profile(self, lo: Ints, hi: Ints) -> tuple[Profile, float]:
        """What the blocks keep of a box, and its NCP."""
        ends = list(zip(lo.tolist(), hi.tolist(), strict=True))
        try:
            figures = [known[interval] for known, interval in zip(self._figures, ends, strict=True)]
        except KeyError:
            figures = self._learn(lo, hi, ends)
        ncp = 0.0
        for figure in figures:
            ncp += figure[3]
        inner = [figures[j] for j in self._attribute_of]
        n = len(self._numeric)
        return Profile([f[0] for f in inner], [f[1] for f in inner[:n]], [f[2] for f in inner[n:]]), ncp

    def _learn(self, lo: Ints, hi: Ints, ends: list[tuple[int, int]]) -> list[Figures]:
        shapes = Shapes(*(part.tolist() for part in self.similarity.shapes(lo, hi)))
        figures = list(zip(*shapes, self.space.ncp_terms(lo, hi).tolist(), strict=True))
        for known, interval, figure in zip(self._figures, ends, figures, strict=True):
            if len(known) >= INTERVALS_KEPT:
                known.clear()
            known[interval] = figure
        return figures

    def _free_box(self) -> int:
        if not self._free:
            before = len(self._number)
            after = max(BOXES_MIN, 2 * before)
            self._free.extend(range(after - 1, before - 1, -1))
            self._lo, self._hi = (np.resize(part, (after, self.space.d)) for part in (self._lo, self._hi))
            self._ncp = np.resize(self._ncp, after)
            self._members, self._number = (np.resize(part, after) for part in (self._members, self._number))
            self._bitmap.grow(after)
        return self._free.pop()


def _highest(scores: Floats, count: int) -> float:
    """The count-th highest of scores; -inf where there are fewer."""
    if count == 1:
        return float(scores.max())
    return float(np.partition(scores, -count)[-count]) if scores.size >= count else -inf
