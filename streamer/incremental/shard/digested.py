"""Whether a store hands out the QI groups that were published: their digest must be that of its `meta`.

What is lost with all that names it leaves a table that fits together, and rows that nobody would ever take back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.groups.kept import QIGroupState
from streamer.incremental.release.published_group import DIGEST_MASK, PublishedGroup, group_hash
from streamer.incremental.store.base import Meta


class Digested:
    """QI groups by number as a store hands them out, once; `digest`: of those that were handed on."""

    def __init__(self, qi_groups: Iterable[tuple[int, QIGroupState]]) -> None:
        self._qi_groups = qi_groups
        self.digest = 0

    def __iter__(self) -> Iterator[tuple[int, QIGroupState]]:
        for number, state in self._qi_groups:
            self.digest += group_hash(number, PublishedGroup(state.lo, state.hi, state.slots))
            yield number, state

    def check(self, table_name: str, shard: int, meta: Meta) -> None:
        """Raises ShardRefused where these were not all the QI groups that `meta` was written with."""
        if self.digest & DIGEST_MASK != meta.digest:
            raise ShardRefused(
                f"shard {shard} of {table_name}: the QI groups in the store are not those of commit {meta.commit}; "
                f"{mends.begin_anew(table_name)}"
            )
