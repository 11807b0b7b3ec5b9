"""Saying how far some work is, to whoever asked to be told: a function that takes the share that is done.

Who works has no clock and no screen: it tells as often as is convenient, between two calls of compiled code for
instance, and whoever listens decides how often to show it. Nothing that is answered depends on who listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Tick = Callable[[float], None]
"""Is told the share of the work that is done, from 0 to 1."""


def silent(done: float) -> None:
    """A tick that nobody listens to."""


def part_of(tick: Tick, begin: float, end: float) -> Tick:
    """A tick for a part of the work, which lies between two shares of the whole.

    >>> part_of(print, 0.5, 1.0)(0.5)
    0.75
    """
    return lambda done: tick(begin + (end - begin) * done)


def nth_part(tick: Tick, done: int, n: int) -> Tick:
    """A tick for the next of n equal parts of the work, where so many are done.

    >>> nth_part(print, 1, 4)(0.5)
    0.375
    """
    return part_of(tick, done / n, (done + 1) / n)


def rising(tick: Tick) -> Tick:
    """A tick that passes on what is more than before, and nothing else.

    >>> told = rising(print)
    >>> for done in (0.0, 0.25, 0.25, 0.125, 1.0):
    ...     told(done)
    0.25
    1.0
    """
    told = 0.0

    def pass_on(done: float) -> None:
        nonlocal told
        if told < done <= 1:
            told = done
            tick(done)

    return pass_on


def pieces(n: int, some: int, tick: Tick) -> Iterator[slice]:
    """Slices of n things, `some` at a time; after each, how many of them are done is told.

    >>> for piece in pieces(5, 2, print):
    ...     print(piece.start, piece.stop)
    0 2
    0.4
    2 4
    0.8
    4 5
    1.0
    """
    for begin in range(0, n, some):
        end = min(n, begin + some)
        yield slice(begin, end)
        tick(end / n)
