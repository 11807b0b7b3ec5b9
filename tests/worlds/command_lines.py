"""Calls of `streamer` as texts show them, read the way click reads them."""

from __future__ import annotations

import re
import shlex

import click

from streamer.cli.main import main

CALL = re.compile(r"(?:^|[|&] )(streamer [^|&<>\n]*)", re.MULTILINE)
"""A call in a line of a shell, behind others or not."""


def calls_in(text: str) -> list[str]:
    """The calls of `streamer` in lines of a shell, without what a comment says."""
    return [call.partition("  #")[0].strip() for call in CALL.findall(re.sub(r"^\$ ", "", text, flags=re.MULTILINE))]


def command_named(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words begin with, and the words after its name."""
    command: click.Command = main
    while isinstance(command, click.Group):
        if command is not main and (not words or (command.invoke_without_command and words[0].startswith("--"))):
            break  # the command is named that has others below it
        found = command.get_command(click.Context(command), words[0]) if words else None
        assert found is not None, f"there is no command {' '.join(words[:2])!r} in {command.name}"
        command, words = found, words[1:]
    return command, words


def check_options(call: str) -> None:
    """Asserts that the command of a call, or of a part of one, exists, and the options that it names."""
    command, words = command_named(shlex.split(call)[1:])
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-") and word != "-"} <= known | {"--help"}


def check_whole(call: str) -> None:
    """Asserts that a call says all that its command asks for, in values that it takes; no file is looked for."""
    command, words = command_named(shlex.split(call)[1:])
    context = click.Context(command, **main.context_settings)  # click keeps the names of --help that it sees first
    values, left, _ = command.make_parser(context).parse_args(words)
    assert left == [], call
    for parameter in command.params:
        value = values.get(parameter.name or "")
        assert value is not None or not parameter.required, f"{call}: lacks {parameter.name}"
        if value is not None and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)
