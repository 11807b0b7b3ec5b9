"""The partition contract: a row's messages come under one message key, in one shard, or are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from streamer.incremental.events.key_form import BARE, JSON_TEXT, KeyContract, KeyForm, form_unless_told
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.events.statements import parse_condition
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.connect_json import Cell, days, decimals, recorded_of, struct, timestamps, with_schema
from worlds.small_tables import AGE, table

SHARDS = 4
PEOPLE = table(AGE)
VISITS = replace(PEOPLE, source_key=("ward", "number"))
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
    form = after("", message_key, upsert('["B","3"]'), VISITS)
    assert form == 'json:{"number":number,"ward":text}'
    assert after(form, b'{"number":4,"ward":"A"}', upsert('["A","4"]'), VISITS) == form
    refused = refusal(form, b'{"ward":"B","number":3}', upsert('["B","3"]'), VISITS)
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
            for contract in (used, KeyContract(PEOPLE, used._shard)):
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
    form = form_unless_told(VISITS.source_key)
    written = form.written(source_key)
    assert written is not None and json.loads(written) == dict(zip(VISITS.source_key, parts, strict=True))
    assert after("", written, upsert(source_key), VISITS) == form.name == 'json:{"ward":text,"number":text}'


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


def test_a_form_too_long_to_be_said_is_told_by_its_hash() -> None:
    form = after("", b'{"id":%b7}' % (b" " * 500), upsert(7))
    assert len(form) < 30 and form.startswith("json:")


# -- keys of logical types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["int", "decimal", "date", "connect_timestamp", "micro_timestamp", "uuid"])
def test_a_key_of_any_type_has_a_form_that_writes_it_again(type_: str) -> None:
    (message, *_) = recorded_of(f"life {type_} envelopes", schemas=True)
    change = Decoder(replace(PEOPLE, attributes=(), kept=())).decode(message.key, message.value)
    assert isinstance(change, Upsert)
    contract = KeyContract(PEOPLE, 0)
    form = contract.form_told(message.key, change.source_key)
    assert form is not None and form.name.startswith("json-schema:")
    assert form.written(change.source_key) == message.key
    assert form.written("neither a number nor a date") is None or type_ == "uuid"


@given(st.one_of(decimals(), days(), timestamps()).filter(lambda cell: cell.schema["type"] != "struct"))
def test_a_composite_key_of_any_types_is_written_as_it_was(cell: Cell) -> None:
    schema = struct({"number": cell.schema, "ward": {"type": "string"}})
    message_key = with_schema(schema, {"number": cell.wire, "ward": "B"})
    contract = KeyContract(VISITS, 0)
    named = contract._keys.source_key(message_key)
    form = contract.form_told(message_key, named)
    assert form is not None and form.written(named) == message_key


def test_one_row_under_two_message_keys_is_refused_where_a_decimal_has_no_scale_of_its_own() -> None:
    (message, *_) = recorded_of("life variable envelopes", schemas=True)
    refused = refusal("", message.key, upsert("7.5"))
    assert refused.reason == "message-key-unreadable" and "decimal.handling.mode=string" in refused.detail


def test_a_decimal_key_whose_bytes_are_not_the_shortest_is_refused() -> None:
    scale = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    message_key = with_schema(struct({"id": scale}), {"id": "AALu"})
    assert refusal("", message_key, upsert("7.5")).reason == "message-key-unreadable"
