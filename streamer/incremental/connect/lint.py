"""Settings of a connector that lose, misread or double rows: one table of rules, and what applies it.

Looked at are Debezium's sources of relational databases (defaults of release 3.3) and the JDBC sinks of Debezium,
Confluent and Aiven. Of any other connector, only the settings that every connector has are looked at. An unusual
setting is no finding. Findings show values of the options in the table only, and none of these holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from streamer.errors import UsageError
from streamer.incremental.connect.connectors import BINLOGS, JSON_CONVERTER, NOT_IN_BINLOG, named_columns
from streamer.incremental.topics import CHANGES, REQUIRED_CONFIGS, outputs_of, topic_name
from streamer.table.attributes import NumericAttribute
from streamer.table.published.schemas import CLOCKS, key_schema, temporal_columns, value_schema
from streamer.table.schema import LOSSY_JOIN, Table

SOURCE, SINK = "source", "sink"
ROUTERS = {"RegexRouter": ("regex", "replacement"), "ByLogicalTableRouter": ("topic.regex", "topic.replacement")}
"""Transforms that rename topics, and the options that say how."""

DEBEZIUM = re.compile(r"io\.debezium\.connector\.(postgresql|mysql|mariadb|sqlserver|oracle|db2|informix|vitess)\.\w+")
JDBC_SINK = re.compile(r"io\.(debezium\.connector|confluent\.connect|aiven\.connect)\.jdbc\.JdbcSinkConnector")

_ESCAPED = re.compile(r"\\(.)")
_META = re.compile(r"[\\^$*+?()\[\]{}|]")
_JAVA_GROUP = re.compile(r"\$(\d)|\$\{(\w+)\}")


class ConnectorConfig:
    """The settings of one connector."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        classes = {alias: self.get(f"transforms.{alias}.type") for alias in self.listed("transforms")}
        # simple class names by alias, in order; `ReplaceField$Value` is a ReplaceField
        self.transforms = {alias: name.rpartition(".")[2].partition("$")[0] for alias, name in classes.items()}
        self.settings |= {f"transforms.{alias}.type": kind for alias, kind in self.transforms.items()}
        self.connector_class = self.get("connector.class")
        # every sink says which topics it reads, and no source does
        self.kind = SINK if self.get("topics") or self.get("topics.regex") else SOURCE

    def get(self, option: str, default: str = "") -> str:
        """An option's value, without the spaces around it."""
        return self.settings.get(option, default).strip()

    def listed(self, option: str) -> list[str]:
        """The parts of a comma-separated option."""
        return [part.strip() for part in self.get(option).split(",") if part.strip()]

    def relations(self) -> list[str] | None:
        """The captured tables by their full names; None if the list is missing, or holds more than names."""
        listed = self.listed("table.include.list")
        names = [_ESCAPED.sub(r"\1", name) for name in listed if not _META.search(_ESCAPED.sub("", name))]
        return names if listed and len(names) == len(listed) else None

    def topic_of(self, relation: str) -> str | None:
        """The topic of a table's rows; None if it cannot be known."""
        topic = f"{self.get('topic.prefix')}.{relation}"
        for alias, kind in self.transforms.items():
            if kind in ROUTERS:
                pattern, replacement = (self.get(f"transforms.{alias}.{name}") for name in ROUTERS[kind])
                try:
                    found = re.fullmatch(pattern, topic)
                    topic = topic if found is None else found.expand(_JAVA_GROUP.sub(r"\\g<\1\2>", replacement))
                except (re.error, IndexError):
                    return None
        return topic


def config_of(value: object) -> tuple[str, ConnectorConfig]:
    """Name ("" if there is none) and settings of what Connect's REST interface gives or takes.

    Raises UsageError, which repeats nothing of the value.
    """
    if not isinstance(value, dict):
        raise UsageError("a connector's configuration is a JSON object of its settings, or has one under `config`")
    inner = value.get("config")
    settings = inner if isinstance(inner, dict) else value
    if not settings.get("connector.class"):
        raise UsageError("the configuration has no connector.class, so it is not a connector's")
    name = value.get("name") or settings.get("name") or ""
    texts = {
        option: text if isinstance(text, str) else msgspec.json.encode(text).decode()
        for option, text in settings.items()
        if text is not None
    }
    return str(name), ConnectorConfig(texts)


def names_matched(patterns: list[str], names: list[str]) -> set[str]:
    """The names that a regular expression matches whole, in any case; one that Python cannot read matches nothing.

    >>> names_matched([r"public\\.people", "("], ["public.people", "("])
    {'public.people'}
    """
    found = set()
    for pattern in patterns:
        try:
            found |= {name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)}
        except re.error:
            continue
    return found


