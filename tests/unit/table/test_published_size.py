"""How large a published row can become: what the limit of a row is measured against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.published import frame_bytes
from streamer.table.published_size import values_bytes_max
from streamer.table.schema import GROUPS, LOSSY_JOIN, Limits, Table
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


@pytest.mark.parametrize("form", [GROUPS, LOSSY_JOIN])
@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
def test_rows_as_large_as_they_may_be_fit_into_the_messages_of_their_form(
    form: str, name: str, data: st.DataObject
) -> None:
    """A QI group has at most 2k - 1 rows when it is published, where k counts rows and merged ones are cut."""
    small = replace(TABLES[name], form=form, limits=Limits(row_bytes_max=data.draw(st.integers(1_000, 5_000))))
    longest = values_bytes_max(small)
    slots = tuple((b'"%d%b"' % (i, b"x" * (longest - 3)),) for i in range(2 * small.k - 1))
    cells = tuple(attribute.axis.n_cells - 1 for attribute in small.attributes)
    low, high = small.space.generalize(np.zeros(len(cells), np.int64), np.array(cells))
    group = PublishedGroup(tuple(low.tolist()), tuple(high.tolist()), slots, (cells,))
    records, _ = Changelog(small, 10_000).diff(10**18 - 1, None, group)
    assert len(slots[0][0]) == longest
    assert max(len(record.key) + len(record.value or b"") for record in records) <= small.limits.row_bytes_max
