"""Each setting of a source that loses or misreads rows is found, and a sound configuration has none.

The first ones are the ways in which rows were lost or kept for real, in silence.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.connectors.binlog_source import UNTOLD
from streamer.incremental.connectors.connector_config import ConnectorConfig, Finding
from streamer.incremental.connectors.database import MARIADB, MYSQL, POSTGRES
from streamer.incremental.connectors.debezium_source import source_config
from streamer.incremental.connectors.source_findings import is_source_of, not_checked, source_findings
from streamer.table.schema import KeptColumn
from worlds.published_forms import AGE, TABLE

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SOUND = source_config(TABLE, POSTGRES)


def findings(**changed: str | None) -> dict[str, Finding]:
    """Findings by setting, of the sound configuration with some settings changed; None: left out. `__` is a dot."""
    settings: dict[str, str] = dict(SOUND)
    for name, value in changed.items():
        settings.pop(name.replace("__", "."), None)
        if value is not None:
            settings[name.replace("__", ".")] = value
    return {found.setting: found for found in source_findings(TABLE, ConnectorConfig(settings))}


@pytest.mark.parametrize("connector", [POSTGRES, MYSQL, MARIADB])
@pytest.mark.parametrize("schemas", [True, False])
def test_what_streamer_connect_prints_has_no_finding(connector: str, schemas: bool) -> None:
    config = ConnectorConfig(source_config(TABLE, connector, schemas=schemas))
    assert source_findings(replace(TABLE, decimals_are_text=not schemas), config) == []
    assert not_checked(TABLE, config)[1:] == [*(() if connector == POSTGRES else UNTOLD)]


def test_truncate_is_skipped_by_default() -> None:
    found = findings(skipped__operations=None)["skipped.operations"]
    assert found == Finding(
        "skipped.operations",
        "not set: t",
        "TRUNCATE is left out: what is gone stays published",
        "set it to none",
    )
    assert "every deletion and TRUNCATE are" in findings(skipped__operations="t,d")["skipped.operations"].consequence


def test_keys_of_other_columns_than_table_yaml_s() -> None:
    found = findings(message__key__columns=r"public\.people:ward,number")
    assert list(found) == ["message.key.columns"]
    assert found["message.key.columns"].mend == r"set it to public\.people:id"
    assert findings(message__key__columns=r"other:x;public\.(people|beds):id") == {}


def test_a_composite_key_may_come_in_any_order() -> None:
    table = replace(TABLE, source_key=("ward", "number"))
    config = source_config(table, POSTGRES) | {"message.key.columns": r"public\.people:number,ward"}
    assert source_findings(table, ConnectorConfig(config)) == []


def test_a_primary_key_that_the_configuration_does_not_tell_is_said_to_be_unchecked() -> None:
    settings = {name: value for name, value in SOUND.items() if name != "message.key.columns"}
    assert source_findings(TABLE, ConnectorConfig(settings)) == []
    assert any("primary key must be exactly id" in left for left in not_checked(TABLE, ConnectorConfig(settings)))


def test_decimals_without_a_schema_are_base64_that_may_look_like_numbers() -> None:
    bare = {"decimal__handling__mode": None, "value__converter__schemas__enable": "false"}
    assert "bmi, cost" in findings(**bare)["decimal.handling.mode"].consequence
    assert findings(decimal__handling__mode=None) == {}, "with a schema they say what they are"
    assert findings(**bare, value__converter__decimal__format="numeric") == {}
    assert findings(**{**bare, "decimal__handling__mode": "double"}) == {}


def test_digits_without_a_schema_are_texts_only_where_table_yaml_says_so() -> None:
    found = findings(value__converter__schemas__enable="false")["value.converter.schemas.enable"]
    assert "bmi, cost" in found.consequence
    assert "`input: {decimals: text}`" in found.mend


def test_dates_without_a_schema_are_numbers() -> None:
    table = replace(TABLE, attributes=(AGE,), kept=(KeptColumn("admitted", sensitive=False, type="date"),))
    config = ConnectorConfig(source_config(table, POSTGRES, schemas=False))
    (found,) = source_findings(table, config)
    assert found.setting == "time.precision.mode"
    assert found.consequence.startswith("admitted: without a schema")
    assert source_findings(table, ConnectorConfig(config.settings | {"time.precision.mode": "isostring"})) == []
    assert source_findings(table, ConnectorConfig(source_config(table, POSTGRES))) == []


@pytest.mark.parametrize("type_", ["timestamp", "local-timestamp"])
def test_iso_texts_without_a_schema_give_a_clock_on_the_wall_the_z_of_an_instant(type_: str) -> None:
    table = replace(TABLE, attributes=(AGE,), kept=(KeptColumn("seen", sensitive=False, type=type_),))
    settings = {"time.precision.mode": "isostring"}
    config = ConnectorConfig(source_config(table, POSTGRES, schemas=False) | settings)
    (found,) = source_findings(table, config)
    assert found.consequence.startswith("seen: ") and "schemas.enable" in found.mend
    assert source_findings(table, ConnectorConfig(source_config(table, POSTGRES) | settings)) == []


def test_nulls_that_come_as_the_column_s_default() -> None:
    name = "value.converter.replace.null.with.default"
    assert list(findings(value__converter__replace__null__with__default=None)) == [name]


@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("converter", [None, "org.apache.kafka.connect.storage.StringConverter"])
def test_converters_of_another_form_or_of_the_worker(side: str, converter: str | None) -> None:
    found = findings(**{f"{side}__converter": converter})
    assert list(found) == [f"{side}.converter"]
    assert found[f"{side}.converter"].mend == f"set it to {CONVERTER}"


def test_a_partitioner_that_is_not_kafka_s() -> None:
    setting = {"producer__override__partitioner__class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
    assert "wrong-partition" in findings(**setting)["producer.override.partitioner.class"].consequence
    stated = replace(TABLE, partitioner_stated=True)
    config = ConnectorConfig(SOUND | {"producer.override.partitioner.class": "x.Y"})
    assert source_findings(stated, config) == []


def test_a_destination_that_is_not_the_table_s_input() -> None:
    found = findings(transforms=None)["transforms"]
    assert (found.found, found.consequence) == ("rows come to people.public.people", "nothing comes to people.changes")
    assert "people.changes" in found.mend


def test_rows_of_two_tables_in_one_input() -> None:
    both = {
        "table__include__list": r"public\.people,public\.beds",
        "transforms__route__regex": r"people\.public\..*",
    }
    assert "rows of several tables" in findings(**both)["table.include.list"].consequence


def test_a_route_that_cannot_be_told_is_not_claimed_to_be_wrong() -> None:
    assert findings(table__include__list="public.*") == {}
    config = ConnectorConfig(SOUND | {"table.include.list": "public.*"})
    assert any("table.include.list" in left for left in not_checked(TABLE, config))


@pytest.mark.parametrize(
    ("setting", "value", "columns"),
    [
        ("column.include.list", r"public\.people\.(id|age|city|problem|visits|smokes)", "bmi, cost"),
        ("column.exclude.list", r"public\.people\.c.*", "city, cost"),
        ("column.mask.with.4.chars", r"public\.people\.problem", "problem"),
        ("column.truncate.to.3.chars", ".*problem", "problem"),
    ],
)
def test_columns_that_table_yaml_names_and_that_do_not_come_as_they_are(setting: str, value: str, columns: str) -> None:
    assert findings(**{setting.replace(".", "__"): value})[setting].found == columns


def test_the_salt_of_a_mask_stands_in_a_setting_s_name_and_is_not_shown() -> None:
    found = findings(**{"column__mask__hash__SHA-256__with__salt__pw-Canary": r"public\.people\.age"})
    assert [one.found for one in found.values()] == ["age"]
    assert "Canary" not in str(found)


def test_columns_that_table_yaml_does_not_name_may_be_left_out_or_masked() -> None:
    masked = {"column__mask__with__4__chars": r"public\.people\.name", "column__include__list": None}
    assert findings(**masked, column__exclude__list=r"public\.people\.(name|address)") == {}


@pytest.mark.parametrize("mode", ["no_data", "never", "schema_only", "initial_only"])
def test_a_snapshot_or_a_stream_that_never_comes(mode: str) -> None:
    assert findings(snapshot__mode=mode)["snapshot.mode"].found == mode


@pytest.mark.parametrize("mode", ["always", "when_needed", None])
def test_snapshots_that_may_come_again_lose_nothing(mode: str | None) -> None:
    assert findings(snapshot__mode=mode) == {}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("errors.tolerance", "all"),
        ("event.processing.failure.handling.mode", "warn"),
        ("unavailable.value.placeholder", "pw-Canary"),
        ("snapshot.select.statement.overrides", "public.people"),
        ("topic.creation.changes.cleanup.policy", "compact"),
        ("topic.creation.changes.retention.ms", "604800000"),
    ],
)
def test_settings_that_drop_something_in_silence(setting: str, value: str) -> None:
    found = findings(**{setting.replace(".", "__"): value})
    assert list(found) == [setting]
    assert "Canary" not in str(found)


def test_an_input_that_connect_would_make_by_its_default_group() -> None:
    found = findings(topic__creation__groups=None, topic__creation__default__cleanup__policy="compact")
    assert list(found) == ["topic.creation.default.cleanup.policy"]
    assert findings(topic__creation__default__cleanup__policy="compact") == {}, "its own group comes first"


def test_transforms_are_judged_too() -> None:
    flattened = {
        "transforms": "route,flat",
        "transforms__flat__type": "io.debezium.transforms.ExtractNewRecordState",
    }
    assert "transforms.flat.type" in findings(**flattened)


def test_tombstones_may_be_left_out_because_deletions_say_it_themselves() -> None:
    assert findings(tombstones__on__delete="false") == {}


def test_a_source_that_is_none_of_debezium_s_is_only_looked_at_in_general() -> None:
    config = ConnectorConfig({"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"})
    assert {found.setting for found in source_findings(TABLE, config)} == {"key.converter", "value.converter"}
    assert "none of Debezium's" in not_checked(TABLE, config)[0]


@pytest.mark.parametrize(
    ("settings", "is_meant"),
    [
        ({"topic.prefix": "people"}, True),
        ({"table.include.list": "public.beds,public.people"}, True),
        ({"transforms": "r", "transforms.r.replacement": "people.changes"}, True),
        ({"topic.prefix": "people2", "table.include.list": "public.beds"}, False),
    ],
)
def test_a_source_is_a_table_s_where_it_names_it(settings: dict[str, str], is_meant: bool) -> None:
    assert is_source_of(TABLE, ConnectorConfig(settings)) is is_meant
