"""The fingerprint of a state says by parts what kept it, so that whoever meets another one can say what differs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from streamer.table.attributes import CategoricalAttribute
from streamer.table.fingerprint import Differences, differences
from streamer.table.schema import AVRO, GROUPS, Diversity, Limits, SourceText, Table
from worlds.small_tables import AGE, CITIES, CITY, table

PEOPLE = table(AGE, CITY, k=3)
OTHER_CITY = CategoricalAttribute("city", CITIES, CITY.unit, other_code=2)

CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"attributes": (replace(AGE, grid=Decimal(6)), CITY)}, "columns"),
    ({"attributes": (AGE, OTHER_CITY)}, "columns"),
    ({"kept": ()}, "columns"),
    ({"source_key": ("number",)}, "columns"),
    ({"individual": "ssn"}, "columns"),
    ({"source_texts": (SourceText("age", ("?",)),)}, "columns"),
    ({"k": 4}, "privacy"),
    ({"diversity": Diversity(l=2)}, "privacy"),
    ({"recut": False}, "engine"),
    ({"shrink": False}, "engine"),
    ({"limits": Limits(statement_rows_max=7)}, "limits"),
    ({"input_rows": True}, "input"),
    ({"decimals_are_text": True}, "input"),
    ({"partitioner_stated": True}, "input"),
    ({"form": GROUPS}, "publish"),
    ({"format": AVRO}, "publish"),
]


@pytest.mark.parametrize(("changed", "part"), CHANGED)
def test_the_part_of_table_yaml_that_has_changed_is_named(changed: dict[str, Any], part: str) -> None:
    other: Table = replace(PEOPLE, **changed)
    assert differences(PEOPLE.fingerprint, other.fingerprint) == Differences(None, (part,))


def test_two_changes_are_two_parts() -> None:
    other = replace(PEOPLE, k=4, form=GROUPS)
    assert differences(PEOPLE.fingerprint, other.fingerprint).parts == ("privacy", "publish")
    assert differences(PEOPLE.fingerprint, replace(PEOPLE).fingerprint) == Differences(None, ())


def test_another_version_of_the_engine_is_no_change_of_table_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 41)
    former = replace(PEOPLE).fingerprint
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 42)
    assert differences(former, replace(PEOPLE).fingerprint) == Differences(("41", "42"), ())


def test_local_repair_has_a_version_of_its_own_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 41)
    monkeypatch.setattr("streamer.table.schema.REPAIR_VERSION", 8)
    repaired = replace(PEOPLE, repair=0.05)
    assert differences(replace(PEOPLE).fingerprint, repaired.fingerprint) == Differences(("41", "41.8"), ("engine",))


def test_a_fingerprint_that_is_one_hash_says_no_version_and_no_part() -> None:
    """So streamers kept it that had engine version 5 or a lower one."""
    versions, parts = differences("0123456789abcdef0123456789abcdef", PEOPLE.fingerprint)
    assert versions is not None and (versions[0], parts) == ("", ())


def test_a_fingerprint_tells_no_name_of_a_column() -> None:
    assert not any(word in PEOPLE.fingerprint for word in ("city", "age:", "problem", "id"))
