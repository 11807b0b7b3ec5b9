"""No command prints what no one has looked at: every one has its golden file, with all cases that it can come to."""

from __future__ import annotations

import re

import click
import pytest

from docs.generate.commands import all_commands
from streamer.cli.main import main
from worlds.golden_cases import ASK_NO_SERVER, cases, served_cases
from worlds.golden_files import FOLDER, cases_in, file_of

COMMANDS = dict(all_commands())

PLAYED_ELSEWHERE = {
    "demo": "tests/servers/test_demo.py plays it, for longer than all these calls take",
    "end-snapshot": "tests/servers/test_first_snapshot.py holds a snapshot back, which takes a worker",
    "worker": "it runs until it is stopped; tests/servers/test_worker.py reads its log",
}
"""Commands whose success is no golden file, and where it is."""

BREAK_LAWS = {"audit", "doctor", "rebuild", "status", "verify"}
"""Commands that end with 1 for what they have found."""


def told(name: str, ending: str) -> str:
    """All that the file of a command says of calls that end so."""
    return "".join(text for text in cases_in(file_of(name)).values() if re.search(ending, text, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_golden_case_for_every_way_to_end(name: str) -> None:
    options = {parameter.name for parameter in COMMANDS[name].params}
    codes = {2} if name in PLAYED_ELSEWHERE else {0, 2}
    codes |= {3} if options & {"kafka", "redis"} and name not in (*ASK_NO_SERVER, "doctor") else set()
    codes |= {1} if name in BREAK_LAWS else set()
    for code in codes:
        assert told(name, f"^--- on a terminal: exit code {code}$"), f"no case of {name} ends with {code}"
        assert "as_json" not in options or told(name, f"^--- --json: exit code {code}$"), f"{name} --json, {code}"


def test_no_case_is_left_over() -> None:
    asked = {(case.file, case.name) for case in (*cases(), *served_cases())}
    assert {(path, name) for path in FOLDER.iterdir() for name in cases_in(path)} == asked


def test_every_exception_is_of_a_command() -> None:
    assert {*PLAYED_ELSEWHERE, *BREAK_LAWS, *ASK_NO_SERVER} <= set(COMMANDS)


@pytest.mark.parametrize(("name", "command"), list(COMMANDS.items()), ids=list(COMMANDS))
def test_help_fits_80_columns(name: str, command: click.Command) -> None:
    context = click.Context(
        command, info_name=f"streamer {name}", terminal_width=80, max_content_width=80, **main.context_settings
    )
    text = command.get_help(context).partition("Examples:")[0]  # a call is one line, however long
    too_wide = [line for line in text.splitlines() if len(line) > 80 and len(max(line.split(), key=len)) <= 40]
    assert too_wide == []
