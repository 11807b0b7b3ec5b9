"""What an experiment answers: curves, what the paper says of them, and whether they bear it out.

A claim of a paper is taken apart into sentences (`Check`), the heart of it first. Each is held against every point of
the curves that it speaks of, and what is written down is at how many of them it is true. The verdict follows from
these counts alone (`verdict`), so nobody writes it by hand. Figures are rounded to six digits when they are made: the
texts, the plots and results.json show the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

DIGITS = 6

REPRODUCED, IN_PART, NOT_REPRODUCED = "Reproduced", "Reproduced in part", "Not reproduced"


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
    """A sentence of a claim, the points (`cases`) at which it holds, and by how much in words."""

    says: str
    held: int
    of: int
    cases: str
    size: str = ""


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


def check(says: str, holds: Iterable[bool], cases: str, size: str = "") -> Check:
    """A sentence and at how many points it holds."""
    points = [bool(point) for point in holds]
    return Check(says, sum(points), len(points), cases, size)


def verdict(checks: Sequence[Check]) -> str:
    """Reproduced: every sentence at every point. Not reproduced: the first at fewer than half. Else in part.

    >>> verdict([Check("more", 9, 9, "k"), Check("slightly", 4, 9, "k")])
    'Reproduced in part'
    """
    if all(one.held == one.of for one in checks):
        return REPRODUCED
    return NOT_REPRODUCED if 2 * checks[0].held < checks[0].of else IN_PART


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
