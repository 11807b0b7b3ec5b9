"""A table as values: its columns by number, and the fingerprint that says whether two tables may share a state."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Diversity, KeptColumn, Limits, Rebuilding, Table
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM

D = Decimal
PEOPLE = Table("people", ("id",), (AGE, CITY, BMI), (PROBLEM, KeptColumn("ward", sensitive=False)), k=3)


def test_columns_are_numbered_in_the_order_of_the_table() -> None:
    assert PEOPLE.stepless == (2,)
    assert PEOPLE.sensitive == (0,)
    assert PEOPLE.space.d == 3


def test_a_demand_beside_k_is_true_and_none_is_false() -> None:
    assert not Diversity()
    assert not Diversity(level=2, null_counts=True)
    assert Diversity(beta=D("0.5"))


OTHER_CITIES = Hierarchy.from_rows([["a1", "*"], ["b1", "*"]])
DIFFERENT = {
    "another key": replace(PEOPLE, source_key=("ssn",)),
    "individuals": replace(PEOPLE, individual="ssn"),
    "another k": replace(PEOPLE, k=4),
    "diversity": replace(PEOPLE, diversity=Diversity(l=2)),
    "rows without a mark": replace(PEOPLE, input_rows=True),
    "decimals that are text": replace(PEOPLE, decimals_are_text=True),
    "no recut": replace(PEOPLE, recut=False),
    "no shrink": replace(PEOPLE, shrink=False),
    "local repair": replace(PEOPLE, repair=0.05),
    "another order": replace(PEOPLE, attributes=(CITY, AGE, BMI)),
    "a wider domain": replace(PEOPLE, attributes=(replace(AGE, domain=(D(1), D(24))), CITY, BMI)),
    "another grid": replace(PEOPLE, attributes=(replace(AGE, grid=D(6)), CITY, BMI)),
    "another unit": replace(PEOPLE, attributes=(replace(AGE, unit=D(5)), CITY, BMI)),
    "a null that counts": replace(PEOPLE, attributes=(replace(AGE, null_code=0), CITY, BMI)),
    "another hierarchy": replace(PEOPLE, attributes=(AGE, CategoricalAttribute("city", OTHER_CITIES, D("1.2")), BMI)),
    "a kept column less": replace(PEOPLE, kept=(PROBLEM,)),
    "a typed column": replace(PEOPLE, kept=(replace(PROBLEM, type="text"), PEOPLE.kept[1])),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_tables_whose_states_mean_different_things_have_different_fingerprints(other: Table) -> None:
    assert other.fingerprint != PEOPLE.fingerprint


def test_whether_nulls_count_belongs_to_the_fingerprint() -> None:
    one, other = (replace(PEOPLE, diversity=Diversity(l=2, null_counts=counts)) for counts in (False, True))
    assert one.fingerprint != other.fingerprint


def test_another_local_repair_is_another_state_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = (0.0, 0.05)
    before = [replace(PEOPLE, repair=price).fingerprint for price in prices]
    monkeypatch.setattr("streamer.table.schema.REPAIR_VERSION", 999)
    after = [replace(PEOPLE, repair=price).fingerprint for price in prices]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_the_same_table_has_the_same_fingerprint_whatever_its_name_and_however_fast_it_steps() -> None:
    again = Table("others", ("id",), (AGE, CITY, BMI), PEOPLE.kept, k=3)
    assert again.fingerprint == PEOPLE.fingerprint
    assert replace(PEOPLE, limits=Limits(batch_events_max=7)).fingerprint == PEOPLE.fingerprint
    assert replace(PEOPLE, rebuilding=Rebuilding("emp", 60, None)).fingerprint == PEOPLE.fingerprint


def test_the_contents_of_a_hierarchy_decide_and_not_who_read_it() -> None:
    again = Hierarchy.from_rows(
        [["a1", "a", "west", "*"], ["a2", "a", "west", "*"], ["b1", "b", "west", "*"], ["c1", "east", "*"],
         ["c2", "east", "*"], ["d1", "*"]]
    )  # fmt: skip
    same = replace(PEOPLE, attributes=(AGE, CategoricalAttribute("city", again, CITY.unit), BMI))
    assert again is not CITIES
    assert same.fingerprint == PEOPLE.fingerprint
