"""The documents that people read, and the commands that they show: lines of shell blocks, and calls in backticks.

A block behind `<!-- runs: no servers -->` runs whole and as it stands, one behind `<!-- runs: FILE -->` in that file of
tests. In all others each line is a command by itself.
An inline call is one that says more than a command's name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from docs.generate.commands import all_commands
from streamer.cli.main import COMMANDS, main
from worlds.checkout import ROOT

BY_HAND = tuple(
    path
    for pattern in ("README.md", "docs/*.md", "docs/how-to/*.md", "docs/explanation/*.md", "examples/**/README*")
    for path in sorted(ROOT.glob(pattern))
)
"""Documents that people write; docs/reference is made of the code, docs/papers by the benchmarks of the papers."""

ALL = (
    *BY_HAND,
    *(
        path
        for folder in ("docs", "benchmarks", "streamer")
        for path in sorted(ROOT.glob(f"{folder}/**/*.md"))
        if path not in BY_HAND
    ),
)
"""Every document, those of docs/ first."""

ALONE = "<!-- runs: no servers -->\n"
ELSEWHERE = r"^<!-- runs: (tests/\S+) -->\n```(?:sh|python)\n(.*?)^```$"
PROGRAMS = ("streamer ", "make ", "docker ", "pip ", "kafka-", "examples/")
"""What a call in backticks begins with."""

NAMES = {name for name, _ in all_commands()}


@dataclass(frozen=True, slots=True)
class Shown:
    """A command as a document shows it, without its comment."""

    document: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}: {self.text}"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def blocks_alone(text: str) -> list[str]:
    """The shell blocks that need no servers, as they stand."""
    return re.findall(rf"^{re.escape(ALONE)}```sh\n(.*?)^```$", text, re.M | re.S)


def blocks_elsewhere(text: str) -> list[tuple[str, str]]:
    """The blocks that a test of their own runs, behind the names of its file."""
    return re.findall(ELSEWHERE, text, re.M | re.S)


def block_for(test: str, document: str, has: str = "") -> str:
    """The block of a document that a file of tests runs, with these words; there must be one."""
    found = blocks_elsewhere((ROOT / document).read_text("utf-8"))
    (block,) = (block for name, block in found if name == name_of(Path(test)) and has in block)
    return block


def commands_of_blocks(text: str) -> Iterator[str]:
    """Every line of the shell blocks that are not run whole."""
    for block in blocks(re.sub(r"^<!-- runs: .* -->\n```sh$", "```run", text, flags=re.M), "sh"):
        yield from filter(None, (re.split(r"(?:^|\s+)#\s", line)[0].strip() for line in block.splitlines()))


def inline_commands(text: str) -> Iterator[str]:
    """Calls in backticks that say more than a program's or a command's name."""
    for said in re.findall(r"`([^`]+)`", without_blocks(text)):
        words = " ".join(said.split())
        call = re.sub(r"^(?:[A-Z_]+=\S+ )*", "", words)
        if call.startswith(PROGRAMS) and not is_a_name(call):
            yield words


def hints_in(text: str) -> Iterator[str]:
    """Calls in backticks: whole ones, and those that leave `streamer` out and say more than a command's name.

    >>> list(hints_in("`streamer anonymize - -o - <rows.csv | tail -n +2`, then `rebuild --wait`, not `rebuild`"))
    ['streamer anonymize - -o - <rows.csv', 'streamer rebuild --wait']
    """
    for said in re.findall(r"`([^`]+)`", text):
        words = re.sub(r"\s+", " ", said).partition(" | ")[0].strip()  # what a call is piped to has other options
        first, _, more = words.partition(" ")
        if first == "streamer" and more and not more.startswith("-"):
            yield words
        elif first in COMMANDS and more.startswith("--"):
            yield f"streamer {words}"


def is_a_name(call: str) -> bool:
    """
    >>> is_a_name("streamer dead-letters retry"), is_a_name("streamer"), is_a_name("streamer connect sink --table mine")
    (True, True, False)
    """
    program, _, more = call.partition(" ")
    if not more:
        return not program.endswith(".sh")
    return program == "streamer" and any(f"{name} ".startswith(f"{more} ") for name in NAMES)


def shown() -> list[Shown]:
    """Every command of every document that is not run with its whole block; each once, in the documents' order."""
    found: dict[str, Shown] = {}
    for path in ALL:
        text = path.read_text("utf-8")
        for command in (*commands_of_blocks(text), *inline_commands(text)):
            found.setdefault(command, Shown(name_of(path), command))
    return list(found.values())


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
        if parameter.nargs == -1 and not isinstance(value, list | tuple):
            value = None  # click has a value of its own for no words
        assert value is not None or not parameter.required, f"{call}: lacks {parameter.name}"
        if value is not None and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)
