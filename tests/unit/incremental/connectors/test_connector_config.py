"""A connector's configuration as it is read: bare or named, with values as texts."""

from __future__ import annotations

import pytest

from streamer.errors import UsageError
from streamer.incremental.connectors.connector_config import ConnectorConfig, Finding, config_of, names_matched


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


def test_transforms_come_in_their_order_with_their_own_settings() -> None:
    config = ConnectorConfig(
        {
            "transforms": "b, a",
            "transforms.a.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.b.type": "io.debezium.transforms.ByLogicalTableRouter",
            "transforms.b.topic.regex": " x ",
        }
    )
    first, second = config.transforms()
    assert (first.alias, first.simple_type, first.settings["topic.regex"]) == ("b", "ByLogicalTableRouter", "x")
    assert (second.simple_type, second.setting("type")) == ("ReplaceField", "transforms.a.type")


def test_booleans_and_lists_are_read_as_connect_reads_them() -> None:
    config = ConnectorConfig({"on": " TRUE ", "off": "no", "list": "a, b,,c "})
    assert (config.is_on("on", False), config.is_on("off", True), config.is_on("none", True)) == (True, False, True)
    assert config.listed("list") == ["a", "b", "c"]
    assert config.shown("none") == "not set"


def test_names_are_matched_whole_and_whatever_their_case() -> None:
    names = ["public.people", "public.people2"]
    assert names_matched([r"Public\.People"], names) == {"public.people"}
    assert names_matched([r"public\..*", "("], names) == set(names)


def test_a_finding_is_one_sentence() -> None:
    assert str(Finding("a", "not set", "rows go", "set it")) == "a (not set): rows go; set it"
