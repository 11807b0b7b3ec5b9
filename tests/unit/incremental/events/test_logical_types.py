"""Every type that Connect and Debezium know, as their own converter wrote it; what is unknown is refused and named."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.logical_types import (
    DECIMAL,
    VARIABLE_SCALE_DECIMAL,
    ConnectType,
    connect_type_of,
    day_count,
    reader_of,
    time_count,
    timestamp_count,
)
from streamer.table.codes import day_text, time_text, timestamp_text
from worlds.connect_json import CONNECT, DATA, TIME, Cell, bits, cells, recorded, recorded_of

# Connect's schema objects as types: what decides how a value is read, and nothing else.


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


# Counts of days and parts of a second as ISO texts, and back, beside Python's own calendar.

PER_SECOND = st.sampled_from([10**3, 10**6, 10**9])


@given(st.dates())
def test_a_day_has_the_text_of_its_date(day: date) -> None:
    count = (day - date(1970, 1, 1)).days
    assert day_text(count) == day.isoformat()
    assert day_count(day.isoformat()) == count


@given(st.datetimes(), st.integers(0, 999))
def test_a_timestamp_has_the_text_of_its_moment_and_no_digit_is_lost(moment: datetime, nanoseconds: int) -> None:
    microseconds = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    count = microseconds * 1000 + nanoseconds
    fraction = f"{moment.microsecond:06}{nanoseconds:03}".rstrip("0")
    text = moment.replace(microsecond=0).isoformat() + ("." + fraction if fraction else "")
    assert timestamp_text(count, 10**9) == text
    assert timestamp_count(text, 10**9) == count


@given(st.integers(-(10**18), 10**18), PER_SECOND)
def test_a_count_comes_back_from_its_text(count: int, per_second: int) -> None:
    assert time_count(time_text(count, per_second), per_second) == count
    text = timestamp_text(count, per_second)
    is_in_years = re.fullmatch(r"\d{4}-.+", text) and not text.startswith("0000")
    assert timestamp_count(text, per_second) == (count if is_in_years else None)


def test_times_may_be_negative_or_more_than_a_day() -> None:
    assert time_text(-3_020_399_000_000, 10**6) == "-838:59:59"
    assert time_text(86_400_000, 10**3) == "24:00:00"
    assert time_text(-500, 10**3) == "-00:00:00.5"


@pytest.mark.parametrize(
    ("days", "text"),
    [(-719_163, "0000-12-31"), (-735_160, "-0043-03-15"), (2_932_897, "10000-01-01"), (24_855_000, "70020-09-05")],
)
def test_a_day_of_another_year_has_a_text_and_this_no_count(days: int, text: str) -> None:
    assert day_text(days) == text
    assert timestamp_text(days * 86_400 * 10**6, 10**6) == f"{text}T00:00:00"
    assert (day_count(text), timestamp_count(f"{text}T00:00:00", 10**6)) == (None, None)


@pytest.mark.parametrize("text", ["", "today", "1980-1-31", "1980-02-30", "19800131", "1980-01-31 ", "1980-01-31Z"])
def test_what_is_no_days_text_has_no_count(text: str) -> None:
    assert day_count(text) is None
    assert timestamp_count(f"{text}T00:00:00", 1000) is None


@pytest.mark.parametrize("text", ["", "7:00:00", "07:00", "07:60:00", "07:00:00.10", "07:00:00.0001", "-00:00:00", "x"])
def test_what_is_not_the_one_text_of_a_time_has_no_count(text: str) -> None:
    assert time_count(text, 1000) is None
    assert timestamp_count(f"1980-01-31T{text}", 1000) is None


DATE = ConnectType("int32", TIME + "Date")
MONEY = ConnectType("bytes", DECIMAL, {"scale": "2"})
VARIABLE = ConnectType("struct", VARIABLE_SCALE_DECIMAL)


def read(type_: ConnectType, value: object, of_numbers: bool = False) -> object:
    reader = reader_of(type_, "x", of_numbers=of_numbers)
    return value if reader is None else reader(value)


def refusal(type_: ConnectType, value: object, of_numbers: bool = False) -> EventRefused:
    with pytest.raises(EventRefused) as caught:
        read(type_, value, of_numbers)
    assert caught.value.column == "x"
    return caught.value


RECORDED = {
    "id": 7,
    "decimal": Decimal("-26588.24"),
    "variable": Decimal("12.345"),
    "connect_date": "1980-01-31",
    "connect_time": "07:05:00.25",
    "connect_timestamp": "2018-06-20T13:37:03.123Z",
    "date": "1980-01-31",
    "time": "07:05:00.25",
    "micro_time": "07:05:00.25",
    "nano_time": "07:05:00.25",
    "timestamp": "2018-06-20T13:37:03.123",
    "micro_timestamp": "2018-06-20T13:37:03.123456",
    "nano_timestamp": "2018-06-20T13:37:03.123456789",
    "zoned_timestamp": "2018-06-20T11:37:03.123456Z",
    "zoned_time": "07:05:00.25Z",
    "iso_date": "1980-01-31",
    "iso_time": "07:05:00.25Z",
    "iso_timestamp": "2018-06-20T13:37:03.123456",
    "year": 2018,
    "interval": "P1Y2M3DT4H5M6.78S",
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "enum": "flu",
    "enum_set": "a,c",
    "json": '{"a": 1}',
    "xml": "<a/>",
    "bits": "101010000001",
    "bytes": "1234",
    "float32": Decimal("0.1"),
    "float64": Decimal("0.1"),
    "int8": -7,
    "int64": 2**63 - 1,
    "boolean": True,
    "text": "12.50",
}
"""What the row of the recording means, written down by hand."""

UNREADABLE = {"duration": "unknown-type", "point": "unknown-type", "nan": "wrong-type"}


@pytest.mark.parametrize("decimals", ["BASE64", "NUMERIC"])
def test_every_type_is_read_as_connect_wrote_it(decimals: str) -> None:
    (message,) = recorded_of("flattened filled", schemas=True, decimals=decimals)
    said = json.loads(message.value or b"", parse_float=Decimal)
    type_ = connect_type_of(said["schema"])
    assert type_ is not None
    assert type_.fields.keys() == RECORDED.keys() | UNREADABLE.keys() | {"toast"}
    for column, value in RECORDED.items():
        found = read(type_.fields[column], said["payload"][column])
        assert (found, type(found)) == (value, type(value)), column
    for column, reason in UNREADABLE.items():
        assert refusal(type_.fields[column], said["payload"][column]).reason == reason


def test_numbers_of_every_length_and_sign_are_read_exactly() -> None:
    numbers = [message for message in recorded() if message.what.startswith("number ")]
    assert len(numbers) == 42
    for message in numbers:
        said = json.loads(message.value or b"")
        type_ = connect_type_of(said["schema"])
        assert type_ is not None
        assert read(type_, said["payload"]) == Decimal(message.what.split()[1])


@given(cells())
def test_a_value_of_any_type_means_what_it_was_made_of(cell: Cell) -> None:
    type_ = connect_type_of(cell.schema)
    assert type_ is not None
    if cell.wire is not None:
        assert read(type_, cell.wire) == cell.means


@given(bits())
def test_bytes_and_their_base64_are_the_same(cell: Cell) -> None:
    type_ = connect_type_of(cell.schema)
    assert type_ is not None and isinstance(cell.wire, str)
    assert read(type_, base64.b64decode(cell.wire)) == cell.means


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_base64_of_bytes_that_looks_like_a_number_is_the_bytes_number() -> None:
    assert read(MONEY, "1234", of_numbers=True) == Decimal("-26588.24")


def test_bytes_that_look_like_a_number_are_refused_for_a_column_of_numbers_and_stay_base64_for_any_other() -> None:
    refused = refusal(ConnectType("bytes"), "1234", of_numbers=True)
    assert refused.reason == "wrong-type" and "bytes in the message's schema" in refused.detail
    assert read(ConnectType("bytes"), "1234") == "1234"


@pytest.mark.parametrize("value", ["12.5", "MTIzN", "", True, 0.5, [1], {"scale": 2, "value": "MTIz"}])
def test_a_decimal_that_is_neither_bytes_nor_a_number_is_refused(value: object) -> None:
    assert refusal(MONEY, value).reason == "wrong-type"


@pytest.mark.parametrize(
    "value", ["MTIz", {}, {"scale": "2", "value": "MTIz"}, {"scale": 2}, {"scale": 10**9, "value": "MTIz"}]
)
def test_a_decimal_without_a_scale_of_its_own_is_refused(value: object) -> None:
    assert refusal(VARIABLE, value).reason == "wrong-type"


@pytest.mark.parametrize("scale", [None, 2, "two", "", "100000", "9" * 5000])
def test_a_decimal_whose_schema_says_no_scale_is_not_known(scale: object) -> None:
    assert refusal(ConnectType("bytes", DECIMAL, {"scale": scale}), "MTIz").reason == "unknown-type"  # type: ignore[dict-item]


def test_a_number_that_no_table_of_people_has_is_refused_before_it_is_made() -> None:
    assert refusal(MONEY, b"\x7f" * 500_000).reason == "wrong-type"
    assert "400 digits" in refusal(MONEY, b"\x7f" * 171).detail


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_four_bytes_is_its_shortest_decimal(number: float) -> None:
    found = read(ConnectType("float"), number)
    assert isinstance(found, Decimal) and np.float32(str(found)) == np.float32(number)
    assert len(found.as_tuple().digits) <= 9
    assert read(ConnectType("double"), number) == Decimal(repr(number))


def test_the_shortest_decimal_of_a_tenth() -> None:
    assert read(ConnectType("float"), float(np.float32(0.1))) == Decimal("0.1")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "0.5", float("nan"), float("inf"), True])
def test_a_float_that_is_no_finite_number_is_refused(value: object) -> None:
    assert refusal(ConnectType("double"), value).reason == "wrong-type"


# -- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["3682", Decimal("3682.0"), True, "1980-01-31"])
def test_what_should_count_days_and_does_not_is_refused(value: object) -> None:
    assert refusal(DATE, value).reason == "wrong-type"


@pytest.mark.parametrize(
    ("type_", "least", "greatest"),
    [
        (DATE, -(2**31), 2**31 - 1),
        (DATE, -(2**31) + 1, 2_147_483_647),
        (ConnectType("int64", TIME + "MicroTimestamp"), -9_223_372_036_832_400_000, 9_223_372_036_825_200_000),
        (ConnectType("int64", TIME + "NanoTimestamp"), -9_223_372_036_832_400_000, 9_223_372_036_825_200_000),
        (ConnectType("int64", TIME + "Timestamp"), -9_223_372_036_832_400, 9_223_372_036_825_200),
        (ConnectType("int64", CONNECT + "Timestamp"), -9_223_372_036_832_400_000, 9_223_372_036_825_200_000),
        (ConnectType("int64", "avro.timestamp-micros"), -(2**63), 2**63 - 1),
        (ConnectType("string", TIME + "ZonedTimestamp"), "-292275055-05-16T23:00:00Z", "+292278994-08-16T23:00:00Z"),
        (ConnectType("string", TIME + "ZonedTimestamp"), "-290308-12-21T19:59:27.6Z", "+294247-01-10T04:00:25.2Z"),
        (ConnectType("string", TIME + "IsoTimestamp"), "-290308-12-21T19:59:27.6Z", "+294247-01-10T04:00:25.2Z"),
        (ConnectType("string", TIME + "IsoDate"), "-5877641-06-24Z", "+5881580-07-11Z"),
    ],
)
def test_infinity_of_a_database_is_infinity_in_whatever_it_is_counted(
    type_: ConnectType, least: object, greatest: object
) -> None:
    assert (read(type_, least), read(type_, greatest)) == ("-infinity", "infinity")


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0001-01-01T00:00:00+02:00", "+10000-01-01T00:00:00+02:00"])
def test_an_instant_outside_the_years_is_left_to_its_column(text: str) -> None:
    assert read(ConnectType("string", TIME + "ZonedTimestamp"), text) == text


@pytest.mark.parametrize(
    ("text", "in_utc"),
    [
        ("2018-06-20T13:37:03.1234567Z", "2018-06-20T13:37:03.1234567Z"),
        ("2018-06-20T00:37:03.1234567+02:00", "2018-06-19T22:37:03.1234567Z"),
        ("0900-06-20T00:37-0230", "0900-06-20T03:07:00Z"),
    ],
)
def test_an_instant_is_given_in_utc_with_all_its_digits(text: str, in_utc: str) -> None:
    assert read(ConnectType("string", TIME + "ZonedTimestamp"), text) == in_utc


@pytest.mark.parametrize("value", ["2018-06-20T13:37:03", "2018-13-20T13:37:03+01:00", "soon", 7])
def test_an_instant_that_cannot_be_read_is_refused(value: object) -> None:
    assert refusal(ConnectType("string", TIME + "ZonedTimestamp"), value).reason == "wrong-type"


@pytest.mark.parametrize(("length", "value"), [("4", "Hw=="), ("4", "AQAA"), ("12", "x"), ("12", 7)])
def test_bits_that_do_not_fit_their_length_are_refused(length: str, value: object) -> None:
    assert refusal(ConnectType("bytes", DATA + "Bits", {"length": length}), value).reason == "wrong-type"


# -- what is not known ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_",
    [
        ConnectType("string", "com.example.Sealed"),
        ConnectType("int64", "com.example.Weeks"),
        ConnectType("bytes", DATA + "Bits"),
        ConnectType("struct", DATA + "geometry.Point"),
        ConnectType("array"),
        ConnectType("int128"),
    ],
)
def test_a_type_that_is_not_known_is_refused_and_named(type_: ConnectType) -> None:
    refused = refusal(type_, 7)
    assert refused.reason == "unknown-type"
    assert repr(type_.name or type_.type) in refused.detail and "remove it from table.yaml" in refused.detail


def test_a_duration_names_the_connectors_setting() -> None:
    refused = refusal(ConnectType("int64", TIME + "MicroDuration"), 7)
    assert refused.reason == "unknown-type" and "interval.handling.mode=string" in refused.detail


def test_a_name_of_a_type_that_is_none_is_not_repeated() -> None:
    refused = refusal(ConnectType("string", "Ann Canary, born 1980-01-31"), "canary")
    assert refused.reason == "unknown-type" and "anary" not in str(refused)


def test_no_refusal_repeats_a_value() -> None:
    for name in (CONNECT + "Decimal", VARIABLE_SCALE_DECIMAL, TIME + "Date", TIME + "ZonedTimestamp", DATA + "Bits"):
        for value in ("canary", "canary="):
            type_ = ConnectType("string", name, {"scale": "2", "length": "3"})
            assert "canary" not in f"{refusal(type_, value)!r} {refusal(type_, value)}"


def test_a_clock_on_the_wall_that_debezium_writes_as_iso_text_has_no_offset() -> None:
    """Its IsoTimestamp is a timestamp without time zone, to which it appends a Z."""
    read = reader_of(ConnectType("string", "io.debezium.time.IsoTimestamp"), "wall", of_numbers=False)
    assert read is not None
    assert read("2018-06-20T13:37:03.123456Z") == "2018-06-20T13:37:03.123456"
    with pytest.raises(EventRefused, match="not of the type in its schema"):
        read("2018-06-20T13:37:03+02:00")
