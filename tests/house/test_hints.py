"""What messages and help tell someone to call exists: commands and options."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import click
import pytest

from docs.generate.commands import all_commands
from worlds.checkout import ROOT
from worlds.documents import calls_in, check_options, check_whole, hints_in

EXAMPLES_MAX = 3


def texts() -> Iterator[str]:
    """Every text in the source of both packages; what is filled in when it is said is an X."""
    for folder in ("streamer", "agents"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside: set[int] = set()
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    inside |= {id(part) for part in node.values}
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                    yield node.value


@cache
def hints() -> list[str]:
    """All of them. Not read where tests are collected, which every process of a run does."""
    return sorted({hint for text in texts() for hint in hints_in(text)})


def test_what_messages_tell_someone_to_call_exists() -> None:
    for hint in hints():
        check_options(hint)


def test_enough_hints_are_found_for_this_to_mean_something() -> None:
    assert {"streamer topics create", "streamer produce --truncate"} <= set(hints())
    assert len(hints()) >= 25


def test_a_hint_that_names_no_command_or_no_option_is_told() -> None:
    with pytest.raises(AssertionError):
        check_options("streamer rebuld --wait")
    with pytest.raises(AssertionError):
        check_options("streamer rebuild --from-source")


@pytest.mark.parametrize(("name", "command"), list(all_commands()), ids=[name for name, _ in all_commands()])
def test_help_ends_with_calls_that_click_takes(name: str, command: click.Command) -> None:
    shown = (command.epilog or "").partition("Examples:\n")[2].splitlines()
    assert 1 <= len(shown) <= EXAMPLES_MAX
    calls = calls_in("\n".join(line.strip() for line in shown))
    assert len(calls) == len(shown)
    for call in calls:
        assert call.startswith(f"streamer {name}")
        check_whole(call)
