"""Avro's schemas: fastavro takes them, and decimals, nulls and lists are what they are to Kafka Connect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastavro import parse_schema

from streamer.errors import ConfigError, UsageError
from streamer.table.avro_schemas import avro_key_schema, avro_value_schema
from streamer.table.schema import GROUPS, LOSSY_JOIN, KeptColumn
from worlds.published_forms import TABLE


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
    with pytest.raises(ConfigError, match="begin with no digit"):
        avro_value_schema(replace(TABLE, kept=(KeptColumn("2nd", sensitive=True, type="text"),)))
