"""Exact posteriors: golden histories, a twin that writes every world down, and what is refused."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from streamer.audit.worlds import Impossible, PairFact, SetFact, TooManyWorlds, fact, posteriors


class Golden(NamedTuple):
    facts: str  # "xyz=abc": these episodes have these values
    posteriors: str  # "x: a 1/2 b 1/2; n: d 1"
    pairs: str = ""  # "xX": they differ; "xX=": they are the same


GOLDEN = {
    "insert": Golden("xyz=abc xyzn=abcd", "n: d 1; x: a 1/3 b 1/3 c 1/3"),
    "delete": Golden("xyz=abc yz=bc", "x: a 1"),
    "modify": Golden("xyz=abc Xyz=dbc", "x: a 1; X: d 1"),
    "split": Golden("wxyz=aabc wx=ab yz=ac", "x: a 1/2 b 1/2"),
    "merge, then split": Golden("uvx=abc wyz=bdd uvxwyz=abcbdd xwy=bdd", "x: b 1"),
    "rebuild": Golden("uvx=abc xyz=cde", "x: c 1"),
    "move": Golden("uvx=abc tyz=def xtyz=cdef", "x: c 1"),
    "retire and readmit": Golden("xyz=abc yzn=bcd", "x: a 1"),
    "readmitted with the same values": Golden("xyz=abc yzn=abc", "x: a 1/3 b 1/3 c 1/3"),
    "sealed, with a ghost": Golden("xyz=abc nmo=abd", "x: a 1/3 b 1/3 c 1/3; n: a 1/3 b 1/3 d 1/3"),
    "one is known": Golden("wxyz=aabc w=b", "x: a 2/3 c 1/3"),
    "a change of value": Golden("xyz=abc Xuv=aab", "x: a 1/6 b 1/3 c 1/2", "xX"),
    "the same value": Golden("xyz=abc Xuv=cde", "x: c 1", "xX="),
    "departures by cohorts": Golden("uvwxyz=aabbcd xyz=abc uvw=abd", "x: a 1/3 b 1/3 c 1/3"),
    "pooled departures": Golden("uvx=abc wyz=def xz=ad", "x: a 1"),
    "pooled departures of alike groups": Golden("uvx=abc wyz=abc xz=ab", "x: a 1/2 b 1/2"),
    "alike groups cut anew": Golden("uvx=abc wyz=abc uyx=abc wvz=abc", "x: a 1/3 b 1/3 c 1/3"),
}


def facts_of(golden: Golden) -> tuple[list[SetFact], list[PairFact]]:
    sets = [fact(*text.split("=")) for text in golden.facts.split()]
    return sets, [PairFact(text[0], text[1], text.endswith("=")) for text in golden.pairs.split()]


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_golden_histories_have_their_exact_posteriors(golden: Golden) -> None:
    found = posteriors(*facts_of(golden))
    for line in golden.posteriors.split("; "):
        episode, _, rest = line.partition(": ")
        words = rest.split()
        assert found[episode] == {v: Fraction(p) for v, p in zip(words[::2], words[1::2], strict=True)}, episode


def by_writing_worlds_down(sets: list[SetFact], pairs: list[PairFact]) -> dict[int, dict[int, Fraction]]:
    """The same by every world of all values."""
    episodes = sorted(set().union(*(one.episodes for one in sets)))
    values = sorted(set().union(*(one.counts for one in sets)))
    counts: dict[int, Counter[int]] = {episode: Counter() for episode in episodes}
    total = 0
    for chosen in product(values, repeat=len(episodes)):
        world = dict(zip(episodes, chosen, strict=True))
        holds = all(Counter(world[e] for e in one.episodes) == one.counts for one in sets)
        if holds and all((world[pair.one] == world[pair.other]) is pair.same for pair in pairs):
            total += 1
            for episode, value in world.items():
                counts[episode][value] += 1
    return {e: {v: Fraction(n, total) for v, n in counted.items()} for e, counted in counts.items()}


@pytest.mark.parametrize("seed", range(60))
def test_counting_worlds_is_writing_them_down(seed: int) -> None:
    chance = Random(seed)
    truth = [chance.randrange(3) for _ in range(7)]
    sets, pairs = [], []
    for _ in range(chance.randrange(1, 5)):
        members = chance.sample(range(7), chance.randrange(1, 6))
        sets.append(fact(members, (truth[episode] for episode in members)))
    named = sorted(set().union(*(one.episodes for one in sets)))
    for _ in range(chance.randrange(3)):
        if len(named) > 1:
            one, other = chance.sample(named, 2)
            pairs.append(PairFact(one, other, truth[one] == truth[other]))
    assert posteriors(sets, pairs) == by_writing_worlds_down(sets, pairs)


@pytest.mark.parametrize(
    "sets",
    [
        pytest.param([fact("xy", "ab"), fact("xy", "ac")], id="two multisets of one set"),
        pytest.param([fact("xy", "abc")], id="more values than rows"),
        pytest.param([fact("xy", "ab"), fact("xz", "cd")], id="nothing in common"),
    ],
)
def test_facts_that_contradict_each_other_are_refused(sets: list[SetFact]) -> None:
    with pytest.raises(Impossible):
        posteriors(sets)


def test_what_is_too_entangled_is_refused_and_not_guessed() -> None:
    sets = [fact(range(9), range(9)), fact(range(4, 13), range(4, 13))]
    with pytest.raises(TooManyWorlds):
        posteriors(sets, states_max=50)
    assert posteriors(sets)[8].keys() == {4, 5, 6, 7, 8}
