"""Debezium's messages become changes that may be repeated: envelopes, flattened rows, tombstones, notices."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Change, Nothing, Remove, Truncate, Upsert
from streamer.incremental.events.debezium import UNAVAILABLE
from streamer.incremental.events.decoder import Decoder
from streamer.table.row import Row
from streamer.table.schema import KeptColumn, Table
from worlds.small_tables import AGE, BMI, CITY, PROBLEM, table

PEOPLE = replace(table(AGE, BMI, CITY), kept=(PROBLEM, KeptColumn("cost", False, "decimal")))
COMPOSITE = replace(PEOPLE, source_key=("clinic", "id"))

ANN = {"id": 7, "clinic": "n", "age": 6, "bmi": "11.50", "city": "b1", "problem": "flu", "cost": 12.5, "name": "Ann"}
ROW = Row((5, 3 << 19, 2), (b'"flu"', b"12.5"), ("11.5",))
SOURCE = {"version": "2.7", "connector": "postgresql", "table": "people", "lsn": 4711}
WRAPPING = {"type": "struct", "fields": []}


def decode(message: object, key: bytes | None = None, of: Table = PEOPLE) -> Change:
    return Decoder(of).decode(key, json.dumps(message).encode())


def refusal(message: object, key: bytes | None = None) -> EventRefused:
    with pytest.raises(EventRefused) as caught:
        decode(message, key)
    return caught.value


def envelope(op: str, before: object = None, after: object = None) -> dict[str, object]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1, "transaction": None}


# -- envelopes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_create_read_and_update_say_how_the_row_is_now(op: str) -> None:
    assert decode(envelope(op, after=ANN)) == Upsert("7", ROW, was_there=op == "u")


def test_an_envelope_as_a_connector_writes_it_with_schema_and_payload() -> None:
    value = (
        b'{"schema":{"type":"struct","fields":[{"field":"before"}],"name":"pg.people.Envelope"},"payload":{"before":null,'
        b'"after":{"id":7,"age":6,"bmi":"11.50","city":"b1","problem":"flu","cost":12.50},'
        b'"source":{"lsn":1},"op":"c","ts_ms":1700000000000}}'
    )
    assert Decoder(PEOPLE).decode(b'{"schema":{},"payload":{"id":7}}', value) == Upsert("7", ROW)


def test_an_update_of_another_key_carries_the_former_key() -> None:
    assert decode(envelope("u", before={**ANN, "id": 6}, after=ANN)) == Upsert("7", ROW, former_key="6", was_there=True)
    assert decode(envelope("u", before={"id": 6, "age": None}, after=ANN)) == Upsert(
        "7", ROW, former_key="6", was_there=True
    )


@pytest.mark.parametrize("before", [ANN, {"id": "7"}, {"age": 6}, {"id": None}, None])
def test_an_update_without_another_former_key_has_none(before: object) -> None:
    assert decode(envelope("u", before=before, after=ANN)) == Upsert("7", ROW, was_there=True)


def test_a_create_and_a_read_have_no_former_key() -> None:
    assert decode(envelope("r", before={"id": 6}, after=ANN)) == Upsert("7", ROW)


def test_a_delete_takes_the_key_of_the_row_before() -> None:
    assert decode(envelope("d", before={"id": 7, "age": None}), key=b"8") == Remove("7", was_there=True)


@pytest.mark.parametrize("before", [None, {}, {"id": None}])
def test_a_delete_without_a_row_before_takes_the_message_key(before: object) -> None:
    assert decode(envelope("d", before=before), key=b'{"id": 7}') == Remove("7", was_there=True)
    assert refusal(envelope("d", before=before)).reason == "missing-key"


def test_a_partial_composite_key_of_the_row_before_is_not_enough() -> None:
    key = b'{"clinic": "n", "id": 7}'
    assert decode(envelope("d", before={"id": 9}), key, COMPOSITE) == Remove('["n","7"]', was_there=True)


def test_a_truncate_reached_one_partition_only() -> None:
    assert decode(envelope("t")) == Truncate(whole_table_only=True)


@pytest.mark.parametrize(
    "notice",
    [
        {"op": "m", "ts_ms": 1, "source": SOURCE, "message": {"prefix": "p", "content": "eA=="}},
        {"ts_ms": 1},
        {"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000},
        {"status": "BEGIN", "id": "571", "ts_ms": 1, "event_count": None, "data_collections": None},
        {"status": "END", "id": "571", "event_count": 2, "data_collections": []},
        {"source": SOURCE, "ts_ms": 1, "databaseName": "d", "ddl": "ALTER TABLE ...", "tableChanges": []},
    ],
)
def test_notices_say_nothing_about_rows(notice: object) -> None:
    assert decode(notice) == Nothing()
    assert decode({"schema": WRAPPING, "payload": notice}) == Nothing()


@pytest.mark.parametrize("row", [{"status": "ill", "id": 7, "event_count": 1}, {"ts_ms": 1, "age": 6}, {"source": "x"}])
def test_a_row_that_looks_a_little_like_a_notice_is_not_ignored(row: dict[str, object]) -> None:
    assert refusal(row).reason == "unknown-op"


@pytest.mark.parametrize("op", ["c", "r", "u"])
@pytest.mark.parametrize("after", [None, 7, [ANN]])
def test_an_envelope_without_a_row_after_is_refused(op: str, after: object) -> None:
    assert refusal(envelope(op, before=ANN, after=after)).reason == "missing-row"


# -- wrapped ----------------------------------------------------------------------------------------------------------


def test_every_form_may_be_wrapped_in_schema_and_payload() -> None:
    assert decode({"schema": None, "payload": envelope("r", after=ANN)}) == Upsert("7", ROW)
    assert decode({"schema": WRAPPING, "payload": {**ANN, "__deleted": "false"}}) == Upsert("7", ROW)
    assert decode({"schema": WRAPPING, "payload": None}, key=b'{"schema":{},"payload":{"id":7}}') == Remove("7")


def test_a_wrapped_tombstone_without_a_message_key_is_refused() -> None:
    assert refusal({"schema": None, "payload": None}).reason == "missing-key"


# -- flattened --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "marks",
    [{"__deleted": "false"}, {"__deleted": False}, {"__op": "c"}, {"__op": "r"}, {"__deleted": "false", "__op": "u"}],
)
def test_a_flattened_row_says_how_the_row_is_now(marks: dict[str, object]) -> None:
    assert decode({**ANN, **marks}) == Upsert("7", ROW, was_there=marks.get("__op") == "u")


@pytest.mark.parametrize(
    "marks", [{"__deleted": "true"}, {"__deleted": True}, {"__op": "d"}, {"__deleted": "false", "__op": "d"}]
)
def test_a_flattened_row_that_is_deleted_needs_its_key_only(marks: dict[str, object]) -> None:
    assert decode({"id": 7, "age": None, **marks}) == Remove("7", was_there=True)
    assert decode({"id": None, **marks}, key=b"7") == Remove("7", was_there=True)


def test_a_flattened_truncate_or_message_is_none_of_a_row() -> None:
    assert decode({"__op": "t"}) == Truncate(whole_table_only=True)
    assert decode({"__op": "m", "__deleted": "false"}) == Nothing()


def test_a_flattened_row_may_have_a_column_that_is_called_op() -> None:
    assert decode({**ANN, "op": "delete", "__deleted": "false"}) == Upsert("7", ROW)


@pytest.mark.parametrize(
    "marks", [{"__deleted": "yes"}, {"__deleted": None}, {"__deleted": [1]}, {"__op": "x"}, {"__op": 1}]
)
def test_a_flattened_row_with_unknown_marks_is_refused(marks: dict[str, object]) -> None:
    assert refusal({**ANN, **marks}).reason == "unknown-op"


# -- what connectors do to values -------------------------------------------------------------------------------------


def test_decimals_come_as_texts_or_as_numbers() -> None:
    assert decode(envelope("c", after={**ANN, "bmi": 11.5, "cost": "12.50"})) == Upsert("7", ROW)


@pytest.mark.parametrize("column", ["bmi", "cost"])
@pytest.mark.parametrize("value", ["BH4=", {"scale": 2, "value": "BH4="}])
def test_decimals_as_bytes_are_refused_and_the_setting_is_named(column: str, value: object) -> None:
    refused = refusal(envelope("c", after={**ANN, column: value}))
    assert (refused.reason, refused.column) == ("wrong-type", column)
    assert "decimal.handling.mode=string" in refused.detail


def test_the_setting_for_decimals_is_not_named_for_other_columns() -> None:
    refused = refusal(envelope("c", after={**ANN, "problem": {"x": 1}}))
    assert (refused.reason, refused.column) == ("wrong-type", "problem")
    assert "decimal" not in refused.detail


@pytest.mark.parametrize("column", ["problem", "city", "bmi", "cost"])
@pytest.mark.parametrize("form", [lambda row: envelope("u", after=row), lambda row: {**row, "__deleted": "false"}])
def test_a_value_that_the_connector_did_not_send_is_refused(
    form: Callable[[dict[str, object]], dict[str, object]], column: str
) -> None:
    refused = refusal(form({**ANN, column: UNAVAILABLE}))
    assert (refused.reason, refused.column) == ("unavailable-value", column)


def test_a_value_that_was_not_sent_does_not_matter_in_a_column_nobody_publishes() -> None:
    assert decode(envelope("u", after={**ANN, "name": UNAVAILABLE})) == Upsert("7", ROW, was_there=True)
