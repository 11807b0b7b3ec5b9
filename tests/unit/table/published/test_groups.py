"""A QI group as one message: its key, its bytes, and the way back."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.release.records import PublishedGroup
from streamer.table.published.groups import (
    GroupReader,
    JoinReader,
    distinct_cells,
    group_columns,
    group_key,
    parse_group_key,
    qit_columns,
    qit_row,
    stt_columns,
    stt_key,
    stt_row,
)
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN
from worlds.published_groups import ALL_KINDS, VALUES_OF_TWO, boxes, of_form, table_of


@given(box=boxes(), slots=st.lists(VALUES_OF_TWO, min_size=1))
def test_what_is_written_is_read_back(box: tuple[tuple[int, ...], tuple[int, ...]], slots: list[Values]) -> None:
    ((key, message),) = table_of(PublishedGroup(*box, tuple(slots)), GROUPS).items()
    assert tuple(json.loads(message)) == group_columns(of_form(GROUPS))
    read = GroupReader(of_form(GROUPS)).read(json.dumps(json.loads(message), indent=1).encode())
    assert (read.qi_group, read.lo, read.hi, read.counts) == ("3-17", *box, Counter(slots))
    assert parse_group_key(key) == (3, 17)


@pytest.mark.parametrize(
    "key", [b"", b"{}", b'{"qi_group":"0-0"}', b'{"qi_group":"0-17","slot":3}', group_key(0, 1) * 2]
)
def test_another_key_is_refused(key: bytes) -> None:
    with pytest.raises(LawViolated):
        parse_group_key(key)


# A QI group as rows of two tables: their keys, their bytes, and the way back.

JOIN = of_form(LOSSY_JOIN)
CELLS = st.tuples(*(st.integers(0, attribute.axis.n_cells - 1) for attribute in ALL_KINDS.attributes))


@given(cells=CELLS, other=CELLS, values=VALUES_OF_TWO)
def test_what_is_written_is_read_back_and_no_two_rows_have_one_key(
    cells: tuple[int, ...], other: tuple[int, ...], values: Values
) -> None:
    reader, row, key = JoinReader(JOIN), qit_row(JOIN, "3-17", cells), stt_key(JOIN, "3-17", values)
    assert (tuple(json.loads(row)), tuple(json.loads(stt_row(key, 2)))) == (qit_columns(JOIN), stt_columns(JOIN))
    assert reader.read_qit(row) == ((3, 17), cells)
    assert reader.read_stt_key(key) == ((3, 17), values)
    assert reader.read_stt(stt_row(key, 2)) == ((3, 17), values, 2)
    assert (qit_row(JOIN, "3-17", other) == row) == (other == cells)
    assert reader.is_qit_key(row)
    assert not reader.is_qit_key(key)


@pytest.mark.parametrize("row", [b"{}", b'{"qi_group":"0-1"}', b'{"qi_group":"0-1","slot":1}', b"[]", b"null"])
def test_what_is_of_neither_table_is_refused(row: bytes) -> None:
    reader = JoinReader(JOIN)
    for read in (reader.read_qit, reader.read_stt, reader.read_stt_key, reader.is_qit_key):
        with pytest.raises(LawViolated):
            read(row)


def test_cells_are_listed_once_and_in_order() -> None:
    assert distinct_cells([(2, 1), (1, 9), (2, 1)]) == ((1, 9), (2, 1))
