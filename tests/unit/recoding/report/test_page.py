"""The report of an anonymization: counts, shares and losses; never a value of a row, and nothing beside it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.metrics.measures import WHAT, measure, measure_joined
from streamer.recoding.report.page import anonymize_page, compare_page
from streamer.recoding.report.provenance import Provenance
from streamer.recoding.report.tradeoffs import ROWS_MAX, Curve
from streamer.table.microdata import Microdata
from worlds.measured_tables import GROUPS, SEVEN


def facts(recoding: Recoding = GROUPS, **changed: Any) -> dict[str, Any]:
    """What `streamer anonymize --json` prints."""
    return {
        "table": "people", "model": "at least 3 rows", "algorithm": "mondrian", "what": "cuts", "source": "somebody",
        "options": {"suppression": 0.25}, "levels": None, "details": {"cuts_made": 1_234_567}, "form": "rows",
        "published": {"out.csv": ["qi_group", "years_lo"]}, "measures": measure(SEVEN, recoding, k_anonymity(3)),
        "seconds": {"anonymize": 1.0}, "k": 3, "left_out": None, **changed,
    }  # fmt: skip


PROVENANCE = Provenance("2025-01-02 03:04 UTC", "1.2.3", "people.csv", "table: people\nkey: <id>\n")


def page(facts: dict[str, Any], microdata: Microdata, recoding: Recoding, curves: tuple[Curve, ...] = ()) -> str:
    return anonymize_page(facts, microdata, recoding, PROVENANCE, curves)


def test_it_says_what_was_done_and_every_measure_with_what_it_is() -> None:
    html = page(facts(), SEVEN, GROUPS)
    assert "6 of 7 rows in\n2 QI groups" in html
    assert "cuts made" in html
    assert "1,234,567" in html
    for explained in WHAT.values():
        assert explained.replace("'", "&#39;").replace(">", "&gt;") in html


def test_rows_that_were_refused_before_are_counted_with_their_reasons() -> None:
    refused = [
        {"reason": "not-a-number", "column": "years", "rows": 1_200},
        {"reason": "x", "column": "city", "rows": 3},
    ]
    left_out = {"rows": 1_203, "of": 1_210, "refused": refused, "list": "left.csv"}
    html = " ".join(page(facts(left_out=left_out), SEVEN, GROUPS).split())
    assert "Of the 1,210 rows of the file, 1,203 were refused before that" in html
    assert ": 1,200 not-a-number (years), 3 x (city)." in html
    assert "refused before" not in page(facts(), SEVEN, GROUPS)


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


def test_it_says_when_it_was_made_by_what_from_what_and_by_which_settings() -> None:
    html = page(facts(), SEVEN, GROUPS)
    assert "2025-01-02 03:04 UTC, by streamer 1.2.3" in html
    assert "people.csv" in html
    assert "key: &lt;id&gt;" in html


def test_the_guarantee_and_the_attackers_come_before_all_measures() -> None:
    html = page(facts(), SEVEN, GROUPS)
    places = [html.index(text) for text in ("at least 3 rows", "Prosecutor", "Journalist", "Marketer", "Measures")]
    assert places == sorted(places)


def test_of_a_lossy_join_it_says_that_nobody_is_hidden_in_it_and_draws_no_loss() -> None:
    measures = measure_joined(SEVEN, GROUPS, k_anonymity(3))
    html = page(facts(form="lossy-join", measures=measures), SEVEN, GROUPS)
    assert "Who is in the table" in html
    assert "<th>Prosecutor</th>" not in html
    assert "What every attribute lost" not in html
    assert "picked out with a chance" not in html


def test_of_a_lossy_join_it_does_not_say_that_people_look_alike() -> None:
    """Its quasi-identifiers are exact: what is open is whose sensitive values are whose."""
    joined = page(facts(form="lossy-join", measures=measure_joined(SEVEN, GROUPS, k_anonymity(3))), SEVEN, GROUPS)
    assert "look alike" in page(facts(), SEVEN, GROUPS)
    assert "look alike" not in joined
    assert "hidden in, counted in rows" not in joined


def test_names_of_any_length_and_direction_stay_in_their_place() -> None:
    published = {"out.csv": ["a" * 255, "b\u202ec"]}
    html = page(facts(published=published), SEVEN, GROUPS)
    assert f"<bdi>{'a' * 255}</bdi>, <bdi>b\u202ec</bdi>" in html
    assert "overflow-wrap: anywhere" in html


def test_settings_are_said_in_words() -> None:
    html = page(facts(options={"merge_equal_boxes": False, "suppression": 0.0}), SEVEN, GROUPS)
    assert "<tr><th>merge equal boxes</th><td>no</td></tr>" in html
    assert "<tr><th>suppression</th><td>0</td></tr>" in html


@pytest.mark.parametrize(("changed", "says"), [({}, False), ({"rows": ROWS_MAX + 1}, True)])
def test_curves_say_where_they_are_of_a_part_of_the_rows(changed: dict[str, int], says: bool) -> None:
    report = compared() | changed
    html = compare_page(report, PROVENANCE, [Curve("k", (2.0, 5.0), (0.1, 0.2), 5)])
    assert "What more privacy would cost" in html
    assert (f"{ROWS_MAX:,} rows drawn from the table" in html.replace("\n", " ")) == says


def compared() -> dict[str, Any]:
    """What `streamer compare --json` prints."""
    ran = {"name": "ordered", "source": "somebody", "what": "cuts", "default": True, "seconds": 0.25,
           "details": {}, "measures": measure(SEVEN, GROUPS, k_anonymity(3))}  # fmt: skip
    cannot = {"name": "ola", "source": "else", "what": "x", "default": False, "cannot": ["it wants <hierarchies>"]}
    return {"table": "people", "rows": 7, "model": "at least 3 rows", "algorithms": [ran, cannot]}


def test_a_comparison_shows_what_each_costs_and_which_cannot() -> None:
    html = compare_page(compared(), PROVENANCE)
    assert "ordered (default)" in html
    assert "ola cannot do this: it wants &lt;hierarchies&gt;" in html
    assert html.count("data:image/svg+xml") == 2
    assert "What more privacy would cost" not in html
