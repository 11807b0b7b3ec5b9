"""What a batch of changes comes to, and the laws that it obeys before it leaves the house.

A batch is netted: records, QI groups and published rows as they are now, against how they were before it. Every
touched QI group is checked here, once, by `raise`: k, counted anew from the members; one slot per row; every row
inside its box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.groups.kept import QIGroupState, Record, SimilarityList
from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.groups.upkeep import Upkeep
from streamer.incremental.release.changelog import PublishedGroup


@dataclass(frozen=True, slots=True)
class Drained:
    """The net effect of all changes since the drain before; None stands for a removal.

    published: (number, before, after) per QI group whose published rows differ, by number.
    """

    records: dict[str, Record | None] = field(repr=False)
    qi_groups: dict[int, QIGroupState | None] = field(repr=False)
    similarity: dict[int, SimilarityList | None]
    published: list[tuple[int, PublishedGroup | None, PublishedGroup | None]] = field(repr=False)
    statement_ids: list[str]
    qi_group_next: int
    merges: int
    splits: int


def net_effect(upkeep: Upkeep) -> Drained:
    """Takes the journal of the batch and begins a new one. Raises LawViolated."""
    journal, groups = upkeep.take_journal(), upkeep.groups
    _check(upkeep, [groups[number] for number in journal.before if number in groups])
    qi_groups: dict[int, QIGroupState | None] = {}
    published: list[tuple[int, PublishedGroup | None, PublishedGroup | None]] = []
    for number in sorted(journal.before):
        group, before = groups.get(number), journal.before[number]
        after = None if group is None else group.published()
        if group is not None and after is not None:
            members = tuple(map(upkeep.rows.source_keys.__getitem__, group.members))
            qi_groups[number] = QIGroupState(after.lo, after.hi, members, after.slots)
        elif before is not None:
            qi_groups[number] = None
        if before != after:
            published.append((number, before, after))
    similarity = upkeep.lists.refresh(
        journal.boxes_changed, journal.boxes_gone, lambda number: _is_tracked(upkeep, number), journal.sizes_changed
    )
    return Drained(
        records={source_key: upkeep.rows.record(source_key) for source_key in journal.source_keys},
        qi_groups=qi_groups,
        similarity=similarity,
        published=published,
        statement_ids=journal.statement_ids,
        qi_group_next=upkeep.qi_group_next,
        merges=journal.merges,
        splits=journal.splits,
    )


def _is_tracked(upkeep: Upkeep, number: int) -> bool:
    """Whether the next loss would merge the group: its nearest neighbours are kept at hand."""
    return upkeep.groups[number].count <= upkeep.table.k


def _check(upkeep: Upkeep, groups: Sequence[QIGroup]) -> None:
    k = upkeep.table.k
    for group in groups:
        count = upkeep.recount(group)
        if count != group.count:
            raise LawViolated(f"QI group {group.number} counts {group.count} of its {count} rows or individuals")
        if count < k:
            raise LawViolated(f"QI group {group.number} holds {count} of the k = {k} it needs")
        if len(group.slots) != len(group.members):
            raise LawViolated(f"QI group {group.number} has {len(group.members)} rows and {len(group.slots)} slots")
    if not groups:
        return
    sizes = [len(group.members) for group in groups]
    lo = np.repeat(np.array([group.lo for group in groups]), sizes, axis=0)
    hi = np.repeat(np.array([group.hi for group in groups]), sizes, axis=0)
    cells = upkeep.rows.cells[[place for group in groups for place in group.members]]
    inside = upkeep.space.contains(lo, hi, cells)
    if not inside.all():
        outside = int(np.searchsorted(np.cumsum(sizes), int(np.argmin(inside)), side="right"))
        raise LawViolated(f"QI group {groups[outside].number} has a row outside its box")
