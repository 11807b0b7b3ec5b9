"""Similarity lists: by their rules in plain dicts, and in the arrays of the core beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from streamer.incremental.core import lists, tree
from streamer.incremental.core.layout import HI, LINKS, LO, NONE, Shard, empty_shard
from streamer.incremental.core.scores import set_shape
from streamer.incremental.engine.stored_state import SimilarityList
from streamer.table.space import Space
from worlds.boxes import Cells
from worlds.native import compiled_now
from worlds.twin import Scan

LENGTH, MOST = 4, 8


class ScannedLists:
    """The lists of a twin's QI groups of k members and fewer, by number; k of them are tracked."""

    def __init__(self, twin: Scan, k: int) -> None:
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
        """A list made again."""
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


PUT, RESIZED, TAKE_OUT, REFRESH, CLEAR, PARTNER, DIFFERS, NEEDED = range(8)


def run_as_it_stands(s: Shard, what: int, g: int) -> int:
    """One function of the core."""
    if what == PUT:
        set_shape(s.space, s.groups, g)
        tree.put(s, g)
    elif what == RESIZED:
        tree.resized(s, g)
    elif what == TAKE_OUT:
        tree.take_out(s, g)
    elif what == REFRESH:
        lists.refresh(s)
    elif what == CLEAR:
        lists.clear_marks(s)
    elif what == PARTNER:
        return lists.partner(s, g)
    elif what == DIFFERS:
        return int(lists.differs(s, g))
    elif what == NEEDED:
        return lists.lists_needed(s)
    return NONE


RUNS: dict[str, Callable[[Shard, int, int], int]] = {
    "compiled": compiled_now(run_as_it_stands),
    "as it stands": run_as_it_stands,
}


@dataclass
class ListedBoxes:
    """The groups of a shard by number, with lists for those of k members and fewer."""

    space: Space
    run: Callable[[Shard, int, int], int]
    k: int = 2
    index_of: dict[int, int] = field(default_factory=dict)
    entry_of: dict[int, int] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    next_number: int = 1

    def __post_init__(self) -> None:
        self.s = empty_shard(self.space, self.k, recut=True, shrink=True, individuals=False)
        self.twin = Scan(self.space)
        self.scanned = ScannedLists(self.twin, self.k)
        self.reload()

    def reload(self) -> None:
        self.moved: set[int] = set()
        self.gone: set[int] = set()
        self.resized: set[int] = set()

    # -- what happens between two refreshes -----------------------------------------------------------------------

    def insert(self, lo: Cells, hi: Cells, members: int, number: int = 0) -> None:
        """A new group; `number` if it is given again."""
        if not number:
            number, self.next_number = self.next_number, self.next_number + 1
        state = self.s.state[0]
        if not self.free:
            self.free.append(int(state.groups_used))
            state.groups_used += 1
        g = self.index_of[number] = self.free.pop()
        group = self.s.groups.group[g]
        group.number, group.alive, group.list, group.listed, group.node = number, 1, NONE, NONE, NONE
        state.n_groups += 1
        self.gone.discard(number)
        self.change(number, lo, hi, members)

    def change(self, number: int, lo: Cells, hi: Cells, members: int) -> None:
        g = self.index_of[number]
        self.s.groups.box[g, LO], self.s.groups.box[g, HI] = lo, hi
        group = self.s.groups.group[g]
        group.members = group.count = members
        self.twin.groups[number] = (lo, hi, members)
        self.run(self.s, PUT, g)
        self.note(number).moved = 1
        self.moved.add(number)

    def resize(self, number: int, members: int) -> None:
        group = self.note(number)
        group.members = group.count = members
        self.run(self.s, RESIZED, self.index_of[number])
        self.twin.groups[number] = (*self.twin.groups[number][:2], members)
        self.resized.add(number)

    def remove(self, number: int) -> None:
        self.note(number).alive = 0
        g, state = self.index_of.pop(number), self.s.state[0]
        self.run(self.s, TAKE_OUT, g)
        self.s.journal.gone[state.n_gone] = g
        state.n_gone += 1
        state.n_groups -= 1
        self.s.journal.entry[self.entry_of[number]].group = NONE
        del self.twin.groups[number]
        self.moved.discard(number)
        self.resized.discard(number)
        self.gone.add(number)

    def note(self, number: int) -> np.record:
        """Notes in the journal that a group changes; returns the group."""
        state, g = self.s.state[0], self.index_of[number]
        group: np.record = self.s.groups.group[g]
        if not group.changed:
            group.changed = 1
            self.s.journal.changed[state.n_changed] = g
            state.n_changed += 1
        if number not in self.entry_of:
            self.entry_of[number] = int(state.n_journal)
            state.n_journal += 1
        group.entry = self.entry_of[number]
        self.s.journal.entry[group.entry].group = g
        return group

    # -- the drain ------------------------------------------------------------------------------------------------

    def drain(self) -> dict[int, SimilarityList | None]:
        """What a refresh changes, by number; a new batch begins."""
        state, needed = self.s.state[0], self.run(self.s, NEEDED, 0)
        assert needed <= len(self.s.lists.one)
        self.run(self.s, REFRESH, 0)
        assert max(state.lists_used, state.n_lists_before) <= needed
        effect = {}
        for i in range(state.n_lists_before):
            if self.run(self.s, DIFFERS, i):
                before = self.s.lists.before[i]
                number = int(self.s.groups.group[before.owner].number)
                assert number not in effect
                effect[number] = self.list_of(int(before.owner))
        self.run(self.s, CLEAR, 0)
        self.free += self.s.journal.gone[: state.n_gone].tolist()
        state.n_changed = state.n_gone = state.n_journal = state.n_lists_before = 0
        self.entry_of = {}
        self.reload()
        return effect

    def list_of(self, g: int) -> SimilarityList | None:
        """The list of a group by its index."""
        s, group = self.s, self.s.groups.group
        if not group[g].alive or group[g].list == NONE:
            return None
        one, first = s.lists.one[group[g].list], group[g].list * LINKS
        links = s.lists.link[first : first + one.n]
        return SimilarityList(
            tuple((int(group[link.other].number), float(link.score)) for link in links), float(one.floor)
        )

    def stored(self) -> dict[int, SimilarityList]:
        """All lists by number."""
        pairs = ((number, self.list_of(g)) for number, g in self.index_of.items())
        return {number: kept for number, kept in pairs if kept is not None}

    def partner(self, number: int) -> int | None:
        g = self.run(self.s, PARTNER, self.index_of[number])
        return None if g == NONE else int(self.s.groups.group[g].number)

    def restart(self) -> None:
        """The same groups and stored lists in a new shard, as another worker takes them over."""
        stored, groups = self.stored(), sorted(self.twin.groups.items())
        number_next = self.next_number
        self.index_of, self.free = {}, []
        self.__post_init__()
        for number, (lo, hi, members) in groups:
            self.insert(lo, hi, members, number)
        self.next_number = number_next
        self.scanned.lists = dict(stored)
        state = self.s.state[0]
        self.run(self.s, CLEAR, 0)
        state.n_changed = state.n_gone = state.n_journal = 0
        self.entry_of = {}
        self.reload()
        entries = [entry for kept in stored.values() for entry in kept.neighbours]
        lists.restore_lists(
            self.s,
            np.array([self.index_of[number] for number in stored], dtype=np.int64),
            np.array([kept.floor for kept in stored.values()]),
            np.cumsum([len(kept.neighbours) for kept in stored.values()], dtype=np.int64),
            np.array([self.index_of[other] for other, _ in entries], dtype=np.int64),
            np.array([score for _, score in entries]),
        )
