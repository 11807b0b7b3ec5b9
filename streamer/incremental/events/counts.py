"""What became of the messages that were read: messages = applied + ignored + dead letters, in every sum of counts.

Beside this sum stands how many of the applied and ignored ones changed or deleted a captured row that the table did not
have: rows were missed before, or lie in another shard; and, by column, how many of the applied ones had a category that
table.yaml does not list and its `other` takes: a vocabulary that drifts is seen nowhere else. A letter about rows that
a statement left unchanged (`partial`) is not counted here: its statement was applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages by what became of them.

    >>> (Counts(applied=2, dead_letters=1) + Counts(ignored=1)).messages
    4
    """

    applied: int = 0
    ignored: int = 0
    dead_letters: int = 0
    unknown_keys: int = 0
    unlisted: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.applied + other.applied,
            self.ignored + other.ignored,
            self.dead_letters + other.dead_letters,
            self.unknown_keys + other.unknown_keys,
            _summed(self.unlisted, other.unlisted) if other.unlisted else self.unlisted,
        )

    @property
    def messages(self) -> int:
        return self.applied + self.ignored + self.dead_letters


def _summed(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in (*counts, *(more.keys() - counts.keys()))}


NO_MESSAGES = Counts()
APPLIED, IGNORED, DEAD = Counts(applied=1), Counts(ignored=1), Counts(dead_letters=1)
"""One message each."""

APPLIED_LATE, IGNORED_LATE = Counts(applied=1, dead_letters=-1), Counts(ignored=1, dead_letters=-1)
"""A message that had been refused, and was tried again: it is no dead letter any more."""

UNKNOWN_KEY = Counts(unknown_keys=1)
"""To be added to what became of the message."""
