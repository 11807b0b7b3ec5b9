"""Which columns of a message are read, and what is taken for granted where a message has no schema: nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.column_readers import TableReaders
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_types import DECIMAL
from streamer.table.schema import KeptColumn, Table
from worlds.connect_json import TIME, unscaled_base64
from worlds.small_tables import AGE, BMI, table

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
    assert "schemas.enable=true" in refused.detail and "time.precision.mode=isostring" in refused.detail


def test_debeziums_iso_texts_are_taken() -> None:
    texts: dict[str, object] = {"date": "1980-01-31Z", "timestamp": "2018-06-20T13:37:03Z"}
    assert schemaless(texts) == texts | {"date": "1980-01-31"}


def test_the_plain_form_means_what_it_says() -> None:
    readers, fields = TableReaders(PEOPLE).schemaless, {"cost": "1234", "id": "1234"}
    assert readers.parts["row"].row(fields) == readers.parts["key"].key(fields) == fields
