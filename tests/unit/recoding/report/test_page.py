"""The report of an anonymization: counts, shares and losses; never a value of a row; a single file."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from html import unescape
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED, measure, measure_joined
from streamer.recoding.report.findings import drawn_of, findings, share_bins
from streamer.recoding.report.page import (
    BINS_MAX,
    MEANING,
    NAME_MAX,
    OF_INDIVIDUALS,
    SEEN_BESIDE,
    WIDTH,
    Provenance,
    anonymize_page,
    bars,
    chance,
    compare_page,
    group_sizes,
    largest_shares,
    meanings,
    tradeoff,
    unjudged,
)
from streamer.recoding.report.tradeoffs import ROWS_MAX, Curve
from streamer.table.codes import KeptColumn
from streamer.table.microdata import Microdata
from worlds.microdata import GROUPS, SEVEN

# What measures mean to a layman.


def test_every_measure_has_a_plain_sentence_and_nothing_else_has_one() -> None:
    assert set(MEANING) == {*WHAT, *WHAT_JOINED}
    assert all(sentence.endswith(".") for sentence in MEANING.values())


def test_without_declared_individuals_nothing_is_said_of_people() -> None:
    assert unjudged(facts(), SEVEN.table) == {}
    reasons = unjudged(facts(data=UNDECLARED), UNDECLARED.table)
    assert set(reasons) == set(OF_INDIVIDUALS)
    html = page(facts(data=UNDECLARED), UNDECLARED, GROUPS)
    for name in OF_INDIVIDUALS:
        assert "table.yaml" in reasons[name]
        assert f'<tr><th>{name}</th><td class="n">–</td>' in html


def test_a_lossy_join_hides_no_one() -> None:
    joined = meanings("lossy-join", {})
    assert set(joined) == set(MEANING)
    assert "hidden" in MEANING["k"] and "hidden" not in joined["k"]


# What comes before all measures: attackers by name, crowds that are small, values that are known.


UNDECLARED = replace(SEVEN, individuals=None, table=replace(SEVEN.table, individual=None))
"""The same seven rows, of which table.yaml does not say whose they are."""

both_forms = pytest.mark.parametrize("form", ["rows", "lossy-join"])


FINDING = re.compile('<tr><th>([^<]*)</th><td><strong>([^<]*)</strong><span class="meaning">(.*?)</span>', re.DOTALL)


def found_out(data: Microdata = SEVEN, recoding: Recoding = GROUPS, form: str = "rows") -> dict[str, tuple[str, str]]:
    """Every finding of the page by its title: the figure, and the sentence."""
    html = page(facts(recoding, data, form=form), data, recoding)
    return {unescape(title): (figure, " ".join(text.split())) for title, figure, text in FINDING.findall(html)}


def test_the_attackers_of_seven_people_worked_out_by_hand() -> None:
    """Group 0 has two individuals in three rows, group 1 three: 1/2 at worst, (3/2 + 3/3) / 6 on average."""
    said = {title: figure for title, (figure, _) in found_out().items()}
    assert said["Prosecutor"] == "1 in 2 at worst, 1 in 2.4 on average"
    assert said["Journalist"] == "1 in 2 at most"
    assert said["Marketer"] == "41.7 % of the rows"
    assert said["problem, of a person whose QI group is known"] == "guessed right with 33.3 % at worst"


def test_the_report_says_if_some_people_have_more_rows_of_a_group_than_others() -> None:
    """Ann has two of the three rows of group 0: of two people, but a row of it is hers with 2/3."""
    figure, _ = found_out()["One row of a person's QI group"]
    assert figure == "is hers with 66.7 % at worst"
    assert "picks her out of the people of her QI group" in found_out()["Prosecutor"][1]
    assert "One row of a person's QI group" not in found_out(UNDECLARED)


def test_rows_in_small_crowds_are_counted_by_people_not_by_rows() -> None:
    after = facts()["report"]["after"]
    assert [one["rows"] for one in after["at_risk"]] == [0, 3, 6, 6, 6]
    assert (after["smallest"], after["alone"], after["rows"]) == (2, 0, 6)


def test_the_report_says_if_all_rows_of_a_group_share_a_value() -> None:
    """The two people with a flu, by themselves."""
    recoding = local_recoding(SEVEN, np.array([0, 1, 1, 0, 1, 1, -1]))
    figure, sentence = found_out(recoding=recoding)["problem, of a person whose QI group is known"]
    assert figure == "guessed right with 100 % at worst"
    assert sentence.startswith("In 1 of 2 QI groups (2 rows) all rows share one value: there it is known of everybody.")
    assert found_out()["problem, of a person whose QI group is known"][1].startswith("In no QI group")


def test_of_nothing_that_is_published_nothing_is_found_out() -> None:
    nothing = local_recoding(SEVEN, np.full(7, -1))
    assert found_out(recoding=nothing) == {}
    assert facts(nothing)["report"]["after"] is None


@both_forms
def test_columns_that_are_published_as_they_are_are_said_with_what_they_do_to_every_chance(form: str) -> None:
    ward = KeptColumn("ward", sensitive=False)
    table, wards = replace(SEVEN.table, kept=(*SEVEN.table.kept, ward)), np.zeros((len(SEVEN), 1), dtype=np.int64)
    kept = replace(SEVEN, table=table, values=np.hstack([SEVEN.values, wards]), texts=(*SEVEN.texts, (b'"one"',)))
    figure, sentence = found_out(kept, form=form)["Published as they are"]
    assert figure == "ward"
    assert "the chances of a prosecutor who knows all of them" in sentence
    assert "Published as they are" not in found_out(form=form)


@both_forms
def test_without_declared_individuals_the_report_says_that_rows_are_not_people(form: str) -> None:
    assert "Whose rows they are" in found_out(UNDECLARED, form=form)
    assert "Whose rows they are" not in found_out(form=form)


def test_a_chance_in_very_many_is_written_out() -> None:
    assert chance(1 / 1_000_000) == "1 in 1,000,000"


# The pictures of a report: SVG, the same bytes every time, and no markup out of a column's name.

PREFIX = "data:image/svg+xml;base64,"


def drawn(uri: str) -> ElementTree.Element:
    assert uri.startswith(PREFIX)
    return ElementTree.fromstring(b64decode(uri.removeprefix(PREFIX)))


def texts(uri: str) -> str:
    return " ".join(drawn(uri).itertext())


def numbers(uri: str, tag: str, *names: str) -> list[tuple[float, ...]]:
    """Attributes of all elements of a kind, in order."""
    found = (element for element in drawn(uri).iter() if element.tag.endswith(f"}}{tag}"))
    return [tuple(float(element.attrib[name]) for name in names) for element in found]


def test_a_bar_is_as_long_as_its_value_is_large() -> None:
    uri = bars(["age", "zip", "city"], [0.25, 1.0, 0.0], "NCP of the attribute")
    (begin, age), (_, zip_), (_, city) = numbers(uri, "rect", "x", "width")
    assert (age, city) == (pytest.approx(zip_ / 4, abs=0.1), 0)
    assert begin < begin + zip_ < WIDTH
    assert not numbers(bars([], [], "NCP of the attribute"), "rect", "width")


def test_a_bar_has_the_height_of_its_number_of_groups_and_the_place_of_their_size() -> None:
    two, one, nine = numbers(group_sizes(np.array([3, 3, 4, 9])), "rect", "x", "y", "width", "height")
    assert two[3] == pytest.approx(2 * one[3], abs=0.2) and one[3] == nine[3]
    assert two[1] + two[3] == pytest.approx(one[1] + one[3], abs=0.2), "all stand on one axis"
    assert nine[0] - two[0] == pytest.approx(6 * (one[0] - two[0]), abs=0.2)


def test_in_powers_of_ten_a_bar_of_one_group_has_a_height() -> None:
    many, one = numbers(group_sizes(np.array([5] * 1000 + [6])), "rect", "height")
    assert 0 < one[0] < many[0] < 20 * one[0]


@pytest.mark.parametrize(("constraint", "rises"), [("k", True), ("beta", False)])
def test_a_curve_goes_through_its_points_and_gets_stricter_to_the_right(constraint: str, rises: bool) -> None:
    points = numbers(tradeoff(Curve(constraint, (0.2, 0.4, 0.8), (0.1, 0.2, 0.3), 0.4)), "circle", "cx", "cy")
    across, down = zip(*points, strict=True)
    assert list(across) == sorted(across, reverse=not rises)
    assert across[2] - across[1] == pytest.approx(2 * (across[1] - across[0]), abs=0.2)
    assert down[0] - down[1] == pytest.approx(down[1] - down[2], abs=0.2)
    assert down[0] > down[2] > 0, "what loses more stands higher"


def test_the_numbers_of_an_axis_are_round_and_reach_from_end_to_end() -> None:
    shown = texts(largest_shares(share_bins(np.array([0.2, 1.0, 1.0]))))
    assert shown.split()[:6] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert "share of the most frequent sensitive value" in shown
    shown = texts(tradeoff(Curve("k", (2, 100), (0.0, 0.0), None)))
    assert shown.split()[:5] == ["20", "40", "60", "80", "100"]


@pytest.mark.parametrize("sizes", [[3], [3, 3, 4, 9], list(range(1, 10 * BINS_MAX)), [2, 10**6]])
def test_sizes_of_any_spread_are_drawn(sizes: list[int]) -> None:
    uri = group_sizes(np.array(sizes))
    assert "QI groups" in texts(uri)
    assert uri == group_sizes(np.array(sizes))


@pytest.mark.parametrize(("most", "says"), [(SEEN_BESIDE, False), (SEEN_BESIDE + 1, True)])
def test_one_group_can_be_seen_next_to_very_many_of_another_size(most: int, says: bool) -> None:
    assert ("powers of ten" in texts(group_sizes(np.array([5] * most + [60])))) == says


@pytest.mark.parametrize(("constraint", "now"), [("k", 5), ("l", None), ("alpha", 0.5), ("beta", None)])
def test_a_curve_names_its_demand_and_what_is_asked_now(constraint: str, now: float | None) -> None:
    shown = texts(tradeoff(Curve(constraint, (0.3, 0.5), (0.2, 0.1), now)))
    assert f"{constraint}: " in shown and "NCP" in shown
    assert ("asked for now" in shown) == (now is not None)


def test_a_name_is_text_whatever_is_in_it() -> None:
    shown = texts(bars(["<b>&", "a$b$c"], [0.1, 0.2], "NCP of the attribute"))
    assert "<b>&" in shown
    assert "a$b$c" in shown


@pytest.mark.filterwarnings("error")
def test_a_long_name_leaves_room_for_its_bar() -> None:
    shown = texts(bars(["a" * 255, "zip"], [0.1, 0.2], "NCP of the attribute"))
    assert "a" * (NAME_MAX - 1) + "…" in shown
    assert "a" * NAME_MAX not in shown


def test_what_no_picture_can_hold_of_a_name_is_shown_as_such() -> None:
    assert "x\ufffdy" in texts(bars(["x\ufffey"], [0.1], "NCP of the attribute"))


HEADER = ("id", "ssn", "years", "city", "problem", "name")
DIGESTS = {"input": {"people.csv": "0a"}, "output": {"out.csv": "0b"}, "settings": {"table.yaml": "0c"}}


def facts(recoding: Recoding = GROUPS, data: Microdata = SEVEN, form: str = "rows", **changed: Any) -> dict[str, Any]:
    """What `streamer anonymize --json` prints."""
    return {
        "table": "people", "model": "at least 3 rows", "algorithm": "mondrian", "what": "cuts", "source": "somebody",
        "options": {"suppression": 0.25, "keep_equal_boxes": False},
        "levels": None, "details": {"cuts_made": 1_234_567}, "form": form,
        "published": {"out.csv": ["qi_group", "years_lo"]}, "measures": measure(data, recoding, k_anonymity(3)),
        "report": findings(data, recoding, form, HEADER) | {"sha256": DIGESTS},
        "seconds": {"anonymize": 1.0}, "k": 3, "left_out": None, "warnings": [], "cautions": [],
        "to_know": [], **changed,
    }  # fmt: skip


PROVENANCE = Provenance("2025-01-02 03:04 UTC", "1.2.3", "people.csv", "table: people\nkey: <id>\n")


def page(facts: dict[str, Any], microdata: Microdata, recoding: Recoding, curves: tuple[Curve, ...] = ()) -> str:
    return anonymize_page(facts, microdata.table, drawn_of(microdata, recoding), PROVENANCE, curves)


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


def test_a_report_is_a_single_file() -> None:
    sources = re.findall(r'(?:src|href)="([^"]*)"', page(facts(), SEVEN, GROUPS))
    assert len(sources) == 3  # losses, sizes, the one sensitive column
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


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


def test_the_report_of_a_lossy_join_says_that_no_one_is_hidden_and_draws_no_loss() -> None:
    measures = measure_joined(SEVEN, GROUPS, k_anonymity(3))
    html = page(facts(form="lossy-join", measures=measures), SEVEN, GROUPS)
    assert "Who is in the table" in html
    assert "<th>Prosecutor</th>" not in html
    assert "What every attribute lost" not in html
    assert '<td class="n">3 (42.9 %)</td><td class="n">2 (33.3 %)</td>' in html, "as many rows alone as cells leave"


def test_warnings_of_the_data_are_part_of_it() -> None:
    html = page(facts(warnings=["individual column who: 4 texts are 2 in several spellings"]), SEVEN, GROUPS)
    assert "<p>Individual column who: 4 texts are 2 in several spellings.</p>" in html


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
    html = page(facts(options={"keep_equal_boxes": False, "suppression": 0.0}), SEVEN, GROUPS)
    assert "<tr><th>keep equal boxes</th><td>no</td></tr>" in html
    assert "<tr><th>suppression</th><td>0</td></tr>" in html


@pytest.mark.parametrize(("changed", "says"), [({}, False), ({"rows": ROWS_MAX + 1}, True)])
def test_curves_say_where_they_are_of_a_part_of_the_rows(changed: dict[str, int], says: bool) -> None:
    report = compared() | changed
    html = compare_page(report, PROVENANCE, [Curve("k", (2.0, 5.0), (0.1, 0.2), 5)])
    assert "What more privacy would cost" in html
    assert (f"sample of {ROWS_MAX:,} rows" in html.replace("\n", " ")) == says


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
