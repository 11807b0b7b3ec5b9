"""Golden files: what every command prints, kept as text beside the tests, one file for a command.

A file holds cases, and a case every way in which its call was made. What changes from run to run is put in the place of
a named placeholder, by the rules in RULES and by nothing else. `make golden` writes the files again.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from streamer.cli.main import main
from streamer.cli.support.next_call import WAYS
from worlds.checkout import ROOT
from worlds.screens import COLUMNS, Piped, Screen, in_pipes, on_a_screen

FOLDER = ROOT / "tests" / "golden" / "outputs"
WRITING = os.environ.get("GOLDEN") == "write"
REWRITE = "`make golden` writes what is printed now into the files: read their diff before you keep it"

WHOLE_WORDS_MAX = 30
"""Characters of a word or number that no terminal breaks; what is longer may be folded."""

ANSWERED_BY_CODE = {1: {"LawViolated", "GroupTooLarge"}, 3: {"ServerUnreachable", "RegistryUnreachable"}}
"""The kinds of an error with these exit codes; 2 has all the others."""

RULES: list[tuple[str, str]] = [
    (r"\b127\.0\.0\.1:[0-9]{5}\b", "127.0.0.1:#####"),
    (r"\b[0-9]+(\.[0-9]+)? s\b", "<seconds> s"),
    (r'"((?:[a-z_]*_)?seconds)": [0-9.e-]+', r'"\1": "<seconds>"'),
]
"""What changes from run to run, and what stands for it."""


@dataclass(frozen=True)
class Case:
    """A call of a command. name: what it shows; before: called ahead of each of the ways."""

    command: str
    name: str
    words: tuple[str, ...] = ()
    exit_code: int = 0
    before: Callable[[], None] | None = None
    rules: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    """Whether it takes a process of its own, as what starts an event loop and ends by an error does."""
    verbatim: bool = False
    """Whether stdout is a document for other programs, whose lines are not ours to break."""

    def __str__(self) -> str:
        return f"{self.command}: {self.name}"

    @property
    def call(self) -> str:
        return " ".join(["streamer", self.command, *map(_quoted, self.words)])

    @property
    def file(self) -> Path:
        return file_of(self.command)


def file_of(command: str) -> Path:
    """The golden file of a command."""
    return FOLDER / f"{command.replace(' ', '-')}.txt"


def check(case: Case, takes_json: bool) -> None:
    """Makes the call in every way, holds each to what all output must be, and all to the golden file."""
    parts = [f"$ {case.call}", *_on_terminals(case)]
    if takes_json:
        parts += _for_programs(case)
    _compare(case, _stable("\n".join(parts) + "\n", case.rules))


# -- the ways ---------------------------------------------------------------------------------------------------------


def _on_terminals(case: Case) -> list[str]:
    screen = _screen(case, {"TERM": "xterm-256color"})
    too_wide = [line for line in screen.too_wide if len(max(line.split(), key=len)) <= WHOLE_WORDS_MAX]
    assert case.verbatim or not too_wide, f"lines of more than {COLUMNS} columns: {too_wide}"
    for environment in () if case.apart else ({"TERM": "xterm-256color", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = _screen(case, environment)
        assert _comparable(case, plain.lines) == _comparable(case, screen.lines), f"other words by {environment}"
        coloured = [run for run in plain.runs if set(run[0].split()) - {"bold", "italics", "underscore"}]
        assert not coloured, f"colours in spite of {environment}: {coloured}"
    piped = _piped(case)
    for written in (piped.stdout, piped.stderr):
        assert not re.search(r"[^\n\x20-\x7e\xa0-\uffff]", written), f"control characters in a pipe: {written!r}"
    if not case.verbatim:
        _require_whole_words(case, piped, screen)
    return [
        f"--- on a terminal: exit code {screen.exit_code}", *screen.lines, *_styles(screen),
        *_pipes(case, piped, screen),
    ]  # fmt: skip


def _for_programs(case: Case) -> list[str]:
    piped = _piped(case, "--json")
    said = [json.loads(line) for line in piped.stdout.splitlines()]
    assert len(said) == 1, f"--json prints one document: {piped.stdout!r}"
    if piped.exit_code:
        _check_failure(said[0], piped)
    return [f"--- --json: exit code {piped.exit_code}", json.dumps(said[0], indent=1, ensure_ascii=False)]


def _check_failure(said: dict[str, object], piped: Piped) -> None:
    assert said["ok"] is False
    if "error" not in said:  # a report of what was found, which is complete
        assert piped.exit_code == 1 and not piped.stderr
        return
    assert said["exit_code"] == piped.exit_code
    assert set(said) == {"ok", "error", "hint", "kind", "exit_code"}
    of_code = [code for code, kinds in ANSWERED_BY_CODE.items() if said["kind"] in kinds] or [2]
    assert of_code == [piped.exit_code], f"{said['kind']} ends with {of_code}"


def _screen(case: Case, environment: dict[str, str]) -> Screen:
    if case.before:
        case.before()
    command = None if case.apart else main
    screen = on_a_screen(command, [*case.command.split(), *case.words], {**case.environment, **environment})
    assert screen.exit_code == case.exit_code, screen.lines
    return screen


def _piped(case: Case, *more: str) -> Piped:
    if case.before:
        case.before()
    command = None if case.apart else main
    piped = in_pipes(command, [*case.command.split(), *case.words, *more], case.environment)
    assert piped.exit_code == case.exit_code, piped
    return piped


def _require_whole_words(case: Case, piped: Piped, screen: Screen) -> None:
    """Every word and number of the pipe, where nothing is folded, stands on the terminal, too."""
    words = _words("\n".join(_comparable(case, (piped.stdout + piped.stderr).splitlines())))
    there = _words("\n".join(_comparable(case, screen.lines)))
    broken = {word for word in words - there if len(word) <= WHOLE_WORDS_MAX}
    assert not broken, f"broken or cut on a terminal: {sorted(broken)}"


def _words(text: str) -> set[str]:
    return set(re.sub(r"[\u2500-\u257f]", " ", text).split())


# -- the text ---------------------------------------------------------------------------------------------------------


def _styles(screen: Screen) -> list[str]:
    """What is styled: a line for each style, with its runs in their order."""
    runs: dict[str, dict[str, None]] = {}
    for style, text in screen.runs:
        runs.setdefault(style, {})[text] = None
    return [f"    {style}: {' | '.join(texts)}" for style, texts in runs.items()]


def _pipes(case: Case, piped: Piped, screen: Screen) -> list[str]:
    """Both pipes, or in a word that they are the terminal's lines."""
    shown, there = [], _comparable(case, without_next(screen.lines))
    for name, written in (("stdout", piped.stdout), ("stderr", piped.stderr)):
        lines = _comparable(case, [line.rstrip() for line in written.splitlines()])
        if lines == there and lines:
            shown.append(f"--- piped, {name}: the same")
        elif lines and " ".join(lines).split() == " ".join(there).split():
            shown.append(f"--- piped, {name}: the same, its lines not broken")
        elif lines:
            shown += [f"--- piped, {name}:", *lines]
    return shown


