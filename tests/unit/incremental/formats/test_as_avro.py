"""Records in Avro: golden bytes, what an independent reader finds, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, LawViolated
from streamer.incremental.events.registered_schemas import Known, NoSchemas, schema_from
from streamer.incremental.formats.live_format import AvroFormat, is_written
from streamer.table.codes import KeptColumn
from streamer.table.published.schemas import bytes_more
from streamer.table.schema import AVRO, GROUPS, ROWS
from worlds.avro_messages import message
from worlds.published_forms import EVERY_KIND, published_records
from worlds.published_groups import SONG

GOLDEN = replace(SONG, format=AVRO, kept=(KeptColumn("problem", sensitive=True, type="text"),))
KEY = b'{"qi_group":"0-17","slot":3}'
ROW = b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"problem":"flu"}'


class Registry:
    """A registry in memory: what was registered is known when it was asked for."""

    def __init__(self) -> None:
        self.known: Known | None = {}
        self.schemas: list[str] = []
        self.subjects: dict[str, int] = {}

    def register(self, subject: str, schema: str) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.subjects[subject] = self.schemas.index(schema) + 1
        return self.subjects[subject]

    def learn(self, ids: Iterable[int]) -> None:
        self.known = {**(self.known or {}), **{n: schema_from(n, AVRO.upper(), self.schemas[n - 1]) for n in ids}}


def begun(table: Any, registry: Registry) -> AvroFormat:
    format_ = AvroFormat(table, registry)
    format_.begin()
    return format_


def test_the_golden_row_is_exactly_these_bytes_under_the_topics_subjects() -> None:
    format_ = begun(GOLDEN, registry := Registry())
    assert registry.subjects == {"patients.live-key": 1, "patients.live-value": 2}
    assert format_.written_key(KEY) == b"\0\0\0\0\1" + b"\x080-17" + b"\x06"
    numbers = b"\x2a" + b"\x32" + b"\xf0\xab\x01" + b"\xc0\xb8\x02"
    assert format_.written_value(ROW) == b"\0\0\0\0\2" + b"\x080-17" + numbers + b"\x02\x06flu"


def test_the_golden_schemas_are_exactly_these() -> None:
    begun(GOLDEN, registry := Registry())
    ends = [{"name": name, "type": "long"} for name in ("age_lo", "age_hi", "zip_lo", "zip_hi")]
    group = {"name": "qi_group", "type": "string"}
    problem = {"name": "problem", "type": ["null", "string"], "default": None}
    record = {"type": "record", "namespace": "streamer_patients"}
    assert [json.loads(schema) for schema in registry.schemas] == [
        {**record, "name": "Key", "fields": [group, {"name": "slot", "type": "long"}]},
        {**record, "name": "Value", "fields": [group, *ends, problem]},
    ]


@pytest.mark.parametrize("form", [ROWS, GROUPS])
@given(data=st.data())
def test_what_is_read_is_what_was_written_and_another_reader_finds_the_same(form: str, data: st.DataObject) -> None:
    table, records = data.draw(published_records(form, AVRO))
    format_ = begun(table, registry := Registry())
    for record in records:
        key = format_.written_key(record.key)
        value = None if record.value is None else format_.written_value(record.value)
        format_.learn([(key, value)])
        assert format_.read_key(key) == record.key
        assert as_another_reads(key, registry) == json.loads(record.key)
        if value is not None and record.value is not None:
            assert format_.read_value(value) == record.value
            assert as_another_reads(value, registry) == json.loads(record.value, parse_float=Decimal)
            for_record, for_values = bytes_more(table)
            most = for_record + 4 * for_values
            assert len(key) + len(value) <= len(record.key) + len(record.value) + most


def as_another_reads(data: bytes, registry: Registry) -> Any:
    """What fastavro makes of a record by the schema under its id, logical types and all; a double by its text."""
    schema = json.loads(registry.schemas[int.from_bytes(data[1:5], "big") - 1])
    return exact(fastavro.schemaless_reader(BytesIO(data[5:]), schema, None))


def exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: exact(one) for name, one in value.items()}
    if isinstance(value, list):
        return [exact(one) for one in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def test_a_record_with_the_schema_of_an_older_table_is_read_by_its_own() -> None:
    registry = Registry()
    written = begun(GOLDEN, registry).written_value(ROW)
    other = begun(replace(EVERY_KIND, format=AVRO), registry)
    other.learn([(None, written)])
    assert other.read_value(written) == ROW


def test_what_cannot_be_read_is_an_error_without_its_text() -> None:
    format_ = begun(GOLDEN, registry := Registry())
    registry.schemas.append('{"type":"record","name":"R","fields":[{"name":"x","type":"bytes"}]}')
    others = message(3, json.loads(registry.schemas[2]), {"x": b"Canary"})
    format_.learn([(others, None), (format_.written_key(KEY), None)])
    for data, why in (
        (KEY, "does not begin with a schema's id"),
        (b"\0\0\0\0\x09Canary", "schema 9 is not known to the registry"),
        (format_.written_key(KEY) + b"Canary", "does not fit schema 1"),
        (others, "a schema that streamer does not write"),
    ):
        with pytest.raises(LawViolated, match=why) as told:
            format_.read_key(data)
        assert "Canary" not in str(told.value)


def test_without_a_registry_there_is_no_avro() -> None:
    with pytest.raises(ConfigError, match="set SCHEMA_REGISTRY_URL"):
        AvroFormat(GOLDEN, NoSchemas())


def test_a_key_under_another_id_is_another_key() -> None:
    first, later = begun(GOLDEN, registry := Registry()), AvroFormat(GOLDEN, registry)
    registry.schemas = [*reversed(registry.schemas)]
    later.begin()
    assert is_written(later.written_key(KEY), later)
    assert not is_written(first.written_key(KEY), later)
