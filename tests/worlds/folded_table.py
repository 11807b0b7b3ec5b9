"""What a store would hold: all that an engine drained, one batch after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.stored_state import QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.release.records import PublishedGroup

Name = TypeVar("Name")
Value = TypeVar("Value")


def overwrite(stored: dict[Name, Value], changed: Mapping[Name, Value | None]) -> None:
    """Puts what changed in the place of what was there; None removes it."""
    for name, value in changed.items():
        if value is None:
            stored.pop(name, None)
        else:
            stored[name] = value


class FoldedTable:
    """What a store would hold: all that was drained, one after the other."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.qi_groups: dict[int, QIGroupState] = {}
        self.similarity: dict[int, SimilarityList] = {}
        self.published: dict[int, PublishedGroup] = {}
        self.qi_group_next = 1

    def fold(self, drained: Drained) -> None:
        overwrite(self.records, drained.records)
        overwrite(self.qi_groups, drained.qi_groups)
        overwrite(self.similarity, drained.similarity)
        for number, before, after in drained.published:
            assert self.published.get(number) == before
            if after is None:
                del self.published[number]
            else:
                self.published[number] = after
        self.qi_group_next = drained.qi_group_next

    def kept_table(self) -> StoredTable:
        groups, lists = list(self.qi_groups.items()), list(self.similarity.items())
        return StoredTable(self.qi_group_next, list(self.records.items()), groups, lists, ())
