"""What in a connector's configuration would lose, misread or double rows: one table of rules, and what applies it.

Looked at closely are Debezium's sources of relational databases (defaults of release 3.3) and the JDBC sinks of
Debezium, Confluent and Aiven; of any other connector what every one has. A setting that is merely unusual is no
finding; what a configuration cannot tell is listed as not checked. Values are shown of settings that rules name, none
of which holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from streamer.errors import UsageError
from streamer.incremental.connect.connectors import BINLOGS, JSON_CONVERTER, UNTOLD, named_columns
from streamer.incremental.topics import CHANGES, REQUIRED_CONFIGS, outputs_of, topic_name
from streamer.table.attributes import NumericAttribute
from streamer.table.published.schemas import CLOCKS, key_schema, temporal_columns, value_schema
from streamer.table.schema import LOSSY_JOIN, Table

# A connector's configuration as it was read, and where it sends the rows of a captured table.
#
# A configuration is what Connect's REST interface gives or takes: a JSON object of settings, alone or under `config`
# beside its `name`. Values are texts; numbers and booleans of a file become what Connect makes of them. What Java's
# regular expressions and Python's have in common is all that names of topics need.

UNSET = "not set"
SOURCE, SINK = "source", "sink"
ROUTERS = {"RegexRouter": ("regex", "replacement"), "ByLogicalTableRouter": ("topic.regex", "topic.replacement")}
"""Transforms that rename topics, and the settings that say how."""

_ESCAPED = re.compile(r"\\(.)")
_META = re.compile(r"[\\^$*+?()\[\]{}|]")
_GROUP = re.compile(r"\$(\d)|\$\{(\w+)\}")


class ConnectorConfig:
    """The settings of one connector."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)

    @property
    def connector_class(self) -> str:
        return self.get("connector.class")

    @property
    def kind(self) -> str:
        """SOURCE or SINK: every sink says which topics it reads, and no source does."""
        return SINK if self.get("topics") or self.get("topics.regex") else SOURCE

    def get(self, name: str, default: str = "") -> str:
        """A setting's value, without the spaces around it."""
        return self.settings.get(name, default).strip()

    def has(self, name: str, wanted: str, default: str = "") -> bool:
        """Whether a setting has a value, in any case."""
        return self.get(name, default).lower() == wanted.lower()

    def shown(self, name: str) -> str:
        """A setting's value for people."""
        return self.get(name) or UNSET

    def listed(self, name: str) -> list[str]:
        """The parts of a comma-separated setting."""
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def transforms(self) -> dict[str, str]:
        """Simple class names by alias, in order; of an inner class (`ReplaceField$Value`) the outer one."""
        types = {alias: self.get(f"transforms.{alias}.type") for alias in self.listed("transforms")}
        return {alias: name.rpartition(".")[2].partition("$")[0] for alias, name in types.items()}

    def owner(self, name: str) -> str:
        """The kind of the transform, or the class of the converter, that a setting is for."""
        owner, part = name.split(".")[:2]
        return self.transforms().get(part, "") if owner == "transforms" else self.get(f"{owner}.{part}")

    def relations(self) -> list[str] | None:
        """The captured tables by their full names; None if the list is missing, or holds more than names."""
        listed = self.listed("table.include.list")
        plain = [_ESCAPED.sub(r"\1", name) for name in listed if not _META.search(_ESCAPED.sub("", name))]
        return plain if listed and len(plain) == len(listed) else None

    def topic_of(self, relation: str) -> str | None:
        """The topic that a table's rows come to; None if that cannot be told."""
        topic = f"{self.get('topic.prefix')}.{relation}"
        for alias, kind in self.transforms().items():
            if kind in ROUTERS:
                pattern, replacement = (self.get(f"transforms.{alias}.{name}") for name in ROUTERS[kind])
                try:
                    found = re.fullmatch(pattern, topic)
                    topic = topic if found is None else found.expand(_GROUP.sub(r"\\g<\1\2>", replacement))
                except (re.error, IndexError):
                    return None
        return topic


