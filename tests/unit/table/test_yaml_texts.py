"""`na` and `written` in table.yaml: files, messages and statements then mean the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.changes import Insert, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.statements import parse_assignments
from streamer.table.encode import Encoder
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table
from streamer.table.yaml_shape import TableSettings
from streamer.table.yaml_texts import source_texts

MESSY = """
table: people
key: id
individual: who
na: ["?", "N/A", ""]
columns:
  age: {role: quasi-identifier, type: integer, domain: [-5, 99], grid: 5, null_as: -5}
  bmi: {role: quasi-identifier, type: decimal, domain: [0, 100], grid: 10, null_as: 0}
  zip: {role: quasi-identifier, type: integer, domain: [0, 99999], grid: 1000, written: digits, na: ["-"]}
  born: {role: quasi-identifier, type: date, domain: [1900-01-01, 2029-12-31], grid: 5 years, written: DD.MM.YYYY}
  sex: {role: quasi-identifier, hierarchy: sex.csv, null: own-category}
  cost: {role: sensitive, type: decimal, written: "1.234,5"}
  note: {role: sensitive}
privacy: {k: 2}
publish: {live: {form: rows}}
"""

PEOPLE = pd.DataFrame(
    [
        ("1", "a", "?", "20.5", "00700", "31.12.1980", "f", "1.234,5", "flu"),
        ("2", "b", "", "N/A", "99999", "1980-12-31", "N/A", "?", "N/A"),
        ("3", "c", "41", "20", "10001", "1.2.1990", "", "7", ""),
    ],
    columns=["id", "who", "age", "bmi", "zip", "born", "sex", "cost", "note"],
)

Load = Callable[[str], Table]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "sex.csv").write_text("f;*\nm;*\n")

    def write_and_load(text: str) -> Table:
        (tmp_path / "table.yaml").write_text(text, "utf-8")
        return load_table(tmp_path)

    return write_and_load


def of_message(table: Table, fields: dict[Hashable, Any]) -> Row:
    change = Decoder(table).decode(None, json.dumps({"op": "insert", "row": fields}).encode())
    assert isinstance(change, Insert)
    captured = Decoder(replace(table, decimals_are_text=True))
    upsert = captured.decode(b"1", json.dumps({"op": "c", "after": fields}).encode())
    assert isinstance(upsert, Upsert)
    assert upsert.row == change.row
    return change.row


def test_a_file_and_messages_of_its_texts_are_the_same_rows(load: Load) -> None:
    table = load(MESSY)
    of_file = Encoder(table).frame(PEOPLE).rows()
    assert of_file == [of_message(table, fields) for fields in PEOPLE.to_dict("records")]
    null_category = table.attributes[4].null_code
    assert of_file[1].codes[0] == of_file[0].codes[0] == 0
    assert of_file[1].codes[4] == of_file[2].codes[4] == null_category
    assert [row.values for row in of_file] == [(b"1234.5", b'"flu"'), (b"null", b"null"), (b"7", b"null")]


def test_what_produce_sends_of_a_file_has_values_and_nulls_and_no_words(load: Load) -> None:
    table = load(MESSY)
    encoder = Encoder(table)
    fields = encoder.fields(dict(PEOPLE.iloc[0]))
    assert (fields["age"], fields["zip"], fields["born"], str(fields["cost"])) == (None, 700, "1980-12-31", "1234.5")
    assert encoder.row(fields) == encoder.frame(PEOPLE).rows()[0]


def test_typed_values_of_a_data_frame_are_not_written_in_any_way(load: Load) -> None:
    table = load(MESSY)
    typed = PEOPLE.assign(
        cost=[1234.5, float("nan"), 7.0],
        zip=[700, 99999, 10001],
        born=pd.to_datetime(["1980-12-31", "1980-12-31", "1990-02-01"]),
    )
    assert Encoder(table).frame(typed).rows() == Encoder(table).frame(PEOPLE).rows()


def test_a_word_for_nothing_known_is_nobodys_key_and_nobody(load: Load) -> None:
    encoder = Encoder(load(MESSY))
    for column, reason in (("id", "missing-key"), ("who", "missing-individual")):
        with pytest.raises(ConfigError, match=reason):
            encoder.frame(PEOPLE.assign(**{column: ["1", "?", "3"]}))
        with pytest.raises(EventRefused, match=column):
            fields = {**PEOPLE.iloc[0], column: "?"}
            encoder.source_key(fields), encoder.row(fields)


def test_a_columns_own_words_stand_instead_of_the_tables(load: Load) -> None:
    encoder = Encoder(load(MESSY.replace('na: ["-"]', 'na: ["-"], null_as: 0')))
    assert encoder.code(2, "-") == (0, None)
    with pytest.raises(EventRefused, match="zip"):
        encoder.code(2, "?")


def test_a_statement_sets_the_same_null(load: Load) -> None:
    table = load(MESSY)
    row = Encoder(table).frame(PEOPLE).rows()[0]
    changed = parse_assignments({"sex": "'N/A'", "note": "'?'"}, table).applied_to(row)
    assert (changed.codes[4], changed.values[1]) == (table.attributes[4].null_code, b"null")


def test_a_captured_word_that_could_be_bytes_is_a_null(load: Load) -> None:
    table = load(MESSY.replace('na: ["?", "N/A", ""]', 'na: ["none", "?", "N/A", ""]'))
    message = {"op": "c", "after": {**PEOPLE.iloc[0], "bmi": "none"}}
    change = Decoder(table).decode(b"1", json.dumps(message).encode())
    assert isinstance(change, Upsert)
    assert change.row.exact == ("0",)


def test_a_captured_whole_number_that_could_be_bytes_is_refused_unless_table_yaml_says_it_is_text(load: Load) -> None:
    message = json.dumps({"op": "c", "after": {**PEOPLE.iloc[0], "age": "1234"}}).encode()
    with pytest.raises(EventRefused) as caught:
        Decoder(load(MESSY)).decode(b"1", message)
    assert caught.value.reason == "ambiguous-decimal"


def test_words_and_patterns_are_of_the_tables_fingerprint(load: Load) -> None:
    plain = load(MESSY)
    others = [
        load(MESSY.replace("N/A", "n/a")),
        load(MESSY.replace("DD.MM", "MM.DD")),
        load(MESSY.replace("1.234,5", "1,234.5")),
    ]
    assert len({table.fingerprint for table in (plain, *others)}) == 4
    assert load(MESSY.replace('"?", "N/A", ""', '"", "N/A", "?"')).fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("hierarchy: sex.csv, written: digits", "columns.x.written: is for numbers, dates and local timestamps"),
        ("type: integer, domain: [0, 9], written: 1_000", "columns.x.written: must be one of 1,234.5; "),
        ("type: decimal, domain: [0, 9], grid: 1, written: digits", "columns.x.written: must be one of 1,234.5; "),
        (
            "type: date, domain: [1900-01-01, 2029-12-31], grid: 1 year, written: DD.MM.YY",
            "columns.x.written: must have",
        ),
        (
            "type: timestamp, domain: [1900-01-01, 2029-12-31], grid: 1 year, written: DD.MM.YYYY hh:mm",
            "columns.x.written: a timestamp comes as ISO text",
        ),
        ("hierarchy: sex.csv, na: [f]", "columns.x.na: 'f' is a category of its hierarchy"),
    ],
)
def test_what_cannot_be_said_of_texts_is_told_with_its_place(load: Load, column: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(MESSY.replace("columns:\n", f"columns:\n  x: {{role: quasi-identifier, {column}}}\n"))
    assert f"\n  {sentence}" in str(caught.value)


def test_a_category_that_nulls_count_as_may_be_such_a_word(load: Load) -> None:
    table = load(MESSY.replace("null: own-category", "null_as: f, na: [f]"))
    assert Encoder(table).code(4, "f") == (0, None)


def test_a_table_that_says_nothing_of_texts_has_none() -> None:
    settings = {
        "table": "people",
        "key": "id",
        "columns": {"note": {"role": "sensitive"}},
        "privacy": {"k": "2"},
        "publish": {"live": {"form": "rows"}},
    }
    assert source_texts(TableSettings.model_validate(settings)) == ()
    texts = source_texts(TableSettings.model_validate({**settings, "na": ["?", "", "?"]}))
    assert [(text.column, text.na) for text in texts] == [("id", ("", "?")), ("note", ("", "?"))]
