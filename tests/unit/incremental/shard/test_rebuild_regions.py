"""How large a region is, and when it is worth replacing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamer.errors import UsageError
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.drift import loss
from streamer.incremental.shard.rebuild_regions import FULL_DOMAIN, gains, region_rows
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.table.encode import EncodedRows
from streamer.table.schema import Limits
from worlds.small_tables import TABLES

TABLE = TABLES["one number"]


def test_algorithms_that_recode_all_rows_alike_are_known() -> None:
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.full_domain} == FULL_DOMAIN


def test_a_region_is_as_large_as_a_transaction_may_be() -> None:
    assert region_rows(TABLE, "ordered", 10**6) == Limits().transaction_rows_max
    small = replace(TABLE, limits=Limits(transaction_rows_max=300))
    assert region_rows(small, "mondrian", 10**6) == 300


def test_what_recodes_all_rows_alike_gets_the_whole_shard_or_is_refused_with_the_size() -> None:
    assert region_rows(TABLE, "ola", 20_000) == 20_000
    with pytest.raises(UsageError, match=r"20,001 rows are more than limits\.transaction_rows_max = 20,000"):
        region_rows(TABLE, "ola", 20_001)


def test_only_a_region_that_loses_less_is_worth_replacing() -> None:
    codes = np.array([[0], [0], [5], [5]])
    apart, together = [np.array([0, 1]), np.array([2, 3])], [np.arange(4)]
    rows = EncodedRows(["a", "b", "c", "d"], codes, [()] * 4, [()] * 4, [None] * 4)
    wide = Region((1,), rows, loss(TABLE.space, codes, together), b"", np.zeros(4, int))
    narrow = Region((1, 2), rows, 0.0, b"", np.array([0, 0, 1, 1]))
    assert gains(TABLE.space, wide, apart, "ordered")
    assert not gains(TABLE.space, narrow, apart, "ordered")
    assert not gains(TABLE.space, wide, together, "ordered")
    assert gains(TABLE.space, narrow, together, "ola")