class Case:
    """A connector held against a table. words: what rules may name; traits: what they may ask for."""

    def __init__(self, table: Table, config: ConnectorConfig) -> None:
        self.table, self.config = table, config
        changes, is_debezium = topic_name(table.name, CHANGES), DEBEZIUM.fullmatch(config.connector_class) is not None
        sink = JDBC_SINK.fullmatch(config.connector_class)
        captured = config.relations() or []
        self.relations = [relation for relation in captured if config.topic_of(relation) == changes]
        makers = (
            group
            for group in config.listed("topic.creation.groups")
            if names_matched(config.listed(f"topic.creation.{group}.include"), [changes])
        )
        decimals = [a.name for a in table.attributes if isinstance(a, NumericAttribute) and not a.integer]
        self.words = {
            "changes": changes,
            "group": next(makers, "default"),  # its settings make the input if it is missing
            "outputs": ",".join(topic_name(table.name, kind) for kind in outputs_of(table.form)),
            "key": ",".join(table.source_key),
            "key_mode": "primary.key.mode" if sink and sink[1].startswith("debezium") else "pk.mode",
            "decimals": ", ".join(decimals + [column.name for column in table.kept if column.type == "decimal"]),
            "times": ", ".join(temporal_columns(table)),
            "clocks": ", ".join(temporal_columns(table, CLOCKS)),
        }
        holds = {
            "jdbc": config.kind == SINK and sink is not None and table.form != LOSSY_JOIN,
            "debezium": config.kind == SOURCE and is_debezium,
            "binlog": config.connector_class in BINLOGS.values(),
            "unknown": not (is_debezium if config.kind == SOURCE else sink),
            "json": config.get("value.converter") == JSON_CONVERTER,
            "bare": config.get("value.converter.schemas.enable", "true").lower() != "true",
            "base64": config.get("value.converter.decimal.format").lower() != "numeric",
            "by-primary-key": not config.get("message.key.columns"),
            "any-table": not captured,
            **{word: bool(self.words[word]) for word in ("decimals", "times", "clocks")},
        }
        traits = (trait for trait, held in holds.items() if held)
        self.traits = {config.kind, table.form, f"live-{table.format}", *traits}


# -- what a text cannot say of an option: what is wrong with its value, else None -------------------------------------


def columns(case: Case, option: str, *, listed: bool) -> str | None:
    """The columns of table.yaml that a list of columns has (listed), or has not."""
    full = {f"{relation}.{column}": column for relation in case.relations for column in named_columns(case.table)}
    found = names_matched(case.config.listed(option), list(full))
    wrong = ", ".join(column for name, column in full.items() if (name in found) == listed)
    return wrong if wrong and case.config.get(option) else None


def elsewhere(case: Case, _: str) -> str | None:
    topics = [case.config.topic_of(relation) for relation in case.config.relations() or ()]
    known = [topic for topic in topics if topic is not None]
    return f"rows come to {', '.join(known)}" if topics and known == topics and not case.relations else None


def several(case: Case, option: str) -> str | None:
    return case.config.get(option) if len(case.relations) > 1 else None


def of_table(case: Case, option: str) -> str | None:
    names = ["." + _ESCAPED.sub(r"\1", name) for name in case.config.listed(option)]
    ends = tuple(f".{relation}".lower() for relation in case.relations)
    return ", ".join(name[1:] for name in names if name.lower().endswith(ends)) or None


def other_key(case: Case, option: str) -> str | None:
    for pattern, _, keys in (rule.strip().partition(":") for rule in case.config.get(option).split(";")):
        named = sorted(key.strip() for key in keys.split(","))
        if names_matched([pattern], case.relations) and named != sorted(case.table.source_key):
            return f"{pattern}:{keys}"
    return None


def other_schema(case: Case, option: str) -> str | None:
    """The columns whose type, logical type or its parameters are not those that are published."""
    wanted = key_schema(case.table) if option.startswith("key") else value_schema(case.table)
    try:
        found, expected = (
            {field["field"]: (field["type"], field.get("name"), field.get("parameters")) for field in fields}
            for fields in (msgspec.json.decode(case.config.get(option))["fields"], wanted["fields"])
        )
    except (msgspec.DecodeError, TypeError, KeyError, AttributeError):
        return case.config.get(option) and "unreadable"
    return ", ".join(field for field in {**expected, **found} if found.get(field) != expected.get(field)) or None


def other_topics(case: Case, option: str) -> str | None:
    listed = set(case.config.listed(option))
    is_sound = listed & set(case.words["outputs"].split(",")) and (len(listed) == 1 or "jdbc" not in case.traits)
    return None if is_sound else case.config.get(option)


