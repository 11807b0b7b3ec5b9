"""Which format a table has, and that plain JSON is left alone."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.events.registered_schemas import NoSchemas
from streamer.incremental.formats.live_format import ConnectJsonFormat, is_written, live_format
from streamer.table.codes import KeptColumn
from streamer.table.published.schemas import bytes_more, key_schema, value_schema
from streamer.table.schema import CONNECT_JSON, GROUPS, JSON, ROWS
from worlds.published_forms import EVERY_KIND, published_records
from worlds.published_groups import SONG

# Records with Kafka Connect's schema in each: golden bytes, and what an independent reading of them finds.

GOLDEN = replace(SONG, format=CONNECT_JSON, kept=(KeptColumn("problem", sensitive=True, type="text"),))
KEY = b'{"qi_group":"0-17","slot":3}'
ROW = b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"problem":"flu"}'


def test_the_golden_row_is_exactly_these_bytes() -> None:
    format_ = ConnectJsonFormat(GOLDEN)
    assert format_.written_key(KEY) == (
        b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"string","field":"qi_group","optional":false},'
        b'{"type":"int64","field":"slot","optional":false}]},"payload":{"qi_group":"0-17","slot":3}}'
    )
    assert format_.written_value(ROW) == (
        b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"string","field":"qi_group","optional":false},'
        b'{"type":"int64","field":"age_lo","optional":false},{"type":"int64","field":"age_hi","optional":false},'
        b'{"type":"int64","field":"zip_lo","optional":false},{"type":"int64","field":"zip_hi","optional":false},'
        b'{"type":"string","field":"problem","optional":true}]},"payload":' + ROW + b"}"
    )


@pytest.mark.parametrize("form", [ROWS, GROUPS])
@given(data=st.data())
def test_what_is_read_is_what_was_written_and_connect_finds_the_types_of_the_schema(
    form: str, data: st.DataObject
) -> None:
    table, records = data.draw(published_records(form, CONNECT_JSON))
    writer, reader = ConnectJsonFormat(table), ConnectJsonFormat(table)
    for record in records:
        key = writer.written_key(record.key)
        assert reader.read_key(key) == record.key
        assert as_connect_reads(key, key_schema(table)) == json.loads(record.key)
        if record.value is not None:
            value = writer.written_value(record.value)
            assert reader.read_value(value) == record.value
            plain = json.loads(record.value, parse_float=Decimal)
            assert as_connect_reads(value, value_schema(table)) == plain
            assert len(key) + len(value) <= len(record.key) + len(record.value) + bytes_more(table)[0]


def as_connect_reads(data: bytes, schema: dict[str, Any]) -> dict[str, Any]:
    """What JsonConverter makes of a record: by its schema, field after field; members beside it are passed over."""
    said = json.loads(data, parse_float=Decimal)
    assert said["schema"] == schema
    payload = said["payload"]
    for field in schema["fields"]:
        value = payload[field["field"]]
        if value is None:
            assert field["optional"]
        elif field["type"] == "bytes":
            assert -value.as_tuple().exponent == int(field["parameters"]["scale"])
        else:
            kinds = {"string": str, "int64": int, "double": int | Decimal, "boolean": bool}
            assert isinstance(value, kinds[field["type"]])
    return dict(payload)


def test_a_record_with_the_schema_of_an_older_table_is_read_by_its_own() -> None:
    older = replace(EVERY_KIND, format=CONNECT_JSON, attributes=EVERY_KIND.attributes[1:2], kept=())
    row = b'{"qi_group":"0-17","bmi_lo":20,"bmi_hi":22.5}'
    written = ConnectJsonFormat(older).written_value(row)
    assert written.endswith(b'"payload":{"qi_group":"0-17","bmi_lo":20.0,"bmi_hi":22.5}}')
    assert ConnectJsonFormat(GOLDEN).read_value(written) == row


@pytest.mark.parametrize("data", [KEY, b"\0\0\0\0\1\x060-1", b"null", b"", b'{"schema":7,"payload":{}}', b"\xff"])
def test_what_is_not_an_envelope_is_an_error_without_its_text(data: bytes) -> None:
    with pytest.raises(LawViolated, match="not in the format connect-json") as told:
        ConnectJsonFormat(GOLDEN).read_key(data)
    assert "0-1" not in str(told.value)


@given(key=st.binary(), value=st.binary())
def test_plain_json_stands_in_its_topic_as_it_is(key: bytes, value: bytes) -> None:
    plain = live_format(SONG, NoSchemas())
    plain.begin()
    plain.learn([(key, value)])
    assert (plain.written_key(key), plain.written_value(value)) == (key, value)
    assert (plain.read_key(key), plain.read_value(value)) == (key, value)


def test_table_yaml_names_the_format_and_another_one_is_another_table() -> None:
    other = replace(EVERY_KIND, format=CONNECT_JSON)
    assert isinstance(live_format(other, NoSchemas()), ConnectJsonFormat)
    assert other.fingerprint != EVERY_KIND.fingerprint


def test_keys_of_another_format_are_other_keys() -> None:
    plain, enveloped = (live_format(replace(EVERY_KIND, format=name), NoSchemas()) for name in (JSON, CONNECT_JSON))
    key = b'{"qi_group":"0-17","slot":3}'
    for writer, other in ((plain, enveloped), (enveloped, plain)):
        assert is_written(writer.written_key(key), writer)
        assert not is_written(writer.written_key(key), other)
