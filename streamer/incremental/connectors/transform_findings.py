"""What a connector's single message transforms would lose or misread of a table.

Judged are those of Kafka and Debezium that people use; an unknown one is said to be unknown. A transform with a
predicate is judged as if it applied: whether it does is for the messages to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamer.incremental.connectors.connector_config import ConnectorConfig, Finding, Transform
from streamer.table.schema import Table

HARMLESS = {
    "DropHeaders", "HeaderFrom", "HeaderToValue", "InsertHeader", "SetSchemaMetadata", "RegexRouter",
}  # fmt: skip

ALTERING = {
    "Cast": "values come as another type",
    "ContentBasedRouter": "rows come to a topic by what they hold",
    "ExtractField": "all but one field of key or value is dropped",
    "Filter": "messages are dropped",
    "Flatten": "before and after are no objects any more",
    "HoistField": "key or value comes within another object",
    "InsertField": "fields come beside those of the envelope",
    "MaskField": "values are replaced",
    "PartitionRouting": "a row's messages may come to several shards",
    "ReplaceField": "fields are dropped or renamed",
    "TimestampConverter": "times come in another form",
    "TimestampRouter": "the topic's name changes with the time",
    "ValueToKey": "the message key is made of the value, and a deletion has none",
}
"""Transforms that change what a message says, and what comes of it."""

FLATTEN, BY_TABLE = "ExtractNewRecordState", "ByLogicalTableRouter"


def transform_findings(table: Table, config: ConnectorConfig) -> list[Finding]:
    """All transforms by which rows of a table would be lost or misread."""
    return [found for transform in config.transforms() for found in _judged(table, transform)]


def unknown_transforms(config: ConnectorConfig) -> list[str]:
    """What is not judged here, as one sentence each."""
    known = {*HARMLESS, *ALTERING, FLATTEN, BY_TABLE}
    return [
        f"{transform.setting('type')}: what {transform.simple_type or 'it'} does to messages"
        for transform in config.transforms()
        if transform.simple_type not in known
    ]


def _judged(table: Table, transform: Transform) -> Iterator[Finding]:
    kind = transform.simple_type
    if kind in ALTERING:
        yield Finding(transform.setting("type"), kind, ALTERING[kind], "take it out of `transforms`")
    if kind == FLATTEN:
        yield from _flattened(table, transform)
    if kind == BY_TABLE and transform.settings.get("key.enforce.uniqueness", "true").lower() == "true":
        setting = transform.setting("key.enforce.uniqueness")
        consequence = "a field more comes into every message key, and every row is refused"
        yield Finding(setting, "true", consequence, "set it to false")


def _flattened(table: Table, transform: Transform) -> Iterator[Finding]:
    setting = transform.setting("type")
    consequence = "TRUNCATE is dropped, always: its rows stay published"
    yield Finding(setting, FLATTEN, consequence, "take it out of `transforms`: envelopes are read as they come")
    setting = transform.setting("delete.tombstone.handling.mode")
    mode = transform.settings.get("delete.tombstone.handling.mode", "tombstone")
    if mode == "drop" or transform.settings.get("delete.handling.mode") == "drop":
        yield Finding(setting, "drop", "deletions never come", "set it to rewrite")
    elif "rewrite" not in mode and not _says_op(transform) and not table.input_rows:
        consequence = "a row does not say that it is one (neither __deleted nor __op), and is refused"
        mend = "set it to rewrite and add.fields to op,source.snapshot, or say `input: {form: rows}` in table.yaml"
        yield Finding(setting, mode, consequence, mend)
    if transform.settings.get("replace.null.with.default", "true").lower() == "true":
        setting = transform.setting("replace.null.with.default")
        consequence = "a null in a column that has a DEFAULT comes as the default: another value is published"
        yield Finding(setting, "true", consequence, "set it to false")


def _says_op(transform: Transform) -> bool:
    """Whether every row has `__op`, or, by the setting of older releases, `__deleted`."""
    added = [field.strip() for field in transform.settings.get("add.fields", "").split(",")]
    says_op = "op" in added and transform.settings.get("add.fields.prefix", "__") == "__"
    return says_op or transform.settings.get("delete.handling.mode") == "rewrite"