def config_of(said: object) -> tuple[str, ConnectorConfig]:
    """Name ("" if none is said) and settings out of a JSON value. Raises UsageError, which repeats nothing of it."""
    if not isinstance(said, dict):
        raise UsageError("a connector's configuration is a JSON object of its settings, or has one under `config`")
    inner = said.get("config")
    settings = inner if isinstance(inner, dict) else said
    if not settings.get("connector.class"):
        raise UsageError("the configuration has no connector.class: it is none of a connector")
    name = said.get("name") or settings.get("name") or ""
    return str(name), ConnectorConfig({str(key): _text(value) for key, value in settings.items()})


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


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


DEBEZIUM = re.compile(r"io\.debezium\.connector\.(postgresql|mysql|mariadb|sqlserver|oracle|db2|informix|vitess)\.\w+")
JDBC_SINK = re.compile(r"io\.(debezium\.connector|confluent\.connect|aiven\.connect)\.jdbc\.JdbcSinkConnector")
PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Case:
    """A connector held against a table."""

    table: Table
    config: ConnectorConfig

    @cached_property
    def words(self) -> dict[str, str]:
        """What rules may name."""
        table, config, changes = self.table, self.config, topic_name(self.table.name, CHANGES)
        groups = {group: f"topic.creation.{group}.include" for group in config.listed("topic.creation.groups")}
        makers = (group for group, name in groups.items() if names_matched(config.listed(name), [changes]))
        decimals = [a.name for a in table.attributes if isinstance(a, NumericAttribute) and not a.integer]
        return {
            "changes": changes,
            "group": next(makers, "default"),  # by whose settings Connect makes a topic that is missing
            "outputs": ",".join(topic_name(table.name, kind) for kind in outputs_of(table.form)),
            "key": ",".join(table.source_key),
            "decimals": ", ".join(decimals + [column.name for column in table.kept if column.type == "decimal"]),
            "times": ", ".join(temporal_columns(table)),
            "clocks": ", ".join(temporal_columns(table, CLOCKS)),
        }

    @cached_property
    def traits(self) -> set[str]:
        """What rules may ask for."""
        config, name = self.config, self.config.connector_class
        sink, is_debezium = JDBC_SINK.fullmatch(name), DEBEZIUM.fullmatch(name) is not None
        holds = {
            "jdbc": config.kind == SINK and sink is not None and self.table.form != LOSSY_JOIN,
            "debezium-names": sink is not None and sink[1].startswith("debezium"),
            "other-names": sink is not None and not sink[1].startswith("debezium"),
            "debezium": config.kind == SOURCE and is_debezium,
            "binlog": name in BINLOGS.values(),
            "unknown": not (is_debezium if config.kind == SOURCE else sink),
            "bare": not config.has("value.converter.schemas.enable", "true", default="true"),
            "bytes": not config.has("value.converter.decimal.format", "numeric"),
            "by-primary-key": not config.get("message.key.columns"),
            "any-table": config.relations() is None,
            **{word: bool(text) for word, text in self.words.items()},
        }
        return {config.kind, self.table.form, self.table.format, *(trait for trait, held in holds.items() if held)}

    @cached_property
    def relations(self) -> list[str]:
        """The captured tables whose rows come to the table's input."""
        captured = self.config.relations() or []
        return [relation for relation in captured if self.config.topic_of(relation) == self.words["changes"]]


# -- checks: what was found in a setting that is wrong, else "" -------------------------------------------------------

Check = Callable[[Case, str], str]


def needs(wanted: str, default: str = "") -> Check:
    """Any other value is wrong."""
    return lambda case, name: "" if case.config.has(name, wanted, default) else case.config.shown(name)


def refuses(*values: str) -> Check:
    """One of these values is wrong; "": that it is not set."""
    return lambda case, name: case.config.shown(name) if case.config.get(name) in values else ""


