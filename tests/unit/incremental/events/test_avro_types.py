"""Avro's schemas as Connect's types."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.incremental.events.avro_types import UNION, parsed_avro
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_types import CONNECT, DECIMAL, INSTANTS, MICRO
from worlds.avro_messages import DECIMAL as DECIMAL_NAME
from worlds.avro_messages import envelope, logical, money, optional, record


def type_of(schema: Any) -> ConnectType:
    return parsed_avro(schema)[1]


def test_debeziums_envelope_has_its_row_before_and_after() -> None:
    found = type_of(envelope({"id": "long", "fee": optional(money()), "kind": "string"}))
    assert found.fields["after"] == found.fields["before"]
    row = found.fields["after"].fields
    assert (row["id"], row["kind"]) == (ConnectType("int64"), ConnectType("string"))
    assert row["fee"] == ConnectType("bytes", DECIMAL_NAME, {"scale": "2"})


def test_connects_names_win_over_avros() -> None:
    schema = {**logical("int", "io.debezium.time.Date"), "logicalType": "date"}
    assert type_of(schema) == ConnectType("int32", "io.debezium.time.Date")


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "int", "logicalType": "date"}, CONNECT + "Date"),
        ({"type": "long", "logicalType": "timestamp-millis"}, CONNECT + "Timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "io.debezium.time.MicroTimestamp"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, DECIMAL),
        ({"type": "long", "logicalType": "fortnights"}, "avro.fortnights"),
    ],
)
def test_avros_own_logical_types_mean_what_connects_do(schema: dict[str, Any], name: str) -> None:
    assert type_of(schema).name == name


def test_avros_instants_of_microseconds_are_instants() -> None:
    name = type_of({"type": "long", "logicalType": "timestamp-micros"}).name
    assert name is not None and INSTANTS[name] == MICRO


def test_what_connect_has_no_type_for_is_a_union() -> None:
    assert type_of(["null", "int", "string"]) == UNION
    assert type_of(record("Node", {"next": optional("Node")})).fields["next"] == UNION


@pytest.mark.parametrize("schema", ["nonsense", {"type": "record"}, 7, {"type": "record", "name": "A", "fields": [{}]}])
def test_what_is_no_schema_is_told(schema: Any) -> None:
    with pytest.raises(ValueError, match="not a schema"):
        parsed_avro(schema)
