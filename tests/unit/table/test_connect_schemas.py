"""Connect's schemas of key and value, as its JsonConverter reads them (tried by hand on that of Connect 4.2.1)."""

from __future__ import annotations

import json

from streamer.table.connect_schemas import key_schema, schema_text, value_schema
from streamer.table.schema import GROUPS
from worlds.published_forms import TABLE, published_as


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


def test_a_whole_group_has_box_and_size_and_its_list_of_values_is_passed_over() -> None:
    names = [field["field"] for field in value_schema(published_as(GROUPS))["fields"]]
    assert names == ["qi_group", "age_lo", "age_hi", "bmi_lo", "bmi_hi", "city", "size"]


def test_a_schema_is_one_line_of_json() -> None:
    text = schema_text(value_schema(TABLE))
    assert "\n" not in text
    assert json.loads(text) == value_schema(TABLE)
