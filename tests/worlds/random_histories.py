"""Random tiny histories of QI groups, with the true values: rows come, go, change, wait, and groups are cut anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from streamer.audit.history import GroupFact, ReleaseFacts

EPISODES_MAX = 13


class RandomHistory:
    """A history whose releases are drawn by a seed; values: of every episode, which the adversary must not see."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._k, self._n_values = self._chance.choice([2, 3]), self._chance.choice([2, 3, 4, 5])
        self.values: list[int] = []
        self._groups: dict[int, frozenset[int]] = {}
        self._number = 0

    def _new(self, other_than: int | None = None) -> int:
        value = self._chance.choice([value for value in range(self._n_values) if value != other_than])
        self.values.append(value)
        return len(self.values) - 1

    def _cut(self, members: Iterable[int]) -> dict[int, frozenset[int]]:
        rest, groups = sorted(members), {}
        self._chance.shuffle(rest)
        while rest:
            size = self._k if len(rest) >= 2 * self._k and self._chance.random() < 0.7 else len(rest)
            self._number += 1
            groups[self._number], rest = frozenset(rest[:size]), rest[size:]
        return groups

    def _facts(self, groups: dict[int, frozenset[int]]) -> dict[int, GroupFact | None]:
        return {
            number: GroupFact(members, Counter(self.values[episode] for episode in members))
            for number, members in groups.items()
        }

    def releases(self) -> Iterable[ReleaseFacts]:
        """The first release, and some more."""
        first = [self._new() for _ in range(self._chance.randrange(self._k, 8))]
        self._groups = self._cut(first)
        yield ReleaseFacts(self._facts(self._groups), came=first)
        for _ in range(self._chance.randrange(1, 6)):
            release = self._next()
            if release is None:
                return
            yield release

    def _next(self) -> ReleaseFacts | None:
        came, went, replaced = self._changes()
        touched = {number for number, members in self._groups.items() if members.intersection(went)}
        touched |= {number for number in self._groups if self._chance.random() < 0.4}
        for number in (*sorted(touched), *sorted(self._groups)):
            touched.add(number)
            pool = set().union(*(self._groups[one] for one in touched)).difference(went).union(came)
            if len(pool) >= self._k:
                break
        else:
            return None
        if self._chance.random() < 0.2 and len(pool) > self._k:
            pool.discard(self._chance.choice(sorted(pool)))  # it waits, and is published no more
        groups = self._cut(pool)
        self._groups = {number: group for number, group in self._groups.items() if number not in touched} | groups
        facts = dict.fromkeys(touched, None) | self._facts(groups)
        return ReleaseFacts(facts, came, went, replaced)

    def _changes(self) -> tuple[list[int], list[int], dict[int, int]]:
        """Episodes that come and go; of those that come by a change of value, the ones that they replace."""
        came: list[int] = []
        went: list[int] = []
        replaced: dict[int, int] = {}
        for _ in range(self._chance.choice([1, 1, 1, 2, 3])):
            there = sorted(set().union(*self._groups.values()).difference(went))
            dice = self._chance.random()
            if dice < 0.4 and len(self.values) < EPISODES_MAX:
                came.append(self._new())
            elif dice < 0.6 and len(there) > self._k:
                went.append(self._chance.choice(there))
            elif dice < 0.8 and there and len(self.values) < EPISODES_MAX:
                old = self._chance.choice(there)
                went.append(old)
                came.append(self._new(other_than=self.values[old]))
                replaced[came[-1]] = old
        return came, went, replaced
