"""What in a source connector's configuration would lose or misread something of a table.

The rules of this file
----------------------
* Looked at is Debezium for relational databases: defaults are those of release 3.3. Of any other source only what every
  connector has, and the report says so.
* A finding is a setting that loses or misreads rows, not one that is unusual. What cannot be told from a configuration
  (which primary key a table has, what a worker's own settings are) is listed as not checked, with what it has to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamer.incremental.connectors.binlog_source import BINLOGS, UNTOLD
from streamer.incremental.connectors.connector_config import (
    JSON_CONVERTER,
    ConnectorConfig,
    Finding,
    names_matched,
)
from streamer.incremental.connectors.debezium_source import named_columns
from streamer.incremental.connectors.routes import relations_of, topic_of
from streamer.incremental.connectors.transform_findings import transform_findings, unknown_transforms
from streamer.incremental.topics import CHANGES, REQUIRED_CONFIGS, topic_name
from streamer.table.attributes import NumericAttribute
from streamer.table.published_types import CLOCKS, temporal_columns
from streamer.table.schema import Table

DEBEZIUM = re.compile(r"io\.debezium\.connector\.(postgresql|mysql|mariadb|sqlserver|oracle|db2|informix|vitess)\.\w+")

PLACEHOLDER = "__debezium_unavailable_value"
TRUNCATE, NO_ROWS, NO_CHANGES = "t", ("no_data", "never", "schema_only"), ("initial_only",)


def is_debezium(config: ConnectorConfig) -> bool:
    """Whether a connector is one of Debezium's sources that this file knows."""
    return DEBEZIUM.fullmatch(config.connector_class) is not None


def source_findings(table: Table, config: ConnectorConfig) -> list[Finding]:
    """All settings by which rows of a table would be lost or misread."""
    general = [*_converters(config), *_partitioner(table, config), *_skipped_errors(config)]
    if not is_debezium(config):
        return [*general, *transform_findings(table, config)]
    return [
        *_destination(table, config),
        *general,
        *_key_columns(table, config),
        *_operations(config),
        *_snapshot(table, config),
        *_numbers(table, config),
        *_columns(table, config),
        *_made_topics(table, config),
        *transform_findings(table, config),
    ]


def not_checked(table: Table, config: ConnectorConfig) -> list[str]:
    """What a configuration does not tell, and what it has to be."""
    if not is_debezium(config):
        said = "this connector is none of Debezium's for relational databases: all but what every connector has"
        return [said, *unknown_transforms(config)]
    left = [f"keys of messages that are in {topic_name(table.name, CHANGES)} already must have the same form"]
    if not config.get("message.key.columns"):
        key = ", ".join(table.source_key)
        left.append(f"message.key.columns is not set: the table's primary key must be exactly {key}")
    if relations_of(config) is None:
        left.append(
            "table.include.list is missing, or matches several tables: which topic each comes to, which columns"
        )
    if config.connector_class in BINLOGS.values():
        left += UNTOLD
    return [*left, *unknown_transforms(config)]


