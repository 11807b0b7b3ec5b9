"""Bytes of a message as JSON: strict, exact, and silent about what it could not read."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import SCHEMAS_CACHED, MessageReader, TableReaders, read_json, unwrapped
from streamer.incremental.events.logical_types import CONNECT_TIMESTAMP, DECIMAL, ConnectType
from streamer.table.codes import KeptColumn
from streamer.table.schema import Table
from worlds.connect_json import TIME, Cell, cells, recorded, struct, unscaled_base64, with_schema
from worlds.small_tables import AGE, BMI, table

# Which columns of a message are read, and what is taken for granted where a message has no schema: nothing.

DATED = tuple(KeptColumn(name, False, name) for name in ("date", "timestamp", "local-timestamp"))
PEOPLE = replace(table(AGE, BMI, individual="ssn"), kept=(KeptColumn("cost", False, "decimal"), *DATED))
STATED = replace(PEOPLE, decimals_are_text=True)

MONEY = ConnectType("bytes", DECIMAL, {"scale": "2"})
DATE = ConnectType("int32", TIME + "Date")
ROW = ConnectType(
    "struct", fields={"id": MONEY, "ssn": DATE, "bmi": MONEY, "hidden": ConnectType("array"), "cost": MONEY}
)


def schemaless(fields: dict[str, object], of: Table = PEOPLE) -> object:
    return TableReaders(of).schemaless.own.row(fields)


def refusal(fields: dict[str, object], of: Table = PEOPLE) -> EventRefused:
    with pytest.raises(EventRefused) as caught:
        schemaless(fields, of)
    return caught.value


# -- with a schema ----------------------------------------------------------------------------------------------------


def test_columns_that_table_yaml_names_are_read_and_no_others() -> None:
    fields = {"id": "1234", "ssn": 3682, "bmi": "1234", "cost": None, "hidden": [1], "age": 6}
    read = {"id": Decimal("-26588.24"), "ssn": "1980-01-31", "bmi": Decimal("-26588.24")}
    assert TableReaders(PEOPLE).of(ROW).own.row(fields) == fields | read


def test_of_a_key_its_columns_are_read_and_no_others() -> None:
    fields: dict[str, object] = {"id": "1234", "ssn": "no date"}
    assert TableReaders(PEOPLE).of(ROW).own.key(fields) == {"id": Decimal("-26588.24"), "ssn": "no date"}


def test_a_key_of_one_value_is_read_by_its_type() -> None:
    readers = TableReaders(PEOPLE).of(DATE).own
    assert (readers.key(3682), readers.key(None)) == ("1980-01-31", None)
    assert TableReaders(PEOPLE).of(ConnectType("int64")).own.key(7) == 7


@pytest.mark.parametrize("part", ["before", "after", "row", "key"])
def test_a_row_in_a_message_is_read_by_its_own_struct(part: str) -> None:
    readers = TableReaders(PEOPLE).of(ConnectType("struct", fields={part: ROW}))
    assert readers.parts[part].row({"cost": "1234"}) == {"cost": Decimal("-26588.24")}


def test_a_column_that_the_schema_does_not_know_is_read_as_if_there_were_none() -> None:
    readers = TableReaders(PEOPLE).of(ConnectType("struct", fields={"after": ConnectType("struct")}))
    with pytest.raises(EventRefused, match="cost"):
        readers.parts["after"].row({"cost": "1234"})


def test_text_is_a_number_where_the_schema_says_text() -> None:
    readers = TableReaders(PEOPLE).of(ConnectType("struct", fields={"cost": ConnectType("string")}))
    assert readers.own.row({"cost": "1234"}) == {"cost": "1234"}


def test_what_is_refused_first_does_not_depend_on_chance() -> None:
    unknown = ConnectType("struct", fields=dict.fromkeys(("cost", "bmi", "ssn", "age", "id"), ConnectType("array")))
    with pytest.raises(EventRefused, match="'id'"):
        TableReaders(PEOPLE).of(unknown).own.row(dict.fromkeys(("cost", "bmi", "ssn", "age", "id"), 7))


SEEN = {"local-timestamp": ConnectType("int64", CONNECT_TIMESTAMP), "id": ConnectType("int64", CONNECT_TIMESTAMP)}
SEEN_ROW = ConnectType("struct", fields=SEEN)


@pytest.mark.parametrize(
    ("member", "text"),
    [("before", "1970-01-01T00:00:00"), ("after", "1970-01-01T00:00:00"), ("row", "1970-01-01T00:00:00Z")],
)
def test_connects_timestamp_is_what_a_wall_showed_in_a_captured_row_and_else_an_instant(member: str, text: str) -> None:
    readers = TableReaders(PEOPLE).of(ConnectType("struct", fields={member: SEEN_ROW})).parts[member]
    assert readers.row({"local-timestamp": 0}) == {"local-timestamp": text}


@pytest.mark.parametrize("mark", ["__op", "__deleted"])
def test_a_flattened_row_is_a_captured_one(mark: str) -> None:
    flattened = ConnectType("struct", fields=SEEN | {mark: ConnectType("string")})
    assert TableReaders(PEOPLE).of(flattened).own.row({"local-timestamp": 0}) == {
        "local-timestamp": "1970-01-01T00:00:00"
    }
    of_rows = TableReaders(replace(PEOPLE, input_rows=True)).of(SEEN_ROW).own
    assert of_rows.row({"local-timestamp": 0}) == {"local-timestamp": "1970-01-01T00:00:00"}


def test_a_keys_columns_have_one_text_in_rows_and_in_message_keys() -> None:
    of_row = TableReaders(PEOPLE).of(ConnectType("struct", fields={"after": SEEN_ROW})).parts["after"]
    of_message_key = TableReaders(PEOPLE).of(ConnectType("struct", fields={"id": SEEN["id"]})).own
    assert of_row.key_columns({"id": 0}) == of_message_key.key({"id": 0}) == {"id": "1970-01-01T00:00:00Z"}


# -- without ----------------------------------------------------------------------------------------------------------


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9))
def test_bytes_of_a_decimal_are_never_taken_for_a_number(number: Decimal) -> None:
    assert refusal({"cost": unscaled_base64(number, 2)}).reason in ("wrong-type", "ambiguous-decimal")


@pytest.mark.parametrize("text", ["12.50", "-3", "-1234", "7", "12345", "0.5", "-0.25", "1234.5678", "-123", "x"])
def test_a_text_that_can_be_no_bytes_is_left_to_the_encoder(text: str) -> None:
    assert schemaless({"cost": text, "bmi": text}) == {"cost": text, "bmi": text}


@pytest.mark.parametrize("text", ["1234", "12345678", "0000", "1E+2"])
def test_digits_that_may_be_bytes_are_refused_and_every_way_to_say_what_they_are_is_named(text: str) -> None:
    refused = refusal({"cost": text})
    assert (refused.reason, refused.column) == ("ambiguous-decimal", "cost")
    for setting in ("schemas.enable=true", "decimal.format=NUMERIC", "decimal.handling.mode=string", "decimals: text"):
        assert setting in refused.detail
    assert schemaless({"cost": text}, STATED) == {"cost": text}


@pytest.mark.parametrize("text", ["BH4=", "AQ==", "abcd"])
def test_bytes_that_are_no_number_are_refused_and_the_settings_named(text: str) -> None:
    refused = refusal({"bmi": text})
    assert (refused.reason, refused.column) == ("wrong-type", "bmi")
    assert "decimal.handling.mode=string" in refused.detail and "schemas.enable=true" in refused.detail


@pytest.mark.parametrize("value", [1234, Decimal("12.5"), None])
def test_a_number_is_a_number(value: object) -> None:
    assert schemaless({"cost": value}) == {"cost": value}


@pytest.mark.parametrize("column", ["date", "timestamp", "local-timestamp"])
@pytest.mark.parametrize("value", [3682, 1529501823123, 0, Decimal("3682.0"), {"days": 1}, True])
def test_what_a_number_counts_is_not_guessed(column: str, value: object) -> None:
    refused = refusal({column: value})
    assert (refused.reason, refused.column) == ("wrong-type", column)
    assert "schemas.enable=true" in refused.detail
    assert ("time.precision.mode=isostring" in refused.detail) is (column == "date"), "it gives any clock a Z"


def test_debeziums_iso_texts_are_taken() -> None:
    texts: dict[str, object] = {"date": "1980-01-31Z", "timestamp": "2018-06-20T13:37:03Z"}
    assert schemaless(texts) == texts | {"date": "1980-01-31"}


def test_a_text_with_a_z_is_no_clock_on_the_wall_as_long_as_no_schema_says_so() -> None:
    refused = refusal({"local-timestamp": "2018-06-20T13:37:03Z"})
    assert (refused.reason, refused.column) == ("wrong-type", "local-timestamp")
    assert "isostring" in refused.detail and "schemas.enable=true" in refused.detail
    assert schemaless({"local-timestamp": "2018-06-20T13:37:03"}) == {"local-timestamp": "2018-06-20T13:37:03"}


def test_the_plain_form_means_what_it_says() -> None:
    readers, fields = TableReaders(PEOPLE).schemaless, {"cost": "1234", "id": "1234"}
    assert readers.parts["row"].row(fields) == readers.parts["key"].key(fields) == fields


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"7", 7),
        (b"7.0", Decimal("7.0")),
        (b"1e2", Decimal("1E+2")),
        (b"0.1", Decimal("0.1")),
        (b'"\xc3\xa4"', "ä"),
        (b"null", None),
        (b' {"a": [true]} ', {"a": [True]}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_a_value_is_read_exactly(data: bytes, value: object) -> None:
    found = read_json(data)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"canary", b'{"canary": 1', b'"canary" "canary"', b"NaN", b"Infinity", b"'canary'",
        b'"\xff canary"', b'"\\ud800 canary"', b"[" * 100_000, b"1e999999999999999999999",
    ],
)  # fmt: skip
def test_what_is_not_one_json_value_is_refused_without_a_word_of_it(data: bytes) -> None:
    with pytest.raises(EventRefused) as refused:
        read_json(data)
    assert refused.value.reason == "malformed-json"
    assert "canary" not in f"{refused.value} {refused.value!r}"
    assert refused.value.__suppress_context__


def test_a_registered_message_is_recognized_and_the_remedy_is_named() -> None:
    with pytest.raises(EventRefused, match="JsonConverter") as refused:
        MessageReader(JSON_MESSAGES_PEOPLE).read(b"\x00\x00\x00\x00\x01canary")
    assert refused.value.reason == "schema-registry"


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ({"schema": None, "payload": {"id": 7}}, {"id": 7}),
        ({"schema": {"type": "struct"}, "payload": None}, None),
        ({"schema": 1, "payload": 2, "more": 3}, {"schema": 1, "payload": 2, "more": 3}),
        ({"payload": 7}, {"payload": 7}),
        ([1], [1]),
    ],
)
def test_the_wrapping_of_connect_is_taken_off_where_it_is_exactly_that(value: object, inside: object) -> None:
    assert unwrapped(value) == inside


# -- with the types of their schemas ----------------------------------------------------------------------------------

JSON_MESSAGES_PEOPLE = table(AGE)
JSON_MESSAGES_DATED = struct({"id": {"type": "int32", "name": TIME + "Date"}})


def said(reader: MessageReader, data: bytes) -> object:
    """What a message says as a row; the reason of its refusal."""
    try:
        value, readers = reader.read(data)
        return readers.own.row(value) if isinstance(value, dict) else value
    except EventRefused as refused:
        return refused.reason


def test_a_schema_is_parsed_once_and_not_for_every_message() -> None:
    reader = MessageReader(JSON_MESSAGES_PEOPLE)
    found = [reader.read(with_schema(JSON_MESSAGES_DATED, {"id": number}))[1] for number in range(100)]
    assert all(readers is found[0] for readers in found)


def test_a_new_schema_is_noticed_and_the_former_one_not_forgotten() -> None:
    reader, plain = MessageReader(JSON_MESSAGES_PEOPLE), struct({"id": {"type": "int32"}})
    for _ in range(3):
        assert said(reader, with_schema(JSON_MESSAGES_DATED, {"id": 3682})) == {"id": "1980-01-31"}
        assert said(reader, with_schema(plain, {"id": 3682})) == {"id": 3682}
        assert said(reader, b'{"id":3682}') == {"id": 3682}


def test_the_last_schemas_are_cached_and_an_older_one_is_parsed_again() -> None:
    reader = MessageReader(JSON_MESSAGES_PEOPLE)
    names = map(str, range(SCHEMAS_CACHED + 1))
    oldest, *newer = [with_schema({**JSON_MESSAGES_DATED, "name": name}, {"id": 3682}) for name in names]
    first = reader.read(oldest)[1]
    for message in newer[:-1]:
        assert said(reader, message) == {"id": "1980-01-31"}
    assert reader.read(oldest)[1] is first
    reader.read(newer[-1])
    assert reader.read(oldest)[1] is not first
    assert said(reader, oldest) == {"id": "1980-01-31"}


def test_spaces_and_another_order_make_no_difference() -> None:
    reader = MessageReader(JSON_MESSAGES_PEOPLE)
    for _ in range(2):
        for message in (
            {"schema": JSON_MESSAGES_DATED, "payload": {"id": 3682}},
            {"payload": {"id": 3682}, "schema": JSON_MESSAGES_DATED},
        ):
            for dump in (json.dumps, partial(json.dumps, separators=(",", ":")), partial(json.dumps, indent=1)):
                assert said(reader, dump(message).encode()) == {"id": "1980-01-31"}


HEAD = with_schema(JSON_MESSAGES_DATED, None)[: -len(b"null}")]
TAILS = [
    b'{"id":3682}}', b'{"id":3682},"more":1}', b'{"id":3682},"payload":{"id":1}}', b'{"id":3682},"schema":null}',
    b'{"id":3682}} ', b"null}", b"7}", b"}", b"", b'{"id":3682}', b'{"id":3682}}}', b"{}}{}}", b'{"id":"canary"}}',
    b'{"id":null}}', b'{"id":1e99999999999999999999}}',
]  # fmt: skip


@given(st.lists(st.sampled_from(TAILS), min_size=1, max_size=4))
def test_what_a_message_says_does_not_depend_on_what_came_before(tails: list[bytes]) -> None:
    used = MessageReader(JSON_MESSAGES_PEOPLE)
    for tail in tails:
        assert said(used, HEAD + tail) == said(MessageReader(JSON_MESSAGES_PEOPLE), HEAD + tail)


def test_recorded_messages_mean_the_same_to_a_reader_that_has_read_the_others() -> None:
    used = MessageReader(JSON_MESSAGES_PEOPLE)
    for message in recorded():
        for data in (message.key, message.value):
            if data is not None:
                assert said(used, data) == said(MessageReader(JSON_MESSAGES_PEOPLE), data)


@given(st.lists(cells(), min_size=1, max_size=3))
def test_a_key_of_any_type_is_read_by_its_schema(values: list[Cell]) -> None:
    reader = MessageReader(JSON_MESSAGES_PEOPLE)
    for cell in values:
        value, readers = reader.read(with_schema(struct({"id": cell.schema}), {"id": cell.wire}))
        assert readers.own.key(value) == {"id": cell.means}
