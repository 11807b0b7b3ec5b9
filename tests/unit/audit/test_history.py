"""Every attack by itself, on a history made by hand: whom it pins, to what, and that it is named."""

from __future__ import annotations

from collections import Counter

import pytest

from streamer.audit.history import ATTACKS, GroupFact, ReleaseFacts, ReleaseHistory


def release(
    groups: str, came: str = "", went: str = "", moved: str = "", replaced: str = "", returned: str = "",
    rebuilt: bool = False,
) -> ReleaseFacts:  # fmt: skip
    """Groups as "1:xyz=abc 2:" (gone), episodes and values as letters; replaced, returned: "Xx", the new one first."""
    facts: dict[int, GroupFact | None] = {}
    for text in groups.split():
        number, _, group = text.partition(":")
        members, _, values = group.partition("=")
        facts[int(number)] = GroupFact(frozenset(map(ord, members)), Counter(map(ord, values))) if group else None
    instead, again = ({ord(pair[0]): ord(pair[1]) for pair in text.split()} for text in (replaced, returned))
    return ReleaseFacts(facts, [*map(ord, came)], [*map(ord, went)], instead, again, [*map(ord, moved)], rebuilt)


HISTORIES: dict[int, tuple[list[ReleaseFacts], str]] = {
    0: ([release("1:xyz=aaa", "xyz")], "xa ya za"),
    1: ([release("1:xyz=abc", "xyz"), release("1:xyzn=abcd", "n")], "nd"),
    2: ([release("1:xyz=abc", "xyz"), release("1:yz=bc", went="x")], "xa"),
    3: ([release("1:xyz=abc", "xyz"), release("1:Xyz=dbc", "X", "x", replaced="Xx")], "xa Xd"),
    4: ([release("1:wxyz=aabc", "wxyz"), release("1:wx=aa 2:yz=bc")], "wa xa"),
    5: (
        [
            release("1:uvx=abc 2:wyz=bdd", "uvxwyz"),
            release("1:uvxwyz=abcbdd 2:"),
            release("1:uvz=acd 3:xwy=bbd"),
        ],
        "xb zd",
    ),
    6: ([release("1:uvx=abc 2:yzt=cde", "uvxyzt"), release("1: 2: 3:xyz=cde 4:uvt=abc", rebuilt=True)], "xc"),
    7: ([release("1:uvx=abc 2:tyz=def", "uvxtyz"), release("1:uv=ab 2:xtyz=cdef", moved="x")], "xc"),
    11: ([release("1:xyz=abc 2:uvw=abc", "xyzuvw"), release("1:xyzn=abcd 2:uvwm=abca", "nm")], "nd ma"),
    12: ([release("1:xyz=abc", "xyz"), release("1:yzn=bcd", "n", "x")], "xa nd"),
    13: ([release("1:xyz=abc 2:uvw=abc", "xyzuvw"), release("1:"), release("3:yzn=bcd", "n")], "xa nd"),
    14: ([release("1:xuv=abc 2:yst=cde", "xuvyst"), release("1:uv=ab 3:Xst=cde", "X", returned="Xx")], "Xc"),
    15: ([release("1:uvx=abc 2:wyz=def", "uvxwyz"), release("1: 2: 3:uvwy=bcef", went="xz")], "xa zd"),
}
"""Attack -> a history, and whom it pins to what, among others."""


def test_every_attack_has_a_history() -> None:
    assert HISTORIES.keys() == ATTACKS.keys()


@pytest.mark.parametrize("attack", HISTORIES, ids=ATTACKS.values())
def test_an_attack_pins_whom_it_must_and_is_named(attack: int) -> None:
    releases, pinned = HISTORIES[attack]
    history = ReleaseHistory()
    for one in releases[:-1]:
        history.add(one)
    known_before = set(history.candidates.pinned)
    history.add(releases[-1])
    for text in pinned.split():
        assert chr(history.candidates.pinned[ord(text[0])]) == text[1]
    fresh = {ord(text[0]) for text in pinned.split()} - known_before
    assert attack in {history.candidates.cause_of[episode] for episode in fresh}


def test_ghosts_of_sealed_cohorts_pin_nobody() -> None:
    history = ReleaseHistory()
    history.add(release("1:xyz=abc", "xyz"))
    history.add(release("2:nmo=abd", "nmo", "x"))
    assert history.candidates.pinned == {}


def test_groups_that_are_alike_may_be_cut_anew_without_telling_anything() -> None:
    history = ReleaseHistory()
    history.add(release("1:uvx=abc 2:wyz=abc", "uvxwyz"))
    history.add(release("1:uyx=abc 2:wvz=abc"))
    assert history.candidates.pinned == {}