def unwanted(case: Case, name: str) -> str:
    return case.config.get(name)


def of_a(kind: str, check: Check) -> Check:
    """For settings of one kind of transforms, or one class of converters."""
    return lambda case, name: check(case, name) if case.config.owner(name) == kind else ""


def is_a(kinds: str) -> Check:
    return lambda case, name: kind if (kind := case.config.owner(name)) in kinds.split() else ""


def columns(listed: bool) -> Check:
    """A list of columns is wrong if columns of table.yaml are listed, or if they are not."""

    def check(case: Case, name: str) -> str:
        full = {f"{relation}.{column}": column for relation in case.relations for column in named_columns(case.table)}
        found = names_matched(case.config.listed(name), list(full))
        return ", ".join(full[one] for one in full if (one in found) == listed) if case.config.get(name) else ""

    return check


def elsewhere(case: Case, _: str) -> str:
    topics = [case.config.topic_of(relation) for relation in case.config.relations() or ()]
    told = [topic for topic in topics if topic is not None]
    return f"rows come to {', '.join(told)}" if topics and told == topics and not case.relations else ""


def other_key(case: Case, name: str) -> str:
    for pattern, _, keys in (rule.strip().partition(":") for rule in case.config.get(name).split(";")):
        named = sorted(key.strip() for key in keys.split(","))
        if names_matched([pattern], case.relations) and named != sorted(case.table.source_key):
            return f"{pattern}:{keys}"
    return ""


def other_schema(case: Case, name: str) -> str:
    """The columns whose type, logical type or its parameters are not those that are published."""
    wanted = key_schema(case.table) if name.startswith("key") else value_schema(case.table)
    try:
        found, expected = (
            {field["field"]: (field["type"], field.get("name"), field.get("parameters")) for field in fields}
            for fields in (msgspec.json.decode(case.config.get(name))["fields"], wanted["fields"])
        )
    except (msgspec.DecodeError, TypeError, KeyError, AttributeError):
        return "unreadable" if case.config.get(name) else case.config.shown(name)
    return ", ".join(field for field in {**expected, **found} if found.get(field) != expected.get(field))


def topics(case: Case, name: str) -> str:
    listed = set(case.config.listed(name))
    is_sound = listed & set(case.words["outputs"].split(",")) and (len(listed) == 1 or "jdbc" not in case.traits)
    return "" if is_sound else case.config.shown(name)


def several(case: Case, name: str) -> str:
    return case.config.shown(name) if len(case.relations) > 1 else ""


# -- the rules --------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """For connectors with all of some traits. In a setting, {side} is key and value, {transform} each, an end * any."""

    traits: str
    setting: str
    check: Check
    consequence: str
    remedy: str


ANY, FLATTEN = "transforms.{transform}", "ExtractNewRecordState"
TYPE, OUT = f"{ANY}.type", "take it out of `transforms`"
MISSING, OTHERS = "columns that table.yaml names do not come", "columns that table.yaml names come as something else"
OTHER_KEY = "rows are told apart by something else than QI group and slot"
DROPPED, BARE = "what cannot be read is dropped in silence", "set value.converter.schemas.enable to true"
DEFAULTS = "a null in a column that has a DEFAULT comes as the default: another value is published"
HIDDEN = "columns are left out, by which rows are told apart or QI groups counted"
ALTERING = "Cast ExtractField Flatten HoistField InsertField MaskField ReplaceField TimestampConverter"
REROUTING = "ContentBasedRouter PartitionRouting TimestampRouter"
HARMLESS = "DropHeaders HeaderFrom HeaderToValue InsertHeader SetSchemaMetadata RegexRouter ByLogicalTableRouter"
JSON, PRINTED = f"set it to {JSON_CONVERTER}", "set it: `streamer connect sink` prints it"

