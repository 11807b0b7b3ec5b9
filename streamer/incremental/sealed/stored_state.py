"""The stored state of a sealed publisher, as values: its mark, the place of each person, the cohorts.

The contents of rows are not among them: who restores a publisher gives it the rows of the people who wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

NO_TIME = -1
"""Before any epoch is over, and before any message has said a time."""

IN_POOL = -1
"""In place of a cohort's number."""


class SealedMark(msgspec.Struct, frozen=True, array_like=True):
    """The present end of a shard's sealed changelog."""

    epoch: int = 0  # the last one that is over
    seconds: int = NO_TIME  # its time, since 1970
    changes: int = 0  # of rows, since then
    arrivals: int = 0  # rows that ever came into the pool
    digest: bytes = b""  # of all records that were ever published


NO_MARK = SealedMark()


class SealedPlace(msgspec.Struct, frozen=True, array_like=True):
    """The place of a person: in the cohort of a number, or in the pool."""

    cohort: int
    since: int = 0  # of the pool: the epoch in which the row came
    arrival: int = 0  # of the pool: its number among all arrivals


class StoredCohort(msgspec.Struct, frozen=True, array_like=True):
    """A cohort that is published, or retired while some of its people are there."""

    id: bytes
    rows: int
    left: int  # people who are still there
    retired: bool = False
    touched: bool = False  # whether anybody left since the last epoch


@dataclass(frozen=True, slots=True)
class SealedChanges:
    """The changes since the last commit; None: it is gone."""

    mark: SealedMark
    places: Mapping[str, SealedPlace | None] = field(default_factory=dict, repr=False)  # by source key
    cohorts: Mapping[int, StoredCohort | None] = field(default_factory=dict, repr=False)  # by number


@dataclass(frozen=True, slots=True)
class StoredSealed:
    """All people and cohorts, each once, in no particular order."""

    places: Iterable[tuple[str, SealedPlace]] = field(default=(), repr=False)
    cohorts: Iterable[tuple[int, StoredCohort]] = field(default=(), repr=False)
