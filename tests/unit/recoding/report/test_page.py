"""The report of an anonymization: counts, shares and losses; never a value of a row, and nothing beside it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.metrics.measures import WHAT, measure
from streamer.recoding.report.page import page
from worlds.measured_tables import GROUPS, SEVEN


def facts(recoding: Recoding = GROUPS, **changed: Any) -> dict[str, Any]:
    """What `streamer anonymize --json` prints."""
    return {
        "table": "people", "model": "at least 3 rows", "algorithm": "mondrian", "what": "cuts", "source": "somebody",
        "options": {"suppression": 0.25}, "levels": None, "details": {"cuts_made": 1_234_567}, "form": "rows",
        "published": {"out.csv": ["qi_group", "years_lo"]}, "measures": measure(SEVEN, recoding, k_anonymity(3)),
        "seconds": {"anonymize": 1.0}, "k": 3, **changed,
    }  # fmt: skip


def test_it_says_what_was_done_and_every_measure_with_what_it_is() -> None:
    html = page(facts(), SEVEN, GROUPS)
    assert "6 of 7 rows in\n2 QI groups" in html
    assert "cuts made" in html
    assert "1,234,567" in html
    for explained in WHAT.values():
        assert explained.replace("'", "&#39;").replace(">", "&gt;") in html


def test_it_needs_nothing_beside_it() -> None:
    sources = re.findall(r'(?:src|href)="([^"]*)"', page(facts(), SEVEN, GROUPS))
    assert len(sources) == 3  # losses, sizes, the one sensitive column
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


def test_the_same_run_gives_the_same_bytes() -> None:
    assert page(facts(), SEVEN, GROUPS) == page(facts(), SEVEN, GROUPS)


@pytest.mark.parametrize("value", ["flu", "ulcer", "ann", "fay"])
def test_no_value_of_a_row_is_in_it(value: str) -> None:
    assert not re.search(rf"\b{value}\b", page(facts(), SEVEN, GROUPS))


def test_names_are_text() -> None:
    html = page(facts(table="<script>alert()</script>"), SEVEN, GROUPS)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_table_of_which_nothing_is_published_has_a_report_too() -> None:
    nothing = local_recoding(SEVEN, np.full(7, -1))
    html = page(facts(nothing), SEVEN, nothing)
    assert "0 of 7 rows" in html
    assert "Sizes of the QI groups" not in html
    assert "–" in html, "a measure of nothing is a dash"
