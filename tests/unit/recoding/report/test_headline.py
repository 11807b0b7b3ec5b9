"""What comes before all measures: attackers by name, crowds that are small, values that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.recoding import local_recoding
from streamer.recoding.metrics.measures import measure
from streamer.recoding.report.headline import chance, headlines, rows_at_risk
from streamer.table.microdata import Microdata
from streamer.table.schema import KeptColumn
from worlds.measured_tables import GROUPS, SEVEN


def test_the_attackers_of_seven_people_worked_out_by_hand() -> None:
    """Group 0 has two individuals in three rows, group 1 three: 1/2 at worst, (3/2 + 3/3) / 6 on average."""
    said = {
        found.title: found.figure for found in headlines(measure(SEVEN, GROUPS, k_anonymity(3)), SEVEN, GROUPS, "rows")
    }
    assert said["Prosecutor"] == "1 in 2 at worst, 1 in 2.4 on average"
    assert said["Journalist"] == "1 in 2 at most"
    assert said["Marketer"] == "41.7 % of the rows"
    assert said["problem, of a person whose QI group is known"] == "guessed right with 33.3 % at worst"


def test_that_some_people_have_more_of_a_groups_rows_than_others_is_told() -> None:
    """Ann has two of the three rows of group 0: of two people, but a row of it is hers with 2/3."""
    found = {one.title: one for one in headlines(measure(SEVEN, GROUPS, k_anonymity(3)), SEVEN, GROUPS, "rows")}
    assert found["One row of a person's QI group"].figure == "is hers with 66.7 % at worst"
    assert "picks her out of the people of her QI group" in found["Prosecutor"].sentence
    nobody = replace(SEVEN, individuals=None, table=replace(SEVEN.table, individual=None))
    assert "One row of a person's QI group" not in titles(nobody, "rows")


def test_rows_in_small_crowds_are_counted_by_people_not_by_rows() -> None:
    assert rows_at_risk(SEVEN, GROUPS) == [
        ("1 in 2", 0, "0 %"), ("1 in 3", 3, "50 %"), ("1 in 5", 6, "100 %"), ("1 in 10", 6, "100 %"),
        ("1 in 20", 6, "100 %"),
    ]  # fmt: skip


def test_a_group_that_shares_a_value_is_told() -> None:
    """The two people with a flu, by themselves."""
    recoding = local_recoding(SEVEN, np.array([0, 1, 1, 0, 1, 1, -1]))
    found = headlines(measure(SEVEN, recoding, k_anonymity(2)), SEVEN, recoding, "rows")[-1]
    assert found.figure == "guessed right with 100 % at worst"
    assert found.sentence.startswith("In 1 of 2 QI groups all rows share one value")


def test_of_nothing_that_is_published_nothing_is_found_out() -> None:
    nothing = local_recoding(SEVEN, np.full(7, -1))
    assert headlines(measure(SEVEN, nothing, k_anonymity(3)), SEVEN, nothing, "rows") == []
    assert rows_at_risk(SEVEN, nothing) == []


@pytest.mark.parametrize("form", ["rows", "lossy-join"])
def test_columns_that_are_published_as_they_are_come_with_what_they_do_to_every_chance(form: str) -> None:
    ward = KeptColumn("ward", sensitive=False)
    kept = replace(SEVEN, table=replace(SEVEN.table, kept=(*SEVEN.table.kept, ward)))
    found = headlines(measure(kept, GROUPS, k_anonymity(3)), kept, GROUPS, form)[-1]
    assert (found.title, found.figure) == ("Published as they are", "ward")
    assert "no figure of this page looks at them" in found.sentence
    assert "Published as they are" not in titles(SEVEN, form)


@pytest.mark.parametrize("form", ["rows", "lossy-join"])
def test_where_nobody_says_whose_rows_they_are_it_is_told_that_rows_are_no_people(form: str) -> None:
    nobody = replace(SEVEN, individuals=None, table=replace(SEVEN.table, individual=None))
    assert "Whose rows they are" in titles(nobody, form)
    assert "Whose rows they are" not in titles(SEVEN, form)


def titles(microdata: Microdata, form: str) -> list[str]:
    return [found.title for found in headlines(measure(microdata, GROUPS, k_anonymity(3)), microdata, GROUPS, form)]


def test_a_chance_in_very_many_is_written_out() -> None:
    assert chance(1 / 1_000_000) == "1 in 1,000,000"
