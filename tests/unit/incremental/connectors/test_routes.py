"""Which topic a captured table's rows come to."""

from __future__ import annotations

import pytest

from streamer.incremental.connectors.connector_config import ConnectorConfig
from streamer.incremental.connectors.routes import relations_of, topic_of

REGEX = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}


def routed(regex: str, replacement: str) -> str | None:
    more = {"transforms.r.regex": regex, "transforms.r.replacement": replacement}
    return topic_of(ConnectorConfig({"topic.prefix": "p", **REGEX, **more}), "public.people")


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
    assert topic_of(ConnectorConfig({"topic.prefix": "p"}), "public.people") == "p.public.people"


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
    assert topic_of(config, "public.people") == "people.changes"


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
    assert relations_of(ConnectorConfig({"table.include.list": listed})) == relations
