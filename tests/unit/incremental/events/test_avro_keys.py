"""Message keys in Avro: each schema's id is a form of its own, and a row has one message key under it."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.avro_keys import AvroKeyForm, avro_key_form
from streamer.incremental.events.changes import Remove
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.key_form import KeyContract
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.events.registered_schemas import RegisteredSchema, schema_from
from worlds.avro_messages import logical, message, money, optional, record, unscaled
from worlds.small_tables import table

ONE = table()
VISITS = replace(ONE, source_key=("ward", "day"))
KEYS: dict[int, Any] = {
    1: record("Key", {"id": "long"}),
    2: {**record("Key", {"id": "long"}), "doc": "registered anew"},
    3: record("Key", {"id": "string"}),
    4: record("Key", {"id": money()}),
    5: "long",
    6: record("Key", {"day": logical("int", "io.debezium.time.Date"), "ward": optional("string")}),
    7: record("Key", {"id": "long", "more": "int"}),
    8: record("Key", {"id": "double"}),
}
SCHEMAS = {number: schema_from(number, "AVRO", json.dumps(schema)) for number, schema in KEYS.items()}
SCHEMAS[9] = schema_from(9, "JSON", '{"type":"object","properties":{"id":{"type":"integer"}}}')


def told(schema_id: int, value: Any, source_key: str, of: Any = ONE) -> Any:
    return KeyContract(of, 0, SCHEMAS).form_told(message(schema_id, KEYS[schema_id], value), source_key)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_rows_key_is_written_back_byte_for_byte(number: int) -> None:
    for schema_id, value in ((1, {"id": number}), (3, {"id": str(number)}), (5, number)):
        form = told(schema_id, value, str(number))
        assert form.name == f"avro:{schema_id}"
        assert form.written("12") == message(schema_id, KEYS[schema_id], _as(schema_id, 12))


def _as(schema_id: int, number: int) -> Any:
    return {1: {"id": number}, 3: {"id": str(number)}, 5: number}[schema_id]


def test_keys_with_logical_types_and_several_columns() -> None:
    assert told(4, {"id": unscaled(Decimal("7.5"), 2)}, "7.5").name == "avro:4"
    form = told(6, {"day": 3682, "ward": "B"}, '["B","1980-01-31"]', VISITS)
    assert form.written('["C","1980-02-01"]') == message(6, KEYS[6], {"day": 3683, "ward": "C"})
    assert form.written('["C","today"]') is None


@pytest.mark.parametrize(("schema_id", "value"), [(7, {"id": 7, "more": 1}), (8, {"id": 7.0})])
def test_keys_that_no_source_key_gives_are_refused(schema_id: int, value: Any) -> None:
    with pytest.raises(EventRefused) as refused:
        told(schema_id, value, "7")
    assert refused.value.reason == "message-key-unreadable"


def form_after(key_form: str, message_key: bytes) -> str:
    return KeyContract(ONE, shard_of(message_key, 4), SCHEMAS).form_after(key_form, message_key, Remove("7"), 4)


def test_a_key_under_another_id_is_refused_and_the_mend_is_named() -> None:
    first, second = (message(schema_id, KEYS[schema_id], {"id": 7}) for schema_id in (1, 2))
    assert form_after("", first) == form_after("avro:1", first) == "avro:1"
    with pytest.raises(EventRefused, match=r"avro:1, this one as avro:2.*use\.latest\.version") as refused:
        form_after("avro:1", second)
    assert refused.value.reason == "message-key-form"
    with pytest.raises(EventRefused, match=r"key\.converter back"):
        form_after("bare", first)


def test_a_json_key_under_an_id_is_a_form_of_its_own() -> None:
    head = b"\0\0\0\0\x09"
    assert form_after("", head + b'{"id":7}') == 'registry:9:json:{"id":number}'
    form = KeyContract(ONE, 0, SCHEMAS).form_told(head + b'{"id":7}', "7")
    assert form is not None and form.written("8") == head + b'{"id":8}'


def test_an_unknown_id_says_so() -> None:
    with pytest.raises(EventRefused) as refused:
        form_after("", message(99, KEYS[1], {"id": 7}))
    assert refused.value.reason == "unknown-schema"


def test_a_form_is_made_for_exactly_the_columns_of_the_source_key() -> None:
    schema, types = SCHEMAS[6], {"day": ConnectType("int32", "io.debezium.time.Date"), "ward": ConnectType("string")}
    assert isinstance(schema, RegisteredSchema)
    form = avro_key_form(schema, ("ward", "day"), types)
    assert isinstance(form, AvroKeyForm) and form.name == "avro:6"
    assert avro_key_form(schema, ("ward",), types) is None
    assert form.written('["B","1980-01-31"]') == message(6, KEYS[6], {"day": 3682, "ward": "B"})