# fmt: off
RULES = [
    Rule("", "errors.tolerance", refuses("all"), DROPPED, "set it to none"),
    Rule("", TYPE, is_a("Filter ValueToKey"), "messages are dropped, or deletions have no key", OUT),
    Rule("", TYPE, is_a(ALTERING), "keys or values come in another form", OUT),
    Rule("", TYPE, is_a(REROUTING), "a row's messages come to several topics or shards", OUT),
    Rule("source", "{side}.converter", needs(JSON_CONVERTER), "messages come in a form that is not read", JSON),
    Rule("source", "value.converter.replace.null.with.default", of_a(JSON_CONVERTER, needs("false", "true")),
         DEFAULTS, "set it to false"),
    Rule("source", "event.processing.failure.handling.mode", refuses("warn", "skip", "ignore"),
         DROPPED, "set it to fail"),
    Rule("source", TYPE, is_a(FLATTEN), "TRUNCATE is dropped, always: its rows stay published", OUT),
    *(Rule("source", f"{ANY}.{name}", of_a(FLATTEN, refuses("drop")), "deletions never come", "set it to rewrite")
      for name in ("delete.tombstone.handling.mode", "delete.handling.mode")),
    Rule("source", f"{ANY}.replace.null.with.default", of_a(FLATTEN, needs("false", "true")),
         DEFAULTS, "set it to false"),
    Rule("debezium", "transforms", elsewhere, "nothing comes to {changes}",
         "add a RegexRouter to {changes} (`streamer connect source` prints it)"),
    Rule("debezium", "table.include.list", several,
         "rows of several tables come to one, and those with equal keys replace each other", "capture one table"),
    Rule("debezium", "message.key.columns", other_key,
         "message keys name other columns than table.yaml's key, and every row is refused", "name {key}"),
    Rule("debezium", "skipped.operations", needs("none"),
         "what is left out stays published; if nothing is set, that is TRUNCATE", "set it to none"),
    Rule("debezium", "unavailable.value.placeholder", needs(PLACEHOLDER, PLACEHOLDER),
         "a value that was not sent is taken for this text", "remove it"),
    Rule("debezium", "snapshot.mode", refuses("no_data", "never", "schema_only"),
         "rows that are there before the connector never come", "set it to initial, or signal an incremental snapshot"),
    Rule("debezium", "snapshot.mode", refuses("initial_only"),
         "the connector stops after the snapshot: changes never come", "set it to initial"),
    Rule("debezium bare bytes decimals", "decimal.handling.mode", refuses("", "precise"),
         "{decimals}: without a schema they come as base64, which may look like a number", "set it to string"),
    Rule("debezium bare times", "time.precision.mode", needs("isostring"),
         "{times}: without a schema they come as bare numbers, of days or of parts of a second", BARE),
    Rule("debezium bare clocks", "time.precision.mode", refuses("isostring"),
         "{clocks}: without a schema an instant and a clock on the wall both come with a Z", BARE),
    Rule("debezium", "column.include.list", columns(listed=False), MISSING, "add them"),
    Rule("debezium", "column.exclude.list", columns(listed=True), MISSING, "take them out"),
    Rule("debezium", "column.mask.*", columns(listed=True), OTHERS, "take them out"),
    Rule("debezium", "column.truncate.*", columns(listed=True), OTHERS, "take them out"),
    *(Rule("debezium", f"topic.creation.{{group}}.{name}", needs(wanted, wanted),
           "if Connect makes {changes}, it drops messages", f"set it to {wanted}")
      for name, wanted in REQUIRED_CONFIGS[CHANGES].items()),
    Rule("sink", "topics", topics, "what is read is not this table's output alone", "set it to {outputs}"),
    Rule("sink lossy-join", "topics", unwanted,
         "what a join of the two topics shows record by record may be of two moments",
         "give others a copy (`subscribe --csv`)"),
    Rule("sink", "consumer.override.isolation.level", needs("read_committed"),
         "records that were never committed are read, and stay in the sink", "set it to read_committed"),
    Rule("jdbc", "insert.mode", needs("upsert"), "rows are doubled, or refused as they come again", "set it to upsert"),
    Rule("jdbc", "delete.enabled", needs("true"),
         "rows that are gone stay in the sink, and QI groups seem larger than they are", "set it to true"),
    Rule("jdbc debezium-names", "primary.key.mode", needs("record_key"), OTHER_KEY, "set it to record_key"),
    Rule("jdbc other-names", "pk.mode", needs("record_key"), OTHER_KEY, "set it to record_key"),
    *(Rule("jdbc", name, unwanted, HIDDEN, "remove it")
      for name in ("primary.key.fields", "pk.fields", "field.include.list", "field.exclude.list", "fields.whitelist")),
    Rule("jdbc json", "{side}.converter.schema.content", other_schema,
         "these columns are missing, of another type, or not published: they come wrong or as nothing", PRINTED),
]
UNCHECKED = {
    "source debezium": ["keys of messages that are in {changes} already must have the same form"],
    "source debezium by-primary-key": ["message.key.columns is not set: the table's primary key must be exactly {key}"],
    "source debezium any-table": ["table.include.list is missing, or matches several tables: which, and which columns"],
    "source binlog": UNTOLD,
    "source unknown": ["this connector is none of Debezium's for relational databases: all but what every one has"],
    "sink jdbc": ["whether readers see the sink's table by the view alone (`streamer connect view`)"],
    "sink unknown": ["this sink is no JDBC sink that is known here: whether it upserts and deletes by the message key"],
}
# fmt: on


