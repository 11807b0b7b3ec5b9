"""What became of a change that an engine took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change: applied, or ignored; left_unchanged: rows whose result would have been invalid.

    unknown_key: it should have found a row, and did not.
    """

    applied: bool
    left_unchanged: int = 0
    unknown_key: bool = False


APPLIED, IGNORED = Outcome(applied=True), Outcome(applied=False)
