"""What the reports of `anonymize` and `compare` say of where they come from."""

from __future__ import annotations

import sys
from html import unescape
from pathlib import Path

import pytest

from streamer.cli.batch.reports import compare_report
from streamer.table.sources import RowSource
from worlds.calls import streamer
from worlds.checkout import PATIENTS

NOTHING = {"table": "people", "rows": 7, "model": "at least 3 rows", "algorithms": []}


def test_a_report_names_its_file_without_the_folder_and_holds_the_text_of_table_yaml(tmp_path: Path) -> None:
    page = unescape(compare_report(NOTHING, str(PATIENTS), RowSource(str(tmp_path / "people.csv")).name, ()))
    assert "<td>people.csv</td>" in page
    assert str(tmp_path) not in page
    assert (PATIENTS / "table.yaml").read_text(encoding="utf-8") in page


@pytest.mark.parametrize("command", ["anonymize", "compare"])
def test_without_what_writes_reports_one_is_refused_before_any_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    out = ["-o", tmp_path / "out.csv"] if command == "anonymize" else []
    result = streamer(command, "--table", PATIENTS, "missing.csv", *out, "--report", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "jinja2 is not installed: `pip install 'streamer[report]'` brings it" in result.stderr
    assert not list(tmp_path.iterdir())
