"""What a batch of changes has touched so far: the memory behind the net effect.

A QI group is remembered as readers see it before its first change of the batch; what it became is read at the end. So
a batch that changes a group ten times publishes it once, and one that undoes its own change publishes nothing. Nothing
here decides anything: the journal is told.
"""

from __future__ import annotations

from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.release.changelog import PublishedGroup


class Journal:
    """QI groups, rows, boxes and sizes touched since the batch began."""

    def __init__(self) -> None:
        self.before: dict[int, PublishedGroup | None] = {}
        self.source_keys: set[str] = set()
        self.statement_ids: list[str] = []
        self.boxes_changed: set[int] = set()
        self.boxes_gone: set[int] = set()
        self.sizes_changed: set[int] = set()
        self.rows_published_max = 0
        self.merges = 0
        self.splits = 0

    def group(self, group: QIGroup, rows: int = 1) -> None:
        """`group` is about to change; `rows` more of its rows may have to be published for it."""
        if group.number not in self.before:
            self.before[group.number] = group.published() if group.slots else None
            self.rows_published_max += len(group.slots)
        self.rows_published_max += rows

    def box(self, group: QIGroup) -> None:
        self.boxes_gone.discard(group.number)
        self.boxes_changed.add(group.number)

    def size(self, group: QIGroup) -> None:
        self.sizes_changed.add(group.number)

    def gone(self, group: QIGroup) -> None:
        self.boxes_changed.discard(group.number)
        self.sizes_changed.discard(group.number)
        self.boxes_gone.add(group.number)
