"""The topics of a table: what must hold of each so that no person is lost and no reader is left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.topics import (
    CHANGES,
    COMPACTED_CHANGES,
    LIVE,
    QIT,
    READER_TIME_MS,
    REQUIRED_CONFIGS,
    SEALED,
    STT,
    create_config,
    is_as_required,
    live_kinds,
    outputs_of,
    published_kinds,
    topic_name,
    topics_of,
)
from worlds.sealed_people import sealed_table


def test_every_topic_is_named_after_its_table_and_the_input_comes_first() -> None:
    topics = topics_of("patients")
    assert topics[0].name == "patients.changes"
    assert [topic.name for topic in topics] == [topic_name("patients", topic.kind) for topic in topics]
    assert {topic.kind: topic.config for topic in topics} == REQUIRED_CONFIGS


def test_the_input_is_kept_for_ever_for_a_lost_store_is_repeated_from_it() -> None:
    assert REQUIRED_CONFIGS[CHANGES] == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def test_neither_rows_nor_tombstones_go_before_a_reader_has_had_a_day() -> None:
    config = REQUIRED_CONFIGS[LIVE]
    assert config["cleanup.policy"] == "compact"
    assert config["min.compaction.lag.ms"] == config["delete.retention.ms"] == READER_TIME_MS == "86400000"


def test_a_record_that_was_replaced_does_not_stay_for_ever_in_topics_that_are_created() -> None:
    for topic in topics_of("patients"):
        config = create_config(topic, 1)
        assert ("max.compaction.lag.ms" in config) == (topic.kind in (LIVE, QIT, STT))
        assert {name: config[name] for name in topic.config} == topic.config


def test_a_compacted_input_gives_a_shard_time_to_read_deletions_and_may_give_more() -> None:
    def fits(**times: str) -> bool:
        found = {**COMPACTED_CHANGES, **{name.replace("_", "."): value for name, value in times.items()}}
        return all(is_as_required(name, found[name], required) for name, required in COMPACTED_CHANGES.items())

    assert fits() and fits(delete_retention_ms="999999999") and fits(max_compaction_lag_ms="86400000")
    assert not fits(delete_retention_ms="86400000")
    assert not fits(min_compaction_lag_ms="0")
    assert not fits(max_compaction_lag_ms=str((1 << 63) - 1))
    assert not fits(cleanup_policy="compact,delete")


def test_every_form_has_the_topics_that_hold_it_and_not_those_of_another() -> None:
    kinds = {
        form: {topic.kind for topic in topics_of("patients", outputs_of(form))}
        for form in ("rows", "groups", "lossy-join")
    }
    assert kinds["rows"] == kinds["groups"] == set(REQUIRED_CONFIGS) - {QIT, STT, SEALED}
    assert kinds["lossy-join"] == set(REQUIRED_CONFIGS) - {LIVE, SEALED}
    assert REQUIRED_CONFIGS[QIT] == REQUIRED_CONFIGS[STT] == REQUIRED_CONFIGS[LIVE]


def test_a_sealed_changelog_has_a_topic_that_loses_nothing_and_may_be_all_that_a_table_publishes() -> None:
    table = sealed_table()
    assert live_kinds(table) == () and published_kinds(table) == (SEALED,)
    assert published_kinds(replace(table, live=True)) == (LIVE, SEALED)
    assert published_kinds(replace(table, live=True, sealed=None)) == (LIVE,)
    config = REQUIRED_CONFIGS[SEALED]
    assert (config["cleanup.policy"], config["retention.ms"], config["retention.bytes"]) == ("delete", "-1", "-1")
    assert config["message.timestamp.type"] == "CreateTime"  # a broker's own times would tell when something arrived


@pytest.mark.parametrize(("replicas", "confirming"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_two_copies_confirm_where_there_are_three_and_else_the_broker_decides(
    replicas: int, confirming: str | None
) -> None:
    for topic in topics_of("patients"):
        settings = create_config(topic, replicas)
        assert settings.pop("min.insync.replicas", None) == confirming
        assert settings.items() >= topic.config.items()
