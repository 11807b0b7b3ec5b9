"""A connector's configuration as it is read, bare or named, with values as texts; and which topic its rows come to."""

from __future__ import annotations

import pytest

from streamer.errors import UsageError
from streamer.incremental.connectors.connector_config import ConnectorConfig, config_of, names_matched


def test_a_configuration_is_read_bare_or_under_its_name() -> None:
    settings = {"connector.class": "x.Y", "tasks.max": 1, "delete.enabled": True, "gone": None}
    expected = {"connector.class": "x.Y", "tasks.max": "1", "delete.enabled": "true", "gone": ""}
    for said, name in (
        ({"name": "n", "config": settings}, "n"),
        (settings, ""),
        ({**settings, "name": "m"}, "m"),
    ):
        found, config = config_of(said)
        assert found == name
        assert {key: config.settings[key] for key in expected} == expected


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
    assert list(config.transforms().items()) == [("b", "ByLogicalTableRouter"), ("a", "ReplaceField")]
    assert config.owner("transforms.a.renames") == "ReplaceField"


def test_booleans_and_lists_are_read_as_connect_reads_them() -> None:
    config = ConnectorConfig({"on": " TRUE ", "off": "no", "list": "a, b,,c "})
    assert (config.has("on", "true"), config.has("off", "true"), config.has("none", "true", "true")) == (
        True,
        False,
        True,
    )
    assert config.listed("list") == ["a", "b", "c"]
    assert config.shown("none") == "not set"


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
def test_captured_tables_are_told_where_the_list_holds_names(listed: str, relations: list[str] | None) -> None:
    assert ConnectorConfig({"table.include.list": listed}).relations() == relations
