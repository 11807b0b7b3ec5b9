"""`streamer compare`: every algorithm on one table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from streamer.recoding.algorithms.contract import LEFT_OUT, Options
from streamer.recoding.comparison import options_for
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS

ROWS = PATIENTS / "rows.csv"


def compare(*arguments: str | Path) -> Result:
    return streamer("compare", "--table", PATIENTS, ROWS, *arguments)


def compared(*arguments: str | Path) -> dict[str, Any]:
    return answer("compare", "--table", PATIENTS, ROWS, *arguments)


def test_its_figures_are_those_of_anonymize(tmp_path: Path) -> None:
    arguments = ["--table", str(PATIENTS), str(ROWS), "-o", str(tmp_path / "out.csv"), "--json"]
    one = json.loads(streamer("anonymize", *arguments).stdout)
    (other,) = (found for found in compared()["algorithms"] if found["default"])
    assert one["measures"] == other["measures"]


def test_one_that_cannot_do_it_is_listed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    unable = replace(ALGORITHMS[DEFAULT_ALGORITHM], name="unable", objections=lambda *_: ["it does not count problems"])
    monkeypatch.setitem(ALGORITHMS, "unable", unable)
    found = compared()["algorithms"][-1]
    assert (found["name"], found["cannot"]) == ("unable", ["it does not count problems"])
    assert "measures" not in found
    page = compare()
    assert page.exit_code == 0
    assert "unable cannot do this: it does not count problems" in page.stdout


def test_options_go_to_the_algorithms_that_know_them() -> None:
    plain = replace(ALGORITHMS[DEFAULT_ALGORITHM], suppresses=False, refines=False)
    asked = Options(seed=3, suppression=0.1, refine=2)
    none = Options(seed=3, too_wide=LEFT_OUT)
    assert options_for(plain, asked) == none
    assert options_for(replace(plain, suppresses=True), asked) == replace(none, suppression=0.1)
    assert options_for(replace(plain, refines=True), asked) == replace(none, refine=2)


def test_a_model_that_cannot_hold_ends_with_code_2() -> None:
    result = compare("--k", "41")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "40 rows are fewer than k = 41" in result.stderr


def test_the_report_of_a_comparison_is_a_page_of_its_own(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    result = compare("--report", report)
    assert result.exit_code == 0, result.output
    page = report.read_text()
    assert all(f"<td>{name}" in page for name in ALGORITHMS)
    assert "at least 3 rows" in page and "What more privacy would cost" in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 5  # loss and seconds; k, l and beta


def test_the_report_does_not_overwrite_what_is_read(tmp_path: Path) -> None:
    rows = tmp_path / "rows.html"
    rows.write_bytes(ROWS.read_bytes())
    result = streamer("compare", "--table", PATIENTS, rows, "--report", rows)
    assert result.exit_code == 2
    assert "give every output a name of its own" in result.output
    assert rows.read_bytes() == ROWS.read_bytes()
