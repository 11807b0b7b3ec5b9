"""Connect's schema objects as types: what decides how a value is read, and nothing else."""

from __future__ import annotations

import pytest

from streamer.incremental.events.connect_schema import ConnectType, connect_type_of


def test_a_struct_is_read_with_its_fields_all_the_way_down() -> None:
    bmi = {"type": "bytes", "name": "Decimal", "version": 1, "parameters": {"scale": "2"}, "field": "bmi"}
    row = {"type": "struct", "fields": [bmi, {"type": "int32", "optional": False, "field": "id"}], "field": "after"}
    found = connect_type_of({"type": "struct", "fields": [row], "optional": False, "name": "Envelope"})
    after = ConnectType(
        "struct", fields={"bmi": ConnectType("bytes", "Decimal", {"scale": "2"}), "id": ConnectType("int32")}
    )
    assert found == ConnectType("struct", "Envelope", fields={"after": after})


@pytest.mark.parametrize("schema", [None, 7, "int32", [], {}, {"type": 7}, {"type": None}])
def test_what_says_no_type_is_none(schema: object) -> None:
    assert connect_type_of(schema) is None


def test_parts_that_are_not_as_connect_writes_them_say_nothing() -> None:
    odd = {
        "type": "struct",
        "name": 7,
        "parameters": [1],
        "fields": [7, {"type": "int8"}, {"field": "x"}, {"field": 1}],
    }
    assert connect_type_of(odd) == ConnectType("struct")
    assert connect_type_of({"type": "struct", "fields": {"a": 1}}) == ConnectType("struct")
