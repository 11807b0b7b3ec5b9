"""What in a sink connector's configuration would lose, misread or show too much of what is published.

Looked at are the JDBC sinks of Debezium, Confluent and Aiven; of any other sink only what every connector has, and the
report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from streamer.incremental.connectors.avro_converters import (
    APICURIO,
    AVRO_CONVERTERS,
    CONFLUENT,
    IDS_AS_CONFLUENT,
)
from streamer.incremental.connectors.connector_config import JSON_CONVERTER, ConnectorConfig, Finding
from streamer.incremental.connectors.transform_findings import ALTERING, unknown_transforms
from streamer.incremental.topics import outputs_of, topic_name
from streamer.table.connect_schemas import CONNECT_VERSION, key_schema, value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, LOSSY_JOIN, Table

PRINTED = "`streamer connect sink` prints it"


@dataclass(frozen=True)
class JdbcSink:
    """What one JDBC sink calls the settings that matter here."""

    key_mode: str
    key_fields: str
    fields: tuple[str, ...]


DEBEZIUM_SINK = JdbcSink("primary.key.mode", "primary.key.fields", ("field.include.list", "field.exclude.list"))
CONFLUENT_SINK = JdbcSink("pk.mode", "pk.fields", ("fields.whitelist",))

JDBC_SINKS = {
    "io.debezium.connector.jdbc.JdbcSinkConnector": DEBEZIUM_SINK,
    "io.confluent.connect.jdbc.JdbcSinkConnector": CONFLUENT_SINK,
    "io.aiven.connect.jdbc.JdbcSinkConnector": CONFLUENT_SINK,
}


def is_sink_of(table: Table, config: ConnectorConfig) -> bool:
    """Whether a connector reads what a table publishes."""
    outputs = {topic_name(table.name, kind) for kind in outputs_of(table.form)}
    return bool(outputs.intersection(config.listed("topics")))


def sink_findings(table: Table, config: ConnectorConfig, connect_version: str | None = None) -> list[Finding]:
    """All settings by which something of what is published would be lost, misread or shown too early.

    connect_version: the worker's, as it says it; None: not known.
    """
    found = [*_topics(table, config), *_isolation(config), *_tolerance(config), *_transforms(config)]
    if table.form == LOSSY_JOIN:
        consequence = "what a join of the two topics shows record by record may be of two moments"
        found.append(Finding("topics", config.shown("topics"), consequence, "give others a copy (`subscribe --csv`)"))
        return found
    sink = JDBC_SINKS.get(config.connector_class)
    if sink is not None:
        found += [*_fold(sink, config), *_schemas(table, config, connect_version)]
    return found


def not_checked(config: ConnectorConfig) -> list[str]:
    """What a configuration does not tell."""
    left = ["whether readers see the sink's table by the view alone (`streamer connect view`)"]
    if config.connector_class not in JDBC_SINKS:
        left = ["this sink is no JDBC sink that is known here: whether it upserts and deletes by the message key"]
    return [*left, *unknown_transforms(config)]


def _topics(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    wanted = ",".join(topic_name(table.name, kind) for kind in outputs_of(table.form))
    if not is_sink_of(table, config):
        yield Finding("topics", config.shown("topics"), "nothing of this table is read", f"set it to {wanted}")
    elif len(config.listed("topics")) > 1 and config.connector_class in JDBC_SINKS:
        consequence = "one schema is read into every topic's records"
        yield Finding("topics", config.shown("topics"), consequence, f"set it to {wanted}, and others' to another sink")


def _isolation(config: ConnectorConfig) -> Iterator[Finding]:
    setting = "consumer.override.isolation.level"
    if config.get(setting) != "read_committed":
        consequence = "records that were never committed are read, and stay in the sink"
        yield Finding(setting, config.shown(setting), consequence, "set it to read_committed")


def _tolerance(config: ConnectorConfig) -> Iterator[Finding]:
    if config.get("errors.tolerance") == "all":
        consequence = "records that the converter or the sink cannot take are dropped in silence"
        yield Finding("errors.tolerance", "all", consequence, "set it to none")


def _transforms(config: ConnectorConfig) -> Iterator[Finding]:
    for transform in config.transforms():
        if (what := ALTERING.get(transform.simple_type)) is not None:
            yield Finding(transform.setting("type"), transform.simple_type, what, "take it out of `transforms`")


def _fold(sink: JdbcSink, config: ConnectorConfig) -> Iterator[Finding]:
    wanted = {
        "insert.mode": ("upsert", "rows are doubled, or refused as they come again"),
        "delete.enabled": ("true", "rows that are gone stay in the sink, and QI groups seem larger than they are"),
        sink.key_mode: ("record_key", "rows are told apart by something else than QI group and slot"),
    }
    for setting, (value, consequence) in wanted.items():
        if config.get(setting).lower() != value:
            yield Finding(setting, config.shown(setting), consequence, f"set it to {value}")
    for setting in (sink.key_fields, *sink.fields):
        if config.get(setting):
            consequence = "columns are left out, by which rows are told apart or QI groups counted"
            yield Finding(setting, config.shown(setting), consequence, "remove it")


def _schemas(table: Table, config: ConnectorConfig, connect_version: str | None) -> Iterator[Finding]:
    """What is wrong with how keys and values are read."""
    if table.format == AVRO:
        yield from _of_registry(config)
    elif table.format == CONNECT_JSON:
        yield from _in_records(config)
    else:
        yield from _in_settings(table, config, connect_version)


def _of_registry(config: ConnectorConfig) -> Iterator[Finding]:
    for converter in ("key.converter", "value.converter"):
        if not config.get(converter).endswith("AvroConverter"):
            consequence = "records are Avro, and are not read"
            mend = f"set it to {AVRO_CONVERTERS[CONFLUENT]}"
            yield Finding(converter, config.shown(converter), consequence, mend)
        for name, wanted in IDS_AS_CONFLUENT.items() if config.get(converter) == AVRO_CONVERTERS[APICURIO] else ():
            setting = f"{converter}.{name}"
            if config.get(setting) != wanted:
                consequence = "the schema's id is looked for where it is not, and no record is read"
                yield Finding(setting, config.shown(setting), consequence, f"set it to {wanted}")


def _in_records(config: ConnectorConfig) -> Iterator[Finding]:
    for converter in ("key.converter", "value.converter"):
        enable, content = f"{converter}.schemas.enable", f"{converter}.schema.content"
        if config.get(converter) != JSON_CONVERTER:
            consequence = "records are JSON with their schema, and are not read"
            yield Finding(converter, config.shown(converter), consequence, f"set it to {JSON_CONVERTER}")
        elif not config.is_on(enable, default=True):
            yield Finding(enable, "false", "without a schema the sink refuses every record", "set it to true")
        elif config.get(content):
            consequence = "every record has its schema in it, and is taken for a payload"
            yield Finding(content, "set", consequence, "remove it")


def _in_settings(table: Table, config: ConnectorConfig, connect_version: str | None) -> Iterator[Finding]:
    for side, wanted in (("key", key_schema(table)), ("value", value_schema(table))):
        converter, content = f"{side}.converter", f"{side}.converter.schema.content"
        if config.get(converter) != JSON_CONVERTER:
            consequence = "records are JSON, and are not read"
            yield Finding(converter, config.shown(converter), consequence, f"set it to {JSON_CONVERTER}")
        elif not config.is_on(f"{side}.converter.schemas.enable", default=True):
            consequence = "without a schema the sink refuses every record"
            yield Finding(f"{side}.converter.schemas.enable", "false", consequence, "set it to true")
        elif not config.get(content):
            consequence = "records have no schema in them, and the sink refuses every one"
            yield Finding(content, config.shown(content), consequence, f"set it: {PRINTED}")
        else:
            yield from _content(content, config, wanted)
    if connect_version is not None and _is_older(connect_version) and config.get("value.converter.schema.content"):
        consequence = "its converter does not know schema.content, and the sink refuses every record"
        mend = f"run Connect {'.'.join(map(str, CONNECT_VERSION))} or newer"
        yield Finding("the worker's version", connect_version, consequence, mend)


def _content(setting: str, config: ConnectorConfig, wanted: dict[str, object]) -> Iterator[Finding]:
    try:
        found, expected = _types(msgspec.json.decode(config.get(setting))), _types(wanted)
    except (msgspec.DecodeError, TypeError, KeyError, AttributeError):
        yield Finding(setting, "unreadable", "the connector does not start", f"set it again: {PRINTED}")
        return
    if differing := [name for name in {**expected, **found} if found.get(name) != expected.get(name)]:
        consequence = "these columns are missing, of another type, or not published: they come wrong or as nothing"
        yield Finding(setting, ", ".join(differing), consequence, f"set it again: {PRINTED}")


def _types(schema: dict[str, object]) -> dict[str, tuple[object, ...]]:
    """By column: type, logical type and its parameters."""
    fields = schema["fields"]
    if not isinstance(fields, list):
        raise TypeError("fields is not a list")
    return {field["field"]: (field["type"], field.get("name"), field.get("parameters")) for field in fields}


def _is_older(version: str) -> bool:
    """Whether a version is older than what a schema in a setting needs; one that is no number is not.

    >>> _is_older("4.1.0"), _is_older("4.2.1"), _is_older("8.2.0-ccs"), _is_older("unknown")
    (True, False, False, False)
    """
    numbers = [part for part in version.split(".")[:2] if part.isdigit()]
    return len(numbers) == 2 and tuple(map(int, numbers)) < CONNECT_VERSION
