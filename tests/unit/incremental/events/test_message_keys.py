"""The row that a message key names, whichever converter wrote it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.message_keys import MessageKeys
from streamer.table.encode import Encoder
from worlds.connect_json import recorded_of
from worlds.small_tables import AGE, table

KEYS = MessageKeys(Encoder(table(AGE)))
VISITS = MessageKeys(Encoder(replace(table(AGE), source_key=("ward", "number"))))

NAMED = {
    "int": "7",
    "decimal": "7.5",
    "variable": "7.5",
    "date": "1980-01-31",
    "connect_timestamp": "2018-06-20T13:37:03.123Z",
    "micro_timestamp": "2018-06-20T13:37:03.123456",
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
}


@pytest.mark.parametrize("type_", NAMED)
def test_a_key_with_schema_names_its_row_by_what_it_means(type_: str) -> None:
    for message in recorded_of(f"life {type_} envelopes", schemas=True):
        assert KEYS.source_key(message.key) == NAMED[type_]


def test_keys_without_schema_are_names_as_they_come() -> None:
    for message_key in (b"7", b" 7 ", b'"7"', b'{"id":7}', b'{"id": "7"}'):
        assert KEYS.source_key(message_key) == "7"
    assert KEYS.source_key(b'{"id":"Au4="}') == "Au4="
    assert VISITS.source_key(b'{"number":3,"ward":"B"}') == '["B","3"]'


@pytest.mark.parametrize(
    ("message_key", "reason"),
    [
        (None, "missing-key"), (b"", "missing-key"), (b"null", "missing-key"), (b"{", "malformed-json"),
        (b"\xff", "malformed-json"), (b"\x00\x00\x00\x00\x01", "schema-registry"), (b'{"x":7}', "missing-key"),
        (b'{"schema":{"type":"int32","name":"io.debezium.time.Date"},"payload":null}', "missing-key"),
        (b'{"id":{"scale":2,"value":"Au4="}}', "wrong-type"),
    ],
)  # fmt: skip
def test_a_key_that_names_no_row_is_refused(message_key: bytes | None, reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        KEYS.source_key(message_key)
    assert caught.value.reason == reason


def test_the_types_of_a_keys_columns_are_those_of_its_schema() -> None:
    (message, *_) = recorded_of("life date envelopes", schemas=True)
    assert KEYS.types(message.key)["id"].name == "io.debezium.time.Date"
    assert KEYS.types(b'{"id":7}') == KEYS.types(b"7") == {}
