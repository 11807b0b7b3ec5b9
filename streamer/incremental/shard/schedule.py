"""When a shard rebuilds itself: by the clock, or because it has drifted; and when to look for drift.

The rules of this file
----------------------
* Functions of values: times are seconds since 1970, handed in.
* `every` is counted from the end of the last rebuild, whoever asked for it and whatever became of it; where there was
  none, from the first time that a worker took the shard over. A shard is up to EARLIER_MOST of that time early, each by
  a share of its own, so that shards that began together do not rebuild together.
* Drift is told over what the last rebuild reached, where that was above a fresh table: one that gained nothing, by a
  coarse algorithm or because it was cancelled, is not begun again until the table has lost as much once more.
* Drift is looked for at most every LOOK_SECONDS, only after so many changes that it may be another, and for at most a
  small share of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.table.schema import Rebuilding

EARLIER_MOST = 0.1
GOLDEN = 0.618_033_988_749_895
"""Multiples of it, modulo 1, spread the numbers 0, 1, 2 ... as evenly as can be, however many there are."""

LOOK_SECONDS = 300
LOOK_SHARE_MOST = 0.02
"""Of the time, for looking."""

CHANGED_SHARE, CHANGED_LEAST = 0.05, 500
"""So many changes, as a share of the rows and at least, before it is looked again."""

CLOCK, DRIFT, OPERATOR = "clock", "drift", "operator"
"""Why a rebuild begins."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of a shard. since: the end of its last rebuild, or its first take-over; drift: the estimated loss
    over that of a fresh table, None: not looked yet; reached: the same after the last rebuild, 1 where nobody knows."""

    now: float
    since: float
    drift: float | None = None
    reached: float = 1.0


def due(settings: Rebuilding, shard: int, known: Situation) -> str | None:
    """Why a rebuild is due now, or None."""
    if settings.every is not None and known.now - known.since >= waits(settings.every, shard):
        return CLOCK
    if settings.drift is None or known.drift is None:
        return None
    return DRIFT if known.drift >= float(settings.drift) * max(1.0, known.reached) else None


def waits(every: int, shard: int) -> float:
    """Seconds between two rebuilds of a shard by the clock: `every` at most.

    >>> [round(waits(1000, shard)) for shard in range(4)]
    [1000, 938, 976, 915]
    """
    return every * (1 - EARLIER_MOST * (shard * GOLDEN % 1))


@dataclass(frozen=True, slots=True)
class Looked:
    """When drift was looked for last, how many seconds that took, and how many messages had been read by then."""

    at: float
    seconds: float
    messages: int


def look_is_due(settings: Rebuilding, now: float, last: Looked, messages: int, rows: int) -> bool:
    """Whether to look for drift again, after `messages` in all, in a table of so many rows."""
    if settings.drift is None or now - last.at < max(LOOK_SECONDS, last.seconds / LOOK_SHARE_MOST):
        return False
    return messages - last.messages >= max(CHANGED_LEAST, CHANGED_SHARE * rows)
