"""Results of an experiment: curves, the paper's claims about them, and verdicts.

A claim of a paper is taken apart into sentences (`Check`), the most important first. Each is held against every point
of its curves, and the points at which it is true are counted. The verdict follows from these counts alone (`verdict`),
so no one writes it by hand. Figures are rounded to six digits when they are made: the
texts, the plots and results.json show the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from streamer.errors import LawViolated

DIGITS = 6

REPRODUCED, IN_PART, NOT_REPRODUCED = "Reproduced", "Reproduced in part", "Not reproduced"
SPLIT, LAWS_ALONE = "Split", "Laws alone"
VERDICTS = (REPRODUCED, IN_PART, SPLIT, NOT_REPRODUCED, LAWS_ALONE)


class Curve(msgspec.Struct, frozen=True):
    """One line of a plot, one column of a table; None: there is no figure at this point."""

    name: str
    y: tuple[float | None, ...]


class Panel(msgspec.Struct, frozen=True):
    """One plot and its table: curves over the same x."""

    title: str
    x_label: str
    x: tuple[float | str, ...]
    y_label: str
    curves: tuple[Curve, ...]
    log: bool = False


class Check(msgspec.Struct, frozen=True):
    """A sentence of a claim, the points (`cases`) at which it holds, and by how much in words.

    law: it cannot fail. reading: the reading of the paper that it belongs to; "": to every one.
    """

    says: str
    held: int
    of: int
    cases: str
    size: str = ""
    law: bool = False
    reading: str = ""


class Figure(msgspec.Struct, frozen=True):
    """One figure of a paper, made again. because: why a claim is not borne out everywhere, where that can be said."""

    slug: str
    title: str
    claim: str
    panels: tuple[Panel, ...]
    checks: tuple[Check, ...]
    because: str = ""
    notes: tuple[str, ...] = ()


class Paper(msgspec.Struct, frozen=True):
    """All figures of one paper; setting: data and parameters, in Markdown; seconds: of the whole run."""

    slug: str
    cites: str
    setting: str
    figures: tuple[Figure, ...]
    quick: bool
    seconds: int


def curve(name: str, y: Iterable[float | None]) -> Curve:
    """A curve of rounded figures."""
    return Curve(name, tuple(None if value is None else float(f"{value:.{DIGITS}g}") for value in y))


def check(says: str, holds: Iterable[bool], cases: str, size: str = "", reading: str = "") -> Check:
    """A sentence and at how many points it holds."""
    points = [bool(point) for point in holds]
    return Check(says, sum(points), len(points), cases, size, reading=reading)


def law(says: str, holds: Iterable[bool], cases: str) -> Check:
    """A sentence that cannot fail. Raises LawViolated where it does."""
    found = check(says, holds, cases)
    if found.held < found.of:
        raise LawViolated(f"{says}: in {found.held} of {found.of} {cases} alone, and it must in all")
    return msgspec.structs.replace(found, law=True)


def verdict(checks: Sequence[Check]) -> str:
    """Reproduced: every sentence at every point. Not reproduced: the first at fewer than half. Else in part.

    Laws do not count, nor do sentences without a point; laws alone are no reproduction. Readings with different
    verdicts: split.

    >>> verdict([Check("more", 9, 9, "k"), Check("slightly", 4, 9, "k")])
    'Reproduced in part'
    """
    found = set(verdict_by_reading(checks).values())
    return found.pop() if len(found) == 1 else SPLIT


def verdict_by_reading(checks: Sequence[Check]) -> dict[str, str]:
    """The verdict of each reading, from its own sentences and those of every reading; "" where there is but one."""
    counted = [one for one in checks if one.of and not one.law]
    readings = list(dict.fromkeys(one.reading for one in counted if one.reading)) or [""]
    return {name: _verdict([one for one in counted if one.reading in ("", name)]) for name in readings}


def _verdict(counted: Sequence[Check]) -> str:
    if not counted:
        return LAWS_ALONE
    if all(one.held == one.of for one in counted):
        return REPRODUCED
    return NOT_REPRODUCED if 2 * counted[0].held < counted[0].of else IN_PART


def between(ratios: Iterable[float]) -> str:
    """How large some ratios are, in words.

    >>> between([1.234, 2500.4]), between([3.0])
    ('1.23 to 2,500 times', '3 times')
    """
    found = sorted(ratios)
    low, high = (f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in (found[0], found[-1]))
    return f"{low} times" if low == high else f"{low} to {high} times"


def percent(values: Iterable[float]) -> str:
    """Shares as a range of per cents.

    >>> percent([0.05, 0.071])
    '5.0 to 7.1 %'
    """
    found = sorted(values)
    low, high = (f"{100 * value:.1f}" for value in (found[0], found[-1]))
    return f"{low} %" if low == high else f"{low} to {high} %"


def rising(values: Sequence[float]) -> list[bool]:
    """Step by step, whether the next value is no smaller.

    >>> rising([1, 2, 2, 1])
    [True, True, False]
    """
    return [one <= other for one, other in pairwise(values)]


def falling(values: Sequence[float]) -> list[bool]:
    """Step by step, whether the next value is no larger."""
    return [one >= other for one, other in pairwise(values)]
