"""A rebuild of a shard as a store keeps it: which one it is, how far it came, what it gained.

Positional, as all that a store keeps (`store.codec`): fields are added at the end, with a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from streamer.incremental.groups.replacing import Replaced

REMEMBERED, ANSWERS_REMEMBERED = 5, 20
"""Rebuilds that have ended and are remembered; answers to requests that began none."""

RUNNING, DONE, CANCELLED, STOPPED, FAILED = "running", "done", "cancelled", "stopped", "failed"
"""How a rebuild stands; stopped: its worker went, and whoever followed did not go on with it."""

REFUSED, ANSWERED = "refused", "answered"
"""Of what is no rebuild, but the answer to a request, so that nobody answers it again."""


class Rebuild(msgspec.Struct, frozen=True, array_like=True):
    """One full re-anonymization of a shard.

    seed: below 2^64. turn: its number in the life of the shard, which moves the borders of regions.
    """

    id: str
    algorithm: str
    seed: int
    turn: int


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a rebuild came.

    total: its regions, done: those that were replaced, left: those left as they were, because they changed too often.
    Of the regions done: upserts that were published, and NCP times rows, summed, before and after. why: who or what
    began it; began, at: when, and when it was heard of last, in seconds since 1970; drift: the loss over that of a
    fresh table before it, 0 where nobody knew; said: why it ended as it did.
    """

    rebuild: Rebuild
    total: int
    done: int = 0
    left: int = 0
    rows_published_again: int = 0
    ncp_before: float = 0.0
    ncp_now: float = 0.0
    state: str = RUNNING
    why: str = ""
    began: int = 0
    at: int = 0
    drift: float = 0.0
    said: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether it is no rebuild, but the answer to a request."""
        return self.state in (REFUSED, ANSWERED)

    def left_alone(self, ncp: float) -> Progress:
        """With one region more, which was as good as it was, and has stayed so."""
        return replace(self, done=self.done + 1, ncp_before=self.ncp_before + ncp, ncp_now=self.ncp_now + ncp)

    def after(self, replaced: Replaced) -> Progress:
        """With one region more."""
        return replace(
            self,
            done=self.done + 1,
            rows_published_again=self.rows_published_again + replaced.rows_published_again,
            ncp_before=self.ncp_before + replaced.ncp_before,
            ncp_now=self.ncp_now + replaced.ncp_now,
        )


def remembered(rebuilds: Sequence[Progress], ended: Iterable[Progress]) -> tuple[Progress, ...]:
    """What is remembered when some more have ended: the last rebuilds and the last answers, the newest last."""
    all_of_them = [*rebuilds, *ended]
    answers = [i for i, one in enumerate(all_of_them) if one.is_answer]
    others = [i for i, one in enumerate(all_of_them) if not one.is_answer]
    kept = sorted(answers[-ANSWERS_REMEMBERED:] + others[-REMEMBERED:])
    return tuple(all_of_them[i] for i in kept)