def without_next(lines: list[str]) -> list[str]:
    """What a terminal shows but the calls that come next, which are its last lines and which no pipe gets."""
    return list(takewhile(lambda line: not line.startswith(WAYS[0]), lines))


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word else word


def _stable(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, placeholder in (*rules, *RULES):
        text = re.sub(pattern, placeholder, text, flags=re.MULTILINE)
    return text


def _comparable(case: Case, lines: list[str]) -> list[str]:
    return _stable("\n".join(lines), case.rules).splitlines()


# -- the files --------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"^=== (.*)\n", re.MULTILINE)


def cases_in(path: Path) -> dict[str, str]:
    """The text of each case of a file, by its name."""
    if not path.exists():
        return {}
    _, *parts = _HEAD.split(path.read_text("utf-8"))
    return dict(zip(parts[::2], (part.rstrip("\n") + "\n" for part in parts[1::2]), strict=True))


def _compare(case: Case, text: str) -> None:
    there = cases_in(case.file)
    if WRITING:
        there[case.name] = text
        case.file.write_text("\n".join(f"=== {name}\n{told}" for name, told in sorted(there.items())), "utf-8")
        return
    wanted = there.get(case.name, "")
    name = case.file.relative_to(ROOT)
    lines = difflib.unified_diff(wanted.splitlines(), text.splitlines(), f"{name}: {case.name}", "now", lineterm="")
    assert text == wanted, "\n".join(["the output is another than the golden file's:", *lines, REWRITE])