# -- the rules --------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What connectors with all of some traits need."""

    traits: str
    options: str  # <Kind>: each transform of this kind, <>: each transform; an end *: every option that begins so
    needed: str | Callable[[Case, str], str | None]  # allowed values, or after a ! refused ones; -: not set
    why: str
    remedy: str = ""  # "": set it to the first allowed value, or remove it


ALTERING = "Cast ExtractField Flatten HoistField InsertField MaskField ReplaceField TimestampConverter"
REROUTING = "ContentBasedRouter PartitionRouting TimestampRouter"
DROPPING, FLATTENING = "Filter ValueToKey", "ExtractNewRecordState"
FLATTENED = f"transforms.<{FLATTENING}>"
HARMLESS = "DropHeaders HeaderFrom HeaderToValue InsertHeader SetSchemaMetadata RegexRouter ByLogicalTableRouter"

OUT, BARE = "take it out of `transforms`", "set value.converter.schemas.enable to true"
DROPPED = "what cannot be read is dropped in silence"
MISSING = "columns that table.yaml names do not come"
DEFAULTS = "a null in a column that has a DEFAULT comes as the default: another value is published"

# fmt: off
RULES = [
    Rule("", "errors.tolerance", "!all", DROPPED, "set it to none"),
    Rule("", "transforms.<>.type", f"!{DROPPING}", "messages are dropped, or deletions have no key", OUT),
    Rule("", "transforms.<>.type", f"!{ALTERING}", "keys or values come in another form", OUT),
    Rule("", "transforms.<>.type", f"!{REROUTING}", "a row's messages come to several topics or shards", OUT),
    Rule("source", "key.converter value.converter", JSON_CONVERTER, "messages come in a form that is not read"),
    Rule("source json", "value.converter.replace.null.with.default", "false", DEFAULTS),
    Rule("source", "event.processing.failure.handling.mode", "!warn skip ignore", DROPPED, "set it to fail"),
    Rule("source", "transforms.<>.type", f"!{FLATTENING}", "TRUNCATE is always dropped: its rows stay published", OUT),
    Rule("source", f"{FLATTENED}.delete.tombstone.handling.mode {FLATTENED}.delete.handling.mode", "!drop",
         "deletions never come", "set it to rewrite"),
    Rule("source", f"{FLATTENED}.replace.null.with.default", "false", DEFAULTS),
    Rule("debezium", "transforms", elsewhere, "nothing comes to {changes}",
         "add a RegexRouter to {changes} (`streamer connect source` prints it)"),
    Rule("debezium", "table.include.list", several,
         "rows of several tables come to one, and those with equal keys replace each other", "capture one table"),
    Rule("debezium", "message.key.columns", other_key,
         "message keys name other columns than table.yaml's key, and every row is refused", "name {key}"),
    Rule("debezium", "skipped.operations", "none", "what is skipped stays published; by default that is TRUNCATE"),
    Rule("debezium", "unavailable.value.placeholder", "- __debezium_unavailable_value",
         "a value that was not sent is taken for this text", "remove it"),
    Rule("debezium", "snapshot.mode", "!no_data never schema_only",
         "rows that are there before the connector never come", "set it to initial, or signal an incremental snapshot"),
    Rule("debezium", "snapshot.mode", "!initial_only", "the connector stops after the snapshot: changes never come",
         "set it to initial"),
    Rule("debezium", "snapshot.select.statement.overrides", of_table,
         "a snapshot reads only what the statement selects: all other rows never come until they change", "remove it"),
    Rule("debezium bare base64 decimals", "decimal.handling.mode", "!- precise",
         "{decimals}: without a schema they come as base64, which may look like a number", "set it to string"),
    Rule("debezium bare times", "time.precision.mode", "isostring",
         "{times}: without a schema they come as bare numbers, of days or of parts of a second", BARE),
    Rule("debezium bare clocks", "time.precision.mode", "!isostring",
         "{clocks}: without a schema an instant and a local time both come with a Z", BARE),
    Rule("debezium", "column.include.list", partial(columns, listed=False), MISSING, "add them"),
    Rule("debezium", "column.exclude.list", partial(columns, listed=True), MISSING, "take them out"),
    Rule("debezium", "column.mask.* column.truncate.*", partial(columns, listed=True),
         "columns that table.yaml names come as something else", "take them out"),
    *(Rule("debezium", f"topic.creation.{{group}}.{name}", f"{wanted} -",
           "if Connect makes {changes}, it drops messages") for name, wanted in REQUIRED_CONFIGS[CHANGES].items()),
    Rule("sink", "topics", other_topics, "what is read is not this table's output alone", "set it to {outputs}"),
    Rule("sink lossy-join", "topics", "-", "a join of the two topics, record by record, may mix two moments",
         "give others a copy (`subscribe --csv`)"),
    Rule("sink", "consumer.override.isolation.level", "read_committed",
         "records that were never committed are read, and stay in the sink"),
    Rule("jdbc", "insert.mode", "upsert", "rows are doubled, or refused as they come again"),
    Rule("jdbc", "delete.enabled", "true",
         "rows that are gone stay in the sink, and QI groups seem larger than they are"),
    Rule("jdbc", "{key_mode}", "record_key", "rows are identified by something else than QI group and slot"),
    Rule("jdbc", "primary.key.fields pk.fields field.include.list field.exclude.list fields.whitelist", "-",
         "columns are left out that tell rows apart or count QI groups"),
    Rule("jdbc live-json", "key.converter.schema.content value.converter.schema.content", other_schema,
         "these columns are missing, of another type, or not published: they come wrong or as nothing",
         "set it: `streamer connect sink` prints it"),
]
NOT_CHECKED = {
    "source debezium": ["keys of messages that are in {changes} already must have the same form"],
    "source debezium by-primary-key": ["message.key.columns is not set: the table's primary key must be exactly {key}"],
    "source debezium any-table": ["table.include.list is missing, or matches several tables: which, with which columns "
                                  "and snapshots"],
    "source binlog": NOT_IN_BINLOG,
    "source unknown": ["this connector is none of Debezium's for relational databases: all but what every one has"],
    "sink jdbc": ["whether readers see the sink's table by the view alone (`streamer connect view`)"],
    "sink unknown": ["this sink is no JDBC sink that is known here: whether it upserts and deletes by the message key"],
}
# fmt: on


