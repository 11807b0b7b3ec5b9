"""Messages in Confluent's wire format: values by their schemas, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Remove, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.logical_types import CONNECT, DECIMAL, INSTANTS, MICRO, ConnectType
from streamer.incremental.events.registered_schemas import (
    UNION,
    Known,
    RegisteredSchema,
    UnusableSchema,
    json_schema_type,
    parsed_avro,
    read_avro,
    schema_from,
    schema_ids,
)
from streamer.incremental.events.snapshot_marks import Mark, mark_of
from streamer.table.codes import KeptColumn
from worlds.avro_messages import DECIMAL as DECIMAL_NAME
from worlds.avro_messages import change, envelope, logical, message, money, optional, record, unscaled
from worlds.small_tables import table

# Avro's schemas as Connect's types.


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
def test_what_is_not_a_schema_is_an_error(schema: Any) -> None:
    with pytest.raises(ValueError, match="not an Avro schema"):
        parsed_avro(schema)


# JSON Schemas as Connect's types.

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


COLUMNS = ("fee", "born", "rate", "ward")
PEOPLE = replace(table(), kept=tuple(KeptColumn(name, False) for name in COLUMNS))
KEY = record("Key", {"id": "long"})
ROW = {
    "id": "long",
    "fee": optional(money()),
    "born": optional(logical("int", "io.debezium.time.Date")),
    "rate": optional("double"),
    "ward": optional("string"),
    "photo": optional("bytes"),
}
VALUE = envelope(ROW)
SCHEMAS: Known = {
    1: schema_from(1, "AVRO", json.dumps(KEY)),
    2: schema_from(2, "AVRO", json.dumps(VALUE)),
    3: schema_from(3, "AVRO", json.dumps(record("Value", ROW))),
    4: schema_from(4, "PROTOBUF", "syntax"),
}
DECODER = Decoder(PEOPLE, SCHEMAS)


def row(number: int = 7, fee: str = "-20.50") -> dict[str, object]:
    known = {"fee": unscaled(Decimal(fee), 2), "born": 3682, "rate": 0.1, "ward": None, "photo": b"\xff"}
    return {"id": number, **known}


def key(number: int) -> bytes:
    return message(1, KEY, {"id": number})


def test_the_bytes_are_those_of_confluents_serializer() -> None:
    """Written by confluent_kafka.schema_registry.avro.AvroSerializer 2.8.2."""
    fields = {"id": "long", "age": "int", "zip": optional("long"), "bmi": money(1), "sex": "string"}
    said = {"id": -70000, "age": 42, "zip": None, "bmi": unscaled(Decimal("-20.5"), 1), "sex": "Malé"}
    recorded = "00000000010002dfc508540004ff330a4d616cc3a914706f737467726573716c020a66616c736502630202"
    assert message(1, envelope(fields), change("c", said)).hex() == recorded
    assert message(2, KEY, {"id": -70000}).hex() == "0000000002dfc508"


def test_an_envelope_in_avro_says_what_its_types_mean() -> None:
    found = DECODER.decode(key(7), message(2, VALUE, change("c", row())))
    assert isinstance(found, Upsert)
    assert (found.source_key, found.row.values) == ("7", (b"-20.5", b'"1980-01-31"', b"0.1", b"null"))


def test_deletions_and_tombstones_name_their_row() -> None:
    assert DECODER.decode(key(-9), message(2, VALUE, change("d", row(-9)))) == Remove("-9", was_there=True)
    assert DECODER.decode(key(-9), None) == Remove("-9")


def test_a_row_without_a_mark_is_read_where_the_table_says_so() -> None:
    rows = Decoder(replace(PEOPLE, input_rows=True), SCHEMAS)
    found = rows.decode(key(7), message(3, record("Value", ROW), row()))
    assert isinstance(found, Upsert) and found.source_key == "7"


def test_json_with_a_registered_schema_has_its_types() -> None:
    fee = {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes"}
    after = {"type": "object", "properties": {"fee": {**fee, "connect.parameters": {"scale": "2"}}}}
    schema = schema_from(5, "JSON", json.dumps({"type": "object", "properties": {"after": after}}))
    coded = base64.b64encode(unscaled(Decimal("12.34"), 2)).decode()
    said = {"op": "c", "after": {"id": 7, "fee": coded, "born": None, "rate": None, "ward": "B"}}
    found = Decoder(PEOPLE, {5: schema}).decode(b"7", b"\0\0\0\0\5" + json.dumps(said).encode())
    assert isinstance(found, Upsert) and found.row.values == (b"12.34", b"null", b"null", b'"B"')


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (message(9, VALUE, change("c", row())), "unknown-schema"),
        (message(4, VALUE, change("c", row())), "unknown-schema"),
        (message(2, VALUE, change("c", row()))[:-1], "malformed-avro"),
        (message(2, VALUE, change("c", row())) + b"\0", "malformed-avro"),
        (b"\0\0\0", "schema-registry"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(value: bytes, reason: str) -> None:
    with pytest.raises(EventRefused) as refused:
        DECODER.decode(key(7), value)
    assert refused.value.reason == reason


def test_without_a_registry_the_setting_is_named() -> None:
    with pytest.raises(EventRefused, match="SCHEMA_REGISTRY_URL"):
        Decoder(PEOPLE).decode(b"7", message(2, VALUE, change("c", row())))


def test_a_snapshots_marks_are_seen_in_avro() -> None:
    for snapshot, mark in (("last", Mark.LAST), ("incremental", Mark.INCREMENTAL), ("false", Mark.CHANGE)):
        assert mark_of(message(2, VALUE, change("c", row(), snapshot=snapshot)), SCHEMAS) is mark
    assert mark_of(message(9, VALUE, change("c", row())), SCHEMAS) is Mark.NOTHING


def test_a_flattened_rows_mark_and_place_are_seen_in_avro_whatever_its_columns_are_called() -> None:
    names = {"__op": "string", "__source_snapshot": "string", "__source_connector": "string", "__source_lsn": "long"}
    schema = record("Value", {**ROW, "source": optional("string"), "payload": optional("bytes"), **names})
    known = {6: schema_from(6, "AVRO", json.dumps(schema))}
    marks = {"__op": "r", "__source_snapshot": "last", "__source_connector": "postgresql", "__source_lsn": 33}
    value = message(6, schema, {**row(), "source": "web", "payload": b"\xff", **marks})
    assert mark_of(value, known) is Mark.LAST


def test_the_ids_of_a_batch_are_found_in_keys_and_values() -> None:
    assert schema_ids([(key(1), None), (b"7", message(2, VALUE, change("c", row()))), (b"\0", b"{}")]) == {1, 2}


def test_unusable_schemas_say_why() -> None:
    for schema in (
        schema_from(1, "AVRO", "{"),
        schema_from(1, "AVRO", '"nonsense"'),
        schema_from(1, "PROTOBUF", ""),
        schema_from(1, "AVRO", '"string"', has_references=True),
    ):
        assert isinstance(schema, UnusableSchema)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    schema = SCHEMAS[2]
    assert isinstance(schema, RegisteredSchema)
    try:
        read_avro(b"\0\0\0\0\2" + data, schema)
    except EventRefused as refused:
        assert refused.reason == "malformed-avro"
