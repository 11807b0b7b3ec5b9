"""The QI groups of one shard by their boxes: which is nearest, exactly, without looking at all of them.

The rules of this file
----------------------
* `locate`: if any box holds the tuple (by cells and leaves), one of those; else the box of highest T-QGSSD. `nearest`:
  the other box of highest QGSSD (Song et al. 2009, definitions 6 and 7). Scores are compared without tolerance.
* Ties: the smallest box (NCP), then fewer members, then the lower number. 95 to 99 % of the tuples lie inside some box,
  so this rule decides most locations: "fewer members first" ended at twice the information loss.
* Every answer depends on the set of (number, box, members) alone, never on the history.
* Numbers are positive and grow for ever; inside, a box has a *place*, a small number that is used again.
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

PLACES_MIN = 64

Figures = tuple[float, float, int, float]
"""Of one interval of one attribute: center, half-width, node, share in the NCP."""


class GroupIndex:
    """The boxes of one shard's QI groups.

    >>> from streamer.table.space import Axis
    >>> years = Axis(codes_per_cell=5, n_cells=24, closed=True, width_codes=119.0, unit_codes=1.0, hierarchy=None)
    >>> index = GroupIndex(Space([years]))
    >>> index.put(1, np.array([4]), np.array([4]), members=2)
    >>> index.put(2, np.array([8]), np.array([9]), members=3)
    >>> index.locate(np.array([20])), index.locate(np.array([38]))  # 21 and 39 years
    (1, 2)
    >>> index.nearest(1)
    (2, 0.044444444444444446)
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.similarity = Similarity(space)
        self._bitmap = BoxBitmap(space)
        self._blocks = Blocks(self.similarity)
        self._columns = self._blocks.columns
        self._numeric = np.flatnonzero(~space.is_category)
        self._categories = [(j, similar.node_of_leaf.tolist()) for j, similar in self.similarity.trees]
        self._figures: list[dict[tuple[int, int], Figures]] = [{} for _ in range(space.d)]
        self._place_of: dict[int, int] = {}
        self._free: list[int] = []
        self._lo: Ints = np.empty((0, space.d), dtype=np.int64)
        self._hi: Ints = np.empty((0, space.d), dtype=np.int64)
        self._ncp: Floats = np.empty(0)
        self._members: Ints = np.empty(0, dtype=np.int64)
        self._number: Ints = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._place_of)

    def __contains__(self, number: int) -> bool:
        return number in self._place_of

    def box(self, number: int) -> tuple[Ints, Ints]:
        """The box of a QI group, in cells, (d,) each."""
        place = self._place_of[number]
        return self._lo[place].copy(), self._hi[place].copy()

    def members(self, number: int) -> int:
        """How many members a QI group has."""
        return int(self._members[self._place_of[number]])

    def ncp(self, number: int) -> float:
        """The NCP of a QI group's box, 0..d."""
        return float(self._ncp[self._place_of[number]])

    # -- questions ------------------------------------------------------------------------------------------------

    def locate(self, codes: Ints) -> int:
        """The QI group that a tuple of codes (d,) belongs to: highest T-QGSSD under the tie rule.

        Raises LookupError where there is no QI group.
        """
        cells = self.space.cells(codes)
        places = self._bitmap.candidates(cells)
        if not self._bitmap.exact and places.size:
            places = places[self.space.contains(self._lo[places], self._hi[places], cells)]
        if not places.size:
            places = self._most_similar(codes)
        return int(self._number[self._first(places)])

    def _most_similar(self, codes: Ints) -> Ints:
        if not self._place_of:
            raise LookupError("there is no QI group yet")
        value = codes[self._numeric].astype(np.float64)[:, None]
        probe = self._blocks.tuple_probe(value, [node_of_leaf[codes[j]] for j, node_of_leaf in self._categories])
        bounds = self._blocks.bounds.t_qgssd(probe.value, probe.nodes)
        return self._search(bounds, lambda block: self._blocks.t_qgssd(probe, block), 1)[1]

    def nearest(self, number: int) -> tuple[int, float] | None:
        """The other QI group of highest QGSSD under the tie rule, and that QGSSD; None where there is no other."""
        if len(self) < 2:
            return None
        scores, places = self._closest(number, 1)
        return int(self._number[self._first(places)]), float(scores[0])

    def top(self, number: int, count: int) -> SimilarityList:
        """The `count` other QI groups of highest QGSSD, best first and equal ones by number, and the best of the rest.

        Where there are no more QI groups the floor is 0, below every QGSSD.
        """
        if len(self) < 2:
            return SimilarityList((), 0.0)
        scores, places = self._closest(number, count + 1)
        ranked = sorted(zip((-scores).tolist(), self._number[places].tolist(), strict=True))
        floor = -ranked[count][0] if len(ranked) > count else 0.0
        return SimilarityList(tuple((other, -score) for score, other in ranked[:count]), floor)

    def qgssd(self, number: int, others: Sequence[int]) -> list[float]:
        """QGSSD of a QI group to some others."""
        blocks = self._blocks
        _, center, node = blocks.columns_of(self._places(others))
        scores: list[float] = blocks.qgssd_to(blocks.box_probe(self._place_of[number]), center, node).tolist()
        return scores

    def above(self, numbers: Sequence[int], others: Sequence[int], floors: Floats) -> list[dict[int, float]]:
        """For each QI group: those of `others` whose QGSSD to it exceeds their floor, with that QGSSD."""
        blocks = self._blocks
        owners = np.array(others, dtype=np.int64)
        block, center, node = blocks.columns_of(self._places(others))
        least = np.full(len(blocks.place), inf)
        np.minimum.at(least, block, floors)
        found = []
        for number in numbers:
            probe = blocks.box_probe(self._place_of[number])
            near = (blocks.bounds.qgssd(probe.value, probe.nodes) > least)[block].nonzero()[0]
            scores = blocks.qgssd_to(probe, center.take(near, axis=1), node.take(near, axis=1))
            exceeds = (scores > floors[near]).nonzero()[0]
            pairs = zip(owners[near[exceeds]].tolist(), scores[exceeds].tolist(), strict=True)
            found.append({other: score for other, score in pairs if other != number})
        return found

    def first(self, numbers: Sequence[int]) -> int:
        """The first of some QI groups under the tie rule: least NCP, then fewest members, then lowest number."""
        return int(self._number[self._first(self._places(numbers))])

    def _places(self, numbers: Sequence[int]) -> Ints:
        return np.array([self._place_of[number] for number in numbers], dtype=np.int64)

    def _closest(self, number: int, count: int) -> tuple[Floats, Ints]:
        place = self._place_of[number]
        own, slot = self._blocks.where(place)
        probe = self._blocks.box_probe(place)

        def scores_in(block: Ints) -> Floats:
            scores = self._blocks.qgssd(probe, block)
            scores[block == own, slot] = -inf
            return scores

        return self._search(self._blocks.bounds.qgssd(probe.value, probe.nodes), scores_in, count)

    def _search(self, bounds: Floats, scores_in: Callable[[Ints], Floats], count: int) -> tuple[Floats, Ints]:
        """Scores and places of the `count` best boxes, and of all that equal the last of them and may win the tie.

        Visits the block of highest bound, then all that may hold boxes as good, best first. Changes `bounds`.
        """
        scores, places, enough = np.empty(0), np.empty(0, dtype=np.int64), 0.0
        blocks: Ints = bounds.argmax(axis=0, keepdims=True)
        while blocks.size:
            found = scores_in(blocks).ravel()
            enough = max(enough, _highest(found, count))
            better = (found >= enough).nonzero()[0]
            scores = np.concatenate([scores, found[better]])
            places = np.concatenate([places, self._blocks.place[blocks].ravel()[better]])
            if scores.size > count:
                enough = max(enough, _highest(scores, count))
                better = (scores >= enough).nonzero()[0]
                scores, places = scores[better], places[better]
            bounds[blocks] = -inf
            blocks = self._hopeful(bounds, enough, places if count == 1 else None)
        return scores, places

    def _hopeful(self, bounds: Floats, enough: float, rivals: Ints | None) -> Ints:
        """Up to `CHUNK` blocks of highest bound that may hold a box as good; a tie with rivals has to be won by NCP."""
        blocks = (bounds >= enough).nonzero()[0]
        if blocks.size and rivals is not None and rivals.size:
            wins_ties = self._blocks.bounds.least_ncp[blocks] <= self._ncp[rivals].min()
            blocks = blocks[wins_ties | (bounds[blocks] > enough)]
        if blocks.size > CHUNK:
            blocks = blocks[bounds[blocks].argpartition(-CHUNK)[-CHUNK:]]
        return blocks

    def _first(self, places: Ints) -> int:
        """The first of some places under the tie rule."""
        for column in (self._ncp, self._members, self._number):
            if places.size == 1:
                break
            worth = column[places]
            places = places[worth == worth.min()]
        return int(places[0])

    # -- boxes come, change and go --------------------------------------------------------------------------------

    def put(self, number: int, lo: Ints, hi: Ints, members: int) -> None:
        """A new QI group, or a changed box: lo, hi (d,) in cells, categories as the leaves of a node."""
        place = self._place_of.get(number)
        if place is None:
            self._insert(number, lo, hi, members)
            return
        self._members[place] = members
        lo_before, hi_before = self._lo[place].tolist(), self._hi[place].tolist()
        lo_after, hi_after = lo.tolist(), hi.tolist()
        changed = []
        for i, j in enumerate(self._columns):
            if lo_before[j] != lo_after[j] or hi_before[j] != hi_after[j]:
                changed.append(i)
                self._bitmap.clear(place, j, lo_before[j], hi_before[j])
                self._bitmap.mark(place, j, lo_after[j], hi_after[j])
        if changed:
            profile, ncp = self._profile(lo, hi)
            self._lo[place], self._hi[place], self._ncp[place] = lo, hi, ncp
            self._blocks.change(place, profile, changed, ncp)

    def _insert(self, number: int, lo: Ints, hi: Ints, members: int) -> None:
        profile, ncp = self._profile(lo, hi)
        place = self._place_of[number] = self._free_place()
        self._number[place], self._members[place] = number, members
        self._lo[place], self._hi[place], self._ncp[place] = lo, hi, ncp
        for j, (first, last) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
            self._bitmap.mark(place, j, first, last)
        self._blocks.add(place, profile, ncp)

    def resize(self, number: int, members: int) -> None:
        """Only the member count of a QI group has changed."""
        self._members[self._place_of[number]] = members

    def remove(self, number: int) -> None:
        """A QI group is gone."""
        place = self._place_of.pop(number)
        for j, (lo, hi) in enumerate(zip(self._lo[place].tolist(), self._hi[place].tolist(), strict=True)):
            self._bitmap.clear(place, j, lo, hi)
        self._blocks.remove(place)
        self._free.append(place)

    def _profile(self, lo: Ints, hi: Ints) -> tuple[Profile, float]:
        """What the blocks hold of a box, and its NCP."""
        ends = list(zip(lo.tolist(), hi.tolist(), strict=True))
        try:
            figures = [known[interval] for known, interval in zip(self._figures, ends, strict=True)]
        except KeyError:
            figures = self._learn(lo, hi, ends)
        ncp = 0.0
        for figure in figures:
            ncp += figure[3]
        inner = [figures[j] for j in self._columns]
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

    def _free_place(self) -> int:
        if not self._free:
            before = len(self._number)
            after = max(PLACES_MIN, 2 * before)
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
