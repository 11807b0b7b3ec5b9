"""Certain conclusions from many facts: the values that an episode may still have.

Each fact becomes an equation: how often each value occurs in some episodes, less how often in some others (in none, if
it is the fact of one set). What is known of one episode is taken out of every equation that names it, and each equation
by itself is asked what must hold. So nothing is concluded that is not certain, but not all that is certain: what is
pinned here is a lower bound of what a history gives away (`streamer.audit.worlds` is exact, for few episodes).

* An equation names a value as often as episodes may have it: then all of these have it.
* The surplus of one side fills that side: then the equation is two sets, each with its own multiset.
* Episodes that must share some values use all there are of them: then no other episode has one of these.

Time is in proportion to the equations' sizes and to how often one of their episodes changes; equations of more than
`EPISODES_MAX` episodes are asked once, when they are added.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from streamer.audit.worlds import Impossible

Number: TypeAlias = int  # of an episode, and of a value

EPISODES_MAX = 200
EQUATIONS_MAX = 64  # that an episode keeps; of more, the oldest ones are dropped
KINDS_MAX = 40  # different sets of candidates in one equation; if there are more, none is looked at as a whole


class Equation:
    """Values of `plus` less values of `minus`: `surplus` has each value's difference, unless it is 0."""

    __slots__ = ("cause", "is_over", "is_waiting", "minus", "plus", "surplus")

    def __init__(self, plus: Iterable[Number], minus: Iterable[Number], surplus: Mapping[Number, int], cause: int):
        self.plus, self.minus = set(plus), set(minus)
        self.surplus = {value: count for value, count in surplus.items() if count}
        self.cause = cause
        self.is_over = self.is_waiting = False

    def __len__(self) -> int:
        return len(self.plus) + len(self.minus)

    def take_out(self, episode: Number, value: Number) -> None:
        """Takes out an episode whose value is known."""
        side, sign = (self.plus, -1) if episode in self.plus else (self.minus, 1)
        side.remove(episode)
        left = self.surplus.pop(value, 0) + sign
        if left:
            self.surplus[value] = left


