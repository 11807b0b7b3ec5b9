"""A QI group as one message: its key, its bytes, and the way back."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.published_group import GroupReader, group_columns, group_key, parse_group_key
from streamer.table.row import Values
from streamer.table.schema import GROUPS
from worlds.published_groups import VALUES_OF_TWO, boxes, of_form, table_of


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
