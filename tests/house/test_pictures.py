"""Pictures show what is: those that need no browser are what `make pictures` would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import pictures


@pytest.mark.slow
def test_readme_begins_with_a_table_before_and_after() -> None:
    (block,) = pictures.FIRST_TABLE.findall(pictures.README.read_text("utf-8"))
    assert block == pictures.first_table(), "`make pictures` writes it anew"


@pytest.mark.slow
def test_the_terminal_shows_what_the_commands_print() -> None:
    assert pictures.TERMINAL.read_text("utf-8") == pictures.terminal(), "`make pictures` takes it again"


@pytest.mark.parametrize("picture", [pictures.TERMINAL, pictures.REPORT, pictures.PAGE], ids=lambda path: path.name)
def test_a_picture_is_small_and_asks_for_nothing_from_elsewhere(picture: Path) -> None:
    assert 1_000 < picture.stat().st_size < 100_000
    assert b"url(h" not in picture.read_bytes()


def test_without_a_browser_two_are_skipped_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing")
    for name, value in {"README": readme, "FOLDER": tmp_path, "TERMINAL": tmp_path / "t.svg", "ROOT": tmp_path}.items():
        monkeypatch.setattr(pictures, name, value)
    monkeypatch.setattr(pictures, "REPORT", tmp_path / "report.png")
    monkeypatch.setattr(pictures, "PAGE", tmp_path / "page.png")
    monkeypatch.setattr(pictures, "first_table", str)
    monkeypatch.setattr(pictures, "terminal", str)
    monkeypatch.setattr(pictures, "BROWSERS", ())
    pictures.main()
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said if "SKIPPED" in line] == ["report.png", "page.png"]