class Candidates:
    """The adversary. `pinned`: episodes with one candidate and its value; `cause_of`: the cause of the last equation.

    Values and episodes are numbers that the caller gives. Every method raises Impossible if the facts contradict.
    """

    def __init__(self) -> None:
        self.pinned: dict[Number, Number] = {}
        self.cause_of: dict[Number, int] = {}
        self._may_be: dict[Number, frozenset[Number]] = {}
        self._equations: dict[Number, deque[Equation]] = {}
        self._differs: dict[Number, list[Number]] = {}
        self._waiting: deque[Equation] = deque()

    def of(self, episode: Number) -> Collection[Number] | None:
        """The values that an episode may have; None: any, because nothing is known of it."""
        value = self.pinned.get(episode)
        return self._may_be.get(episode) if value is None else (value,)

    @property
    def n_known(self) -> int:
        """The number of episodes that any set has named."""
        return len(self._may_be)

    def __iter__(self) -> Iterator[tuple[Number, Collection[Number]]]:
        """These episodes, and the values that each may have."""
        return iter(self._may_be.items())

    def add(
        self, plus: Iterable[Number], minus: Iterable[Number], surplus: Mapping[Number, int], cause: int = 0
    ) -> None:
        """Adds an equation; `conclude` says what follows. cause: the attack that it is if it pins an episode."""
        equation = Equation(plus, minus, surplus, cause)
        for episode in (*equation.plus, *equation.minus):
            if episode in self.pinned:
                equation.take_out(episode, self.pinned[episode])
        if len(equation) <= EPISODES_MAX:
            for episode in (*equation.plus, *equation.minus):
                kept = self._equations.setdefault(episode, deque(maxlen=EQUATIONS_MAX))
                kept.append(equation)
        self._wait(equation)

    def add_set(self, episodes: Iterable[Number], counts: Mapping[Number, int], cause: int = 0) -> None:
        """Adds the fact that these episodes have this multiset."""
        self.add(episodes, (), counts, cause)

    def differ(self, one: Number, other: Number, cause: int = 0) -> None:
        """Adds the fact that two episodes have different values."""
        for mine, its in ((one, other), (other, one)):
            self._differs.setdefault(mine, []).append(its)
            if its in self.pinned:
                self._exclude(mine, self.pinned[its], cause)

    def conclude(self) -> None:
        """Draws every conclusion from what was added."""
        while self._waiting:
            equation = self._waiting.popleft()
            equation.is_waiting = False
            if not equation.is_over:
                self._ask(equation)

    def _wait(self, equation: Equation) -> None:
        if not (equation.is_waiting or equation.is_over):
            equation.is_waiting = True
            self._waiting.append(equation)

    # -- one equation -----------------------------------------------------------------------------------------------

    def _ask(self, equation: Equation) -> None:
        plus, minus, surplus = equation.plus, equation.minus, equation.surplus
        more = sum(count for count in surplus.values() if count > 0)
        less = more - sum(surplus.values())
        if len(plus) - more != len(minus) - less or more > len(plus):
            raise Impossible("facts contradict each other: a set of rows has not as many values as rows")
        if not (plus or minus):
            equation.is_over = True
        elif more == len(plus) and minus:
            equation.is_over = True
            if plus:
                self.add_set(plus, {value: count for value, count in surplus.items() if count > 0}, equation.cause)
            self.add_set(minus, {value: -count for value, count in surplus.items() if count < 0}, equation.cause)
        elif minus:
            self._ask_difference(equation)
        else:
            self._ask_set(equation)

    def _ask_set(self, equation: Equation) -> None:
        counts = equation.surplus
        for episode in list(equation.plus):
            may_be = self._may_be.get(episode)
            left = frozenset(counts) if may_be is None else may_be.intersection(counts)
            if may_be is None or len(left) < len(may_be):
                self._narrow(episode, left, equation.cause)
        for value, holders in self._holders(equation.plus).items():
            count = equation.surplus.get(value, 0)
            if count > len(holders):
                raise Impossible("facts contradict each other: a value has fewer rows than it needs")
            if count and count == len(holders):
                for episode in holders:
                    self._pin(episode, value, equation.cause)
        if len(equation.surplus) > 1:
            self._share_out(equation)

    def _share_out(self, equation: Equation) -> None:
        """Looks for values that are used up by the episodes that can have nothing else."""
        by_candidates = Counter(self._may_be[episode] for episode in equation.plus)
        whole = frozenset(equation.surplus)
        if len(by_candidates) > KINDS_MAX:
            return
        for some in by_candidates:
            if some >= whole:
                continue
            bound = sum(rows for these, rows in by_candidates.items() if these <= some)
            there = sum(equation.surplus.get(value, 0) for value in some)
            if bound > there:
                raise Impossible("facts contradict each other: more rows share some values than there are of them")
            others = [e for e in equation.plus if not self._may_be[e] <= some and not self._may_be[e].isdisjoint(some)]
            if bound == there and others:
                for episode in others:
                    self._narrow(episode, self._may_be[episode] - some, equation.cause)
                return  # what was counted above has changed; the equation waits to be asked again

    def _ask_difference(self, equation: Equation) -> None:
        """Concludes for each value from how often it may be on either side."""
        free_plus, free_minus = (sum(e not in self._may_be for e in of) for of in (equation.plus, equation.minus))
        on_plus, on_minus = self._holders(equation.plus), self._holders(equation.minus)
        for value in {*on_plus, *on_minus, *equation.surplus}:
            count = equation.surplus.get(value, 0)
            most, least = len(on_plus.get(value, ())) + free_plus, -len(on_minus.get(value, ())) - free_minus
            if not least <= count <= most:
                raise Impossible("facts contradict each other: a value has fewer rows than it needs")
            if count == most:
                self._settle(equation.plus, equation.minus, value, equation.cause)
            elif count == least:
                self._settle(equation.minus, equation.plus, value, equation.cause)

    def _settle(self, having: Iterable[Number], lacking: Iterable[Number], value: Number, cause: int) -> None:
        """Gives a value to all of one side that may have it, and takes it from the other side."""
        for episode in list(having):
            if episode not in self._may_be or value in self._may_be[episode]:
                self._pin(episode, value, cause)
        for episode in list(lacking):
            self._exclude(episode, value, cause)

    def _holders(self, episodes: Iterable[Number]) -> dict[Number, list[Number]]:
        """Value -> those of the episodes that may have it, as far as anything is known of them."""
        found: dict[Number, list[Number]] = {}
        for episode in episodes:
            for value in self._may_be.get(episode, ()):
                found.setdefault(value, []).append(episode)
        return found

    # -- one episode ------------------------------------------------------------------------------------------------

    def _exclude(self, episode: Number, value: Number, cause: int) -> None:
        if self.pinned.get(episode) == value:
            raise Impossible("facts contradict each other: a row cannot have the only value that is left")
        may_be = self._may_be.get(episode)
        if may_be is not None and value in may_be and episode not in self.pinned:
            self._narrow(episode, may_be - {value}, cause)

    def _narrow(self, episode: Number, left: frozenset[Number], cause: int) -> None:
        if not left:
            raise Impossible("facts contradict each other: no value is left for a row")
        self._may_be[episode] = left
        if len(left) == 1:
            self._pin(episode, next(iter(left)), cause)
            return
        for equation in self._live_equations(episode):
            self._wait(equation)

    def _pin(self, episode: Number, value: Number, cause: int) -> None:
        if self.pinned.get(episode, value) != value:
            raise Impossible("facts contradict each other: a row would have two values")
        if episode in self.pinned:
            return
        self.pinned[episode] = value
        self.cause_of[episode] = cause
        self._may_be[episode] = frozenset((value,))
        for equation in self._live_equations(episode):
            equation.take_out(episode, value)
            self._wait(equation)
        self._equations.pop(episode, None)
        for other in self._differs.pop(episode, ()):
            self._exclude(other, value, cause)

    def _live_equations(self, episode: Number) -> Sequence[Equation]:
        """The equations that still name an episode; drops the others."""
        kept = self._equations.get(episode, ())
        live = [one for one in kept if not one.is_over and (episode in one.plus or episode in one.minus)]
        if len(live) < len(kept):
            self._equations[episode] = deque(live, EQUATIONS_MAX)
        return live
