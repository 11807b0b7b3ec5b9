"""Columns, schemas and lengths of what is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from fastavro import parse_schema
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, EventRefused, UsageError
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.table.codes import KeptColumn
from streamer.table.encode import Encoder
from streamer.table.published.groups import group_columns
from streamer.table.published.rows import frame_bytes, published_columns
from streamer.table.published.schemas import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
    all_columns,
    avro_key_schema,
    avro_value_schema,
    bytes_more,
    kept_column,
    key_schema,
    left_out,
    no_schema,
    record_key_columns,
    record_value_columns,
    schema_text,
    sink_table,
    value_schema,
    values_bytes_max,
    view_name,
)
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, Limits, Table
from worlds.published_forms import BMI as PUBLISHED_FORMS_BMI
from worlds.published_forms import CITY, TABLE, published_as
from worlds.small_tables import BMI, CITIES, TABLES, table


def test_every_published_column_has_its_type_and_only_kept_values_can_be_null() -> None:
    assert record_value_columns(TABLE) == (
        PublishedColumn("qi_group", TEXT),
        PublishedColumn("age_lo", INTEGER),
        PublishedColumn("age_hi", INTEGER),
        PublishedColumn("bmi_lo", DECIMAL, whole_digits=2, scale=1),
        PublishedColumn("bmi_hi", DECIMAL, whole_digits=2, scale=1),
        PublishedColumn("city", TEXT),
        PublishedColumn("problem", TEXT, nullable=True),
        PublishedColumn("cost", FLOAT, nullable=True),
        PublishedColumn("visits", INTEGER, nullable=True),
        PublishedColumn("smokes", BOOLEAN, nullable=True),
    )


def test_names_and_order_are_those_of_the_changelog() -> None:
    assert tuple(column.name for column in record_value_columns(TABLE)) == published_columns(TABLE)
    groups = published_as(GROUPS)
    assert tuple(column.name for column in record_value_columns(groups)) + left_out(groups) == group_columns(groups)
    assert left_out(TABLE) == ()


def test_the_key_tells_rows_by_slot_and_whole_groups_by_their_name() -> None:
    assert [column.name for column in record_key_columns(TABLE)] == ["qi_group", "slot"]
    assert [column.name for column in record_key_columns(published_as(GROUPS))] == ["qi_group"]
    assert [column.name for column in all_columns(TABLE)][:3] == ["qi_group", "slot", "age_lo"]


def test_edges_of_cells_have_the_scale_of_what_they_are_made_of() -> None:
    _, lo, hi, _ = record_value_columns(replace(table(BMI), kept=(KeptColumn("x", True, "text"),)))
    assert (lo.type, lo.whole_digits, lo.scale) == (hi.type, hi.whole_digits, hi.scale) == (DECIMAL, 2, 1)


@pytest.mark.parametrize("kind", [None, "moon-phase"])
def test_a_kept_column_of_any_type_or_an_unknown_one_is_refused_with_the_remedy(kind: str | None) -> None:
    with pytest.raises(ConfigError, match=r"columns\.problem: .*give it a hierarchy, or one of the types text"):
        kept_column(KeptColumn("problem", sensitive=True, type=kind))


def test_a_kept_column_with_a_hierarchy_is_a_text_whatever_else() -> None:
    assert kept_column(KeptColumn("city", sensitive=True, hierarchy=CITIES)).type == TEXT


@pytest.mark.parametrize("kind", ["date", "timestamp", "local-timestamp"])
def test_dates_and_times_are_texts_on_the_other_side(kind: str) -> None:
    column = KeptColumn("admitted", sensitive=True, type=kind)
    assert kept_column(column) == PublishedColumn("admitted", TEXT, nullable=True)


@pytest.mark.parametrize("columns", [record_key_columns, record_value_columns])
def test_a_lossy_join_is_refused_with_what_to_do_instead(columns: object) -> None:
    with pytest.raises(UsageError, match=r"may join two moments.*subscribe --csv"):
        columns(published_as(LOSSY_JOIN))  # type: ignore[operator]


def test_the_sink_s_names_are_plain_words() -> None:
    named = replace(TABLE, name="ward-7.people")
    assert (sink_table(named), view_name(named)) == ("ward_7_people_live", "ward_7_people_anonymous")


# Avro's schemas: fastavro takes them, and decimals, nulls and lists are what they are to Kafka Connect.


def fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    parse_schema(schema)
    return {field["name"]: field["type"] for field in schema["fields"]}


def test_rows_have_exact_ends_and_only_kept_values_may_be_null() -> None:
    end = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    assert fields_of(avro_value_schema(TABLE)) == {
        "qi_group": "string",
        "age_lo": "long",
        "age_hi": "long",
        "bmi_lo": end,
        "bmi_hi": end,
        "city": "string",
        "problem": ["null", "string"],
        "cost": ["null", "double"],
        "visits": ["null", "long"],
        "smokes": ["null", "boolean"],
    }
    assert fields_of(avro_key_schema(TABLE)) == {"qi_group": "string", "slot": "long"}


def test_a_qi_group_in_one_message_has_the_list_of_its_values() -> None:
    grouped = replace(TABLE, form=GROUPS)
    values = fields_of(avro_value_schema(grouped))["values"]
    assert values["type"] == "array"
    assert fields_of(values["items"]) == {
        "problem": ["null", "string"],
        "cost": ["null", "double"],
        "visits": ["null", "long"],
        "smokes": ["null", "boolean"],
        "count": "long",
    }
    assert fields_of(avro_key_schema(grouped)) == {"qi_group": "string"}


def test_a_table_whose_name_avro_does_not_know_has_schemas_all_the_same() -> None:
    parse_schema(avro_value_schema(replace(TABLE, name="7.wards-a")))


def test_what_has_no_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="two topics"):
        avro_key_schema(replace(TABLE, form=LOSSY_JOIN))
    with pytest.raises(ConfigError, match="do not begin with a digit"):
        avro_value_schema(replace(TABLE, kept=(KeptColumn("2nd", sensitive=True, type="text"),)))


# Connect's schemas of key and value, as its JsonConverter reads them (tried by hand on that of Connect 4.2.1).


def test_the_key_is_a_struct_of_what_tells_rows_apart() -> None:
    assert key_schema(TABLE) == {
        "type": "struct",
        "optional": False,
        "fields": [
            {"type": "string", "field": "qi_group", "optional": False},
            {"type": "int64", "field": "slot", "optional": False},
        ],
    }


def test_exact_numbers_are_connect_s_decimals_with_their_scale() -> None:
    fields = {field["field"]: field for field in value_schema(TABLE)["fields"]}
    assert fields["bmi_lo"] == {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "1"},
        "field": "bmi_lo",
        "optional": False,
    }
    types = {name: (field["type"], field["optional"]) for name, field in fields.items() if not name.startswith("bmi")}
    assert types == {
        "qi_group": ("string", False),
        "age_lo": ("int64", False),
        "age_hi": ("int64", False),
        "city": ("string", False),
        "problem": ("string", True),
        "cost": ("double", True),
        "visits": ("int64", True),
        "smokes": ("boolean", True),
    }


def test_a_whole_group_has_box_and_size_and_its_list_of_values_is_skipped() -> None:
    names = [field["field"] for field in value_schema(published_as(GROUPS))["fields"]]
    assert names == ["qi_group", "age_lo", "age_hi", "bmi_lo", "bmi_hi", "city", "size"]


def test_a_schema_is_one_line_of_json() -> None:
    text = schema_text(value_schema(TABLE))
    assert "\n" not in text
    assert json.loads(text) == value_schema(TABLE)


# What a format cannot hold is refused before it is published: a table by its file, a row as a dead letter.

FORMATS = (CONNECT_JSON, AVRO)
UNTYPED = KeptColumn("ward", sensitive=False)


@pytest.mark.parametrize("format_", FORMATS)
def test_tables_without_a_schema_are_refused_with_the_remedy(format_: str) -> None:
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
    named = replace(TABLE, attributes=(PUBLISHED_FORMS_BMI, replace(CITY, name="home-town")))
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


# How large a published row can become: what the limit of a row is measured against.

VALUES = (b'"flu"',)


UNBOUNDED = {name: small for name, small in TABLES.items() if not small.space.is_bounded}
"""Others withhold a QI group that is too wide."""


@pytest.mark.parametrize("small", UNBOUNDED.values(), ids=list(UNBOUNDED))
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


@pytest.mark.parametrize("form", [GROUPS, LOSSY_JOIN])
@pytest.mark.parametrize("name", UNBOUNDED)
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
