"""JSON Schemas as Connect's types."""

from __future__ import annotations

import pytest

from streamer.incremental.events.avro_types import UNION
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.json_schema_types import json_schema_type
from streamer.incremental.events.logical_types import CONNECT, DECIMAL

FEE = {"type": "number", "title": DECIMAL, "connect.type": "bytes", "connect.parameters": {"scale": "2"}}
BORN = {"type": "integer", "title": CONNECT + "Date", "connect.type": "int32", "connect.version": 1}


def test_the_converters_words_decide() -> None:
    row = {"type": "object", "title": "shop.Value", "properties": {"fee": {"oneOf": [{"type": "null"}, FEE]}}}
    found = json_schema_type({"type": "object", "properties": {"after": row, "born": BORN}})
    assert found.fields["after"] == ConnectType("struct", fields={"fee": ConnectType("bytes", DECIMAL, {"scale": "2"})})
    assert found.fields["born"] == ConnectType("int32", CONNECT + "Date")


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"type": "integer"}, "int64"),
        ({"type": ["null", "string"]}, "string"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "double"),
        ({"$ref": "#/definitions/Row", "definitions": {"Row": {"type": "object"}}}, "struct"),
    ],
)
def test_jsons_own_types_are_taken_as_they_are(schema: object, type_: str) -> None:
    assert json_schema_type(schema).type == type_


@pytest.mark.parametrize(
    "schema",
    [{"type": ["integer", "string"]}, {"$ref": "elsewhere.json"}, {"$ref": "#"}, {"oneOf": []}, {}, True, 7],
)
def test_what_is_not_said_is_a_union(schema: object) -> None:
    assert json_schema_type(schema) == UNION
