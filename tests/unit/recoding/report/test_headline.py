"""What comes before all measures: attackers by name, crowds that are small, values that are known."""

from __future__ import annotations

import numpy as np

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.recoding import local_recoding
from streamer.recoding.metrics.measures import measure
from streamer.recoding.report.headline import headlines, rows_at_risk
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
