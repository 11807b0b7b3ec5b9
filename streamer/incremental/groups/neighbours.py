"""Similarity lists: the nearest QI groups of those whose next loss would merge them.

A QI group is *tracked* while its next loss would merge it; the caller says which are. Each tracked one has a list of
some others with their QGSSD (Song et al. 2009, definition 7), best first and equal ones by number, and a *floor*:
every group that is not listed has QGSSD <= floor <= every entry. So a list is an exact prefix of the true order, and
the partner of a merge can be read off it.

A list changes when its own box does (it is made anew), when a listed box does (its entry moves, or falls to the floor
and out), when another box comes above the floor (it enters), and when one goes. A list that runs empty is filled
again; one that grows past twice its length is cut, and its floor rises. Which lists a changed box enters is found
through the index's blocks, those whose bound exceeds the lowest floor of their tracked members, never by visiting all
lists. Member counts decide ties only, and ties are settled when a partner is asked for: so lists do not depend on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf

import numpy as np

from streamer.incremental.groups.index import GroupIndex
from streamer.incremental.groups.kept import SimilarityList
from streamer.table.space import Space

CHANGED_MAX = 64
"""Changed boxes that are looked at one by one beside a list; with more of them asking the index costs less."""


class _List:
    """The list of one tracked QI group while it is kept."""

    __slots__ = ("entries", "floor")

    def __init__(self, kept: SimilarityList) -> None:
        self.entries = dict(kept.neighbours)
        self.floor = kept.floor

    def frozen(self) -> SimilarityList:
        """As it is stored: best first, equal ones by number."""
        ranked = sorted(self.entries.items(), key=lambda entry: (-entry[1], entry[0]))
        return SimilarityList(tuple(ranked), self.floor)


class SimilarityLists:
    """The similarity lists of one shard, kept current commit by commit.

    writes: entries written since the start, removals included; a list that goes counts as one.
    """

    def __init__(self, space: Space, index: GroupIndex, length: int = 4) -> None:
        self.index = index
        self.length = length
        self.writes = 0
        self._lists: dict[int, _List] = {}
        self._listed_by: dict[int, set[int]] = {}

    def restore(self, lists: Mapping[int, SimilarityList]) -> None:
        """The lists as they were stored; their QI groups are the tracked ones."""
        self._lists, self._listed_by = {}, {}
        for number, kept in lists.items():
            self._adopt(number, kept)

    def refresh(
        self,
        changed: Collection[int],
        removed: Collection[int],
        tracked: Callable[[int], bool],
        resized: Collection[int],
    ) -> dict[int, SimilarityList | None]:
        """Brings all lists to the present; returns those that differ from what they were, None where there is none now.

        changed: QI groups that are new or whose box changed since the last refresh; removed: those that are gone;
        resized: those whose member count changed; tracked: asked for changed and resized ones.
        """
        before: dict[int, SimilarityList | None] = {}
        anew = self._follow(changed, removed, tracked, resized, before)
        for number in removed:
            for owner in self._listed_by.pop(number, ()):
                self._remember(owner, before)
                del self._lists[owner].entries[number]
        self._update(sorted(changed), before)
        for number in sorted(anew | {owner for owner in before if owner in self._lists}):
            self._settle(number, number in anew, before)
        return self._effect(before)

    def partner(self, number: int, changed_since: Collection[int], removed_since: Collection[int]) -> int | None:
        """The QI group to merge with: `index.nearest`, read off the list where that is decisive.

        changed_since, removed_since: QI groups whose box is new or gone since the last refresh. A list decides when its
        own box is the same and its best unchanged entry lies above the floor; changed boxes are looked at again.
        """
        kept = self._lists.get(number)
        if kept is None or number in changed_since:
            return self._nearest(number)
        entries = {n: score for n, score in kept.entries.items() if n not in changed_since and n not in removed_since}
        if max(entries.values(), default=-inf) <= kept.floor or len(changed_since) > CHANGED_MAX:
            return self._nearest(number)
        if changed_since:
            others = [n for n in changed_since if n in self.index]
            entries.update(zip(others, self.index.qgssd(number, others), strict=True))
        best = max(entries.values())
        return self.index.first([n for n, score in entries.items() if score == best])

    def _nearest(self, number: int) -> int | None:
        nearest = self.index.nearest(number)
        return None if nearest is None else nearest[0]

    # -- the steps of a refresh -----------------------------------------------------------------------------------

    def _follow(
        self,
        changed: Collection[int],
        removed: Collection[int],
        tracked: Callable[[int], bool],
        resized: Collection[int],
        before: dict[int, SimilarityList | None],
    ) -> set[int]:
        """Drops the lists of QI groups no longer tracked; returns those whose list has to be made anew."""
        anew = set()
        for number in {*changed, *resized}:
            if not tracked(number):
                self._drop(number, before)
            elif number in changed or number not in self._lists:
                self._drop(number, before)
                anew.add(number)
        for number in removed:
            self._drop(number, before)
        return anew

    def _update(self, changed: list[int], before: dict[int, SimilarityList | None]) -> None:
        """Changed boxes move in the lists that name them and enter those whose floor they exceed."""
        floors = np.array([kept.floor for kept in self._lists.values()])
        above = self.index.above(changed, list(self._lists), floors)
        for number, scores in zip(changed, above, strict=True):
            for owner in self._listed_by.get(number, set()) - scores.keys():
                self._remember(owner, before)
                del self._lists[owner].entries[number]
                self._listed_by[number].discard(owner)
            for owner, score in scores.items():
                if self._lists[owner].entries.get(number) != score:
                    self._remember(owner, before)
                    self._lists[owner].entries[number] = score
                    self._listed_by.setdefault(number, set()).add(owner)

    def _settle(self, number: int, anew: bool, before: dict[int, SimilarityList | None]) -> None:
        """Fills a list that is new or empty, and cuts one that is too long."""
        if anew:
            before.setdefault(number, None)
        elif not self._lists[number].entries:
            self._drop(number, before)
            anew = True
        if anew:
            self._adopt(number, self.index.top(number, self.length))
        elif len(self._lists[number].entries) > 2 * self.length:
            self._shorten(number)

    def _shorten(self, number: int) -> None:
        kept = self._lists[number]
        ranked = kept.frozen().neighbours
        kept.floor = ranked[self.length][1]
        for other, _ in ranked[self.length :]:
            del kept.entries[other]
            self._listed_by[other].discard(number)

    def _effect(self, before: Mapping[int, SimilarityList | None]) -> dict[int, SimilarityList | None]:
        effect: dict[int, SimilarityList | None] = {}
        for number, was in before.items():
            kept = self._lists.get(number)
            now = None if kept is None else kept.frozen()
            if now != was:
                effect[number] = now
                self.writes += _written(was, now)
        return effect

    # -- bookkeeping ----------------------------------------------------------------------------------------------

    def _remember(self, number: int, before: dict[int, SimilarityList | None]) -> None:
        """How a list was when the refresh began."""
        if number not in before:
            before[number] = self._lists[number].frozen()

    def _adopt(self, number: int, kept: SimilarityList) -> None:
        self._lists[number] = _List(kept)
        for other, _ in kept.neighbours:
            self._listed_by.setdefault(other, set()).add(number)

    def _drop(self, number: int, before: dict[int, SimilarityList | None]) -> None:
        if number in self._lists:
            self._remember(number, before)
            for other in self._lists.pop(number).entries:
                self._listed_by[other].discard(number)


def _written(was: SimilarityList | None, now: SimilarityList | None) -> int:
    """Entries that have to be written to turn one stored list into the other."""
    if now is None:
        return 1
    old, new = dict(was.neighbours) if was else {}, dict(now.neighbours)
    floor_moved = was is None or was.floor != now.floor
    return floor_moved + sum(old.get(n) != score for n, score in new.items()) + len(old.keys() - new.keys())
