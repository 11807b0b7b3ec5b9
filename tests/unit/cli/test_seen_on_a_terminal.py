"""What a command shows on a terminal while it runs; and that a program sees nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path

from worlds.checkout import PATIENTS, ROOT
from worlds.screens import on_a_terminal

ROWS, EVENTS = str(PATIENTS / "rows.csv"), str(PATIENTS / "events.jsonl")
TABLE = ("--table", str(PATIENTS))
BAR = "\u2501\u2501\u2501"


def is_bar(line: str) -> bool:
    return BAR in line and line.endswith(" s")


def stages_of(*arguments: str) -> list[str]:
    """The names that a bar had, one after the other."""
    lines = [line.split() for line in on_a_terminal(*arguments, errors_too=True) if is_bar(line)]
    return [name for name, _ in groupby(words[0] for words in lines)]


def in_order(seen: list[str], wanted: list[str]) -> bool:
    """Whether all of `wanted` come in `seen`, in this order."""
    rest = iter(seen)
    return all(name in rest for name in wanted)


def test_anonymizing_shows_every_step_from_reading_to_writing(tmp_path: Path) -> None:
    seen = stages_of("anonymize", *TABLE, ROWS, "-o", str(tmp_path / "out.csv"), "--algorithm", "mondrian")
    assert in_order(seen, ["read", "encode", "anonymize", "measure", "write"])


def test_a_replay_shows_its_first_table_before_its_messages(tmp_path: Path) -> None:
    seen = stages_of("replay", *TABLE, EVENTS, "--initial", ROWS, "--out", str(tmp_path / "out"))
    assert in_order(seen, ["read", "anonymize", "load", "replay", "write"])


def test_check_shows_that_it_tries_and_without_costs_does_not() -> None:
    assert in_order(stages_of("check", *TABLE, "--data", ROWS), ["read", "refused", "encode", "try"])
    assert "try" not in stages_of("check", *TABLE, "--data", ROWS, "--no-costs")


def test_into_a_pipe_goes_the_result_alone() -> None:
    for more in ((), ("--json", "--no-costs")):
        line = [sys.executable, "-m", "streamer.cli.main", "check", *TABLE, "--data", ROWS, *more]
        ran = subprocess.run(line, capture_output=True, check=True, cwd=ROOT)
        assert ran.stderr == b""
        assert b"\x1b" not in ran.stdout
    assert json.loads(ran.stdout)["data"]["accepted"] == 40


def test_the_result_comes_after_the_last_bar(tmp_path: Path) -> None:
    lines = on_a_terminal("init", ROWS, "-o", str(tmp_path / "drafted"), errors_too=True)
    last_bar = max(number for number, line in enumerate(lines) if BAR in line)
    assert next(number for number, line in enumerate(lines) if "written:" in line) > last_bar
