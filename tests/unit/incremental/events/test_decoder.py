"""Bytes of the input topic become changes: every form, every reason of refusal, and nothing of a row in an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamer.errors import EventRefused
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Remove,
    Truncate,
    Upsert,
)
from streamer.incremental.events.decoder import STATEMENT_ID_CHARS_MAX, Decoder
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.table.row import Row
from streamer.table.schema import KeptColumn, Limits, Table
from worlds.small_tables import AGE, BMI, CITY, PROBLEM, table

PEOPLE = replace(table(AGE, BMI, CITY), kept=(PROBLEM, KeptColumn("ward", False, "integer")))
PATIENTS = replace(PEOPLE, individual="ssn")
COMPOSITE = replace(PEOPLE, source_key=("clinic", "id"))

ANN = {"id": 7, "ssn": "s-1", "age": 6, "bmi": 11.5, "city": "b1", "problem": "flu", "ward": 3, "name": "Ann"}
ANN_ROW = Row((5, 1 << 19 | 1 << 20, 2), (b'"flu"', b"3"), ("11.5",))


def decode(message: object, key: bytes | None = None, of: Table = PEOPLE) -> Change:
    return Decoder(of).decode(key, json.dumps(message).encode())


def refusal(message: object, key: bytes | None = None, of: Table = PEOPLE) -> tuple[str, str | None]:
    with pytest.raises(EventRefused) as caught:
        decode(message, key, of)
    return caught.value.reason, caught.value.column


def ann(**changed: object) -> dict[str, object]:
    return {"op": "insert", "row": {**ANN, **changed}}


# -- the plain form ---------------------------------------------------------------------------------------------------


def test_an_insert_is_the_encoded_row_under_its_key() -> None:
    value = (
        b'{"op": "insert", "row": {"id": 7, "age": 6, "bmi": 11.50, "city": "b1", "problem": "flu", "ward": 3, "x": 1}}'
    )
    assert Decoder(PEOPLE).decode(b"ignored", value) == Insert("7", ANN_ROW)


def test_an_insert_carries_the_individual_where_one_is_declared() -> None:
    assert decode(ann(), of=PATIENTS) == Insert("7", structs.replace(ANN_ROW, individual="s-1"))


def test_a_number_and_its_text_are_one_key() -> None:
    assert decode({"op": "delete", "key": 7}) == decode({"op": "delete", "key": "7"}) == Delete("7")


def test_a_key_may_be_an_object_of_its_column() -> None:
    assert decode({"op": "delete", "key": {"id": 7}}) == Delete("7")


def test_a_composite_key_is_an_object_and_becomes_one_text() -> None:
    assert decode({"op": "delete", "key": {"id": 7, "clinic": "north"}}, of=COMPOSITE) == Delete('["north","7"]')
    assert refusal({"op": "delete", "key": 7}, of=COMPOSITE) == ("wrong-type", None)
    assert refusal({"op": "delete", "key": {"id": 7}}, of=COMPOSITE) == ("missing-key", "clinic")


def test_a_modify_holds_the_changed_columns_only() -> None:
    change = decode({"op": "modify", "key": 7, "row": {"bmi": 11.5, "ward": None, "name": "Anne"}})
    assert change == Modify("7", {1: ANN_ROW.codes[1]}, {1: "11.5"}, {1: b"null"})


def test_a_modify_hands_over_the_individual_for_comparison() -> None:
    assert decode({"op": "modify", "key": 7, "row": {"ssn": "s-2"}}, of=PATIENTS) == Modify("7", {}, {}, {}, "s-2")
    unsaid = decode({"op": "modify", "key": 7, "row": {"age": 3}}, of=PATIENTS)
    assert isinstance(unsaid, Modify)
    assert unsaid.individual is None


def test_a_modify_may_repeat_the_key_but_not_change_it() -> None:
    assert decode({"op": "modify", "key": 7, "row": {"id": "7", "age": 6}}) == Modify("7", {0: 5})
    assert refusal({"op": "modify", "key": 7, "row": {"id": 8, "age": 6}}) == ("key-changed", None)


def test_a_modify_under_a_composite_key_compares_the_columns_that_are_repeated() -> None:
    key = {"clinic": "north", "id": 7}
    change = decode({"op": "modify", "key": key, "row": {"id": 7, "age": 6}}, of=COMPOSITE)
    assert isinstance(change, Modify)
    assert change.codes == {0: 5}
    assert refusal({"op": "modify", "key": key, "row": {"clinic": "south"}}, of=COMPOSITE) == ("key-changed", None)


def test_an_upsert_says_how_a_row_shall_be_whether_it_is_there_or_not() -> None:
    assert decode({"op": "upsert", "row": ANN}) == Upsert("7", ANN_ROW)
    assert refusal({"op": "upsert"}) == ("missing-row", None)
    assert refusal({"op": "upsert", "row": {"id": 7}})[0] == "missing-column"


def test_statements_are_parsed_and_keep_their_id() -> None:
    where, to = "age >= 5 and city = 'b1'", {"age": "age + 1"}
    condition, assignments = parse_condition(where, PEOPLE), parse_assignments(to, PEOPLE)
    assert decode({"op": "delete", "where": where, "statement_id": "s"}) == DeleteWhere(condition, "s")
    assert decode({"op": "modify", "where": where, "set": to}) == ModifyWhere(condition, assignments, None)
    assert decode({"op": "truncate", "statement_id": "s"}) == Truncate("s")


def test_members_that_are_not_known_are_not_looked_at() -> None:
    assert decode({"op": "delete", "key": 7, "schema": {}, "payload": {"op": "truncate"}, "row": 1}) == Delete("7")


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason", "column"),
    [
        ([], "not-an-object", None),
        ("insert", "not-an-object", None),
        ({}, "unknown-op", None),
        ({"op": "put", "row": ANN}, "unknown-op", None),
        ({"op": "INSERT", "row": ANN}, "unknown-op", None),
        ({"op": ["insert"], "row": ANN}, "unknown-op", None),
        ({"op": None, "ts_ms": 1}, "unknown-op", None),
        (ANN, "unknown-op", None),
        ({"op": "insert"}, "missing-row", None),
        ({"op": "insert", "row": [1]}, "missing-row", None),
        ({"op": "modify", "key": 7}, "missing-row", None),
        ({"op": "insert", "row": {"age": 6}}, "missing-key", "id"),
        (ann(id=None), "missing-key", "id"),
        (ann(id=True), "wrong-type", "id"),
        ({"op": "delete"}, "missing-key", "id"),
        ({"op": "delete", "key": [7]}, "wrong-type", "id"),
        ({"op": "modify", "row": {}}, "missing-key", "id"),
        ({"op": "insert", "row": {"id": 7, "age": 6}}, "missing-column", "bmi"),
        (ann(age="six"), "wrong-type", "age"),
        (ann(age=6.5), "wrong-type", "age"),
        (ann(age=True), "wrong-type", "age"),
        (ann(ward={"deep": 1}), "wrong-type", "ward"),
        (ann(age=None), "null-not-allowed", "age"),
        (ann(age=24), "out-of-domain", "age"),
        (ann(bmi=10**300), "out-of-domain", "bmi"),
        (ann(city="nowhere"), "unknown-category", "city"),
        ({"op": "delete", "where": 7}, "bad-statement", None),
        ({"op": "delete", "where": ""}, "bad-statement", None),
        ({"op": "delete", "where": "age < 5", "key": 7}, "bad-statement", None),
        ({"op": "modify", "where": "age < 5"}, "bad-statement", None),
        ({"op": "modify", "where": "age < 5", "set": {}}, "bad-statement", None),
        ({"op": "modify", "where": "age < 5", "set": {"age": 6}}, "bad-statement", None),
        ({"op": "truncate", "statement_id": 7}, "bad-statement", None),
        ({"op": "truncate", "statement_id": ""}, "bad-statement", None),
        ({"op": "truncate", "statement_id": "x" * (STATEMENT_ID_CHARS_MAX + 1)}, "bad-statement", None),
    ],
)
def test_a_wrong_message_is_refused_with_its_reason(message: object, reason: str, column: str | None) -> None:
    assert refusal(message) == (reason, column)


def test_an_event_without_the_declared_individual_is_refused() -> None:
    assert refusal(ann(ssn=None), of=PATIENTS) == ("missing-individual", "ssn")
    assert refusal({"op": "modify", "key": 7, "row": {"ssn": None}}, of=PATIENTS) == ("missing-individual", "ssn")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "malformed-json"),
        (b"{", "malformed-json"),
        (b"not json", "malformed-json"),
        (b'{"op": "truncate"} {}', "malformed-json"),
        (b'{"op": "insert", "row": {"id": NaN}}', "malformed-json"),
        (b'{"op": "\xff"}', "malformed-json"),
        (b'{"op": "\\ud800"}', "malformed-json"),
        (b"[" * 100_000, "malformed-json"),
        (b"9" * 5000, "malformed-json"),
        (b"1e99999999999999999999", "malformed-json"),
        (b"\x00\x00\x00\x00\x07avro", "schema-registry"),
        (b"\x00", "schema-registry"),
    ],
)
def test_bytes_that_are_no_message_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        Decoder(PEOPLE).decode(b"7", value)
    assert caught.value.reason == reason


def test_a_message_of_the_largest_size_is_read_and_one_byte_more_is_refused() -> None:
    value = json.dumps(ann()).encode()
    fits = replace(PEOPLE, limits=Limits(event_bytes_max=len(value)))
    assert isinstance(Decoder(fits).decode(None, value), Insert)
    with pytest.raises(EventRefused) as caught:
        Decoder(fits).decode(None, value + b" ")
    assert caught.value.reason == "oversized"


def test_of_a_member_that_comes_twice_the_last_one_counts() -> None:
    assert Decoder(PEOPLE).decode(None, b'{"op": "delete", "key": 1, "key": 2}') == Delete("2")


# -- deletions by message key -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "source_key"),
    [
        (b"7", "7"),
        (b" 7\n", "7"),
        (b"007", "007"),
        (b"5e3", "5e3"),
        (b"a b", "a b"),
        (b'"a b"', "a b"),
        (b'{"id": 7}', "7"),
        (b'{"schema": {"type": "int32"}, "payload": 7}', "7"),
        (b'{"schema": null, "payload": {"id": "7"}}', "7"),
    ],
)
def test_a_null_value_removes_the_row_of_the_message_key(key: bytes | None, source_key: str) -> None:
    assert Decoder(PEOPLE).decode(key, None) == Remove(source_key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "missing-key"),
        (b"", "missing-key"),
        (b"null", "missing-key"),
        (b"{}", "missing-key"),
        (b'{"ID": 7}', "missing-key"),
        (b'{"schema": null, "payload": null}', "missing-key"),
        (b"[7]", "wrong-type"),
        (b'{"id": ', "malformed-json"),
        (b'"', "malformed-json"),
        (b"\xff", "malformed-json"),
        (b"\x00\x00\x00\x00\x01k", "schema-registry"),
    ],
)
def test_a_null_value_whose_message_key_names_no_row_is_refused(key: bytes | None, reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        Decoder(PEOPLE).decode(key, None)
    assert caught.value.reason == reason


def test_a_composite_message_key_is_an_object() -> None:
    assert Decoder(COMPOSITE).decode(b'{"id": 7, "clinic": "n"}', None) == Remove('["n","7"]')


@pytest.mark.parametrize("value", [b"null", b" null\n", b'{"schema": null, "payload": null}'])
def test_a_deletion_that_connects_converter_writes_as_jsons_null_is_not_lost(value: bytes) -> None:
    assert Decoder(PEOPLE).decode(b'{"id":7}', value) == Remove("7")
    with pytest.raises(EventRefused) as caught:
        Decoder(PEOPLE).decode(None, value)
    assert caught.value.reason == "missing-key"


# -- nothing else comes out, and nothing of a row does -----------------------------------------------------------------

MEMBERS = ["op", "row", "key", "where", "set", "statement_id", "schema", "payload", "before", "after"]
MEMBERS += ["__deleted", "__op", "status", "source", "ts_ms", "id", "ssn", "age", "bmi", "city", "problem", "ward"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["insert", "delete", "modify", "truncate", "c", "u", "d", "age < 5", "true"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


def only_a_refusal_escapes(key: bytes | None, value: bytes | None) -> None:
    for people in (PEOPLE, PATIENTS, COMPOSITE):
        try:
            Decoder(people).decode(key, value)
        except EventRefused as refused:
            assert refused.reason


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_random_bytes_never_raise_anything_but_a_refusal(key: bytes | None, value: bytes) -> None:
    only_a_refusal_escapes(key, value)


@given(st.none() | JSON.map(msgspec.json.encode), JSON.map(msgspec.json.encode))
def test_random_json_never_raises_anything_but_a_refusal(key: bytes | None, value: bytes) -> None:
    only_a_refusal_escapes(key, value)


SECRET = "s3cr3t-v4lue"


@pytest.mark.parametrize(
    "value", [SECRET, 987654321, [SECRET], {"x": SECRET}, f"'{SECRET}'", f"{SECRET.replace('-', '_')} < 5"]
)
@pytest.mark.parametrize(
    "message",
    [
        lambda value: {"op": value},
        lambda value: {"__deleted": value},
        lambda value: {"op": "delete", "key": value},
        lambda value: {"op": "delete", "where": value},
        lambda value: {"op": "delete", "where": f"problem = {value}"},
        lambda value: {"op": "delete", "where": f"city = '{value}'"},
        lambda value: {"op": "modify", "where": "age < 5", "set": {"city": f"'{value}'"}},
        lambda value: {"op": "modify", "where": "age < 5", "set": {"age": f"{value}"}},
        lambda value: {"op": "modify", "where": "age < 5", "set": {str(value): "5"}},
        lambda value: {"op": "truncate", "statement_id": [value]},
        lambda value: {"op": "modify", "key": 7, "row": {"id": value}},
        *(lambda value, name=name: ann(**{name: value}) for name in ANN),
        *(lambda value, name=name: {"op": "c", "after": {**ANN, name: value}} for name in ANN),
    ],
)
def test_no_value_of_a_message_is_ever_in_an_error_or_a_repr(
    message: Callable[[object], object], value: object
) -> None:
    body = message(value)
    for key in (None, json.dumps(value).encode()):
        for sent in (json.dumps(body).encode(), json.dumps(body).encode()[:-1], None):
            try:
                text = repr(Decoder(PATIENTS).decode(key, sent))
            except EventRefused as refused:
                text = f"{refused} {refused!r} {refused.args} {refused.column} {refused.__cause__}"
            assert not any(secret in text for secret in ("s3cr3t", "v4lue", "987654321"))
