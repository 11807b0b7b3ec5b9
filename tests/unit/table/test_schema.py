"""A table as values: its columns by number, and the fingerprint that says whether two tables may share a state."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import (
    AVRO,
    GROUPS,
    Differences,
    Diversity,
    KeptColumn,
    Limits,
    RebuildRules,
    SourceText,
    Table,
    differences,
)
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, table

# The fingerprint of a state says by parts what kept it, so that whoever meets another one can say what differs.

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


D = Decimal
SCHEMA_PEOPLE = Table("people", ("id",), (AGE, CITY, BMI), (PROBLEM, KeptColumn("ward", sensitive=False)), k=3)


def test_columns_are_numbered_in_the_order_of_the_table() -> None:
    assert SCHEMA_PEOPLE.stepless == (2,)
    assert SCHEMA_PEOPLE.sensitive == (0,)
    assert SCHEMA_PEOPLE.space.d == 3


def test_a_demand_beside_k_is_true_and_none_is_false() -> None:
    assert not Diversity()
    assert not Diversity(level=2, null_counts=True)
    assert Diversity(beta=D("0.5"))


OTHER_CITIES = Hierarchy.from_rows([["a1", "*"], ["b1", "*"]])
DIFFERENT = {
    "another key": replace(SCHEMA_PEOPLE, source_key=("ssn",)),
    "individuals": replace(SCHEMA_PEOPLE, individual="ssn"),
    "another k": replace(SCHEMA_PEOPLE, k=4),
    "diversity": replace(SCHEMA_PEOPLE, diversity=Diversity(l=2)),
    "rows without a mark": replace(SCHEMA_PEOPLE, input_rows=True),
    "decimals that are text": replace(SCHEMA_PEOPLE, decimals_are_text=True),
    "no recut": replace(SCHEMA_PEOPLE, recut=False),
    "no shrink": replace(SCHEMA_PEOPLE, shrink=False),
    "local repair": replace(SCHEMA_PEOPLE, repair=0.05),
    "another order": replace(SCHEMA_PEOPLE, attributes=(CITY, AGE, BMI)),
    "a wider domain": replace(SCHEMA_PEOPLE, attributes=(replace(AGE, domain=(D(1), D(24))), CITY, BMI)),
    "another grid": replace(SCHEMA_PEOPLE, attributes=(replace(AGE, grid=D(6)), CITY, BMI)),
    "another unit": replace(SCHEMA_PEOPLE, attributes=(replace(AGE, unit=D(5)), CITY, BMI)),
    "a null that counts": replace(SCHEMA_PEOPLE, attributes=(replace(AGE, null_code=0), CITY, BMI)),
    "another hierarchy": replace(
        SCHEMA_PEOPLE, attributes=(AGE, CategoricalAttribute("city", OTHER_CITIES, D("1.2")), BMI)
    ),
    "a kept column less": replace(SCHEMA_PEOPLE, kept=(PROBLEM,)),
    "a typed column": replace(SCHEMA_PEOPLE, kept=(replace(PROBLEM, type="text"), SCHEMA_PEOPLE.kept[1])),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_tables_whose_states_mean_different_things_have_different_fingerprints(other: Table) -> None:
    assert other.fingerprint != SCHEMA_PEOPLE.fingerprint


def test_whether_nulls_count_belongs_to_the_fingerprint() -> None:
    one, other = (replace(SCHEMA_PEOPLE, diversity=Diversity(l=2, null_counts=counts)) for counts in (False, True))
    assert one.fingerprint != other.fingerprint


def test_another_local_repair_is_another_state_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = (0.0, 0.05)
    before = [replace(SCHEMA_PEOPLE, repair=price).fingerprint for price in prices]
    monkeypatch.setattr("streamer.table.schema.REPAIR_VERSION", 999)
    after = [replace(SCHEMA_PEOPLE, repair=price).fingerprint for price in prices]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_the_same_table_has_the_same_fingerprint_whatever_its_name_and_however_fast_it_steps() -> None:
    again = Table("others", ("id",), (AGE, CITY, BMI), SCHEMA_PEOPLE.kept, k=3)
    assert again.fingerprint == SCHEMA_PEOPLE.fingerprint
    assert replace(SCHEMA_PEOPLE, limits=Limits(batch_events_max=7)).fingerprint == SCHEMA_PEOPLE.fingerprint
    assert replace(SCHEMA_PEOPLE, rebuilding=RebuildRules("emp", 60, None)).fingerprint == SCHEMA_PEOPLE.fingerprint


def test_the_contents_of_a_hierarchy_decide_and_not_who_read_it() -> None:
    again = Hierarchy.from_rows(
        [["a1", "a", "west", "*"], ["a2", "a", "west", "*"], ["b1", "b", "west", "*"], ["c1", "east", "*"],
         ["c2", "east", "*"], ["d1", "*"]]
    )  # fmt: skip
    same = replace(SCHEMA_PEOPLE, attributes=(AGE, CategoricalAttribute("city", again, CITY.unit), BMI))
    assert again is not CITIES
    assert same.fingerprint == SCHEMA_PEOPLE.fingerprint
