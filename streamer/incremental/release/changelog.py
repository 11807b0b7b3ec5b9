"""The records that turn one published QI group into another, in the form that table.yaml says.

The rules of this file
----------------------
* The bytes are a function of the QI group's number, its box and its values, so two diffs of the same groups agree.
* A diff is minimal: what readers have already is not written again, and nothing is written twice. Where the published
  rows of a group stay as they are, there is no record, although the digest may change: it also tells slots, which only
  the rows' form publishes.
* One form, one writer: `as_rows`, `as_groups`, `as_lossy_join`. All else (digest, release, outbox, the reader's rule)
  is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from streamer.incremental.release.as_groups import GroupsWriter
from streamer.incremental.release.as_lossy_join import JoinWriter
from streamer.incremental.release.as_rows import RowsWriter
from streamer.incremental.release.published_group import DIGEST_MASK, PublishedGroup, group_hash
from streamer.incremental.release.records import Entry
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table


class Writer(Protocol):
    """Writes the published QI groups of one shard in one form."""

    def __init__(self, table: Table, shard: int) -> None: ...

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[Entry]:
        """The fewest records that turn `before` into `after`; None: a QI group without published rows."""


WRITERS: Mapping[str, type[Writer]] = MappingProxyType({ROWS: RowsWriter, GROUPS: GroupsWriter, LOSSY_JOIN: JoinWriter})


class Changelog:
    """Writes what is published of one shard."""

    def __init__(self, table: Table, shard: int) -> None:
        self._writer = WRITERS[table.form](table, shard)

    def diff(
        self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None
    ) -> tuple[list[Entry], int]:
        """The records that turn `before` into `after`, and the change of the digest (mod 2^64).

        None stands for a QI group that has no published rows.
        """
        change = group_hash(qi_group, after) - group_hash(qi_group, before)
        return self._writer.records(qi_group, before, after), change & DIGEST_MASK
