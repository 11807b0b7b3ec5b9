"""The first snapshot of a shard as a store keeps it: what was held back since when, and how it came to its end.

Positional, as all that a store keeps (`store.codec`): fields are added at the end, with a default.
"""

from __future__ import annotations

import msgspec

TABLES, INCREMENTAL = "tables", "incremental"
"""Kinds: whole tables are read before any change, or rows between changes."""

LAST, CHANGE = "last", "change"
"""What a shard has seen itself of the end: the last row of its table; a change, which comes after all reads."""

ELSEWHERE, QUIET, OPERATOR = "elsewhere", "quiet", "operator"
"""Why else it may be over: another shard has seen the end; no read came for long; an operator said so."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot with which a shard begins.

    since: the source offset of its first read, by which it is named. reads: messages that were rows of it. seen: LAST,
    CHANGE or "". ended: why no more of it is waited for, "" while it is held back. released, of: commits of the first
    table that are done, and all of them; 0 while nobody knows.
    """

    since: int
    kind: str = TABLES
    reads: int = 0
    seen: str = ""
    ended: str = ""
    released: int = 0
    of: int = 0

    @property
    def holds(self) -> bool:
        """Whether rows are held back still, be it because their release is under way."""
        return not self.ended or self.released < self.of or not self.of

    @property
    def is_over(self) -> bool:
        """Whether what is held back waits for nothing but its release."""
        return self.holds and bool(self.ended)
