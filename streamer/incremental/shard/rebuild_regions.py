"""How large the regions of a rebuild are, and which of them are worth replacing: the same for a worker and a trial.

A region is as large as a transaction may be. Smaller ones would keep changes waiting for less, but lose much at their
borders: on 15,000 drifted rows, regions of 1,000 end 9 % above one run over all, and regions of 8,000 end 2 % above it
(`benchmarks/rebuild.py --region-rows`). An algorithm that recodes all rows alike needs the whole shard in one region.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamer.errors import UsageError
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.drift import loss
from streamer.table.arrays import Ints
from streamer.table.schema import Table
from streamer.table.space import Space

FULL_DOMAIN = frozenset({"ola", "degree-first"})
"""Algorithms that recode all rows of a table alike."""


def region_rows(table: Table, algorithm: str, rows: int) -> int:
    """How many rows a region may have. Raises UsageError where the shard is too large for the algorithm."""
    most = table.limits.transaction_rows_max
    if algorithm in FULL_DOMAIN and rows > most:
        raise UsageError(
            f"{algorithm} recodes all rows of a shard alike, so they have to be replaced in one release: {rows:,} rows "
            f"are more than limits.transaction_rows_max = {most:,}; take another algorithm, or raise the limit"
        )
    return most


def gains(space: Space, region: Region, groups: Sequence[Ints], algorithm: str) -> bool:
    """Whether a region loses less in these QI groups, or has to be replaced whatever it loses."""
    return algorithm in FULL_DOMAIN or loss(space, region.rows.codes, groups) < region.ncp
