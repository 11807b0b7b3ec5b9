"""Sentences at the head of a report that are about table.yaml alone, and the limits of those about rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from streamer.recoding.algorithms.contract import local_recoding
from streamer.recoding.report.cautions import MANY_LEAVES, MANY_QUASI_IDENTIFIERS, cautions
from streamer.recoding.report.findings import findings
from streamer.table.codes import CategoricalAttribute
from streamer.table.data_warnings import StandIns
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Table
from worlds.microdata import GROUPS, SEVEN
from worlds.small_tables import YEARS

NOBODY = findings(SEVEN, local_recoding(SEVEN, np.full(7, -1)), "rows", ())
CALM = replace(SEVEN.table, k=3)


def flat(leaves: int) -> CategoricalAttribute:
    return CategoricalAttribute("town", Hierarchy.from_rows([[f"t{i}", "*"] for i in range(leaves)]), Decimal(1))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (CALM, []),
        (replace(CALM, k=2), ["k = 2: whoever knows a person's box"]),
        (replace(CALM, attributes=(YEARS,) * MANY_QUASI_IDENTIFIERS), ["15 quasi-identifiers are many"]),
        (replace(CALM, attributes=(YEARS,) * (MANY_QUASI_IDENTIFIERS - 1)), []),
        (replace(CALM, attributes=(flat(MANY_LEAVES),)), ["flat hierarchies (town)"]),
        (replace(CALM, attributes=(flat(MANY_LEAVES - 1),)), []),
    ],
)
def test_settings_that_may_be_meant_otherwise_alarm_nobody(table: Table, says: list[str]) -> None:
    said = cautions(table, "rows", NOBODY, {})
    assert said.cautions == []
    assert [sentence.startswith(part) for sentence, part in zip(said.to_know, says, strict=True)] == [True] * len(says)


def test_an_open_value_alarms_unless_all_of_them_are_the_commonest_value() -> None:
    found = findings(SEVEN, GROUPS, "rows", ()) | {"values_of_one": []}
    one: dict[str, Any] = {**found["inference"][0], "known_rows": 4, "agreed_rows": 0, "usual": 0.5}

    def said(usual_rows: int) -> tuple[int, int]:
        told = cautions(CALM, "rows", found | {"inference": [one | {"usual_rows": usual_rows}]}, {})
        return len(told.cautions), len(told.to_know)

    assert [said(n) for n in (0, 3, 4)] == [(1, 0), (1, 0), (0, 1)]


def test_a_capped_value_of_a_kept_column_is_said_and_one_that_is_not_is_not() -> None:
    name = SEVEN.table.kept[0].name
    (said,) = cautions(CALM, "rows", NOBODY, {name: StandIns(0, 2)}).to_know
    assert said.startswith(f"{name}: 2 rows lie outside the domain")
    assert cautions(CALM, "rows", NOBODY, {name: StandIns(0, 0)}).to_know == []
