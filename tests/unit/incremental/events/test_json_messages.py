"""Bytes of a message as JSON: strict, exact, and silent about what it could not read."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamer.incremental.events.json_messages as json_messages
from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import SCHEMAS_REMEMBERED, MessageReader, read_json, unwrapped
from worlds.connect_json import TIME, Cell, cells, recorded, struct, with_schema
from worlds.small_tables import AGE, table


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


def test_a_registrys_message_is_told_apart_and_the_mend_is_named() -> None:
    with pytest.raises(EventRefused, match="JsonConverter") as refused:
        MessageReader(PEOPLE).read(b"\x00\x00\x00\x00\x01canary")
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

PEOPLE = table(AGE)
DATED = struct({"id": {"type": "int32", "name": TIME + "Date"}})


def said(reader: MessageReader, data: bytes) -> object:
    """What a message says as a row; the reason of its refusal."""
    try:
        value, readers = reader.read(data)
        return readers.own.row(value) if isinstance(value, dict) else value
    except EventRefused as refused:
        return refused.reason


def test_a_schema_is_parsed_once_and_not_for_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(json_messages, "connect_type_of", lambda schema: parsed.append(schema))
    reader = MessageReader(PEOPLE)
    for number in range(100):
        reader.read(with_schema(DATED, {"id": number}))
    assert len(parsed) == 1


def test_a_new_schema_is_noticed_and_the_former_one_not_forgotten() -> None:
    reader, plain = MessageReader(PEOPLE), struct({"id": {"type": "int32"}})
    for _ in range(3):
        assert said(reader, with_schema(DATED, {"id": 3682})) == {"id": "1980-01-31"}
        assert said(reader, with_schema(plain, {"id": 3682})) == {"id": 3682}
        assert said(reader, b'{"id":3682}') == {"id": 3682}


def test_no_more_schemas_are_remembered_than_some() -> None:
    reader = MessageReader(PEOPLE)
    for number in range(3 * SCHEMAS_REMEMBERED):
        assert said(reader, with_schema({**DATED, "name": str(number)}, {"id": 3682})) == {"id": "1980-01-31"}
    assert len(reader._known) == SCHEMAS_REMEMBERED


def test_spaces_and_another_order_make_no_difference() -> None:
    reader = MessageReader(PEOPLE)
    for _ in range(2):
        for message in ({"schema": DATED, "payload": {"id": 3682}}, {"payload": {"id": 3682}, "schema": DATED}):
            for dump in (json.dumps, partial(json.dumps, separators=(",", ":")), partial(json.dumps, indent=1)):
                assert said(reader, dump(message).encode()) == {"id": "1980-01-31"}


HEAD = with_schema(DATED, None)[: -len(b"null}")]
TAILS = [
    b'{"id":3682}}', b'{"id":3682},"more":1}', b'{"id":3682},"payload":{"id":1}}', b'{"id":3682},"schema":null}',
    b'{"id":3682}} ', b"null}", b"7}", b"}", b"", b'{"id":3682}', b'{"id":3682}}}', b"{}}{}}", b'{"id":"canary"}}',
    b'{"id":null}}', b'{"id":1e99999999999999999999}}',
]  # fmt: skip


@given(st.lists(st.sampled_from(TAILS), min_size=1, max_size=4))
def test_what_a_message_says_does_not_depend_on_what_came_before(tails: list[bytes]) -> None:
    used = MessageReader(PEOPLE)
    for tail in tails:
        assert said(used, HEAD + tail) == said(MessageReader(PEOPLE), HEAD + tail)


def test_recorded_messages_mean_the_same_to_a_reader_that_has_read_the_others() -> None:
    used = MessageReader(PEOPLE)
    for message in recorded():
        for data in (message.key, message.value):
            if data is not None:
                assert said(used, data) == said(MessageReader(PEOPLE), data)


@given(st.lists(cells(), min_size=1, max_size=3))
def test_a_key_of_any_type_is_read_by_its_schema(values: list[Cell]) -> None:
    reader = MessageReader(PEOPLE)
    for cell in values:
        value, readers = reader.read(with_schema(struct({"id": cell.schema}), {"id": cell.wire}))
        assert readers.own.key(value) == {"id": cell.means}
