"""Parts of a message key with a logical type are written as Connect wrote them, byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.events.connect_schema import connect_type_of
from streamer.incremental.events.logical_keys import kind_of, written_part
from streamer.incremental.events.logical_types import reader_of
from streamer.table.scalars import key_text
from worlds.connect_json import Cell, days, decimals, recorded, times, timestamps


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
        ("instant(1000)", "1980-01-31T00:00:00"),
    ],
)  # fmt: skip
def test_a_text_that_no_value_of_the_kind_has_is_not_written(kind: str, text: str) -> None:
    assert written_part(kind, text) is None


def test_an_iso_date_ends_with_a_z_in_the_message_key() -> None:
    type_ = connect_type_of({"type": "string", "name": "io.debezium.time.IsoDate"})
    assert type_ is not None and kind_of(type_) == "iso-date"
    assert written_part("iso-date", "1980-01-31") == b'"1980-01-31Z"'


@pytest.mark.parametrize("type_", ["int32", "string", "bytes", "double"])
def test_types_without_a_name_have_no_kind(type_: str) -> None:
    found = connect_type_of({"type": type_})
    assert found is not None and kind_of(found) is None


def test_a_kind_that_nobody_made_is_an_error_of_this_program() -> None:
    with pytest.raises(ValueError, match="no kind"):
        written_part("weeks", "7")
