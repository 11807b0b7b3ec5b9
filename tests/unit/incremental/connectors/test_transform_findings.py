"""What message transforms would do to the rows of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.connectors.connector_config import ConnectorConfig
from streamer.incremental.connectors.transform_findings import ALTERING, transform_findings, unknown_transforms
from worlds.published_forms import TABLE


def with_transform(type_: str, **settings: str) -> ConnectorConfig:
    own = {f"transforms.x.{name.replace('_', '.')}": value for name, value in settings.items()}
    return ConnectorConfig({"transforms": "x", "transforms.x.type": type_, **own})


def found(type_: str, **settings: str) -> list[str]:
    return [
        one.setting.removeprefix("transforms.x.")
        for one in transform_findings(TABLE, with_transform(type_, **settings))
    ]


FLATTEN = "io.debezium.transforms.ExtractNewRecordState"
MODE, NULLS = "delete.tombstone.handling.mode", "replace.null.with.default"


def test_a_flattened_row_loses_truncate_in_every_mode() -> None:
    sound = {"delete_tombstone_handling_mode": "rewrite", "replace_null_with_default": "false"}
    assert found(FLATTEN, **sound) == ["type"]
    (finding,) = transform_findings(TABLE, with_transform(FLATTEN, **sound))
    assert "TRUNCATE is dropped" in finding.consequence


def test_a_flattened_row_by_default_does_not_say_that_it_is_one_and_shows_defaults_for_nulls() -> None:
    assert found(FLATTEN) == ["type", MODE, NULLS]
    assert MODE not in found(FLATTEN, add_fields="op,source.snapshot")
    assert MODE in found(FLATTEN, add_fields="op", add_fields_prefix="_"), "another prefix, another name"
    assert MODE not in found(FLATTEN, delete_handling_mode="rewrite"), "as older releases say it"


def test_rows_without_a_mark_are_read_where_table_yaml_says_so() -> None:
    findings = transform_findings(replace(TABLE, input_rows=True), with_transform(FLATTEN))
    assert [one.setting.removeprefix("transforms.x.") for one in findings] == ["type", NULLS]


def test_deletions_that_a_transform_drops_are_found_whatever_else_it_adds() -> None:
    (_, finding, _) = transform_findings(
        TABLE, with_transform(FLATTEN, delete_tombstone_handling_mode="drop", add_fields="op")
    )
    assert (finding.found, finding.consequence) == ("drop", "deletions never come")


def test_a_router_by_table_adds_a_field_to_every_key_unless_it_is_told_not_to() -> None:
    router = "io.debezium.transforms.ByLogicalTableRouter"
    assert found(router) == ["key.enforce.uniqueness"]
    assert found(router, key_enforce_uniqueness="false") == []


@pytest.mark.parametrize("kind", sorted(ALTERING))
def test_transforms_that_change_messages_are_named_with_what_comes_of_it(kind: str) -> None:
    assert found(f"org.apache.kafka.connect.transforms.{kind}") == ["type"]
    assert found(f"org.apache.kafka.connect.transforms.{kind}$Value") == ["type"]


def test_headers_and_topics_may_change_and_an_unknown_transform_is_said_to_be_unknown() -> None:
    assert found("org.apache.kafka.connect.transforms.InsertHeader") == []
    assert unknown_transforms(with_transform("org.apache.kafka.connect.transforms.RegexRouter")) == []
    assert unknown_transforms(with_transform("com.example.Scramble")) == [
        "transforms.x.type: what Scramble does to messages"
    ]
