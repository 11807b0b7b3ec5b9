"""What a format cannot hold is refused before it is published: a table by its file, a row as a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from streamer.errors import EventRefused
from streamer.table.encode import Encoder
from streamer.table.format_limits import bytes_more, no_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, KeptColumn, Table
from worlds.published_forms import BMI, CITY, TABLE

FORMATS = (CONNECT_JSON, AVRO)
UNTYPED = KeptColumn("ward", sensitive=False)


@pytest.mark.parametrize("format_", FORMATS)
def test_tables_without_a_schema_are_refused_with_the_mend(format_: str) -> None:
    (join,) = no_schema(replace(TABLE, form=LOSSY_JOIN, format=format_))
    assert join.startswith("publish.live.format: ")
    assert "publish `form: rows`" in join
    (kept,) = no_schema(replace(TABLE, kept=(UNTYPED,), format=format_))
    assert kept.startswith("columns.ward: its values may be of any type")
    assert "text, integer, decimal, boolean" in kept
    (grouped,) = no_schema(replace(TABLE, kept=(UNTYPED,), format=AVRO, form=GROUPS))
    assert grouped.startswith("columns.ward: ")
    for fine in (replace(TABLE, format=format_), replace(TABLE, format=format_, form=GROUPS)):
        assert list(no_schema(fine)) == []
    assert list(no_schema(replace(TABLE, kept=(UNTYPED,), form=LOSSY_JOIN))) == []


def test_a_name_that_avro_does_not_know_is_refused_for_avro_alone() -> None:
    named = replace(TABLE, attributes=(BMI, replace(CITY, name="home-town")))
    (fault,) = no_schema(replace(named, format=AVRO))
    assert fault.startswith("columns.home-town: Avro's names have letters")
    assert list(no_schema(replace(named, format=CONNECT_JSON))) == []


@pytest.mark.parametrize(
    ("column", "value", "refusing"),
    [
        ("visits", 2**63 - 1, ()),
        ("visits", -(2**63), ()),
        ("visits", 2**63, FORMATS),
        ("visits", -(2**63) - 1, FORMATS),
        ("visits", None, ()),
        ("cost", Decimal("0.1"), ()),
        ("cost", Decimal("123456789012345"), ()),
        ("cost", Decimal("12345678901234.5678"), (AVRO,)),
        ("cost", Decimal("0.1000000000000000055"), (AVRO,)),
        ("cost", None, ()),
    ],
)
def test_a_number_that_would_come_back_as_another_is_a_dead_letter(
    column: str, value: object, refusing: tuple[str, ...]
) -> None:
    for format_ in (JSON, *FORMATS):
        encode = encoder_of(replace(TABLE, format=format_), column)
        if format_ in refusing:
            with pytest.raises(EventRefused, match="declare `type: text`") as told:
                encode(value)
            assert str(value) not in str(told.value)
        else:
            assert encode(value) == encoder_of(TABLE, column)(value)


def encoder_of(table: Table, column: str) -> Callable[[object], bytes]:
    number = [kept.name for kept in table.kept].index(column)
    return lambda value: Encoder(table).kept(number, value)


def test_what_a_format_adds_is_known_before_a_row_is_taken() -> None:
    assert bytes_more(TABLE) == (0, 0)
    assert bytes_more(replace(TABLE, format=AVRO)) == (10, 3)
    more, per_row = bytes_more(replace(TABLE, format=CONNECT_JSON))
    assert more > 900
    assert per_row == 0
