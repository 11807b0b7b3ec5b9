"""A history of QI groups as facts: who was in which group, and which values the group had, release by release.

The adversary keeps every release, and knows everything but sensitive values: who is in the table, in which QI group at
every release, when somebody comes, goes or changes, and whether a change changed the sensitive value. So each group of
each release is a fact, and so is what one release differs from the one before in: group by group, a group and those
that its rows came from or went to, and all groups together that exchanged rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamer.audit.candidates import Candidates, Number
from streamer.audit.worlds import PairFact

ATTACKS = {
    0: "one release by itself",
    1: "insert delta",
    2: "delete delta",
    3: "modify delta",
    4: "split intersection",
    5: "merge, then split",
    6: "rebuild",
    7: "move after a change of quasi-identifiers",
    11: "batch of one",
    12: "net delta",
    13: "readmitted survivors",
    14: "same value after a return",
    15: "pooled departures",
}
"""Ways to tell a value, by number: a release that shows one value for a whole group, or a difference of releases."""

FACTS_MIN = 10_000  # that are kept before any are dropped


class GroupFact(NamedTuple):
    """The episodes of a QI group and how often it has each value; merged: they came from several groups."""

    members: frozenset[Number]
    counts: Mapping[Number, int]
    merged: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """One release: its touched QI groups (None: gone), and what has happened since the one before.

    replaced: episode that began when a value changed -> the one that ended. returned: episode of a row that came back,
    or is published again, with the value it had -> the one before, if the adversary may know that. moved: episodes
    whose quasi-identifiers changed.
    """

    groups: Mapping[int, GroupFact | None]
    came: Collection[Number] = ()
    went: Collection[Number] = ()
    replaced: Mapping[Number, Number] = field(default_factory=dict)
    returned: Mapping[Number, Number] = field(default_factory=dict)
    moved: Collection[Number] = ()
    rebuilt: bool = False

    @property
    def several(self) -> bool:
        """True if it holds more than one change of a row."""
        return len(self.came) + len(self.went) - len(self.replaced) + len(self.moved) > 1


class ReleaseHistory:
    """Gives every fact of a history to the adversary.

    facts: of all groups, in order; at times those are dropped of which everything is known, so memory is in proportion
    to what is not known yet.
    """

    def __init__(self) -> None:
        self.candidates = Candidates()
        self.facts: list[GroupFact] = []
        self._facts_max = FACTS_MIN
        self.pairs: list[PairFact] = []  # episodes with different values, or with the same
        self._groups: dict[int, GroupFact] = {}
        self._last: dict[Number, GroupFact] = {}
        self._placed: dict[Number, int] = {}  # episode -> its QI group; not there while it is in none

    @property
    def groups(self) -> Mapping[int, GroupFact]:
        """The QI groups as they are published now."""
        return self._groups

    def add(self, release: ReleaseFacts) -> None:
        """Adds the facts of a release and concludes. Raises Impossible if they contradict what was known."""
        new = {number: group for number, group in release.groups.items() if group is not None}
        old = {number: self._groups[number] for number in release.groups if number in self._groups}
        sources = {number: self._sources(group) for number, group in new.items()}
        new = {number: group._replace(merged=len(sources[number]) > 1) for number, group in new.items()}
        for number, group in new.items():
            for source in sources[number]:
                self._differ(release, [source], [group])
        for olds, news in self._unions(old, new):
            self._differ(release, olds, news)
        self.candidates.conclude()  # else a group that tells the same would be named instead of the difference
        for number, group in new.items():
            self.facts.append(group)
            cause = self._cause_of_move(release, group.members, sources[number]) if len(group.counts) > 1 else 0
            self.candidates.add_set(group.members, group.counts, cause)
        for one, other in release.replaced.items():
            self.pairs.append(PairFact(one, other, same=False))
            self.candidates.differ(one, other, 3)
        for one, other in release.returned.items():
            self.pairs.append(PairFact(one, other, same=True))
            self.candidates.add([one], [other], {}, 14)
        self._take_over(old, new)
        self.candidates.conclude()
        if len(self.facts) > self._facts_max:
            pinned = self.candidates.pinned.keys()
            self.facts = [group for group in self.facts if not group.members <= pinned]
            self._facts_max = 2 * len(self.facts) + FACTS_MIN

    def _take_over(self, old: Mapping[int, GroupFact], new: Mapping[int, GroupFact]) -> None:
        for number, group in old.items():
            del self._groups[number]
            for episode in group.members:
                self._placed.pop(episode, None)
        for number, group in new.items():
            self._groups[number] = group
            for episode in group.members:
                self._last[episode] = group
                self._placed[episode] = number

    def forget(self, episodes: Iterable[Number]) -> None:
        """Drops the place of episodes that have ended: no later group can have them."""
        for episode in episodes:
            self._last.pop(episode, None)
            self._placed.pop(episode, None)

    def _sources(self, group: GroupFact) -> list[GroupFact]:
        """The facts that named the members of a group last."""
        found = {id(last): last for episode in group.members if (last := self._last.get(episode)) is not None}
        return list(found.values())

    def _unions(
        self, old: Mapping[int, GroupFact], new: Mapping[int, GroupFact]
    ) -> Iterator[tuple[list[GroupFact], list[GroupFact]]]:
        """Groups before and after that are to be compared as one: neighbours of one group, and whole exchanges."""
        before: dict[int, set[int]] = defaultdict(set)  # new group -> the old ones of its members
        after: dict[int, set[int]] = defaultdict(set)
        for number, group in new.items():
            for episode in group.members:
                source = self._placed.get(episode)
                if source in old and source is not None:
                    before[number].add(source)
                    after[source].add(number)
        for number, sources in before.items():
            if len(sources) > 1:
                yield [old[source] for source in sources], [new[number]]
        for source, numbers in after.items():
            if len(numbers) > 1:
                yield [old[source]], [new[number] for number in numbers]
        for sources, numbers in _exchanges(before, after):
            if len(sources) > 1 and len(numbers) > 1:
                yield [old[source] for source in sources], [new[number] for number in numbers]

    def _differ(self, release: ReleaseFacts, olds: Sequence[GroupFact], news: Sequence[GroupFact]) -> None:
        """Adds the difference of some groups before and after, and what they share if the difference is a multiset."""
        before = frozenset().union(*(group.members for group in olds))
        now = frozenset().union(*(group.members for group in news))
        plus, minus = before - now, now - before
        surplus: Counter[Number] = Counter()
        for group in olds:
            surplus.update(group.counts)
        whole = dict(surplus)
        for group in news:
            surplus.subtract(group.counts)
        if not (plus or minus):
            return
        cause = self._cause(release, olds, plus, minus, before & now)
        self.candidates.add(plus, minus, surplus, cause)
        gone = {value: count for value, count in surplus.items() if count > 0}
        if sum(gone.values()) == len(plus) and plus and before & now:
            left = {value: count - gone.get(value, 0) for value, count in whole.items()}
            shared = {value: count for value, count in left.items() if count}
            self.candidates.add_set(before & now, shared, self._cause_of_move(release, before & now, olds))

    # -- the names of attacks ---------------------------------------------------------------------------------------

    def _cause(
        self, release: ReleaseFacts, olds: Sequence[GroupFact], plus: frozenset[Number], minus: frozenset[Number],
        shared: frozenset[Number],
    ) -> int:  # fmt: skip
        """The attack that a difference is; plus: who was there before alone, minus: who is there now alone."""
        came, went = minus.intersection(release.came), plus.intersection(release.went)
        if release.rebuilt or not (came or went) or self._have_waited(shared):
            return self._cause_of_move(release, plus | minus | shared, olds)
        if len(went) > 1 and len(olds) > 1:
            return 15
        changed = len(came) == len(went) == 1 and release.replaced.get(next(iter(came))) in went
        one = changed or len(came) + len(went) == 1
        if release.several:
            return 11 if one else 12
        return 3 if changed else 12 if came and went else 1 if came else 2

    def _cause_of_move(self, release: ReleaseFacts, members: Collection[Number], olds: Sequence[GroupFact]) -> int:
        """The attack if rows only changed groups."""
        if release.rebuilt:
            return 6
        if any(episode in release.moved for episode in members):
            return 7
        if self._have_waited(members):
            return 13
        return 5 if len(olds) > 1 or any(group.merged for group in olds) else 4

    def _have_waited(self, episodes: Collection[Number]) -> bool:
        """True if some were published before, and not in the release before this one."""
        return any(episode in self._last and episode not in self._placed for episode in episodes)


def _exchanges(before: Mapping[int, set[int]], after: Mapping[int, set[int]]) -> Iterator[tuple[set[int], set[int]]]:
    """The old and new groups that exchange rows, directly or by others."""
    seen: set[int] = set()
    for first in before:
        if first in seen:
            continue
        sources: set[int] = set()
        numbers, waiting = {first}, [first]
        while waiting:
            for source in before[waiting.pop()] - sources:
                sources.add(source)
                fresh = after[source] - numbers
                numbers |= fresh
                waiting.extend(fresh)
        seen |= numbers
        yield sources, numbers
