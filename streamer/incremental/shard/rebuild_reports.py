"""What is said of the rebuilds that a shard remembers: what they reached, and how a request ended, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import ANSWERED, DONE, REFUSED, RUNNING, STOPPED, Progress

RESTARTS_MAX = 2
"""How often a rebuild that an operator asked for is begun anew after its worker went."""


def last_rebuild(rebuilds: Iterable[Progress]) -> Progress | None:
    """The newest one that was a rebuild, not an answer to a request alone."""
    return next((one for one in reversed(list(rebuilds)) if not one.is_answer), None)


def gain(progress: Progress) -> float:
    """The share of the loss that the regions done do not lose any more."""
    return 1 - progress.ncp_now / progress.ncp_before if progress.ncp_before > 0 else 0.0


def reached(progress: Progress) -> float:
    """The loss over that of a fresh table after a rebuild; 1 where it was not known before. See `shard.schedule`.

    What was not done has stayed as it was.
    """
    if not progress.drift:
        return 1.0
    return progress.drift * (1 - gain(progress) * progress.done / max(1, progress.total))


def attempts(meta: Meta, id_: str) -> int:
    """How often the rebuild of that id has ended."""
    return sum(one.rebuild.id == id_ for one in meta.rebuilds)


def how_it_ended(meta: Meta, id_: str) -> Progress | None:
    """What became of a request; None while it waits, runs, or is about to be begun anew."""
    if meta.rebuild is not None and meta.rebuild.rebuild.id == id_:
        return None
    last = next((one for one in reversed(meta.rebuilds) if one.rebuild.id == id_), None)
    if last is not None and last.state == STOPPED and attempts(meta, id_) <= RESTARTS_MAX:
        return None
    return last


def told(progress: Progress) -> str:
    """A rebuild, or the answer to a request, in words."""
    if progress.state == ANSWERED:
        return progress.said
    if progress.state == REFUSED:
        return f"refused: {progress.said}"
    if progress.state in (RUNNING, DONE):
        far = f"{progress.done} of {progress.total} regions" if progress.state == RUNNING else "done"
        left = f", {progress.left} regions were too busy and stay as they were" if progress.left else ""
        return f"{far}, {_gained(progress)}{left}"
    far = f"{progress.state} with {progress.done} of {progress.total} regions done"
    return f"{far}, {_gained(progress)}: {progress.said}"


def _gained(progress: Progress) -> str:
    seconds = max(0, progress.at - progress.began)
    change = 0.0 - gain(progress)
    return f"loss {change:+.1%}, {progress.rows_published_again:,} rows published again, {seconds} s"


def described(progress: Progress) -> dict[str, Any]:
    """The same for programs; times in seconds since 1970."""
    return {
        "id": progress.rebuild.id,
        "state": progress.state,
        "algorithm": progress.rebuild.algorithm,
        "why": progress.why,
        "began": progress.began,
        "at": progress.at,
        "regions": progress.total,
        "done": progress.done,
        "left": progress.left,
        "rows_published_again": progress.rows_published_again,
        "ncp_before": round(progress.ncp_before, 6),
        "ncp_now": round(progress.ncp_now, 6),
        "gain": round(gain(progress), 6),
        "drift": round(progress.drift, 4) or None,
        "said": progress.said,
    }
