"""The settings of laws about distributions: what a sensitive column may ask for, and what is refused with a remedy."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

import streamer
from streamer.errors import ConfigError
from streamer.privacy.models import model_of, words
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.fragments.steps import Recipe
from streamer.table.codes import EQUAL, HIERARCHICAL, ORDERED, DistributionDemands
from streamer.table.schema import Table
from streamer.table.yaml.loading import table_of

TREE = [["flu", "lung", "*"], ["cough", "lung", "*"], ["ulcer", "belly", "*"]]


def asking(**own: object) -> Table:
    columns: dict[str, object] = {
        "age": {"role": "quasi-identifier", "type": "integer", "domain": [0, 99]},
        "problem": {"role": "sensitive"} | own,
    }
    publish = {"live": {"form": "rows"}}
    return table_of({"table": "t", "key": "id", "privacy": {"k": 2}, "columns": columns, "publish": publish})


def asked(**own: object) -> DistributionDemands | None:
    return asking(**own).kept[0].distribution


def test_a_column_asks_for_all_three() -> None:
    found = asked(entropy_l=2.5, recursive={"c": 3, "l": 2}, t=0.2)
    assert found == DistributionDemands(Decimal("2.5"), (Decimal(3), 2), Decimal("0.2"), EQUAL)
    said = words(asking(entropy_l=2.5), model_of(asking(entropy_l=2.5)))
    assert said == "at least 2 rows and values of problem with at least the entropy of 2.5 equally frequent ones"


def test_the_distance_is_what_the_column_has() -> None:
    assert [one.distance for one in (asked(t=0.2, type="integer"), asked(t=0.2, type="date"), asked(t=0.2)) if one] == [
        ORDERED, ORDERED, EQUAL,
    ]  # fmt: skip
    by_tree, equal = asked(t=0.2, hierarchy=TREE), asked(t=0.2, hierarchy=TREE, distance="equal")
    assert by_tree is not None and equal is not None and (by_tree.distance, equal.distance) == (HIERARCHICAL, EQUAL)


def test_a_distribution_counts_spellings_of_a_value_as_one_and_an_empty_text_as_null() -> None:
    found = asked(t=0.2, distribution={"Flu": 3, "flu ": 1, "": 2})
    assert found is not None and found.reference is not None
    assert (found.reference.values, found.reference.rows) == (("flu",), (2, 4))


def test_a_distribution_is_read_as_the_column_reads_its_values() -> None:
    found = asked(t=0.2, type="integer", domain=[0, 100], distribution={"90": 1, 5000: 99})
    assert found is not None and found.reference is not None
    assert (found.reference.values, found.reference.rows) == (("90", "100"), (0, 1, 99))


def test_a_table_without_these_settings_has_the_fingerprint_that_it_had() -> None:
    assert asking().fingerprint != asking(entropy_l=2.5).fingerprint
    assert asking(t=0.2, distribution={"a": 1}).fingerprint != asking(t=0.2, distribution={"a": 2}).fingerprint


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"distribution": {"flu": 1}}, "columns.problem.distribution: has no effect without columns.problem.t"),
        ({"distance": "ordered"}, "columns.problem.distance: has no effect without columns.problem.t"),
        ({"t": 0.2, "distance": "hierarchical"}, "the column has no hierarchy; give it one, or say `equal`"),
        (
            {"t": 0.2, "hierarchy": TREE, "distribution": {"measles": 1}},
            "columns.problem.distribution: a value: not a leaf of its hierarchy",
        ),
        ({"t": 0.2, "distance": "ordered", "distribution": {"1": 1, "many": 1}}, "say `distance: equal`"),
        ({"entropy_l": 4, "hierarchy": TREE}, "no QI group has l = 4"),
        ({"recursive": {"c": 3}}, "columns.problem.recursive.l: is missing"),
        ({"t": 0.2, "type": "integer", "distribution": {"": 3}}, "must name at least one value"),
        ({"t": 0.2, "distribution": {"measles": 0}}, "columns.problem.distribution: a count: must be at least 1"),
        ({"t": 0.2, "type": "date", "distribution": {"31.12.2019": 3}}, "columns.problem.distribution: a value: "),
        ({"t": 0.2, "type": "integer", "distribution": {"many": 3}}, "columns.problem.distribution: a value: "),
        ({"t": 0.2, "distance": "ordered", "distribution": {"angina": 3}}, "say `distance: equal`"),
        ({"t": 1}, "columns.problem.t: must be below 1"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_the_remedy(own: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        asking(**own)
    assert said in str(refused.value)


def test_a_whole_table_is_compared_with_itself_and_fragments_need_a_distribution() -> None:
    people = pd.DataFrame({"id": range(8), "age": [1, 2, 3, 4, 5, 6, 7, 8], "problem": ["flu", "ulcer"] * 4})
    published = streamer.anonymize(people, asking(t=0.0))
    assert published.groupby("qi_group")["problem"].nunique().tolist() == [2] * published["qi_group"].nunique()
    with pytest.raises(ConfigError, match=r"^columns\.problem\.t: .*`streamer distribution`"):
        Recipe(asking(t=0.2), model_of(asking(t=0.2)), "ordered", Options(), 100)


def test_rows_that_their_distribution_does_not_fit_are_refused_with_the_command_that_writes_another() -> None:
    people = pd.DataFrame({"id": range(4), "age": [1, 2, 3, 4], "problem": ["flu"] * 4})
    with pytest.raises(ConfigError, match="`streamer distribution` writes that of these"):
        streamer.anonymize(people, asking(t=0.2, distribution={"ulcer": 9, "flu": 1}))
