"""What a shard's table is between two workers, as values: rows, QI groups, similarity lists.

An engine hands these out as it changes, a store keeps them, and the next engine begins with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import msgspec

from streamer.table.row import Row, Unshown, Values

PENDING = 0
"""Number in place of a QI group for rows that are accepted but not publishable yet; real numbers start at 1."""


class Record(Unshown, frozen=True):
    """One line of the index table (Song et al. 2009, definition 4): a source row and the QI group it is in."""

    row: Row
    qi_group: int


class QIGroupState(Unshown, frozen=True):
    """One QI group: its box in cells, the source keys of its members, and its published values by slot."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    members: tuple[str, ...]
    slots: tuple[Values, ...]


How: TypeAlias = Literal["formed", "loaded", "merged", "split", "cut afresh", "rebuilt"]
"""Out of pending rows; with a first table; of two QI groups; as one part of one, or of two that local repair cut
together; with a region of a rebuild."""

HOW: tuple[How, ...] = get_args(How)
"""In the order of the core's numbers, which begin with 1."""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """How a QI group was last formed, and the number of the commit that it was in.

    Nothing is decided by it: no engine loads it. Several changes of one commit count as their last one, so it depends
    on how the messages were cut into batches.
    """

    how: How
    commit: int


class SimilarityList(msgspec.Struct, frozen=True, gc=False):
    """The nearest QI groups of one, best first, and a floor: every group not listed has QGSSD <= floor."""

    neighbours: tuple[tuple[int, float], ...]
    floor: float


@dataclass(frozen=True, slots=True)
class KeptTable:
    """All that an engine needs to go on; `records`, `qi_groups` and `similarity` may be read once only, in this order.

    So a store may hand out each while it reads it, and nobody ever holds all of it as objects. qi_group_next: the next
    unused number of a QI group; qi_groups and similarity by number.
    """

    qi_group_next: int
    records: Iterable[tuple[str, Record]]
    qi_groups: Iterable[tuple[int, QIGroupState]]
    similarity: Iterable[tuple[int, SimilarityList]]
    statement_ids: Sequence[str]


STATEMENT_IDS_MAX = 10_000
"""Statement ids that a shard remembers; a statement whose id is among them is ignored."""
