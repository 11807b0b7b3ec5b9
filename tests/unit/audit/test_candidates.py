"""What follows for certain: each rule by itself, contradictions, and no pin that exact counting refutes."""

from __future__ import annotations

from collections import Counter

import pytest

from streamer.audit.candidates import Candidates
from streamer.audit.history import ReleaseHistory
from streamer.audit.worlds import Impossible, SetFact, posteriors
from worlds.random_histories import RandomHistory


def concluded(*sets: tuple[str, str], minus: tuple[tuple[str, str, str], ...] = ()) -> dict[str, str]:
    """Episodes and what each may be, after sets ("xy", "ab") and differences ("x", "y", "a-b": plus less minus)."""
    candidates = Candidates()
    for episodes, values in sets:
        candidates.add_set(map(ord, episodes), Counter(map(ord, values)))
    for plus, less, surplus in minus:
        more, _, fewer = surplus.partition("-")
        counts = Counter(map(ord, more))
        counts.subtract(map(ord, fewer))
        candidates.add(map(ord, plus), map(ord, less), counts)
    candidates.conclude()
    return {chr(episode): "".join(sorted(map(chr, may_be))) for episode, may_be in candidates}


@pytest.mark.parametrize(
    ("sets", "minus", "episode", "may_be"),
    [
        pytest.param([("xyz", "abc"), ("xuv", "cde")], (), "x", "c", id="the one value of two groups"),
        pytest.param([("xy", "ab"), ("xu", "ac"), ("yv", "bd")], (), "x", "a", id="what is left when another is known"),
        pytest.param([("xyz", "aab"), ("zu", "ac")], (), "z", "a", id="a value that one is known to have"),
        pytest.param([("wxyz", "abcd"), ("wu", "ab"), ("xv", "ab")], (), "y", "cd", id="values that others use up"),
        pytest.param([("xyz", "abc")], (("n", "", "d"),), "n", "d", id="a difference that is one row"),
        pytest.param([("xuv", "abc"), ("yst", "ade")], (("x", "y", ""),), "x", "a", id="two that are equal"),
        pytest.param([("xuv", "abc"), ("yst", "bde")], (("x", "y", "a-b"),), "y", "b", id="a difference of two rows"),
    ],
)
def test_each_rule_leaves_what_it_must(
    sets: list[tuple[str, str]], minus: tuple[tuple[str, str, str], ...], episode: str, may_be: str
) -> None:
    assert concluded(*sets, minus=minus)[episode] == may_be


def test_of_two_different_values_a_known_one_is_not_the_other() -> None:
    candidates = Candidates()
    candidates.add_set([1, 2], {7: 1, 8: 1})
    candidates.add_set([3], {7: 1})
    candidates.differ(1, 3)
    candidates.conclude()
    assert candidates.pinned == {3: 7, 1: 8, 2: 7}


@pytest.mark.parametrize(
    "sets", [[("xy", "ab"), ("xz", "cd")], [("x", "a"), ("x", "b")], [("xyz", "abc"), ("xy", "aa")], [("xy", "a")]]
)
def test_facts_that_contradict_each_other_are_refused(sets: list[tuple[str, str]]) -> None:
    with pytest.raises(Impossible):
        concluded(*sets)


def outcome(seed: int) -> tuple[int, int]:
    """How many episodes of a random history are known for certain, and how many of these were found.

    What is left of each episode's values must hold its true one and every one that has a chance.
    """
    drawn, history = RandomHistory(seed), ReleaseHistory()
    for release in drawn.releases():
        history.add(release)
    sets = [SetFact(group.members, group.counts) for group in history.facts]
    exact = posteriors(sets, history.pairs)
    left = dict(history.candidates)
    assert left.keys() == exact.keys()
    for episode, posterior in exact.items():
        assert drawn.values[episode] in posterior
        assert posterior.keys() <= set(left[episode])
    certain = [episode for episode, posterior in exact.items() if len(posterior) == 1]
    return len(certain), sum(len(left[episode]) == 1 for episode in certain)


def test_nothing_is_concluded_that_a_possible_world_refutes() -> None:
    outcomes = [outcome(seed) for seed in range(300)]
    certain, found = (sum(counts) for counts in zip(*outcomes, strict=True))
    assert certain > 1_000
    assert found > 0.95 * certain


@pytest.mark.night
def test_nothing_is_concluded_that_a_possible_world_refutes_in_many_histories() -> None:
    outcomes = [outcome(seed) for seed in range(300, 6_000)]
    assert all(found <= certain for certain, found in outcomes)