def is_source_of(table: Table, config: ConnectorConfig) -> bool:
    """Whether a connector seems to be meant for a table: its name stands in what is captured, or in where rows go."""
    replacements = [text for transform in config.transforms() for text in transform.settings.values()]
    places = [config.get("topic.prefix"), *config.listed("table.include.list"), *replacements]
    return any(re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", place) for place in places)


def _converters(config: ConnectorConfig) -> Iterator[Finding]:
    for side in ("key", "value"):
        setting = f"{side}.converter"
        if config.get(setting) != JSON_CONVERTER:
            unset = "the worker's own counts, which can change under the connector" if not config.get(setting) else ""
            consequence = unset or "messages come in a form that is not read"
            yield Finding(setting, config.shown(setting), consequence, f"set it to {JSON_CONVERTER}")
    setting = "value.converter.replace.null.with.default"
    if config.get("value.converter") == JSON_CONVERTER and config.is_on(setting, default=True):
        consequence = "a null in a column that has a DEFAULT comes as the default: another value is published"
        yield Finding(setting, config.shown(setting), consequence, "set it to false")


def _partitioner(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    setting = "producer.override.partitioner.class"
    if config.get(setting) and not table.partitioner_stated:
        consequence = "a row's messages may come to several shards, and are then refused (wrong-partition)"
        yield Finding(setting, config.shown(setting), consequence, "remove it: Kafka's default is murmur2 of the key")


def _skipped_errors(config: ConnectorConfig) -> Iterator[Finding]:
    if config.get("errors.tolerance") == "all":
        consequence = "rows that a converter or transform cannot take are dropped in silence"
        yield Finding("errors.tolerance", "all", consequence, "set it to none")
    setting = "event.processing.failure.handling.mode"
    if config.get(setting) in ("warn", "skip", "ignore"):
        consequence = "changes that the connector cannot read are passed over"
        yield Finding(setting, config.shown(setting), consequence, "set it to fail")


def _destination(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    changes, relations = topic_name(table.name, CHANGES), relations_of(config)
    topics = [topic_of(config, relation) for relation in relations or ()]
    if relations is None or None in topics:
        return
    mend = f"add org.apache.kafka.connect.transforms.RegexRouter to {changes} (`streamer connect source` prints it)"
    if changes not in topics:
        yield Finding("transforms", f"rows come to {', '.join(map(str, topics))}", f"nothing comes to {changes}", mend)
    if topics.count(changes) > 1:
        consequence = "rows of several tables come to one, and those with equal keys replace each other"
        yield Finding("table.include.list", config.shown("table.include.list"), consequence, "capture one table")


def _key_columns(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    setting, wanted = "message.key.columns", list(table.source_key)
    rules = [rule.strip().partition(":") for rule in config.get(setting).split(";") if rule.strip()]
    for relation in relations_of(config) or ():
        if topic_of(config, relation) != topic_name(table.name, CHANGES):
            continue
        for pattern, _, columns in rules:
            named = [column.strip() for column in columns.split(",")]
            if names_matched([pattern], [relation]) and sorted(named) != sorted(wanted):
                consequence = "message keys name other columns than table.yaml's key, and every row is refused"
                mend = f"set it to {pattern}:{','.join(wanted)}"
                yield Finding(setting, f"{pattern}:{columns}", consequence, mend)


def _operations(config: ConnectorConfig) -> Iterator[Finding]:
    setting = "skipped.operations"
    skipped = {one.lower() for one in config.listed(setting)} or {TRUNCATE}
    lost = {"c": "every insertion", "u": "every update", "d": "every deletion", TRUNCATE: "TRUNCATE"}
    named = [what for letter, what in lost.items() if letter in skipped]
    if named:
        consequence = (
            f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} left out: what is gone stays published"
        )
        yield Finding(setting, config.get(setting) or "not set: t", consequence, "set it to none")
    setting = "unavailable.value.placeholder"
    if config.get(setting, PLACEHOLDER) != PLACEHOLDER:
        consequence = "a value that was not sent is taken for this text"
        yield Finding(setting, "another text", consequence, "remove it")


def _snapshot(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    mode = config.get("snapshot.mode", "initial")
    mend = "set it to initial"
    if mode in NO_ROWS:
        consequence = "rows that are in the table before the connector never come"
        yield Finding("snapshot.mode", mode, consequence, f"{mend}, or signal an incremental snapshot")
    if mode in NO_CHANGES:
        yield Finding("snapshot.mode", mode, "the connector stops after the snapshot: changes never come", mend)
    setting = "snapshot.select.statement.overrides"
    if names_matched(config.listed(setting), relations_of(config) or []):
        consequence = "the snapshot reads what the statement selects, changes come of all rows"
        yield Finding(setting, "names the table", consequence, "remove it")


def _numbers(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    """Exact decimals are bytes, and dates numbers, that only a schema tells from texts and other numbers."""
    decimals = [a.name for a in table.attributes if isinstance(a, NumericAttribute) and not a.integer]
    decimals += [column.name for column in table.kept if column.type == "decimal"]
    with_schema = config.is_on("value.converter.schemas.enable", default=True)
    is_numeric = config.get("value.converter.decimal.format").upper() == "NUMERIC"
    setting = "decimal.handling.mode"
    if config.get(setting, "precise") == "precise" and decimals and not with_schema and not is_numeric:
        consequence = f"{', '.join(decimals)}: without a schema they come as base64, which may look like a number"
        yield Finding(setting, config.shown(setting), consequence, "set it to string")
    elif config.get(setting) == "string" and decimals and not (with_schema or is_numeric or table.decimals_are_text):
        consequence = f"{', '.join(decimals)}: digits that could be bytes, too, are refused without a schema"
        mend = "set it to true, or say `input: {decimals: text}` in table.yaml"
        yield Finding("value.converter.schemas.enable", "false", consequence, mend)
    setting, times = "time.precision.mode", temporal_columns(table)
    if times and not with_schema and config.get(setting) != "isostring":
        consequence = f"{', '.join(times)}: without a schema they come as bare numbers, of days or of parts of a second"
        yield Finding(setting, config.shown(setting), consequence, "set value.converter.schemas.enable to true")
    elif not with_schema and (clocks := temporal_columns(table, CLOCKS)):
        consequence = f"{', '.join(clocks)}: without a schema an instant and a clock on the wall both come with a Z"
        yield Finding(setting, config.shown(setting), consequence, "set value.converter.schemas.enable to true")


def _columns(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    """Columns of table.yaml that do not come, or not as they are."""
    for relation in relations_of(config) or ():
        if topic_of(config, relation) != topic_name(table.name, CHANGES):
            continue
        full = {f"{relation}.{column}": column for column in named_columns(table)}
        included = config.listed("column.include.list")
        missing = set(full) - names_matched(included, list(full)) if included else set()
        yield from _altered("column.include.list", full, missing, "do not come", "add them")
        excluded = names_matched(config.listed("column.exclude.list"), list(full))
        yield from _altered("column.exclude.list", full, excluded, "do not come", "take them out")
        for setting in sorted(config.settings):
            if re.match(r"column\.(mask\.|truncate\.)", setting):
                changed = names_matched(config.listed(setting), list(full))
                told = setting if "salt" not in setting else "column.mask.hash...with.salt"
                yield from _altered(told, full, changed, "come as something else than they are", "take them out")


def _altered(setting: str, full: dict[str, str], names: set[str], consequence: str, mend: str) -> Iterator[Finding]:
    columns = ", ".join(column for name, column in full.items() if name in names)
    if columns:
        yield Finding(setting, columns, f"columns that table.yaml names {consequence}", mend)


def _made_topics(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    """Settings by which Connect would make an input that loses messages, were it there first."""
    changes = topic_name(table.name, CHANGES)
    names = (group for group in config.listed("topic.creation.groups") if _takes(config, group, changes))
    prefix = f"topic.creation.{next(names, 'default')}."
    for name, wanted in REQUIRED_CONFIGS[CHANGES].items():
        found = config.get(prefix + name)
        if found and found != wanted:
            consequence = f"where Connect makes {changes}, it drops messages"
            yield Finding(prefix + name, found, consequence, f"set it to {wanted}")


def _takes(config: ConnectorConfig, group: str, topic: str) -> bool:
    prefix = f"topic.creation.{group}."
    included = names_matched(config.listed(f"{prefix}include"), [topic])
    return bool(included - names_matched(config.listed(f"{prefix}exclude"), [topic]))
