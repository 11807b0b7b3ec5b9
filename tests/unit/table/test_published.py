"""The published row: its columns, its key, its bytes."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from streamer.errors import LawViolated
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.attributes import NumericAttribute
from streamer.table.published import RowKey, parse_key, parse_qi_group, published_columns, row_key
from streamer.table.schema import KeptColumn, Table
from worlds.published_groups import ALL_KINDS, table_of


def test_the_members_of_a_row_are_the_published_columns_in_their_order() -> None:
    (row, *_) = table_of(PublishedGroup((0, 0, 0, 0), (4, 2, 5, 9), ((b"null", b"2.5"),))).values()
    assert tuple(json.loads(row)) == published_columns(ALL_KINDS)
    assert row == (
        b'{"qi_group":"3-17","age_lo":1,"age_hi":23,"bmi_lo":10,"bmi_hi":12.5,"city":"*",'
        b'"years_lo":0,"years_hi":9,"problem":null,"ward":2.5}'
    )


def test_names_that_json_or_formatting_would_read_otherwise_are_published_as_they_are() -> None:
    odd = Table(
        "odd",
        ("id",),
        (NumericAttribute('50% "%d"', (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal(1)),),
        (KeptColumn("%s%b", sensitive=True),),
        k=2,
    )
    records, _ = Changelog(odd, 0).diff(1, None, PublishedGroup((2,), (3,), ((b'"100%"',),)))
    assert json.loads(records[0].value or b"") == {
        "qi_group": "0-1",
        '50% "%d"_lo': 2,
        '50% "%d"_hi': 3,
        "%s%b": "100%",
    }


def test_a_key_is_read_back() -> None:
    assert parse_key(row_key(RowKey(2, 40, 7))) == RowKey(2, 40, 7)
    assert parse_qi_group("2-40") == (2, 40)


@pytest.mark.parametrize(
    "key",
    [
        b'{"qi_group": "0-17","slot":3}',
        b'{"qi_group":"0-17","slot":03}',
        b'{"qi_group":"0-17","slot":-1}',
        b'{"qi_group":"0-0","slot":3}',
        b'{"qi_group":"17","slot":3}',
        b'{"slot":3,"qi_group":"0-17"}',
        b'{"qi_group":"0-17","slot":3}\n',
        b"",
    ],
)
def test_a_key_has_one_form_only_because_compaction_compares_bytes(key: bytes) -> None:
    with pytest.raises(LawViolated, match="the key of a record"):
        parse_key(key)
