"""Which format a table has, and that plain JSON is left alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.events.registered_schemas import NoSchemas
from streamer.incremental.formats.as_connect_json import ConnectJsonFormat
from streamer.incremental.formats.live_format import is_written, live_format
from streamer.table.schema import CONNECT_JSON, JSON
from worlds.published_groups import SONG
from worlds.published_records import EVERY_KIND


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
