"""The knowledge of an adversary: counts, posteriors and their history, for any kind of changelog."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from fractions import Fraction
from typing import Any, NamedTuple

from streamer.audit.candidates import Candidates
from streamer.audit.history import ATTACKS, GroupFact, ReleaseFacts, ReleaseHistory
from streamer.audit.worlds import PairFact, SetFact, TooManyWorlds, connected, posteriors
from streamer.shown import Shape, plural
from streamer.table.row import Values
from streamer.table.schema import Table

EXACT_EPISODES_MAX = 60  # connected facts about more episodes are not counted exactly
EXACT_STATES_MAX = 500
"""States that are kept while the worlds of connected facts are counted; if there are more, they are not counted."""

BARS = 20  # of the picture of posteriors
EXAMPLES_MAX = 10


class Happened(IntFlag):
    """Events in the life of an episode."""

    NOTHING = 0
    INSERTED = 1
    DELETED = 2
    MODIFIED = 4  # it began or ended by a change of its value
    MOVED = 8  # its quasi-identifiers changed


class Share(NamedTuple):
    """The number of some episodes, and of those pinned to one value."""

    episodes: int
    pinned: int


class Example(NamedTuple):
    """One episode that is pinned. row: a token, or the source key; value: only if raw values are asked for."""

    row: str
    attack: str
    release: int | None  # None: by what comes after the last one
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Findings about the published episodes: times in which one row had one sensitive value.

    worst, mean: the chance that the adversary's best guess about an episode is right. For `exact` episodes it is the
    exact posterior, for the others a lower bound. linked_rows: of those published at the end, how many can be one
    person's only. bars: episodes by that chance, from 0 to 1. timeline: of each release its number, the published
    episodes so far, and how many of them were pinned by then.
    """

    episodes: int
    pinned: int
    kinds: Mapping[str, Share]
    attacks: Mapping[str, int]
    candidates: Mapping[str, int]
    worst: float
    mean: float
    exact: int
    linked_rows: int
    published_rows: int
    bars: Sequence[int]
    timeline: Sequence[tuple[int, int, int]]
    examples: Sequence[Example] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it, without what only pictures need."""
        plain = ("episodes", "pinned", "attacks", "candidates", "exact", "linked_rows", "published_rows")
        named = {name: getattr(self, name) for name in plain}
        chances = {"worst": round(self.worst, 6), "mean": round(self.mean, 6)}
        examples = [{name: text for name, text in one._asdict().items() if text is not None} for one in self.examples]
        kinds = {name: share._asdict() for name, share in self.kinds.items()}
        return named | chances | {"kinds": kinds, "examples": examples}


def bound_of(table: Table) -> float | None:
    """The least `beta` that table.yaml asks for: who guesses all values of a person is right no more often."""
    return min((float(asked.beta) for _, asked in table.demands if asked.beta is not None), default=None)


def judged(found: Found, bound: float | None, none_known: bool) -> dict[str, Any]:
    """The findings as plain values, with a verdict; bound: the chance of a right guess that is allowed.

    none_known: no value may be known for certain.
    """
    is_ok = not (none_known and found.pinned) and (bound is None or found.worst <= bound)
    known = f"{found.pinned:,} of {plural(found.episodes, 'published value')} can be known for certain"
    if is_ok:
        guess = f"{found.worst:.3g} at worst, {found.mean:.3g} on average"
        said = f"{known}; the best guess is right with a chance of {guess}."
    else:
        limit = "none may be" if none_known and found.pinned else f"{bound:g} is allowed"
        said = f"{known}, and the best guess is right with a chance of {found.worst:.3g}: {limit}."
    return {**found.as_dict(), "bound": bound, "ok": is_ok, "verdict": said}


def found_lines(found: Found) -> Iterator[Shape]:
    """The findings for people."""
    lines: dict[str, object] = {"published values": found.episodes, "known for certain": found.pinned}
    lines |= {f"known, {name}": f"{one.pinned:,} of {one.episodes:,}" for name, one in found.kinds.items()}
    lines |= {f"by {name}": number for name, number in found.attacks.items()}
    lines |= {f"{name} left": number for name, number in found.candidates.items()}
    lines |= {"worst guess": f"{found.worst:.3g}", "mean guess": f"{found.mean:.3g}"}
    lines |= {"counted exactly": found.exact}
    yield lines | {"linked rows": f"{found.linked_rows:,} of {found.published_rows:,}"}
    for one in found.examples:
        value = "" if one.value is None else f", {one.value}"
        since = "after the last release" if one.release is None else f"from release {one.release} on"
        yield f"row {one.row}{value}: known {since} by {one.attack}"


class Episodes:
    """Episodes by number, with their true values, which only the auditor knows, and what happened to them.

    The value of an episode is all sensitive columns of its row together.
    """

    def __init__(self, table: Table) -> None:
        self._sensitive = table.sensitive
        self._counted = table.counted_value
        self._numbers: dict[tuple[str | None, ...], int] = {}
        self._texts: list[Values] = []  # by number, as they were written first
        self.values = array("q")
        self.source_keys: list[str] = []
        self.happened = bytearray()
        self.timeline: list[tuple[int, int, int]] = []

    def value_number(self, values: Values) -> int:
        """The number of a row's sensitive values; values: of all kept columns."""
        number = self._numbers.setdefault(tuple([self._counted(values[i]) for i in self._sensitive]), len(self._texts))
        if number == len(self._texts):
            self._texts.append(tuple([values[i] for i in self._sensitive]))
        return number

    def begin(self, source_key: str, value: int, how: Happened) -> int:
        """A new episode; returns its number."""
        self.values.append(value)
        self.source_keys.append(source_key)
        self.happened.append(how)
        return len(self.values) - 1

    def note(self, episode: int, what: Happened) -> None:
        """Notes what has happened to an episode."""
        self.happened[episode] |= what

    def note_release(self, number: int, history: ReleaseHistory) -> None:
        """Notes what was known when a release was over."""
        candidates = history.candidates
        self.timeline.append((number, candidates.n_known, len(candidates.pinned)))

    def found(self, history: ReleaseHistory, token: Callable[[str], str], raw: bool = False) -> Found:
        """The adversary's knowledge at the end. token: a report's name of a row, by its source key; raw: show values.

        An episode is pinned if one of its sensitive columns can have one value alone.
        """
        candidates = history.candidates
        columns = list(zip(*self._numbers, strict=True))
        guesses = dict.fromkeys(candidates.pinned, 1.0)
        guesses |= exact_guesses(history, columns)
        exact = len(guesses)
        fewest = {e: min(len({column[value] for value in may_be}) for column in columns) for e, may_be in candidates}
        for episode, number in fewest.items():
            guesses.setdefault(episode, 1 / number)
        pinned = {episode for episode, guess in guesses.items() if guess == 1}
        linked, rows = linked_rows(history)
        bars = Counter(min(BARS - 1, int(guess * BARS)) for guess in guesses.values())
        return Found(
            episodes=len(guesses),
            pinned=len(pinned),
            kinds=self._kinds(guesses, pinned),
            attacks=dict(Counter(_attack(candidates, episode) for episode in pinned).most_common()),
            candidates=_by_number(1 if episode in pinned else number for episode, number in fewest.items()),
            worst=max(guesses.values(), default=0.0),
            mean=sum(guesses.values()) / max(1, len(guesses)),
            exact=exact,
            linked_rows=linked,
            published_rows=rows,
            bars=[bars[i] for i in range(BARS)],
            timeline=self.timeline,
            examples=[*self._examples(candidates, token, raw)],
        )

    def _kinds(self, episodes: Iterable[int], pinned: set[int]) -> dict[str, Share]:
        """Episodes by what has happened to them; one may be of several kinds."""
        all_of: Counter[int] = Counter(self.happened[episode] for episode in episodes)
        known = Counter(self.happened[episode] for episode in pinned)

        def total(counts: Counter[int], what: Happened) -> int:
            return sum(n for how, n in counts.items() if how & what or how == what)

        return {name: Share(total(all_of, what), total(known, what)) for name, what in KINDS.items()}

    def _examples(self, candidates: Candidates, token: Callable[[str], str], raw: bool) -> Iterator[Example]:
        """The first episodes that each attack pinned; the number of each is limited, so that all attacks are shown."""
        by_attack: dict[str, list[tuple[int, int]]] = {}
        for order, episode in enumerate(candidates.pinned, start=1):
            by_attack.setdefault(_attack(candidates, episode), []).append((order, episode))
        each = max(1, EXAMPLES_MAX // max(1, len(by_attack)))
        pinned_by_then = [pinned for _, _, pinned in self.timeline]
        for attack, pins in by_attack.items():
            for order, episode in pins[:each]:
                row = self.source_keys[episode]
                value = b", ".join(self._texts[candidates.pinned[episode]]).decode() if raw else None
                release = self.timeline[bisect_left(pinned_by_then, order)][0] if order <= pinned_by_then[-1] else None
                yield Example(row if raw else token(row), attack, release, value)


KINDS = {
    "inserted": Happened.INSERTED,
    "deleted": Happened.DELETED,
    "modified": Happened.MODIFIED,
    "moved": Happened.MOVED,
    "untouched": Happened.NOTHING,
}


class HistoryAudit:
    """The common part of both audits: the episodes of rows, and the facts of a release.

    persistent: the adversary knows that a row which comes back with the value it had has it still.
    """

    def __init__(self, table: Table, persistent: bool) -> None:
        self.history, self.episodes = ReleaseHistory(), Episodes(table)
        self._table, self._persistent = table, persistent
        self._last_episode: dict[str, int] = {}
        self._delays = self._delayed = 0
        self._begin_release()

    def _begin_release(self) -> None:
        self._came: set[int] = set()
        self._went: set[int] = set()
        self._moved: set[int] = set()
        self._replaced: dict[int, int] = {}
        self._returned: dict[int, int] = {}

    def found(self, token: Callable[[str], str], raw: bool = False) -> Found:
        """The adversary's knowledge at the end (`Episodes.found`)."""
        return self.episodes.found(self.history, token, raw)

    @property
    def delay(self) -> float:
        """The mean number of events, or of changes of rows, between a new value and its publication."""
        return self._delays / max(1, self._delayed)

    def _count_delay(self, events: int) -> None:
        self._delays += events
        self._delayed += 1

    def _begun(self, source_key: str, value: int, how: Happened, before: int | None) -> int:
        """Begins an episode of a row. before: the episode that ends because the value has changed."""
        episode = self.episodes.begin(source_key, value, how)
        self._came.add(episode)
        if before is not None:
            self._replaced[episode] = before
        elif (last := self._last_episode.get(source_key)) is not None and self.episodes.values[last] == value:
            self._returned[episode] = last
        if self._persistent:
            self._last_episode[source_key] = episode
        return episode

    def _ended(self, episode: int, how: Happened) -> None:
        self.episodes.note(episode, how)
        self._went.add(episode)

    def _add_release(self, groups: Mapping[int, GroupFact | None], rebuilt: bool = False) -> None:
        """Gives the facts of a release to the adversary, and begins the next one."""
        happened = self._came, self._went, self._replaced, self._returned, self._moved
        self.history.add(ReleaseFacts(groups, *happened, rebuilt))
        self.history.forget(self._went)
        self._begin_release()


def exact_guesses(history: ReleaseHistory, columns: Sequence[Sequence[bytes]]) -> dict[int, float]:
    """The largest posterior of each episode that is not pinned, if it can be counted.

    columns: of every sensitive column its value in each numbered combination; a guess is about one column.
    """
    guesses: dict[int, float] = {}
    for sets, pairs in connected(*_left_over(history)):
        if len(set().union(*(one.episodes for one in sets))) > EXACT_EPISODES_MAX:
            continue
        try:
            found = posteriors(sets, pairs, EXACT_STATES_MAX)
        except TooManyWorlds:
            continue
        for episode, posterior in found.items():
            best = 0.0
            for column in columns:
                shares: dict[bytes, Fraction] = defaultdict(Fraction)
                for value, chance in posterior.items():
                    shares[column[value]] += chance
                best = max(best, float(max(shares.values())))
            guesses[episode] = best
    return guesses


def _left_over(history: ReleaseHistory) -> tuple[list[SetFact], list[PairFact]]:
    """The facts without the episodes that are pinned, but for those that say what another one is or is not."""
    pinned = history.candidates.pinned
    sets: dict[frozenset[int], SetFact] = {}
    for group in history.facts:
        members = frozenset(episode for episode in group.members if episode not in pinned)
        if members and members not in sets:
            counts = Counter(group.counts)
            counts.subtract(pinned[episode] for episode in group.members if episode in pinned)
            sets[members] = SetFact(members, +counts)
    pairs = [pair for pair in history.pairs if not (pair.one in pinned and pair.other in pinned)]
    for episode in {episode for pair in pairs for episode in (pair.one, pair.other) if episode in pinned}:
        sets[frozenset((episode,))] = SetFact(frozenset((episode,)), {pinned[episode]: 1})
    return list(sets.values()), pairs


def linked_rows(history: ReleaseHistory) -> tuple[int, int]:
    """Counts the published rows that can be one person's only, by the values that only one has, and all of them."""
    linked = rows = 0
    for group in history.groups.values():
        rows += len(group.members)
        single = {value for value, count in group.counts.items() if count == 1}
        holders = Counter(value for e in group.members for value in single.intersection(history.candidates.of(e) or ()))
        linked += sum(count == 1 for count in holders.values())
    return linked, rows


TOGETHER = "all facts together"
"""Pins an episode that only the exact count pins, or of whose sensitive columns one alone is pinned."""


def _attack(candidates: Candidates, episode: int) -> str:
    return ATTACKS[candidates.cause_of[episode]] if episode in candidates.cause_of else TOGETHER


def _by_number(numbers: Iterable[int]) -> dict[str, int]:
    counts = Counter("1" if n == 1 else "2" if n == 2 else "3-4" if n < 5 else "5 and more" for n in numbers)
    return {name: counts[name] for name in ("1", "2", "3-4", "5 and more")}
