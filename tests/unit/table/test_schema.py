"""A table as values: its columns by number, and the fingerprint that says whether two tables may share a state."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from streamer.table.codes import CategoricalAttribute, Diversity, KeptColumn, SourceText
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import (
    AVRO,
    ENGINE_VERSION,
    GROUPS,
    REPAIR,
    REPAIR_VERSION,
    VERSION,
    Differences,
    Limits,
    RebuildRules,
    Repair,
    Table,
    differences,
)
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM

D = Decimal
PEOPLE = Table("people", ("id",), (AGE, CITY, BMI), (PROBLEM, KeptColumn("ward", sensitive=False)), k=3)
OTHER_CITIES = Hierarchy.from_rows([["a1", "*"], ["b1", "*"]])


def of_version(fingerprint: str, version: str) -> str:
    """The fingerprint that another version of the engine would have given the same table."""
    _, rest = fingerprint.split(" ", 1)
    return f"{VERSION}:{version} {rest}"


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"attributes": (CITY, AGE, BMI)}, "columns"),
        ({"attributes": (replace(AGE, domain=(D(1), D(24))), CITY, BMI)}, "columns"),
        ({"attributes": (replace(AGE, grid=D(6)), CITY, BMI)}, "columns"),
        ({"attributes": (replace(AGE, unit=D(5)), CITY, BMI)}, "columns"),
        ({"attributes": (replace(AGE, null_code=0), CITY, BMI)}, "columns"),
        ({"attributes": (AGE, replace(CITY, other_code=2), BMI)}, "columns"),
        ({"attributes": (AGE, CategoricalAttribute("city", OTHER_CITIES, CITY.unit), BMI)}, "columns"),
        ({"kept": (PROBLEM,)}, "columns"),
        ({"kept": (replace(PROBLEM, type="text"), PEOPLE.kept[1])}, "columns"),
        ({"source_key": ("ssn",)}, "columns"),
        ({"individual": "ssn"}, "columns"),
        ({"source_texts": (SourceText("age", ("?",)),)}, "columns"),
        ({"k": 4}, "privacy"),
        ({"diversity": Diversity(l=2)}, "privacy"),
        ({"kept": (replace(PROBLEM, diversity=Diversity(l=2)), PEOPLE.kept[1])}, "privacy"),
        ({"recut": False}, "engine"),
        ({"shrink": False}, "engine"),
        ({"limits": Limits(event_bytes_max=7)}, "limits"),
        ({"limits": Limits(statement_rows_max=7)}, "limits"),
        ({"limits": Limits(row_bytes_max=7)}, "limits"),
        ({"input_rows": True}, "input"),
        ({"decimals_are_text": True}, "input"),
        ({"partitioner_stated": True}, "input"),
        ({"form": GROUPS}, "publish"),
        ({"format": AVRO}, "publish"),
    ],
)
def test_the_part_of_table_yaml_that_has_changed_is_named(changed: dict[str, Any], part: str) -> None:
    other: Table = replace(PEOPLE, **changed)
    assert differences(PEOPLE.fingerprint, other.fingerprint) == Differences(None, (part,))


def test_two_changes_are_two_parts() -> None:
    other = replace(PEOPLE, k=4, form=GROUPS)
    assert differences(PEOPLE.fingerprint, other.fingerprint).parts == ("privacy", "publish")
    assert differences(PEOPLE.fingerprint, replace(PEOPLE).fingerprint) == Differences(None, ())


def test_whether_nulls_count_belongs_to_the_fingerprint() -> None:
    one, other = (replace(PEOPLE, diversity=Diversity(l=2, null_counts=counts)) for counts in (False, True))
    assert one.fingerprint != other.fingerprint


def test_another_version_of_the_engine_is_no_change_of_table_yaml() -> None:
    former = of_version(PEOPLE.fingerprint, "5")
    assert differences(former, PEOPLE.fingerprint) == Differences(("5", f"{ENGINE_VERSION}"), ())


def test_only_a_table_with_local_repair_has_the_version_and_the_price_of_it() -> None:
    cheap, dear = replace(PEOPLE, repair=Repair(0.05)), replace(PEOPLE, repair=Repair(0.06))
    versions = f"{ENGINE_VERSION}", f"{ENGINE_VERSION}.{REPAIR_VERSION}"
    assert differences(PEOPLE.fingerprint, cheap.fingerprint) == Differences(versions, ("engine",))
    assert differences(cheap.fingerprint, dear.fingerprint) == Differences(None, ("engine",))
    share, usual = (replace(PEOPLE, repair=one) for one in (Repair(share=0.06), REPAIR))
    assert differences(cheap.fingerprint, share.fingerprint) == Differences(None, ("engine",))
    assert differences(usual.fingerprint, share.fingerprint) == Differences(None, ("engine",))


def test_the_default_of_local_repair_is_no_change_of_table_yaml_for_a_state_of_its_first_version() -> None:
    """It was a price of 0.055 for every table, and table.yaml did not name it."""
    usual, stated = replace(PEOPLE, repair=REPAIR), replace(PEOPLE, repair=Repair(0.055))
    assert "engine:2c5188cd0973f97f" in usual.fingerprint.split(), "as version 7.3 wrote it"
    assert differences(usual.fingerprint, stated.fingerprint) == Differences(None, ("engine",))


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        (Repair(share=0.07), "engine:2c5188cd0973f97f"),
        (Repair(share=0.05), "engine:e13f63bc9a8fc394"),
        (REPAIR, "engine:2c5188cd0973f97f"),
    ],
)
def test_a_share_that_was_stated_is_no_change_of_table_yaml_when_the_default_changes(stated: Repair, kept: str) -> None:
    """Version 7.4 hashed 7 %, stated or not, as the default; of 5 % it hashed the text."""
    ours = replace(PEOPLE, repair=stated)
    parts = (kept if part.startswith("engine:") else part for part in ours.fingerprint.split())
    former = of_version(" ".join(parts), "7.4")
    assert ours.differences(former) == Differences(("7.4", f"{ENGINE_VERSION}.{REPAIR_VERSION}"), ())
    other = replace(PEOPLE, repair=Repair(share=0.06))
    assert other.differences(former).parts == ("engine",)
    assert ours.differences(other.fingerprint) == Differences(None, ("engine",))


def test_a_fingerprint_that_is_one_hash_says_no_version_and_no_part() -> None:
    """As before engine version 6."""
    versions, parts = differences("0123456789abcdef0123456789abcdef", PEOPLE.fingerprint)
    assert versions is not None and (versions[0], parts) == ("", ())


def test_a_fingerprint_contains_no_name_of_a_column() -> None:
    assert not any(word in PEOPLE.fingerprint for word in ("city", "age:", "problem", "id"))


def test_columns_are_numbered_in_the_order_of_the_table() -> None:
    assert PEOPLE.stepless == (2,)
    assert PEOPLE.sensitive == (0,)
    assert PEOPLE.space.d == 3


def test_a_demand_beside_k_is_true_and_none_is_false() -> None:
    assert not Diversity()
    assert not Diversity(level=2, null_counts=True)
    assert Diversity(beta=D("0.5"))


def test_neither_the_name_nor_the_speed_of_a_table_belongs_to_the_fingerprint() -> None:
    for other in (
        replace(PEOPLE, name="others"),
        replace(PEOPLE, limits=Limits(batch_events_max=7, transaction_rows_max=700)),
        replace(PEOPLE, rebuilding=RebuildRules("emp", 60, None)),
    ):
        assert other.fingerprint == PEOPLE.fingerprint


def test_the_contents_of_a_hierarchy_decide_and_not_the_object() -> None:
    again = Hierarchy.from_rows(
        [["a1", "a", "west", "*"], ["a2", "a", "west", "*"], ["b1", "b", "west", "*"], ["c1", "east", "*"],
         ["c2", "east", "*"], ["d1", "*"]]
    )  # fmt: skip
    same = replace(PEOPLE, attributes=(AGE, CategoricalAttribute("city", again, CITY.unit), BMI))
    assert again is not CITIES
    assert same.fingerprint == PEOPLE.fingerprint