class Finding(NamedTuple):
    """A setting that loses or misreads something, what follows from it, and its remedy; fields as `--json` has them."""

    setting: str
    found: str
    consequence: str
    mend: str

    def __str__(self) -> str:
        return f"{self.setting} ({self.found}): {self.consequence}; {self.mend}"


def findings(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    """All settings that would lose, misread or double something of a table."""
    case = Case(table, config)
    for rule in RULES:
        if case.traits.issuperset(rule.traits.split()):
            remedy = rule.remedy or ("remove it" if rule.needed == "-" else f"set it to {str(rule.needed).split()[0]}")
            for option in (one for pattern in rule.options.split() for one in _options(pattern, case)):
                if (found := _wrong(rule, option, case)) is not None:
                    shown = re.sub(r"(with\.salt\.).*", r"\1...", option)  # the salt of a mask is part of the name
                    why, what_to_do = (text.format_map(case.words) for text in (rule.why, remedy))
                    yield Finding(shown, found or "not set", why, what_to_do)


def _options(pattern: str, case: Case) -> list[str]:
    if pattern.endswith("*"):
        return sorted(option for option in case.config.settings if option.startswith(pattern[:-1]))
    before, _, rest = pattern.format_map(case.words).partition("<")
    kind, _, after = rest.partition(">")
    aliases = [alias for alias, found in case.config.transforms.items() if kind in ("", found)]
    return [f"{before}{alias}{after}" for alias in aliases] if rest else [before]


def _wrong(rule: Rule, option: str, case: Case) -> str | None:
    """What is wrong with an option's value, "" for none; None if nothing is."""
    if callable(rule.needed):
        return rule.needed(case, option)
    value = case.config.get(option)
    listed = (value.lower() or "-") in rule.needed.removeprefix("!").lower().split()
    return value if listed == rule.needed.startswith("!") else None


def not_checked(table: Table, config: ConnectorConfig) -> list[str]:
    """What a configuration does not tell, and what it has to be."""
    case, known = Case(table, config), f"{ALTERING} {REROUTING} {DROPPING} {FLATTENING} {HARMLESS}".split()
    left = [text for traits, texts in NOT_CHECKED.items() if case.traits.issuperset(traits.split()) for text in texts]
    unknown = {alias: kind for alias, kind in config.transforms.items() if kind not in known}
    more = [f"transforms.{alias}.type: what {kind or 'it'} does to messages" for alias, kind in unknown.items()]
    return [text.format_map(case.words) for text in left] + more


def is_about(table: Table, config: ConnectorConfig) -> bool:
    """Whether a sink reads what a table publishes, or a source names the table in what it captures or routes to."""
    if config.kind == SINK:
        return not {topic_name(table.name, kind) for kind in outputs_of(table.form)}.isdisjoint(config.listed("topics"))
    routed = (text for name, text in config.settings.items() if name.startswith("transforms."))
    places = [config.get("topic.prefix"), *config.listed("table.include.list"), *routed]
    return any(re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", place) for place in places)
