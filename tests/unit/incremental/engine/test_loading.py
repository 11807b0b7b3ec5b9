"""Stored similarity lists, loaded: hints by indexes; what they cannot name is left out."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core.layout import NONE
from streamer.incremental.engine import loading
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.loading import indexes_of_numbers
from streamer.incremental.engine.stored_state import QIGroupState, Record, SimilarityList, StoredTable
from worlds.engine_tables import row_of
from worlds.small_tables import YEARS, table

NAMES = np.array([3, 5, 8, 9])

LISTS = {
    8: ((3, 2.0), (9, 0.5)),
    3: (),
    9: ((5, 0.5), (8, 0.5)),
    4: ((3, 1.0),),  # no such QI group
    5: ((4, 1.0), (2**70, 0.9), (9, 0.8), (3, 0.7), (8, 0.6)),  # two are not there, and more than a list holds
}


def test_lists_come_by_the_indexes_of_their_qi_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "AT_ONCE", 2)
    small, keys = table(YEARS, k=1), [f"{number}" for number in NAMES]
    records = [(key, Record(row_of(1), int(key))) for key in keys]
    groups = [(int(key), QIGroupState((1,), (1,), (key,), ((b'"flu"',),))) for key in keys]
    lists = [(number, SimilarityList(listed, 1)) for number, listed in LISTS.items()]
    near = Engine.load(small, 0, 1, StoredTable(10, records, groups, lists, ())).arrays.groups.near[: len(keys)]
    assert near.tolist() == [[NONE] * 4, [NONE] * 4, [0, 3, NONE, NONE], [1, 2, NONE, NONE]]


def test_a_number_that_is_not_there_has_no_index() -> None:
    assert indexes_of_numbers(NAMES, [9, 1, 3, 4, 10]).tolist() == [3, NONE, 0, NONE, NONE]
    assert indexes_of_numbers(NAMES[:0], [9]).tolist() == [NONE]
