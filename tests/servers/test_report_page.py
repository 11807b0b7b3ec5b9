"""The reports in a real Chromium, as a data protection officer opens them: narrow, wide, dark and on paper.

The table has names that try to be markup, to turn the line round, and to need more room than there is. Pictures of the
page are left in STREAMER_SCREENSHOTS, or else in pytest's folder of the run.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from servers.browser import CONTRAST_MIN, Browser
from streamer.cli.main import main

pytestmark = pytest.mark.night

LONG = "l" * 200
NAMES = ["<script>document.title = 'taken over'</script>", "{{ 7 * 7 }} $x$ & <b>", "abc\u202ecba", LONG, "x\ufffey"]
SECRET, WARD = "</pre><img src=x>", "ward </title>"


@pytest.fixture(scope="module", params=["anonymize", "compare"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a command on 40 rows."""
    folder = tmp_path_factory.mktemp("people")
    columns = [f"  {json.dumps(name)}: {{role: quasi-identifier, type: integer, domain: [0, 9]}}" for name in NAMES]
    columns.append(f"  {json.dumps(SECRET)}: {{role: sensitive}}")
    columns.append(f"  {json.dumps(WARD)}: {{role: keep, acknowledge_linkable: true}}")
    settings = ["table: people  # </pre><script>", "key: id", "columns:", *columns, "privacy: {k: 3}"]
    (folder / "table.yaml").write_text("\n".join([*settings, "publish: {live: {form: rows}}"]) + "\n")
    with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *NAMES, SECRET, WARD])
        rows.writerows(
            [i, *((i * (j + 3)) % 10 for j in range(len(NAMES))), f"s{i % 4}", f"w{i % 3}"] for i in range(40)
        )
    page = folder / f"{request.param}.html"
    out = ["-o", str(folder / "out.csv")] if request.param == "anonymize" else []
    words = [request.param, "--table", str(folder), str(folder / "rows.csv"), "--report", str(page), *out]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_whatever_names_hold_a_person_can_read_it_all(
    chromium: Browser, report: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    chromium.see(width, scheme)
    chromium.open(report.as_uri())
    chromium.picture(f"{report.stem}-{width}-{scheme}", tmp_path)
    assert chromium.width_of_all() <= width
    assert [text for ratio, text in chromium.contrasts() if ratio < CONTRAST_MIN] == []
    assert chromium.run("return [...document.images].filter((i) => !i.naturalWidth).map((i) => i.alt)") == []
    assert chromium.run("return document.scripts.length") == 0
    assert chromium.run("return document.title").startswith("people")
    assert chromium.complaints() == []


def test_on_paper_it_is_black_on_white_whatever_its_reader_prefers(
    chromium: Browser, report: Path, tmp_path: Path
) -> None:
    chromium.see(800, "dark")
    chromium.open(report.as_uri())
    on_paper = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", on_paper)
    chromium.picture(f"{report.stem}-paper", tmp_path)
    colours = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    assert chromium.run(colours) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_guarantee_is_above_all_else(chromium: Browser, report: Path) -> None:
    chromium.see(400)
    chromium.open(report.as_uri())
    assert "at least 3 rows" in chromium.text(".guarantee")
    top = "return document.querySelector('.guarantee').getBoundingClientRect().top"
    assert chromium.run(top) < 900, "on the first screen"
