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
from worlds.connect_json import recorded_of, struct, with_schema
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


def test_a_value_that_was_not_sent_does_not_matter_in_a_column_nobody_publishes() -> None:
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


@pytest.mark.parametrize("schemas", [True, False])
def test_nulls_are_nulls_in_a_column_of_any_type(schemas: bool) -> None:
    names = ("decimal", "date", "point", "bits", "float64", "duration")
    table_ = Table("people", ("id",), (), tuple(KeptColumn(name, False) for name in names), k=2)
    (message,) = recorded_of("envelope nulls", schemas=schemas)
    assert Decoder(table_).decode(message.key, message.value) == Upsert("8", Row((), (b"null",) * len(names)))


def test_a_type_that_nobody_knows_matters_in_a_column_of_table_yaml_alone() -> None:
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
