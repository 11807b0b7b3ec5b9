"""What the reports of `anonymize` and `compare` say of where they come from."""

from __future__ import annotations

from html import unescape
from pathlib import Path

from streamer.cli.reports import compare_report
from worlds.checkout import PATIENTS

NOTHING = {"table": "people", "rows": 7, "model": "at least 3 rows", "algorithms": []}


def test_a_report_names_its_file_without_the_folder_and_holds_the_text_of_table_yaml(tmp_path: Path) -> None:
    page = unescape(compare_report(NOTHING, str(PATIENTS), tmp_path / "people.csv", ()))
    assert "<td>people.csv</td>" in page
    assert str(tmp_path) not in page
    assert (PATIENTS / "table.yaml").read_text(encoding="utf-8") in page
