"""The partition contract: a row's messages come under one message key, in one shard, or are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import default as kafka_python

from streamer.errors import EventRefused
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    Nothing,
    Remove,
    Truncate,
    Upsert,
)
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import (
    BARE,
    JSON_TEXT,
    AvroKeyForm,
    KeyContract,
    KeyForm,
    MessageKeys,
    avro_key_form,
    default_form,
    kind_of,
    murmur2,
    shard_of,
    written_part,
)
from streamer.incremental.events.logical_types import ConnectType, connect_type_of, reader_of
from streamer.incremental.events.registered_schemas import RegisteredSchema, schema_from
from streamer.incremental.events.statements import parse_condition
from streamer.table.codes.scalars import key_text
from streamer.table.encode import Encoder
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.avro_messages import logical, money, optional, record, unscaled
from worlds.avro_messages import message as avro_messages_message
from worlds.connect_json import Cell, days, decimals, recorded, recorded_of, struct, times, timestamps, with_schema
from worlds.small_tables import AGE, table

# The shard of a message key is the one that Kafka's clients give it.

# Of the tests of Kafka's Java client (UtilsTest.testMurmur2), as signed 32-bit numbers.
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("message_key", "java"), JAVA_MURMUR2.items())
@pytest.mark.parametrize("shards", [1, 4, 7, 1000])
def test_the_shard_is_javas_murmur2_without_its_sign_modulo_the_shards(
    message_key: bytes, java: int, shards: int
) -> None:
    assert murmur2(message_key) == java % (1 << 32)
    assert shard_of(message_key, shards) == (java & 0x7FFFFFFF) % shards


@given(st.binary(max_size=400))
def test_it_is_the_murmur2_of_kafka_python(data: bytes) -> None:
    assert murmur2(data) == kafka_python.murmur2(data)


# Message keys in Avro: each schema's id is a form of its own, and a row has one message key under it.

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
    return KeyContract(of, 0, SCHEMAS).form_of(avro_messages_message(schema_id, KEYS[schema_id], value), source_key)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_rows_key_is_written_back_byte_for_byte(number: int) -> None:
    for schema_id, value in ((1, {"id": number}), (3, {"id": str(number)}), (5, number)):
        form = told(schema_id, value, str(number))
        assert form.name == f"avro:{schema_id}"
        assert form.written("12") == avro_messages_message(schema_id, KEYS[schema_id], _as(schema_id, 12))


def _as(schema_id: int, number: int) -> Any:
    return {1: {"id": number}, 3: {"id": str(number)}, 5: number}[schema_id]


def test_keys_with_logical_types_and_several_columns() -> None:
    assert told(4, {"id": unscaled(Decimal("7.5"), 2)}, "7.5").name == "avro:4"
    form = told(6, {"day": 3682, "ward": "B"}, '["B","1980-01-31"]', VISITS)
    assert form.written('["C","1980-02-01"]') == avro_messages_message(6, KEYS[6], {"day": 3683, "ward": "C"})
    assert form.written('["C","today"]') is None


@pytest.mark.parametrize(("schema_id", "value"), [(7, {"id": 7, "more": 1}), (8, {"id": 7.0})])
def test_keys_that_no_source_key_gives_are_refused(schema_id: int, value: Any) -> None:
    with pytest.raises(EventRefused) as refused:
        told(schema_id, value, "7")
    assert refused.value.reason == "message-key-unreadable"


def form_after(key_form: str, message_key: bytes) -> str:
    return KeyContract(ONE, shard_of(message_key, 4), SCHEMAS).form_after(key_form, message_key, Remove("7"), 4)


def test_a_key_with_another_id_is_refused_with_the_remedy() -> None:
    first, second = (avro_messages_message(schema_id, KEYS[schema_id], {"id": 7}) for schema_id in (1, 2))
    assert form_after("", first) == form_after("avro:1", first) == "avro:1"
    with pytest.raises(EventRefused, match=r"avro:1, this one as avro:2.*use\.latest\.version") as refused:
        form_after("avro:1", second)
    assert refused.value.reason == "message-key-form"
    with pytest.raises(EventRefused, match=r"key\.converter back"):
        form_after("bare", first)


def test_a_json_key_under_an_id_is_a_form_of_its_own() -> None:
    head = b"\0\0\0\0\x09"
    assert form_after("", head + b'{"id":7}') == 'registry:9:json:{"id":number}'
    form = KeyContract(ONE, 0, SCHEMAS).form_of(head + b'{"id":7}', "7")
    assert form is not None and form.written("8") == head + b'{"id":8}'


def test_an_unknown_id_says_so() -> None:
    with pytest.raises(EventRefused) as refused:
        form_after("", avro_messages_message(99, KEYS[1], {"id": 7}))
    assert refused.value.reason == "unknown-schema"


def test_a_form_is_made_for_exactly_the_columns_of_the_source_key() -> None:
    schema, types = SCHEMAS[6], {"day": ConnectType("int32", "io.debezium.time.Date"), "ward": ConnectType("string")}
    assert isinstance(schema, RegisteredSchema)
    form = avro_key_form(schema, ("ward", "day"), types)
    assert isinstance(form, AvroKeyForm) and form.name == "avro:6"
    assert avro_key_form(schema, ("ward",), types) is None
    assert form.written('["B","1980-01-31"]') == avro_messages_message(6, KEYS[6], {"day": 3682, "ward": "B"})


# Parts of a message key with a logical type are written as Connect wrote them, byte for byte.


@given(st.one_of(decimals(), days(), times(), timestamps()).filter(lambda cell: cell.schema["type"] != "struct"))
def test_a_part_that_was_read_is_written_back_as_it_was(cell: Cell) -> None:
    type_ = connect_type_of(cell.schema)
    assert type_ is not None
    reader, kind = reader_of(type_, "id", of_numbers=False), kind_of(type_)
    assert reader is not None and kind is not None
    assert written_part(kind, key_text(reader(cell.wire), "id")) == json.dumps(cell.wire).encode()


def test_numbers_of_every_length_and_sign_are_written_as_connect_wrote_them() -> None:
    numbers = [message for message in recorded() if message.what.startswith("number ")]
    assert len(numbers) == 42
    for message in numbers:
        said = json.loads(message.key)
        type_ = connect_type_of(said["schema"])
        assert type_ is not None
        kind = kind_of(type_)
        assert kind is not None
        assert written_part(kind, message.what.split()[1]) == json.dumps(said["payload"]).encode()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decimal(2)", "1.005"), ("decimal(2)", "x"), ("decimal(0)", "0.5"), ("days", "x"), ("days", "1980-01-31Z"),
        ("iso-date", "x"), ("time(1000)", "1:00:00"), ("time(1000)", "01:00:00.0001"), ("local(1000)", "1980-01-31"),
        ("instant(1000)", "1980-01-31T00:00:00"), ("iso-timestamp", "1980-01-31T00:00:00Z"), ("iso-timestamp", "x"),
    ],
)  # fmt: skip
def test_a_text_that_no_value_of_the_kind_has_is_not_written(kind: str, text: str) -> None:
    assert written_part(kind, text) is None


def test_an_iso_date_ends_with_a_z_in_the_message_key() -> None:
    type_ = connect_type_of({"type": "string", "name": "io.debezium.time.IsoDate"})
    assert type_ is not None and kind_of(type_) == "iso-date"
    assert written_part("iso-date", "1980-01-31") == b'"1980-01-31Z"'


@pytest.mark.parametrize("text", ["2018-06-20T13:37:03.123456789", "2018-06-20T13:37:00"])
def test_an_iso_timestamp_ends_with_a_z_in_the_message_key(text: str) -> None:
    type_ = connect_type_of({"type": "string", "name": "io.debezium.time.IsoTimestamp"})
    assert type_ is not None and kind_of(type_) == "iso-timestamp"
    assert written_part("iso-timestamp", text) == f'"{text}Z"'.encode()


@pytest.mark.parametrize("type_", ["int32", "string", "bytes", "double"])
def test_types_without_a_name_have_no_kind(type_: str) -> None:
    found = connect_type_of({"type": type_})
    assert found is not None and kind_of(found) is None


def test_an_unknown_kind_is_an_error_of_this_program() -> None:
    with pytest.raises(ValueError, match="not the kind"):
        written_part("weeks", "7")


# The row that a message key names, whichever converter wrote it.

MESSAGE_KEYS_KEYS = MessageKeys(Encoder(table(AGE)))
MESSAGE_KEYS_VISITS = MessageKeys(Encoder(replace(table(AGE), source_key=("ward", "number"))))

NAMED = {
    "int": "7",
    "decimal": "7.5",
    "variable": "7.5",
    "date": "1980-01-31",
    "connect_timestamp": "2018-06-20T13:37:03.123Z",
    "micro_timestamp": "2018-06-20T13:37:03.123456",
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
}


@pytest.mark.parametrize("type_", NAMED)
def test_a_key_with_schema_names_its_row_by_what_it_means(type_: str) -> None:
    for message in recorded_of(f"life {type_} envelopes", schemas=True):
        assert MESSAGE_KEYS_KEYS.source_key(message.key) == NAMED[type_]


def test_keys_without_schema_are_names_as_they_come() -> None:
    for message_key in (b"7", b" 7 ", b'"7"', b'{"id":7}', b'{"id": "7"}'):
        assert MESSAGE_KEYS_KEYS.source_key(message_key) == "7"
    assert MESSAGE_KEYS_KEYS.source_key(b'{"id":"Au4="}') == "Au4="
    assert MESSAGE_KEYS_VISITS.source_key(b'{"number":3,"ward":"B"}') == '["B","3"]'


@pytest.mark.parametrize(
    ("message_key", "reason"),
    [
        (None, "missing-key"), (b"", "missing-key"), (b"null", "missing-key"), (b"{", "malformed-json"),
        (b"\xff", "malformed-json"), (b"\x00\x00\x00\x00\x01", "schema-registry"), (b'{"x":7}', "missing-key"),
        (b'{"schema":{"type":"int32","name":"io.debezium.time.Date"},"payload":null}', "missing-key"),
        (b'{"id":{"scale":2,"value":"Au4="}}', "wrong-type"),
    ],
)  # fmt: skip
def test_a_key_that_names_no_row_is_refused(message_key: bytes | None, reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        MESSAGE_KEYS_KEYS.source_key(message_key)
    assert caught.value.reason == reason


def test_the_types_of_a_keys_columns_are_those_of_its_schema() -> None:
    (message, *_) = recorded_of("life date envelopes", schemas=True)
    assert MESSAGE_KEYS_KEYS.types(message.key)["id"].name == "io.debezium.time.Date"
    assert MESSAGE_KEYS_KEYS.types(b'{"id":7}') == MESSAGE_KEYS_KEYS.types(b"7") == {}


SHARDS = 4
PEOPLE = table(AGE)
KEY_FORM_VISITS = replace(PEOPLE, source_key=("ward", "number"))
ROW = Row((5,), ())

SCHEMA = b'{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"name":"shop.public.people.Key"}'
OTHER_SCHEMA = SCHEMA.replace(b"shop", b"store")


def connect(source_key: int, schema: bytes = SCHEMA) -> bytes:
    """A message key as Debezium writes it with schemas.enable."""
    return b'{"schema":%b,"payload":{"id":%d}}' % (schema, source_key)


def upsert(source_key: object) -> Upsert:
    return Upsert(str(source_key), ROW)


def after(
    key_form: str, message_key: bytes | None, change: Change, of: Table = PEOPLE, shard: int | None = None
) -> str:
    shard = shard_of(message_key or b"", SHARDS) if shard is None else shard
    return KeyContract(of, shard).form_after(key_form, message_key, change, SHARDS)


def refusal(
    key_form: str, message_key: bytes | None, change: Change, of: Table = PEOPLE, shard: int | None = None
) -> EventRefused:
    with pytest.raises(EventRefused) as caught:
        after(key_form, message_key, change, of, shard)
    return caught.value


# -- what is learned --------------------------------------------------------------------------------------------------

FORMS = {
    "bare": (b"7", "bare"),
    "Connect's JSON": (b'{"id":7}', 'json:{"id":number}'),
    "Python's JSON": (b'{"id": 7}', 'json:{"id": number}'),
    "text in JSON": (b'{"id":"7"}', 'json:{"id":text}'),
    "one text in JSON": (b'"7"', "json:text"),
    "Connect's JSON with schema": (connect(7), "json-schema:ba26c2e95effb0f2"),
    "another schema": (connect(7, OTHER_SCHEMA), "json-schema:a45146826b4a2c5d"),
    "a scalar with schema": (b'{"schema":{"type":"int32"},"payload":7}', "json-schema:7ce015725a99c110"),
}


@pytest.mark.parametrize("what", FORMS)
def test_the_first_row_change_tells_the_form(what: str) -> None:
    message_key, form = FORMS[what]
    assert after("", message_key, upsert(7)) == form
    assert after(form, message_key, upsert(7)) == form


@pytest.mark.parametrize("what", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_a_row_change_under_another_form_of_key_would_double_the_row_and_is_refused(what: str, other: str) -> None:
    if what == other:
        return
    refused = refusal(FORMS[what][1], FORMS[other][0], upsert(7))
    assert refused.reason == "message-key-form"
    assert FORMS[what][1] in refused.detail and "key.converter" in refused.detail


def test_a_composite_key_has_a_form_with_a_place_for_each_column_in_any_order() -> None:
    message_key = b'{"number":3,"ward":"B"}'
    form = after("", message_key, upsert('["B","3"]'), KEY_FORM_VISITS)
    assert form == 'json:{"number":number,"ward":text}'
    assert after(form, b'{"number":4,"ward":"A"}', upsert('["A","4"]'), KEY_FORM_VISITS) == form
    refused = refusal(form, b'{"ward":"B","number":3}', upsert('["B","3"]'), KEY_FORM_VISITS)
    assert refused.reason == "message-key-form"


def test_a_quoted_text_that_cannot_be_bare_tells_nothing_and_fits_both_forms() -> None:
    for form in ("", "bare", "json:text"):
        assert after(form, b'"{odd"', upsert("{odd")) == form
    assert refusal('json:{"id":text}', b'"{odd"', upsert("{odd")).reason == "message-key-form"


def test_what_is_learned_survives_a_restart_and_does_not_depend_on_what_came_before() -> None:
    used = KeyContract(PEOPLE, shard_of(connect(7), SHARDS))
    used.form_after("", connect(7), upsert(7), SHARDS)
    for message_key in (connect(7), b'{"id":7}', b"7", b'"7"', b'"{odd"'):
        for form in ("", "bare", "json:text", 'json:{"id":number}', "json-schema:ba26c2e95effb0f2"):
            source_key = "{odd" if b"odd" in message_key else "7"
            said = []
            for contract in (used, KeyContract(PEOPLE, shard_of(connect(7), SHARDS))):
                try:
                    said.append(contract.form_after(form, message_key, upsert(source_key), SHARDS))
                except EventRefused as refused:
                    said.append(refused.reason)
            assert said[0] == said[1]


# -- what is refused --------------------------------------------------------------------------------------------------

CHANGES = [Insert("7", ROW), Delete("7"), Modify("7"), Upsert("7", ROW), Remove("7")]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("message_key", [None, b""])
def test_a_row_change_without_a_message_key_is_refused_where_there_are_several_shards(
    change: Change, message_key: bytes | None
) -> None:
    refused = refusal("bare", message_key, change)
    assert refused.reason == "message-key-missing"
    assert "message.key.columns" in refused.detail


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_change_in_another_shard_than_murmur2_gives_is_refused(change: Change) -> None:
    home = shard_of(b"7", SHARDS)
    assert after("bare", b"7", change, shard=home) == "bare"
    refused = refusal("bare", b"7", change, shard=(home + 1) % SHARDS)
    assert refused.reason == "wrong-partition"
    assert "murmur2_random" in refused.detail and "partitioner: stated" in refused.detail


def test_a_stated_partitioner_is_believed_and_its_keys_still_need_one_form() -> None:
    stated = replace(PEOPLE, partitioner_stated=True)
    away = (shard_of(b"7", SHARDS) + 1) % SHARDS
    assert after("bare", b"7", upsert(7), stated, away) == "bare"
    assert refusal("bare", b'{"id":7}', upsert(7), stated, away).reason == "message-key-form"
    assert refusal("bare", None, upsert(7), stated, away).reason == "message-key-missing"
    assert stated.fingerprint != PEOPLE.fingerprint, "it decides what is applied"


@pytest.mark.parametrize("message_key", [b"8", b'{"id":8}', connect(8), b"seven"])
def test_a_message_key_of_another_row_than_the_value_is_refused(message_key: bytes) -> None:
    assert refusal("", message_key, upsert(7)).reason == "message-key-of-other-row"
    assert refusal("bare", message_key, upsert(7)).reason == "message-key-of-other-row"


@pytest.mark.parametrize(
    "message_key",
    [
        b"\x00\x00\x00\x00\x01\x0e",
        b"\xff\xfe",
        b"{}",
        b"[7]",
        b"null",
        b'{"id":7',
        b'{"ID":7}',
        b'{"id":7,"tenant":3}',
        b'{"id":7.0}',
        b'{"id":"\\u0037"}',
        b'{"id":7e0}',
        b'{"id":8,"id":7}',
        b" 7",
        b'{"payload":{"id":7},"schema":{}}',
        b'{"schema":{},"payload":{"id":7},"more":1}',
    ],
)
def test_a_message_key_whose_bytes_do_not_follow_from_the_source_key_is_refused(message_key: bytes) -> None:
    refused = refusal("", message_key, upsert(7))
    assert refused.reason == "message-key-unreadable"
    assert "(id)" in refused.detail


def test_what_is_about_no_single_row_needs_no_key() -> None:
    changes: list[Change] = [Nothing(), DeleteWhere(parse_condition("age < 3", PEOPLE))]
    for change in changes:
        for message_key in (None, b"7", b'{"ts_ms":1}'):
            assert after("", message_key, change, shard=0) == ""
            assert after("bare", message_key, change, shard=1) == "bare"


def test_a_truncation_forgets_the_form_with_the_rows() -> None:
    for form in ("", "bare", "json:text"):
        assert after(form, None, Truncate(), shard=0) == ""


@pytest.mark.parametrize("message_key", [None, b"7", b"8", b'{"id":7}', b"\x00", b"anything"])
def test_one_shard_asks_nothing_of_message_keys(message_key: bytes | None) -> None:
    assert KeyContract(PEOPLE, 0).form_after("", message_key, upsert(7), shards=1) == ""


# -- no row under two keys, no value in a text ------------------------------------------------------------------------

TEXTS = st.text(max_size=8) | st.integers().map(str) | st.sampled_from(["null", '"', "{", "[1]", " 7", "7.50", "007"])


@given(TEXTS, st.sampled_from([BARE, JSON_TEXT]))
def test_what_a_form_writes_names_the_row_and_is_of_that_form(source_key: str, form: KeyForm) -> None:
    written = form.written(source_key)
    if source_key and written:
        assert after(form.name, written, upsert(source_key)) == form.name


@given(st.tuples(TEXTS, TEXTS))
def test_a_composite_key_is_written_as_an_object_of_texts_unless_the_input_tells_otherwise(
    parts: tuple[str, str],
) -> None:
    source_key = msgspec.json.encode(parts).decode()
    form = default_form(KEY_FORM_VISITS.source_key)
    written = form.written(source_key)
    assert written is not None and json.loads(written) == dict(zip(KEY_FORM_VISITS.source_key, parts, strict=True))
    assert after("", written, upsert(source_key), KEY_FORM_VISITS) == form.name == 'json:{"ward":text,"number":text}'


@given(
    first=st.binary(max_size=20) | TEXTS.map(str.encode) | TEXTS.map(lambda text: json.dumps({"id": text}).encode()),
    second=st.binary(max_size=20) | TEXTS.map(str.encode) | TEXTS.map(lambda text: json.dumps({"id": text}).encode()),
)
def test_two_keys_that_a_shard_takes_for_one_row_are_the_same_bytes(first: bytes, second: bytes) -> None:
    decoder, contract, form = Decoder(PEOPLE), KeyContract(replace(PEOPLE, partitioner_stated=True), 0), ""
    taken: dict[str, bytes] = {}
    for message_key in (first, second):
        try:
            change = decoder.decode(message_key, None)
            form = contract.form_after(form, message_key, change, SHARDS)
        except EventRefused:
            continue
        assert isinstance(change, Remove)
        assert taken.setdefault(change.source_key, message_key) == message_key


def test_no_refusal_says_a_value() -> None:
    for message_key in (b"c4nary", b'{"id":"c4nary"}', b'{"id":7,"x":"c4nary"}', b'"c4nary"', b"{c4nary", None):
        for source_key in ("c4nary", "7"):
            for form in ("bare", "json:text"):
                try:
                    after(form, message_key, upsert(source_key), shard=2)
                except EventRefused as refused:
                    assert "c4nary" not in f"{refused!r} {refused} {refused.detail}"


def test_a_long_form_is_named_by_its_hash() -> None:
    form = after("", b'{"id":%b7}' % (b" " * 500), upsert(7))
    assert len(form) < 30 and form.startswith("json:")


# -- keys of logical types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["int", "decimal", "date", "connect_timestamp", "micro_timestamp", "uuid"])
def test_a_key_of_any_type_has_a_form_that_writes_it_again(type_: str) -> None:
    (message, *_) = recorded_of(f"life {type_} envelopes", schemas=True)
    change = Decoder(replace(PEOPLE, attributes=(), kept=())).decode(message.key, message.value)
    assert isinstance(change, Upsert)
    contract = KeyContract(PEOPLE, 0)
    form = contract.form_of(message.key, change.source_key)
    assert form is not None and form.name.startswith("json-schema:")
    assert form.written(change.source_key) == message.key
    assert form.written("neither a number nor a date") is None or type_ == "uuid"


@given(st.one_of(decimals(), days(), timestamps()).filter(lambda cell: cell.schema["type"] != "struct"))
def test_a_composite_key_of_any_types_is_written_as_it_was(cell: Cell) -> None:
    schema = struct({"number": cell.schema, "ward": {"type": "string"}})
    message_key = with_schema(schema, {"number": cell.wire, "ward": "B"})
    named = MessageKeys(Encoder(KEY_FORM_VISITS)).source_key(message_key)
    form = KeyContract(KEY_FORM_VISITS, 0).form_of(message_key, named)
    assert form is not None and form.written(named) == message_key


def test_one_row_under_two_message_keys_is_refused_where_a_decimal_has_no_scale_of_its_own() -> None:
    (message, *_) = recorded_of("life variable envelopes", schemas=True)
    refused = refusal("", message.key, upsert("7.5"))
    assert refused.reason == "message-key-unreadable" and "decimal.handling.mode=string" in refused.detail


def test_a_decimal_key_whose_bytes_are_not_the_shortest_is_refused() -> None:
    scale = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    message_key = with_schema(struct({"id": scale}), {"id": "AALu"})
    assert refusal("", message_key, upsert("7.5")).reason == "message-key-unreadable"
