"""Each setting that loses, misreads or doubles rows is found, and a sound configuration has no finding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from streamer.errors import UsageError
from streamer.incremental.connect.connectors import (
    APICURIO,
    CONFLUENT,
    MARIADB,
    MYSQL,
    NOT_IN_BINLOG,
    POSTGRES,
    sink_config,
    source_config,
)
from streamer.incremental.connect.lint import (
    ALTERING,
    REROUTING,
    ConnectorConfig,
    Finding,
    config_of,
    findings,
    is_about,
    names_matched,
    not_checked,
)
from streamer.table.published.schemas import value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, LOSSY_JOIN, KeptColumn, Table
from worlds.published_forms import AGE, TABLE, published_as

# A connector's configuration as it is read, bare or named, with values as texts; and which topic its rows come to.


def test_a_configuration_is_read_bare_or_under_its_name() -> None:
    settings = {"connector.class": "x.Y", "tasks.max": 1, "delete.enabled": True, "gone": None}
    expected = {"connector.class": "x.Y", "tasks.max": "1", "delete.enabled": "true"}
    for said, name in (
        ({"name": "n", "config": settings}, "n"),
        (settings, ""),
        ({**settings, "name": "m"}, "m"),
    ):
        found, config = config_of(said)
        assert found == name
        assert {key: text for key, text in config.settings.items() if key != "name"} == expected


@pytest.mark.parametrize("said", [None, [], "pw-Canary", {"a": "pw-Canary"}, {"config": {"a": "pw-Canary"}}])
def test_what_is_no_configuration_is_refused_and_not_repeated(said: object) -> None:
    with pytest.raises(UsageError) as refused:
        config_of(said)
    assert "Canary" not in str(refused.value)


def test_transforms_come_in_their_order_by_their_simple_names() -> None:
    config = ConnectorConfig(
        {
            "transforms": "b, a",
            "transforms.a.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.b.type": "io.debezium.transforms.ByLogicalTableRouter",
        }
    )
    assert list(config.transforms.items()) == [("b", "ByLogicalTableRouter"), ("a", "ReplaceField")]


def test_lists_and_values_are_read_without_the_spaces_around_them() -> None:
    config = ConnectorConfig({"list": "a, b,,c ", "name": " x "})
    assert (config.listed("list"), config.get("name"), config.get("none", "default")) == (
        ["a", "b", "c"],
        "x",
        "default",
    )


def test_names_are_matched_whole_and_whatever_their_case() -> None:
    names = ["public.people", "public.people2"]
    assert names_matched([r"Public\.People"], names) == {"public.people"}
    assert names_matched([r"public\..*", "("], names) == set(names)


# -- which topic a captured table's rows come to ----------------------------------------------------------------------

REGEX = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}


def routed(regex: str, replacement: str) -> str | None:
    more = {"transforms.r.regex": regex, "transforms.r.replacement": replacement}
    return ConnectorConfig({"topic.prefix": "p", **REGEX, **more}).topic_of("public.people")


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        (r"p\.public\.people", "people.changes", "people.changes"),
        (r"([^.]+)\.([^.]+)\.([^.]+)", "$3.changes", "people.changes"),
        (r"(?P<a>p)\.(.*)", "${a}.all", "p.all"),
        ("people", "people.changes", "p.public.people"),
        ("(", "x", None),
        ("p.*", "$7", None),
    ],
)
def test_a_router_renames_topics_that_it_matches_whole(regex: str, replacement: str, topic: str | None) -> None:
    assert routed(regex, replacement) == topic


def test_without_a_router_the_topic_is_prefix_schema_and_table() -> None:
    assert ConnectorConfig({"topic.prefix": "p"}).topic_of("public.people") == "p.public.people"


def test_routers_follow_one_another() -> None:
    config = ConnectorConfig(
        {
            "topic.prefix": "p",
            "transforms": "one,other,two",
            "transforms.one.type": "io.debezium.transforms.ByLogicalTableRouter",
            "transforms.one.topic.regex": "(.*)people",
            "transforms.one.topic.replacement": "$1x",
            "transforms.other.type": "org.apache.kafka.connect.transforms.InsertHeader",
            "transforms.two.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.two.regex": r"p\.public\.x",
            "transforms.two.replacement": "people.changes",
        }
    )
    assert config.topic_of("public.people") == "people.changes"


@pytest.mark.parametrize(
    ("listed", "relations"),
    [
        (r"public\.people", ["public.people"]),
        ("public.people, ward.beds", ["public.people", "ward.beds"]),
        (r"public\.ward\-7", ["public.ward-7"]),
        ("public.*", None),
        ("", None),
    ],
)
def test_captured_tables_are_known_if_the_list_holds_names(listed: str, relations: list[str] | None) -> None:
    assert ConnectorConfig({"table.include.list": listed}).relations() == relations


SOURCE, SINK = source_config(TABLE, POSTGRES), sink_config(TABLE)
CONTENT = "value.converter.schema.content"
NULLS = "value.converter.replace.null.with.default"
BARE = {"value.converter.schemas.enable": "false"}
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
FLATTEN = "io.debezium.transforms.ExtractNewRecordState"
FLAT = {"transforms": "route,x", "transforms.x.type": FLATTEN}
SOUND_FLAT = {**FLAT, "transforms.x.replace.null.with.default": "false"}
CANARY = "pw-Canary"

Settings = Mapping[str, str | None]


def found(base: Mapping[str, str], changed: Settings, table: Table = TABLE) -> dict[str, Finding]:
    """Findings by setting, of a configuration with some settings changed; None: left out."""
    settings = {name: value for name, value in {**base, **changed}.items() if value is not None}
    return {one.setting: one for one in findings(table, ConnectorConfig(settings))}


@pytest.mark.parametrize("connector", [POSTGRES, MYSQL, MARIADB])
@pytest.mark.parametrize("schemas", [True, False])
def test_a_source_that_streamer_connect_prints_has_no_finding(connector: str, schemas: bool) -> None:
    config = ConnectorConfig(source_config(TABLE, connector, schemas=schemas))
    assert list(findings(TABLE, config)) == []
    assert not_checked(TABLE, config)[1:] == [*(() if connector == POSTGRES else NOT_IN_BINLOG)]


@pytest.mark.parametrize("system", [POSTGRES, MYSQL])
@pytest.mark.parametrize("table", [TABLE, published_as(GROUPS), replace(TABLE, format=CONNECT_JSON)])
def test_a_sink_that_streamer_connect_prints_has_no_finding(system: str, table: Table) -> None:
    assert list(findings(table, ConnectorConfig(sink_config(table, system)))) == []


@pytest.mark.parametrize("converter", [CONFLUENT, APICURIO])
def test_a_sink_of_avro_that_streamer_connect_prints_has_no_finding(converter: str) -> None:
    table = replace(TABLE, format=AVRO)
    assert list(findings(table, ConnectorConfig(sink_config(table, converter=converter)))) == []


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({"errors.tolerance": "all"}, ["errors.tolerance"]),
        ({"errors.tolerance": "ALL"}, ["errors.tolerance"]),
        ({"key.converter": None}, ["key.converter"]),
        ({"value.converter": STRINGS}, ["value.converter"]),
        ({NULLS: None}, [NULLS]),
        ({"event.processing.failure.handling.mode": "warn"}, ["event.processing.failure.handling.mode"]),
        (SOUND_FLAT, ["transforms.x.type"]),
        (FLAT, ["transforms.x.type", "transforms.x.replace.null.with.default"]),
        *(
            ({**SOUND_FLAT, f"transforms.x.{name}": "drop"}, ["transforms.x.type", f"transforms.x.{name}"])
            for name in ("delete.tombstone.handling.mode", "delete.handling.mode")
        ),
        ({"transforms": None}, ["transforms"]),
        (
            {"table.include.list": r"public\.people,public\.beds", "transforms.route.regex": r"people\.public\..*"},
            ["table.include.list", "column.include.list"],
        ),
        ({"message.key.columns": r"public\.people:ward,number"}, ["message.key.columns"]),
        ({"skipped.operations": None}, ["skipped.operations"]),
        ({"skipped.operations": "t,d"}, ["skipped.operations"]),
        ({"unavailable.value.placeholder": "gone"}, ["unavailable.value.placeholder"]),
        *(({"snapshot.mode": mode}, ["snapshot.mode"]) for mode in ("no_data", "never", "schema_only", "initial_only")),
        *(
            ({"snapshot.select.statement.overrides": name}, ["snapshot.select.statement.overrides"])
            for name in ("public.people", "ward.beds, Public.People", r"clinic.public\.people")
        ),
        ({**BARE, "decimal.handling.mode": None}, ["decimal.handling.mode"]),
        ({**BARE, "decimal.handling.mode": "precise"}, ["decimal.handling.mode"]),
        ({"column.include.list": r"public\.people\.(id|age)"}, ["column.include.list"]),
        ({"column.exclude.list": r"public\.people\.c.*"}, ["column.exclude.list"]),
        ({"column.mask.with.4.chars": r"public\.people\.problem"}, ["column.mask.with.4.chars"]),
        ({"column.truncate.to.3.chars": ".*problem"}, ["column.truncate.to.3.chars"]),
        ({"topic.creation.changes.cleanup.policy": "compact"}, ["topic.creation.changes.cleanup.policy"]),
        ({"topic.creation.changes.retention.ms": "604800000"}, ["topic.creation.changes.retention.ms"]),
        (
            {"topic.creation.groups": None, "topic.creation.default.cleanup.policy": "compact"},
            ["topic.creation.default.cleanup.policy"],
        ),
    ],
)
def test_settings_of_a_source_that_lose_or_misread_rows(changed: Settings, settings: list[str]) -> None:
    assert sorted(found(SOURCE, changed)) == sorted(settings)


@pytest.mark.parametrize(
    "changed",
    [
        {"decimal.handling.mode": None},
        {**BARE, "decimal.handling.mode": None, "value.converter.decimal.format": "numeric"},
        {**BARE, "decimal.handling.mode": "double"},
        {"message.key.columns": r"other:x;public\.(people|beds):id"},
        {"message.key.columns": None},
        {"table.include.list": "public.*"},
        {"snapshot.mode": "always"},
        {"snapshot.mode": None},
        {"snapshot.select.statement.overrides": "public.beds,mypublic.people"},
        {"tombstones.on.delete": "false"},
        {"topic.creation.default.cleanup.policy": "compact"},
        {
            "column.include.list": None,
            "column.mask.with.4.chars": r"public\.people\.name",
            "column.exclude.list": r"public\.people\.(name|address)",
        },
    ],
)
def test_settings_of_a_source_that_lose_nothing(changed: Settings) -> None:
    assert found(SOURCE, changed) == {}


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"topics": "other.live"}, "topics"),
        ({"topics": "people.live,beds.live"}, "topics"),
        ({"consumer.override.isolation.level": None}, "consumer.override.isolation.level"),
        ({"consumer.override.isolation.level": "read_uncommitted"}, "consumer.override.isolation.level"),
        ({"errors.tolerance": "all"}, "errors.tolerance"),
        ({"insert.mode": "insert"}, "insert.mode"),
        ({"delete.enabled": None}, "delete.enabled"),
        ({"primary.key.mode": "kafka"}, "primary.key.mode"),
        ({"primary.key.fields": "qi_group"}, "primary.key.fields"),
        ({"field.include.list": "people.live:problem"}, "field.include.list"),
        ({CONTENT: None}, CONTENT),
        ({CONTENT: "{"}, CONTENT),
    ],
)
def test_settings_of_a_sink_that_lose_misread_or_double_rows(changed: Settings, setting: str) -> None:
    assert list(found(SINK, changed)) == [setting]


@pytest.mark.parametrize("kind", f"{ALTERING} {REROUTING} Filter ValueToKey".split())
@pytest.mark.parametrize("base", [SOURCE, SINK])
def test_transforms_that_change_messages_are_found(base: Mapping[str, str], kind: str) -> None:
    for name in (kind, f"{kind}$Value"):
        more = {"transforms": "x", "transforms.x.type": f"org.apache.kafka.connect.transforms.{name}"}
        config = {**base, "table.include.list": "", **more}
        assert found(config, {})["transforms.x.type"].found == kind


def test_a_transform_may_be_called_like_an_option() -> None:
    router = {key.replace("route", "topics"): text for key, text in SOURCE.items() if key.startswith("transforms.")}
    assert found(SOURCE, {**router, "transforms": "topics"}) == {}


def test_a_finding_is_one_sentence_with_the_consequence_and_the_remedy() -> None:
    assert str(found(SOURCE, {"transforms": None})["transforms"]) == (
        "transforms (rows come to people.public.people): nothing comes to people.changes; add a RegexRouter to"
        " people.changes (`streamer connect source` prints it)"
    )


def test_columns_that_do_not_come_as_they_are_are_named() -> None:
    name = "column.include.list"
    assert found(SOURCE, {name: r"public\.people\.(id|age|city|problem|visits|smokes)"})[name].found == "bmi, cost"
    bare = found(SOURCE, {**BARE, "decimal.handling.mode": None})
    assert bare["decimal.handling.mode"].consequence.startswith("bmi, cost: without a schema")


def test_a_composite_key_may_come_in_any_order() -> None:
    table = replace(TABLE, source_key=("ward", "number"))
    config = source_config(table, POSTGRES)
    assert found(config, {"message.key.columns": r"public\.people:number, ward"}, table) == {}
    wrong = found(config, {"message.key.columns": r"public\.people:number"}, table)["message.key.columns"]
    assert (wrong.found, wrong.mend) == (r"public\.people:number", "name ward,number")


@pytest.mark.parametrize(
    ("type_", "mode", "is_found"),
    [
        ("date", None, True),
        ("date", "isostring", False),
        ("timestamp", "isostring", True),
        ("local-timestamp", "isostring", True),
    ],
)
def test_times_without_a_schema_are_bare_numbers_or_give_every_clock_a_z(
    type_: str, mode: str | None, is_found: bool
) -> None:
    table = replace(TABLE, attributes=(AGE,), kept=(KeptColumn("seen", sensitive=False, type=type_),))
    settings = {"time.precision.mode": mode}
    one = found(source_config(table, POSTGRES, schemas=False), settings, table).get("time.precision.mode")
    assert (one is not None and one.consequence.startswith("seen: ")) == is_found
    assert found(source_config(table, POSTGRES), settings, table) == {}


def test_a_schema_of_another_table_yaml_names_the_columns_that_differ() -> None:
    schema = value_schema(TABLE)
    schema["fields"] = [field for field in schema["fields"] if field["field"] != "city"]
    schema["fields"][0]["type"] = "int32"
    schema["fields"].append({"field": "extra", "type": "string"})
    assert found(SINK, {CONTENT: json.dumps(schema)})[CONTENT].found == "qi_group, city, extra"


@pytest.mark.parametrize("content", ["[]", "7", '{"fields": 7}', '{"fields": [7]}', '{"type": "string"}'])
def test_a_schema_that_is_none_is_found_and_not_quoted(content: str) -> None:
    assert found(SINK, {CONTENT: content})[CONTENT].found == "unreadable"


def test_a_lossy_join_cannot_be_sunk_whatever_the_settings() -> None:
    one = found(SINK, {"topics": "people.qit,people.stt"}, published_as(LOSSY_JOIN))["topics"]
    assert "two moments" in one.consequence


@pytest.mark.parametrize("owner", ["confluent", "aiven"])
def test_confluent_s_and_aiven_s_sinks_have_other_names_for_the_same(owner: str) -> None:
    other = {"connector.class": f"io.{owner}.connect.jdbc.JdbcSinkConnector", "pk.mode": "record_key"}
    assert found(SINK, {**other, "primary.key.mode": None}) == {}
    assert list(found(SINK, {**other, "primary.key.mode": None, "pk.mode": "none"})) == ["pk.mode"]
    assert list(found(SINK, {**other, "fields.whitelist": "city"})) == ["fields.whitelist"]


@pytest.mark.parametrize(
    ("settings", "findings_", "unchecked"),
    [
        (
            {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"},
            ["key.converter", "value.converter"],
            "none of Debezium's",
        ),
        (
            {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "people.live"},
            ["consumer.override.isolation.level"],
            "no JDBC sink",
        ),
    ],
)
def test_any_other_connector_is_looked_at_in_general_and_that_is_said(
    settings: dict[str, str], findings_: list[str], unchecked: str
) -> None:
    assert list(found(settings, {})) == findings_
    assert unchecked in not_checked(TABLE, ConnectorConfig(settings))[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"message.key.columns": ""}, "primary key must be exactly id"),
        ({"table.include.list": "public.*"}, "table.include.list"),
        ({"transforms": "x", "transforms.x.type": "com.example.Scramble"}, "transforms.x.type: what Scramble does"),
    ],
)
def test_what_a_configuration_does_not_tell_is_said_to_be_unchecked(changed: dict[str, str], said: str) -> None:
    assert any(said in left for left in not_checked(TABLE, ConnectorConfig(SOURCE | changed)))
    assert not any(said in left for left in not_checked(TABLE, ConnectorConfig(SOURCE)))


def test_the_salt_of_a_mask_is_part_of_a_setting_s_name_and_is_not_shown() -> None:
    salted = {f"column.mask.hash.SHA-256.with.salt.{CANARY}": r"public\.people\.age"}
    (one,) = found(SOURCE, salted).values()
    assert one.found == "age"
    assert CANARY not in str(one)


@pytest.mark.parametrize(
    ("settings", "is_meant"),
    [
        ({"topic.prefix": "people"}, True),
        ({"table.include.list": "public.beds,public.people"}, True),
        ({"transforms": "r", "transforms.r.replacement": "people.changes"}, True),
        ({"topic.prefix": "people2", "table.include.list": "public.beds"}, False),
        ({"topics": "a, people.live"}, True),
        ({"topics": "people.changes"}, False),
    ],
)
def test_a_connector_is_a_table_s_if_it_names_the_table_or_reads_its_output(
    settings: dict[str, str], is_meant: bool
) -> None:
    assert is_about(TABLE, ConnectorConfig(settings)) is is_meant
