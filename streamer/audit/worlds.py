"""Exact posteriors: every possible world counts once, and none is written down.

An *episode* is a time in which one row has one sensitive value. A *world* gives each episode a value. A fact says that
a set of episodes has a multiset of values (`SetFact`), or that two episodes have the same value or different ones
(`PairFact`). All worlds in which every fact holds are equally likely.

Worlds are counted, not listed: episode by episode, of all that was decided before only what a fact still needs is kept.
Facts that share no episode are independent, so each connected part is counted by itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from streamer.errors import LawViolated, UsageError

Episode: TypeAlias = Any  # hashable, and so is a value
Value: TypeAlias = Any
Posterior: TypeAlias = Mapping[Value, Fraction]


class SetFact(NamedTuple):
    """These episodes have this multiset of values."""

    episodes: frozenset[Episode]
    counts: Mapping[Value, int]


class PairFact(NamedTuple):
    """Two episodes have the same value, or different ones."""

    one: Episode
    other: Episode
    same: bool


class TooManyWorlds(UsageError):
    """A part is too entangled to be counted exactly."""


class Impossible(LawViolated):
    """No world holds all facts, so one of them is wrong."""


STATES_MAX = 20_000  # that are kept at the same time

_State: TypeAlias = tuple[Hashable, ...]  # what each open fact still needs


def fact(episodes: Iterable[Episode], values: Iterable[Value]) -> SetFact:
    """A fact of episodes and one value each, in no particular order.

    >>> fact("xy", "ab").counts == {"a": 1, "b": 1}
    True
    """
    return SetFact(frozenset(episodes), Counter(values))


def posteriors(
    sets: Collection[SetFact], pairs: Collection[PairFact] = (), states_max: int = STATES_MAX
) -> dict[Episode, Posterior]:
    """The probability of every value of every episode that a set fact names; values of probability 0 are left out.

    Raises Impossible, and TooManyWorlds if more than `states_max` states would be kept.

    >>> found = posteriors([fact("wxyz", "aabc"), fact("w", "b")])
    >>> {value: str(chance) for value, chance in sorted(found["x"].items())}
    {'a': '2/3', 'c': '1/3'}
    """
    found: dict[Episode, Posterior] = {}
    for some_sets, some_pairs in connected(sets, pairs):
        found |= _ConnectedFacts(some_sets, some_pairs, states_max).posteriors()
    return found


def connected(sets: Collection[SetFact], pairs: Collection[PairFact]) -> Iterable[tuple[list[SetFact], list[PairFact]]]:
    """The facts in parts that share no episode; pairs with an episode that no set names say nothing."""
    parent: dict[Episode, Episode] = {}

    def root(episode: Episode) -> Episode:
        while (above := parent.setdefault(episode, episode)) != episode:
            parent[episode] = parent.setdefault(above, above)
            episode = above
        return episode

    for one in sets:
        first, *others = one.episodes
        for other in others:
            parent[root(other)] = root(first)
        root(first)
    known = [pair for pair in pairs if pair.one in parent and pair.other in parent]
    for pair in known:
        parent[root(pair.one)] = root(pair.other)
    parts: dict[Episode, tuple[list[SetFact], list[PairFact]]] = defaultdict(lambda: ([], []))
    for one in sets:
        parts[root(next(iter(one.episodes)))][0].append(one)
    for pair in known:
        parts[root(pair.one)][1].append(pair)
    return parts.values()


class _ConnectedFacts:
    """Connected facts, counted along an order of their episodes."""

    def __init__(self, sets: Sequence[SetFact], pairs: Sequence[PairFact], states_max: int) -> None:
        distinct: dict[frozenset[Episode], SetFact] = {}
        for one in sets:
            known = distinct.setdefault(one.episodes, one)
            if known.counts != one.counts or sum(one.counts.values()) != len(one.episodes):
                raise Impossible("two facts about one set of rows contradict each other")
        self._sets, self._pairs, self._states_max = list(distinct.values()), pairs, states_max
        self._of: dict[Episode, list[int]] = defaultdict(list)
        for number, one in enumerate(self._sets):
            for episode in one.episodes:
                self._of[episode].append(number)
        self._order = self._ordered()
        self._keys = [tuple(sorted(one.counts, key=repr)) for one in self._sets]

    def _ordered(self) -> list[Episode]:
        """The episodes, such that few facts are open at a time: always one of the open fact that lacks the fewest."""
        lacking = {number: set(one.episodes) for number, one in enumerate(self._sets)}
        order: list[Episode] = []
        opened: set[int] = set()
        while lacking:
            number = min(lacking, key=lambda n: (n not in opened, len(lacking[n]), n))
            episode = min(lacking[number], key=lambda e: (sum(n not in opened for n in self._of[e]), repr(e)))
            order.append(episode)
            for n in self._of[episode]:
                opened.add(n)
                lacking[n].discard(episode)
                if not lacking[n]:
                    del lacking[n]
        return order

    def posteriors(self) -> dict[Episode, Posterior]:
        if len(self._sets) == 1 and not self._pairs:
            (one,) = self._sets
            shares = {value: Fraction(count, len(one.episodes)) for value, count in one.counts.items()}
            return dict.fromkeys(one.episodes, shares)
        steps, layers = self._forward()
        ways: dict[_State, int] = dict.fromkeys(layers[-1], 1)
        total = sum(layers[-1].values())
        if not total:
            raise Impossible("no values of the rows are in accordance with all facts")
        found: dict[Episode, Posterior] = {}
        for episode, moves, before in reversed(list(zip(self._order, steps, layers[:-1], strict=True))):
            counts: dict[Value, int] = defaultdict(int)
            ways_before: dict[_State, int] = defaultdict(int)
            for state, value, after in moves:
                if after in ways:
                    ways_before[state] += ways[after]
                    counts[value] += before[state] * ways[after]
            ways = ways_before
            found[episode] = {value: Fraction(n, total) for value, n in counts.items()}
        return found

    def _forward(self) -> tuple[list[list[tuple[_State, Value, _State]]], list[dict[_State, int]]]:
        """The moves of every step (state, value, state after it), and the number of ways to every state."""
        lacking = [len(one.episodes) for one in self._sets]
        place = {episode: i for i, episode in enumerate(self._order)}
        open_sets: list[int] = []
        held: list[Episode] = []  # episodes whose value a pair still needs
        layers: list[dict[_State, int]] = [{(): 1}]
        steps = []
        for i, episode in enumerate(self._order):
            opening = [number for number in self._of[episode] if number not in open_sets]
            open_now = open_sets + opening
            for number in self._of[episode]:
                lacking[number] -= 1
            checks = [
                (held.index(other), pair.same)
                for pair in self._pairs
                for mine, other in ((pair.one, pair.other), (pair.other, pair.one))
                if mine == episode and place[other] < i
            ]
            held_now = [*held, episode]
            needed = {
                mine for pair in self._pairs for mine, other in ((pair.one, pair.other), (pair.other, pair.one))
                if place[other] > i
            }  # fmt: skip
            step = _EpisodeStep(
                [open_now.index(number) for number in self._of[episode]],
                [self._keys[number] for number in open_now],
                tuple(tuple(self._sets[n].counts[key] for key in self._keys[n]) for n in opening),
                len(open_sets),
                checks,
                [j for j, number in enumerate(open_now) if lacking[number]],
                [j for j, one in enumerate(held_now) if one in needed],
            )
            moves, layer = step.taken(layers[-1])
            if len(layer) > self._states_max:
                raise TooManyWorlds(f"more than {self._states_max} states")
            open_sets = [number for number in open_now if lacking[number]]
            held = [one for one in held_now if one in needed]
            steps.append(moves)
            layers.append(layer)
        return steps, layers


class _EpisodeStep(NamedTuple):
    """Gives one episode each value that it may have. A state is what the open sets lack, then the held values."""

    mine: Sequence[int]  # the open sets that hold the episode
    keys: Sequence[tuple[Value, ...]]  # the values of every open set, in the order of its counts
    opening: tuple[tuple[int, ...], ...]  # the counts of the sets that this episode opens
    n_open: int  # sets that were open before
    checks: Sequence[tuple[int, bool]]  # a held value, and whether this one is the same
    kept_sets: Sequence[int]
    kept_values: Sequence[int]

    def taken(self, layer: Mapping[_State, int]) -> tuple[list[tuple[_State, Value, _State]], dict[_State, int]]:
        moves: list[tuple[_State, Value, _State]] = []
        after: dict[_State, int] = defaultdict(int)
        for state, ways in layer.items():
            lacks: list[tuple[int, ...]] = [*state[: self.n_open], *self.opening]  # type: ignore[list-item]
            held = state[self.n_open :]
            first = self.mine[0]
            for value, count in zip(self.keys[first], lacks[first], strict=True):
                if not count or any((held[j] == value) is not same for j, same in self.checks):
                    continue
                left = self._without(lacks, value)
                if left is None:
                    continue
                values = [*held, value]
                new = (*(left[j] for j in self.kept_sets), *(values[j] for j in self.kept_values))
                moves.append((state, value, new))
                after[new] += ways
        return moves, after

    def _without(self, lacks: Sequence[tuple[int, ...]], value: Value) -> list[tuple[int, ...]] | None:
        left = list(lacks)
        for j in self.mine:
            keys = self.keys[j]
            if value not in keys:
                return None
            at = keys.index(value)
            if not left[j][at]:
                return None
            left[j] = (*left[j][:at], left[j][at] - 1, *left[j][at + 1 :])
        return left
