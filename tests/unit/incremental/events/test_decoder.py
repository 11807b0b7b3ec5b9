"""Bytes of the input topic become changes: every form, every reason of refusal, and nothing of a row in an error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
    Nothing,
    Remove,
    Truncate,
    Upsert,
)
from streamer.incremental.events.decoder import STATEMENT_ID_CHARS_MAX, UNAVAILABLE, Decoder
from streamer.incremental.events.logical_types import DECIMAL
from streamer.incremental.events.registered_schemas import schema_from
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.table.codes import LOCAL_TIMESTAMP, TIMESTAMP, KeptColumn, SourceText
from streamer.table.row import Row
from streamer.table.schema import Limits, Table
from streamer.table.yaml.loading import load_table
from worlds import avro_messages as avro
from worlds.checkout import PATIENTS as EXAMPLE
from worlds.checkout import ROOT
from worlds.connect_json import TIME, recorded_of, struct, with_schema
from worlds.dates import temporal
from worlds.small_tables import AGE, BMI, CITY, PROBLEM, table

# Debezium's messages become changes that may be repeated: envelopes, flattened rows, tombstones, notices.

PEOPLE = replace(table(AGE, BMI, CITY), kept=(PROBLEM, KeptColumn("cost", False, "decimal")))
COMPOSITE = replace(PEOPLE, source_key=("clinic", "id"))

ANN = {"id": 7, "clinic": "n", "age": 6, "bmi": "11.50", "city": "b1", "problem": "flu", "cost": 12.5, "name": "Ann"}
ROW = Row((5, 3 << 19, 2), (b'"flu"', b"12.5"), ("11.5",))
SOURCE = {"version": "2.7", "connector": "postgresql", "table": "people"}
WRAPPING = {"type": "struct", "fields": []}


def decode(message: object, key: bytes | None = None, of: Table = PEOPLE) -> Change:
    return Decoder(of).decode(key, json.dumps(message).encode())


def refusal(message: object, key: bytes | None = None) -> EventRefused:
    with pytest.raises(EventRefused) as caught:
        decode(message, key)
    return caught.value


def envelope(op: str, before: object = None, after: object = None) -> dict[str, object]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1, "transaction": None}


PLAIN_MESSAGES = re.findall(r"^\| `({.*})` \| ", (ROOT / "docs/how-to/changes.md").read_text("utf-8"), re.M)


def test_every_form_of_a_plain_message_is_documented_as_it_is_read() -> None:
    known = re.findall(r"\w+", refusal({"op": "x"}).detail.partition("none of ")[2].partition(" (plain)")[0])
    patients = load_table(EXAMPLE)
    read = [(json.loads(text)["op"], type(decode(json.loads(text), of=patients))) for text in PLAIN_MESSAGES]
    assert {op for op, _ in read} == {*known}
    assert {kind for _, kind in read} == {Insert, Upsert, Modify, Delete, ModifyWhere, DeleteWhere, Truncate}
    for message in map(json.loads, PLAIN_MESSAGES):
        for member in message.keys() - {"op"}:
            with pytest.raises(EventRefused):
                decode({name: value for name, value in message.items() if name != member}, of=patients)


# -- envelopes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_create_read_and_update_say_how_the_row_is_now(op: str) -> None:
    assert decode(envelope(op, after=ANN)) == Upsert("7", ROW, was_there=op == "u", is_read=op == "r")


def test_an_envelope_as_a_connector_writes_it_with_schema_and_payload() -> None:
    value = (
        b'{"schema":{"type":"struct","fields":[{"field":"before"}],"name":"pg.people.Envelope"},"payload":{"before":null,'
        b'"after":{"id":7,"age":6,"bmi":"11.50","city":"b1","problem":"flu","cost":12.50},'
        b'"source":{"table":"people"},"op":"c","ts_ms":1700000000000}}'
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
    assert decode(envelope("r", before={"id": 6}, after=ANN)) == Upsert("7", ROW, is_read=True)


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
    assert decode({"schema": None, "payload": envelope("c", after=ANN)}) == Upsert("7", ROW)
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
    op = marks.get("__op")
    assert decode({**ANN, **marks}) == Upsert("7", ROW, was_there=op == "u", is_read=op == "r")


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


def test_digits_without_a_schema_that_may_be_bytes_are_never_read_in_silence() -> None:
    refused = refusal(envelope("c", after={**ANN, "cost": "1234"}))
    assert (refused.reason, refused.column) == ("ambiguous-decimal", "cost")
    stated = decode(envelope("c", after={**ANN, "cost": "1234"}), of=replace(PEOPLE, decimals_are_text=True))
    assert isinstance(stated, Upsert) and stated.row.values[1] == b"1234"


def test_bytes_where_bytes_were_stated_to_be_text_are_refused_and_the_setting_is_named() -> None:
    stated = Decoder(replace(PEOPLE, decimals_are_text=True))
    with pytest.raises(EventRefused, match=r"decimal\.handling\.mode=string"):
        stated.decode(None, json.dumps(envelope("c", after={**ANN, "cost": "BH4="})).encode())


def test_a_text_in_a_column_of_integers_is_refused_and_the_settings_are_named() -> None:
    refused = refusal(envelope("c", after={**ANN, "age": "6"}))
    assert (refused.reason, refused.column) == ("wrong-type", "age")
    assert "decimal.format=NUMERIC" in refused.detail


@pytest.mark.parametrize("word", ["NAN", "POSITIVE_INFINITY", "Infinity", "unknown"])
@pytest.mark.parametrize("column", ["age", "bmi"])
def test_of_a_word_among_numbers_it_is_said_that_it_may_be_a_null(column: str, word: str) -> None:
    refused = refusal(envelope("c", after={**ANN, column: word}))
    assert (refused.reason, refused.column) == ("wrong-type", column)
    assert "list it in `na`" in refused.detail
    assert "decimal.handling.mode" not in refused.detail
    assert word not in refused.detail.replace("such as NaN", "")


# Words for nulls are asked before types, in every form of message.

OPEN = ("NaN", "Infinity", "-inf", "infinity", "open")
RATED = replace(
    table(replace(BMI, null_code=0)),
    kept=(KeptColumn("seen", True, "timestamp"),),
    source_texts=(SourceText("bmi", OPEN), SourceText("seen", OPEN)),
)
TYPED = {
    "id": {"type": "int64"},
    "bmi": {"type": "double"},
    "seen": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
}
AVRO = avro.record("Value", {"id": "long", "bmi": "double", "seen": avro.optional("string")})
REGISTERED = {1: schema_from(1, "AVRO", json.dumps(AVRO))}
NULLS = Row((0,), (b"null",), ("10",), None, (0,))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "open"])
def test_a_word_is_a_null_before_the_types_of_a_schema_are_asked(word: str) -> None:
    row = {"id": 1, "bmi": word, "seen": word}
    plain = decode({"op": "insert", "row": row}, of=RATED)
    captured = Decoder(RATED).decode(None, with_schema(struct({"after": struct(TYPED)}), envelope("c", after=row)))
    assert isinstance(plain, Insert) and isinstance(captured, Upsert)
    assert plain.row == captured.row == NULLS


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_so_is_a_float_of_avro_that_such_a_word_means(number: float) -> None:
    decoder = Decoder(replace(RATED, input_rows=True), REGISTERED)
    row = avro.message(1, AVRO, {"id": 1, "bmi": number, "seen": "open"})
    assert decoder.decode(b'{"id": 1}', row) == Upsert("1", NULLS)
    silent = replace(RATED, input_rows=True, source_texts=(SourceText("seen", OPEN),))
    with pytest.raises(EventRefused, match="not a finite number; if NaN or Infinity is a null, list it in `na`"):
        Decoder(silent, REGISTERED).decode(b'{"id": 1}', row)


def test_the_base64_of_bytes_is_never_a_word() -> None:
    money = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "5"}}
    value = with_schema(
        struct({"after": struct({**TYPED, "bmi": money})}), envelope("c", after={"id": 1, "bmi": "open"})
    )
    with pytest.raises(EventRefused) as refused:
        Decoder(RATED).decode(None, value)
    assert refused.value.reason == "out-of-domain"  # -2.1 millions and not a null


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


@pytest.mark.parametrize("schemas", [True, False])
def test_bytes_that_the_connector_did_not_send_are_refused(schemas: bool) -> None:
    toast = Table("people", ("id",), (), (KeptColumn("toast", False),), k=2)
    (message,) = recorded_of("envelope filled", schemas=schemas)
    with pytest.raises(EventRefused) as caught:
        Decoder(toast).decode(message.key, message.value)
    assert (caught.value.reason, caught.value.column) == ("unavailable-value", "toast")


def test_a_value_that_was_not_sent_does_not_matter_in_a_column_that_is_not_published() -> None:
    assert decode(envelope("u", after={**ANN, "name": UNAVAILABLE})) == Upsert("7", ROW, was_there=True)


# -- as Connect and Debezium wrote them -------------------------------------------------------------------------------

MEASURED = Table("people", ("id",), (), (KeptColumn("bmi", False, "decimal"),), k=2)
LIFE = [
    Upsert("7", Row((), (b"11.5",))),
    Upsert("7", Row((), (b"12.34",)), was_there=True),
    Remove("7", was_there=True),
    Remove("7"),
]


def lived(what: str, of: Table, *, schemas: bool = True) -> list[Change]:
    decoder = Decoder(of)
    return [decoder.decode(message.key, message.value) for message in recorded_of(what, schemas=schemas)]


def test_a_row_is_created_changed_and_deleted_as_debezium_says_it_with_schemas() -> None:
    assert lived("life int envelopes", MEASURED) == LIFE


@pytest.mark.parametrize(
    ("type_", "source_key"),
    [
        ("decimal", "7.5"), ("variable", "7.5"), ("date", "1980-01-31"),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), ("connect_timestamp", "2018-06-20T13:37:03.123Z"),
        ("micro_timestamp", "2018-06-20T13:37:03.123456"),
    ],
)  # fmt: skip
def test_a_row_under_a_key_of_another_type_is_deleted_under_the_very_key(type_: str, source_key: str) -> None:
    changes = lived(f"life {type_} envelopes", MEASURED)
    assert [getattr(change, "source_key", None) for change in changes] == [source_key] * 4
    assert not any(getattr(change, "former_key", None) for change in changes)


def test_decimals_as_bytes_are_refused_without_their_schema_whatever_they_look_like() -> None:
    decoder = Decoder(MEASURED)
    for message in recorded_of("life int envelopes", schemas=False)[:2]:
        with pytest.raises(EventRefused, match=r"decimal\.handling\.mode=string") as caught:
            decoder.decode(message.key, message.value)
        assert (caught.value.reason, caught.value.column) == ("wrong-type", "bmi")


def test_a_decimal_that_looks_like_another_number_is_read_with_its_schema_and_refused_without() -> None:
    money = Table("people", ("id",), (), (KeptColumn("decimal", False, "decimal"),), k=2)
    for form in ("envelope filled", "flattened filled"):
        of_form = replace(money, input_rows=form.startswith("flattened"))
        for decimals, schemas in (("BASE64", True), ("NUMERIC", True), ("NUMERIC", False)):
            (message,) = recorded_of(form, schemas=schemas, decimals=decimals)
            change = Decoder(of_form).decode(message.key, message.value)
            assert change == Upsert("7", Row((), (b"-26588.24",)))
        (message,) = recorded_of(form, schemas=False)
        with pytest.raises(EventRefused) as caught:
            Decoder(of_form).decode(message.key, message.value)
        assert caught.value.reason == "ambiguous-decimal"


def test_dates_are_read_with_their_schema_and_never_guessed_without() -> None:
    born = Table("people", ("id",), (), (KeptColumn("date", False, "date"),), k=2)
    (message,) = recorded_of("envelope filled", schemas=True)
    assert Decoder(born).decode(message.key, message.value) == Upsert("7", Row((), (b'"1980-01-31"',)))
    (message,) = recorded_of("envelope filled", schemas=False)
    with pytest.raises(EventRefused, match=r"time\.precision\.mode=isostring"):
        Decoder(born).decode(message.key, message.value)


@pytest.mark.parametrize("name", ["iso_timestamp", "connect_timestamp", "micro_timestamp"])
def test_a_timestamp_without_time_zone_is_a_clock_on_the_wall_in_every_precision_mode(name: str) -> None:
    (message,) = recorded_of("envelope filled", schemas=True)
    local = Table("people", ("id",), (), (KeptColumn(name, False, "local-timestamp"),), k=2)
    change = Decoder(local).decode(message.key, message.value)
    assert isinstance(change, Upsert)
    assert change.row.values[0].startswith(b'"2018-06-20T13:37:03.123') and b"Z" not in change.row.values[0]
    instant = replace(local, kept=(KeptColumn(name, False, "timestamp"),))
    with pytest.raises(EventRefused, match="let the column's type be local-timestamp"):
        Decoder(instant).decode(message.key, message.value)


@pytest.mark.parametrize("schemas", [True, False])
def test_nulls_are_nulls_in_a_column_of_any_type(schemas: bool) -> None:
    names = ("decimal", "date", "point", "bits", "float64", "duration")
    table_ = Table("people", ("id",), (), tuple(KeptColumn(name, False) for name in names), k=2)
    (message,) = recorded_of("envelope nulls", schemas=schemas)
    assert Decoder(table_).decode(message.key, message.value) == Upsert("8", Row((), (b"null",) * len(names)))


def test_an_unknown_type_matters_in_columns_of_table_yaml_alone() -> None:
    (message,) = recorded_of("envelope filled", schemas=True)
    hidden = Table("people", ("id",), (), (KeptColumn("text", False),), k=2)
    assert Decoder(hidden).decode(message.key, message.value) == Upsert("7", Row((), (b'"12.50"',)))
    with pytest.raises(EventRefused, match=r"io\.debezium\.data\.geometry\.Point") as caught:
        Decoder(replace(hidden, kept=(KeptColumn("point", False),))).decode(message.key, message.value)
    assert (caught.value.reason, caught.value.column) == ("unknown-type", "point")


def test_a_deletion_needs_no_column_but_the_keys() -> None:
    gone = envelope("d", before={"id": 7, "point": {"x": 1}, "bmi": "no bytes"})
    unknown = {"point": {"type": "struct", "name": "Point"}, "bmi": {"type": "bytes"}}
    schema = {"type": "struct", "fields": [{**struct({"id": {"type": "int32"}, **unknown}), "field": "before"}]}
    of = replace(MEASURED, kept=(*MEASURED.kept, KeptColumn("point", False)))
    assert Decoder(of).decode(None, with_schema(schema, gone)) == Remove("7", was_there=True)


# -- rows without any mark --------------------------------------------------------------------------------------------

STATED = replace(MEASURED, input_rows=True)
FLAT = ["drop", "tombstone", "delete-to-tombstone", "rewrite", "rewrite-with-tombstone"]


@pytest.mark.parametrize("fields", ["", " op"])
@pytest.mark.parametrize("mode", FLAT)
def test_flattened_rows_live_and_die_in_every_mode_of_the_transform(mode: str, fields: str) -> None:
    changes = lived(f"life int {mode}{fields}", STATED)
    assert changes[:2] == [LIFE[0], Upsert("7", Row((), (b"12.34",)), was_there=bool(fields))]
    assert all(change == Remove("7", was_there=True) for change in changes[2:])
    assert len(changes[2:]) == {"drop": 0, "rewrite-with-tombstone": 2}.get(mode, 1)


@pytest.mark.parametrize("mode", FLAT)
def test_without_a_schema_they_do_so_too_though_a_deletion_is_the_text_null(mode: str) -> None:
    changes = lived(f"life int {mode}", replace(STATED, kept=()), schemas=False)
    assert changes[:2] == [Upsert("7", Row((), ()))] * 2
    assert all(change == Remove("7", was_there=True) for change in changes[2:])
    assert len(changes[2:]) == {"drop": 0, "rewrite-with-tombstone": 2}.get(mode, 1)


@pytest.mark.parametrize("schemas", [True, False])
def test_deletions_beside_rows_with_an_op_are_applied_without_a_word_in_table_yaml(schemas: bool) -> None:
    of = replace(MEASURED, kept=())
    changes = lived("life int tombstone op", of, schemas=schemas)
    assert changes == [Upsert("7", Row((), ())), Upsert("7", Row((), ()), was_there=True), Remove("7")]


def test_a_row_without_any_mark_is_refused_where_table_yaml_does_not_say_so_and_the_setting_is_named() -> None:
    (message, *_) = recorded_of("life int tombstone", schemas=True)
    with pytest.raises(EventRefused, match=r"input: \{form: rows\}") as caught:
        Decoder(MEASURED).decode(message.key, message.value)
    assert caught.value.reason == "unknown-op"


def test_rows_may_have_columns_that_are_called_like_members_of_other_forms() -> None:
    rows = Decoder(replace(STATED, kept=()))
    for fields in ({"op": "truncate"}, {"op": "delete"}, {"op": "t"}, {"before": 1, "after": {}}, {"ts_ms": 1}):
        assert rows.decode(b"7", json.dumps({"id": 7, **fields}).encode()) == Upsert("7", Row((), ()))


def test_statements_and_notices_reach_a_table_of_rows() -> None:
    rows = Decoder(STATED)
    assert rows.decode(None, b'{"op": "truncate", "statement_id": "s"}') == Truncate("s")
    assert rows.decode(None, b'{"ts_ms": 1}') == Nothing()


DAY_SEVEN = b'{"schema":{"type":"int32","name":"io.debezium.time.Date"},"payload":7}'


@pytest.mark.parametrize("marks", [{}, {"__op": "c"}])
@pytest.mark.parametrize(
    "message_key", [b"8", b'{"id":8}', b'{"schema":{"type":"int32","name":"io.debezium.time.Date"},"payload":7}']
)
def test_a_row_that_its_removal_would_pass_by_is_refused(message_key: bytes, marks: dict[str, object]) -> None:
    with pytest.raises(EventRefused, match="both converters write it alike") as caught:
        Decoder(STATED).decode(message_key, json.dumps({"id": 7, "bmi": 1, **marks}).encode())
    assert caught.value.reason == "message-key-of-other-row"


def test_a_row_without_any_message_key_could_never_be_removed() -> None:
    with pytest.raises(EventRefused) as caught:
        Decoder(STATED).decode(None, b'{"id": 7, "bmi": 1}')
    assert caught.value.reason == "message-key-of-other-row"


@pytest.mark.parametrize("column", ["who", "id"])
def test_a_placeholder_is_never_a_key(column: str) -> None:
    row = {**ANN, "who": "Ann", column: UNAVAILABLE}
    with pytest.raises(EventRefused, match="was not sent by the connector"):
        decode(envelope("u", after=row), of=replace(PEOPLE, individual="who"))


DECODER_PEOPLE = replace(table(AGE, BMI, CITY), kept=(PROBLEM, KeptColumn("ward", False, "integer")))
PATIENTS = replace(DECODER_PEOPLE, individual="ssn")
DECODER_COMPOSITE = replace(DECODER_PEOPLE, source_key=("clinic", "id"))

DECODER_ANN = {"id": 7, "ssn": "s-1", "age": 6, "bmi": 11.5, "city": "b1", "problem": "flu", "ward": 3, "name": "Ann"}
ANN_ROW = Row((5, 1 << 19 | 1 << 20, 2), (b'"flu"', b"3"), ("11.5",))


def decoder_decode(message: object, key: bytes | None = None, of: Table = DECODER_PEOPLE) -> Change:
    return Decoder(of).decode(key, json.dumps(message).encode())


def decoder_refusal(message: object, key: bytes | None = None, of: Table = DECODER_PEOPLE) -> tuple[str, str | None]:
    with pytest.raises(EventRefused) as caught:
        decoder_decode(message, key, of)
    return caught.value.reason, caught.value.column


def ann(**changed: object) -> dict[str, object]:
    return {"op": "insert", "row": {**DECODER_ANN, **changed}}


# -- the plain form ---------------------------------------------------------------------------------------------------


def test_an_insert_is_the_encoded_row_under_its_key() -> None:
    value = (
        b'{"op": "insert", "row": {"id": 7, "age": 6, "bmi": 11.50, "city": "b1", "problem": "flu", "ward": 3, "x": 1}}'
    )
    assert Decoder(DECODER_PEOPLE).decode(b"ignored", value) == Insert("7", ANN_ROW)


def test_an_insert_carries_the_individual_where_one_is_declared() -> None:
    assert decoder_decode(ann(), of=PATIENTS) == Insert("7", structs.replace(ANN_ROW, individual="s-1"))


def test_a_number_and_its_text_are_one_key() -> None:
    assert decoder_decode({"op": "delete", "key": 7}) == decoder_decode({"op": "delete", "key": "7"}) == Delete("7")


def test_a_key_may_be_an_object_of_its_column() -> None:
    assert decoder_decode({"op": "delete", "key": {"id": 7}}) == Delete("7")


def test_a_composite_key_is_an_object_and_becomes_one_text() -> None:
    assert decoder_decode({"op": "delete", "key": {"id": 7, "clinic": "north"}}, of=DECODER_COMPOSITE) == Delete(
        '["north","7"]'
    )
    assert decoder_refusal({"op": "delete", "key": 7}, of=DECODER_COMPOSITE) == ("wrong-type", None)
    assert decoder_refusal({"op": "delete", "key": {"id": 7}}, of=DECODER_COMPOSITE) == ("missing-key", "clinic")


def test_a_modify_holds_the_changed_columns_only() -> None:
    change = decoder_decode({"op": "modify", "key": 7, "row": {"bmi": 11.5, "ward": None, "name": "Anne"}})
    assert change == Modify("7", {1: ANN_ROW.codes[1]}, {1: "11.5"}, {1: b"null"})


def test_a_modify_hands_over_the_individual_for_comparison() -> None:
    assert decoder_decode({"op": "modify", "key": 7, "row": {"ssn": "s-2"}}, of=PATIENTS) == Modify(
        "7", {}, {}, {}, "s-2"
    )
    unsaid = decoder_decode({"op": "modify", "key": 7, "row": {"age": 3}}, of=PATIENTS)
    assert isinstance(unsaid, Modify)
    assert unsaid.individual is None


def test_a_modify_may_repeat_the_key_but_not_change_it() -> None:
    assert decoder_decode({"op": "modify", "key": 7, "row": {"id": "7", "age": 6}}) == Modify("7", {0: 5})
    assert decoder_refusal({"op": "modify", "key": 7, "row": {"id": 8, "age": 6}}) == ("key-changed", None)


def test_a_modify_under_a_composite_key_compares_the_columns_that_are_repeated() -> None:
    key = {"clinic": "north", "id": 7}
    change = decoder_decode({"op": "modify", "key": key, "row": {"id": 7, "age": 6}}, of=DECODER_COMPOSITE)
    assert isinstance(change, Modify)
    assert change.codes == {0: 5}
    assert decoder_refusal({"op": "modify", "key": key, "row": {"clinic": "south"}}, of=DECODER_COMPOSITE) == (
        "key-changed",
        None,
    )


def test_an_upsert_says_how_a_row_shall_be_whether_it_is_there_or_not() -> None:
    assert decoder_decode({"op": "upsert", "row": DECODER_ANN}) == Upsert("7", ANN_ROW)
    assert decoder_refusal({"op": "upsert"}) == ("missing-row", None)
    assert decoder_refusal({"op": "upsert", "row": {"id": 7}})[0] == "missing-column"


def test_statements_are_parsed_and_keep_their_id() -> None:
    where, to = "age >= 5 and city = 'b1'", {"age": "age + 1"}
    condition, assignments = parse_condition(where, DECODER_PEOPLE), parse_assignments(to, DECODER_PEOPLE)
    assert decoder_decode({"op": "delete", "where": where, "statement_id": "s"}) == DeleteWhere(condition, "s")
    assert decoder_decode({"op": "modify", "where": where, "set": to}) == ModifyWhere(condition, assignments, None)
    assert decoder_decode({"op": "truncate", "statement_id": "s"}) == Truncate("s")


def test_members_that_are_not_known_are_not_looked_at() -> None:
    assert decoder_decode({"op": "delete", "key": 7, "schema": {}, "payload": {"op": "truncate"}, "row": 1}) == Delete(
        "7"
    )


# -- messages of other makes ------------------------------------------------------------------------------------------

PERSON = {"id": 8, "age": 32, "city": "b1", "problem": "SECRET"}
OF_OTHER_MAKES: dict[str, dict[str, object]] = {
    "a CloudEvent": {
        "id": "1",
        "source": "/x",
        "specversion": "1.0",
        "type": "x",
        "data": {"after": PERSON, "op": "u"},
    },
    "Maxwell": {
        "database": "x",
        "table": "people",
        "type": "insert",
        "ts": 1,
        "commit": True,
        "data": PERSON,
    },
    "Canal": {"data": [PERSON], "old": None, "type": "INSERT", "isDdl": False, "table": "people", "es": 1, "ts": 1},
    "AWS DMS": {"data": PERSON, "metadata": {"record-type": "data", "operation": "insert", "table-name": "people"}},
    "Oracle GoldenGate": {"table": "X.PEOPLE", "op_type": "I", "op_ts": "2024", "pos": "1", "after": PERSON},
    "wal2json": {"action": "I", "schema": "public", "table": "people", "columns": [{"name": "id", "value": 1}]},
    "MongoDB": {"operationType": "insert", "ns": {"db": "x"}, "documentKey": {"_id": 1}, "fullDocument": PERSON},
    "Qlik Replicate": {"magic": "atMSG", "type": "DT", "headers": {"operation": "INSERT"}, "data": PERSON},
    "CockroachDB": {"after": PERSON, "updated": "1.0", "key": [8]},
    "DynamoDB": {"eventName": "INSERT", "dynamodb": {"NewImage": PERSON}},
}


@pytest.mark.parametrize("make", OF_OTHER_MAKES)
@pytest.mark.parametrize("of", [PEOPLE, replace(PEOPLE, input_rows=True)])
def test_a_message_of_another_make_is_named_with_what_to_set(make: str, of: Table) -> None:
    with pytest.raises(EventRefused) as caught:
        decode(OF_OTHER_MAKES[make], of=of)
    assert (caught.value.reason, make in caught.value.detail) == ("unknown-op", True)
    assert "not Debezium's form" in caught.value.detail
    assert "form: rows" not in caught.value.detail
    assert "SECRET" not in caught.value.detail


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (envelope("c", after='{"id": 7, "age": 32}'), "ExtractNewDocumentState"),
        ({"op": "c", "row": PERSON}, "a plain message with a row has op insert, upsert or modify"),
        ({"op": "INSERT", "row": PERSON}, "in small letters"),
        ({"op": "update", "key": 7, "row": PERSON}, "a change of some columns is modify"),
        ([PERSON], "a list: send a message of its own for each row"),
        (ANN, "say `input: {form: rows}` in table.yaml"),
        ({"age": 7}, "of no other known form"),
        ({"op": "delete"}, "names its row in `key`"),
        ({"op": "modify", "row": {"age": 7}}, "names its row in `key`"),
    ],
)
def test_a_message_that_is_nearly_of_a_form_is_told_what_it_lacks(message: object, said: str) -> None:
    detail = refusal(message).detail
    assert said in detail
    assert "SECRET" not in detail


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason", "column"),
    [
        ([], "not-an-object", None),
        ("insert", "not-an-object", None),
        ({}, "unknown-op", None),
        ({"op": "put", "row": DECODER_ANN}, "unknown-op", None),
        ({"op": "INSERT", "row": DECODER_ANN}, "unknown-op", None),
        ({"op": ["insert"], "row": DECODER_ANN}, "unknown-op", None),
        ({"op": None, "ts_ms": 1}, "unknown-op", None),
        (DECODER_ANN, "unknown-op", None),
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
    assert decoder_refusal(message) == (reason, column)


def test_an_event_without_the_declared_individual_is_refused() -> None:
    assert decoder_refusal(ann(ssn=None), of=PATIENTS) == ("missing-individual", "ssn")
    assert decoder_refusal({"op": "modify", "key": 7, "row": {"ssn": None}}, of=PATIENTS) == (
        "missing-individual",
        "ssn",
    )


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
        Decoder(DECODER_PEOPLE).decode(b"7", value)
    assert caught.value.reason == reason


def test_a_message_of_the_largest_size_is_read_and_one_byte_more_is_refused() -> None:
    value = json.dumps(ann()).encode()
    fits = replace(DECODER_PEOPLE, limits=Limits(event_bytes_max=len(value)))
    assert isinstance(Decoder(fits).decode(None, value), Insert)
    with pytest.raises(EventRefused) as caught:
        Decoder(fits).decode(None, value + b" ")
    assert caught.value.reason == "oversized"


def test_of_a_member_that_comes_twice_the_last_one_counts() -> None:
    assert Decoder(DECODER_PEOPLE).decode(None, b'{"op": "delete", "key": 1, "key": 2}') == Delete("2")


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
    assert Decoder(DECODER_PEOPLE).decode(key, None) == Remove(source_key)


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
        Decoder(DECODER_PEOPLE).decode(key, None)
    assert caught.value.reason == reason


def test_a_composite_message_key_is_an_object() -> None:
    assert Decoder(DECODER_COMPOSITE).decode(b'{"id": 7, "clinic": "n"}', None) == Remove('["n","7"]')


@pytest.mark.parametrize("value", [b"null", b" null\n", b'{"schema": null, "payload": null}'])
def test_a_deletion_that_connects_converter_writes_as_jsons_null_is_not_lost(value: bytes) -> None:
    assert Decoder(DECODER_PEOPLE).decode(b'{"id":7}', value) == Remove("7")
    with pytest.raises(EventRefused) as caught:
        Decoder(DECODER_PEOPLE).decode(None, value)
    assert caught.value.reason == "missing-key"


# -- nothing else comes out, and nothing of a row does ----------------------------------------------------------------

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


@given(
    st.none() | st.binary(max_size=40) | JSON.map(msgspec.json.encode),
    st.none() | st.binary(max_size=60) | JSON.map(msgspec.json.encode),
)
def test_random_bytes_and_random_json_raise_nothing_but_a_refusal(key: bytes | None, value: bytes | None) -> None:
    for people in (DECODER_PEOPLE, PATIENTS, DECODER_COMPOSITE):
        try:
            Decoder(people).decode(key, value)
        except EventRefused as refused:
            assert refused.reason


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
        *(lambda value, name=name: ann(**{name: value}) for name in DECODER_ANN),
        *(lambda value, name=name: {"op": "c", "after": {**DECODER_ANN, name: value}} for name in DECODER_ANN),
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


# -- dates that Python has not ----------------------------------------------------------------------------------------

VALID_TO = temporal("valid_to", "1900-01-01", "2099-12-31", "1 year", LOCAL_TIMESTAMP)
UNTIL = replace(temporal("until", "1900-01-01", "2099-12-31", "1 year", TIMESTAMP), ends_take_all=True)
ENDLESS = replace(PEOPLE, attributes=(replace(VALID_TO, ends_take_all=True),), kept=())
MICRO = {"type": "int64", "optional": True, "name": TIME + "MicroTimestamp", "version": 1}
DOMAIN = ("1900-01-01T00:00:00", "2099-12-31T00:00:00")
INFINITIES = [
    (MICRO, 9_223_372_036_825_200_000, "infinity"),
    (MICRO, -9_223_372_036_832_400_000, "-infinity"),
    ({"type": "int64", "optional": True, "name": TIME + "Timestamp", "version": 1}, 253_402_300_800_000, "infinity"),
    (None, "infinity", "infinity"),
    (None, "0044-03-15 00:00:00 BC", "-infinity"),
]


def lasting(schema: dict[str, Any] | None, value: object) -> dict[str, Any]:
    """A row that was inserted, as a connector says it with the schema of `valid_to`, or in the plain form."""
    row = {"id": 1, "valid_to": value}
    if schema is None:
        return {"op": "insert", "row": row}
    after = {**struct({"id": {"type": "int64"}, "valid_to": schema}), "field": "after"}
    envelope_schema = {"type": "struct", "fields": [after, {"type": "string", "field": "op"}]}
    return {"schema": envelope_schema, "payload": {"op": "c", "after": row}}


def row_of(message: object, of: Table) -> Row:
    change = decode(message, of=of)
    assert isinstance(change, Insert | Upsert)
    return change.row


@pytest.mark.parametrize(("schema", "value", "meant"), INFINITIES)
def test_a_moment_without_end_is_the_nearer_end_or_a_null_or_out_of_domain(
    schema: dict[str, Any] | None, value: object, meant: str
) -> None:
    message = lasting(schema, value)
    first, last = (row_of(lasting(None, end), ENDLESS) for end in DOMAIN)
    assert row_of(message, ENDLESS) == (last if meant == "infinity" else first)
    nullable = replace(VALID_TO, null_code=0)
    named = replace(ENDLESS, attributes=(nullable,), source_texts=(SourceText("valid_to", (meant,)),))
    assert row_of(message, named).nulls == (0,)
    with pytest.raises(EventRefused) as refused:
        decode(message, of=replace(ENDLESS, attributes=(VALID_TO,)))
    assert (refused.value.reason, refused.value.column) == ("out-of-domain", "valid_to")


@pytest.mark.parametrize("value", ["infinity", "+292278994-08-16T23:00:00Z", "9999-12-31T23:30:00-01:00"])
def test_an_instant_without_end_is_the_nearer_end_in_every_spelling(value: str) -> None:
    of = replace(PEOPLE, attributes=(UNTIL,), kept=())
    zoned = {"type": "string", "optional": True, "name": TIME + "ZonedTimestamp", "version": 1}
    message = json.loads(json.dumps(lasting(zoned, value)).replace("valid_to", "until"))
    assert row_of(message, of).codes == (UNTIL.calendar.code_of(UNTIL.calendar.last),)
