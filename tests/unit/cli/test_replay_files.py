"""`streamer replay`: what is written, what is counted, and that an error leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import main
from streamer.incremental.replay import FILES
from worlds.checkout import PATIENTS

EVENTS, ROWS = PATIENTS / "events.jsonl", PATIENTS / "rows.csv"


def replayed(*arguments: str | Path | int) -> Result:
    return CliRunner().invoke(main, ["replay", "--table", str(PATIENTS), *map(str, arguments)])


def releases_in(folder: Path) -> list[int]:
    lines = (folder / "live.jsonl").read_text().splitlines()
    return sorted({json.loads(line)["release"] for line in lines})


@pytest.mark.parametrize("initial", [[], ["--initial", ROWS]], ids=["no initial table", "initial table"])
@pytest.mark.parametrize("out", [True, False], ids=["written", "only counted"])
def test_it_counts_every_release_of_the_changelog(tmp_path: Path, initial: list[str | Path], out: bool) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(EVENTS.read_text() if initial else inserts())
    assert replayed(events, *initial, "--batch", 5, "--out", tmp_path).exit_code == 0
    written = releases_in(tmp_path)
    assert written == list(range(0 if initial else 1, len(written) + (not initial)))
    directory: list[str | Path] = ["--out", tmp_path] if out else []
    counted = replayed(events, *initial, "--batch", 5, *directory, "--json")
    assert json.loads(counted.stdout)["releases"] == len(written) > 1


def inserts() -> str:
    names, *rows = (line.split(",") for line in ROWS.read_text().splitlines())
    changes = ({"op": "insert", "row": dict(zip(names, map(typed, row), strict=True))} for row in rows)
    return "".join(json.dumps(change) + "\n" for change in changes)


def typed(cell: str) -> str | int | float:
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        return float(cell)
    except ValueError:
        return cell


def test_an_initial_table_that_is_all_pending_is_no_release(tmp_path: Path) -> None:
    rows, events = tmp_path / "rows.csv", tmp_path / "events.jsonl"
    header, *lines = ROWS.read_text().splitlines()
    rows.write_text("\n".join([header, *lines[:2]]) + "\n")
    events.write_text("")
    report = json.loads(replayed(events, "--initial", rows, "--out", tmp_path / "out", "--json").stdout)
    assert (report["pending"], report["releases"]) == (2, 0)
    assert releases_in(tmp_path / "out") == []


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_written_where_one_of_them_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    result = replayed(EVENTS, "--initial", ROWS, "--out", tmp_path)
    assert (result.exit_code, [path.name for path in tmp_path.iterdir()]) == (2, [name])
    assert f"{name}: cannot be written: it is a directory" in result.stderr


def test_an_error_on_the_way_leaves_the_files_of_the_run_before(tmp_path: Path) -> None:
    assert replayed(EVENTS, "--initial", ROWS, "--out", tmp_path).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == set(FILES)
    bad = tmp_path.with_name("bad.csv")
    bad.write_text(ROWS.read_text().replace("age", "years"))
    assert replayed(EVENTS, "--initial", bad, "--out", tmp_path).exit_code == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = replayed(EVENTS, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "file: cannot be made: File exists" in result.stderr
