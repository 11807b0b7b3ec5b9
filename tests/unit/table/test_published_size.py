"""How large a published row can become: what the limit of a row is measured against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.release.changelog import Changelog, PublishedGroup
from streamer.table.published import frame_bytes
from streamer.table.schema import Limits, Table
from worlds.small_tables import CITY, TABLES, YEARS, table

VALUES = (b'"flu"',)


@pytest.mark.parametrize("small", TABLES.values(), ids=list(TABLES))
@given(data=st.data())
def test_no_box_takes_more_than_the_frame(small: Table, data: st.DataObject) -> None:
    lo = [data.draw(st.integers(0, attribute.axis.n_cells - 1)) for attribute in small.attributes]
    hi = [data.draw(st.integers(first, a.axis.n_cells - 1)) for first, a in zip(lo, small.attributes, strict=True)]
    low, high = small.space.generalize(np.array(lo), np.array(hi))
    group = PublishedGroup(tuple(low.tolist()), tuple(high.tolist()), (VALUES,))
    shard, number = data.draw(st.integers(0, 10_000)), data.draw(st.integers(1, 10**18 - 1))
    (record,), _ = Changelog(small, shard).diff(number, None, group)
    assert record.value is not None
    assert len(record.key) + len(record.value) - len(VALUES[0]) <= frame_bytes(small)


def test_what_decides_dead_letters_belongs_to_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay under other limits, or by another engine, would not give the table that is out."""
    small = table(YEARS, CITY)
    said = {small.fingerprint}
    for other in ({"event_bytes_max": 7}, {"statement_rows_max": 7}, {"row_bytes_max": 7}):
        said.add(replace(small, limits=Limits(**other)).fingerprint)
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 999)
    said.add(table(YEARS, CITY).fingerprint)
    assert len(said) == 5


def test_how_the_work_is_cut_does_not_belong_to_the_fingerprint() -> None:
    small = table(YEARS, CITY)
    assert replace(small, limits=Limits(batch_events_max=7, transaction_rows_max=700)).fingerprint == small.fingerprint
