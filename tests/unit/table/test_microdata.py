"""A table as columns of numbers: the one order that does not depend on how its rows came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.kd import NANOS
from worlds.microdata import TABLES, TEXTS, microdata, people
from worlds.small_tables import CITY

WIDER_THAN_A_NUMBER = people(NANOS, NANOS, CITY, NANOS, individual=True)


@pytest.mark.parametrize("small", [*TABLES.values(), WIDER_THAN_A_NUMBER], ids=[*TABLES, "wide"])
@given(data=st.data())
def test_rows_are_sorted_by_codes_then_sensitive_values_then_individual(small: Table, data: st.DataObject) -> None:
    rows = data.draw(microdata(small))
    who = np.zeros(len(rows), dtype=np.int64) if rows.individuals is None else rows.individuals
    columns = np.column_stack([rows.codes, rows.values, who]).tolist()
    assert rows.in_canonical_order().tolist() == sorted(range(len(rows)), key=columns.__getitem__)


def test_no_rows_have_an_order_too() -> None:
    nothing = np.empty((0, 1), dtype=np.int64)
    assert len(Microdata(TABLES["one number"], nothing, None, nothing, TEXTS).in_canonical_order()) == 0
