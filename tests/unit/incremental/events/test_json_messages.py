"""Bytes of a message as JSON: strict, exact, and silent about what it could not read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import read_json, unwrapped


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
        read_json(b"\x00\x00\x00\x00\x01canary")
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
