"""What became of the messages that were read: messages = applied + ignored + dead letters, in every sum of counts.

Beside this sum stands how many of the applied and ignored ones changed or deleted a captured row that the table did not
have: rows were missed before, or lie in another shard. A letter about rows that a statement left unchanged (`partial`)
is not counted here: its statement was applied.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.applied + other.applied,
            self.ignored + other.ignored,
            self.dead_letters + other.dead_letters,
            self.unknown_keys + other.unknown_keys,
        )

    @property
    def messages(self) -> int:
        return self.applied + self.ignored + self.dead_letters


NO_MESSAGES = Counts()
APPLIED, IGNORED, DEAD = Counts(applied=1), Counts(ignored=1), Counts(dead_letters=1)
"""One message each."""

APPLIED_LATE, IGNORED_LATE = Counts(applied=1, dead_letters=-1), Counts(ignored=1, dead_letters=-1)
"""A message that had been refused, and was tried again: it is no dead letter any more."""

UNKNOWN_KEY = Counts(unknown_keys=1)
"""To be added to what became of the message."""
