"""The experiments of the papers: verdicts follow from counts, the page from results, and every paper runs."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import adult as adult_table
from benchmarks.papers import figures, plots, queries, report
from benchmarks.papers.datasets import SHARES, several_records, with_attributes
from benchmarks.papers.figures import Check, Figure, Panel, Paper, check, curve, law, verdict
from streamer.errors import LawViolated
from worlds.checkout import ROOT

SECONDS_MAX = 240

FIGURE = Figure(
    "some-figure",
    "Somebody, figure 1: more",
    "“One is more than the other.”",
    (Panel("", "k", (2, 5), "size", (curve("one", [1.0, 2.00000049]), curve("other", [0.5, None]))),),
    (check("One is more than the other", [True, False], "k", "2 times"),),
    because="it was not measured everywhere",
)
PAPER = Paper("some", "Some, Body: *Thing*, 2001", "Few rows.", (FIGURE,), quick=False, seconds=3)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([(9, 9), (4, 4)], "Reproduced"),
        ([(9, 9), (0, 4)], "Reproduced in part"),
        ([(5, 9), (1, 4)], "Reproduced in part"),
        ([(4, 9), (4, 4)], "Not reproduced"),
        ([(0, 9)], "Not reproduced"),
    ],
)
def test_the_verdict_follows_from_the_points_at_which_the_sentences_hold(
    held: list[tuple[int, int]], expected: str
) -> None:
    assert verdict([Check("so", some, of, "points") for some, of in held]) == expected


def test_no_verdict_rests_on_a_law() -> None:
    holds = law("At least k rows", [True, True], "points")
    assert verdict([holds]) == "Laws alone"
    assert verdict([holds, Check("more", 0, 9, "k")]) == "Not reproduced"
    assert verdict([Check("more", 9, 9, "k"), holds]) == "Reproduced"


def test_no_verdict_rests_on_a_sentence_without_points() -> None:
    """Of no points, all hold."""
    nothing = check("more", [], "steps")
    assert verdict([nothing]) == "Laws alone"
    assert verdict([nothing, check("less", [False], "k")]) == "Not reproduced"


def test_a_law_that_does_not_hold_is_a_fault() -> None:
    with pytest.raises(LawViolated, match="in 1 of 2 points"):
        law("At least k rows", [True, False], "points")


def test_readings_with_different_verdicts_split_the_figure() -> None:
    one, other, both = (
        Check("fewer", 30, 30, "runs", reading="by heights"),
        Check("fewer", 4, 30, "runs", reading="at once"),
        Check("the same", 30, 30, "runs"),
    )
    assert verdict([one, other, both]) == "Split"
    assert verdict([one, both]) == "Reproduced"
    assert verdict([other, both]) == "Not reproduced"


def test_examples_in_the_docstrings_hold() -> None:
    assert all(doctest.testmod(module).failed == 0 for module in (figures, queries, report))


def test_the_page_shows_claim_numbers_and_verdict() -> None:
    page = report.render([PAPER])
    assert "**The paper says:** “One is more than the other.”" in page
    assert "| k | one | other |\n|---|---:|---:|\n| 2 | 1 | 0.5 |\n| 5 | 2 | – |" in page
    assert "**Reproduced in part**, because it was not measured everywhere." in page
    assert "- One is more than the other: in 1 of 2 k (2 times)." in page
    assert "[Somebody, figure 1: more](#somebody-figure-1-more) | reproduced in part |" in page
    assert "quick run" not in page


def test_the_page_tells_laws_apart_and_every_reading() -> None:
    checks = (
        Check("Fewer", 2, 2, "runs", reading="against One's"),
        Check("Fewer", 0, 2, "runs", reading="against Other's"),
        law("At least k rows", [True], "points"),
    )
    page = report.render([replace(PAPER, figures=(replace(FIGURE, checks=checks),))])
    assert "## All figures: 1 split" in page
    assert "laws, and count in none of these verdicts: 1." in page
    assert "- *Law:* At least k rows: in 1 of 1 points." in page
    assert "**Split: reproduced against One's; not reproduced against Other's**" in page


def test_the_same_figures_are_the_same_bytes_without_a_date() -> None:
    first = plots.svg(FIGURE)
    assert first == plots.svg(FIGURE)
    assert b"<dc:date>" not in first
    for text in (b"one", b"other", b"size"):
        assert text in first


@pytest.mark.usefixtures("adult")
@pytest.mark.parametrize("rpi", SHARES)
def test_further_records_repeat_the_person_with_other_sensitive_values(rpi: float) -> None:
    people = several_records(adult_table.microdata_45222(2), rpi, individuals=2_000)
    assert len(people) == round(rpi * 2_000)
    owner = people.individuals
    assert owner is not None
    assert np.unique(owner).tolist() == list(range(2_000))
    assert len(np.unique(np.column_stack([owner, people.codes]), axis=0)) == 2_000
    assert len(np.unique(np.column_stack([owner, people.values]), axis=0)) == len(people)
    records = np.bincount(np.bincount(owner), minlength=4)[1:]
    assert (records / 2_000).tolist() == pytest.approx(list(SHARES[rpi]))


@pytest.mark.usefixtures("adult")
def test_fewer_quasi_identifiers_are_the_first_ones() -> None:
    rows = adult_table.microdata_45222(2)
    some = with_attributes(rows, 3)
    assert [a.name for a in some.table.attributes] == ["sex", "age", "race"]
    assert (some.codes == rows.codes[:, :3]).all()
    assert some.space.d == 3


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
@pytest.mark.parametrize("paper", ["song", "yan", "hu", "gui", "tong"])
def test_a_quick_run_writes_page_plots_and_results(paper: str, tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "papers" / "reproduce.py"
    done = subprocess.run(
        [sys.executable, script, "--quick", "--only", paper, "--out", tmp_path],
        capture_output=True, text=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = json.loads((tmp_path / "results.json").read_bytes())
    assert found["slug"] == paper
    assert found["figures"]
    page = (tmp_path / "README.md").read_text()
    assert "This is a quick run" in page
    for figure in found["figures"]:
        assert figure["checks"] or figure["notes"]
        assert f"![{figure['title']}]({figure['slug']}.svg)" in page
        assert (tmp_path / f"{figure['slug']}.svg").stat().st_size > 1_000
    assert not re.search(r"\bnan\b", page)
