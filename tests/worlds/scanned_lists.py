"""Similarity lists by their rules in plain dicts, every list and every QI group looked at in every refresh."""

from __future__ import annotations

from collections.abc import Collection

from streamer.incremental.engine.stored_state import SimilarityList
from worlds.scanned_boxes import Twin

LENGTH, MOST = 4, 8


class ScannedLists:
    """The lists of a twin's QI groups of k members and fewer, by number; k of them are tracked."""

    def __init__(self, twin: Twin, k: int) -> None:
        self.twin, self.k = twin, k
        self.lists: dict[int, SimilarityList] = {}

    def tracked(self, number: int) -> bool:
        return self.twin.groups[number][2] <= self.k

    def refresh(self, moved: Collection[int], resized: Collection[int]) -> dict[int, SimilarityList | None]:
        """Brings all lists to the present; returns those that differ from what they were."""
        before, self.lists = self.lists, {}
        for owner in filter(self.tracked, self.twin.groups):
            was = None if owner in moved else before.get(owner)
            entries = {} if was is None else dict(was.neighbours)
            entries = {n: score for n, score in entries.items() if n in self.twin.groups and n not in moved}
            for other in set(moved) & self.twin.groups.keys() - {owner}:
                score = self.twin.qgssd(owner, other)
                if was is not None and score > was.floor:
                    entries[other] = score
            if was is None or not entries:
                self.lists[owner] = self.best(owner)
            else:
                self.lists[owner] = self.cut(entries, was.floor, MOST)
        untouched = {n for n in self.lists if n not in moved and n not in resized}
        assert untouched <= before.keys(), "a QI group becomes tracked when it changes"
        owners = before.keys() | self.lists.keys()
        return {n: self.lists.get(n) for n in sorted(owners) if before.get(n) != self.lists.get(n)}

    def best(self, owner: int) -> SimilarityList:
        """A list made anew."""
        return self.cut({n: self.twin.qgssd(owner, n) for n in self.twin.groups if n != owner}, 0.0, LENGTH)

    def cut(self, entries: dict[int, float], floor: float, most: int) -> SimilarityList:
        ranked = sorted(entries.items(), key=lambda entry: (-entry[1], entry[0]))
        if len(ranked) <= most:
            return SimilarityList(tuple(ranked), floor)
        return SimilarityList(tuple(ranked[:LENGTH]), ranked[LENGTH][1])

    def bounds_the_rest(self) -> bool:
        """Whether every list is an exact prefix of the true order."""
        return all(self._is_prefix(owner, kept) for owner, kept in self.lists.items())

    def _is_prefix(self, owner: int, kept: SimilarityList) -> bool:
        scores = {n: self.twin.qgssd(owner, n) for n in self.twin.groups if n != owner}
        listed = dict(kept.neighbours)
        return (
            all(scores[n] == score >= kept.floor for n, score in listed.items())
            and all(score <= kept.floor for n, score in scores.items() if n not in listed)
            and (bool(listed) or not scores)
        )