# -- what applies them ------------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    """A setting by which something would be lost or misread; what comes of it, and its remedy."""

    setting: str
    found: str
    consequence: str
    mend: str

    def __str__(self) -> str:
        return f"{self.setting} ({self.found}): {self.consequence}; {self.mend}"


def findings(table: Table, config: ConnectorConfig) -> Iterator[Finding]:
    """All settings by which something of a table would be lost, misread or doubled."""
    case = Case(table, config)
    for rule in RULES:
        if case.traits.issuperset(rule.traits.split()):
            for name in _settings(rule.setting, case):
                if found := rule.check(case, name):
                    shown = re.sub(r"(with\.salt\.).*", r"\1...", name)  # the salt of a mask is part of the name
                    texts = (text.format_map(case.words) for text in (rule.consequence, rule.remedy))
                    yield Finding(shown, found, *texts)


def _settings(pattern: str, case: Case) -> list[str]:
    if pattern.endswith("*"):
        return sorted(name for name in case.config.settings if name.startswith(pattern[:-1]))
    aliases = case.config.transforms() if "{transform}" in pattern else [""]
    sides = ("key", "value") if "{side}" in pattern else [""]
    return [pattern.format(**case.words, side=side, transform=alias) for side in sides for alias in aliases]


def not_checked(table: Table, config: ConnectorConfig) -> list[str]:
    """What a configuration does not tell, and what it has to be."""
    case, known = Case(table, config), f"{ALTERING} {REROUTING} {HARMLESS} Filter ValueToKey {FLATTEN}".split()
    left = [text for traits, texts in UNCHECKED.items() if case.traits.issuperset(traits.split()) for text in texts]
    unknown = {alias: kind for alias, kind in config.transforms().items() if kind not in known}
    more = [f"transforms.{alias}.type: what {kind or 'it'} does to messages" for alias, kind in unknown.items()]
    return [text.format_map(case.words) for text in left] + more


def is_about(table: Table, config: ConnectorConfig) -> bool:
    """Whether a sink reads what a table publishes, or a source names the table in what it captures or routes to."""
    if config.kind == SINK:
        return not {topic_name(table.name, kind) for kind in outputs_of(table.form)}.isdisjoint(config.listed("topics"))
    routed = (text for name, text in config.settings.items() if name.startswith("transforms."))
    places = [config.get("topic.prefix"), *config.listed("table.include.list"), *routed]
    return any(re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", place) for place in places)
