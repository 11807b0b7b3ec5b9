"""Each setting of a sink that loses, misreads or shows too much is found, and a sound configuration has none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.incremental.connectors.avro_converters import APICURIO, AVRO_CONVERTERS
from streamer.incremental.connectors.connector_config import ConnectorConfig, Finding
from streamer.incremental.connectors.database import MYSQL, POSTGRES
from streamer.incremental.connectors.jdbc_sink import sink_config
from streamer.incremental.connectors.sink_findings import is_sink_of, not_checked, sink_findings
from streamer.table.connect_schemas import value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, LOSSY_JOIN, Table
from worlds.published_forms import TABLE, published_as

SOUND = sink_config(TABLE)
CONTENT = "value.converter.schema.content"


def findings(version: str | None = None, table: Table = TABLE, /, **changed: str | None) -> dict[str, Finding]:
    """Findings by setting, of the sound configuration with some settings changed; None: left out. `__` is a dot."""
    settings: dict[str, str] = dict(SOUND)
    for name, value in changed.items():
        settings.pop(name.replace("__", "."), None)
        if value is not None:
            settings[name.replace("__", ".")] = value
    return {found.setting: found for found in sink_findings(table, ConnectorConfig(settings), version)}


@pytest.mark.parametrize("system", [POSTGRES, MYSQL])
@pytest.mark.parametrize("form", ["rows", GROUPS])
def test_what_streamer_connect_prints_has_no_finding(system: str, form: str) -> None:
    table = published_as(form)
    assert sink_findings(table, ConnectorConfig(sink_config(table, system)), "4.2.1") == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("consumer.override.isolation.level", None),
        ("consumer.override.isolation.level", "read_uncommitted"),
        ("delete.enabled", None),
        ("insert.mode", "insert"),
        ("primary.key.mode", "kafka"),
        ("primary.key.fields", "qi_group"),
        ("field.include.list", "people.live:problem"),
        ("errors.tolerance", "all"),
        ("key.converter", None),
        ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("value.converter.schemas.enable", "false"),
        (CONTENT, None),
        (CONTENT, "{"),
        ("topics", "other.live"),
        ("topics", "people.live,beds.live"),
    ],
)
def test_settings_that_lose_misread_or_double(setting: str, value: str | None) -> None:
    found = findings(**{setting.replace(".", "__"): value})
    assert list(found) == [setting]
    assert found[setting].consequence and found[setting].mend


def test_a_schema_of_another_table_yaml_names_the_columns_that_differ() -> None:
    schema = value_schema(TABLE)
    schema["fields"] = [field for field in schema["fields"] if field["field"] != "city"]
    schema["fields"][0]["type"] = "int32"
    schema["fields"].append({"field": "extra", "type": "string"})
    found = findings(**{CONTENT.replace(".", "__"): json.dumps(schema)})
    assert found[CONTENT].found == "qi_group, city, extra"


@pytest.mark.parametrize("content", ["[]", "7", '{"fields": 7}', '{"fields": [7]}', '{"type": "string"}'])
def test_a_schema_that_is_none_is_found_and_not_quoted(content: str) -> None:
    assert findings(**{CONTENT.replace(".", "__"): content})[CONTENT].found == "unreadable"


def test_a_worker_that_is_older_than_schemas_in_settings() -> None:
    assert list(findings("4.1.0")) == ["the worker's version"]
    assert findings("4.2.0") == findings("5.0.0") == findings(None) == {}


def test_transforms_that_change_records() -> None:
    more = {"transforms": "m", "transforms__m__type": "org.apache.kafka.connect.transforms.MaskField$Value"}
    assert list(findings(**more)) == ["transforms.m.type"]


def test_a_lossy_join_cannot_be_sunk_whatever_the_settings() -> None:
    table = published_as(LOSSY_JOIN)
    found = findings(None, table, topics="people.qit,people.stt")
    assert "two moments" in found["topics"].consequence


def test_confluent_s_and_aiven_s_sinks_have_other_names_for_the_same() -> None:
    for owner in ("confluent", "aiven"):
        settings = {
            **{name: value for name, value in SOUND.items() if not name.startswith("primary.key")},
            "connector.class": f"io.{owner}.connect.jdbc.JdbcSinkConnector",
            "pk.mode": "record_key",
        }
        assert sink_findings(TABLE, ConnectorConfig(settings)) == []
        (found,) = sink_findings(TABLE, ConnectorConfig(settings | {"pk.mode": "none"}))
        assert found.setting == "pk.mode"


def test_any_other_sink_is_looked_at_in_general_and_that_is_said() -> None:
    config = ConnectorConfig({"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "people.live"})
    assert [found.setting for found in sink_findings(TABLE, config)] == ["consumer.override.isolation.level"]
    assert "no JDBC sink" in not_checked(config)[0]


def test_a_sink_is_a_table_s_where_it_reads_what_is_published() -> None:
    assert is_sink_of(TABLE, ConnectorConfig({"topics": "a, people.live"}))
    assert not is_sink_of(TABLE, ConnectorConfig({"topics": "people.changes"}))


@pytest.mark.parametrize(
    ("format_", "changed", "setting"),
    [
        (CONNECT_JSON, {}, None),
        (CONNECT_JSON, {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}, "value.converter"),
        (CONNECT_JSON, {"key.converter.schemas.enable": "false"}, "key.converter.schemas.enable"),
        (CONNECT_JSON, {CONTENT: SOUND[CONTENT]}, CONTENT),
        (AVRO, {}, None),
        (AVRO, {"key.converter": "org.apache.kafka.connect.json.JsonConverter"}, "key.converter"),
    ],
)
def test_a_sink_reads_the_format_of_the_table_on_any_connect(
    format_: str, changed: dict[str, str], setting: str | None
) -> None:
    table = replace(TABLE, format=format_)
    found = sink_findings(table, ConnectorConfig({**sink_config(table), **changed}), "3.9.0")
    assert [one.setting for one in found] == ([setting] if setting else [])


def test_apicurio_s_converter_looks_for_ids_where_they_are_only_where_it_is_told() -> None:
    table = replace(TABLE, format=AVRO)
    sound = sink_config(table, converter=APICURIO)
    assert sink_findings(table, ConnectorConfig(sound)) == []
    bare = ConnectorConfig(sink_config(table) | {"key.converter": AVRO_CONVERTERS[APICURIO]})
    prefix = "key.converter.apicurio.registry."
    assert [found.setting for found in sink_findings(table, bare)] == [
        f"{prefix}{name}" for name in ("as-confluent", "use-id", "headers.enabled")
    ]
